"""Which files of a folder are its project: those that its wheel is built of, and whose change makes a lock stale.

A folder that people work in also has data, results of runs, caches and virtual environments. Nothing of it is run, no
git is needed, and the answer depends on nothing but the folder: the same on every machine that the folder is copied to.
The build sees these files only, so a file that is wrongly left out fails the build and cannot go unnoticed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.fs import read_regular
from envbuild.core.text import human_bytes, quote
from envbuild.core.toml import parse_toml
from envbuild.errors import ResolveError
from envbuild.sources.tree import TreeFile

DEFINITION = ("pyproject.toml", "setup.py", "setup.cfg")
"""What makes a folder a project; all that counts of one that is editable."""
_LIMIT, _MOST = 512 << 20, 20_000
_TEXTS = (*DEFINITION, "MANIFEST.in", "meson.build", "CMakeLists.txt", "hatch.toml", "pdm_build.py", "hatch_build.py")
"""Files that name others which a build needs."""
_CODE = frozenset(
    (
        *(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inc"),
        *(
            ".cu",
            ".cuh",
            ".f",
            ".f90",
            ".f95",
            ".rs",
            ".go",
            ".s",
            ".asm",
            ".build",
            ".cmake",
            ".proto",
            ".toml",
            ".cfg",
        ),
    )
)
_ROOT = re.compile(
    r"(?:README|LICEN[CS]E|COPYING|NOTICE|AUTHORS|CHANGELOG|CHANGES|HISTORY|VERSION|MANIFEST|requirements|CMakeLists"
    r"|meson|Cargo|Makefile|PKG-INFO|METADATA)\b.*",
    re.IGNORECASE,
)
_NEVER = frozenset(
    ("__pycache__", "node_modules", "build", "dist", "site-packages", "wandb", "mlruns", "lightning_logs", "_skbuild")
)
_BUILT = frozenset(("build", "dist"))
_OURS = re.compile(r"pylock\..*\.toml|pylock\.toml|Dockerfile.*")
_COMPILED = (".pyc", ".pyo", ".so", ".o", ".a", ".whl", ".egg-info")


def project_files(folder: Path) -> list[TreeFile]:
    """Return the files of a project.

    At its top: what defines it, code, and what such a file names. Below: folders with code somewhere in them, whole,
    and those that the definition names. Not: hidden files, caches, virtual environments, what builds leave, wheels,
    files that ``envbuild`` writes, links to outside.

    Raises:
        ResolveError: no project, a file that cannot be read, or more than fits into a build.
    """
    if not is_project(folder):
        raise ResolveError(
            f"{folder} is no project: it has none of {', '.join(DEFINITION)}",
            "write one, or take the folder out of requirements",
        )
    size = 0
    found: list[TreeFile] = []
    try:
        paths = list(_paths(folder))
    except OSError as error:
        raise _unreadable(error, folder) from None
    for path in paths:
        place = folder / path
        try:
            if not _is_inside(place, folder) or not place.is_file():
                continue
            data = read_regular(place, _LIMIT)
            executable = bool(place.stat().st_mode & 0o100)
        except OSError as error:
            raise _unreadable(error, place) from None
        size += len(data)
        if size > _LIMIT or len(found) > _MOST:
            raise ResolveError(
                f"{folder}: the files of this project are more than {human_bytes(_LIMIT)} or {_MOST} files",
                "keep data in folders without code, which do not count, or put the project into a folder of its own",
            )
        found.append(TreeFile(path=path, data=data, executable=executable))
    return found


def definition_files(folder: Path) -> list[TreeFile]:
    """Return the files that define a project; raises ``ResolveError`` as ``project_files`` does."""
    found = []
    for place in (folder / name for name in DEFINITION):
        try:
            if _is_inside(place, folder) and place.is_file():
                found.append(TreeFile(path=place.name, data=read_regular(place, _LIMIT)))
        except OSError as error:
            raise _unreadable(error, place) from None
    return found


def is_project(folder: Path) -> bool:
    """Whether a folder has what builds a wheel of it; a link to outside counts for nothing."""
    try:
        return any(_is_inside(folder / name, folder) and (folder / name).is_file() for name in DEFINITION)
    except OSError as error:
        raise _unreadable(error, folder) from None


def _is_inside(place: Path, folder: Path) -> bool:
    """Whether a path leads, by whatever links, to something in a folder; one that leads nowhere may."""
    return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder))


def _unreadable(error: OSError, place: Path) -> ResolveError:
    """Return the error for a part of a project that cannot be read."""
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(place)
    shown = where if len(where) <= 200 else f"{where[:100]}…{where[-60:]}"
    return ResolveError(f"cannot read {quote(shown)}: {error.strerror}", "check who may read it, or take it away")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """What a project's own files state, without running anything.

    Attributes:
        name: normalised; empty if only its build knows.
        elsewhere: packages that it takes from a folder, a workspace or git, and not from an index, each with where:
            a path relative to the project, an address, or empty for its workspace.
    """

    name: str
    elsewhere: Mapping[str, str]


def stated(pyproject: bytes, setup_cfg: bytes = b"") -> Stated:
    """Read what a project states of itself; raises ``ValueError`` if a file is not of its format."""
    from packaging.utils import canonicalize_name

    document: Any = parse_toml(pyproject.decode("utf-8"))
    tool = _table(document, "tool")
    poetry, uv = _table(tool, "poetry"), _table(tool, "uv")
    name = _table(document, "project").get("name") or poetry.get("name") or _cfg_name(setup_cfg)
    found: dict[str, str] = {}
    for package, place in (*_table(uv, "sources").items(), *_table(poetry, "dependencies").items()):
        for each in place if isinstance(place, list) else [place]:
            if isinstance(each, dict) and {"workspace", "path", "git"} & each.keys():
                found[canonicalize_name(package)] = str(each.get("path") or each.get("git") or "")
    return Stated(name=canonicalize_name(name) if isinstance(name, str) else "", elsewhere=found)


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _cfg_name(data: bytes) -> str:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(data.decode("utf-8"))
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    name = parser.get("metadata", "name", fallback="")
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) else ""


def _paths(folder: Path) -> Iterator[str]:
    """Yield the paths of a project's files, in POSIX form."""
    texts = _texts(folder)
    named = {word for text in texts for word in re.findall(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", text)}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = entry.name
        if _is_left_out(entry):
            continue
        if entry.is_dir(follow_symlinks=False):
            inner = sorted(_below(folder / name, f"{name}/", texts))
            if name in named or any(Path(path).suffix in _CODE for path in inner):
                yield from inner
        elif Path(name).suffix in _CODE or _ROOT.fullmatch(name) or name in named:
            yield name


def _below(folder: Path, prefix: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield the paths of all that is in a folder but for what never counts.

    A folder that is named like what builds leave counts if the definition has its path: aiohttp's vendor/llhttp/build.
    """
    pending = [(str(folder), prefix)]
    while pending:
        place, start = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                path = f"{start}{entry.name}"
                if _is_left_out(entry) and not (entry.name in _BUILT and any(path in text for text in texts)):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{start}{entry.name}/"))
                else:
                    yield f"{start}{entry.name}"


def _is_left_out(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith(".") or name.endswith(_COMPILED):
        return True
    if entry.is_dir(follow_symlinks=False):
        return name in _NEVER or (Path(entry.path) / "pyvenv.cfg").is_file()
    return bool(_OURS.fullmatch(name))


def _texts(folder: Path) -> list[str]:
    """Return the texts of the definition of a project, which name what belongs to it."""
    found = []
    for name in _TEXTS:
        try:
            found.append(read_regular(folder / name, 1 << 20).decode("utf-8", "replace"))
        except OSError:
            continue
    return found
