"""A wheel that leads to the folder of its project, made of the wheel that the project's backend builds.

People who write ``-e .`` edit the files and run again. The image therefore holds the project's metadata and entry
points, and a ``.pth`` file with the folder in which runs see the files; ``envbuild run`` records the digest of each
file that a program loads. Backends have a hook for this (PEP 660), but each writes another kind of link to the folder
in which it was called, and compiles into it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from envbuild.errors import BuildError
from envbuild.sources import canonical
from envbuild.sources.canonical import Member
from envbuild.sources.tree import TreeFile

_MOST_SHOWN = 4


def editable(wheel: bytes, name: str, files: Sequence[TreeFile], folder: str, project: str) -> bytes:
    """Return the wheel that leads to a project's folder.

    Args:
        wheel: canonical bytes of what the project's backend built.
        name: its file name.
        files: of the project.
        folder: path of the project where programs run.
        project: what messages call it.

    Raises:
        BuildError: the wheel has modules that are not files of the project, such as compiled ones.
    """
    members = canonical.read(wheel, name)
    modules = {path: member for path, member in members.items() if not _is_about(path)}
    roots = _roots(modules, files)
    lost = [path for path in modules if path not in roots]
    if lost or ".data/" in "".join(path for path in members if path.partition("/")[0].endswith(".data")):
        shown = ", ".join((lost or [path for path in members if ".data/" in path])[:_MOST_SHOWN])
        raise BuildError(
            f"{project} cannot be editable: its build makes files that its folder does not have: {shown}",
            f"write it without -e, and lock again after a change: {project.removeprefix('-e ')}",
        )
    lines = "".join(f"{PurePosixPath(folder, root)}\n" for root in dict.fromkeys(roots.values()))
    kept = {path: member for path, member in members.items() if _is_about(path)}
    link = f"__editable__.{name.partition('-')[0]}.pth"
    return canonical.canonical({**kept, link: Member(data=lines.encode(), executable=False, stated=())})


def _is_about(path: str) -> bool:
    """Whether a member is metadata or another thing than a module."""
    return path.partition("/")[0].endswith((".dist-info", ".data"))


def _roots(modules: Mapping[str, Member], files: Sequence[TreeFile]) -> dict[str, str]:
    """Return for each module the folder of the project that it is imported from, as far as there is one.

    A file of the project is a module's if its content is the same and its path ends in the module's.
    """
    found: dict[str, str] = {}
    content = {file.path: file.data for file in files}
    places = Counter(path.removesuffix(module) for module in modules for path in content if _ends(path, module))
    candidates = sorted(places, key=lambda root: (-places[root], root))
    for module, member in modules.items():
        root = next((root for root in candidates if content.get(f"{root}{module}") == member.data), None)
        if root is not None:
            found[module] = root
    return found


def _ends(path: str, module: str) -> bool:
    return path == module or path.endswith(f"/{module}")
