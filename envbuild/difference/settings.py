"""What was chosen for two runs next to the lock: environment, options, and what was allowed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from envbuild.core.redact import MASK
from envbuild.core.text import plain
from envbuild.difference.finding import Context, Finding, Section, changed
from envbuild.difference.text import flat, pairs, shown
from envbuild.record.model import Record, cpu_numbers
from envbuild.record.summary import allowed
from envbuild.runtime.guard import variables

_OPTIONS: dict[str, tuple[int, str]] = {
    "controls": (100, "seeds and deterministic operations, on or off"),
    "without": (99, "switches that were left out"),
    "mounts": (43, "files that no digest covers"),
    "network": (42, "what is downloaded is not recorded"),
    "cpuset": (49, "work is split by the CPUs that are there"),
    "gpus": (48, ""),
    "memory": (28, "libraries may choose other algorithms"),
    "guard": (25, "differences from the lock go unseen"),
    "allow": (24, "differences from the lock are let pass"),
    "workspace": (22, "whether the program can write to the project"),
    "cpus": (9, "time only"),
    "user": (0, ""),
    "tty": (0, ""),
    "verification": (0, ""),
    "signer": (0, ""),
}
_SEED = "PYTHONHASHSEED"
_GIVEN, _SECRET = 87, 45
"""Of a variable that somebody gave this run, such as a learning rate: before what changed in files."""


def environment(a: Record, b: Record, context: Context) -> Section:
    """Compare variables; those that are masked in both cannot be."""
    locked = {**_locked(context.lock_a), **_locked(context.lock_b)}
    findings = []
    for name, before, after in pairs(a.environment, b.environment):
        one, other = shown(before, after)
        weight, why = _variable(name, locked)
        if MASK in (before, after):
            weight = min(weight, _SECRET)  # a key opens a door, and does not compute
        findings.append(changed("environment", plain(name), one, other, weight, why=why))
    masked = tuple(
        f"variable {plain(name)}, which is masked"
        for name, value in a.environment.items()
        if MASK in value and b.environment.get(name) == value
    )
    return Section("environment", tuple(findings), unknown=masked)


def options(a: Record, b: Record) -> Section:
    """Compare what the command line chose, and the GPUs that the engine was asked for."""
    fetched = any(each.options.network != "none" for each in (a, b))
    unknown = ("what was fetched over the network",) if fetched else ()
    return Section("options", (*_ranks(a, b), *_options(a, b)), unknown=unknown)


def verified(a: Record, b: Record) -> Section:
    """Compare what the guard reported."""
    found: list[Finding] = []
    if a.layers != b.layers:
        known = "changed" not in (a.layers, b.layers)
        why = "" if known else "somebody had changed them in the store: a run again shows what the program does"
        before, after = a.layers or "not known", b.layers or "not known"
        found.append(changed("verified", "files of the image", before, after, 0 if known else 99, why=why))
    one, other = _command_text(a), _command_text(b)
    if one != other:
        found.append(changed("verified", "verified", one, other, 23, why="differences from the lock"))
    return Section("", tuple(found))


def engine(a: Record, b: Record) -> Section:
    """Compare container engines, which no result depends on."""
    findings = [
        changed("options", f"engine {plain(name)}", *shown(before, after), 0)
        for name, before, after in pairs(a.engine, b.engine)
    ]
    return Section("", tuple(findings))


def _ranks(a: Record, b: Record) -> Iterator[Finding]:
    """Yield that runs were other ranks, or ranks of jobs of other sizes."""
    one, other = (
        f"{each.rank.rank} of {each.rank.world}" if each.rank and each.rank.world > 1 else "none" for each in (a, b)
    )
    if one != other:
        yield changed("options", "rank", one, other, 98, why="each has its seed and its share of the work")
    before, after = (each.rank.restarts if each.rank else 0 for each in (a, b))
    if before != after:
        why = "a job that was started again may have gone on from what it left"
        yield changed("options", "started again", f"{before} times", f"{after} times", 60, why=why)


def _options(a: Record, b: Record) -> Iterator[Finding]:
    mine, theirs = (dict(flat(msgspec.to_builtins(each.options))) for each in (a, b))
    for name, before, after in pairs(mine, theirs):
        weight, why = _OPTIONS.get(name, (20, ""))
        if name == "cpuset" and before and after and len(cpu_numbers(before)) == len(cpu_numbers(after)):
            weight, why = 0, "as many"
        one, other = (_amount(each) if name == "memory" else _written(each) for each in (before, after))
        yield changed("options", f"option {name}", *shown(one, other), weight, why=why)
    if a.gpus != b.gpus:
        follows = "option gpus" if a.options.gpus != b.options.gpus else ""
        one, other = shown(a.gpus or "none", b.gpus or "none")
        yield changed("options", "GPUs asked for", one, other, 48, follows=follows)


def _written(value: object) -> object:
    if value in ("", None, []):
        return "not set"
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _amount(value: object) -> object:
    """Write bytes as ``--memory`` takes them, exactly."""
    if not isinstance(value, int):
        return _written(value)
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift} {unit}"
    return f"{value} bytes"


def _variable(name: str, locked: dict[str, str]) -> tuple[int, str]:
    """Judge a variable by what is known of it."""
    if name == _SEED:
        return 79, variables.HARD[_SEED]
    if name in variables.HARD:
        return 72, variables.HARD[name]
    if name in variables.SOFT:
        return 52, variables.SOFT[name]
    return (55, "") if name in locked else (_GIVEN, "")


def _locked(lock: object) -> dict[str, str]:
    return getattr(lock, "environment", {})


def _command_text(record: Record) -> str:
    names = ", ".join(plain(name) for name in allowed(record)) if record.verified == "overridden" else ""
    return (record.verified or "not recorded") + (f": {names}" if names else "")
