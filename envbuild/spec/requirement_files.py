"""Which files a requirements file includes: all of them decide a resolution, so all of them are digested.

Format: https://pip.pypa.io/en/stable/reference/requirements-file-format/ (``-r``, ``-c``, comments, continued lines).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from envbuild.core.fs import read_regular
from envbuild.core.text import perhaps, quote
from envbuild.core.toml import parse_toml
from envbuild.errors import Problem, SpecError
from envbuild.spec import foreign
from envbuild.spec.foreign import is_pylock
from envbuild.spec.keys import STANDALONE
from envbuild.spec.places import Place, is_place, place
from envbuild.spec.system_keys import DEFAULTS
from envbuild.spec.validators import requirement

_INCLUDE = re.compile(r"(?:-r|-c|--requirements?|--constraints?)(?:\s*=\s*|\s+)?(?P<path>\S.*)")
_HASH = re.compile(r"\s--hash(?:\s*=\s*|\s+)(\S+)")
_DIGEST = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})", re.IGNORECASE)
_LARGEST, _LINES = 4 << 20, 1 << 20
"""Bytes of any file, as of a lock; characters of one that is read line by line, as of a spec."""
_ALL_HASHED = "--require-hashes"
_NO_PROJECT = "no [project] table"
PROJECT = "pyproject.toml"
"""The file next to a spec whose extras and groups the spec may name."""
_VARIABLE = re.compile(r"\$\{[A-Z0-9_]+\}")
"""What pip and uv replace by a variable of the environment."""
_SPLIT_COMMENT = re.compile(r"\S.*\s#.*\\")
"""A line whose comment ends in a backslash: pip joins the next line to it, uv does not."""
_TWO_READINGS = "a comment that ends in a backslash: pip adds the next line to it, uv does not; remove the backslash"
_LONG = re.compile(r"--(?:requirement|constraint)s?[A-Za-z-]")


def included(base: Path, files: Sequence[str], source: str = "spec.yaml") -> tuple[str, ...]:
    """Return requirements files with all that they include, directly or not, each once and sorted.

    Args:
        base: folder that ``files`` and the result are relative to.
        files: POSIX paths.
        source: what messages call the file that names them.

    Raises:
        SpecError: an included file cannot be read, or a line is what no item of the spec's list may be; all at once,
            before a resolver reads any of it: an address or a folder could run its build backend on this host.
    """
    found: set[str] = set()
    problems: list[Problem] = []
    pending = [(path, "") for path in files]
    while pending:
        path, origin = pending.pop()
        if path in found:
            continue
        found.add(path)
        try:
            text = _text(base / path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text, or not a file name"
            message = f"{origin}cannot read {quote(path)}: {reason}"
            problems.append(Problem(path="requirements", message=message))
            continue
        if why := foreign.refusal(path, text):
            problems.append(Problem(path="requirements", message=f"{origin}{why}"))
            continue
        if is_pylock(path):
            refused = [f"{path}: {why}" for why in _pylock_refusals(text)]
            refused += [f"{origin}{quote(path)}: name it in the spec, not in a requirements file"] if origin else []
            problems += [Problem(path="requirements", message=why) for why in refused]
            continue
        if path.endswith(".toml"):  # a project's metadata: no lines
            problems += [Problem(path="requirements", message=f"{path}: {why}") for why in _metadata_refusals(text)]
        elif len(text) > _LINES:
            problems.append(Problem(path="requirements", message=f"{path}: more than {_LINES} characters"))
            continue
        else:
            problems += [
                Problem(path="requirements", message=f"{path} line {number}: {why}")
                for number, line in _lines(text)
                if (why := _refusal(line))
            ]
            problems += [
                Problem(path="requirements", message=f"{path} line {number}: {_TWO_READINGS}")
                for number, line in enumerate(text.splitlines(), 1)
                if _SPLIT_COMMENT.fullmatch(line)
            ]
        for number, target in () if path.endswith(".toml") else _includes(text):
            inner = os.path.normpath((Path(path).parent / target).as_posix())
            pending.append((inner, f"{path} line {number}: "))
    if problems:
        raise SpecError(source, problems, "correct the line, or remove it")
    return tuple(sorted(found))


def _text(path: Path) -> str:
    """Return a file's text; raises ``OSError``, also for a pipe or a device, and ``ValueError`` if it is no UTF-8."""
    return read_regular(path, _LARGEST).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def requirement_lines(base: Path, files: Sequence[str], source: str = "spec.yaml") -> tuple[str, ...]:
    """Return the lines of requirements files and all they include that name a package, without options and comments.

    Args:
        base, files, source: as for ``included``.

    Raises:
        SpecError: as ``included`` does.
    """
    found = []
    for path in included(base, files, source):
        content = _text(base / path)
        if is_pylock(path):
            found += pylock_pins(content)
            continue
        if path.endswith(".toml"):
            found += [requirement(line) for line in parse_toml(content)["project"].get("dependencies", ())]
            continue
        for _, line in _lines(content):
            text = _uncommented(line)
            if line_text := _package_line(text):
                found.append(line_text)
    return tuple(found)


