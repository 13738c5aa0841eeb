"""What is wrong with a machine's GPUs, in plain words, and what to do about it. Pure: facts in, sentences out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from envbuild.host.facts import GpuFacts, HostFacts, Problem
from envbuild.runtime.guard import gpu_words

_TOOLKIT = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html"
_CONTAINER = "in a container: start it with GPUs, and NVIDIA_DRIVER_CAPABILITIES=compute,utility"

# The probe's own, by name: they have no code.
_PROBE = {
    "TIMEOUT": "see whether nvidia-smi answers; if it hangs too: look for Xid errors in dmesg, and reboot the host",
    "CRASHED": "see whether nvidia-smi works; if it crashes too: install the driver anew",
    "FAILED": "see whether nvidia-smi works; if it does, report this as a bug of envbuild",
    "BINDING_NOT_FOUND": "install it next to envbuild: pip install nvidia-ml-py",
    "NO_SLICE": "make a slice (sudo nvidia-smi mig -cgi 3g.20gb -C), or turn MIG mode off (sudo nvidia-smi -mig 0)",
}

# CUDA's codes: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html
_CUDA = {
    802: (
        "CUDA is not ready: on machines with NVSwitch the fabric manager has to run first",
        "start it: sudo systemctl start nvidia-fabricmanager (of the driver's version)",
    ),
    803: (
        "libcuda does not fit the loaded kernel module",
        "reboot the host if its driver was just upgraded; in a container: take its own libcuda off the library path",
    ),
    804: (
        "a CUDA compatibility package is in use, which this GPU does not allow",
        "take it off the library path (/usr/local/cuda/compat), or install a newer driver",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Something wrong: what, and what to do about it."""

    what: str
    fix: str


def troubles(host: HostFacts, environ: Mapping[str, str]) -> list[Trouble]:
    """List what keeps programs from using this machine's GPUs, or from getting equal bits.

    Args:
        host: the description.
        environ: the environment that it was made in, for ``CUDA_VISIBLE_DEVICES``.
    """
    gpu = host.gpu
    found = [*_driver(gpu), *_libcuda(gpu, environ), *_devices(gpu), *_containers(host)]
    return list(dict.fromkeys(found))


def _driver(gpu: GpuFacts) -> Iterator[Trouble]:
    if gpu.problem is not None:
        yield _trouble("NVML", gpu.problem)
    elif gpu.driver and gpu.nvml and gpu.nvml != gpu.driver:
        what = f"the kernel module is {gpu.driver}, the driver's libraries are {gpu.nvml}"
        yield Trouble(what=what, fix="reboot the host, so that the module of the installed driver is loaded")


def _libcuda(gpu: GpuFacts, environ: Mapping[str, str]) -> Iterator[Trouble]:
    cuda = gpu.libcuda
    if cuda.problem is not None:
        yield from _no_cuda(gpu, cuda.problem, environ)
    if cuda.compat:
        what = f"libcuda is a compatibility package's ({cuda.path}), not the driver's {gpu.driver}: other bits possible"
        yield Trouble(what=what, fix="take it off the library path, or install a driver as new as the package")
    elif cuda.version and gpu.driver and cuda.version != gpu.driver:
        what = f"libcuda is {cuda.version} ({cuda.path}), the driver is {gpu.driver}"
        yield Trouble(what=what, fix="remove the libcuda that is not the driver's, or reboot after an upgrade")


def _no_cuda(gpu: GpuFacts, problem: Problem, environ: Mapping[str, str]) -> Iterator[Trouble]:
    """Explain why libcuda could not be asked; that it finds no GPU where there is none is no news."""
    if problem.name == "LIBRARY_NOT_FOUND":
        if gpu.devices:
            fix = f"install the driver's compute libraries, of its version; {_CONTAINER}"
            yield Trouble(what="libcuda.so.1 cannot be loaded: no CUDA program can start", fix=fix)
    elif problem.code == 100:
        value = environ.get("CUDA_VISIBLE_DEVICES")
        if value is not None and gpu.devices:
            what = f"CUDA_VISIBLE_DEVICES={value} hides every GPU from CUDA programs"
            yield Trouble(what=what, fix="unset CUDA_VISIBLE_DEVICES, or name a GPU that is there")
        elif any(device.problem is None for device in gpu.devices):
            fix = "see whether /dev/nvidia-uvm exists and may be opened: sudo nvidia-modprobe -u"
            yield Trouble(what="CUDA finds no GPU although NVML does", fix=fix)
    else:
        what, fix = _CUDA.get(problem.code, (f"CUDA cannot be started: {problem.message} ({problem.name})", ""))
        yield Trouble(what=what, fix=fix or "see whether nvidia-smi works; restart the container, or reboot the host")


def _devices(gpu: GpuFacts) -> Iterator[Trouble]:
    for index, device in enumerate(gpu.devices):
        if device.problem is not None:
            yield _trouble(f"GPU {index}", device.problem)


def _containers(host: HostFacts) -> Iterator[Trouble]:
    if host.gpu.devices and host.containers.engine and not host.containers.nvidia:
        what = f"{host.containers.engine} cannot hand GPUs to containers: NVIDIA's container toolkit is not installed"
        yield Trouble(what=what, fix=f"install it: {_TOOLKIT}")


def _trouble(subject: str, problem: Problem) -> Trouble:
    if problem.name in _PROBE:
        return Trouble(what=f"{subject}: {problem.message}", fix=_PROBE[problem.name])
    what, fix = gpu_words.nvml({"code": problem.code, "name": problem.name})
    return Trouble(what=f"{subject}: {what} ({problem.code}: {problem.message.rstrip('.')})", fix=fix)
