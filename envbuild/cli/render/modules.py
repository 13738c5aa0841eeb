"""Modules and files that a program did not find, though its project has them in another folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from envbuild.lockfile.layout import WORKSPACE

_PROJECT = 1 << 20
"""Bytes of a ``pyproject.toml`` that is read for a hint."""
_DEEPEST, _MOST = 3, 2_000
"""Levels of folders, and folders in all, in which a module is looked for: it is a hint, and has to come at once."""


def above(directory: str) -> str:
    """Return the way to the project's folder from where a program was started: ``..`` from ``/workspace/src``."""
    place = PurePosixPath(directory)
    depth = len(place.relative_to(WORKSPACE).parts) if place.is_relative_to(WORKSPACE) else 0
    return "/".join([".."] * depth) or "."


def in_project(module: str, folder: str, script: str = "", above: str = ".") -> str:
    """Return where the project has a module, and how a program finds it.

    Args:
        module: the module or package.
        folder: where it is; ``.`` for the project's own folder.
        script: path of the script that did not find it, started in the project's folder; empty if there is none.
        above: the way from where it was started to the project's folder.
    """
    where = "the project" if folder == "." else folder
    stem, dot, suffix = script.rpartition(".")
    parts = stem.split("/")
    if folder == "." and dot + suffix == ".py" and len(parts) > 1 and all(each.isidentifier() for each in parts):
        return f"{where} has {module}: start the script as a module, envbuild run -m {'.'.join(parts)}"
    return f"{where} has {module}, give its folder: -e PYTHONPATH={shlex.quote(os.path.normpath(f'{above}/{folder}'))}"


def started_there(command: Sequence[str]) -> str:
    """Return how to start a script in its own folder, which has the file that it looks for."""
    script = Path(command[0])
    words = shlex.join([script.name, *command[1:]])
    return f"it is next to the script: cd {shlex.quote(str(script.parent))}; envbuild run {words}"


def own_command(project: Path, name: str) -> str:
    """Return how the image gets a command that the project itself defines; empty if it defines none of that name."""
    from envbuild.core.fs import read_regular
    from envbuild.core.toml import parse_toml

    try:
        read = parse_toml(read_regular(project / "pyproject.toml", _PROJECT).decode())
        own = read.get("project", {})
        found = isinstance(own, dict) and name in {**own.get("scripts", {}), **own.get("gui-scripts", {})}
        distribution = str(own["name"]) if found else ""
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return ""
    if not distribution.isprintable() or not found:
        return ""
    return (
        f"{name} is a command of this project, which is not in the image: add it to the spec "
        f"(requirements: [-e .], sources: [{distribution}]), then: envbuild lock"
    )


def folder_of_module(project: Path, module: str) -> str | None:
    """Return the folder of the project that has a module or package, relative to it; None if none is found.

    The topmost one; hidden folders, virtual environments and what is deeper than three levels are left out.
    """
    found: list[tuple[int, str]] = []
    for count, (folder, folders, files) in enumerate(os.walk(project)):
        relative = os.path.relpath(folder, project)
        depth = 0 if relative == "." else relative.count(os.sep) + 1
        if count > _MOST:
            break
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        package = Path(folder, module)
        if f"{module}.py" in files or (module in folders and any(package.glob("*.py"))):
            found.append((depth, relative))
        folders[:] = sorted(each for each in folders if not each.startswith((".", "__")) and depth < _DEEPEST)
    return min(found)[1] if found else None
