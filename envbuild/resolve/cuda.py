"""The CUDA among locked wheels: what it is, what it needs of a driver and a GPU, and whether that fits together.

What does not fit is refused when it is locked, naming what would. What the tables do not know, since it is newer than
they are, is told and not refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envbuild.errors import ResolveError
from envbuild.hardware import Cuda, GpuDevice, Hardware
from envbuild.lock import PythonPackage
from envbuild.resolve import cuda_table as tables
from envbuild.resolve.cuda_table import numbers
from envbuild.suggest import quote

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
    runtimes = {name: version for name, version in versions.items() if name.startswith(_RUNTIME)}
    majors = {numbers(version)[0] for version in runtimes.values()}
    if len(majors) > 1:
        found = " and ".join(f"{name} {version}" for name, version in sorted(runtimes.items()))
        raise ResolveError(
            f"two versions of CUDA are among the wheels: {found}",
            f'write cuda: "{min(majors)}", so that all frameworks take the same, or lock one framework alone',
        )
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
        notes += _driver(cuda, hardware.gpu.driver, hardware.policy_of("gpu.driver"))
        for device in hardware.gpu.devices:
            notes += _device(cuda, device, frameworks)
    return tuple(dict.fromkeys(notes))


def brings_cuda(cuda: Cuda, frameworks: Mapping[str, str]) -> str:
    """Say that wheels bring CUDA although the spec asks for none."""
    who = ", ".join(f"{name} {version}" for name, version in frameworks.items() if tables.releases(name))
    return (
        f"CUDA {cuda.version} is among the wheels ({who or 'a dependency'}) though cuda is none: nothing about it is "
        "checked at start; write cuda: auto to lock it with its driver"
    )


def without_cuda(asked: str, frameworks: Mapping[str, str]) -> tuple[str, str]:
    """Say that CUDA is asked for and no wheel brings it, and what to do."""
    message = f"cuda: {quote(asked)} is asked for, but none of the wheels brings CUDA"
    if "tensorflow" in frameworks:
        return message, "tensorflow comes in through another package: name it under requirements too, or cuda: none"
    if "jax" in frameworks:
        return message, "jax comes in through another package: name it under requirements too, or cuda: none"
    return message, f"require a framework that has it ({having(asked if asked[0].isdigit() else '12')}), or cuda: none"


def supporting(capability: str) -> str:
    """Say which CUDA versions support a compute capability; empty if the table does not know it."""
    row = tables.architecture(capability)
    if row is None:
        return ""
    return f"CUDA {row.since} to {row.until}" if row.until else f"CUDA {row.since} or newer"


def suits(capability: str, cuda: str) -> bool:
    """Tell whether a CUDA version or major supports a compute capability; yes if the table does not know it."""
    row = tables.architecture(capability)
    if row is None:
        return True
    version = numbers(cuda)
    first, last = numbers(row.since), numbers(row.until)
    return first[: len(version)] <= version and (not last or version <= last[: len(version)])


def having(cuda: str, but: str = "") -> str:
    """Name the versions of each framework that have wheels for a CUDA version or major, but one framework."""
    parts = []
    for framework in ("tensorflow", "torch", "jax"):
        features = [row.version for row in tables.releases(framework) if tables.meets(row.cuda, cuda)]
        if features and framework != but:
            parts.append(f"{framework} {tables.span_words(features)}")
    return ", ".join(parts)


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
    """Check each framework against Python, and tell what it was built with."""
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
                _other_python(name, python, major),
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


def _other_python(name: str, python: str, major: int) -> str:
    fitting = [row.version for row in tables.releases(name) if row.major == major and python in row.python]
    if not fitting:
        return "choose another python in the spec"
    return f"choose {name} {tables.span_words(fitting)}, or another python in the spec"


def _driver(cuda: Cuda, driver: str, policy: str) -> Iterator[str]:
    """Check the driver that hosts must have against the least one."""
    if not driver or policy.startswith("any"):
        return
    if numbers(driver) < numbers(cuda.driver):
        older = [row for row in tables.written().floor if numbers(row.driver) <= numbers(driver)]
        hint = "lock for a host with a newer driver"
        if older:
            major = max(row.major for row in older)
            hint = f'write cuda: "{major}" ({having(str(major))}), or lock for a host with a newer driver'
        raise ResolveError(
            f"hardware.gpu.driver: {driver} cannot load CUDA {cuda.version}, which needs {cuda.driver} or newer", hint
        )
    if policy.startswith("at least") and driver == cuda.driver:
        return  # what is locked when nobody says anything: docs/gpu.md tells of it
    if cuda.toolkit_driver and numbers(driver) < numbers(cuda.toolkit_driver):
        yield (
            f"driver {driver} loads CUDA {cuda.version}, but is older than the {cuda.toolkit_driver} it was released "
            "with: what needs the newer one, such as compiling its PTX, fails on such a host"
        )


def _device(cuda: Cuda, device: GpuDevice, frameworks: Mapping[str, str]) -> Iterator[str]:
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
        yield f"{name} has {model.sms} SMs as a whole GPU, the lock says {device.sms}"
    if not capability:
        if device.model:
            yield f"{device.model} is not in the table of GPUs: whether CUDA {cuda.version} supports it is not checked"
        return
    row = tables.architecture(capability)
    if row is None:
        yield f"compute capability {capability} is not in the table: whether CUDA {cuda.version} supports it is unknown"
        return
    if not suits(capability, cuda.version):
        raise ResolveError(
            f"CUDA {cuda.version} does not support {name} ({row.name}, compute capability {capability}): "
            f"that takes {supporting(capability)}",
            _cuda_for(capability, frameworks),
        )
    yield from _kernels(cuda, name, capability, frameworks)


def _kernels(cuda: Cuda, name: str, capability: str, frameworks: Mapping[str, str]) -> Iterator[str]:
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
            _version_for(framework, capability),
        )


def has_kernels(cubins: Sequence[str], ptx: Sequence[str], capability: str) -> bool:
    """Tell whether a GPU can run what was built: machine code of its major up to its minor, or PTX up to it."""
    have = numbers(capability)
    native = any(numbers(built)[0] == have[0] and numbers(built) <= have for built in cubins)
    return native or any(numbers(built) <= have for built in ptx)


def _cuda_for(capability: str, frameworks: Mapping[str, str]) -> str:
    """Say which CUDA to ask for, for a GPU; of the majors that the frameworks have wheels for, the newest that fits."""
    named = [name for name in frameworks if tables.releases(name)]
    majors = sorted({row.major for name in named for row in tables.releases(name)}, reverse=True)
    for major in majors:
        if suits(capability, str(major)):
            return f'write cuda: "{major}" ({having(str(major))}), or lock for another GPU'
    return "lock for another GPU"


def _version_for(framework: str, capability: str) -> str:
    """Say which versions of a framework have kernels for a compute capability."""
    found = [
        row.version
        for row in tables.releases(framework)
        if (build := tables.build(framework, row.releases[-1], _first(row)))
        and has_kernels(build.cubins, build.ptx, capability)
    ]
    if not found:
        return "lock for another GPU, or build the framework for it and name the folder of its wheel: wheels: [wheels]"
    return f"choose {framework} {tables.span_words(found)}, or lock for another GPU"


def _first(row: tables.Release) -> str:
    """Return the first CUDA version that a row's wheels take."""
    return ".".join(map(str, (*tables.span(row.cuda)[0], 0)[:2]))
