"""A resolver's error output, turned into an error that states what to do."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable

from envbuild.core import clock, package_data
from envbuild.core.text import nearest, quote
from envbuild.errors import BuildError, EnvbuildError, IntegrityError, ResolveError, UsageError
from envbuild.resolve.python.wheels import NoWheelError, Target, project_of, way_out

_UNKNOWN = re.compile(r"([A-Za-z0-9._-]+?)(?:\[[^\]]*\])? was not found in the (?:package registry|provided|cache)")
_NO_WHEEL = re.compile(r"([A-Za-z0-9._-]+)[^\s]* ha(?:s|ve) no (?:usable )?wheels|Wheels are required for `([^`]+)`")
_DEMANDED = re.compile(r"(?:depends? on|you require) ([A-Za-z0-9]\S*)(?: and ([A-Za-z0-9]\S*[=<>!~]\S*)(?=[\s,.]))?")
_NETWORK = re.compile(
    r"Failed to fetch|error sending request|Could not connect|[Nn]etwork|dns error|timed out|Connection refused"
    r"|Failed to (?:download|read metadata)|invalid peer certificate|HTTP status"
)
_TIME = re.compile(r"not ?valid ?yet|not yet valid|certificate (?:has )?expired|certificate: Expired", re.IGNORECASE)
_FULL = re.compile(r"\(os error (?:28|122)\)")
"""ENOSPC and EDQUOT, as uv, which is Rust, reports them."""
_UNWRITABLE = re.compile(r"Failed to initialize cache|\(os error (?:1|13|30|38|95)\)")
"""EPERM, EACCES, EROFS, ENOSYS, EOPNOTSUPP."""
_AUTH = re.compile(r"\b(401|403)\b")
_LOCAL = re.compile(r"no version of ([A-Za-z0-9._-]+)==([0-9][0-9.]*)\+([A-Za-z0-9.]+)")
"""A version with a local label, which no public index may have (PEP 440)."""
_ABI = re.compile(r"`cp3([0-9]{1,2})[a-z]*`")
PYTHONS = range(10, 15)
"""Minor versions of Python 3 that images can have."""
IMPORTED = {
    "absl": "absl-py", "cv2": "opencv-python-headless", "dateutil": "python-dateutil", "dotenv": "python-dotenv",
    "pil": "pillow", "pywt": "pywavelets", "skimage": "scikit-image", "sklearn": "scikit-learn", "yaml": "pyyaml",
}  # fmt: skip
"""Names that are imported and often taken for those of packages: the package that has each."""
_MOST_STEPS = 7
"""Sentences of a derivation that are shown."""
_WIDTH = 110

HasNone = Callable[[str], bool]
_PASSWORD = re.compile(r"(://)[^/\s@]+@")


def clean(stderr: str) -> tuple[str, list[str]]:
    """Return a resolver's explanation, one sentence a line, and its hints; both without passwords."""
    text = _PASSWORD.sub(r"\1", stderr)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line for line in text.splitlines() if not line.startswith(("warning:", "Resolved ", "Using "))]
    blocks = re.split(r"(?m)^\s*hint:", "\n".join(lines))
    body = re.sub(r"(?m)^\s*(?:error:|cause:|Caused by:|[×╰─▶├│]+)", " ", blocks[0])
    sentence = " ".join(body.split())
    sentence = sentence.replace("No solution found when resolving dependencies: ", "")
    sentence = sentence.replace("No solution found when resolving dependencies ", "")
    return sentence.replace(". And because ", ".\nAnd because "), [" ".join(block.split()) for block in blocks[1:]]


