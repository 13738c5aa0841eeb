"""CUDA in ``envbuild lock``: what is asked for before resolving, and what is said of the wheels that were found."""

from __future__ import annotations

from pathlib import Path

from envbuild.errors import ResolveError
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.lockfile.model import PythonPackage
from envbuild.resolve.cuda import compatibility as resolve_cuda
from envbuild.resolve.cuda import plan as cuda_plan
from envbuild.spec.hardware import HardwareWish, Wish
from envbuild.spec.model import Spec
from envbuild.spec.requirement_files import requirement_lines


def plan(spec: Spec, path: Path, python: str) -> cuda_plan.CudaRequest:
    """Return what to ask for; a host description has no say, so that locks for two hosts differ in hardware alone.

    Raises:
        ResolveError: the spec's frameworks have no wheels for the CUDA it asks for.
    """
    lines = (*spec.requirements, *requirement_lines(path.parent, spec.requirement_files, path.name))
    return cuda_plan.plan_cuda(spec.cuda, spec.cudnn, lines, python, wished_gpu(spec.hardware))


def wished_gpu(wish: HardwareWish) -> Gpu | None:
    """Return what a spec says about GPUs with values of its own; None if it wants none or says nothing."""
    if wish.gpu in {"", "none"} and not wish.detect:
        return None
    said = wish.devices or (wish.fields,)
    devices = tuple(
        GpuDevice(model=_text(fields, "gpu.model"), compute_capability=_text(fields, "gpu.compute-capability"))
        for fields in said
    )
    return Gpu(driver=_text(wish.fields, "gpu.driver"), devices=devices)


def found(
    spec: Spec, packages: tuple[PythonPackage, ...], frameworks: dict[str, str], python: str
) -> tuple[Cuda | None, tuple[str, ...]]:
    """Return the CUDA to lock, None if the spec asks for none, and what to tell about it.

    Raises:
        ResolveError: the spec asks for CUDA, but no wheel brings any.
    """
    if spec.cuda == "none":
        try:
            cuda = resolve_cuda.cuda_of(packages, frameworks)
        except ResolveError as error:
            return None, (error.message,)
        return None, (resolve_cuda.brings_cuda(cuda, frameworks),) if cuda else ()
    cuda = resolve_cuda.cuda_of(packages, frameworks)
    if cuda is None:
        raise ResolveError(*resolve_cuda.without_cuda(spec.cuda, frameworks, python))
    return cuda, ()


def check(spec: Spec, cuda: Cuda | None, frameworks: dict[str, str], python: str, hardware: Hardware) -> list[str]:
    """Refuse what cannot run together; return what to tell."""
    if cuda is None:
        return []
    return [*resolve_cuda.check_compatible(cuda, frameworks, python, hardware, asked=spec.cuda, cudnn=spec.cudnn)]


def _text(fields: dict[str, Wish], name: str) -> str:
    value = fields.get(name, Wish()).value
    return value if isinstance(value, str) else ""
