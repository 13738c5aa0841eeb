"""What the pipeline works on: reference locks, which of them changed, and a folder for what the steps pass on."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.fs import atomic_write
from envbuild.errors import UsageError
from envbuild.image.record import ImageRecord
from envbuild.lockfile import model as locks

ROOT = Path(__file__).parents[2]
LOCKFILES = ROOT / "lockfiles"
SMALL = ("digits",)
"""Locks that are built for every change of the code; the others when they change themselves."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """One lock on its way.

    Attributes:
        folder: holds spec, lock and Dockerfile.
        work: what the steps pass on; made if need be.
    """

    folder: Path
    work: Path

    @property
    def path(self) -> Path:
        """The lock's file."""
        found = sorted(self.folder.glob("pylock.*.toml"))
        if len(found) != 1:
            raise UsageError(f"{self.folder}: expected one pylock.NAME.toml, found {len(found)}", "name another folder")
        return found[0]

    @property
    def lock(self) -> locks.Lock:
        """The lock."""
        return locks.load(self.path)

    @property
    def name(self) -> str:
        """The lock's name."""
        return self.lock.name

    def note(self, name: str) -> Path:
        """Return a file of the work folder."""
        return self.work / self.folder.name / name

    def keep(self, name: str, content: dict[str, Any]) -> None:
        """Hand something on to a later step."""
        path = self.note(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())

    def kept(self, name: str, step: str) -> dict[str, Any]:
        """Read what an earlier step passed on; raises ``UsageError`` if it has not run."""
        try:
            return dict(json.loads(self.note(name).read_bytes()))
        except OSError:
            raise UsageError(f"{self.note(name)} is not there", f"first: scripts/pipeline.sh {step}") from None

    def built(self, builder: str) -> ImageRecord:
        """Return the record of the image that a builder made; raises ``UsageError`` if it has not built."""
        return msgspec.convert(self.kept(f"{builder}.json", f"build --builder {builder}"), ImageRecord)


def subjects(names: Sequence[str], work: Path) -> list[Subject]:
    """Return the locks of these folders: names below ``lockfiles/``, or paths.

    Raises:
        UsageError: there is no such folder.
    """
    found = []
    for name in names:
        folder = Path(name) if "/" in name else LOCKFILES / name
        if not folder.is_dir():
            known = " ".join(all_names())
            raise UsageError(f"{name}: no such folder of a lock; there are {known}", "or name a path such as ./project")
        found.append(Subject(folder=folder.resolve(), work=work))
    return found


def all_names() -> list[str]:
    """Return the names of all reference locks."""
    return sorted(path.parent.name for path in LOCKFILES.glob("*/spec.yaml"))


def names_to_build(since: str) -> list[str]:
    """Return the small locks and those that differ from a commit; all if there is no such commit."""
    if not _COMMIT.fullmatch(since) or since == "0" * 40:
        return all_names()
    command = ["git", "diff", "--name-only", "-z", since, "--", "lockfiles"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return all_names()
    changed = {path.split("/")[1] for path in done.stdout.split("\0") if path.count("/") >= 2}
    return [name for name in all_names() if name in changed or name in SMALL]
