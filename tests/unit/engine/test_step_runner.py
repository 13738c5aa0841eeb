"""Who runs build steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.cli.console import Console
from envbuild.engine.docker import adapter
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.errors import EngineError
from envbuild.operations.assemble import step_runner
from envbuild.store.objects import Store


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without any engine, and without variables that name one."""

    def connect() -> object:
        raise EngineError("no container engine answers")

    monkeypatch.setattr(adapter, "connect", connect)
    for name in ("ENVBUILD_ENGINE", "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("chosen", ["", "auto"])
def test_without_an_engine_namespaces_take_its_place(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where none answers and none was asked for, steps run without one, and that is reported."""
    monkeypatch.setenv("ENVBUILD_ENGINE", chosen)
    assert isinstance(step_runner(Store(tmp_path), Console()), NamespaceSteps)
    text = " ".join(capsys.readouterr().out.split())
    assert text == "engine none answers build steps run in namespaces of this kernel"


def test_none_asks_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ENVBUILD_ENGINE=none is a choice, so nothing need be reported."""
    monkeypatch.setenv("ENVBUILD_ENGINE", "none")
    assert isinstance(step_runner(Store(tmp_path), Console()), NamespaceSteps)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("DOCKER_HOST", "unix:///x"), ("CONTAINER_HOST", "unix:///x"), ("ENVBUILD_ENGINE", "podman")],
)
def test_an_engine_that_was_asked_for_must_answer(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a variable names is not replaced by something else."""
    monkeypatch.setenv(name, value)
    with pytest.raises(EngineError, match="no container engine answers"):
        step_runner(Store(tmp_path), Console())
