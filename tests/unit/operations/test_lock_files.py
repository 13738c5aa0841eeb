"""Which lock and which Dockerfile belong to a spec, where a folder holds more than one; and locks that are no use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.errors import LockError
from envbuild.image.dockerfile import render
from envbuild.lockfile import model as locks
from envbuild.operations import lock as operation
from envbuild.operations.events import Silent
from envbuild.operations.lock_files import resolution_inputs, stale_inputs
from envbuild.operations.lock_options import LockOptions
from envbuild.spec.model import Spec
from tests.support.locks import small_lock

SPEC = "name: {name}\nos: debian-12\npython: '3.11'\n"
_RESTORE = "restore the file as it was written, e.g. with git checkout; or resolve all anew: envbuild lock --upgrade"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to lock in, where resolving gives a small lock at once, whatever the spec asks for."""

    def resolve(spec: Spec, path: Path, old: object, options: LockOptions, console: object) -> tuple[Any, Any]:
        lock = small_lock(name=spec.name)
        return msgspec.structs.replace(lock, resolution=resolution_inputs(spec, path, options.resolver)), ()

    monkeypatch.setattr("envbuild.operations.lock.resolve", resolve)
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "store"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def _write(name: str = "t", file: str = "spec.yaml") -> None:
    Path(file).write_text(SPEC.format(name=name))


def _is_of(dockerfile: str, name: str) -> bool:
    lock = locks.load(Path(f"pylock.{name}.toml"))
    return Path(dockerfile).read_bytes() == render(lock).dockerfile


