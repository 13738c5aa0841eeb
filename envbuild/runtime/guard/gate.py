"""Both gates: observe, judge, write the verdict, and mark children as checked here.

The marker (``ENVBUILD_GUARD``) names the lock, the kernel's boot, the PID namespace and the start time of that
namespace's first process. A process that finds exactly this text in its environment was started in the very
container whose gate passed; copied to another host, container or image by a scheduler it means nothing and the
checks are made again. It guards against accidents, not against somebody who wants to deceive himself.

A run may be asked to accept named differences (``overrides``), and deliberately to make no checks at all
(``ENVBUILD_GUARD=off``): both are printed and are in the verdict, and hold in this container only, since the
marker that its processes inherit from then on replaces the word ``off``.
"""

from __future__ import annotations

import os
import posix  # programs' tests replace functions of ``os`` and ``open``, and count calls
from _io import FileIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .check import Check

REFUSED = 78
WITHOUT = "ENVBUILD_WITHOUT"
"""Names of switches and locked variables that one run goes without, separated by commas: to see what each costs."""
MARKER = "ENVBUILD_GUARD"
"""Set by a gate that let a program start. ``off``, set from outside, asks for no checks."""
OFF = "off"
CONTROLS = "ENVBUILD_CONTROLS"
"""``off`` leaves frameworks as they come, to see what the controls do: all checks, then no seeds and no switches."""
HELD = "ENVBUILD_HELD"
"""A descriptor's number: what starts the image may wish to know the rest of the run first. The checks are made, and
nothing is said or started until a byte comes from there; the program does not see the variable."""
ANCESTORS = 64
"""Processes above one that are asked for the marker."""
ASKED = frozenset((WITHOUT, CONTROLS, "ENVBUILD_DIAGNOSE", "ENVBUILD_FIX", "ENVBUILD_TRACE", "ENVBUILD_VARY"))
"""What a run may ask of all its processes, those with an environment of their own among them: else what an experiment
varies would be constant in them, and seem to be no cause."""
PREFIX = "/opt/envbuild"
RUN_DIR = "/run/envbuild"
PIPE = "verdict.pipe"
FORMAT = 1


class DamagedError(ValueError):
    """The expectations cannot be read or are not what was put into the image."""


class Verdict:
    """What a gate found: all checks, which gate (``entrypoint``, ``startup``, ``host``), and its time in ms.

    Attributes:
        gpu: what the GPU probe found; None if it was not asked.
        fingerprint: the text of ``fingerprint.json``; empty if none was computed.
        off: no checks were made, as asked.
    """

    __slots__ = ("checks", "duration_ms", "fingerprint", "gate", "gpu", "lock", "off", "ok")

    def __init__(
        self,
        checks: list[Check],
        *,
        ok: bool,
        gate: str,
        lock: str,
        duration_ms: float = 0.0,
        gpu: Mapping[str, Any] | None = None,
        off: bool = False,
    ) -> None:
        self.checks, self.ok, self.gate, self.lock, self.duration_ms = checks, ok, gate, lock, duration_ms
        self.gpu, self.off = gpu, off
        self.fingerprint = ""

    @property
    def verified(self) -> str:
        """Whether the program runs where the lock demands: ``yes``, ``overridden`` (knowingly not quite), or ``no``."""
        if self.off or not self.ok:
            return "no"
        return "overridden" if any(check.allowed for check in self.checks) else "yes"

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict file's content (docs/reference/guard.md)."""
        return {
            "format": FORMAT,
            "ok": self.ok,
            "verified": self.verified,
            "gate": self.gate,
            "lock": self.lock,
            "controls": not controls_off(),
            "duration_ms": self.duration_ms,
            "checks": [check.as_dict() for check in self.checks],
            **({} if self.gpu is None else {"gpu": self.gpu}),
        }


