"""The files of a project: what counts, equal archives of equal files, and wheels that lead to a folder."""

from __future__ import annotations

import errno
import os
import tarfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest

from envbuild.errors import BuildError, ResolveError
from envbuild.sources import canonical
from envbuild.sources.editable import editable
from envbuild.sources.project import definition_files, project_files, stated
from envbuild.sources.tree import TreeFile, pack, unpack
from tests.support.wheels import make_wheel


def _write(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def test_code_and_what_the_definition_names_count_and_results_do_not(tmp_path: Path) -> None:
    """Outputs, data, caches, environments and envbuild's own files change nothing; code and package data do."""
    counted = ("src/p/__init__.py", "src/p/data.json", "csrc/a/b.c", "README.md", "setup.py", "texts/long.rst")
    _write(tmp_path, *counted)
    (tmp_path / "pyproject.toml").write_text('[project]\nreadme = "texts/long.rst"\n')
    others = ("out.txt", "weights.h5", "runs1/log.json", "data/train.csv", ".git/config", "src/p/__pycache__/a.pyc")
    _write(tmp_path, *others, "pylock.x.toml", "Dockerfile", "env2/pyvenv.cfg", "env2/lib/x.py", "src/p/fast.so")
    (tmp_path / "src/p/out.py").symlink_to("/etc/hostname")
    (tmp_path / "notes.py").symlink_to("src/p/__init__.py")
    assert {file.path for file in project_files(tmp_path)} == {*counted, "pyproject.toml", "notes.py"}


def test_a_folder_named_build_counts_if_the_definition_has_its_path(tmp_path: Path) -> None:
    """aiohttp compiles ``vendor/llhttp/build``; what builds leave, at the top and elsewhere, does not count."""
    _write(tmp_path, "vendor/llhttp/build/llhttp.h", "vendor/other/build/x.h", "build/lib/p.py", "p/__init__.py")
    (tmp_path / "setup.py").write_text('include_dirs=["vendor/llhttp/build"]  # build\n')
    found = [file.path for file in project_files(tmp_path)]
    assert found == ["p/__init__.py", "setup.py", "vendor/llhttp/build/llhttp.h"]


def test_a_folder_without_definition_is_no_project(tmp_path: Path) -> None:
    """It is named, with what it lacks."""
    with pytest.raises(ResolveError, match=r"is no project: it has none of pyproject\.toml"):
        project_files(tmp_path)


def test_links_that_lead_nowhere_or_out_do_not_count(tmp_path: Path) -> None:
    """A link to itself is no file; a definition outside defines nothing, whether a project is editable or not."""
    (tmp_path / "outside.toml").write_text("[project]\nname = 'other'\n")
    place = tmp_path / "project"
    _write(place, "setup.py", "p/x.py")
    (place / "p/loop.py").symlink_to("loop.py")
    (place / "setup.cfg").symlink_to("setup.cfg")
    (place / "pyproject.toml").symlink_to("../outside.toml")
    assert [file.path for file in project_files(place)] == ["p/x.py", "setup.py"]
    assert [file.path for file in definition_files(place)] == ["setup.py"]
    (place / "setup.py").unlink()
    with pytest.raises(ResolveError, match="is no project: it has none of"):
        project_files(place)


@pytest.mark.parametrize(("name", "depth"), [("a", 1010), ("a" * 200, 22)])
def test_deep_folders_are_read_and_those_too_deep_are_named(tmp_path: Path, name: str, depth: int) -> None:
    """Deeper than Python can call itself, the answer is the files; deeper than a path can name, a sentence."""
    _write(tmp_path, "setup.py")
    folder, made = os.open(tmp_path, os.O_RDONLY), 0
    try:
        while made < depth:
            os.mkdir(name, dir_fd=folder)
            folder, made = _move(folder, name), made + 1
        os.close(os.open("x.py", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        if len(name) == 1:
            assert [file.path for file in project_files(tmp_path)] == [f"{'a/' * depth}x.py", "setup.py"]
        else:
            with pytest.raises(ResolveError, match=r'^cannot read ".*….*": File name too long$'):
                project_files(tmp_path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink("x.py", dir_fd=folder)
        for _ in range(made):  # pytest could not remove it
            folder = _move(folder, "..")
            os.rmdir(name, dir_fd=folder)
        os.close(folder)


def _move(folder: int, name: str) -> int:
    found = os.open(name, os.O_RDONLY, dir_fd=folder)
    os.close(folder)
    return found


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out silently. Root may read everything, so the system's answer is given here."""
    _write(tmp_path, "setup.py", "p/x.py")
    scan = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "p":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ResolveError, match=r"p.*: Permission denied$"):
        project_files(tmp_path)


def test_equal_files_give_equal_archives(tmp_path: Path) -> None:
    """Times, order and the umask of a copy do not show; whether a file is executable does."""
    files = [TreeFile(path="a.py", data=b"1"), TreeFile(path="b/c.sh", data=b"2", executable=True)]
    assert pack(files) == pack(files[::-1])
    assert pack(files) != pack([files[0], TreeFile(path="b/c.sh", data=b"2")])
    with tarfile.open(fileobj=BytesIO(pack(files))) as tar:
        assert [(m.name, m.mode, m.uid, m.mtime) for m in tar] == [
            ("project/a.py", 0o644, 0, 315532800),
            ("project/b/c.sh", 0o755, 0, 315532800),
        ]
    assert [file.path for file in unpack(pack(files))] == ["a.py", "b/c.sh"]
    place = tmp_path / "one"
    _write(place, "pyproject.toml", "x.py")
    first = pack(project_files(place))
    os.utime(place / "x.py", (1, 1))
    (place / "x.py").chmod(0o600)
    assert pack(project_files(place)) == first


def test_an_editable_wheel_has_the_folder_and_no_modules(tmp_path: Path) -> None:
    """The layout is found by the files themselves: of two folders that have one of them, that which has them all."""
    wheel = make_wheel(tmp_path, "p", "1.0", {"p/__init__.py": b"", "p/a.py": b"1"})
    files = [TreeFile(path=f"{top}/p/__init__.py", data=b"") for top in ("examples", "src")]
    files.append(TreeFile(path="src/p/a.py", data=b"1"))
    made = editable(wheel.read_bytes(), wheel.name, files, "/workspace/lib", "-e lib")
    members = canonical.read(made, wheel.name)
    assert members["__editable__.p.pth"].data == b"/workspace/lib/src\n"
    assert not any(path.startswith("p/") for path in members)


def test_a_project_with_made_files_cannot_be_editable(tmp_path: Path) -> None:
    """Compiled modules are in no folder that runs see; they are named, with the way out."""
    wheel = make_wheel(tmp_path, "p", "1.0", {"p/__init__.py": b"", "p/_fast.so": b"\x7fELF"})
    with pytest.raises(BuildError, match=r"p/_fast\.so"):
        editable(wheel.read_bytes(), wheel.name, [TreeFile(path="p/__init__.py", data=b"")], "/workspace", "-e .")


def test_what_a_project_states_is_read_without_running_it() -> None:
    """Names of all common tools; what comes from a workspace, a folder or git is known."""
    assert stated(b'[project]\nname = "A.b"\n').name == "a-b"
    assert stated(
        b'[tool.poetry]\nname = "p"\n[tool.poetry.dependencies]\nq = {path = "../q"}\nsix = "*"\n'
    ).elsewhere == {"q": "../q"}
    assert stated(b"", b"[metadata]\nname = old\n").name == "old"
    assert stated(b'[project]\nname="x"\n[tool.uv.sources]\ny = {workspace = true}\n').elsewhere == {"y": ""}
    with pytest.raises(ValueError, match="Invalid"):
        stated(b"[")
    with pytest.raises(ValueError, match="too many parts"):  # it would be read for minutes
        stated(b"a." * 20_000 + b"a = 1")
