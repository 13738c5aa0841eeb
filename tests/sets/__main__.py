"""Lock each set, compare its pins with uv's, build and import it: ``python -m tests.sets [--lock-only] [NAME…]``.

Prints a table. Everything is made in a folder of its own (``--work``), which holds a store too; what is built of a set
is removed before the next one, unless ``--keep`` is given. ``--largest`` bounds what is downloaded for one set.
``--page`` tries nothing: it writes the page of the documentation from the outcomes in ``tests/sets/results.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from envbuild.lockfile import model as locks
from tests.sets import RESULTS, Outcome, PackageSet, load, read, save, uv_pins
from tests.sets.archives import unpack
from tests.sets.page import PAGE, summary, table, written
from tests.support.cli import ROOT
from tests.support.images import forget_images

_MEGABYTE = 1_000_000
_GIGABYTE = 1_000_000_000
_PROBLEM = 160
_TIMES = 3
_IMPORTS = "import importlib\nfor name in {names!r}:\n    importlib.import_module(name)\nprint('imported', {count})\n"


def main() -> int:
    """Try the sets; returns 1 if one is neither as it should be nor refused as the manifest states."""
    parser = argparse.ArgumentParser(prog="python -m tests.sets")
    parser.add_argument("--lock-only", action="store_true", help="resolve, and download no package")
    parser.add_argument(
        "--largest", type=int, default=300, metavar="MB", help="build sets up to this size (%(default)s)"
    )
    parser.add_argument("--disk", type=int, default=10, metavar="GB", help="clear the store beyond this (%(default)s)")
    parser.add_argument("--work", type=Path, help="folder to work in; by default one that is removed")
    parser.add_argument("--results", type=Path, help="file that outcomes are added to; sets in it are left out")
    parser.add_argument("--timed", action="store_true", help="lock three times more, and take the least time")
    parser.add_argument("--keep", action="store_true", help="keep what was built and downloaded")
    parser.add_argument("--page", action="store_true", help="write the page from the outcomes that are recorded")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(written(PAGE.read_text(), load(), read(RESULTS)))
        return 0
    sets = [each for each in load() if not options.names or each.name in options.names]
    with tempfile.TemporaryDirectory(prefix="envbuild-sets-") as folder:
        trial = _Trial(options, (options.work or Path(folder)).absolute())
        outcomes = [trial.outcome(each) for each in trial.smallest_first(sets)]
    found = {each.name: each for each in outcomes}
    print(summary(sets, found), table(sets, found), sep="\n")
    print(", ".join(f"{count} {state}" for state, count in Counter(each.state for each in outcomes).items()))
    return 1 if any(each.state == "failed" for each in outcomes) else 0


class _Trial:
    """Tries sets, one after the other."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self._options, self._work, self._store = options, work, work / "store"
        self._work.mkdir(parents=True, exist_ok=True)
        self._free = shutil.disk_usage(self._work).free
        self._known = read(options.results) if options.results else {}

    def smallest_first(self, sets: Sequence[PackageSet]) -> list[PackageSet]:
        """Return the sets by the size that an earlier call found, those of unknown size first."""
        sizes = {name: known.size for name, known in self._known.items()}
        return sorted(sets, key=lambda each: sizes.get(each.name, 0))

    def outcome(self, wanted: PackageSet) -> Outcome:
        """Return what becomes of a set; one that an earlier call built or refused is not tried again."""
        known = self._known.get(wanted.name)
        if known and (known.state in {"refused", "imported"} or self._finished(known)):
            return known
        found = known if known and self._lock(wanted).exists() else self._locked(wanted)
        if found.state == "locked" and wanted.imports and self._small(found) and not self._options.lock_only:
            found = self._imported(wanted, found)
        if known and not found.uv_seconds:
            found = replace(found, seconds=known.seconds, uv_seconds=known.uv_seconds)
        if self._options.results:
            save(found, self._options.results)
        print(f"{found.state:<9} {found.name:<24} {found.problem}", file=sys.stderr, flush=True)
        return found

    def _finished(self, known: Outcome) -> bool:
        """Whether this call would do no more than lock a set that is locked."""
        return known.state == "locked" and (self._options.lock_only or not self._small(known))

    def _small(self, found: Outcome) -> bool:
        return found.size <= self._options.largest * _MEGABYTE

    def _locked(self, wanted: PackageSet) -> Outcome:
        folder = self._work / wanted.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "spec.yaml").write_text(wanted.spec())
        for pin in wanted.projects:
            unpack(pin, folder)
        bare = Outcome(name=wanted.name, group=wanted.group, state="failed")
        done, _ = self._envbuild(folder, "lock", "--json")
        if done.returncode:
            (folder / "message").write_text(done.stderr)
            problem = _first_lines(done.stderr)
            state = "refused" if wanted.refused and wanted.refused in done.stderr else "failed"
            return replace(bare, state=state, problem=problem)
        if wanted.refused:
            return replace(bare, problem=f"locked, but the manifest expects a refusal: {wanted.refused}")
        path = self._lock(wanted)
        lock = locks.load(path)
        seconds, uv_seconds = 0.0, 0.0
        differs = self._compared(wanted, lock)
        if self._options.timed:
            seconds, uv_seconds = self._timed(wanted, lock)
        return Outcome(
            name=wanted.name,
            group=wanted.group,
            state="locked",
            packages=len(lock.packages),
            system=len(lock.os.packages),
            size=sum(p.wheel.size for p in lock.packages) + sum(p.size for p in lock.os.packages),
            seconds=seconds,
            uv_seconds=uv_seconds,
            compared=not wanted.keys.get("sources"),
            differs=differs,
            notes=_notes(done),
        )

    def _timed(self, wanted: PackageSet, lock: locks.Lock) -> tuple[float, float]:
        """Return the least seconds of three that ``lock`` takes without a lock, and uv, in turns: other work is noise.

        Both have the answers of the indexes at hand.
        """
        if wanted.keys.get("sources"):
            return 0, 0
        own, uv = [], []
        for _ in range(_TIMES):
            self._lock(wanted).unlink()
            own.append(self._envbuild(self._work / wanted.name, "lock", "--json")[1])
            start = time.monotonic()
            self._uv_pins(wanted, lock)
            uv.append(time.monotonic() - start)
        return min(own), min(uv)

    def _uv_pins(self, wanted: PackageSet, lock: locks.Lock) -> dict[str, str]:
        from envbuild.resolve.python.uv import platform
        from envbuild.resolve.python.wheels import Target

        name = platform(Target(python=lock.python.release, platform=lock.python.platform))
        return uv_pins(wanted, lock.python.version, name, self._work / "uv")

    def _compared(self, wanted: PackageSet, lock: locks.Lock) -> tuple[str, ...]:
        """Return the pins that are not uv's."""
        if wanted.keys.get("sources"):
            return ()
        try:
            pins = self._uv_pins(wanted, lock)
        except subprocess.CalledProcessError as error:
            return (f"uv: {_first_lines(error.stderr)}",)
        own = {package.name: package.version for package in lock.packages}
        names = sorted(name for name in {*own, *pins} if own.get(name) != pins.get(name))
        return tuple(f"{name} {own.get(name, 'none')} (uv {pins.get(name, 'none')})" for name in names)

    def _imported(self, wanted: PackageSet, found: Outcome) -> Outcome:
        folder = self._work / wanted.name
        (folder / "imports.py").write_text(_IMPORTS.format(names=wanted.imports, count=len(wanted.imports)))
        without = ("--allow", "gpu") if wanted.keys.get("cuda", "none") != "none" else ()  # imports need no GPU
        try:
            for command in (("build",), ("run", *without, "imports.py")):
                done, _ = self._envbuild(folder, *command)
                if done.returncode:
                    return replace(found, state="failed", problem=f"{command[0]}: {_last_lines(done)}")
                found = replace(found, notes=(*found.notes, *_notes(done)))
            return replace(found, state="imported")
        finally:
            if not self._options.keep:
                self._forget(wanted)

    def _lock(self, wanted: PackageSet) -> Path:
        return self._work / wanted.name / f"pylock.{wanted.name}.toml"

    def _forget(self, wanted: PackageSet) -> None:
        """Remove the image; and what the store holds, once the disk has lost as much as it may: sets share layers."""
        if os.environ.get("ENVBUILD_ENGINE") != "local":
            forget_images(f"envbuild/{wanted.name}")
        shutil.rmtree(self._work / wanted.name, ignore_errors=True)
        if self._free - shutil.disk_usage(self._work).free > self._options.disk * _GIGABYTE:
            self._envbuild(self._work, "store", "gc", "--older-than", "0")

    def _envbuild(self, folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], float]:
        environ = {**os.environ, "ENVBUILD_STORE": str(self._store), "PYTHONPATH": str(ROOT)}
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "envbuild", *arguments], cwd=folder, env=environ, capture_output=True, text=True
        )
        return done, time.monotonic() - start


def _first_lines(text: str) -> str:
    lines = [line.strip().removeprefix("envbuild: ") for line in text.splitlines() if line.strip()]
    return textwrap.shorten(" ".join(lines), _PROBLEM, placeholder=" …")


def _notes(done: subprocess.CompletedProcess[str]) -> tuple[str, ...]:
    """Return the notes that a command printed: at the start of a line, or in its JSON."""
    with suppress(ValueError):
        return tuple(_first_lines(note) for note in json.loads(done.stdout).get("notes", ()))
    lines = (done.stdout + done.stderr).splitlines()
    return tuple(_first_lines(line.removeprefix("note ")) for line in lines if line.startswith("note "))


def _last_lines(done: subprocess.CompletedProcess[str]) -> str:
    return _first_lines("\n".join((done.stdout + done.stderr).strip().splitlines()[-3:]))


if __name__ == "__main__":
    sys.exit(main())
