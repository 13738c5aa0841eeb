"""Marker and verdict file."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from envbuild.runtime.guard import gate
from envbuild.runtime.guard.__main__ import main
from envbuild.runtime.guard.checks import Check

CHECK = Check("cpus", "2 threads", "1 CPU", ok=False, meaning="m", fix="f")


def verdict(name: str = "entrypoint") -> gate.Verdict:
    return gate.Verdict([CHECK], ok=False, gate=name, lock="pylock.digits.toml", duration_ms=1.5)


def make_proc(root: Path, boot: str, started: int) -> str:
    for path, text in (
        ("proc/sys/kernel/random/boot_id", f"{boot}\n"),
        ("proc/1/stat", f"1 (a) b) c) S {' '.join(['0'] * 18)} {started} 0 0\n"),
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "proc/self/ns").mkdir(parents=True, exist_ok=True)
    if not (root / "proc/self/ns/pid").is_symlink():
        (root / "proc/self/ns/pid").symlink_to("pid:[4026532281]")
    return gate.marker("0123456789abcdef0123", str(root))


def test_marker(tmp_path: Path) -> None:
    """It names lock, boot, namespace and the start of its first process, whatever that one is called."""
    assert make_proc(tmp_path, "5f1c", 117) == "1/0123456789abcdef/5f1c/pid:[4026532281]/117"
    assert make_proc(tmp_path, "5f1c", 118) != make_proc(tmp_path, "5f1c", 117)
    assert make_proc(tmp_path, "0000", 117) != make_proc(tmp_path, "5f1c", 117)


@pytest.mark.parametrize(
    ("processes", "environment", "passed"),
    [
        ({"self": (7, ""), "7": (1, "A=1\0ENVBUILD_GUARD=M\0"), "1": (0, "")}, {}, True),
        ({"self": (7, ""), "7": (1, "A=1\0"), "1": (0, "ENVBUILD_GUARD=M")}, {}, True),
        (
            {"self": (7, "ENVBUILD_GUARD=M\0"), "7": (1, "ENVBUILD_GUARD=Mx\0"), "1": (0, "XENVBUILD_GUARD=M")},
            {},
            False,
        ),
        ({"self": (7, ""), "7": (1, "ENVBUILD_GUARD=M\0")}, {"ENVBUILD_GUARD": "another"}, False),
        ({"self": (7, ""), "7": (1, "ENVBUILD_GUARD=M\0")}, {"ENVBUILD_GUARD": "off"}, True),
        ({"self": (0, ""), "1": (0, "ENVBUILD_GUARD=M\0")}, {}, False),
        ({"self": (7, ""), "7": (7, "")}, {}, False),
        ({}, {}, False),
    ],
    ids=["parent", "first", "others", "own", "off", "from outside", "circle", "no proc"],
)
def test_a_process_without_marker_is_a_child_of_one_that_has_it(
    processes: dict[str, tuple[int, str]], environment: dict[str, str], passed: bool, tmp_path: Path
) -> None:
    """A program may clear its children's environment; one that comes from outside the container has no such parent."""
    for name, (parent, variables) in processes.items():
        folder = tmp_path / "proc" / name
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"9 (a) b) S {parent} 1 1\n")
        (folder / "environ").write_text(variables)
        (folder / "root").symlink_to(tmp_path)
    assert gate.passed_above("M", environment, str(tmp_path)) == ({} if passed else None)
    for folder in tmp_path.glob("proc/*"):
        (folder / "root").unlink()
        (folder / "root").symlink_to("/usr")
    assert gate.passed_above("M", environment, str(tmp_path)) is None, "another container's"


def test_what_a_run_asks_of_its_processes_reaches_those_with_an_environment_of_their_own(tmp_path: Path) -> None:
    """Nothing else does."""
    for name in ("self", "7"):
        folder = tmp_path / "proc" / name
        folder.mkdir(parents=True)
        (folder / "stat").write_text("9 (a) S 7 1 1\n")
        (folder / "environ").write_bytes(b"ENVBUILD_VARY=1:listings=x\0ENVBUILD_GUARD=M\0ENVBUILD_SHIFT=1\0A=\xff\0")
        (folder / "root").symlink_to(tmp_path)
    for own in ({}, {"ENVBUILD_GUARD": "off"}):
        assert gate.passed_above("M", own, str(tmp_path)) == {"ENVBUILD_VARY": "1:listings=x"}


def test_marker_without_proc(tmp_path: Path) -> None:
    """Parts that cannot be read are empty: two processes of one container still agree."""
    assert gate.marker("0123456789abcdef0123", str(tmp_path)) == "1/0123456789abcdef///"


