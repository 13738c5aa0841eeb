"""Hardware and CUDA in ``envbuild lock``: where the host description comes from, and what is told about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuild import host_file, host_values
from envbuild import lock as locks
from envbuild.cli.console import Console
from envbuild.errors import UsageError
from envbuild.hardware import Cuda, Gpu, Hardware
from envbuild.host import HostFacts
from envbuild.lock_types import without_defaults
from envbuild.locked_hardware import lock_hardware
from envbuild.spec import Spec
from envbuild.spec_hardware import HardwareWish

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


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


def report(lock: locks.Lock, console: Console) -> None:
    """Print what hardware and which CUDA libraries were locked."""
    console.line("hardware", "; ".join(_words(lock.hardware)))
    if lock.cuda is not None:
        named = {
            "CUDA": lock.cuda.version,
            "cuDNN": lock.cuda.cudnn,
            "cuBLAS": lock.cuda.cublas,
            "NCCL": lock.cuda.nccl,
        }
        console.line(
            "cuda",
            ", ".join([*(f"{name} {version}" for name, version in named.items() if version)])
            + f"; driver ≥ {lock.cuda.driver}",
        )


def facts(lock: locks.Lock) -> dict[str, str]:
    """Return each fact about hardware and CUDA as text, by field path, to compare two locks."""
    found = dict(_hardware_facts(lock.hardware))
    if lock.cuda is not None:
        found |= _texts("cuda", without_defaults(lock.cuda))
    return found


def _asks(wish: HardwareWish) -> bool:
    return wish.detect or wish.gpu == "detect"


def _this_machine() -> HostFacts:
    from envbuild.hostprobe import probe_host

    return probe_host()


def _described(option: str) -> HostFacts:
    path = Path(option)
    if not path.is_file():
        raise UsageError(
            f"--host {option}: expected detect, none or the file of a host description, and there is no such file",
            "describe a host, on it: envbuild probe -o host.toml",
        )
    return host_file.load(path)


def _check_machine(facts: HostFacts, spec: Spec, option: str) -> None:
    wanted = _MACHINES.get(spec.os.architecture, "")
    if wanted and facts.machine and facts.machine != wanted:
        raise UsageError(
            f"--host {option}: the spec is for {spec.os.architecture} ({wanted}), but this host is {facts.machine}",
            f"set os: {{architecture: …}} in the spec, or describe a host that is {wanted}",
        )


def _words(hardware: Hardware) -> Iterator[str]:
    """Say in words what a host must be."""
    yield _gpu(hardware.gpu, hardware)
    yield f"kernel {_range(hardware.kernel)}"
    policy = hardware.policy_of("cpu")
    level = hardware.cpu if policy != "any" else f"{hardware.cpu} (not compared)"
    yield f"CPU {level}{' exact' if policy.startswith('exact') and hardware.cpu != 'any' else ''}"


def _gpu(gpu: Gpu | None, hardware: Hardware) -> str:
    if gpu is None:
        return "no GPU"
    if all(device.model == "" for device in gpu.devices) and hardware.policy_of("gpu.count").startswith("at least"):
        words = f"at least {gpu.count} GPU"
    else:
        words = host_values.many(gpu.devices)
    policy = hardware.policy_of("gpu.driver")
    if gpu.driver and policy.startswith("at least"):
        words += f", driver ≥ {gpu.driver}"
    elif gpu.driver:
        words += f", driver {gpu.driver} {'not compared' if policy == 'any' else policy}"
    return words + (", exclusive" if gpu.exclusive else "")


def _range(kernel: str) -> str:
    for sign, shown in ((">=", "≥ "), ("<=", "≤ "), ("==", "")):
        kernel = kernel.replace(sign, shown)
    return kernel.replace(",", ", ") or "any"


def _hardware_facts(hardware: Hardware) -> Iterator[tuple[str, str]]:
    table = without_defaults(hardware)
    table.pop("host", None)
    table.pop("by-hand", None)
    yield from _texts("hardware", table).items()


def _texts(path: str, value: object) -> dict[str, str]:
    """Return every value below a table as text, by path."""
    if isinstance(value, dict):
        return {key: text for name, inner in value.items() for key, text in _texts(f"{path}.{name}", inner).items()}
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return {key: text for i, item in enumerate(value) for key, text in _texts(f"{path}[{i}]", item).items()}
    if isinstance(value, list):
        return {path: " ".join(map(str, value))}
    return {path: str(value).lower() if isinstance(value, bool) else str(value)}