def failure(stderr: str, target: Target, has_none: HasNone = lambda requirement: True) -> EnvbuildError:
    """Return the error for a resolver that gave up.

    Args:
        stderr: what it reported.
        target: what it resolved for.
        has_none: finds out whether no release that a requirement admits has a wheel: on its way to a conflict that has
            other reasons, a resolver mentions missing wheels too.
    """
    sentence, hints = clean(stderr)
    if unknown := _UNKNOWN.search(sentence):
        return _unknown(unknown[1], sentence)
    if _FULL.search(sentence):
        return BuildError(
            f"uv could not write its files: {sentence}",
            "make room, or name a folder on another disk: export UV_CACHE_DIR=FOLDER, or TMPDIR=FOLDER",
        )
    if _UNWRITABLE.search(sentence):
        return UsageError(
            f"uv could not write its files: {sentence}",
            "name a folder that may be written: export UV_CACHE_DIR=FOLDER, or TMPDIR=FOLDER",
        )
    if _NETWORK.search(sentence) and "unsatisfiable" not in sentence:
        hint = "check the index, its certificate and your proxy in uv's or pip's configuration, then lock again"
        if _AUTH.search(sentence):
            hint = "put the user name and password into the index address or ~/.netrc, then lock again"
        if _TIME.search(sentence):
            hint = f"{clock.CHECK}; if it is right, the index needs another certificate"
        return IntegrityError(f"a package index cannot be read: {sentence}", hint)
    if lacking := without_wheel(stderr, has_none):
        found = [hint for hint in hints if "only found wheels" in hint or "Wheels are available" in hint]
        return NoWheelError(
            f"no wheel for {target}: {', '.join(lacking)}:{laid_out([*sentence.splitlines(), *found])}",
            _other_way(lacking, found) + way_out(lacking),
            lacking,
        )
    hint = "loosen one of the requirements, or choose another python in the spec, then lock again"
    if local := _LOCAL.search(sentence):
        name, version, label = local.groups()
        hint = (
            f"builds with +{label} are on an index of their own: configure it for uv or pip (UV_INDEX=ADDRESS), or "
            f"write {name}=={version}; for GPUs with cuda: auto in the spec"
        )
    if any("dependency confusion" in text for text in hints):
        hint = "if all your indexes are equally trusted: UV_INDEX_STRATEGY=unsafe-best-match envbuild lock"
    return ResolveError(f"the Python requirements cannot be met:{laid_out(sentence.splitlines())}", hint)


def _other_way(lacking: tuple[str, ...], hints: list[str]) -> str:
    """Return what to try before anything is built: the package that was meant, or the Python that wheels are for."""
    if len(lacking) != 1:
        return ""
    if meant := IMPORTED.get(project_of(lacking[0])):
        return f"write {meant}, if that is meant; or "
    have = [text.partition("only found wheels")[2] for text in hints]  # before it is what the target requires
    found = {int(number) for text in have for number in _ABI.findall(text)} & {*PYTHONS}
    return f'choose the Python that has wheels, in the spec:  python: "3.{max(found)}"; or ' if found else ""


def without_wheel(stderr: str, has_none: HasNone) -> tuple[str, ...]:
    """Return the requirements that a resolver failed at because no release that they admit has a wheel, sorted.

    Args:
        stderr, has_none: as for ``failure``.
    """
    sentence, hints = clean(stderr)
    text = " ".join([*sentence.splitlines(), *hints])
    found: list[str] = []
    for name in sorted({match[1] or match[2] for match in _NO_WHEEL.finditer(text)}):
        asked = sorted({each for each in _demanded(text) if re.match(rf"{re.escape(name)}(?![A-Za-z0-9._-])", each)})
        if all(map(has_none, asked or [name])):
            found += asked or [name]
    return tuple(found)


def _demanded(text: str) -> list[str]:
    """Return the requirements that a resolver states as somebody's."""
    pairs = _DEMANDED.findall(text)
    return [each.rstrip(".,") for pair in pairs for each in pair if each]


def laid_out(sentences: list[str]) -> str:
    """Return sentences on lines of their own, wrapped and indented; the middle of a long derivation is left out."""
    if len(sentences) > _MOST_STEPS:
        left = len(sentences) - _MOST_STEPS
        sentences = [*sentences[:2], f"… {left} more steps …", *sentences[2 - _MOST_STEPS :]]
    wrapper = textwrap.TextWrapper(_WIDTH, "  ", "    ", break_on_hyphens=False, break_long_words=False)
    return "".join(f"\n{wrapper.fill(sentence)}" for sentence in sentences)


def _unknown(name: str, sentence: str) -> ResolveError:
    """Return the error for a name that no index knows."""
    popular = package_data.data("popular.txt").decode().split()
    near = IMPORTED.get(project_of(name)) or nearest(name, popular)
    perhaps = f" — perhaps {near}" if near and near != name else ""
    return ResolveError(
        f"{quote(name)} exists nowhere on the configured indexes{perhaps}:{laid_out(sentence.splitlines())}",
        f"correct the name{f': {near}' if perhaps else ''}, or configure the index that has it for uv or pip",
    )
