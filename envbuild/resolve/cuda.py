"""CUDA and cuDNN for a framework: the place for the compatibility table; until then, a clear refusal."""

from __future__ import annotations

from envbuild.errors import ResolveError
from envbuild.suggest import quote


def check_cuda(value: str) -> None:
    """Accept ``none``; refuse what is reserved or unknown.

    Raises:
        ResolveError: any other value.
    """
    if value == "none":
        return
    said = "is reserved" if value == "auto" or value.replace(".", "").isdigit() else "is unknown"
    raise ResolveError(f"cuda: {quote(value)} {said}: only none works so far", "write cuda: none, or leave it out")
