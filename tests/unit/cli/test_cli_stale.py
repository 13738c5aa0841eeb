"""A lock that its spec has left behind is noticed, named, and not used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envbuild import cli
from envbuild.cli.render.lock import change_lines
from envbuild.image.dockerfile import render
from envbuild.lockfile.changes import changes
from envbuild.lockfile.model import Lock, dumps, loads
from envbuild.operations.load_lock import load_lock
from envbuild.operations.lock_files import resolution_inputs, stale_inputs
from envbuild.spec.model import load_spec
from envbuild.store.objects import Store
from tests.support.locks import small_lock
from tests.support.wheels import make_wheel, wheel_bytes


@pytest.fixture(name="project")
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, fresh and complete: spec, requirements files, a folder of wheels, lock and Dockerfile."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    (tmp_path / "more.txt").write_text("b\n")
    (tmp_path / "requirements.txt").write_text("-r more.txt\n")
    make_wheel(tmp_path / "wheels", "a")
    (tmp_path / "spec.yaml").write_text(
        "name: t\nos: debian-12\npython: '3.11'\nrequirements: [-r requirements.txt]\nwheels: [wheels]\n"
    )
    _write_lock(tmp_path)
    return tmp_path


def _write_lock(project: Path) -> Lock:
    spec = project / "spec.yaml"
    inputs = resolution_inputs(load_spec(spec), spec)
    lock = msgspec.structs.replace(small_lock({"a-1.0-py3-none-any.whl": wheel_bytes("a")}), resolution=inputs)
    (project / "pylock.t.toml").write_bytes(dumps(lock))
    (project / "Dockerfile").write_bytes(render(lock).dockerfile)
    return lock


def test_a_fresh_lock_passes_the_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``lock --check`` is exit 0 for what the spec asks for, as text and as JSON."""
    assert cli.main(["lock", "--check"]) == 0
    assert capsys.readouterr() == ("fresh     pylock.t.toml is what spec.yaml asks for\n", "")
    assert cli.main(["lock", "--check", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"lock": "pylock.t.toml", "fresh": True, "reasons": []}
    assert err == "fresh     pylock.t.toml is what spec.yaml asks for\n"


def _edit_spec(project: Path) -> None:
    with (project / "spec.yaml").open("a") as stream:
        stream.write("env: {A: '1'}\n")


def _edit_requirements(project: Path) -> None:
    (project / "requirements.txt").write_text("b\n-r more.txt\n")


def _edit_included(project: Path) -> None:
    (project / "more.txt").write_text("b>1\n")


def _add_wheel(project: Path) -> None:
    make_wheel(project / "wheels", "b")


def _include_more(project: Path) -> None:
    (project / "new.txt").write_text("c\n")
    (project / "more.txt").write_text("-c new.txt\n")


STALE = [
    (_edit_spec, ["spec.yaml changed"]),
    (_edit_requirements, ["requirements.txt changed"]),
    (_edit_included, ["more.txt changed"]),
    (_add_wheel, ["wheels/*.whl changed"]),
    (_include_more, ["more.txt changed", "new.txt is new"]),
]


@pytest.mark.parametrize(("edit", "lines"), STALE)
def test_a_stale_lock_reports_which_input_changed(
    edit: Callable[[Path], None], lines: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``lock --check`` is exit 11 and names every input that is not as it was, included files too."""
    edit(project)
    before = (project / "pylock.t.toml").read_bytes()
    assert cli.main(["lock", "--check"]) == 11
    listed = "".join(f"\n  {line}" for line in lines)
    assert capsys.readouterr() == (
        "",
        f"envbuild: pylock.t.toml is stale{listed}\n  → lock again: envbuild lock spec.yaml\n",
    )
    assert (project / "pylock.t.toml").read_bytes() == before
    assert cli.main(["lock", "--check", "--json"]) == 11
    assert json.loads(capsys.readouterr().out) == {"lock": "pylock.t.toml", "fresh": False, "reasons": lines}


def test_no_lock_at_all_is_reported_in_json_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--check --json`` prints an object whatever the answer is: a lock that is not there is not fresh."""
    (project / "pylock.t.toml").unlink()
    assert cli.main(["lock", "--check", "--json"]) == 11
    reported = json.loads(capsys.readouterr().out)
    assert (reported["fresh"], reported["reasons"]) == (
        False,
        ["cannot read the lock pylock.t.toml: No such file or directory"],
    )


def test_nothing_to_fetch_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``fetch`` with everything in the store reports it, as ``build`` does."""
    Store(project / "store").add_bytes(wheel_bytes("a"))
    assert cli.main(["fetch"]) == 0
    assert re.fullmatch(r"fetch     nothing to do +[0-9.]+ s\n", capsys.readouterr().out)


@pytest.mark.parametrize("command", [["build"], ["fetch"], ["context", "c"], ["check"], ["run", "t.py"]])
def test_nothing_is_done_with_a_stale_lock(
    command: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that uses a lock refuses one that its spec has left behind, before anything else."""
    (project / "t.py").write_text("")
    _edit_spec(project)
    assert cli.main(command) == 11
    assert capsys.readouterr() == (
        "",
        "envbuild: pylock.t.toml is stale\n  spec.yaml changed\n  → lock again: envbuild lock spec.yaml\n",
    )
    assert not (project / "store").exists()
    assert not (project / ".envbuild").exists()


@pytest.fixture(name="unread")
def _unread(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose lock was found fresh a moment ago, and whose spec must not be read again for that."""

    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} was read")

    (project / ".envbuild").mkdir()
    load_lock(None)
    monkeypatch.setattr("envbuild.spec.model.load_spec", refuse)
    return project


def test_an_unchanged_spec_is_not_read_again(unread: Path) -> None:
    """What a lock was compared with once is known by its bytes from then on, touched or not."""
    (unread / "spec.yaml").touch()
    assert load_lock(None).path == unread / "pylock.t.toml"


@pytest.mark.parametrize("edit", [edit for edit, _ in STALE])
def test_a_change_is_never_taken_for_known(edit: Callable[[Path], None], unread: Path) -> None:
    """Every change that can make a lock stale has the spec read again."""
    edit(unread)
    with pytest.raises(AssertionError, match=r"spec\.yaml was read$"):
        load_lock(None)


@pytest.mark.parametrize("memory", ["", "[]", "{}", '{"envbuild": "0", "sha256": "", "meaning": ""}'])
def test_a_memory_that_is_no_use_is_not_used(memory: str, unread: Path) -> None:
    """Damaged, or of another envbuild, which may understand specs otherwise: the spec is read again."""
    (unread / ".envbuild" / "fresh.json").write_text(memory)
    with pytest.raises(AssertionError, match=r"spec\.yaml was read$"):
        load_lock(None)


def test_a_lock_made_again_is_compared_again(unread: Path) -> None:
    """The memory is of the spec: another lock next to it is not fresh by it."""
    lock = loads((unread / "pylock.t.toml").read_bytes())
    other = msgspec.structs.replace(lock, resolution={**lock.resolution, "spec.yaml": "0" * 64})
    (unread / "pylock.t.toml").write_bytes(dumps(other))
    with pytest.raises(AssertionError, match=r"spec\.yaml was read$"):
        load_lock(None)


def test_a_build_alone_leaves_no_folder(project: Path) -> None:
    """Only projects with runs have a state folder."""
    load_lock(None)
    assert not (project / ".envbuild").exists()


@pytest.mark.parametrize("edit", ["alter", "remove"])
def test_an_altered_dockerfile_is_stale(edit: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``lock --check`` also answers for the Dockerfile next to the lock."""
    dockerfile = project / "Dockerfile"
    dockerfile.write_bytes(dockerfile.read_bytes() + b"RUN true\n") if edit == "alter" else dockerfile.unlink()
    assert cli.main(["lock", "--check"]) == 11
    assert capsys.readouterr().err == (
        "envbuild: pylock.t.toml is stale\n  Dockerfile is not the one of this lock\n"
        "  → lock again: envbuild lock spec.yaml\n"
    )


def test_layout_and_comments_do_not_make_a_lock_stale(project: Path) -> None:
    """Only what a spec means counts."""
    spec = project / "spec.yaml"
    spec.write_text("# a comment\n" + spec.read_text().replace("[wheels]", "\n  - wheels"))
    assert cli.main(["lock", "--check", "--quiet"]) == 0


def test_a_broken_spec_next_to_a_lock_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A lock whose spec cannot be read any more is not used."""
    (project / "spec.yaml").write_text("name: [\n")
    assert cli.main(["build"]) == 11
    assert capsys.readouterr().err.startswith("envbuild: pylock.t.toml cannot be compared with its spec\n")


def test_harmful_variables_are_refused_when_locking(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of the spec that undoes determinism is a problem of the spec."""
    with (project / "spec.yaml").open("a") as stream:
        stream.write("env: {TF_DETERMINISTIC_OPS: '0'}\n")
    assert cli.main(["lock"]) == 10
    assert "env.TF_DETERMINISTIC_OPS: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (lambda data: data.replace(b"1.0", b"1.1"), "envbuild: pylock.t.toml: "),
        (lambda data: data[: len(data) // 2], "envbuild: pylock.t.toml"),
        (lambda data: b"\xff" + data, "envbuild: pylock.t.toml is not a TOML file: "),
        (lambda data: b"", "envbuild: pylock.t.toml: tool.envbuild: missing; not a lock of envbuild"),
    ],
)
def test_a_damaged_lock_is_refused(
    damage: Callable[[bytes], bytes], reported: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A lock that was cut off or altered is exit 11."""
    lock = project / "pylock.t.toml"
    lock.write_bytes(damage(lock.read_bytes()))
    assert cli.main(["build"]) == 11
    assert capsys.readouterr().err.startswith(reported)


def test_stale_inputs_are_changed_new_or_gone() -> None:
    """Each difference between two sets of inputs is one line."""
    assert stale_inputs({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "d": "4"}) == [
        "b changed",
        "d is new",
        "c is gone",
    ]


def test_differences_between_locks_are_reported_by_package() -> None:
    """What moved between two locks, OS packages marked as such."""
    old = small_lock({"a-1.0-py3-none-any.whl": b"", "b-1.0-py3-none-any.whl": b""}, {"c_1_all.deb": b""})
    new = small_lock({"a-2.0-py3-none-any.whl": b"", "b-1.0-py3-none-any.whl": b""}, {"d_1_all.deb": b""})
    assert [re.sub(" +", " ", line) for line in change_lines(changes(old, new))] == [
        "a 1.0 → 2.0",
        "c (os) 1 → none",
        "d (os) none → 1",
    ]
