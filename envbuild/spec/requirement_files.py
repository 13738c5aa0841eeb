"""Which files a requirements file includes: all of them decide a resolution, so all of them are digested.

Format: https://pip.pypa.io/en/stable/reference/requirements-file-format/ (``-r``, ``-c``, comments, continued lines).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from envbuild.core.text import quote
from envbuild.errors import Problem, SpecError
from envbuild.spec.validators import requirement

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - exercised by the 3.10 job
    import tomli as tomllib

_INCLUDE = re.compile(r"(?:-r|-c|--requirements?|--constraints?)(?:\s*=\s*|\s+)?(?P<path>\S.*?)\s*")
_HASH = re.compile(r"\s--hash(?:\s*=\s*|\s+)(\S+)")
_DIGEST = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})", re.IGNORECASE)
_ALL_HASHED = "--require-hashes"
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
            text = (base / path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text, or not a file name"
            message = f"{origin}cannot read {quote(path)}: {reason}"
            problems.append(Problem(path="requirements", message=message))
            continue
        if path.endswith(".toml"):  # a project's metadata: no lines
            problems += [Problem(path="requirements", message=f"{path}: {why}") for why in _metadata_refusals(text)]
        else:
            problems += [
                Problem(path="requirements", message=f"{path} line {number}: {why}")
                for number, line in _lines(text)
                if (why := _refusal(line))
            ]
        for number, target in _includes(text):
            inner = os.path.normpath((Path(path).parent / target).as_posix())
            pending.append((inner, f"{path} line {number}: "))
    if problems:
        raise SpecError(source, problems, "correct the line, or remove it")
    return tuple(sorted(found))


def requirement_lines(base: Path, files: Sequence[str], source: str = "spec.yaml") -> tuple[str, ...]:
    """Return the lines of requirements files and all they include that name a package, without options and comments.

    Args:
        base, files, source: as for ``included``.

    Raises:
        SpecError: as ``included`` does.
    """
    found = []
    for path in included(base, files, source):
        content = (base / path).read_text(encoding="utf-8-sig")
        if path.endswith(".toml"):
            found += [requirement(line) for line in tomllib.loads(content)["project"].get("dependencies", ())]
            continue
        for _, line in _lines(content):
            text = _uncommented(line)
            text = re.split(r"\s--?[A-Za-z]", text)[0].strip()
            if text and not text.startswith("-"):
                found.append(text)
    return tuple(found)


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
        text = (base / path).read_text(encoding="utf-8-sig")
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


def _metadata_refusals(text: str) -> Iterator[str]:
    """Yield why metadata is refused: a resolver would run its build backend, or get what no list may hold."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        yield f"not a TOML file: {error}"
        return
    project = document.get("project")
    if not isinstance(project, dict):
        yield "no [project] table; its build backend would have to run on this host to return the requirements"
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


def _refusal(line: str) -> str:
    """Return why a line is refused, by the rules for items of the spec's list; an empty string if it is not."""
    text = _uncommented(line)
    included = _INCLUDE.fullmatch(text) if not _LONG.match(text) else None
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
        if _LONG.match(line):
            continue
        match = _INCLUDE.fullmatch(_uncommented(line))
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
