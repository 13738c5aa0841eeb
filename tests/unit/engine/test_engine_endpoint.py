"""Where the engine is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from envbuild.engine.docker.endpoint import candidates
from envbuild.errors import EngineError


def test_without_any_setting_the_usual_sockets_are_tried() -> None:
    """The system's engine first, then this user's, then podman's."""
    found = [endpoint.url for endpoint in candidates({"HOME": "/nowhere", "XDG_RUNTIME_DIR": "/run/user/7"})]
    assert found == [
        "unix:///var/run/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


def test_an_explicit_address_is_the_only_one(tmp_path: Path) -> None:
    """DOCKER_HOST wins over contexts, with certificates if asked for."""
    environment = {
        "DOCKER_HOST": "tcp://h:2376",
        "DOCKER_CONTEXT": "x",
        "DOCKER_TLS_VERIFY": "1",
        "HOME": str(tmp_path),
    }
    (endpoint,) = candidates(environment)
    assert (endpoint.url, endpoint.source, endpoint.certificates) == (
        ("tcp://h:2376", "DOCKER_HOST", tmp_path / ".docker")
    )
    (plain,) = candidates({"DOCKER_HOST": "ssh://me@h"})
    assert (plain.scheme, plain.address, plain.certificates) == ("ssh", "me@h", None)


def test_contexts_are_read_as_docker_writes_them(tmp_path: Path) -> None:
    """The current context of the configuration file, or the one DOCKER_CONTEXT names, gives the address."""
    identity = hashlib.sha256(b"lab").hexdigest()
    meta = tmp_path / "contexts" / "meta" / identity / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": "lab", "Endpoints": {"docker": {"Host": "unix:///lab.sock"}}}))
    base = {"DOCKER_CONFIG": str(tmp_path)}
    assert [e.url for e in candidates({**base, "DOCKER_CONTEXT": "lab"})] == ["unix:///lab.sock"]
    (tmp_path / "config.json").write_text('{"currentContext": "lab"}')
    assert [(e.url, e.source) for e in candidates(base)] == [("unix:///lab.sock", "docker context lab")]
    assert len(candidates({**base, "DOCKER_CONTEXT": "default"})) == 2


def test_a_context_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """A stale choice is an error, not a silent fall back to another engine."""
    with pytest.raises(EngineError) as caught:
        candidates({"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "gone"})
    assert (
        caught.value.message == f"DOCKER_CONTEXT selects the docker context 'gone', which does not exist in {tmp_path}"
    )


def test_an_unknown_scheme_is_refused() -> None:
    """An address that is none is named with its source."""
    with pytest.raises(EngineError) as caught:
        candidates({"DOCKER_HOST": "http://h"})
    assert caught.value.message == "DOCKER_HOST names the engine 'http://h'; expected unix://, tcp:// or ssh://"
