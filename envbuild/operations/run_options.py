"""Options of a run as people type them, for ``run``, ``verify`` and Python; checked before anything starts."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from envbuild.core.patterns import lazy
from envbuild.engine.protocol import Gpus, Mount
from envbuild.errors import UsageError
from envbuild.lockfile import layout

OWN_OPTIONS = {"ENVBUILD_ALLOW": "--allow", "ENVBUILD_GUARD": "--no-guard", "ENVBUILD_CONTROLS": "--no-controls"}
"""Variables that configure guard and hook for one run, with the option that sets each and puts it into the record."""

_SIZE = lazy(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SMALLEST = 6 << 20
_TIME = lazy(r"(\d+(?:\.\d+)?)\s*([smhd]?)")
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LONGEST = 366 * 86400.0
_MOST_CPUS = 1 << 20
_NAME = lazy(r"[A-Za-z_][A-Za-z0-9_]*")
_FIELD = lazy(r"[A-Za-z0-9][A-Za-z0-9._/+-]*")
_GPU = lazy(r"(?:GPU|MIG)-[A-Za-z0-9-]+(?:/\d+/\d+)?|\d{1,4}(?::\d{1,4})?")
_NETWORKS = "list those of the engine: docker network ls"
_NETWORK = lazy(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def parse_memory(text: str) -> int:
    """Read a size such as ``8g``, ``512m`` or ``1.5GiB`` into bytes; units are powers of 1024, as docker's.

    Raises:
        UsageError: not a size, or less than the 6 MB engines ask for.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--memory: expected a size such as 8g or 512m, found {text!r}", "a number with a unit")
    size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size < _SMALLEST:
        raise UsageError(f"--memory: expected at least 6m, found {text!r}", "add a unit: 8g, 512m")
    return size


