"""What engines cannot do, with the next command."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.docker import adapter, limits
from envbuild.engine.docker.adapter import DockerEngine
from envbuild.engine.docker.endpoint import Endpoint, candidates
from envbuild.engine.docker.http import EngineClient
from envbuild.engine.docker.limits import explained, foreign, free_bytes, is_desktop, refuse_full_disk
from envbuild.engine.docker.run import run_container
from envbuild.engine.protocol import ContainerRun, Mount, Parcel, ParcelLayer
from envbuild.errors import EngineError

LOCAL = Endpoint(url="unix:///run/docker.sock", source="test")
REMOTE = Endpoint(url="tcp://far:2375", source="test")


def a_parcel(*sizes: int) -> Parcel:
    """An image whose layers have these sizes in bytes and the names ``a``, ``b`` …"""
    layers = (ParcelLayer(digest=name, size=size, file=lambda: None) for name, size in zip("abc", sizes, strict=False))
    return Parcel(manifest=b"", config=b"", layers=tuple(layers), archive=lambda skip: iter(()))


def test_an_image_larger_than_the_free_space_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what the engine lacks counts; one that does not report what it holds must find out by itself."""
    parcel, info = a_parcel(3_000_000, 4_000_000), {"DockerRootDir": "/var/lib/engine"}
    monkeypatch.setattr(limits, "free_bytes", lambda info: 5_000_000)
    refuse_full_disk(parcel, info, lambda: [("a", "x")])
    refuse_full_disk(parcel, info, lambda: None)
    with pytest.raises(EngineError) as caught:
        refuse_full_disk(parcel, info, lambda: [("b", "a")])
    assert caught.value.message == (
        "the engine's disk has 5.0 MB free in /var/lib/engine; the image needs 7.0 MB more there"
    )
    assert caught.value.hint == "see what takes the space: docker system df; then make room: docker system prune"


def test_free_space_is_that_of_the_engines_folder(tmp_path: Path) -> None:
    """A folder that is not there, as an engine in a container names one, gives no result."""
    assert (free_bytes({"DockerRootDir": str(tmp_path)}) or 0) > 0
    assert free_bytes({"DockerRootDir": str(tmp_path / "absent")}) is None
    assert free_bytes({}) is None


@pytest.mark.parametrize("words", ["bind source path does not exist: /home/me/p", "statfs /home/me/p: no such file"])
def test_an_engine_elsewhere_mounts_nothing_of_here(words: str) -> None:
    """What a remote engine states of a missing folder, Docker's words or podman's, is about where it is."""
    found = explained(f"invalid mount config: {words}", REMOTE)
    assert found is not None
    assert found.message == (
        "the engine at tcp://far:2375 is on another machine and cannot mount /home/me/p of this one"
    )
    assert found.hint == "run envbuild on that machine, or use an engine of this one: unset DOCKER_HOST"
    assert explained(words, LOCAL) is None


@pytest.mark.parametrize(
    ("source", "error", "hint"),
    [
        ("the system's engine", FileNotFoundError, "get one: apt-get install docker.io "),
        ("the system's engine", ConnectionRefusedError, "start it: systemctl start docker"),
        ("the system's engine", PermissionError, "run with sudo, or join the group: "),
        ("DOCKER_HOST", FileNotFoundError, "start the engine there, or look elsewhere: unset DOCKER_HOST"),
        ("CONTAINER_HOST", ConnectionRefusedError, "start the engine there, or look elsewhere: unset CONTAINER_HOST"),
        ("DOCKER_HOST", PermissionError, "run with sudo, or join the group: "),
    ],
)
def test_without_an_engine_the_remedy_is_reported(
    source: str, error: type[OSError], hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a variable names the engine, the variable is what to look at, not the package manager."""

    def ping(endpoint: Endpoint) -> EngineClient:
        raise error

    monkeypatch.setattr(adapter, "candidates", lambda environment: (Endpoint(url="unix:///e", source=source),))
    monkeypatch.setattr(adapter, "ping", ping)
    with pytest.raises(EngineError) as caught:
        adapter.connect({})
    assert caught.value.hint.startswith(hint)


def test_over_ssh_nothing_is_tried() -> None:
    """An engine over ssh is always elsewhere: a folder of the same name there would be another one."""
    client = EngineClient(Endpoint(url="ssh://me@far", source="test"), (1, 41), "Docker/20.10")
    with pytest.raises(EngineError) as caught:
        run_container(client, ContainerRun(image="x", mounts=(Mount(source=Path("/p"), target="/p"),)))
    assert caught.value.message == "the engine at ssh://me@far is on another machine and cannot mount /p of this one"


def test_another_architecture() -> None:
    """What a kernel states of foreign programs is reported as what it is."""
    found = explained("exec /bin/sh: exec format error", LOCAL)
    assert found is not None
    assert found.message == "the engine cannot start programs of another architecture than its own"
    assert foreign("arm64").message == (
        "the engine cannot start programs of another architecture than its own (it runs those for arm64)"
    )
    assert found.hint == "use an engine on a machine of the lock's architecture"


def test_docker_desktop_is_another_machine(tmp_path: Path) -> None:
    """Its socket is known, through a link too; the host's hardware and disk are not its engine's."""
    socket = tmp_path / ".docker/desktop/docker.sock"
    socket.parent.mkdir(parents=True)
    socket.touch()
    link = tmp_path / "docker.sock"
    link.symlink_to(socket)
    for path in (socket, link):
        endpoint = Endpoint(url=f"unix://{path}", source="test")
        assert is_desktop(endpoint)
        assert not DockerEngine(EngineClient(endpoint, (1, 47), "Docker/27.3.1 (linux)")).is_local()
    assert not is_desktop(LOCAL)
    assert not is_desktop(REMOTE)


def test_the_kind_of_engine_can_be_chosen() -> None:
    """ENVBUILD_ENGINE leaves out the other kind's places; podman's own variable is heard after Docker's."""
    both = {"HOME": "/nowhere", "XDG_RUNTIME_DIR": "/run/user/7", "CONTAINER_HOST": "unix:///pod.sock"}
    assert [found.url for found in candidates(both)] == ["unix:///pod.sock"]
    docker_only = candidates({**both, "ENVBUILD_ENGINE": "docker"})
    assert [found.url for found in docker_only] == ["unix:///var/run/docker.sock", "unix:///run/user/7/docker.sock"]
    podman = candidates({"HOME": "/nowhere", "DOCKER_HOST": "unix:///docker.sock", "ENVBUILD_ENGINE": "podman"})
    assert [found.url for found in podman] == ["unix:///run/podman/podman.sock"]
    assert [found.url for found in candidates({**both, "DOCKER_HOST": "unix:///d.sock"})] == ["unix:///d.sock"]


def test_choices_that_cannot_be_meant() -> None:
    """Who wants the local engine alone gets no other; podman over ssh is refused with the way to reach it."""
    with pytest.raises(EngineError) as caught:
        candidates({"ENVBUILD_ENGINE": "local"})
    assert caught.value.message == "this needs a container engine, and ENVBUILD_ENGINE is local"
    with pytest.raises(EngineError) as refused:
        candidates({"CONTAINER_HOST": "ssh://me@far/run/podman.sock"})
    assert refused.value.message == (
        "CONTAINER_HOST names podman at ssh://me@far/run/podman.sock; envbuild reaches podman by unix:// or tcp:// only"
    )
