"""``lock --update-inputs`` and what commands report about declared data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from envbuild import cli
from envbuild.errors import HostMismatchError, LockError, SpecError
from envbuild.image.dockerfile import render
from envbuild.inputs.digest import digest_inputs
from envbuild.lockfile import model as locks
from envbuild.operations.events import Silent
from envbuild.operations.inputs import input_changes, require_locked_inputs
from envbuild.operations.load_lock import load_lock
from envbuild.operations.lock import update_inputs
from envbuild.operations.lock_files import resolution_inputs
from envbuild.spec.model import load_spec
from tests.support.locks import small_lock

SPEC = "name: t\nos: debian-12\npython: '3.11'\ninputs: [data]\n"


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A locked project with one input of two files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"one\n")
    (tmp_path / "data" / "b").write_bytes(b"two\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    lock = msgspec.structs.replace(
        small_lock(),
        resolution=resolution_inputs(load_spec(spec), spec) | {"--resolver": "0" * 64},
        inputs=digest_inputs(tmp_path, ["data"]),
    )
    (tmp_path / "pylock.t.toml").write_bytes(locks.dumps(lock))
    (tmp_path / "Dockerfile").write_bytes(render(lock).dockerfile)
    return tmp_path


def read(project: Path) -> locks.Lock:
    return locks.load(project / "pylock.t.toml")


def test_changed_data_is_accepted_and_nothing_else_moves(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The lock differs in its inputs alone, its Dockerfile goes with it, and what changed is reported."""
    before = read(project)
    (project / "data" / "c").write_bytes(b"three\n")
    (project / "data" / "a").write_bytes(b"ONE\n")
    assert cli.main(["lock", "--update-inputs"]) == 0
    after = read(project)
    assert after.inputs == digest_inputs(project, ["data"])
    assert msgspec.structs.replace(after, inputs=before.inputs) == before
    assert (project / "Dockerfile").read_bytes() == render(after).dockerfile
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [
        "input     data                3 files  14 B",
        "moved     data: 1 file added (6 bytes), 1 file changed",
        "moved       added    c",
        "moved       changed  a",
    ]
    assert last.startswith("wrote     pylock.t.toml ")
    assert load_lock(None).lock == after
    assert require_locked_inputs(project / "pylock.t.toml", after, Silent())() == ()


