"""What killed deliveries leave in an engine is distinguished from what living ones have there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.core.progress import Silent
from envbuild.engine.docker import delivery


def name(port: int, digit: str) -> str:
    """A foreign name on loopback."""
    return f"127.0.0.1:{port}/envbuild-{digit * 32}@sha256:{'0' * 64}"


def test_foreign_names_without_a_server_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose port is closed, and those of another one that had our port before us; living ones' and ours stay."""
    swept = []
    listed = [name(1, "a"), name(1, "b"), name(2, "c"), name(3, "d"), "127.0.0.1:3/team/mine@sha256:" + "0" * 64]

    def call(method: str, path: str, query: object = None) -> list[dict[str, Any]]:
        if method == "DELETE":
            swept.append(path.removeprefix("/images/"))
        return [{"RepoDigests": listed}, {"RepoDigests": None}]

    monkeypatch.setattr(delivery, "_listens", lambda port: port in (1, 2))
    server = SimpleNamespace(repository=name(1, "a").partition("@")[0])
    pulls = delivery._Pulls(cast(Any, SimpleNamespace(call=call)), cast(Any, server), Silent())
    pulls._references.append(listed[0])
    pulls.sweep()
    assert swept == [name(1, "b"), name(3, "d")]