@pytest.mark.parametrize(
    ("damage", "hint"),
    [
        (lambda data: b"<<<<<<< HEAD\n" + data, _RESTORE),
        (lambda data: data.replace(b"[tool.envbuild]\nversion = 1", b"[tool.envbuild]\nversion = 2"), "use the"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--upgrade-package", "a"], ["--host", "none"], ["--update-inputs"]])
def test_pins_are_never_lost_unasked(
    damage: Callable[[bytes], bytes],
    hint: str,
    arguments: list[str],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A lock that cannot be read is not replaced, since every pin would move and nobody know; --upgrade may."""
    _write()
    assert cli.main(["lock", "--quiet"]) == 0
    lock = folder / "pylock.t.toml"
    damaged = damage(lock.read_bytes())
    assert damaged != lock.read_bytes()
    lock.write_bytes(damaged)
    assert cli.main(["lock", *arguments]) == 11
    err = capsys.readouterr().err
    assert f"\n  → {hint}" in err
    assert ("all its pins would be lost" in err) == (arguments != ["--update-inputs"])
    assert lock.read_bytes() == damaged
    assert cli.main(["lock", "--upgrade", "--quiet"]) == 0
    assert locks.load(lock).name == "t"


def test_a_lock_under_an_earlier_name_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who renames a spec has two locks then: the leftover is named, and the Dockerfile is the new one's."""
    _write("old")
    assert cli.main(["lock"]) == 0
    assert "earlier name" not in capsys.readouterr().out
    (folder / "pylock.broken.toml").write_text("<<<<<<<")
    _write("new")
    assert cli.main(["lock"]) == 0
    out = capsys.readouterr().out
    assert "note      pylock.old.toml is of spec.yaml too, under its earlier name: remove it\n" in out
    assert "wrote     pylock.new.toml, Dockerfile " in out
    assert _is_of("Dockerfile", "new")
    assert cli.main(["lock", "--check", "--quiet"]) == 0


def test_each_of_two_specs_has_its_dockerfile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second spec of a folder leaves the first one's Dockerfile alone, in whatever order they are locked again."""
    _write("a")
    _write("b", "b.yaml")
    assert cli.main(["lock", "--quiet"]) == 0
    for _ in range(2):
        assert cli.main(["lock", "b.yaml"]) == 0
        assert "wrote     pylock.b.toml, Dockerfile.b " in capsys.readouterr().out
        assert cli.main(["lock", "spec.yaml", "--quiet"]) == 0
        assert (_is_of("Dockerfile", "a"), _is_of("Dockerfile.b", "b")) == (True, True)
        assert cli.main(["lock", "--check", "spec.yaml", "--quiet"]) == 0
        assert cli.main(["lock", "--check", "b.yaml", "--quiet"]) == 0
    assert cli.main(["lock", "--update-inputs", "b.yaml", "--quiet"]) == 0
    assert _is_of("Dockerfile", "a")
    (folder / "pylock.a.toml").unlink()
    assert cli.main(["lock", "--check", "b.yaml", "--quiet"]) == 0  # its own stays its own


def test_a_dockerfile_of_a_lock_that_is_gone_is_replaced(folder: Path) -> None:
    """Nothing else is in the way of the plain name."""
    _write("a")
    _write("b", "b.yaml")
    assert cli.main(["lock", "--quiet"]) == 0
    (folder / "pylock.a.toml").unlink()
    assert cli.main(["lock", "b.yaml", "--quiet"]) == 0
    assert _is_of("Dockerfile", "b")
    assert not (folder / "Dockerfile.b").exists()


def test_a_dockerfile_of_ones_own_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What envbuild did not write it does not replace."""
    (folder / "Dockerfile").write_text("FROM scratch\n")
    _write()
    assert cli.main(["lock", "--quiet"]) == 0
    assert (folder / "Dockerfile").read_text() == "FROM scratch\n"
    assert _is_of("Dockerfile.t", "t")
    (folder / "Dockerfile.t").write_text("FROM scratch\n")
    assert cli.main(["lock"]) == 2
    assert capsys.readouterr().err == (
        "envbuild: Dockerfile and Dockerfile.t are not of envbuild: neither is replaced\n  → move one of them\n"
    )


def test_two_specs_of_one_name_do_not_share_a_lock(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second is refused, and ``--check`` states whose the lock is; a spec that was renamed as a file is none."""
    _write()
    _write(file="c.yaml")
    assert cli.main(["lock", "c.yaml", "--quiet"]) == 0
    before = (folder / "pylock.t.toml").read_bytes()
    assert cli.main(["lock"]) == 2
    assert capsys.readouterr().err == (
        "envbuild: pylock.t.toml is the lock of c.yaml, which is named t too\n"
        "  → give one of them another name, or remove the one that is not needed\n"
    )
    assert cli.main(["lock", "--check"]) == 11
    assert capsys.readouterr().err == (
        "envbuild: pylock.t.toml is stale\n  locked from c.yaml, not from spec.yaml\n"
        "  → lock again: envbuild lock spec.yaml\n"
    )
    assert (folder / "pylock.t.toml").read_bytes() == before
    (folder / "c.yaml").unlink()
    assert cli.main(["lock", "--quiet"]) == 0


def test_another_spec_is_one_line_next_to_the_other_inputs() -> None:
    """A spec that is new and one that is gone are one fact; requirements files stay as they were."""
    locked = {"c.yaml": "1", "r.txt": "1"}
    assert stale_inputs(locked, {"s.yml": "1", "q.txt": "1"}) == [
        "locked from c.yaml, not from s.yml",
        "q.txt is new",
        "r.txt is gone",
    ]


def test_the_way_to_choose_a_lock_is_the_commands_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``run`` and ``verify`` take ``--lock``, the others an argument: nobody is sent to an option that is not there."""
    for name in ("a", "b"):
        (folder / f"pylock.{name}.toml").touch()
    (folder / "t.py").touch()
    ways = {("run", "t.py"): "--lock pylock.a.toml", ("verify", "--check", "t.py"): "--lock pylock.a.toml"}
    commands = (("build",), ("check",), ("image",), ("push", "host/x:1"))
    ways |= dict.fromkeys(commands, "pylock.a.toml as the last argument")
    for command, way in ways.items():
        assert cli.main([*command]) == 2
        reported = f"envbuild: {folder} holds 2 locks: pylock.a.toml, pylock.b.toml\n  → choose one: {way}\n"
        assert capsys.readouterr().err == reported


def test_a_spec_where_a_lock_is_wanted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is reported as what it is, with the lock that it has or how to get one."""
    _write()
    reported = "envbuild: spec.yaml is a spec; its lock is pylock.t.toml\n  → "
    assert cli.main(["build", "spec.yaml"]) == 2
    assert capsys.readouterr().err == f"{reported}lock it first: envbuild lock spec.yaml\n"
    assert cli.main(["lock", "--quiet"]) == 0
    assert cli.main(["build", "spec.yaml"]) == 2
    assert capsys.readouterr().err == f"{reported}name that: pylock.t.toml\n"
    (folder / "o.yaml").write_text("x: y\n")
    assert cli.main(["build", "o.yaml"]) == 2
    assert capsys.readouterr().err.startswith("envbuild: o.yaml is no lock\n")


def test_a_file_that_cannot_be_made_is_reported_by_its_own_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that takes no file is reported with the name that was wanted, not with a temporary one."""

    def refuse(start: str) -> Any:
        raise PermissionError(13, "Permission denied", f"{start}x1y2z3.tmp")

    _write()
    monkeypatch.setattr("envbuild.core.fs._new_file", refuse)
    assert cli.main(["lock"]) == 2
    assert capsys.readouterr().err.startswith("envbuild: cannot read or write Dockerfile: Permission denied\n")


def test_a_lock_is_a_value_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a console: what was written, what it replaced and what changed are members of the result; no output."""
    _write()
    (first,) = operation.lock(Path("spec.yaml"), LockOptions(), Silent())
    assert (first.old, first.changes, first.path.name, first.dockerfile.name) == (
        None,
        (),
        "pylock.t.toml",
        "Dockerfile",
    )
    assert locks.load(first.path) == first.lock
    (second,) = operation.lock(Path("spec.yaml"), LockOptions(), Silent())
    assert (second.old, second.changes) == (first.lock, ())
    assert operation.check(Path("spec.yaml"))[0].reasons == ()
    first.path.unlink()
    (missing,) = operation.check(Path("spec.yaml"))
    with pytest.raises(LockError) as caught:
        operation.require_fresh([missing])
    assert missing.reasons == (caught.value.message,)
    assert capsys.readouterr() == ("", "")


def test_a_summary_for_a_pull_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--summary markdown`` owns standard output: the new lock, then that nothing moved, then what did."""
    _write()
    assert cli.main(["lock", "--summary", "markdown"]) == 0
    out, err = capsys.readouterr()
    assert out == "## pylock.t.toml is new\n\n"
    assert "\nwrote     pylock.t.toml, Dockerfile " in err
    assert cli.main(["lock", "--summary", "markdown"]) == 0
    assert capsys.readouterr().out == "## pylock.t.toml: nothing moved\n"

    def resolve(spec: Spec, path: Path, old: object, options: LockOptions, events: object) -> tuple[Any, Any]:
        return small_lock({"a-1.0-py3-none-any.whl": b"a"}, name=spec.name), ("a note",)

    monkeypatch.setattr("envbuild.operations.lock.resolve", resolve)
    assert cli.main(["lock", "--summary", "markdown"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("## pylock.t.toml: 1 wheel moved\n\nResults may change")
    assert "| a | — | 1.0 |\n" in out
    assert "note      a note\n" in err
    assert "moved     a                             none → 1.0\n" in err
