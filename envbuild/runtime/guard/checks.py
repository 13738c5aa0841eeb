"""Expectations against observations: a list of checks, nothing else. Pure: no file, no clock, no environment.

``FIELDS`` is the registry: field name to the function that judges it and where the judgement makes sense
(``host`` for ``envbuild check`` too, ``image`` only inside a container). A function takes the expectations
(``expect.json``, docs/reference/guard.md) and the observations (``gate.observe``) and returns its checks: one that is
``ok`` when all is well, one per difference otherwise. Those of the GPU are in ``gpu_checks``.
"""

from __future__ import annotations

from . import ranges, variables
from .check import Check as Check
from .check import once, policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Facts = Mapping[str, Any]

RELOCK = "envbuild lock spec.yaml && envbuild build"
_LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
_CORE = "core_"
"""Beginning of the flag that names an Arm CPU's core (``arm.py``)."""
_DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


def kernel(expect: Facts, seen: Facts) -> list[Check]:
    """The kernel's release is in the locked range."""
    wanted, found = expect["kernel"], seen["kernel"]
    shown = ranges.show(wanted)
    try:
        ok, where = ranges.contains(wanted, found), ""
        where = "" if ok else ranges.side(wanted, found)
    except ValueError:
        ok, where = False, "outside"
    meaning = {"": "", "below": "older than", "above": "newer than", "outside": "outside"}[where]
    fix = f"run on a host whose kernel is {shown}, or widen hardware.kernel in spec.yaml, then: {RELOCK}"
    fix = "" if ok else f"{fix}\n{once('kernel')}"
    return [Check("kernel", shown, found, ok=ok, meaning=meaning and f"{meaning} the locked range", fix=fix)]


def cpu(expect: Facts, seen: Facts) -> list[Check]:
    """The CPU has at least the locked instruction-set level; a higher one is recorded, since the bits may differ.

    With the policy ``exact`` a higher level is refused too.
    """
    wanted, found = expect["cpu"], seen["cpu"]
    word, severity = policy(expect, "cpu", "at least")
    if "any" in (wanted, word) or wanted == found:
        return [Check("cpu", wanted, found or "unknown", ok=True)]
    if _includes(found, wanted):
        severity = severity if word == "exact" else "info"
        meaning = "libraries that choose code by CPU may give other bits than on the locked level"
        fix = f"run on a {wanted} host, or lock this level: hardware.cpu: {found} in spec.yaml, then: {RELOCK}"
        return [Check("cpu", wanted, found, ok=False, severity=severity, meaning=meaning, fix=f"{fix}\n{once('cpu')}")]
    alike = found not in ("", "any") and found.startswith("arm") == wanted.startswith("arm")
    meaning = "the CPU lacks instructions of the locked level" if alike else "another kind of CPU"
    fix = f"run on a {wanted} host, or lower hardware.cpu in spec.yaml, then: {RELOCK}\n{once('cpu')}"
    return [Check("cpu", wanted, found or "unknown", ok=False, severity=severity, meaning=meaning, fix=fix)]


def _includes(found: str, wanted: str) -> bool:
    """Return whether a level has all that another one has, and more."""
    if found in _LEVELS and wanted in _LEVELS:
        return _LEVELS.index(found) > _LEVELS.index(wanted)
    if not found.startswith("arm"):
        return False
    from . import arm

    return wanted in arm.INCLUDES.get(found, ())


def architecture(expect: Facts, seen: Facts) -> list[Check]:
    """No emulator starts the programs: it computes, and not a CPU of the image's kind."""
    if not seen.get("emulated"):
        return []
    machine = _DEBIAN.get(seen["machine"]) or str(seen["machine"])
    meaning = f"an emulator computes, and no CPU of {machine}: other bits than there"
    fix = f"run on a machine of {machine}\nto try it: envbuild run --emulate; the record states it"
    return [Check("cpu.architecture", machine, f"{machine}, emulated", ok=False, meaning=meaning, fix=fix)]


