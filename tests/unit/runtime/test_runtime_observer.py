"""Which files of a project a process is reported to have read, and which objects it has loaded."""

from __future__ import annotations

import hashlib
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile import layout
from envbuild.runtime.hook import objects, observer
from envbuild.runtime.hook.observer import Observer, digest_file

READ, WRITE = ("r", os.O_CLOEXEC), ("w", os.O_WRONLY | os.O_CREAT)


@pytest.fixture
def seen(tmp_path: Path) -> Observer:
    """An observer of a project with a few files; it is not installed: an audit hook would stay for ever."""
    for name in ("conf.yaml", "lib/model.py", "site-packages/other.json", "data.bin", "out.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = Observer(lambda: None, str(tmp_path))
    found._outside = ("/opt/env/",)
    return found


def names(found: Observer, key: str, *, final: bool = False) -> list[str]:
    return [os.path.relpath(entry["path"], found.root) for entry in found.as_dict(final=final)[key]]


def test_the_workspace_is_the_project() -> None:
    """The runtime's constant is the layout's; a run that starts below the workspace still sees all of the project."""
    assert observer.WORKSPACE == layout.WORKSPACE
    assert Observer(lambda: None, "/workspace/below").root == "/workspace"
    assert Observer(lambda: None, "/workspaces").root == "/workspaces"
    assert (observer.MOUNTED, observer.gate.RUN_DIR) == (layout.MOUNTED_FILE, layout.RUN_DIR)


def test_reads_are_noted_once_with_digests(seen: Observer) -> None:
    """A configuration and a source have path, size and digest as they were when they were opened."""
    path = f"{seen.root}/conf.yaml"
    seen.look(path, (path, *READ))
    Path(path).write_text("changed since")
    seen.look(path, (path, *READ))
    seen.look(f"{seen.root}/lib/model.py", ("", *READ))
    digest = hashlib.sha256(b"conf.yaml").hexdigest()
    assert seen.as_dict()["configs"] == [{"path": path, "size": 9, "sha256": digest}]
    assert names(seen, "modules") == ["lib/model.py"]


def test_data_is_listed_without_a_digest(seen: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other files that are read have size and time of change; not those that the program wrote, nor what is no file."""
    path = f"{seen.root}/data.bin"
    for _ in range(2):
        seen.look(path, (path, *READ), data=True)
    own = f"{seen.root}/cache.npy"
    seen.look(own, (own, *WRITE), data=True)
    Path(own).touch()
    for other in (own, f"{seen.root}/missing.txt", f"{seen.root}/lib", "/etc/passwd"):
        seen.look(other, (other, *READ), data=True)
    assert seen.as_dict()["reads"] == [{"path": path, "size": 8, "mtime_ns": Path(path).stat().st_mtime_ns}]
    monkeypatch.setattr(observer, "READ_COUNT", 1)
    seen.look(f"{seen.root}/out.json", ("", *READ), data=True)
    assert (len(seen.as_dict()["reads"]), seen.as_dict()["reads_left_out"]) == (1, 1)
    seen.forked()
    assert (seen.as_dict()["reads"], seen.as_dict()["reads_left_out"]) == ([], 0)


def test_what_is_not_the_projects_is_left_out(seen: Observer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Installed packages, other folders, files that are not there and folders are no configuration."""
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "x.json"
    elsewhere.write_text("{}")
    (Path(seen.root) / "folder.json").mkdir()
    for path in (elsewhere, "site-packages/other.json", "missing.json", "folder.json"):
        seen.look(str(Path(seen.root) / path), ("", *READ))
    assert (names(seen, "configs"), seen.left_out) == ([], 0)


def test_what_is_mounted_counts(seen: Observer, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Data, configurations and modules of mounted folders and files are noted by their absolute paths."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "data").mkdir()
    for name in ("data/x.csv", "data/x.json", "data/lib.py", "one.txt", "two.txt"):
        (elsewhere / name).write_text(name)
    run_folder = tmp_path_factory.mktemp("run")
    assert observer.mounted_in(str(run_folder)) == ()
    (run_folder / "mounted").write_bytes(
        b"".join(b"%b/%b\0" % (str(elsewhere).encode(), n) for n in (b"data", b"one.txt"))
    )
    mounted = observer.mounted_in(str(run_folder))
    assert mounted == (f"{elsewhere}/data/", f"{elsewhere}/one.txt")
    found = Observer(lambda: None, seen.root, mounted)
    for name in ("data/x.csv", "one.txt", "two.txt"):
        found.look(f"{elsewhere}/{name}", ("", *READ), data=True)
    for name in ("data/x.json", "data/lib.py"):
        found.look(f"{elsewhere}/{name}", ("", *READ))
    listed = {key: [entry["path"] for entry in found.as_dict()[key]] for key in ("reads", "configs", "modules")}
    assert listed == {
        "reads": [f"{elsewhere}/data/x.csv", f"{elsewhere}/one.txt"],
        "configs": [f"{elsewhere}/data/x.json"],
        "modules": [f"{elsewhere}/data/lib.py"],
    }


def test_what_the_program_writes_is_no_configuration(seen: Observer) -> None:
    """A checkpoint's JSON that the program reads back was not given to it."""
    seen.look(f"{seen.root}/out.json", ("", *WRITE))
    seen.look(f"{seen.root}/out.json", ("", *READ))
    seen.look(f"{seen.root}/conf.yaml", ("", None, os.O_RDONLY))
    assert names(seen, "configs") == ["conf.yaml"]


def test_a_pipe_is_not_read(seen: Observer) -> None:
    """Data of a pipe can be read once only: by the program."""
    pipe = f"{seen.root}/pipe.json"
    os.mkfifo(pipe)
    seen.look(pipe, ("", *READ))
    assert names(seen, "configs") == []


def test_bytecode_counts_as_its_source(seen: Observer) -> None:
    """A module that comes from its cache is noted by its source."""
    (Path(seen.root) / "lib" / "__pycache__").mkdir()
    cached = Path(seen.root) / "lib" / "__pycache__" / "model.cpython-311.pyc"
    cached.write_bytes(b"")
    seen.look(str(cached), ("", *READ))
    assert names(seen, "modules") == ["lib/model.py"]


def test_large_files_have_no_digest(tmp_path: Path) -> None:
    """A file above the limit is listed with its size."""
    path = tmp_path / "x.json"
    path.write_bytes(b"12345")
    assert digest_file(str(path), 4) == {"path": str(path), "size": 5, "sha256": None}
    assert digest_file(str(path), 5)["sha256"] == hashlib.sha256(b"12345").hexdigest()


def test_data_in_small_files_does_not_push_sources_out(seen: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations and sources have limits of their own; what is over a limit is counted."""
    monkeypatch.setattr(observer, "CONFIG_COUNT", 3)
    for number in range(5):
        (Path(seen.root) / f"{number}.json").write_text("{}")
        seen.look(f"{seen.root}/{number}.json", ("", *READ))
    seen.look(f"{seen.root}/lib/model.py", ("", *READ))
    assert names(seen, "configs") == ["0.json", "1.json", "2.json"]
    assert names(seen, "modules") == ["lib/model.py"]
    assert seen.left_out == 2


def test_at_the_end_modules_are_distinguished_from_scripts_read_as_text(
    seen: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that was opened but is no module is configuration; a module nobody saw being opened is added."""
    config, late = Path(seen.root) / "conf.py", Path(seen.root) / "late.py"
    for path in (config, late):
        path.write_text("x = 1")
    for path in ("conf.py", "lib/model.py"):
        seen.look(f"{seen.root}/{path}", ("", *READ))
    for name, path in (("model", f"{seen.root}/lib/model.py"), ("late", str(late))):
        module = types.ModuleType(name)
        module.__file__ = path
        monkeypatch.setitem(sys.modules, name, module)
    assert names(seen, "modules", final=True) == ["lib/model.py", "late.py"]
    assert names(seen, "configs", final=True) == ["conf.py"]
    assert [entry.get("at") for entry in seen.as_dict(final=True)["modules"]] == [None, "exit"]


def test_lazy_modules_stay_asleep(seen: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for files wakes no module that loads itself at first use, and takes anything in sys.modules."""

    class Lazy(types.ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("woken")

    monkeypatch.setitem(sys.modules, "lazy", Lazy("lazy"))
    monkeypatch.setitem(sys.modules, "odd", 3)  # type: ignore[arg-type]
    assert names(seen, "modules", final=True) == []


def test_a_forked_child_reports_its_own_reads(seen: Observer) -> None:
    """What the parent read is in the parent's record."""
    seen.look(f"{seen.root}/conf.yaml", ("", *READ))
    seen.forked()
    seen.look(f"{seen.root}/lib/model.py", ("", *READ))
    assert (names(seen, "configs"), names(seen, "modules")) == ([], ["lib/model.py"])


def test_writes_are_spaced_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file is written at once, for a program that is killed; a hundred more are not a hundred writes."""
    times, now = [], [100.0]
    monkeypatch.setattr(observer, "monotonic", lambda: now[0])
    seen = Observer(lambda: times.append(now[0]), str(tmp_path))
    for number in range(4):
        (tmp_path / f"{number}.py").write_text("")
        seen.look(f"{tmp_path}/{number}.py", ("", *READ))
        now[0] += 0.25
    assert times == [100.0, 100.5]
    seen.look("/usr/lib/other.pyc", ("", *READ))
    assert times == [100.0, 100.5, 101.0]


def test_a_removed_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may start in a folder that is gone: nothing is its project then."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    seen = Observer(lambda: None)
    assert not seen.within("/etc/x.json")


MAPS = """\
55d0-55d1 r-xp 00000000 08:01 1 /usr/bin/python3.11
7f00-7f01 r--p 00000000 08:01 2 /usr/lib/libm.so.6
7f01-7f02 r-xp 00001000 08:01 2 /usr/lib/libm.so.6
7f03-7f04 r-xp 00000000 08:01 3 {own}
7f05-7f06 r--s 00000000 08:01 4 {data}
7f07-7f08 r-xp 00000000 08:01 5 /tmp/gone here.so (deleted)
7f09-7f0a r-xp 00000000 00:00 0
7f0b-7f0c r-xp 00000000 00:00 0 [vdso]
"""


def test_objects_outside_the_locked_folders_are_digested(tmp_path: Path) -> None:
    """Code that is mapped from elsewhere is listed; data, the system's libraries and anonymous code are not."""
    own, data = tmp_path / "own.so", tmp_path / "data.npy"
    own.write_bytes(b"code")
    data.write_bytes(b"data")
    (tmp_path / "maps").write_text(MAPS.format(own=own, data=data))
    found = objects.loaded(str(tmp_path / "maps"))
    assert found == {
        "locked": 2,
        "others": sorted(
            (
                {"path": "/tmp/gone here.so (deleted)", "size": None, "sha256": None},
                {"path": str(own), "size": 4, "sha256": hashlib.sha256(b"code").hexdigest()},
            ),
            key=lambda entry: str(entry["path"]),
        ),
    }
    assert objects.loaded(str(tmp_path / "missing")) == {"locked": 0, "others": []}