def parse_environment(items: Sequence[str], caller: Mapping[str, str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` and ``NAME`` (the caller's value; left out if the caller has none).

    Raises:
        UsageError: a name that is not one, or one of envbuild's own, which have options.
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(f"--env: expected NAME or NAME=VALUE, found {item!r}")
        if name.startswith("ENVBUILD_"):
            options = ", ".join(f"{option} for {variable}" for variable, option in OWN_OPTIONS.items())
            raise UsageError(f"--env: {name} is envbuild's own and cannot be set", f"use its option: {options}")
        if equals:
            found[name] = value
        elif name in caller:
            found[name] = caller[name]
    return found


def parse_gpus(text: str) -> Gpus | None:
    """Read ``all``, ``none``, a count, or GPUs by name: ``GPU-…``, ``MIG-…``, and indexes after ``device=``.

    A plain number is a count, as docker has it: ``2`` are the first two, ``device=2`` is the third.

    Raises:
        UsageError: none of these, or a GPU named twice.
    """
    if text in ("all", "none"):
        return Gpus() if text == "all" else None
    if re.fullmatch(r"\d{1,4}", text):
        return Gpus(count=int(text), exact=True) if int(text) else None
    names = tuple(text.removeprefix("device=").split(","))
    if not all(_GPU.fullmatch(name) for name in names):
        raise UsageError(
            f"--gpus: expected all, none, a count, UUIDs or device=INDEX, found {text!r}",
            "list the GPUs of this machine: envbuild probe",
        )
    if len(set(names)) != len(names):
        raise UsageError(f"--gpus: a GPU is named twice in {text!r}")
    return Gpus(devices=names)


def parse_allow(items: Sequence[str]) -> tuple[str, ...]:
    """Read the fields whose difference is allowed for one run, sorted; the guard knows which fields there are.

    Raises:
        UsageError: what cannot be a field.
    """
    for item in items:
        if not _FIELD.fullmatch(item):
            raise UsageError(
                f"--allow: expected a field such as gpu.driver, found {item!r}",
                "name one field per --allow, as the guard's table names it: envbuild check",
            )
    return tuple(sorted(set(items)))


def parse_mount(text: str, directory: Path) -> Mount:
    """Read ``SRC:DST[:ro|rw]`` or ``type=bind,source=SRC,target=DST[,readonly]``.

    Args:
        text: the option's value.
        directory: what a relative source is relative to.

    Raises:
        UsageError: neither form, a relative target, or a source that does not exist.
    """
    keyed = text.startswith("type=") or re.search(r"(^|,)(src|source)=", text) is not None
    source, target, read_only = _keyed_mount(text) if keyed else _short_mount(text)
    if not target.startswith("/") or ".." in PurePosixPath(target).parts or target == "/":
        raise UsageError(f"--mount {text}: expected an absolute path in the container, found {target!r}")
    path = Path(os.path.abspath(directory / source))  # noqa: PTH100 - a link is mounted as it is named
    if not path.exists():
        raise UsageError(f"--mount {text}: {path} does not exist")
    return Mount(source=path, target=target, read_only=read_only)


def parse_timeout(text: str) -> float:
    """Read a time such as ``90``, ``90s``, ``5m`` or ``2h`` into seconds; raises ``UsageError`` for anything else."""
    match = _TIME.fullmatch(text.strip())
    return check_timeout(float(match[1]) * _SECONDS[match[2]] if match else 0.0, text)


def check_timeout(seconds: float, text: str = "") -> float:
    """Return a time limit in seconds; raises ``UsageError`` below a second and above a year.

    Args:
        text: what was typed, for the message.
    """
    if not 1 <= seconds <= _LONGEST:
        found = text or f"{seconds:g}"
        raise UsageError(f"--timeout: expected a time such as 90s, 5m or 2h, found {found!r}", "one second at least")
    return seconds


def parse_output(text: str) -> str:
    """Return a path in the container that counts; raises ``UsageError`` for one that is relative, or in the project."""
    path = posixpath.normpath(text)
    if not path.startswith("/") or path == "/":
        raise UsageError(
            f"--output: expected an absolute path in the container, found {text!r}", "such as /tmp/results"
        )
    if f"{path}/".startswith(f"{layout.WORKSPACE}/"):
        raise UsageError(f"--output {text}: what is written into the project counts anyway", "leave it out")
    return path


def check_cpus(count: float) -> float:
    """Return how many CPUs' time a program may use; raises ``UsageError`` below the hundredth that engines ask for."""
    if not 0.01 <= count < _MOST_CPUS:
        raise UsageError(f"--cpus: expected a number above 0, such as 2 or 0.5, found {count:g}", "all: leave it out")
    return count


def check_network(name: str) -> str:
    """Return a network's name; raises ``UsageError`` unless it is ``none``, ``bridge``, ``host`` or like a name."""
    if not _NETWORK.fullmatch(name):
        raise UsageError(f"--network: expected none, bridge, host or the name of a network, found {name!r}", _NETWORKS)
    return name


def _short_mount(text: str) -> tuple[str, str, bool]:
    """Split ``SRC:DST[:ro|rw]``."""
    parts = text.split(":")
    mode = parts.pop() if len(parts) == 3 else "rw"
    if len(parts) != 2 or not all(parts) or mode not in ("ro", "rw"):
        raise UsageError(f"--mount: expected SRC:DST[:ro] or type=bind,source=SRC,target=DST, found {text!r}")
    return parts[0], parts[1], mode == "ro"


def _keyed_mount(text: str) -> tuple[str, str, bool]:
    """Split ``key=value`` pairs, with docker's other names for the same keys."""
    names = {"src": "source", "dst": "target", "destination": "target", "ro": "readonly"}
    found: dict[str, str] = {}
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        key = names.get(key, key)
        if key not in ("type", "source", "target", "readonly"):
            raise UsageError(f"--mount {text}: unknown key {key!r}; known are type, source, target, readonly")
        found[key] = value
    if found.get("type", "bind") != "bind" or not found.get("source") or not found.get("target"):
        raise UsageError(f"--mount {text}: expected type=bind with source and target")
    return found["source"], found["target"], found.get("readonly", "false").lower() in ("", "1", "true")
