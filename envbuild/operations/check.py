"""``check``: would the guard let a run start on this machine? Answered without an engine and without a container.

The guard's own probes and checks are used, those of them that make sense on the host: kernel, CPU, GPUs.
More GPUs than are locked are no difference here, since a run is handed those it needs. A container on another machine
(a remote engine) is not seen from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.platforms import architecture_of, own_machine
from envbuild.host.facts import HostFacts
from envbuild.image.runtime.files import expectations
from envbuild.lockfile.model import Lock
from envbuild.operations.events import Events
from envbuild.operations.inputs import compare_inputs
from envbuild.operations.load_lock import LoadedLock, load_lock
from envbuild.runtime.guard import checks, gate
from envbuild.runtime.guard.check import Check

if TYPE_CHECKING:
    from envbuild.inputs.compare import Comparison

Verdict = gate.Verdict
GPU = "gpu"
"""The guard's field for whether there is any GPU."""
_OF_THE_MOMENT = ("gpu.nvml", "gpu.libcuda", "gpu.exclusive")


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """This host and its data compared with a lock.

    Attributes:
        loaded: the lock.
        verdict: the guard's, on the host.
        inputs: declared data.
    """

    loaded: LoadedLock
    verdict: Verdict
    inputs: Comparison

    @property
    def ok(self) -> bool:
        """Whether a run would start."""
        return self.verdict.ok and not self.inputs.differences

    @property
    def verified(self) -> str:
        """What a run's record would have under ``verified``."""
        return self.verdict.verified if self.ok else "no"


def check(path: Path | None, events: Events) -> CheckResult:
    """Compare this host and declared data with a lock; nothing is started.

    Args:
        path: the lock's file; None: search upward from the working directory.
        events: receives progress.

    Raises:
        LockError: there is no lock, it is invalid, or it is stale.
    """
    loaded = load_lock(path)
    verdict = check_host(loaded.lock)
    return CheckResult(loaded=loaded, verdict=verdict, inputs=compare_inputs(loaded.path, loaded.lock, events))


def check_host(lock: Lock) -> Verdict:
    """Compare this host with a lock; raises ``LockError`` if the lock's kernel range is none.

    On a machine of another architecture that is all there is to say: kernel, CPU and GPUs are not looked at. That there
    is no GPU is a difference that is allowed where the lock has it so.
    """
    if (refused := check_architecture(lock, own_machine())) is not None:
        return refused
    found = gate.evaluate(expectations(lock), "host", "host")
    found.checks = _allowing(lock, found.checks)
    found.ok = not checks.refused(found.checks)
    return found


def _allowing(lock: Lock, found: list[Check]) -> list[Check]:
    """Mark that there is no GPU as allowed if the lock has it so, as ``run`` does."""
    from envbuild.runtime.guard import overrides

    return overrides.apply(found, GPU) if lock.hardware.gpu_optional else found


def check_architecture(lock: Lock, machine: str) -> Verdict | None:
    """Return a refusal if a lock's programs are another machine's, else None.

    Args:
        lock: what would run.
        machine: where, as ``uname -m`` names it; empty if that is not known, which refuses nothing.
    """
    wanted, found = lock.os.architecture, architecture_of(machine)
    if found in ("", wanted):
        return None
    emulated = any(package.architecture == found for package in lock.emulators)
    check = Check(
        "cpu.architecture",
        wanted,
        found,
        ok=False,
        meaning="its programs do not start here; under emulation they would compute other bits",
        fix=f"run on a machine of {wanted}, or with an engine of one: export DOCKER_HOST=ssh://USER@HOST\n"
        f"have an image for {found} too: platforms: [{wanted}, {found}] in the spec"
        + ("\ntry it under emulation, which the record states: envbuild run --emulate" if emulated else ""),
    )
    return Verdict([check], ok=False, gate="host", lock=lock.file_name)


def judge_described(lock: Lock, host: HostFacts) -> list[Check]:
    """Compare a host description with a lock, as ``check_host`` would there, as far as the description goes.

    What may be otherwise tomorrow (programs, free memory) or depends on how the description was made (NVML, libcuda)
    is left out.
    """
    expect = expectations(lock)
    if expect["gpu"]:
        expect["gpu"] = {**expect["gpu"], "exclusive": False}
    seen = {
        "scope": "host",
        "kernel": host.kernel,
        "cpu": host.cpu.level,
        "cpu-flags": host.cpu.flags,
        "cpus": host.cpu.visible or lock.determinism.threads,
        "quota": None,
        "environment": {},
        "gpu": msgspec.to_builtins(host.gpu),
    }
    found = _allowing(lock, checks.judge(expect, seen, "host"))
    return [check for check in found if check.field not in _OF_THE_MOMENT]
