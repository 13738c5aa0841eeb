"""Hardware and CUDA of a lock: where the host description comes from, what is locked of it, and whether it all fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from envbuild.core.platforms import MACHINES
from envbuild.errors import ResolveError, UsageError
from envbuild.host import file, values
from envbuild.host.facts import HostFacts
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.resolve.cuda import compatibility
from envbuild.resolve.cuda import plan as cuda_plan
from envbuild.resolve.hardware import lock_hardware
from envbuild.spec.hardware import HardwareRequirements, Requirement
from envbuild.spec.model import Spec
from envbuild.spec.requirement_files import project_lines, requirement_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """What hardware is locked for: the spec's requirements, the host description and the old lock's hardware."""

    wanted: HardwareRequirements
    facts: HostFacts | None
    old: Hardware | None
    source: str

    @classmethod
    def of(cls, spec: Spec, path: Path, option: str, old: locks.Lock | None) -> Host:
        """Find the host description.

        Args:
            spec: the spec; ``detect`` in it asks for this machine, unless the old lock has a host.
            path: its file.
            option: a host description's file, ``detect`` for this machine, ``none`` to forget the old lock's host, or
                empty to keep that.
            old: the lock that is replaced.

        Raises:
            SpecError: the file is no host description.
            UsageError: the file is missing, or describes a machine of another architecture.
        """
        wanted = spec.hardware
        kept = old.hardware if old and option != "none" else None
        detect = option == "detect" or (not option and _asks(wanted) and not (kept and kept.host))
        facts = None
        if detect:
            facts = _this_machine()
        elif option not in ("", "none"):
            facts = _described(option)
        if facts is not None and spec.platform and facts.machine not in ("", MACHINES.get(spec.os.architecture)):
            facts = None  # it is a host of another one of the spec's platforms
        if facts is not None:
            _check_machine(facts, spec, option or "detect")
        return cls(wanted=wanted, facts=facts, old=kept, source=path.name)

    def lock(self, cuda: Cuda | None) -> Hardware:
        """Return the hardware to lock; raises ``SpecError`` as ``lock_hardware`` does."""
        return lock_hardware(self.wanted, self.facts, cuda, self.old, source=self.source)

    def notes(self, lock: locks.Lock) -> tuple[str, ...]:
        """Return what a person should know about what was locked for the host, and what was not."""
        return (*self._unused(lock.hardware), *_slices(lock.hardware.gpu), *self._refused(lock))

    def _unused(self, hardware: Hardware) -> Iterator[str]:
        """Yield a note about GPUs that the host has and the lock does not."""
        unused = values.of_host(self.facts).devices if self.facts else ()
        if unused and not hardware.gpu and self.wanted.gpu != "none":
            gpus = values.many(unused)
            use = "if your code uses them: hardware: {gpu: detect}"
            yield f"not locked: the host's {gpus}, since cuda is none; {use}"

    def _refused(self, lock: locks.Lock) -> Iterator[str]:
        """Yield a note for each value of the spec with which the lock refuses the host it was made for."""
        if self.facts is None:
            return
        from envbuild.operations.check import judge_described

        for check in judge_described(lock, self.facts):
            if check.refuses and not check.because:
                yield f"the host described does not match this lock: {check.field}: {check.locked}, not {check.found}"


def cuda_plans(spec: Spec, path: Path, python: str) -> tuple[cuda_plan.CudaRequest, ...]:
    """Return the CUDA to ask for; the host does not decide it, so that locks for two hosts differ in hardware alone.

    With ``cuda: auto`` older majors follow the newest: only the resolver learns that ``torchvision==0.21.0`` needs a
    PyTorch whose CUDA is older.

    Raises:
        ResolveError: the spec's frameworks have no wheels for the CUDA it asks for.
    """
    lines = (
        *spec.requirements,
        *requirement_lines(path.parent, spec.requirement_files, path.name),
        *project_lines(path.parent, spec.extras, spec.groups, path.name),
    )
    gpu = required_gpu(spec.hardware)
    newest = cuda_plan.plan_cuda(spec.cuda, spec.cudnn, lines, python, gpu)
    plans = [newest]
    for major in newest.lower:
        with suppress(ResolveError):
            plan = cuda_plan.plan_cuda(str(major), spec.cudnn, lines, python, gpu)
            note = f"CUDA {major}: the requirements do not go together with CUDA {newest.major}"
            plans.append(replace(plan, notes=(note, *plan.notes)))
    return tuple(plans)


def required_gpu(wanted: HardwareRequirements) -> Gpu | None:
    """Return the GPUs that a spec describes with values of its own; None if it wants none or names none."""
    if wanted.gpu in {"", "none"} and not wanted.detect:
        return None
    text = wanted.devices or (wanted.fields,)
    devices = tuple(
        GpuDevice(model=_text(fields, "gpu.model"), compute_capability=_text(fields, "gpu.compute-capability"))
        for fields in text
    )
    return Gpu(driver=_text(wanted.fields, "gpu.driver"), devices=devices)


def lock_cuda(
    spec: Spec, packages: tuple[locks.PythonPackage, ...], frameworks: dict[str, str], python: str
) -> tuple[Cuda | None, tuple[str, ...]]:
    """Return the CUDA to lock, None if the spec asks for none, and notes about it.

    Raises:
        ResolveError: the spec asks for CUDA, but no wheel brings any.
    """
    if spec.cuda == "none":
        try:
            cuda = compatibility.cuda_of(packages, frameworks)
        except ResolveError as error:
            return None, (error.message,)
        return None, (compatibility.brings_cuda(cuda, frameworks),) if cuda else ()
    cuda = compatibility.cuda_of(packages, frameworks)
    if cuda is None:
        raise ResolveError(*compatibility.without_cuda(spec.cuda, frameworks, python))
    return cuda, ()


def check_cuda(spec: Spec, cuda: Cuda | None, frameworks: dict[str, str], python: str, hardware: Hardware) -> list[str]:
    """Return notes about how CUDA, frameworks and hardware fit together.

    Raises:
        ResolveError: they cannot run together.
    """
    if cuda is None:
        return []
    return [*compatibility.check_compatible(cuda, frameworks, python, hardware, asked=spec.cuda, cudnn=spec.cudnn)]


def _slices(gpu: Gpu | None) -> Iterator[str]:
    """Yield a note about several MIG slices: a program computes on one of them, and their order decides which."""
    slices = [kind for kind in gpu.devices if kind.mig not in ("", "none")] if gpu else []
    if sum(kind.count for kind in slices) > 1:
        yield (
            "CUDA shows a program one MIG slice, the first of those it is given: lock the one it needs, "
            f"hardware: {{gpu: {{mig: {slices[0].mig}, count: 1}}}}"
        )


def _asks(wanted: HardwareRequirements) -> bool:
    return wanted.detect or wanted.gpu == "detect"


def _this_machine() -> HostFacts:
    from envbuild.host.probe import probe_host

    return probe_host()


def _described(option: str) -> HostFacts:
    path = Path(option)
    if not path.is_file():
        raise UsageError(
            f"--host {option}: expected detect, none or the file of a host description, and there is no such file",
            "describe a host, on it: envbuild probe -o host.toml",
        )
    return file.load(path)


def _check_machine(facts: HostFacts, spec: Spec, option: str) -> None:
    wanted = MACHINES.get(spec.os.architecture, "")
    if wanted and facts.machine and facts.machine != wanted:
        raise UsageError(
            f"--host {option}: the spec is for {spec.os.architecture} ({wanted}), but the host is {facts.machine}",
            f"set os: {{architecture: …}} in the spec, or describe a host that is {wanted}",
        )


def _text(fields: dict[str, Requirement], name: str) -> str:
    value = fields.get(name, Requirement()).value
    return value if isinstance(value, str) else ""
