"""Projects among the requirements: their files packed and built at lock time, before anything is resolved.

A wheel that is built of a folder or a commit is one of the spec's own: its name is taken from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.core.text import quote
from envbuild.errors import IntegrityError, NotReproducibleError, ResolveError
from envbuild.lockfile import model as locks

if TYPE_CHECKING:
    from envbuild.resolve.python.sources import BuiltWheel
    from envbuild.spec.places import Place
    from envbuild.store.objects import Store

ALL = "all"
ALL_FILES, DEFINITION = "/**", "/** (editable)"
"""What a project is called among a lock's inputs, after its path."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project whose files are packed.

    Attributes:
        place: the requirement.
        name: normalised name of its package.
        archive: its files; the store has them.
        origin: where they come from.
        elsewhere: what it needs from elsewhere than an index; see ``sources.project.Stated``.
        submodules: folders of git submodules, which are empty.
    """

    place: Place
    name: str
    archive: locks.SourceArchive
    origin: locks.Origin
    elsewhere: Mapping[str, str] = msgspec.field(default_factory=dict)
    submodules: tuple[str, ...] = ()


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """Wheels of projects: lines that ask for them, and their SHA-256 by normalised name and version."""

    lines: tuple[str, ...] = ()
    digests: Mapping[tuple[str, str], frozenset[str]] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def pack_projects(
    places: Sequence[Place], folder: Path, store: Store, old: locks.Lock | None, moved: Callable[[str], bool]
) -> list[Project]:
    """Pack the files of projects into the store; nothing of them is run.

    Args:
        folder: of the spec.
        old: the lock that is replaced: what it has of a branch stays.
        moved: whether a package is to be upgraded.

    Raises:
        ResolveError: a folder or a commit is no project, has no name, or two have the same.
        IntegrityError: a repository cannot be read.
    """
    found: list[Project] = []
    for place in places:
        project = _from_git(place, store, old, moved) if place.git else _from_folder(place, folder, store)
        if twin := next((each for each in found if each.name == project.name), None):
            raise ResolveError(
                f"{twin.place} and {place} are both {project.name}", "keep one of them in the requirements"
            )
        found.append(project)
    return found


def require_allowed(projects: Sequence[Project], sources: Sequence[str]) -> None:
    """Raise ``ResolveError`` unless the spec allows to run the code of these projects, and they need no others."""
    lacking = [project.name for project in projects if project.name not in sources]
    if lacking and ALL not in sources:
        shown = ", ".join(f"{project.place} ({project.name})" for project in projects if project.name in lacking)
        raise ResolveError(
            f"a wheel is built of {shown}, which runs its code, and the spec does not allow that",
            f"allow it, in a sandbox; in the spec:  sources: [{', '.join(dict.fromkeys((*sources, *lacking)))}]",
        )
    names = {project.name for project in projects}
    for project in projects:
        for name, where in project.elsewhere.items():
            if name not in names:
                line, allowed = _line(project, where) or "its folder", ", ".join((*sources, name))
                raise ResolveError(
                    f"{project.place} takes {name} from {where or 'its workspace'}, not from an index, where a "
                    "stranger may have that name",
                    f"name it among the requirements too ({line}), and allow it:  sources: [{allowed}]",
                )


def build_projects(
    projects: Sequence[Project],
    build: Callable[[str, locks.SourceArchive, locks.Origin], BuiltWheel],
    folder: Path,
) -> Built:
    """Build each project, and put its wheel into a folder.

    Args:
        build: builds the wheel of a package from files that the store has.
        folder: receives the wheels.

    Raises:
        ResolveError: a build makes another package, or one that asks for addresses.
        BuildError, NotReproducibleError, EngineError: as for other sources.
    """
    import shutil

    from packaging.utils import canonicalize_version, parse_wheel_filename

    lines, digests = [], {}
    for project in projects:
        wheel = build(project.name, project.archive, project.origin)
        name, version, _, _ = parse_wheel_filename(wheel.name)
        if name != project.name:
            raise ResolveError(
                f"{project.place}: its build made {wheel.name}, which is no wheel of {project.name}",
                f"write its name: {name} @ {project.place.shown}" if project.place.path else "correct its name",
            )
        _refuse_addresses(project, wheel)
        shutil.copyfile(wheel.path, folder / wheel.name)
        lines.append(project.place.line(name, str(version)))
        digests[str(name), canonicalize_version(str(version))] = frozenset((wheel.sha256,))
    modules = [
        f"{project.place}: the folders of its git submodules are empty in the build: {', '.join(project.submodules)}"
        for project in projects
        if project.submodules
    ]
    return Built(lines=tuple(lines), digests=digests, notes=tuple(modules))


def bring_project(folder: Path, source: locks.Source, store: Store, *, offline: bool) -> None:
    """Pack a locked project again, for a machine whose store lacks its files.

    Raises:
        NotReproducibleError: the folder has other files now.
        IntegrityError, ResolveError: the commit cannot be fetched, or there is no such folder.
    """
    from envbuild.sources.git import fetch_commit
    from envbuild.sources.project import project_files
    from envbuild.sources.tree import pack

    origin = source.origin
    assert origin is not None  # noqa: S101 - asked for only then
    if origin.git and offline:
        raise IntegrityError(f"{source.archive.name} is not in the store, and {origin.git} is not asked offline")
    if origin.git:
        data = pack(fetch_commit(origin.git, origin.ref, origin.commit).files)
    else:
        data = pack(project_files(folder / origin.path))
    if (found := sha256_bytes(data)) != source.archive.sha256:
        raise NotReproducibleError(
            f"{origin.git or origin.path}: these are not the locked files of {source.name}\n"
            f"  expected  sha256 {source.archive.sha256}\n  found     sha256 {found}",
            "get its wheel from where it was built: envbuild fetch --vendor DIR there, --from DIR here; or lock again",
        )
    store.add_bytes(data)


def input_name(place: Place) -> str:
    """Return what a folder is called among a lock's inputs."""
    return f"{place.path}{DEFINITION if place.editable else ALL_FILES}"


