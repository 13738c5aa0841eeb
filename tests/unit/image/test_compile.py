"""Bytecode: the same sources give the same bytes wherever and whenever they are compiled."""

from __future__ import annotations

import importlib.util
import marshal
import os
import shutil
import subprocess
import sys
import tarfile
import types
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from envbuild.image.bytecode import compile as module
from envbuild.image.bytecode.compile import LIST, compile_tree, listing, unpack
from envbuild.lockfile import layout

SITE = "opt/env/lib/python3.11/site-packages"
CPU = str(min(os.sched_getaffinity(0)))
"""One that these tests may use: a container need not have CPU 0."""
SOURCES = {
    "0000/p/__init__.py": "names = {'a', 'b', 'c', 'd'}\n\ndef f(x): return x in {'one', 'two', 'three'}\n",
    "0000/p/bad.py": "def :\n",
    "0000/p/nul.py": "a = 1\0",
    "0000/p-q/z.py": "from p import f\n",
    "0001/p/__init__.py": "other = 1\n",
    "0001/p/readme.txt": "no module",
}


def write(folder: Path, order: int = 1) -> Path:
    """Write the sources, in either order, with a time of now."""
    for name, text in sorted(SOURCES.items())[::order]:
        number, rest = name.split("/", 1)
        path = folder / number / SITE / rest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def contents(archive: Path) -> dict[str, bytes]:
    """The files of a tar."""
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_constants_agree_with_the_layout() -> None:
    """The script cannot import envbuild, so it repeats the epoch."""
    assert module.EPOCH == layout.EPOCH


def run(*arguments: str, flags: Sequence[str] = (), environ: Mapping[str, str] | None = None, cpus: str = "") -> None:
    """Run the script."""
    command = [*(("taskset", "-c", cpus) if cpus else ()), sys.executable, *flags, str(module.__file__), *arguments]
    subprocess.run(command, env=environ, check=True)


@pytest.mark.subprocess
def test_same_bytes_everywhere(tmp_path: Path) -> None:
    """Neither folder, order of writing, flags, environment nor number of processors reaches the bytes."""
    outputs = [tmp_path / "out1", tmp_path / "out2", tmp_path / "out3"]
    run(str(write(tmp_path / "a")), "--archive", str(outputs[0]), flags=module.FLAGS, environ=module.ENVIRONMENT)
    other = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": "/nowhere", "PATH": os.defpath}
    run(str(write(tmp_path / "elsewhere", -1)), "--archive", str(outputs[1]), environ=other, cpus=CPU)
    run(str(tmp_path / "a"), "--archive", str(outputs[2]), flags=("-I", "-S", "-B", "-X", "utf8"))
    first, *others = [{path.name: path.read_bytes() for path in sorted(output.iterdir())} for output in outputs]
    assert list(first) == ["0000.tar", "0001.tar"]
    assert others == [first, first]


@pytest.mark.subprocess
def test_a_wheel_alone_has_the_same_bytes(tmp_path: Path) -> None:
    """What is compiled next to a wheel, or before it, does not reach its bytes."""
    run(str(write(tmp_path / "all")), "--archive", str(tmp_path / "together"), cpus=CPU)
    shutil.rmtree(tmp_path / "all/0000")
    run(str(tmp_path / "all"), "--archive", str(tmp_path / "alone"))
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["0001.tar"]
    assert (tmp_path / "alone/0001.tar").read_bytes() == (tmp_path / "together/0001.tar").read_bytes()


