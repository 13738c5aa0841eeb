"""Which engine a command uses, and who runs build steps."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from envbuild.engine.local import self_check
from envbuild.engine.local.engine import LocalEngine
from envbuild.errors import EngineError, UsageError
from envbuild.operations import engines
from envbuild.store.objects import Store, StoreRefusedError

Reason = tuple[str, str] | None
Arrange = Callable[..., None]


class ContainerEngine:
    """Stands for Docker or podman."""


@pytest.fixture
def arrange(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Arrange:
    """Set what works on this machine; no variable names an engine."""

    def arrange(*, local: bool = True, docker: bool = True, owners: bool = True) -> None:
        reason: Reason = None if local else ("the kernel does not let this user make namespaces", "let it")

        def connect() -> ContainerEngine:
            if not docker:
                raise EngineError("no container engine answers", "get one")
            return ContainerEngine()

        monkeypatch.setattr(engines, "connect_container_engine", connect)
        monkeypatch.setattr(LocalEngine, "reason_against", lambda self: reason)
        monkeypatch.setattr(LocalEngine, "makes_owners", lambda self: owners)

    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path))
    for name in ("ENVBUILD_ENGINE", "DOCKER_HOST", "CONTAINER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return arrange


@pytest.mark.parametrize("chosen", ["", "auto"])
def test_the_local_engine_comes_first(chosen: str, arrange: Arrange, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it works; else a container engine; an error has a reason for each."""
    monkeypatch.setenv("ENVBUILD_ENGINE", chosen)
    arrange()
    assert isinstance(engines.connect(), LocalEngine)
    arrange(local=False)
    assert isinstance(engines.connect(), ContainerEngine)
    arrange(local=False, docker=False)
    with pytest.raises(EngineError) as caught:
        engines.connect()
    assert caught.value.message == (
        "the local engine does not work here: the kernel does not let this user make namespaces\n"
        "no container engine answers"
    )
    assert caught.value.hint == "let it"


def test_a_store_that_may_not_be_written_is_the_fault(
    arrange: Arrange, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the words of every other command, with its exit code (2); a container engine that answers is used instead."""
    works = LocalEngine.reason_against

    def refuse(scratch: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", f"{scratch}/run-1")

    monkeypatch.setattr(self_check, "_find", refuse)
    arrange()
    monkeypatch.setattr(LocalEngine, "reason_against", works)
    assert isinstance(engines.connect(), ContainerEngine)
    for chosen, docker in (("local", True), ("auto", False)):
        arrange(docker=docker)
        monkeypatch.setattr(LocalEngine, "reason_against", works)
        monkeypatch.setenv("ENVBUILD_ENGINE", chosen)
        with pytest.raises(StoreRefusedError) as caught:
            engines.connect()
        assert caught.value.message == f"the store {tmp_path} cannot be written: Read-only file system"
        assert caught.value.hint.startswith("mount it so that it can be written")
        assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENVBUILD_ENGINE", "docker"),
        ("ENVBUILD_ENGINE", "podman"),
        ("DOCKER_HOST", "unix:///x"),
        ("DOCKER_CONTEXT", "far"),
        ("CONTAINER_HOST", "unix:///x"),
    ],
)
def test_who_names_an_engine_gets_it(
    name: str, value: str, arrange: Arrange, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing takes its place, neither for programs nor for build steps."""
    monkeypatch.setenv(name, value)
    arrange()
    assert isinstance(engines.connect(), ContainerEngine)
    assert isinstance(engines.step_runner(None, Store(tmp_path)), ContainerEngine)
    arrange(docker=False)
    with pytest.raises(EngineError, match="no container engine answers"):
        engines.connect()
    with pytest.raises(EngineError, match="no container engine answers"):
        engines.step_runner(None, Store(tmp_path))


def test_local_asks_no_container_engine(arrange: Arrange, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where it does not work, that is the answer; build steps need less than programs do."""
    monkeypatch.setenv("ENVBUILD_ENGINE", "local")
    arrange(local=False)
    with pytest.raises(EngineError) as caught:
        engines.connect()
    assert caught.value.hint == "let it"
    assert isinstance(engines.step_runner(None, Store(tmp_path)), LocalEngine)


def test_an_unknown_kind_is_refused(arrange: Arrange, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists those there are."""
    arrange()
    monkeypatch.setenv("ENVBUILD_ENGINE", "none")
    with pytest.raises(UsageError, match=r"^ENVBUILD_ENGINE is 'none'; expected auto, local, docker, podman$"):
        engines.connect()


def test_who_runs_build_steps(arrange: Arrange, tmp_path: Path) -> None:
    """The command's engine; but a user who cannot make files of several owners leaves that to a container engine."""
    store = Store(tmp_path)
    arrange()
    local = engines.connect()
    assert engines.step_runner(local, store) is local
    assert isinstance(engines.step_runner(None, store), LocalEngine)
    arrange(owners=False)
    assert isinstance(engines.step_runner(local, store), ContainerEngine)
    arrange(owners=False, docker=False)
    assert engines.step_runner(local, store) is local