def flattened(base: Path, files: Sequence[str], source: str = "spec.yaml") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the requirements and the constraints in requirements files and all that they include, without projects.

    These lines are what a resolver gets, never the files: other tools end comments, join lines and replace variables by
    rules of their own, and would read, and build, what was not checked here.

    Args:
        base, files, source: as for ``included``.

    Raises:
        SpecError: as ``included`` does.
    """
    included(base, files, source)
    found: dict[str, list[str]] = {"r": [], "c": []}
    for path, role in _roles(base, files):
        found[role] += _own_lines(base, path, source)
    return tuple(found["r"]), tuple(found["c"])


def places_in(base: Path, files: Sequence[str], source: str = "spec.yaml") -> tuple[Place, ...]:
    """Return the projects that requirements files name, with all that they include; paths are relative to the spec.

    Args:
        base, files, source: as for ``included``.

    Raises:
        SpecError: as ``included`` does.
    """
    found: dict[str, Place] = {}
    for path in included(base, files, source) if files else ():
        if path.endswith(".toml"):
            continue
        for _, line in _lines(_text(base / path)):
            if is_place(text := _uncommented(line)):
                found.setdefault(text, place(text))
    return tuple(found.values())


def _roles(base: Path, files: Sequence[str]) -> list[tuple[str, str]]:
    """Return each file of a closure, what includes it first, with its role: ``r`` requirements, ``c`` constraints."""
    found: dict[tuple[str, str], None] = {}
    pending = [(path, "r") for path in reversed(files)]
    while pending:
        path, role = pending.pop()
        if (path, role) in found:
            continue
        found[path, role] = None
        if path.endswith(".toml"):
            continue
        inner = []
        for _, line in _lines(_text(base / path)):
            text = _uncommented(line)
            match = _INCLUDE.fullmatch(text) if not _LONG.match(text) else None
            if match and "://" not in match["path"]:
                place = os.path.normpath((Path(path).parent / match["path"].strip("\"'")).as_posix())
                inner.append((place, "c" if role == "c" or text.startswith(("-c", "--c")) else "r"))
        pending += reversed(inner)
    return list(found)


def _own_lines(base: Path, path: str, source: str) -> Sequence[str]:
    """Return the lines of one file that name a package."""
    if path.endswith(".toml"):
        return requirement_lines(base, [path], source)
    return [found for _, line in _lines(_text(base / path)) if (found := _package_line(_uncommented(line)))]


def _package_line(text: str) -> str:
    """Return a requirement of a line that was checked, without its digests; empty if it names no package of an index.

    Raises:
        ValueError: it is no requirement: the file was changed since it was checked.
    """
    if not text or text == _ALL_HASHED or is_place(text) or (_INCLUDE.fullmatch(text) and not _LONG.match(text)):
        return ""
    return requirement(_HASH.sub("", text))


def required_digests(
    base: Path, files: Sequence[str], source: str = "spec.yaml"
) -> dict[tuple[str, str], frozenset[str]] | None:
    """Return which files a package may have: SHA-256 by normalised name and version, from ``--hash`` options.

    None unless some line has ``--hash`` or the option ``--require-hashes`` is given; otherwise, as for pip, what is
    not in the result may not be installed at all.

    Args:
        base, files, source: as for ``included``.

    Raises:
        SpecError: as ``included`` does.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name, canonicalize_version

    found: dict[tuple[str, str], frozenset[str]] = {}
    asked = False
    for path in included(base, files, source):
        text = _text(base / path)
        if is_pylock(path):
            asked = True
            for name, version, wheels in _pylock_digests(text):
                found[name, version] = found.get((name, version), frozenset()) | wheels
            continue
        for line in () if path.endswith(".toml") else (_uncommented(line) for _, line in _lines(text)):
            hashes = [each.lower() for each in _HASH.findall(line)]
            asked = asked or bool(hashes) or line == _ALL_HASHED
            if hashes:
                parsed = Requirement(_HASH.sub("", line))
                (specifier,) = parsed.specifier
                key = canonicalize_name(parsed.name), canonicalize_version(specifier.version)
                digests = {each.removeprefix("sha256:") for each in hashes if each.startswith("sha256:")}
                found[key] = found.get(key, frozenset()) | digests
    return found if asked else None