def cpu_flags(expect: Facts, seen: Facts) -> list[Check]:
    """The CPU has the locked flags that make libraries choose other code, and no others of that kind."""
    wanted = expect.get("cpu-flags") or ()
    if not wanted:
        return []
    word, severity = policy(expect, "cpu.flags", "exact")
    found = seen["cpu-flags"]
    if not any(flag.startswith(_CORE) for flag in wanted):  # by hand, for any core
        found = [flag for flag in found if not flag.startswith(_CORE)]
    lacking = [flag for flag in wanted if flag not in found]
    further = [flag for flag in found if flag not in wanted] if word == "exact" else []
    locked = _count(len(wanted), "flag") + ("" if word == "exact" else f" ({word})")
    if word == "any" or not (lacking or further):
        return [Check("cpu.flags", locked, "as locked" if word == "exact" else "there", ok=True, severity=severity)]
    shown = " ".join([f"-{flag}" for flag in lacking] + [f"+{flag}" for flag in further])
    meaning = "libraries choose other code by these flags: other bits"
    looser = "any" if lacking else "at least or any"
    fix = "run on a host with the same CPU model, or relax hardware.cpu-flags in spec.yaml "
    fix += f"(policy: {looser}), then: {RELOCK}\n{once('cpu.flags')}"
    return [Check("cpu.flags", locked, shown, ok=False, severity=severity, meaning=meaning, fix=fix)]


def gpu(expect: Facts, seen: Facts) -> list[Check]:
    """GPUs, driver and CUDA are as locked; for a lock without GPU nothing more is imported."""
    if not expect.get("gpu") and not seen.get("gpu"):
        return []
    from . import gpu_checks

    return gpu_checks.gpu(expect, seen) if expect.get("gpu") else gpu_checks.unlocked(expect, seen)


def cpus(expect: Facts, seen: Facts) -> list[Check]:
    """The locked threads have a CPU each; a smaller time quota only makes them slower."""
    wanted, found, quota = expect["threads"], seen["cpus"], seen["quota"]
    locked = f"{wanted} thread{'' if wanted == 1 else 's'}"
    shown = f"{found} CPU{'' if found == 1 else 's'}"
    if found < wanted:
        meaning = "libraries that count CPUs would split work otherwise: other bits"
        fix = f"give the run {wanted} CPUs, or lower determinism.threads in spec.yaml, then: {RELOCK}"
        return [Check("cpus", locked, shown, ok=False, meaning=meaning, fix=f"{fix}\n{once('cpus')}")]
    if quota is not None and quota < wanted:
        shown += f", time for {quota:g}"
        meaning = "slower: the threads share less CPU time than they can use"
        fix = f"give the run --cpus {wanted} or more"
        return [Check("cpus", locked, shown, ok=False, severity="soft", meaning=meaning, fix=fix)]
    return [Check("cpus", locked, shown, ok=True)]


def environment(expect: Facts, seen: Facts) -> list[Check]:
    """Each locked variable has its value, and no other variable that changes results is set."""
    wanted, found = expect["environment"], seen["environment"]
    checks = []
    for name in sorted(wanted):
        if found.get(name) != wanted[name]:
            meaning = "not set" if name not in found else "changed after the lock"
            fix = f"start without changing {name}, or set it under env or determinism in spec.yaml, then: {RELOCK}"
            value = found.get(name, "(not set)")
            checks.append(Check(f"environment.{name}", wanted[name], value, ok=False, meaning=meaning, fix=fix))
    for table, severity in ((variables.HARD, "hard"), (variables.SOFT, "soft")):
        for name in sorted(set(table).intersection(found).difference(wanted)):
            fix = f"unset {name}, or set it under env or determinism in spec.yaml, then: {RELOCK}"
            field, meaning = f"environment.{name}", table[name]
            checks.append(Check(field, "(not set)", found[name], ok=False, severity=severity, meaning=meaning, fix=fix))
    return checks or [Check("environment", _count(len(wanted), "variable"), "as locked", ok=True)]


def command(expect: Facts, seen: Facts) -> list[Check]:
    """``python`` on the search path is the locked environment's, since only that one carries the hook."""
    wanted, found = expect["interpreter"], seen["interpreter"]
    ok = found == wanted
    fix = "" if ok else "start without changing PATH, or put the environment's bin folder first in it"
    meaning = "" if ok else "another Python would run, with other packages"
    return [Check("python", wanted, found or "(not on PATH)", ok=ok, meaning=meaning, fix=fix)]


