"""The recipe of an image: what must be equal before other bits are a fault."""

from __future__ import annotations

import pytest

from envbuild.image.plan.model import plan
from envbuild.image.runtime import files
from envbuild.operations.assemble import recipe_of
from tests.support.locks import small_lock
from tests.support.wheels import wheel_bytes


def test_the_recipe_knows_the_code_inside_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed guard is a changed recipe, so an image with the old guard is neither kept nor called irreproducible."""
    lock = small_lock({"a-1.0-py3-none-any.whl": wheel_bytes("a")})
    planned = plan(lock)
    before = recipe_of(lock, planned)
    assert recipe_of(lock, planned) == before
    sources = {**files.runtime_sources()}
    path = next(iter(sources))
    monkeypatch.setattr(files, "runtime_sources", lambda: {**sources, path: sources[path] + b"\n"})
    assert recipe_of(lock, planned) != before
