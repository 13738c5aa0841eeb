"""What build steps leave in an engine, and how it is removed."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import docker.errors
import pytest

from envbuild.core import process_mark
from envbuild.engine.docker import owner, step
from envbuild.engine.docker.step import STEP_LABEL, remove_steps
from envbuild.errors import EngineError


class FakeClient:
    """An engine with two step images, one of them in use, and a container of a killed build next to a living one's."""

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
        now = datetime(2026, 11, 21, 11, tzinfo=timezone.utc).timestamp()  # the engine's; this process's is years off
        dead = process_mark.mark().rpartition(" ")[0] + " 0"  # this process id, of another process
        return [
            {"Id": "old", "Created": now - 2 * 24 * 3600},
            {"Id": "new", "Created": now},
            {"Id": "alive", "Created": now - 2 * 24 * 3600, "Labels": {owner.LABEL: process_mark.mark()}},
            {"Id": "killed", "Created": now, "Labels": {owner.LABEL: dead}},
            {"Id": "elsewhere", "Created": now, "Labels": {owner.LABEL: "boot pid:[1] 1 0"}},
        ]

    def info(self) -> dict[str, str]:
        return {"SystemTime": "2026-11-21T12:00:00.123456789+01:00"}

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
    assert client.removed == ["old", "killed", "envbuild-step:os-1", "sha256:3"]
    dry = FakeClient()
    assert len(remove_steps(cast(Any, dry), dry_run=True)) == 3
    assert dry.removed == []


def test_an_import_takes_away_old_bases_only() -> None:
    """Of all but the two newest; never one of the last minute, which a build is about to use, be it this one itself."""
    made = {"own": 1000, "same second": 1000, "as well": 1000, "other build's": 941, "old": 939, "older": 1}
    images = [{"Id": name, "Created": created} for name, created in made.items()]
    for order in (images, images[::-1]):
        assert [image["Id"] for image in step._old(order)] == ["old", "older"]
    assert [image["Id"] for image in step._old(images[3:])] == ["older"]
    assert step._old(images[4:]) == []


@pytest.mark.subprocess
def test_a_process_that_has_ended_is_known() -> None:
    """By its number while it is gone, and by when it started once the number is another's; all else is unknown."""
    assert process_mark.lives(process_mark.mark()) is True
    with subprocess.Popen(
        [sys.executable, "-c", "from envbuild.core.process_mark import mark; print(mark(), flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        mark = process.stdout.readline().strip()
        assert process_mark.lives(mark) is True
        process.stdin.close()
        process.wait()
    assert process_mark.lives(mark) is False
    assert [process_mark.lives(text) for text in ("", "x", "boot pid:[1] 1 1")] == [None] * 3


@pytest.mark.parametrize("missing", [False, True], ids=["hidden", "no proc"])
def test_nobody_has_ended_who_cannot_be_seen(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ``/proc``, as in a chroot, or where it hides processes: no container is removed for that."""
    mark = process_mark.mark()

    def hidden(number: int) -> str:
        raise FileNotFoundError(number)

    monkeypatch.setattr(process_mark, "_started", hidden)
    if missing:
        monkeypatch.setattr(process_mark, "_world", lambda: Path("/nowhere").read_text())
    assert process_mark.lives(mark) is None
    world, _, rest = mark.rpartition(" ")[0].rpartition(" ")
    assert process_mark.lives(f"{world} {2**22 + 1} {rest}") is (None if missing else False)


class CopyingClient:
    """An engine whose unpacking process ends early some times, with an error of its own."""

    def __init__(self, failures: int, message: str) -> None:
        self.failures = failures
        self.message = message
        self.received: list[bytes] = []

    def put_archive(self, container: str, path: str, data: Any) -> None:
        self.received.append(data.read())
        if len(self.received) <= self.failures:
            raise docker.errors.APIError(self.message)


_EARLY = "passing bulk input to subprocess: write |1: broken pipe"


def test_inputs_are_copied_again_if_podman_stops_early(tmp_path: Path) -> None:
    """Once, and whole; a second failure, and any other one, is reported."""
    (tmp_path / "inputs.tar").write_bytes(b"tar")
    client = CopyingClient(1, _EARLY)
    step._copy_inputs(cast("Any", client), "name", tmp_path / "inputs.tar")
    assert client.received == [b"tar", b"tar"]
    for failures, message, tries in ((2, _EARLY, 2), (1, "no space left on device", 1)):
        client = CopyingClient(failures, message)
        with pytest.raises(EngineError, match=message.partition("|")[0]):
            step._copy_inputs(cast("Any", client), "name", tmp_path / "inputs.tar")
        assert len(client.received) == tries