@pytest.mark.subprocess
def test_a_failure_is_reported(tmp_path: Path) -> None:
    """A process that fails fails the whole, and states why."""
    write(tmp_path / "in")
    (tmp_path / "out/0001.tar").mkdir(parents=True)
    command = [sys.executable, str(module.__file__), str(tmp_path / "in"), "--archive", str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "IsADirectoryError" in done.stderr
    assert "ended with 1" in done.stderr


def test_what_is_compiled(tmp_path: Path) -> None:
    """Every module that compiles has bytecode in __pycache__, sorted; others have none, as with pip."""
    compile_tree(str(write(tmp_path) / "0000"), str(tmp_path / "out.tar"))
    tag = sys.implementation.cache_tag
    assert list(contents(tmp_path / "out.tar")) == [
        f"{SITE}/p-q/__pycache__/z.{tag}.pyc",
        f"{SITE}/p/__pycache__/__init__.{tag}.pyc",
    ]


def test_bytecode_is_unchecked_and_names_the_installed_file(tmp_path: Path) -> None:
    """Python takes it without looking at the source's time, and tracebacks name the file in the image."""
    compile_tree(str(write(tmp_path) / "0000"), str(tmp_path / "out.tar"))
    source = SOURCES["0000/p/__init__.py"].encode()
    for path, data in contents(tmp_path / "out.tar").items():
        assert data[:8] == importlib.util.MAGIC_NUMBER + b"\x01\0\0\0"
        code = marshal.loads(data[16:])
        assert isinstance(code, types.CodeType)
        assert code.co_filename == "/" + importlib.util.source_from_cache(path)
        if path.endswith(f"p/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"):
            assert data[8:16] == importlib.util.source_hash(source)


def test_archive_headers(tmp_path: Path) -> None:
    """The archive itself holds no time, owner or mode of this host."""
    compile_tree(str(write(tmp_path) / "0000"), str(tmp_path / "out.tar"))
    with tarfile.open(tmp_path / "out.tar") as tar:
        for member in tar:
            assert (member.mtime, member.uid, member.gid, member.mode) == (layout.EPOCH, 0, 0, 0o644)
            assert (member.uname, member.gname) == ("", "")


@pytest.mark.subprocess
def test_into_a_root(tmp_path: Path) -> None:
    """As in a Dockerfile: bytecode lands next to the modules, the later wheel's last, readable for all."""
    sources, root = write(tmp_path / "in"), tmp_path / "root"
    for number in ("0000", "0001"):
        for path in (sources / number).rglob("*.py"):
            target = root / path.relative_to(sources / number)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    before = os.umask(0o077)
    try:
        run(str(sources), "--into", str(root))
    finally:
        os.umask(before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "root"]
    found = root / SITE / "p/__pycache__" / f"__init__.{sys.implementation.cache_tag}.pyc"
    assert "other" in marshal.loads(found.read_bytes()[16:]).co_names
    assert (found.stat().st_mode & 0o777, found.parent.stat().st_mode & 0o777) == (0o644, 0o755)


def test_unpack_refuses_nothing_it_made(tmp_path: Path) -> None:
    """What ``compile_tree`` wrote, ``unpack`` restores byte for byte."""
    write(tmp_path / "in")
    compile_tree(str(tmp_path / "in/0000"), str(tmp_path / "out.tar"))
    for path in contents(tmp_path / "out.tar"):
        (tmp_path / "root" / path).parent.parent.mkdir(parents=True, exist_ok=True)
    unpack(tmp_path / "out.tar", str(tmp_path / "root"))
    for path, data in contents(tmp_path / "out.tar").items():
        assert (tmp_path / "root" / path).read_bytes() == data


def test_modules_in_skipped_folders_get_no_bytecode(tmp_path: Path) -> None:
    """What is in a folder of that name is left out; a file or another folder of a like name is not."""
    for path in ("a/tests/one.py", "a/tests.py", "a/latests/two.py", "tests/three.py"):
        (tmp_path / "in" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / path).write_text("x = 1\n")
    compile_tree(str(tmp_path / "in"), str(tmp_path / "out.tar"), ["tests"])
    with tarfile.open(tmp_path / "out.tar") as tar:
        assert [name.replace(f".{sys.implementation.cache_tag}", "") for name in tar.getnames()] == [
            "a/__pycache__/tests.pyc",
            "a/latests/__pycache__/two.pyc",
        ]


def _listed(folder: Path, compression: int = zipfile.ZIP_DEFLATED) -> tuple[Path, Path]:
    """Write a folder of modules, and the same modules as a wheel with its list; returns folder and list."""
    sources = write(folder / "in") / "0000"
    members = []
    with zipfile.ZipFile(folder / "a b.whl", "w", compression) as archive:
        for path in sorted(sources.rglob("*.py"), key=lambda path: path.name):
            archive.write(path, f"elsewhere/{path.name}-{len(members)}")
            member = archive.infolist()[-1]
            numbers = (member.header_offset, member.compress_size, member.file_size, member.compress_type)
            members.append((str(path.relative_to(sources)), *numbers))
    (folder / f"listed{LIST}").write_bytes(listing(str(folder / "a b.whl"), reversed(members)))
    return sources, folder / f"listed{LIST}"


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_list_of_modules_in_a_wheel_is_as_good(tmp_path: Path, compression: int) -> None:
    """Modules that are read from the wheel itself get the bytecode that unpacked ones get, in the same archive."""
    folder, listed = _listed(tmp_path, compression)
    compile_tree(str(folder), str(tmp_path / "one.tar"))
    compile_tree(str(listed), str(tmp_path / "other.tar"))
    assert len(contents(tmp_path / "one.tar")) == 2
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()


def test_a_wheel_that_is_not_what_its_list_tells_is_refused(tmp_path: Path) -> None:
    """No member at an offset, a member that is longer or shorter: nothing is compiled."""
    _, listed = _listed(tmp_path)
    archive, first, *_ = listed.read_bytes().splitlines()
    offset, packed, size, method, path = first.split(b" ", 4)
    for numbers in ((b"1", packed, size), (offset, packed, b"%d" % (int(size) - 1)), (offset, b"9", size)):
        listed.write_bytes(b"\n".join([archive, b" ".join([*numbers, method, path]), b""]))
        with pytest.raises(SystemExit, match="the wheel has no module"):
            compile_tree(str(listed), str(tmp_path / "out.tar"))


@pytest.mark.subprocess
def test_names_of_folders_do_not_reach_the_bytes(tmp_path: Path) -> None:
    """Neither those that modules are in nor those above, where sets of constants have such names."""
    source = "def f(x): return x in {'cuda', 'xpu'} or 5\ndef g(x): return x in {'cuda', 'xpu'} or 6\n"
    outputs = []
    for number, folder in enumerate(("cuda", "elsewhere")):
        top = tmp_path / folder / "xpu" if number == 0 else tmp_path / folder
        (top / "0000" / SITE / "cuda/xpu").mkdir(parents=True)
        (top / "0000" / SITE / "cuda/xpu/a.py").write_text(source)
        run(str(top), "--archive", str(tmp_path / f"out{number}"))
        outputs.append((tmp_path / f"out{number}/0000.tar").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as archive:
        archive.writestr("a.py", source)
        member = archive.infolist()[-1]
    numbers = (member.header_offset, member.compress_size, member.file_size, member.compress_type)
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/0000{LIST}").write_bytes(listing(str(tmp_path / "a.whl"), [(f"{SITE}/cuda/xpu/a.py", *numbers)]))
    run(str(tmp_path / "in"), "--archive", str(tmp_path / "listed"))
    outputs.append((tmp_path / "listed/0000.tar").read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.subprocess
def test_a_list_next_to_a_folder(tmp_path: Path) -> None:
    """The script takes both at once; neither reaches the bytes of the other."""
    _, listed = _listed(tmp_path)
    run(str(tmp_path / "in"), "--archive", str(tmp_path / "folders"))
    shutil.rmtree(tmp_path / "in/0000")
    listed.rename(tmp_path / f"in/0000{LIST}")
    run(str(tmp_path / "in"), "--archive", str(tmp_path / "both"))
    one, other = ([path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("folders", "both"))
    assert len(one) == 2
    assert one == other
