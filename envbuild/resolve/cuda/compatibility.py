"""The CUDA among locked wheels: what it is, what it needs of a driver and a GPU, and whether that fits together.

What does not fit is refused when it is locked, naming what would. What the tables do not know, since it is newer than
they are, is reported and not refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from envbuild.core.text import quote
from envbuild.errors import ResolveError
from envbuild.lockfile.hardware import Cuda, GpuDevice, Hardware
from envbuild.lockfile.model import PythonPackage
from envbuild.resolve.cuda import table as tables
from envbuild.resolve.cuda.support import (
    cuda_for,
    has_kernels,
    having,
    other_python,
    perhaps_model,
    suits,
    supporting,
    version_for,
)
from envbuild.resolve.cuda.table import numbers

_RUNTIME = "nvidia-cuda-runtime"


def cuda_of(packages: Iterable[PythonPackage], frameworks: Mapping[str, str]) -> Cuda | None:
    """Return the CUDA among the wheels, or None if there is none.

    Args:
        packages: the locked wheels.
        frameworks: version of each framework, as ``policy.frameworks_of`` gives them.

    Raises:
        ResolveError: two CUDA majors are there, so that what a program loads depends on what it imports first.
    """
    versions = {package.name: package.version for package in packages}
    _check_majors(versions)
    runtimes = {name: version for name, version in versions.items() if name.startswith(_RUNTIME)}
    version = next(iter(runtimes.values()), "") or _labelled(frameworks.get("torch", ""))
    if not version:
        return None
    major, minor = numbers(version)[:2]
    cuda = f"{major}.{minor}"
    suffixes = (f"-cu{major}", "") if major < 13 else ("", f"-cu{major}")

    def wheel(name: str) -> str:
        found = next((versions[name + suffix] for suffix in suffixes if name + suffix in versions), "")
        return ".".join(map(str, numbers(found)[:5]))

    return Cuda(
        version=cuda,
        cudnn=wheel("nvidia-cudnn"),
        cublas=wheel("nvidia-cublas"),
        nccl=wheel("nvidia-nccl"),
        driver=tables.floor_driver(cuda),
        toolkit_driver=tables.toolkit_driver(cuda),
        architectures=_architectures(frameworks, cuda),
    )


def check_compatible(
    cuda: Cuda, frameworks: Mapping[str, str], python: str, hardware: Hardware, *, asked: str = "auto", cudnn: str = ""
) -> tuple[str, ...]:
    """Refuse what cannot run; return sentences on what the tables do not know or a person should know.

    Args:
        cuda: what is locked.
        frameworks: version of each framework.
        python: feature release of the image's Python.
        hardware: what a host must be.
        asked, cudnn: what the spec asks for.

    Raises:
        ResolveError: with what would work.
    """
    _check_asked(cuda, asked, cudnn)
    notes = [*_frameworks(cuda, frameworks, python)]
    if hardware.gpu is not None:
        notes += _driver(cuda, hardware.gpu.driver, hardware.policy_of("gpu.driver"), frameworks, python)
        for device in hardware.gpu.devices:
            notes += _device(cuda, device, frameworks, python)
    return tuple(dict.fromkeys(notes))


def brings_cuda(cuda: Cuda, frameworks: Mapping[str, str]) -> str:
    """Report that wheels bring CUDA although the spec asks for none."""
    who = ", ".join(f"{name} {version}" for name, version in frameworks.items() if tables.releases(name))
    return (
        f"CUDA {cuda.version} is among the wheels ({who or 'a dependency'}) though cuda is none: nothing about it is "
        "checked at start; write cuda: auto to lock it with its driver"
    )


def without_cuda(asked: str, frameworks: Mapping[str, str], python: str) -> tuple[str, str]:
    """Report that CUDA is asked for and no wheel brings it, and what to do."""
    message = f"cuda: {quote(asked)} is asked for, but none of the wheels brings CUDA"
    major = asked if asked[0].isdigit() else "12"
    for name in ("tensorflow", "jax"):
        if name not in frameworks:
            continue
        first = min((row.version for row in tables.releases(name)), key=numbers)
        if numbers(frameworks[name])[:2] < numbers(first):
            newer = f"choose {having(major, python, [name])}, or " if having(major, python, [name]) else ""
            return f"{message}: {name} {frameworks[name]} has none, {first} and newer do", f"{newer}write cuda: none"
        return message, f"{name} comes in through another package: name it under requirements too, or cuda: none"
    return message, f"require a framework that has it ({having(major, python)}), or cuda: none"


def _check_majors(versions: Mapping[str, str]) -> None:
    """Refuse NVIDIA's wheels of two CUDA majors: their libraries have the same names, and some the same files."""
    wheels: dict[int, str] = {}
    for name, version in sorted(versions.items(), key=lambda wheel: not wheel[0].startswith(_RUNTIME)):
        suffix = name.rpartition("-cu")[2]
        if name.startswith("nvidia-") and suffix != name and suffix.isdigit():
            wheels.setdefault(int(suffix), f"{name} {version}")
        elif name == _RUNTIME:  # from CUDA 13 on, no number of the major is in its name
            wheels.setdefault(numbers(version)[0], f"{name} {version}")
    if len(wheels) > 1:
        raise ResolveError(
            f"two versions of CUDA are among the wheels: {' and '.join(wheels[major] for major in sorted(wheels))}",
            f'write cuda: "{min(wheels)}", so that all frameworks take the same; leave NVIDIA\'s wheels out of '
            "requirements, since frameworks bring their own; or lock one framework alone",
        )


