"""A resolver's error output, turned into an error that states what to do."""

from __future__ import annotations

import re

from envbuild.core import package_data
from envbuild.core.text import nearest, quote
from envbuild.errors import EnvbuildError, IntegrityError, ResolveError
from envbuild.resolve.python.wheels import BUILD_ONE, Target

_UNKNOWN = re.compile(r"([A-Za-z0-9._-]+?)(?:\[[^\]]*\])? was not found in the (?:package registry|provided|cache)")
_NO_WHEEL = re.compile(r"([A-Za-z0-9._-]+)[^\s]* ha(?:s|ve) no (?:usable )?wheels|Wheels are required for `([^`]+)`")
_NETWORK = re.compile(
    r"Failed to fetch|error sending request|Could not connect|[Nn]etwork|dns error|timed out|Connection refused"
    r"|Failed to (?:download|read metadata)|invalid peer certificate|HTTP status"
)
_AUTH = re.compile(r"\b(401|403)\b")
_PASSWORD = re.compile(r"(://)[^/\s@]+@")


def clean(stderr: str) -> tuple[str, list[str]]:
    """Return a resolver's explanation on one line, and its hints; both without passwords."""
    text = _PASSWORD.sub(r"\1", stderr)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line for line in text.splitlines() if not line.startswith(("warning:", "Resolved ", "Using "))]
    blocks = re.split(r"(?m)^\s*hint:", "\n".join(lines))
    body = re.sub(r"(?m)^\s*(?:error:|cause:|Caused by:|[×╰─▶├│]+)", " ", blocks[0])
    sentence = " ".join(body.split())
    sentence = sentence.replace("No solution found when resolving dependencies: ", "")
    sentence = sentence.replace("No solution found when resolving dependencies ", "")
    return sentence, [" ".join(block.split()) for block in blocks[1:]]


def failure(stderr: str, target: Target) -> EnvbuildError:
    """Return the error for a resolver that gave up.

    Args:
        stderr: what it reported.
        target: what it resolved for.
    """
    sentence, hints = clean(stderr)
    if unknown := _UNKNOWN.search(sentence):
        return _unknown(unknown[1], sentence)
    if _NETWORK.search(sentence) and "unsatisfiable" not in sentence:
        hint = "check the index, its certificate and your proxy in uv's or pip's configuration, then lock again"
        if _AUTH.search(sentence):
            hint = "put the user name and password into the index address or ~/.netrc, then lock again"
        return IntegrityError(f"a package index cannot be read: {sentence}", hint)
    if lacking := sorted({match[1] or match[2] for match in _NO_WHEEL.finditer(" ".join([sentence, *hints]))}):
        found = "".join(f" ({hint})" for hint in hints if "only found wheels" in hint or "Wheels are available" in hint)
        return ResolveError(
            f"no wheel for {target}: {', '.join(lacking)}: {sentence}{found}", BUILD_ONE.format(" ".join(lacking))
        )
    hint = "loosen one of the requirements, or choose another python in the spec, then lock again"
    if any("dependency confusion" in text for text in hints):
        hint = "if all your indexes are equally trusted: UV_INDEX_STRATEGY=unsafe-best-match envbuild lock"
    return ResolveError(f"the Python requirements cannot be met: {sentence}", hint)


def _unknown(name: str, sentence: str) -> ResolveError:
    """Return the error for a name that no index knows."""
    popular = package_data.data("popular.txt").decode().split()
    near = nearest(name, popular)
    perhaps = f" — perhaps {near}" if near and near != name else ""
    return ResolveError(
        f"{quote(name)} exists nowhere on the configured indexes{perhaps}: {sentence}",
        f"correct the name{f': {near}' if perhaps else ''}, or configure the index that has it for uv or pip",
    )