def test_unchanged_data_leaves_the_lock_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to accept: the same bytes, and the command reports it."""
    before = (project / "pylock.t.toml").read_bytes()
    assert cli.main(["lock", "--update-inputs", "--json"]) == 0
    assert (project / "pylock.t.toml").read_bytes() == before
    out, err = capsys.readouterr()
    assert json.loads(out)["moved"] == []
    assert err.splitlines()[-1].startswith("fresh     pylock.t.toml ")


def test_the_spec_may_declare_other_inputs(project: Path) -> None:
    """An input declared anew is locked by the same command, since only inputs changed in the spec."""
    (project / "words").write_bytes(b"w")
    (project / "spec.yaml").write_text(SPEC.replace("[data]", "[words]"))
    with pytest.raises(LockError, match=r"spec\.yaml changed"):
        load_lock(None)
    (result,) = update_inputs(Path("spec.yaml"), Silent())
    assert load_lock(None).lock == result.lock
    assert [entry.path for entry in result.lock.inputs] == ["words"]
    assert result.input_changes == ("data: no input any more", "words: a new input")


def test_a_lock_that_is_stale_otherwise_is_not_touched(project: Path) -> None:
    """Accepting data must not hide that the spec asks for another environment."""
    before = (project / "pylock.t.toml").read_bytes()
    (project / "spec.yaml").write_text(SPEC + "env: {A: '1'}\n")
    with pytest.raises(LockError) as caught:
        update_inputs(Path("spec.yaml"), Silent())
    assert caught.value.message == "pylock.t.toml is stale in more than its inputs\n  spec.yaml changed"
    assert caught.value.hint == "lock again: envbuild lock spec.yaml"
    assert (project / "pylock.t.toml").read_bytes() == before


def test_there_must_be_a_lock_and_data(project: Path) -> None:
    """What is missing is reported as everywhere, and nothing is written."""
    before = (project / "pylock.t.toml").read_bytes()
    shutil.rmtree(project / "data")
    with pytest.raises(SpecError, match=r'inputs\[0\]: no file or folder "data"'):
        update_inputs(Path("spec.yaml"), Silent())
    assert (project / "pylock.t.toml").read_bytes() == before
    (project / "pylock.t.toml").unlink()
    with pytest.raises(LockError, match=r"^cannot read the lock pylock\.t\.toml"):
        update_inputs(Path("spec.yaml"), Silent())


def test_a_run_on_changed_data_is_refused(project: Path) -> None:
    """Exit 78 states what changed and both ways out."""
    (project / "data" / "c").write_bytes(b"three\n")
    with pytest.raises(HostMismatchError) as caught:
        require_locked_inputs(project / "pylock.t.toml", read(project), Silent())
    assert caught.value.exit_code == 78
    assert caught.value.message == (
        "input data is not as pylock.t.toml locked it — nothing was run\n  data: 1 file added (6 bytes)\n    added    c"
    )
    assert caught.value.hint == "restore the data, or accept it: envbuild lock --update-inputs"
    resolution = {"conf/other.yaml": "0" * 64}
    with pytest.raises(HostMismatchError) as caught:
        require_locked_inputs(
            project / "pylock.t.toml", msgspec.structs.replace(read(project), resolution=resolution), Silent()
        )
    assert caught.value.hint == "restore the data, or accept it: envbuild lock conf/other.yaml --update-inputs"


def test_what_is_asked_after_the_run(project: Path) -> None:
    """A user who continues gets a question to ask later: was anything touched meanwhile?"""
    ask = require_locked_inputs(project / "pylock.t.toml", read(project), Silent())
    assert ask() == ()
    (project / "data" / "c").write_bytes(b"three\n")
    assert ask() == ("data: 1 file added (6 bytes)",)
    without = msgspec.structs.replace(read(project), inputs=())
    assert require_locked_inputs(project / "pylock.t.toml", without, Silent())() == ()


def test_check_compares_inputs_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``envbuild check`` states whether a run would start: data included, as text, as JSON and as exit code."""
    assert cli.main(["check"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("this host matches pylock.t.toml\n")
    assert out.endswith("  input    data: as locked, 2 files, 8 B\n")
    assert cli.main(["check", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["ok"], reported["verified"], reported["inputs"]) == (True, "yes", [])
    (project / "data" / "b").unlink()
    assert cli.main(["check"]) == 78
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("this host matches pylock.t.toml, but its input data differs\n")
    assert err.endswith(
        "envbuild: input data is not as pylock.t.toml locked it\n"
        "  data: 1 file missing (4 bytes)\n"
        "    missing  b\n"
        "  → restore the data, or accept it: envbuild lock --update-inputs\n"
    )
    assert cli.main(["check", "--json"]) == 78
    whole = json.loads(capsys.readouterr().out)
    assert (whole["ok"], whole["verified"]) == (False, "no")
    (reported,) = whole["inputs"]
    assert (reported["path"], reported["message"], reported["found"]["files"]) == (
        "data",
        "data: 1 file missing (4 bytes)",
        1,
    )
    assert reported["changes"]["removed"] == {"files": 1, "folders": 0, "bytes": 4, "names": ["b"]}


def test_moved_inputs_of_a_plain_lock(project: Path) -> None:
    """``envbuild lock`` digests inputs anew as well: it states what that moved."""
    old = read(project).inputs
    assert input_changes(project, old, old) == ()
    (project / "data" / "c").write_bytes(b"three\n")
    assert input_changes(project, old, digest_inputs(project, ["data"])) == (
        "data: 1 file added (6 bytes)",
        "  added    c",
    )