def _labelled(version: str) -> str:
    """Return the CUDA version of a local label such as ``2.9.1+cu126``, or an empty string."""
    label = version.partition("+")[2]
    digits = label.removeprefix("cu")
    return f"{digits[:-1]}.{digits[-1]}" if label.startswith("cu") and digits.isdigit() and len(digits) > 1 else ""


def _architectures(frameworks: Mapping[str, str], cuda: str) -> tuple[str, ...]:
    """Return the compute capabilities that every framework has machine code for, as far as known."""
    known = [
        set(row.cubins)
        for name, version in frameworks.items()
        if (row := tables.build(name, version, cuda)) and row.cubins
    ]
    return tuple(sorted(set.intersection(*known), key=numbers)) if known else ()


def _check_asked(cuda: Cuda, asked: str, cudnn: str) -> None:
    if asked != "auto" and numbers(cuda.version)[: len(numbers(asked))] != numbers(asked):
        raise ResolveError(
            f'cuda: "{asked}" is asked for, but the wheels that were found bring CUDA {cuda.version}',
            f'write cuda: "{cuda.version}", or choose other versions of the frameworks',
        )
    if cudnn and numbers(cuda.cudnn)[: len(numbers(cudnn))] != numbers(cudnn):
        raise ResolveError(
            f'cudnn: "{cudnn}" is asked for, but the wheels that were found bring {cuda.cudnn or "no cuDNN"}',
            "leave cudnn out, or choose other versions of the frameworks",
        )


def _frameworks(cuda: Cuda, frameworks: Mapping[str, str], python: str) -> Iterator[str]:
    """Check each framework against Python, and report what it was built with."""
    major = numbers(cuda.version)[0]
    for name, version in frameworks.items():
        if not tables.releases(name):
            continue
        row = tables.release_of(name, version, major)
        if row is None:
            yield f"{name} {version} with CUDA {major} is not in the table of CUDA wheels: nothing about it is checked"
            continue
        if python not in row.python:
            raise ResolveError(
                f"{name} {version} has no wheels with CUDA {major} for Python {python}, only for "
                f"{', '.join(row.python)}",
                other_python(name, python, major),
            )
        build = tables.build(name, version, cuda.version)
        if build and build.builds_on and not _same(cuda, build):
            yield (
                f"{name} {version} was built with CUDA {build.builds_on} and cuDNN {build.cudnn} and takes newer ones: "
                f"locked are CUDA {cuda.version} and cuDNN {cuda.cudnn}"
            )


