"""The ways in which programs can run on a machine, in the order in which they are tried."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

_BUBBLEWRAP = "bwrap"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How programs run on this machine.

    Attributes:
        root: what their root file system is: an ``overlay`` of the layers, or a ``linked`` tree (``linked.py``).
        folder: where there is room for what they write.
        prefix: command that gives a process a user namespace where this user may make none by itself.
        why: what spoke against an overlay in the store; empty for that.
    """

    root: Literal["overlay", "linked"]
    folder: str
    prefix: tuple[str, ...] = ()
    why: str = ""

    @property
    def scratch(self) -> Path:
        """The folder."""
        return Path(self.folder)

    def as_root(self) -> tuple[str, ...]:
        """Return the prefix that makes a process root of its user namespace, as build steps are; empty for none."""
        return entering(self.prefix[0], "--uid", "0", "--gid", "0") if self.prefix else ()

    def note(self, *, differs: bool = False) -> str:
        """Return a sentence for people about what is out of the ordinary; empty if nothing is.

        Args:
            differs: leave out what programs do not see.
        """
        if self.root == "linked":
            return f"no overlay over this store ({self.why}): the image's files are linked into one read-only folder"
        if self.why and not differs:
            return f"no overlay in this store ({self.why}): what programs write outside the project is in {self.folder}"
        return ""


def roots(scratch: Path) -> Iterator[tuple[Literal["overlay", "linked"], Path]]:
    """Yield kinds of root file systems with the folder for what programs write, best first.

    An overlay's own layer has to be on a local disk or in memory; the layers below may be on a network's.
    """
    yield "overlay", scratch
    import tempfile

    for folder in map(Path, dict.fromkeys((tempfile.gettempdir(), "/var/tmp", "/dev/shm"))):  # noqa: S108 - see _own
        with suppress(OSError):
            if folder.stat().st_dev != scratch.stat().st_dev:
                yield "overlay", _own(folder)
    yield "linked", scratch


def prefixes() -> list[tuple[str, ...]]:
    """Return the commands that may give a process a user namespace; the first is none at all."""
    found = (f"{folder}/{_BUBBLEWRAP}" for folder in ("/usr/bin", "/usr/local/bin", "/bin"))
    bubblewrap = next((path for path in found if os.access(path, os.X_OK)), None)
    if os.geteuid() == 0 or bubblewrap is None:
        return [()]
    return [(), entering(bubblewrap)]


def entering(bubblewrap: str, *more: str) -> tuple[str, ...]:
    """Return the command with which bubblewrap makes a user namespace, and leaves everything else to what it starts."""
    alone = ("--unshare-user", *more, "--cap-add", "ALL", "--dev-bind", "/", "/", "--die-with-parent", "--")
    return (bubblewrap, *alone)


def _own(folder: Path) -> Path:
    """Make a folder of this user's in one that everybody may write to.

    Raises:
        OSError: it cannot be made, or somebody else has one of that name.
    """
    own = folder / f"envbuild-{os.geteuid()}"
    with suppress(FileExistsError):
        own.mkdir(mode=0o700)
    if not is_own(own):
        raise PermissionError(f"{own} is not this user's alone")
    return own


def is_own(folder: Path) -> bool:
    """Whether a folder is there, belongs to this user, and nobody else may pass it."""
    with suppress(OSError):
        status = folder.lstat()
        owned = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        return owned and not stat.S_IMODE(status.st_mode) & 0o077
    return False