def load_expectations(path: str) -> dict[str, Any]:
    """Read ``expect.json``; raises ``DamagedError`` if it is missing, not JSON, or its own digest does not fit."""
    from ..digest import sha256
    from ..fastjson import dumps, loads

    try:
        with open(path, encoding="utf-8") as stream:
            document = loads(stream.read())
        digest, expect = document["sha256"], document["expect"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read: {error}") from None
    if sha256(dumps(expect).encode()) != digest:
        raise DamagedError(f"{path} was altered after the build: its content does not have its own sha256")
    return dict(expect)


def observe(expect: Mapping[str, Any], scope: str = "image") -> dict[str, Any]:
    """Look at everything the checks of a scope need."""
    from . import probe

    variables = probe.environment()
    seen: dict[str, Any] = {
        "scope": scope,
        "kernel": probe.kernel(),
        "cpu": probe.cpu_level(),
        "cpus": probe.visible_cpus(),
        "quota": probe.cpu_quota(),
        "environment": variables,
    }
    if expect.get("cpu-flags"):
        seen["cpu-flags"] = probe.code_flags()
    if expect.get("gpu"):  # the probe costs milliseconds: a lock without GPU does not pay them
        # Not sys.executable: a program that embeds Python has its own name there.
        seen["gpu"] = probe.gpus(expect["site"], expect["interpreter"]) if scope == "image" else probe.host_gpus()
    elif expect.get("cuda") and scope == "image":
        seen["gpu"] = {"devices": probe.gpu_files()}
    if scope == "image":
        seen["machine"], seen["emulated"] = os.uname().machine, probe.emulated()
        seen["interpreter"] = probe.command_path("python", variables.get("PATH", ""))
        seen["distributions"] = probe.distributions(expect["site"], expect["startup"])
        seen["files"] = probe.digests(expect["files"])
        if expect.get("cuda"):
            from . import library_check

            seen["nccl-files"] = probe.nccl_files(variables.get("HOME", ""))
            environment = os.path.dirname(os.path.dirname(expect["interpreter"]))
            search = variables.get("LD_LIBRARY_PATH", "")
            paths = library_check.on_search_path(search, environment)
            seen["libraries"] = {"path": paths, "cache": library_check.in_cache()}
    return seen


def evaluate(expect: Mapping[str, Any], gate: str, scope: str = "image") -> Verdict:
    """Make all checks of a scope."""
    from time import perf_counter

    from . import checks

    start = perf_counter()
    seen = observe(expect, scope)
    found = checks.judge(expect, seen, scope)
    allow = os.environ.get("ENVBUILD_ALLOW", "") if scope == "image" else ""
    if allow:
        from . import overrides

        found = overrides.apply(found, allow)
    duration = round((perf_counter() - start) * 1000, 3)
    gpu = seen.get("gpu") if expect.get("gpu") else None
    ok = not checks.refused(found)
    return Verdict(found, ok=ok, gate=gate, lock=expect["lock"], duration_ms=duration, gpu=gpu)


def marker(identity: str, root: str = "/") -> str:
    """Return the marker of this container for a lock's identity; parts that cannot be read stay empty."""
    boot = _first_line(os.path.join(root, "proc/sys/kernel/random/boot_id"))
    try:
        space = os.readlink(os.path.join(root, "proc/self/ns/pid"))
    except OSError:
        space = ""
    # The second field of stat is the command in parentheses and may hold anything: count from its end.
    fields = _first_line(os.path.join(root, "proc/1/stat")).rpartition(")")[2].split()
    started = fields[19] if len(fields) > 19 else ""
    return f"1/{identity[:16]}/{boot}/{space}/{started}"


def passed_above(wanted: str, environment: Mapping[str, str], root: str = "/") -> dict[str, str] | None:
    """Return what is asked of a process without a marker that one with the wanted marker started, directly or not.

    A program may give its children an environment of their own; what they lack of the lock's is in their records. One
    whose marker asks for no checks is asked for the same.

    Args:
        wanted: the marker of this container.
        environment: this process's; where there is a marker in it, another one, that counts alone.
        root: of the file system.

    Returns:
        What the run asks of its processes (``ASKED``); None if no process above has the marker.
    """
    if environment.get(MARKER, OFF) != OFF:
        return None
    entry, process = f"{MARKER}={wanted}".encode(), "self"
    for _ in range(ANCESTORS):
        # The second field is the command in parentheses; the parent's number is the second one behind it.
        fields = _first_line(os.path.join(root, "proc", process, "stat")).rpartition(")")[2].split()
        process = fields[1] if len(fields) > 1 else "0"
        try:
            if not _same_root(os.path.join(root, "proc", process, "root"), root):
                return None  # a container within, or one that shares the machine's processes
            with FileIO(os.path.join(root, "proc", process, "environ")) as stream:
                entries = stream.readall().split(b"\0")
        except OSError:
            return None
        if entry in entries:
            found = (os.fsdecode(each).partition("=") for each in entries)
            return {name: value for name, _, value in found if name in ASKED}
    return None


def _same_root(path: str, root: str) -> bool:
    """Whether a process sees the same files as this one; raises ``OSError`` if that may not be known."""
    seen, own = posix.stat(path), posix.stat(root)
    return (seen.st_dev, seen.st_ino) == (own.st_dev, own.st_ino)


def write_verdict(verdict: Verdict, folder: str = RUN_DIR, *, replace: bool = True) -> None:
    """Write ``verdict.json`` whole or not at all; without the folder, or if it is not writable, do nothing.

    Without ``replace`` an existing verdict stays: the second gate of a late process must not hide the first's.
    """
    from ..fastjson import dumps

    name = os.path.join(folder, "verdict.json")
    if not replace and os.path.lexists(name):
        name = os.path.join(folder, f"verdict-{os.getpid()}.json")
    write_atomic(name, dumps(verdict.as_dict()) + "\n")


def send_verdict(verdict: Verdict, folder: str = RUN_DIR) -> bool:
    """Write the verdict, and the fingerprint if there is one, to the pipe that ``envbuild run`` reads: a line each.

    The name of the pipe is removed first and the pipe is closed at the end, so that no program can write to it or read
    from it. Without a pipe, or a reader, nothing happens and the result is False.
    """
    from ..fastjson import dumps

    path = os.path.join(folder, PIPE)
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.unlink(path)
        data = f"{dumps(verdict.as_dict())}\n{verdict.fingerprint}".encode("utf-8", "surrogateescape")
        return os.write(pipe, data) == len(data)
    except OSError:
        return False
    finally:
        os.close(pipe)


def write_atomic(path: str, text: str) -> bool:
    """Write a small file under a temporary name and rename it; False if that is not possible here."""
    temporary = f"{path}.{posix.getpid()}.tmp"
    try:
        descriptor = posix.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    except OSError:
        return False
    try:
        with FileIO(descriptor, "w") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
        posix.rename(temporary, path)
    except OSError:
        try:
            posix.unlink(temporary)
        except OSError:
            pass
        return False
    return True


def say(text: str) -> None:
    """Write to standard error as UTF-8, whatever the locale; a closed stream is no reason to fail."""
    try:
        posix.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


def pass_or_refuse(gate: str, *, prefix: str = PREFIX, folder: str = RUN_DIR) -> bool:
    """Make the checks of one gate, report them, and set the marker if the program may start.

    Returns:
        True if it may start; otherwise the table is on standard error and the caller must exit with ``REFUSED``.
    """
    from . import table

    held = os.environ.pop(HELD, "")
    if gate != "entrypoint":
        held = ""
    try:
        expect = load_expectations(os.path.join(prefix, "expect.json"))
        if os.environ.get(MARKER) == OFF:
            verdict = Verdict([], ok=True, gate=gate, lock=expect["lock"], off=True)
        else:
            verdict = evaluate(expect, gate)
        held = _let_go(held)
        if gate == "entrypoint" and verdict.ok and not verdict.off and expect.get("fingerprint"):
            _add_fingerprint(verdict, expect, prefix, folder)
    except Exception as error:  # whatever went wrong, nothing may run unchecked
        _let_go(held)
        what = str(error) if isinstance(error, DamagedError) else f"the guard failed: {type(error).__name__}: {error}"
        say(f"envbuild: {what} — nothing was run\nwhat to do:\n  run the image as it was built: envbuild build\n")
        return False
    if gate == "entrypoint":
        send_verdict(verdict, folder)
    write_verdict(verdict, folder, replace=gate == "entrypoint")
    if not verdict.ok:
        say(table.render(verdict.checks, verdict.lock))
        return False
    if verdict.off:
        say(f"envbuild: the guard is OFF ({MARKER}={OFF}): nothing was compared with {verdict.lock}; not verified\n")
    elif verdict.verified == "overridden":
        from .overrides import render

        say(render(verdict.checks))
    say(table.warnings(verdict.checks))
    if controls_off():
        _drop_controls(expect["environment"])
    elif names := left_out(os.environ):
        _leave_out(names, expect["environment"])
    os.environ[MARKER] = marker(expect["identity"])
    return True


def _let_go(held: str) -> str:
    """Wait until this process may go on; where nobody is left who could allow it, it ends. Returns no number."""
    if held:
        if not posix.read(int(held), 1):
            posix._exit(REFUSED)
        posix.close(int(held))
    return ""


def _add_fingerprint(verdict: Verdict, expect: Mapping[str, Any], prefix: str, folder: str) -> None:
    """Compare the numeric fingerprint too, now that all else lets the program start; overrides hold here as well."""
    from time import perf_counter

    from . import checks, fingerprint_check, overrides

    start = perf_counter()

    def write(path: str, text: str) -> None:
        verdict.fingerprint = text
        write_atomic(path, text)

    found = fingerprint_check.check(expect, prefix=prefix, folder=folder, write=write)
    found = [*verdict.checks, *found]
    allow = os.environ.get(overrides.ALLOW, "")
    verdict.checks = overrides.apply(found, allow) if allow else found
    verdict.ok = not checks.refused(verdict.checks)
    verdict.duration_ms = round(verdict.duration_ms + (perf_counter() - start) * 1000, 3)


def controls_off() -> bool:
    """Return whether this run asked to go without seeds and switches."""
    return os.environ.get(CONTROLS) == "off"


def _drop_controls(locked: Mapping[str, str]) -> None:
    """Unset the locked variables that make frameworks deterministic, and print that: a run shows that it is one."""
    from .variables import HARD, KEPT

    for name in sorted(set(locked).intersection(HARD).difference(KEPT)):
        os.environ.pop(name, None)
    say("envbuild: the controls are off: no seeds, no deterministic operations\n")


def left_out(environment: Mapping[str, str]) -> frozenset[str]:
    """Return the names of what this run goes without."""
    return frozenset(name for name in environment.get(WITHOUT, "").split(",") if name)


def _leave_out(names: frozenset[str], locked: Mapping[str, str]) -> None:
    """Unset locked variables that this run goes without, and print that; only those that controls are made of."""
    from .variables import HARD, KEPT

    for name in names.intersection(locked).intersection(HARD).difference(KEPT):
        os.environ.pop(name, None)
    say(f"envbuild: this run goes without: {', '.join(sorted(names))}\n")


def _first_line(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read(4096).decode("utf-8", "replace").split("\n")[0]
    except OSError:
        return ""