def test_verdict_file(tmp_path: Path) -> None:
    """The file holds everything a program needs; a later gate's does not replace it."""
    gate.write_verdict(verdict(), str(tmp_path))
    gate.write_verdict(verdict("startup"), str(tmp_path), replace=False)
    names = {path.name: json.loads(path.read_text())["gate"] for path in tmp_path.iterdir()}
    assert names == {"verdict.json": "entrypoint", f"verdict-{os.getpid()}.json": "startup"}
    assert json.loads((tmp_path / "verdict.json").read_text()) == {
        "format": 1,
        "ok": False,
        "verified": "no",
        "gate": "entrypoint",
        "lock": "pylock.digits.toml",
        "controls": True,
        "duration_ms": 1.5,
        "checks": [CHECK.as_dict()],
    }


def test_no_folder_no_verdict(tmp_path: Path) -> None:
    """Without the folder nothing is written and nothing fails."""
    gate.write_verdict(verdict(), str(tmp_path / "absent"))
    assert gate.write_atomic(str(tmp_path / "absent" / "x"), "") is False


def test_nothing_half_written(tmp_path: Path) -> None:
    """If the rename fails the temporary file is gone too."""
    (tmp_path / "x").mkdir()
    assert gate.write_atomic(str(tmp_path / "x"), "text") is False
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_an_interrupted_guard_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the machine is looked at is exit code 130; the program does not start."""

    def interrupted(name: str) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return True

    monkeypatch.setattr(gate, "pass_or_refuse", interrupted)
    assert main(["/bin/false"]) == 130


def test_a_guard_that_fails_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever goes wrong inside the guard, nothing runs."""
    monkeypatch.setattr(gate, "load_expectations", lambda path: {})
    assert gate.pass_or_refuse("entrypoint", prefix=str(tmp_path), folder=str(tmp_path)) is False
    assert capfd.readouterr().err == (
        "envbuild: the guard failed: KeyError: 'site' — nothing was run\n"
        "what to do:\n  run the image as it was built: envbuild build\n"
    )


def test_a_run_goes_without_locked_controls_only(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of the names that are left out, locked variables that are controls are unset; all others stay; it is reported."""
    locked = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "jax", "LANG": "C.UTF-8", "NPROC": "1"}
    for name, value in {**locked, "XLA_FLAGS": "mine"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ENVBUILD_WITHOUT", "OMP_NUM_THREADS,KERAS_BACKEND,LANG,XLA_FLAGS,torch.manual_seed,")
    names = gate.left_out(os.environ)
    gate._leave_out(names, locked)
    kept = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "KERAS_BACKEND", "LANG", "XLA_FLAGS", "NPROC")}
    assert kept == {
        "OMP_NUM_THREADS": None,
        "KERAS_BACKEND": "jax",
        "LANG": "C.UTF-8",
        "XLA_FLAGS": "mine",
        "NPROC": "1",
    }
    assert capfd.readouterr().err == (
        "envbuild: this run goes without: KERAS_BACKEND, LANG, OMP_NUM_THREADS, XLA_FLAGS, torch.manual_seed\n"
    )
    assert gate.left_out({}) == frozenset()


def test_a_gate_that_is_held_says_nothing_until_it_may_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The checks are made; refusal, verdict and what the program sees come later. Without its caller it ends."""
    judged, seen, bytes_sent = [], [], [b"g", b""]

    def evaluate(expect: object, name: str) -> gate.Verdict:
        judged.append(os.environ.get(gate.HELD))
        return verdict(name)

    def read(number: int, size: int) -> bytes:
        seen.append((number, list(judged), capfd.readouterr().err, list(tmp_path.iterdir())))
        return bytes_sent.pop(0)

    monkeypatch.setattr(gate, "load_expectations", lambda path: {"lock": "pylock.digits.toml"})
    monkeypatch.setattr(gate, "evaluate", evaluate)
    monkeypatch.setattr(gate.posix, "read", read)
    monkeypatch.setattr(gate.posix, "close", lambda number: None)
    monkeypatch.setenv(gate.HELD, "7")
    assert not gate.pass_or_refuse("entrypoint", prefix=str(tmp_path), folder=str(tmp_path))
    assert seen == [(7, [None], "", [])]
    assert (tmp_path / "verdict.json").is_file()
    assert "2 threads" in capfd.readouterr().err
    monkeypatch.setattr(gate.posix, "_exit", ended)
    monkeypatch.setenv(gate.HELD, "7")
    with pytest.raises(SystemExit, match="78"):
        gate.pass_or_refuse("entrypoint", prefix=str(tmp_path), folder=str(tmp_path))


def test_only_the_entry_point_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program's own variable of that name would have its gate wait for a descriptor that means something else."""
    monkeypatch.setattr(gate, "load_expectations", lambda path: {"lock": "pylock.digits.toml"})
    monkeypatch.setattr(gate, "evaluate", lambda expect, name: verdict(name))
    monkeypatch.setattr(gate.posix, "read", lambda number, size: pytest.fail("it waits"))
    monkeypatch.setenv(gate.HELD, "0")
    assert not gate.pass_or_refuse("startup", prefix=str(tmp_path), folder=str(tmp_path))
    assert gate.HELD not in os.environ


def ended(code: int) -> None:
    raise SystemExit(code)
