"""What of two runs can be exchanged, so that one of them is run again with a thing of the other's. Pure.

What cannot be (data, the machine, content that was not kept, masked values) is named.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from envbuild.core.redact import MASK
from envbuild.difference.arguments import chunks
from envbuild.difference.finding import Context
from envbuild.difference.machine import host
from envbuild.lockfile.model import Lock
from envbuild.record.model import Options, Record

Kind = Literal["argument", "command", "variable", "option", "file", "lock"]

OPTIONS: Final = (
    "controls", "without", "guard", "allow", "gpus", "network", "cpus", "cpuset", "memory", "mounts"
)  # fmt: skip
"""Options that a run can be given; the others follow from the lock or cannot matter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What to run.

    Attributes:
        lock, image: digests.
        environment: variables next to the locked ones.
        files: digest of each file of the project that has to be as it was; None for one that has to be away.
    """

    lock: str
    image: str
    command: tuple[str, ...]
    directory: str
    environment: Mapping[str, str]
    options: Options
    files: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Toggle:
    """One thing that can be as B had it while all else is as A had it."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        """How it is called in sentences."""
        return self.name if self.kind in ("argument", "file") else f"{self.kind} {self.name}".strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What can be tried.

    Attributes:
        base: A's setting.
        other: B's.
        toggles: in the order in which to try them.
        stuck: what cannot be toggled, a phrase each.
        impossible: why A itself cannot be run again; empty if it can.
    """

    base: Setting
    other: Setting
    toggles: tuple[Toggle, ...]
    stuck: tuple[str, ...] = ()
    impossible: str = ""


def plan(a: Record, b: Record, known: Context, available: Collection[str], ranking: Sequence[str] = ()) -> Plan:
    """Find what can be toggled.

    Args:
        a, b: the runs.
        known: their locks, as far as they were kept.
        available: digests of files whose content can be had.
        ranking: names of differences, the most likely cause first.
    """
    base, other = setting(a, known.lock_a), setting(b, known.lock_b or known.lock_a)
    stuck: list[str] = []
    toggles = [
        *_locks(a, b, known, stuck),
        *_files(base, other, available, stuck),
        *_arguments(base, other, stuck),
        *_variables(base, other, stuck),
        *_options(base, other),
    ]
    stuck += _other_worlds(a, b)
    places = {name: number for number, name in enumerate(ranking)}
    toggles.sort(key=lambda toggle: min((places[name] for name in places if _about(toggle, name)), default=len(places)))
    return Plan(
        base=base,
        other=other,
        toggles=tuple(toggles),
        stuck=tuple(stuck),
        impossible=_impossible(base, known.lock_a, available),
    )


def setting(record: Record, lock: Lock | None) -> Setting:
    """Return what a run was made with."""
    locked = lock.environment if lock else {}
    files: dict[str, str | None] = {}
    for file in (*record.configs, *record.modules):
        files.setdefault(file.path, file.sha256)
    if record.script:
        files[record.script.path] = record.script.sha256
    return Setting(
        lock=record.lock.sha256,
        image=record.image,
        command=record.command,
        directory=record.directory,
        environment={name: value for name, value in record.environment.items() if locked.get(name) != value},
        options=record.options,
        files={path: digest for path, digest in files.items() if not path.startswith("/")},
    )


def _locks(a: Record, b: Record, known: Context, stuck: list[str]) -> list[Toggle]:
    if (a.lock.sha256, a.image) == (b.lock.sha256, b.image):
        return []
    if a.lock.sha256 == b.lock.sha256:
        stuck.append("image (of one lock, made by another envbuild)")
        return []
    if known.lock_a is None or known.lock_b is None:
        stuck.append("lock (not kept)")
        return []
    if _decides(known.lock_a) == _decides(known.lock_b):
        return []  # only the digests of data differ, which is reported by itself
    return [Toggle(kind="lock", name="")]


def _decides(lock: Lock) -> Lock:
    return msgspec.structs.replace(lock, inputs=(), resolution={}, added={})


def _files(base: Setting, other: Setting, available: Collection[str], stuck: list[str]) -> list[Toggle]:
    """Return a toggle for each file that both runs read; where these are equal, for those that one run read."""
    both = [path for path in base.files if path in other.files and base.files[path] != other.files[path]]
    toggles = []
    for path in both or sorted({*base.files} ^ {*other.files}):
        after = other.files.get(path)
        if path in other.files and (after is None or after not in available):
            stuck.append(f"{path} (its content in B was not kept)")
        else:
            toggles.append(Toggle(kind="file", name=path))
    return toggles


def _arguments(base: Setting, other: Setting, stuck: list[str]) -> list[Toggle]:
    """Return a toggle for each option that differs; for the whole command where more than options differ."""
    if (base.command, base.directory) == (other.command, other.directory):
        return []
    if any(MASK in word for word in other.command):
        stuck.append("command (it has a masked argument)")
        return []
    mine, theirs = dict(chunks(base.command)), dict(chunks(other.command))
    if base.directory != other.directory or mine.get("") != theirs.get(""):
        return [Toggle(kind="command", name="")]
    return [Toggle(kind="argument", name=name) for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]


def _variables(base: Setting, other: Setting, stuck: list[str]) -> list[Toggle]:
    toggles = []
    for name in {**base.environment, **other.environment}:
        before, after = base.environment.get(name), other.environment.get(name)
        if before == after:
            continue
        if after is not None and MASK in after:
            stuck.append(f"variable {name} (masked)")
        else:
            toggles.append(Toggle(kind="variable", name=name))
    return toggles


def _options(base: Setting, other: Setting) -> list[Toggle]:
    return [
        Toggle(kind="option", name=name)
        for name in OPTIONS
        if getattr(base.options, name) != getattr(other.options, name)
    ]


def _other_worlds(a: Record, b: Record) -> list[str]:
    """Name what differs and cannot be brought back here."""
    found = [
        f"{path} (data is not kept)" for path in {**a.inputs, **b.inputs} if a.inputs.get(path) != b.inputs.get(path)
    ]
    if a.input_changes != b.input_changes:
        found.append("data that changed during a run")
    if any(finding.weight for section in host(a, b) for finding in section.findings):
        found.append("the machine")
    return found


def _impossible(base: Setting, lock: Lock | None, available: Collection[str]) -> str:
    if lock is None:
        return "its lock was not kept"
    if any(MASK in word for word in base.command):
        return "its command has a masked argument"
    for path, digest in base.files.items():
        if digest is None or digest not in available:
            return f"{path} is not available as A read it"
    return ""


def _about(toggle: Toggle, name: str) -> bool:
    """Whether a toggle is about what a finding names: ``--learning-rate`` about ``learning_rate``."""
    return toggle.name.lstrip("-").replace("-", "_") in (name, name.removeprefix("option "))
