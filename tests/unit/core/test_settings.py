"""Settings: variables before a person's file, that before the machine's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core import settings
from envbuild.core.settings import origin, setting
from envbuild.errors import UsageError
from envbuild.operations.engines import chosen_kind
from envbuild.store.objects import default_root


@pytest.fixture(name="places")
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The person's file and the machine's, in folders that are there."""
    own, system = tmp_path / "home/.config/envbuild/config.toml", tmp_path / "etc/config.toml"
    for path in (own, system):
        path.parent.mkdir(parents=True)
    monkeypatch.setattr(settings, "SYSTEM_FILE", system)
    return own, system


def _environ(own: Path, **variables: str) -> dict[str, str]:
    return {"HOME": str(own.parents[2]), **variables}


def test_the_nearest_one_counts(places: tuple[Path, Path]) -> None:
    """Each key by itself: variable, the person's file, the machine's file, nothing."""
    own, system = places
    assert setting("engine", _environ(own)) == ""
    system.write_text("engine = 'docker'\nstore = '/scratch/envbuild'\n")
    own.write_text("engine = 'podman'\n")
    environ = _environ(own)
    assert (setting("engine", environ), setting("store", environ)) == ("podman", "/scratch/envbuild")
    assert (origin("engine", environ)[0], origin("store", environ)[0]) == (f"{own}: engine", f"{system}: store")
    assert setting("engine", _environ(own, ENVBUILD_ENGINE="local")) == "local"
    assert origin("engine", _environ(own, ENVBUILD_ENGINE="local")) == ("ENVBUILD_ENGINE", "unset ENVBUILD_ENGINE")
    assert setting("engine", {"ENVBUILD_ENGINE": "", **environ}) == "podman"
    assert setting("engine", {}) == "docker"  # no home folder


def test_what_is_configured_is_used(places: tuple[Path, Path]) -> None:
    """The store and the engine follow a file; an engine that is named in a file comes before DOCKER_HOST."""
    own, _ = places
    own.write_text("engine = 'local'\nstore = '~/big'\n")
    environ = _environ(own, DOCKER_HOST="unix:///nowhere")
    assert chosen_kind(environ) == "local"
    assert default_root(environ) == Path("~/big").expanduser()


def test_a_relative_folder_of_configuration_is_ignored(places: tuple[Path, Path]) -> None:
    """As the XDG base directory specification requires."""
    own, _ = places
    own.write_text("engine = 'local'\n")
    assert setting("engine", _environ(own, XDG_CONFIG_HOME="relative")) == "local"


def test_a_changed_file_is_read_again(places: tuple[Path, Path]) -> None:
    """Nothing is remembered beyond the file's time and size."""
    own, _ = places
    own.write_text("engine = 'local'\n")
    assert setting("engine", _environ(own)) == "local"
    own.write_text("engine = 'docker'\n")
    os.utime(own, (1, 1))
    assert setting("engine", _environ(own)) == "docker"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "engin = 'local'",
            '"engin" is no setting; expected store, engine, cdi-dirs, debian-snapshot, ubuntu-snapshot, '
            "python-mirror or cosign — ",
        ),
        ("engine = 1", 'engine: expected a text, found "1"'),
        ("engine = ''", 'engine: expected a text, found ""'),
        ("engine = [", "no TOML: "),
        ("\x1b[31m = 1", "no TOML: "),
    ],
)
def test_a_file_that_cannot_be_meant(places: tuple[Path, Path], text: str, message: str) -> None:
    """The error names file and key; nothing is taken of it."""
    own, _ = places
    own.write_text(text)
    with pytest.raises(UsageError) as caught:
        setting("store", _environ(own))
    assert caught.value.message.startswith(f"{own}: {message}")
    assert "\x1b" not in caught.value.message


def test_an_engine_that_there_is_not(places: tuple[Path, Path]) -> None:
    """The message names the line of the file."""
    own, _ = places
    own.write_text("engine = 'none'\n")
    with pytest.raises(UsageError) as caught:
        chosen_kind(_environ(own))
    assert caught.value.message == f"{own}: engine is 'none'; expected auto, local, docker, podman"


def test_what_is_no_file_is_refused(places: tuple[Path, Path]) -> None:
    """A folder, and a pipe, which reading would hang on."""
    own, system = places
    os.mkfifo(own)
    with pytest.raises(UsageError, match="expected a file"):
        setting("store", _environ(own))
    own.unlink()
    system.mkdir()
    with pytest.raises(UsageError, match="expected a file"):
        setting("store", _environ(own))
