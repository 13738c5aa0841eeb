"""``envbuild check``: would the guard let a run start on this machine? Told without an engine and without a container.

The guard's own probes and checks are used, those of them that make sense on the host: kernel, CPU, GPUs.
More GPUs than are locked are no difference here, since a run is handed those it needs. A container on another machine
(a remote engine) is not seen from here.
"""

from __future__ import annotations

import msgspec

from envbuild.core.text import plain
from envbuild.errors import HostMismatchError
from envbuild.host.facts import HostFacts
from envbuild.image.runtime.files import expectations
from envbuild.lockfile.model import Lock
from envbuild.runtime.guard import checks, gate, table
from envbuild.runtime.guard.check import Check

Verdict = gate.Verdict
_OF_THE_MOMENT = ("gpu.nvml", "gpu.libcuda", "gpu.exclusive")


def check_host(lock: Lock) -> Verdict:
    """Compare this host with a lock; raises ``LockError`` if the lock's kernel range is none."""
    return gate.evaluate(expectations(lock), "host", "host")


def judge_described(lock: Lock, host: HostFacts) -> list[Check]:
    """Compare a host description with a lock, as ``check_host`` would there, as far as the description tells.

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
    return [check for check in checks.judge(expect, seen, "host") if check.field not in _OF_THE_MOMENT]


def render(verdict: Verdict, *, data_differs: bool = False) -> str:
    """Return the verdict for people: one line per field that holds, or the guard's table of those that do not.

    The text ends with a newline; soft differences are shown as warnings below.

    Args:
        data_differs: declared data is not as locked, so that a host which matches is not all that matters.
    """
    if not verdict.ok:
        return table.render(verdict.checks, verdict.lock, "")
    lines = [f"this host matches {verdict.lock}" + (", but its input data differs" if data_differs else "")]
    width = max(len(check.field) for check in verdict.checks)
    wide = max(len(check.locked) for check in verdict.checks)
    for check in verdict.checks:
        lines.append(plain(f"  {check.field.ljust(width)}   {check.locked.ljust(wide)}   {check.found}"))
    return "\n".join(lines) + "\n" + table.warnings(verdict.checks)


def require_host(lock: Lock) -> Verdict:
    """Return the verdict on this host.

    Raises:
        HostMismatchError: a hard check failed; the message is the guard's table.
    """
    verdict = check_host(lock)
    if not verdict.ok:
        raise HostMismatchError(render(verdict).rstrip("\n"))
    return verdict
