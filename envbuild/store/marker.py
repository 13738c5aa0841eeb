"""The store's own folder: marked as such, owned by its user, so that nothing foreign is trusted or ever removed.

The mark is a cache directory tag (https://bford.info/cachedir/), by which backup programs know that they may pass over
the folder. A folder with other files and without the mark is refused: it may have been named by mistake.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from envbuild.core.fs import atomic_write
from envbuild.core.patterns import lazy
from envbuild.errors import UsageError

TAG = "CACHEDIR.TAG"
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n# This folder is a store of envbuild"
_CONTENT = _SIGNATURE + b": all in it can be fetched or made again (envbuild store gc).\n"
_OWN = frozenset({"sha256", "part", "derived", "leases", "locks", "trash"})
_BEING_WRITTEN = lazy(r"\.CACHEDIR\.TAG\.[a-z0-9_]{8}\.tmp")
_OTHER = "use another folder, of your own and empty: export ENVBUILD_STORE=FOLDER"


def admit(root: Path, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a folder to use as a store; marks one that has no mark yet.

    Raises:
        UsageError: the folder is another user's, may be written by everybody, or holds something else than a store.
    """
    try:
        found = root.stat()
        names = os.listdir(root) if stat.S_ISDIR(found.st_mode) else None  # noqa: PTH208 - names only
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    if names is None:
        return False
    _check_owner(root, found, environ)
    if linked := sorted(name for name in _OWN.intersection(names) if not _is_folder(root / name)):
        raise UsageError(f"{root / linked[0]} is a link or a file; in a store it is a folder", _OTHER)
    others = (name for name in names if name not in _OWN)
    foreign = sorted(name for name in others if name == TAG or not _BEING_WRITTEN.fullmatch(name))
    if TAG in foreign and _is_marked(root):
        return True
    if foreign:
        what = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise UsageError(f"{root} is no store of envbuild, and not empty: it holds {what}", _OTHER)
    with suppress(OSError):  # who may not write it can use what it holds
        atomic_write(root / TAG, _CONTENT)
    return True


def make_folder(path: Path, tries: int = 5) -> None:
    """Make a folder and the missing ones above it; whatever the umask, only its owner may write to it.

    Args:
        tries: since somebody may remove one meanwhile; where no folder can be made, as in ``/proc``, none helps.
    """
    if path.is_dir():
        return
    try:
        path.mkdir(0o755)
    except FileNotFoundError:
        if tries == 0:
            raise
        make_folder(path.parent)
        make_folder(path, tries - 1)
    except FileExistsError:
        if not path.is_dir():
            raise


def _check_owner(root: Path, found: os.stat_result, environ: Mapping[str, str]) -> None:
    """Refuse a folder that somebody else controls: layers in it are used without reading them again."""
    me = os.geteuid()
    trusted = {me, 0}
    if me == 0 and (invoker := environ.get("SUDO_UID", "")).isdecimal():
        trusted.add(int(invoker))
    if found.st_uid not in trusted:
        raise UsageError(f"the store {root} belongs to another user (uid {found.st_uid}, expected {me})", _OTHER)
    if found.st_mode & stat.S_IWOTH:
        raise UsageError(f"everybody may write to the store {root}", f"chmod -R o-w {root}")


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _is_marked(root: Path) -> bool:
    with suppress(OSError), open(root / TAG, "rb", opener=_no_links) as stream:
        return stream.read(len(_SIGNATURE)) == _SIGNATURE
    return False


def _no_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