def pylock_pins(text: str) -> list[str]:
    """Return a PEP 508 line for each package of a PEP 751 lock.

    Raises:
        ValueError: the text is no such lock, or a package comes from elsewhere than an index.
    """
    pins = []
    for package in _pylock_packages(text):
        marker = f" ; {package['marker']}" if package.get("marker") else ""
        strange = next((key for key in ("vcs", "directory", "archive") if key in package), "")
        if strange or "version" not in package:
            where = f"comes from {strange}" if strange else "has no version"
            raise ValueError(f"{quote(str(package['name']))} {where}: packages come from indexes only")
        pins.append(requirement(f"{package['name']}=={package['version']}{marker}"))
    return pins


def project_lines(
    base: Path, extras: Sequence[str], groups: Sequence[str], source: str = "spec.yaml"
) -> tuple[str, ...]:
    """Return the lines of extras and of dependency groups (PEP 735) of the ``pyproject.toml`` next to a spec.

    Args:
        base: the spec's folder.
        extras, groups: normalised names.
        source: what messages call the spec.

    Raises:
        SpecError: the file cannot be read, has no such extra or group, or a line is what no list may hold.
    """
    if not extras and not groups:
        return ()
    from packaging.errors import ExceptionGroup

    found: list[str] = []
    problems: list[Problem] = []
    try:
        text = _text(base / PROJECT)
        refused = [why for why in _metadata_refusals(text) if extras or not why.startswith(_NO_PROJECT)]
        document = {} if refused else parse_toml(text)
    except (OSError, ValueError) as error:
        refused = [f"cannot be read: {error.strerror if isinstance(error, OSError) else 'not UTF-8 text'}"]
    problems += [Problem(path="extras" if extras else "groups", message=f"{PROJECT}: {why}") for why in refused]
    for key, names, lines_of in (("extras", extras, _extra), ("groups", groups, _group)):
        for index, name in enumerate(() if refused else names):
            try:
                found += [requirement(line) for line in lines_of(document, name)]
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ExceptionGroup) as error:
                problems.append(Problem(path=f"{key}[{index}]", message=f"{PROJECT}: {quote(name)}: {_reason(error)}"))
    if problems:
        raise SpecError(source, problems, f"correct {PROJECT}, or leave the name out")
    return tuple(dict.fromkeys(found))


def _reason(error: Exception) -> str:
    """Return what is wrong with a group in one line; of several errors at once the first."""
    while inner := getattr(error, "exceptions", ()):
        error = inner[0]
    return (str(error).splitlines() or ["is not as PEP 735 has it"])[0]


