"""What build steps leave in an engine, and how it is removed."""

from __future__ import annotations

import time
from typing import Any, cast

import docker.errors

from envbuild.engine.docker_step import STEP_LABEL, remove_steps


class FakeClient:
    """An engine with two step images, one of them in use, and a container of a killed build beside a living one's."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    def images(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        assert filters == {"label": STEP_LABEL}
        return [
            {"Id": "sha256:1", "RepoTags": ["envbuild-step:os-1"]},
            {"Id": "sha256:2", "RepoTags": ["envbuild-step:os-2"]},
            {"Id": "sha256:3", "RepoTags": None},
        ]

    def containers(self, **options: Any) -> list[dict[str, Any]]:
        assert options == {"all": True, "filters": {"label": STEP_LABEL}}
        return [{"Id": "old", "Created": time.time() - 2 * 24 * 3600}, {"Id": "new", "Created": time.time()}]

    def remove_container(self, name: str, **options: Any) -> None:
        self.removed.append(name)

    def remove_image(self, name: str) -> None:
        if name == "envbuild-step:os-2":
            raise docker.errors.APIError("conflict: in use")
        self.removed.append(name)


def test_steps_are_removed_unless_a_build_uses_them() -> None:
    """Bases and containers of killed builds go; what a build uses stays, and a dry run removes nothing."""
    client = FakeClient()
    assert remove_steps(cast(Any, client)) == ["envbuild-step:os-1", "sha256:3"]
    assert client.removed == ["old", "envbuild-step:os-1", "sha256:3"]
    dry = FakeClient()
    assert len(remove_steps(cast(Any, dry), dry_run=True)) == 3
    assert dry.removed == []
