"""Projects among the requirements: folders of sources (``.``, ``-e .``, ``./lib[extra]``) and git addresses.

The forms are pip's: https://pip.pypa.io/en/stable/topics/local-project-installs/,
https://pip.pypa.io/en/stable/topics/vcs-support/.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote, urlsplit

from envbuild.core import types
from envbuild.core.text import quote
from envbuild.core.types import Value

_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s*=\s*|\s+)(?P<place>\S.*)", re.DOTALL)
_FOLDER = re.compile(r"(?:\.{1,2}(?:/|\Z|(?=\[|\s*;))|/|~|file:).*", re.DOTALL)
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?P<extras>\[[^\]]*\])?\s*@\s*(?P<place>\S.*)", re.DOTALL)
_EXTRAS = re.compile(r"(?P<place>[^\[\]]*)(?P<extras>\[[^\]]*\])")
_GIT = re.compile(r"git\+[a-z+]+[:@].*", re.DOTALL)


class Place(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A project that is built from sources: of a folder, or of a commit of a git repository.

    Attributes:
        path: folder, relative to the spec's, in POSIX form; empty for git.
        editable: runs import the folder's files; they see it where it is mounted.
        git: address of the repository; empty for a folder.
        ref: commit, tag or branch as it was asked for; empty: the repository's default branch.
        subdirectory: folder of the project in the repository.
        name: normalised name, if the requirement states one.
        extras, marker: as in PEP 508.
    """

    path: str = ""
    editable: bool = False
    git: str = ""
    ref: str = ""
    subdirectory: str = ""
    name: str = ""
    extras: tuple[str, ...] = ()
    marker: str = ""

    def __str__(self) -> str:
        """Return it as messages name it."""
        if self.git:
            return f"git+{self.git}{f'@{self.ref}' if self.ref else ''}"
        return f"-e {self.shown}" if self.editable else self.shown

    @property
    def shown(self) -> str:
        """The folder as a spec writes it, so that it cannot be taken for a package."""
        return self.path if self.path.startswith(".") else f"./{self.path}"

    def line(self, name: str, version: str) -> str:
        """Return the PEP 508 line for the wheel that was built of it."""
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        return f"{name}{extras}=={version}{f' ; {self.marker}' if self.marker else ''}"


def is_place(text: str) -> bool:
    """Whether a requirement names a folder or a git repository; a wheel or an archive by path or address does not."""
    line = text.strip()
    if _EDITABLE.fullmatch(line):
        return True
    named = _NAMED.fullmatch(line)
    place = named["place"] if named else line
    if place.partition("#")[0].partition(";")[0].strip().endswith((".whl", ".tar.gz", ".zip")):
        return False
    return bool(_GIT.fullmatch(place) or _FOLDER.fullmatch(place))


def place(text: str) -> Place:
    """Read a requirement that ``is_place``.

    Raises:
        ValueError: it cannot be locked; a whole sentence with what to write instead.
    """
    line = text.strip()
    if not line.isprintable() or len(line) > 4096:
        raise ValueError(f"{quote(line)} has control characters, or more than 4,096 characters")
    editable = _EDITABLE.fullmatch(line)
    rest = editable["place"] if editable else line
    rest, marker = _marker(rest)
    named = _NAMED.fullmatch(rest)
    name, extras, where = (named["name"], named["extras"] or "", named["place"].strip()) if named else ("", "", rest)
    if where.startswith("git+"):
        if editable:
            raise ValueError(f"{quote(line)}: a commit cannot be edited — leave out -e, or name the folder of a clone")
        return _git(line, where, name, extras, marker)
    if "://" in where and not where.startswith("file:"):
        raise ValueError(f"{quote(line)}: only folders and git+https addresses are built — name one of them")
    if not extras and (found := _EXTRAS.fullmatch(where)):
        where, extras = found["place"].strip(), found["extras"]
    if where.startswith(("/", "~", "file:")):
        raise ValueError(
            f"{quote(line)}: a lock holds no path of one machine — write it relative to the spec, such as ../lib"
        )
    path = _relative(line, where)
    return Place(path=path, editable=bool(editable), name=_name(name), extras=_extras(line, extras), marker=marker)


def _git(line: str, where: str, name: str, extras: str, marker: str) -> Place:
    address, _, fragment = where.removeprefix("git+").partition("#")
    scheme = address.partition(":")[0]
    if scheme not in ("https", "http"):
        why = {
            "ssh": "ssh would run with your keys and your configuration",
            "file": "git would read the repository's own configuration",
            "git": "this protocol is neither encrypted nor in use any more",
        }.get(scheme, "it is no address that git fetches over https")
        raise ValueError(f"{quote(line)}: {why} — write git+https://…, or clone it and name the folder: ./NAME")
    parts = urlsplit(address)
    if "@" in parts.netloc:
        raise ValueError(
            "a git address has a user name or password in it, which a lock must not hold — leave it out; git reads "
            "~/.netrc"
        )
    path, _, ref = parts.path.partition("@")
    url = f"{parts.scheme}://{parts.netloc}{path}"
    if parts.query or not types.matches(types.GitUrl, url):
        raise ValueError(f"{quote(line)} is not a repository's address — e.g. git+https://git.example/lib.git@v1.2")
    if ref and not types.matches(types.GitRef, ref):
        raise ValueError(f"{quote(line)}: {quote(ref)} is no commit, tag or branch")
    options = dict(parse_qsl(fragment))
    folder = options.pop("subdirectory", "")
    egg = options.pop("egg", "")
    if options:
        raise ValueError(f"{quote(line)}: after # only egg and subdirectory are known, found {', '.join(options)}")
    if found := _EXTRAS.fullmatch(egg):
        egg, extras = found["place"], extras or found["extras"]
    subdirectory = _relative(line, folder) if folder else ""
    if not types.matches(types.RepositoryPath, subdirectory):
        raise ValueError(f"{quote(line)}: {quote(folder)} leads out of the repository — name a folder in it")
    return Place(
        git=url,
        ref=unquote(ref),
        subdirectory=subdirectory,
        name=_name(name or egg),
        extras=_extras(line, extras),
        marker=marker,
    )


def _marker(text: str) -> tuple[str, str]:
    """Split off a marker: after a space and ``;``, as PEP 508 wants it after addresses."""
    from packaging.markers import InvalidMarker, Marker

    where, found, marker = text.partition(" ;")
    if not found and ";" in text and "://" not in text:
        where, found, marker = text.partition(";")
    if not found:
        return text.strip(), ""
    try:
        return where.strip(), str(Marker(marker.strip()))
    except InvalidMarker:
        raise ValueError(
            f"{quote(text)}: {quote(marker.strip())} is no marker — e.g. python_version < '3.12'"
        ) from None


def _relative(line: str, text: str) -> str:
    """Return a folder without ``./`` and trailing slash; ``..`` may only be at the start."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    path = "/".join(parts) or "."
    if not types.matches(types.ProjectPath, path):
        raise ValueError(f'{quote(line)}: {quote(text)} is no folder relative to the spec without ":" and "\\"')
    return path


def _name(text: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(text) if text else ""


def _extras(line: str, text: str) -> tuple[str, ...]:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return tuple(sorted(Requirement(f"x{text}").extras))
    except InvalidRequirement:
        raise ValueError(f"{quote(line)}: {quote(text)} is no list of extras — e.g. [dev]") from None