def distributions(expect: Facts, seen: Facts) -> list[Check]:
    """Exactly the locked distributions are installed, each whole."""
    wanted = expect["distributions"]
    found: dict[str, list[str]] = {}
    checks = []
    fix = "run the image as it was built: envbuild build"
    add = f"add what you need to requirements in spec.yaml, then: {RELOCK}"
    for entry, fault in seen["distributions"].items():
        name, _, version = entry.partition("==")
        known = normal_name(name)
        found.setdefault(known, []).append(version)
        if fault:
            locked = wanted.get(known, "(not locked)")
            checks.append(Check(f"packages.{known}", locked, version or "present", ok=False, meaning=fault, fix=fix))
    for name in sorted(set(wanted) | set(found)):
        versions = found.get(name, [])
        same = [version for version in versions if normal_version(version) == normal_version(wanted.get(name, ""))]
        if name not in wanted:
            extra = any(check.field == f"packages.{name}" for check in checks)
            meaning = "installed after the build"
            if not extra:
                shown = ", ".join(versions)
                checks.append(Check(f"packages.{name}", "(not locked)", shown, ok=False, meaning=meaning, fix=add))
        elif len(versions) != 1 or not same:
            meaning = "missing" if not versions else "another version" if len(versions) == 1 else "installed twice"
            shown = ", ".join(versions) or "(not installed)"
            checks.append(Check(f"packages.{name}", wanted[name], shown, ok=False, meaning=meaning, fix=fix))
    return checks or [Check("packages", _count(len(wanted), "distribution"), "as locked", ok=True)]


def runtime(expect: Facts, seen: Facts) -> list[Check]:
    """The guard, the hook and the lock's copy are the files that were put into the image."""
    wanted, found = expect["files"], seen["files"]
    checks = []
    for path in sorted(wanted):
        if found.get(path, "") != wanted[path]:
            shown = f"sha256 {found[path][:12]}…" if found.get(path) else "(not readable)"
            meaning = "altered after the build" if found.get(path) else "missing or not readable"
            fix = "run the image as it was built: envbuild build"
            locked = f"sha256 {wanted[path][:12]}…"
            checks.append(Check(f"runtime.{path}", locked, shown, ok=False, meaning=meaning, fix=fix))
    return checks or [Check("runtime", _count(len(wanted), "file"), "unaltered", ok=True)]


def libraries(expect: Facts, seen: Facts) -> list[Check]:
    """No copy of NVIDIA's libraries comes before the locked one; for a lock without CUDA nothing is imported."""
    if not expect.get("cuda") or "libraries" not in seen:
        return []
    from . import library_check

    return library_check.check(expect, seen)


def nccl_files(expect: Facts, seen: Facts) -> list[Check]:
    """No file sets variables of NCCL unseen; a lock without CUDA does not care."""
    found = seen.get("nccl-files") or ()
    if not found:
        return []
    fix = "remove it, or keep the host's home folder out of the container (Apptainer: --containall)\n"
    fix += f"set variables of NCCL under env in spec.yaml, then: {RELOCK}\n{once('nccl.conf')}"
    meaning = "sets variables of NCCL unseen: another order of sums between GPUs"
    return [Check("nccl.conf", "(no file)", ", ".join(found), ok=False, meaning=meaning, fix=fix)]


FIELDS: dict[str, tuple[Callable[[Facts, Facts], list[Check]], str]] = {
    "kernel": (kernel, "host"),
    "cpu": (cpu, "host"),
    "cpu.architecture": (architecture, "image"),
    "cpu.flags": (cpu_flags, "host"),
    "cpus": (cpus, "host"),
    "gpu": (gpu, "host"),
    "environment": (environment, "image"),
    "python": (command, "image"),
    "packages": (distributions, "image"),
    "libraries": (libraries, "image"),
    "nccl.conf": (nccl_files, "image"),
    "runtime": (runtime, "image"),
}


def judge(expect: Facts, seen: Facts, scope: str = "image") -> list[Check]:
    """Run every check of a scope: ``image`` means all, ``host`` those that make sense without a container."""
    checks: list[Check] = []
    for function, where in FIELDS.values():
        if scope in ("image", where):
            checks += function(expect, seen)
    return checks


def refused(checks: list[Check]) -> bool:
    """Return whether a hard check failed that this run does not allow."""
    return any(check.refuses for check in checks)


def normal_name(name: str) -> str:
    """Normalise a distribution's name as PEP 503 does: lower case, runs of ``-_.`` become one ``-``."""
    words = "".join("-" if character in "-_." else character for character in name.lower()).split("-")
    return "-".join(word for word in words if word)


def normal_version(version: str) -> tuple[object, ...]:
    """Make ``2024.01`` equal ``2024.1`` and ``1.0`` equal ``1.0.0``; other spellings must agree as they are."""
    parts = [str(int(part)) if part.isascii() and part.isdigit() else part for part in version.lower().split(".")]
    while len(parts) > 1 and parts[-1] == "0":
        parts.pop()
    return tuple(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