def _same(cuda: Cuda, build: tables.Build) -> bool:
    cudnn = numbers(build.cudnn)
    return cuda.version == build.builds_on and numbers(cuda.cudnn)[: len(cudnn)] == cudnn


def _driver(cuda: Cuda, driver: str, policy: str, frameworks: Mapping[str, str], python: str) -> Iterator[str]:
    """Check the driver that hosts must have against the least one."""
    if not driver or policy.startswith("any"):
        return
    if numbers(driver) < numbers(cuda.driver):
        older = [row.major for row in tables.written().floor if numbers(row.driver) <= numbers(driver)]
        hint = "lock for a host with a newer driver"
        if older and (versions := having(str(max(older)), python, frameworks)):
            hint = f'write cuda: "{max(older)}" ({versions}), or {hint}'
        raise ResolveError(
            f"hardware.gpu.driver: {driver} cannot load CUDA {cuda.version}, which needs {cuda.driver} or newer", hint
        )
    if policy.startswith("at least") and driver == cuda.driver:
        return  # what is locked when nothing is specified: docs/reference/gpu.md describes it
    if cuda.toolkit_driver and numbers(driver) < numbers(cuda.toolkit_driver):
        yield (
            f"driver {driver} loads CUDA {cuda.version}, but is older than the {cuda.toolkit_driver} it was released "
            "with: what needs the newer one, such as compiling its PTX, fails on such a host"
        )


def _device(cuda: Cuda, device: GpuDevice, frameworks: Mapping[str, str], python: str) -> Iterator[str]:
    """Check one kind of GPU."""
    model = tables.model(device.model)
    capability = device.compute_capability or (model.capability if model else "")
    name = device.model or "the GPU"
    if model and capability != model.capability:
        raise ResolveError(
            f"hardware.gpu: {name} has compute capability {model.capability}, not {capability}",
            "correct the one or the other in the spec",
        )
    if model and model.sms and device.sms and device.sms != model.sms and device.mig in {"", "none"}:
        yield f"{name} has {model.sms} SMs as a whole GPU, the lock has {device.sms}"
    if not capability:
        if device.model:
            meant = perhaps_model(device.model)
            yield (
                f"{device.model} is not in the table of GPUs: whether CUDA {cuda.version} supports it is not checked"
                + (f"; perhaps you meant {meant}, as nvidia-smi prints it" if meant else "")
            )
        return
    row = tables.architecture(capability)
    if row is None:
        yield f"compute capability {capability} is not in the table: whether CUDA {cuda.version} supports it is unknown"
        return
    if not suits(capability, cuda.version):
        raise ResolveError(
            f"CUDA {cuda.version} does not support {name} ({row.name}, compute capability {capability}): "
            f"that takes {supporting(capability)}",
            cuda_for(capability, frameworks, python),
        )
    yield from _kernels(cuda, name, capability, frameworks, python)


def _kernels(cuda: Cuda, name: str, capability: str, frameworks: Mapping[str, str], python: str) -> Iterator[str]:
    """Check that the frameworks' wheels have kernels for a compute capability."""
    for framework, version in frameworks.items():
        if not tables.releases(framework):
            continue
        build = tables.build(framework, version, cuda.version)
        if build is None or not build.cubins:
            yield f"which GPUs {framework} {version} was built for is not in the table, so that is not checked"
            continue
        if has_kernels(build.cubins, build.ptx, capability):
            if not has_kernels(build.cubins, (), capability):
                yield (
                    f"{framework} {version} has no machine code for {name} ({capability}): the driver compiles its PTX "
                    "at first use, which takes minutes, and whose bits depend on the driver"
                )
            continue
        raise ResolveError(
            f"{framework} {version} has no kernels for {name} (compute capability {capability}): its wheels for CUDA "
            f"{cuda.version} were built for {', '.join(build.cubins)}",
            version_for(framework, capability, python),
        )
