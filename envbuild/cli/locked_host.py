"""Hardware and CUDA in ``envbuild lock``: where the host description comes from, and what is told about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuild.cli.console import Console
from envbuild.core.text import plural
from envbuild.core.types import without_defaults
from envbuild.errors import UsageError
from envbuild.host import file, values
from envbuild.host.facts import HostFacts
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import POLICIES, Cuda, Gpu, Hardware
from envbuild.operations.operating_system import MACHINES
from envbuild.resolve.hardware import lock_hardware
from envbuild.spec.hardware import HardwareWish
from envbuild.spec.model import Spec


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """What hardware is locked for: wish, host description and the old lock's hardware, at hand before resolving."""

    wish: HardwareWish
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
        wish = spec.hardware
        kept = old.hardware if old and option != "none" else None
        detect = option == "detect" or (not option and _asks(wish) and not (kept and kept.host))
        facts = None
        if detect:
            facts = _this_machine()
        elif option not in ("", "none"):
            facts = _described(option)
        if facts is not None:
            _check_machine(facts, spec, option or "detect")
        return cls(wish=wish, facts=facts, old=kept, source=path.name)

    def lock(self, cuda: Cuda | None) -> Hardware:
        """Return the hardware to lock; raises ``SpecError`` as ``lock_hardware`` does."""
        return lock_hardware(self.wish, self.facts, cuda, self.old, source=self.source)

    def notes(self, lock: locks.Lock) -> tuple[str, ...]:
        """Return what a person should know about what was locked for the host, and what was not."""
        return (*self._unused(lock.hardware), *_slices(lock.hardware.gpu), *self._refused(lock))

    def _unused(self, hardware: Hardware) -> Iterator[str]:
        """Tell of GPUs that the host has and the lock does not."""
        unused = values.of_host(self.facts).devices if self.facts else ()
        if unused and not hardware.gpu and self.wish.gpu != "none":
            gpus = values.many(unused)
            use = "if your code uses them: hardware: {gpu: detect}"
            yield f"not locked: the host's {gpus}, since cuda is none; {use}"

    def _refused(self, lock: locks.Lock) -> Iterator[str]:
        """Tell where values by hand make a lock that refuses the very host it was locked for."""
        if self.facts is None:
            return
        from envbuild.operations.host_check import judge_described

        for check in judge_described(lock, self.facts):
            if check.refuses and not check.because:
                yield f"the host described does not match this lock: {check.field}: {check.locked}, not {check.found}"


def report(lock: locks.Lock, console: Console) -> None:
    """Print what hardware and which CUDA libraries were locked."""
    console.line("hardware", "; ".join(_words(lock.hardware)))
    if lock.cuda is None:
        return
    named = {"CUDA": lock.cuda.version, "cuDNN": lock.cuda.cudnn, "cuBLAS": lock.cuda.cublas, "NCCL": lock.cuda.nccl}
    libraries = ", ".join(f"{name} {version}" for name, version in named.items() if version)
    console.line("cuda", f"{libraries}; driver ≥ {lock.cuda.driver}")


def facts(lock: locks.Lock) -> dict[str, str]:
    """Return each fact about hardware and CUDA as text, by the field's name in a spec, to compare two locks."""
    table = without_defaults(lock.hardware)
    for key in ("host", "by-hand", "policy"):
        table.pop(key, None)
    if gpu := lock.hardware.gpu:
        kinds = [{"count": kind.count, **without_defaults(kind)} for kind in gpu.devices]
        shared = {key: value for key, value in without_defaults(gpu).items() if key != "devices"}
        table["gpu"] = {**shared, **(kinds[0] if len(kinds) == 1 else {"devices": kinds})}
    found = _texts("hardware", table)
    found |= {f"hardware.{field} policy": policy for field, policy in lock.hardware.policy.items()}
    return found | (_texts("cuda", without_defaults(lock.cuda)) if lock.cuda is not None else {})


def absent(name: str) -> str:
    """Return what a name of ``facts`` means where it is not there."""
    field = name.removeprefix("hardware.").removesuffix(" policy")
    return POLICIES[field] if name.endswith(" policy") else "(not locked)"


def _slices(gpu: Gpu | None) -> Iterator[str]:
    """Tell that of several MIG slices a program computes on one, and that which one is left to their order."""
    slices = [kind for kind in gpu.devices if kind.mig not in ("", "none")] if gpu else []
    if sum(kind.count for kind in slices) > 1:
        yield (
            "CUDA shows a program one MIG slice, the first of those it is given: lock the one it needs, "
            f"hardware: {{gpu: {{mig: {slices[0].mig}, count: 1}}}}"
        )


def _asks(wish: HardwareWish) -> bool:
    return wish.detect or wish.gpu == "detect"


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


def _words(hardware: Hardware) -> Iterator[str]:
    """Say in words what a host must be."""
    from envbuild.runtime.guard import ranges

    yield _gpu(hardware.gpu, hardware) if hardware.gpu else "no GPU"
    yield f"kernel {ranges.show(hardware.kernel)}"
    word, comma, warn = hardware.policy_of("cpu").partition(",")
    shown = {"exact": " exact", "any": " not compared"}.get(word, "")
    flags = f" with {plural(len(hardware.cpu_flags), 'flag')}" if hardware.cpu_flags else ""
    yield (f"CPU {hardware.cpu}{shown}{comma}{warn}" if hardware.cpu != "any" else "CPU any") + flags
    if hardware.fingerprint:
        yield "numeric fingerprint"


def _gpu(gpu: Gpu, hardware: Hardware) -> str:
    """Say in words what the GPUs must be: ``2 × NVIDIA H200, driver 580.159.04 exact``."""
    word = hardware.policy_of("gpu.count").partition(",")[0]
    words = {"at least": "at least ", "any": "any number of "}.get(word, "") + values.many(gpu.devices)
    word, comma, warn = hardware.policy_of("gpu.driver").partition(",")
    if gpu.driver and word == "at least":
        words += f", driver ≥ {gpu.driver}{comma}{warn}"
    elif gpu.driver:
        words += f", driver {gpu.driver} {'not compared' if word == 'any' else word}{comma}{warn}"
    return words + (", exclusive" if gpu.exclusive else "")


def _texts(path: str, value: object) -> dict[str, str]:
    """Return every value below a table as text, by path."""
    if isinstance(value, dict):
        return {key: text for name, inner in value.items() for key, text in _texts(f"{path}.{name}", inner).items()}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return {key: text for i, item in enumerate(value) for key, text in _texts(f"{path}[{i}]", item).items()}
    if isinstance(value, list):
        return {path: " ".join(map(str, value))}
    return {path: str(value).lower() if isinstance(value, bool) else str(value)}