def _extra(document: dict[str, Any], name: str, within: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of an extra; of an extra of the project itself, those of that extra.

    Raises:
        ValueError: there is no such extra, or it is part of itself.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    table = document["project"].get("optional-dependencies", {})
    extras: dict[str, Any] = {canonicalize_name(str(key)): lines for key, lines in table.items()}
    if name not in extras:
        raise ValueError(f"no such extra: it has {', '.join(extras) or 'none'}{perhaps(name, extras)}")
    if name in within:
        raise ValueError("is part of itself")
    if not isinstance(extras[name], list):
        raise ValueError("is no list")
    for line in map(str, extras[name]):
        parsed = Requirement(line)
        if canonicalize_name(parsed.name) != canonicalize_name(str(document["project"].get("name", ""))):
            yield line
            continue
        if not parsed.extras or parsed.marker:
            raise ValueError(f"{quote(line)} is the project itself; write the packages of its extras")
        for inner in sorted(map(canonicalize_name, parsed.extras)):
            yield from _extra(document, inner, (*within, name))


def _group(document: dict[str, Any], name: str) -> Sequence[str]:
    """Return the lines of a dependency group with all that it includes; raises ``ValueError`` if there is none."""
    from packaging.dependency_groups import resolve_dependency_groups
    from packaging.utils import canonicalize_name

    table = document.get("dependency-groups", {})
    known = [canonicalize_name(str(key)) for key in table]
    if name not in known:
        raise ValueError(f"no such group: it has {', '.join(known) or 'none'}{perhaps(name, known)}")
    return resolve_dependency_groups(table, name)


def python_conflicts(base: Path, files: Iterable[str], version: str) -> list[Problem]:
    """Return what is wrong with a feature release of Python by ``requires-python`` of metadata and locks among files.

    Args:
        base, files: as for ``included``; files that cannot be read or have no such field are passed over.
        version: such as ``3.11``.
    """
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    problems = []
    for path in (path for path in files if path.endswith(".toml")):
        try:
            document = parse_toml(_text(base / path))
            project = document if is_pylock(path) else document["project"]
            allowed = SpecifierSet(project["requires-python"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError, InvalidSpecifier):
            continue
        if not any(allowed.contains(f"{version}.{patch}") for patch in (0, 99)):
            fits = [name for name, python in DEFAULTS.items() if allowed.contains(f"{python}.99")]
            builds = [python for python in reversed(STANDALONE) if allowed.contains(f"{python}.99")]
            way = f" — write os: {fits[0]}" if fits else f" — write python: {builds[0]}" if builds else ""
            message = f"{path} requires Python {allowed}, but this is {version}{way}"
            problems.append(Problem(path="python", message=message))
    return problems


def _pylock_packages(text: str) -> list[dict[str, Any]]:
    """Return the package tables of a PEP 751 lock; raises ``ValueError``."""
    document = parse_toml(text)
    packages = document.get("packages")
    tables = packages if isinstance(packages, list) else []
    if "lock-version" not in document or not all(isinstance(table, dict) and "name" in table for table in tables):
        raise ValueError("not a lock by PEP 751")
    return tables


def _pylock_refusals(text: str) -> Iterator[str]:
    """Yield why a PEP 751 lock is refused."""
    try:
        pylock_pins(text)
        list(_pylock_digests(text))
    except (ValueError, RecursionError, TypeError, AttributeError) as error:
        yield str(error)


def _pylock_digests(text: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield normalised name, normalised version and the wheels' SHA-256 of each package of a PEP 751 lock."""
    from packaging.utils import canonicalize_name, canonicalize_version

    for package in _pylock_packages(text):
        digests = (wheel["hashes"].get("sha256", "") for wheel in package.get("wheels", ()))
        yield (
            canonicalize_name(package["name"]),
            canonicalize_version(str(package.get("version", ""))),
            frozenset(digest for digest in digests if digest),
        )


def _metadata_refusals(text: str) -> Iterator[str]:
    """Yield why metadata is refused: a resolver would run its build backend, or get what no list may hold."""
    try:
        document = parse_toml(text)
    except (ValueError, RecursionError) as error:
        yield f"not a TOML file: {error}"
        return
    project = document.get("project")
    if not isinstance(project, dict):
        yield f"{_NO_PROJECT}; its build backend would have to run on this host to return the requirements"
        return
    dynamic = project.get("dynamic")
    for name in ("dependencies", "optional-dependencies"):
        if isinstance(dynamic, list) and name in dynamic:
            yield (
                f"project.dynamic: {name}: its build backend would have to run on this host; write them into {name}, "
                "or into requirements.txt"
            )
    tool = document.get("tool")
    uv = tool.get("uv") if isinstance(tool, dict) else None
    if isinstance(uv, dict) and uv.get("sources"):
        yield "tool.uv.sources: packages come from indexes only; remove it"
    extras = project.get("optional-dependencies")
    groups = [project.get("dependencies"), *(extras.values() if isinstance(extras, dict) else ())]
    for item in (item for group in groups if isinstance(group, list) for item in group):
        try:
            requirement(str(item))
        except ValueError as error:
            yield str(error)
    own = project.get("dependencies")
    yield from _own_extras(str(project.get("name", "")), map(str, own if isinstance(own, list) else ()))


def _own_extras(name: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield why dependencies of a project on itself are refused: an index may have another package of its name."""
    from packaging.utils import canonicalize_name

    for line in lines:
        found = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)
        if found and canonicalize_name(found[1]) == canonicalize_name(name):
            yield f"project.dependencies: {quote(line)} is the project itself; write the packages of its extras"


def _refusal(line: str) -> str:
    """Return why a line is refused, by the rules for items of the spec's list; an empty string if it is not."""
    text = _uncommented(line)
    if found := _VARIABLE.search(text):
        return f"{quote(text)}: {found[0]} is another text on another machine; write what it represents"
    included = _INCLUDE.fullmatch(text.rstrip()) if not _LONG.match(text) else None
    if included:
        address = "://" in included["path"]
        return (
            f"{quote(text)}: an address may hold something else tomorrow; keep the file in the project"
            if address
            else ""
        )
    if not text or text == _ALL_HASHED:
        return ""
    hashes = _HASH.findall(text)
    try:
        if is_place(text):
            place(text)
            return ""
        parsed = requirement(_HASH.sub("", text))
    except ValueError as error:
        return str(error)
    return _hash_refusal(parsed, hashes) if hashes else ""


def _hash_refusal(line: str, hashes: Sequence[str]) -> str:
    """Return why the ``--hash`` options of a requirement are refused; an empty string if they are not."""
    from packaging.requirements import Requirement

    parsed = Requirement(line)
    pins = [each for each in parsed.specifier if each.operator in ("==", "===") and not each.version.endswith(".*")]
    if len(pins) != 1 or len(parsed.specifier) != 1:
        return f"{quote(parsed.name)}: --hash is for the files of one version; write {parsed.name}==VERSION"
    for each in hashes:
        if not _DIGEST.fullmatch(each):
            return f"{quote(parsed.name)}: --hash={quote(each)} is no SHA-256 digest, such as sha256:0f3a…"
    if not any(each.lower().startswith("sha256:") for each in hashes):
        return f"{quote(parsed.name)}: locks have SHA-256 digests; add --hash=sha256:…"
    return ""


def _uncommented(line: str) -> str:
    return re.sub(r"(^|\s)#.*$", "", line).strip()


def _includes(text: str) -> Iterator[tuple[int, str]]:
    """Yield 1-based line and path of each file that a requirements file includes."""
    for number, line in _lines(text):
        if _LONG.match(line) or _VARIABLE.search(line):
            continue
        match = _INCLUDE.fullmatch(_uncommented(line).rstrip())
        if match and "://" not in match["path"]:
            yield number, match["path"].strip("\"'")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with the number of the line that each starts on; a backslash continues a line."""
    start, parts = 1, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            parts.append(line[:-1])
            continue
        yield start, "".join([*parts, line])
        start, parts = number + 1, []
    if parts:
        yield start, "".join(parts)