def input_digest(folder: Path, name: str) -> str:
    """Return the digest of a project's files, of an editable one of those that define it.

    Args:
        folder: of the spec.
        name: as ``input_name`` returns it.

    Raises:
        ResolveError: it is no project any more.
    """
    from envbuild.sources.project import definition_files, project_files
    from envbuild.sources.tree import pack

    if name.endswith(DEFINITION):
        return sha256_bytes(pack(definition_files(folder / name.removesuffix(DEFINITION))))
    return sha256_bytes(pack(project_files(folder / name.removesuffix(ALL_FILES))))


def _from_folder(place: Place, folder: Path, store: Store) -> Project:
    from envbuild.sources.project import project_files
    from envbuild.sources.tree import pack

    if place.editable and place.path.startswith(".."):
        raise ResolveError(
            f"{place} is outside of the spec's folder, which is what runs see",
            f"write it without -e ({place.shown}), or move the spec into that folder",
        )
    files = project_files(folder / place.path)
    texts = {file.path: file.data for file in files}
    name, elsewhere = _stated(place, texts, "")
    return Project(
        place=place,
        name=name,
        archive=_archive(name, pack(files), store),
        origin=locks.Origin(path=place.path, editable=place.editable),
        elsewhere=elsewhere,
    )


def _from_git(place: Place, store: Store, old: locks.Lock | None, moved: Callable[[str], bool]) -> Project:
    from envbuild.sources.git import Commit, fetch_commit
    from envbuild.sources.tree import pack, unpack

    origin = locks.Origin(git=place.git, ref=place.ref, subdirectory=place.subdirectory)
    before = _before(origin, old)
    commit = before.origin.commit if before and before.origin and not moved(before.name) else ""
    if before and commit and store.has(before.archive.sha256, before.archive.size):
        known = unpack(store.path(before.archive.sha256).read_bytes())
        found = Commit(commit=commit, files=tuple(known), submodules=())
        archive = before.archive
    else:
        found = fetch_commit(place.git, place.ref, commit)
        archive = None
    inner = f"{place.subdirectory}/" if place.subdirectory not in ("", ".") else ""
    texts = {f.path.removeprefix(inner): f.data for f in found.files if f.path.startswith(inner)}
    name, elsewhere = _stated(place, texts, found.commit)
    return Project(
        place=place,
        name=name,
        archive=archive or _archive(name, pack(found.files), store),
        origin=locks.Origin(git=place.git, ref=place.ref, commit=found.commit, subdirectory=place.subdirectory),
        elsewhere=elsewhere,
        submodules=found.submodules,
    )


def _before(origin: locks.Origin, old: locks.Lock | None) -> locks.Source | None:
    """Return what a lock has of the same address."""
    for entry in old.sources if old else ():
        known = entry.origin
        if known and (known.git, known.ref, known.subdirectory) == (origin.git, origin.ref, origin.subdirectory):
            return entry
    return None


def _stated(place: Place, texts: Mapping[str, bytes], commit: str) -> tuple[str, Mapping[str, str]]:
    """Return a project's name, and what it takes from elsewhere."""
    from envbuild.sources.project import DEFINITION as FILES
    from envbuild.sources.project import stated

    if not any(name in texts for name in FILES):
        raise ResolveError(
            f"{place} is no project: commit {commit} has none of {', '.join(FILES)}",
            "name the folder of the project: #subdirectory=PATH",
        )
    try:
        found = stated(texts.get("pyproject.toml", b""), texts.get("setup.cfg", b""))
    except (ValueError, RecursionError) as error:
        raise ResolveError(f"{place}: its metadata cannot be read: {error}", "correct its pyproject.toml") from None
    name = place.name or found.name
    if not name:
        raise ResolveError(
            f"{place}: only its build knows its name", f"write the name first: NAME @ {str(place).removeprefix('-e ')}"
        )
    return name, found.elsewhere


def _archive(name: str, data: bytes, store: Store) -> locks.SourceArchive:
    return locks.SourceArchive(name=f"{name}.tar", size=len(data), sha256=store.add_bytes(data))


def _refuse_addresses(project: Project, wheel: BuiltWheel) -> None:
    """Refuse a wheel that needs a package from an address: no index has it, and its bytes can change."""
    import email
    import zipfile

    from packaging.requirements import InvalidRequirement, Requirement

    with zipfile.ZipFile(wheel.path) as archive:
        name = next((each for each in archive.namelist() if each.endswith(".dist-info/METADATA")), "")
        lines = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", []) if name else []
    for line in lines:
        try:
            needed = Requirement(line)
        except InvalidRequirement:
            raise ResolveError(f"{project.place} needs {quote(line)}, which is no requirement") from None
        if needed.url:
            raise ResolveError(
                f"{project.place} needs {needed.name} from an address: {needed.url}",
                f"write {needed.name} there without the address, and here with it, among the requirements",
            )


def _line(project: Project, where: str) -> str:
    """Return how a spec would name what a project takes from elsewhere; empty if that is not known."""
    import posixpath

    if not where:
        return ""
    if "://" in where:
        return f"git+{where}"
    path = posixpath.normpath(posixpath.join(project.place.path, where))
    return path if path.startswith(".") else f"./{path}"
