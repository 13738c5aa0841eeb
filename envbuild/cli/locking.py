"""``init`` and ``lock``: write a starter, write or check a lock, tell what is in it and what moved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from envbuild.cli import locked_host
from envbuild.cli.console import Console
from envbuild.cli.inputs import moved_inputs
from envbuild.cli.json_output import json_error_output
from envbuild.core.fs import atomic_write
from envbuild.core.text import human_bytes, plural
from envbuild.errors import LockError, UsageError
from envbuild.lockfile import layout
from envbuild.lockfile import model as locks
from envbuild.operations.lock_files import dockerfile_of, earlier_locks, existing_lock
from envbuild.operations.lock_inputs import LockOptions, resolution_inputs, stale_inputs
from envbuild.spec.model import Spec, load_spec


def write_starter(folder: Path, force: bool, console: Console) -> None:
    """Write ``spec.yaml`` into a project."""
    from envbuild.spec.detect import look
    from envbuild.spec.starter import starter_text

    target = folder / "spec.yaml"
    if not folder.is_dir():
        if not folder.exists():
            raise UsageError(f"{folder} does not exist", f"make it first: mkdir {folder}")
        raise UsageError(f"{folder} is not a folder", "name the folder of your project")
    if target.exists() and not force:
        raise UsageError(f"{target} exists already", "edit it, or replace it: envbuild init --force")
    guess = look(folder)
    atomic_write(target, starter_text(guess).encode())
    console.line("wrote", str(target))
    if guess.data:
        verb = "is" if len(guess.data) == 1 else "are"
        console.line("next", f"{', '.join(guess.data)} {verb} not pinned: uncomment inputs")
    console.line("next", "read it, then: envbuild lock spec.yaml")


def write_lock(path: Path, options: LockOptions, console: Console, *, summary: bool = False) -> None:
    """Resolve a spec and write the lock and its Dockerfile; an old lock stays whole until the new one is.

    Args:
        summary: also print what moved, as Markdown.
    """
    from envbuild.cli.resolving import resolve
    from envbuild.determinism import policy
    from envbuild.image.dockerfile import render

    spec = load_spec(path, check_env=policy.forbidden)
    target = path.parent / f"pylock.{spec.name}.toml"
    old, place = existing_lock(path, spec, upgrade=options.upgrade), dockerfile_of(path, target)
    if old and not options.upgrade:
        layout.check(old.layout, target.name)
    lock, notes = resolve(spec, path, old, options, console)
    data = locks.dumps(lock)
    dockerfile = render(lock).dockerfile
    atomic_write(place, dockerfile)
    atomic_write(target, data)
    earlier = earlier_locks(path, target)
    notes = (*notes, *(f"{name} is of {path.name} too, under its earlier name: remove it" for name in earlier))
    _report(spec, lock, notes, console)
    console.line("wrote", f"{target.name}, {place.name}", elapsed=True)
    moved = [*differences(old, lock), *moved_inputs(path.parent, old.inputs, lock.inputs)] if old else []
    for line in moved:
        console.line("moved", line)
    if summary:
        from envbuild.cli.summarising import summarise

        summarise(target, old, lock, console)
    console.result({"lock": str(target), "sha256": locks.lock_digest(lock), "moved": moved, "notes": list(notes)})


def check_lock(path: Path, options: LockOptions, console: Console) -> None:
    """Raise ``LockError`` (exit 11) unless the lock is what the spec beside it asks for; asks no index."""
    from envbuild.determinism import policy

    if options.host:
        raise UsageError(
            "--check compares a lock with its spec, not with a host", "compare with this host: envbuild check"
        )
    spec = load_spec(path, check_env=policy.forbidden)
    target = path.parent / f"pylock.{spec.name}.toml"
    with json_error_output(console, lock=str(target)):
        _refuse_stale(spec, path, target, options)
    console.line("fresh", f"{target.name} is what {path.name} asks for")
    console.result({"lock": str(target), "fresh": True, "reasons": []})


def _refuse_stale(spec: Spec, path: Path, target: Path, options: LockOptions) -> None:
    from envbuild.image.dockerfile import render

    lock = locks.load(target)
    stale = stale_inputs(lock.resolution, resolution_inputs(spec, path, options))
    dockerfile = dockerfile_of(path, target)
    if not stale and (not dockerfile.is_file() or dockerfile.read_bytes() != render(lock).dockerfile):
        stale = [f"{dockerfile.name} is not the one of this lock"]
    if stale:
        raise LockError(
            f"{target.name} is stale\n" + "\n".join(f"  {line}" for line in stale), f"lock again: envbuild lock {path}"
        )


def differences(old: locks.Lock, new: locks.Lock) -> list[str]:
    """Say which packages, hardware fields and CUDA libraries moved between two locks, one line each."""
    before, after = ({**_versions(lock), **locked_host.facts(lock)} for lock in (old, new))
    moved = [name for name in before | after if before.get(name) != after.get(name)]
    moved.sort(key=lambda name: (_is_hardware(name), name))
    width = max(29, *map(len, moved)) if moved else 0
    lines = []
    for name in moved:
        nothing = locked_host.absent(name) if _is_hardware(name) else "none"
        lines.append(f"{name:<{width}} {before.get(name, nothing)} → {after.get(name, nothing)}")
    return lines


def _is_hardware(name: str) -> bool:
    return name.startswith(("cuda.", "hardware."))


def _versions(lock: locks.Lock) -> dict[str, str]:
    wheels = {package.name: package.version for package in lock.packages}
    return {
        "image layout": str(lock.layout),
        **{f"{package.name} (os)": package.version for package in lock.os.packages},
        **wheels,
    }


def _report(spec: Spec, lock: locks.Lock, notes: Sequence[str], console: Console) -> None:
    """Print what was locked, as people want to read it."""
    from envbuild.cli.render.lock import system_line

    console.print_lines([system_line(lock.os)])
    if lock.packages:
        wheel_bytes = sum(package.wheel.size for package in lock.packages)
        wheels = plural(len(lock.packages), "wheel")
        names = _headline(spec, lock)
        console.line("python", f"{lock.python.version:<18}", f"{wheels:<12}", f"{human_bytes(wheel_bytes):<8}", names)
    for name, reason in lock.added.items():
        console.line("added", f"{name:<18}", reason)
    pinned = f"{lock.determinism.level}, {plural(lock.determinism.threads, 'thread')}, seed {lock.determinism.seed}"
    console.line("env", f"{plural(len(lock.environment), 'variable'):<18}", pinned)
    locked_host.report(lock, console)
    for entry in lock.inputs:
        console.line("input", f"{entry.path:<18}", plural(entry.files, "file"), human_bytes(entry.bytes))
    for note in notes:
        console.line("note", note)


def _headline(spec: Spec, lock: locks.Lock) -> str:
    """Name the frameworks and what the spec asks for, with versions, as much as fits a line."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    asked = [canonicalize_name(Requirement(line).name) for line in spec.requirements]
    versions = {package.name: package.version for package in lock.packages}
    names = [name for name in dict.fromkeys([*asked, *lock.frameworks]) if name in versions][:4]
    more = " …" if len(versions) > len(names) else ""
    return ", ".join(f"{name} {versions[name]}" for name in names) + more
