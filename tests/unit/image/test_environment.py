"""Layers of the virtual environment: functions of their wheels alone."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading
import zipfile
from pathlib import Path
from typing import cast

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.bytecode.compile import compile_tree
from envbuild.image.bytecode.layer import pack_bytecode, pack_sources, seen_wheels, unpack_bytecode
from envbuild.image.layer_contents import derived_contents
from envbuild.image.python import environment
from envbuild.image.python.environment import ChangedFilesError, Contents, Made, WheelFile, pack_tree, pack_wheels
from envbuild.image.python.wheel import main, record_digest
from envbuild.image.tar.layer import Layer
from tests.support.unpacking import unpack
from tests.support.wheels import Member, make_wheel

SITE = "opt/env/lib/python3.11/site-packages"


def pack(*paths: Path, executable: str = "") -> tuple[Layer, Contents, dict[str, tuple[int, bytes | str]], list[int]]:
    """Pack wheels; returns the layer, its contents, what is in the tar, and what progress was reported."""
    output, reported = io.BytesIO(), [0]
    wheels = [WheelFile(name=path.name, path=path) for path in paths]
    layer, contents = pack_wheels(output, wheels, "3.11", executable=executable, advance=reported.append)
    return layer, contents, members(output.getvalue()), reported


def members(data: bytes) -> dict[str, tuple[int, bytes | str]]:
    """Mode and content of the files, mode and target of the links in a tar."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found: dict[str, tuple[int, bytes | str]] = {}
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            if not member.isdir():
                found[member.name] = (member.mode, stream.read() if stream else member.linkname)
            else:
                assert member.mode == 0o755
        return found


def test_a_layer_is_a_function_of_its_wheels(tmp_path: Path) -> None:
    """Neither the file's name in the store, nor its time, nor the umask reach the layer."""
    path = make_wheel(tmp_path, "a", files={"a/__init__.py": "1", "a/x.py": "2"})
    first = pack(path)[0]
    moved = tmp_path / "0123"
    path.rename(moved)
    os.utime(moved, (1, 1))
    before = os.umask(0o077)
    try:
        output = io.BytesIO()
        wheel = WheelFile(name=path.name, path=moved)
        assert pack_wheels(output, [wheel], "3.11", advance=lambda amount: None)[0] == first
    finally:
        os.umask(before)


def test_record_has_the_hashes_of_files_that_were_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a layer, one that is read again, and an environment that a Dockerfile's step makes."""
    wrong = f"a/x.py,sha256={'A' * 43},5\nb.txt,sha256={'A' * 43},1\na-1.0.dist-info/RECORD,,\n"
    path = make_wheel(tmp_path, "a", files={"a/x.py": "x = 1", "b.txt": "b"}, record=wrong)
    right = make_wheel(tmp_path, "c", files={"c.txt": "b"})
    wheels = [WheelFile(name=each.name, path=each) for each in (path, right)]
    with pytest.raises(ChangedFilesError, match=r"^a-1\.0-py3-none-any\.whl$") as caught:
        pack_wheels(io.BytesIO(), wheels, "3.11", advance=lambda amount: None)
    with (tmp_path / "layer.tar").open("w+b", buffering=0) as stream:
        _, contents = pack_wheels(stream, caught.value.wheels, "3.11", advance=lambda amount: None)
    assert contents.changed == {path.name: ["a/x.py", "b.txt"]}
    assert derived_contents(tmp_path / "layer.tar", wheels, "3.11") == contents
    record = members((tmp_path / "layer.tar").read_bytes())[f"{SITE}/a-1.0.dist-info/RECORD"][1]
    assert isinstance(record, bytes)
    rows = [row.split(",") for row in record.decode().splitlines()]
    digests = {name: digest for name, digest, _ in rows}
    assert digests["a/x.py"] == f"sha256={record_digest(hashlib.sha256(b'x = 1').digest())}"
    assert digests["b.txt"] == f"sha256={record_digest(hashlib.sha256(b'b').digest())}"
    arguments = ["--python", "3.11", "--executable", "/usr/bin/python3.11", "--root", str(tmp_path / "root")]
    assert main([*arguments, str(path), str(right)]) == 0
    assert (tmp_path / "root" / SITE / "a-1.0.dist-info/RECORD").read_bytes() == record
    assert capsys.readouterr().err == f"{path.name}: RECORD has another hash for a/x.py, b.txt\n"


def test_what_a_layer_holds_is_derived_from_it(tmp_path: Path) -> None:
    """What the maker noted and what is found in a layer made elsewhere are equal: files, losers, ELF objects."""
    elf = b"\x7fELF" + bytes(100)
    files = {"a/x.py": "1", "a/lib.so": elf, "a/" + "long/" * 40 + "deep.so": elf, "shared.so": elf + b"a"}
    wheels = [make_wheel(tmp_path, "a", files=files)]
    wheels.append(make_wheel(tmp_path, "b", files={"shared.so": elf + b"b", "b.txt": "no object"}))
    named = [WheelFile(name=path.name, path=path) for path in wheels]
    with (tmp_path / "layer.tar").open("wb", buffering=0) as stream:
        for executable in ("", "usr/bin/python3.11"):
            stream.seek(0)
            stream.truncate()
            _, made = pack_wheels(stream, named, "3.11", executable=executable, advance=lambda amount: None)
            assert derived_contents(tmp_path / "layer.tar", named, "3.11") == made
    assert len(made.objects[wheels[0].name]) == 2
    assert len(made.replaced) == 1


def test_an_empty_environment() -> None:
    """Without wheels the layer is the skeleton of a virtual environment."""
    assert pack(executable="/usr/bin/python3.11")[2] == {
        "opt/env/bin/python": (0o777, "/usr/bin/python3.11"),
        "opt/env/bin/python3": (0o777, "python"),
        "opt/env/bin/python3.11": (0o777, "python"),
        "opt/env/pyvenv.cfg": (
            0o644,
            b"home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11\n"
            b"executable = /usr/bin/python3.11\n",
        ),
    }


def test_progress_ends_at_the_packed_size(tmp_path: Path) -> None:
    """Progress is reported no more than the archive's bytes, with large members in steps."""
    path = make_wheel(tmp_path, "a", files={"big.bin": os.urandom(5 << 20), "small.py": "x"})
    reported = pack(path)[3]
    assert (5 << 20) < sum(reported) <= path.stat().st_size
    assert max(reported) <= (1 << 20) + 1024


def test_the_later_wheel_wins(tmp_path: Path) -> None:
    """Two wheels with one path give the later one's content, and it is reported; equal content is no conflict."""
    first = make_wheel(tmp_path, "a", files={"x.py": "1", "same.py": "0"})
    second = make_wheel(tmp_path, "b", files={"x.py": "2", "same.py": "0"})
    _, contents, found, _ = pack(first, second)
    assert found[f"{SITE}/x.py"] == (0o644, b"2")
    assert contents.replaced == {f"{SITE}/x.py": (first.name, second.name)}
    assert pack(second, first)[2][f"{SITE}/x.py"] == (0o644, b"1")


def test_a_file_against_a_folder(tmp_path: Path) -> None:
    """One wheel's file and another one's folder cannot both be, in one layer or across layers."""
    first = make_wheel(tmp_path, "a", files={"x": "1"})
    second = make_wheel(tmp_path, "b", files={"x/y": "2"})
    message = f"/{SITE}/x is a file in {first.name} and a folder in {second.name}"
    with pytest.raises(BuildError) as caught:
        pack(first, second)
    assert caught.value.message == message
    whole = Contents()
    for path in (second, first):
        whole.add(pack(path)[1])
    with pytest.raises(BuildError) as caught:
        whole.check()
    assert caught.value.message == message


def test_unsafe_wheels_are_build_errors(tmp_path: Path) -> None:
    """What a wheel has wrong reaches the user with its name and what to do."""
    path = make_wheel(tmp_path, "a", members=[Member(name="../x")])
    with pytest.raises(BuildError) as caught:
        pack(path)
    assert caught.value.message == "a-1.0-py3-none-any.whl: '../x': the name is not a plain relative path"
    assert caught.value.hint == "use another release of this package, or report it to its authors"


def test_files_of_the_store_are_checked(tmp_path: Path) -> None:
    """A wheel that was altered or removed after it came in is not used."""
    path = make_wheel(tmp_path, "a")
    digest = sha256_file(path)
    wheel = WheelFile(name=path.name, path=path, sha256=digest)
    pack_wheels(io.BytesIO(), [wheel], "3.11", advance=lambda amount: None)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(IntegrityError) as caught:
        pack_wheels(io.BytesIO(), [wheel], "3.11", advance=lambda amount: None)
    assert caught.value.message == (
        f"{path.name}: {path} is damaged: expected sha256 {digest}, found {sha256_file(path)}"
    )
    assert caught.value.hint == f"remove it and build again: rm -f {path}"
    path.unlink()
    with pytest.raises(IntegrityError) as caught:
        pack_sources(io.BytesIO(), [wheel], "3.11")
    assert caught.value.message == f"{path.name} is not in the store"


def test_a_wheel_that_two_threads_open_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel is unpacked and compiled at the same time: the second reader waits for the first one's digest."""
    path = make_wheel(tmp_path, "a", files={"a/__init__.py": "1"})
    wheel = WheelFile(name=path.name, path=path, sha256=sha256_file(path))
    hashing, other, hashed = threading.Event(), threading.Event(), []

    def slowly(found: Path) -> str:
        hashed.append(found)
        hashing.set()
        other.wait(0.2)  # a second one that does not wait would set it
        return wheel.sha256

    def second() -> None:
        hashing.wait()
        with environment.opened([wheel], "3.11"):
            other.set()

    monkeypatch.setattr(environment, "sha256_file", slowly)
    thread = threading.Thread(target=second)
    thread.start()
    with environment.opened([wheel], "3.11"):
        thread.join()
    assert hashed == [path]


def test_modules_of_a_wheel_that_a_step_sees_do_not_travel(tmp_path: Path) -> None:
    """A list of them does; modules of a wheel with another compression travel, as those that are no wheel's do."""
    seen = make_wheel(tmp_path, "a", files={"x.py": "x = 1", "a.txt": "", "tests/y.py": "y = 1"})
    other = make_wheel(tmp_path, "b", files={"z.py": "z = 1"}, compression=zipfile.ZIP_BZIP2)
    inputs = io.BytesIO()
    groups = [*(WheelFile(name=path.name, path=path) for path in (seen, other)), {"opt/g.py": b"g = 1"}]
    assert seen_wheels(groups) == {"0000.whl": seen, "0001.whl": other}
    pack_sources(inputs, groups, "3.11", ["tests"], seen=True)
    found = members(inputs.getvalue())
    assert {name for name in found if name != "build/compile.py"} == {
        "build/in/0000.list",
        f"build/in/0001/{SITE}/z.py",
        "build/in/0002/opt/g.py",
    }
    head, line, *rest = cast(bytes, found["build/in/0000.list"][1]).decode().splitlines()
    assert (head, line.split(" ")[4], rest) == ("/build/wheels/0000.whl", f"{SITE}/x.py", [])


def test_sources_and_bytecode(tmp_path: Path) -> None:
    """Modules go to the compile step by group; its results come back as one layer, a later group's last."""
    first = make_wheel(tmp_path, "a", files={"x.py": "first = 1", "a.txt": "", "y.py": "y = 1"})
    second = make_wheel(tmp_path, "b", files={"x.py": "second = 1"})
    inputs = io.BytesIO()
    wheels = [WheelFile(name=path.name, path=path) for path in (first, second)]
    pack_sources(inputs, [*wheels, {"opt/envbuild/lib/g.py": b"g = 1"}], "3.11")
    found = members(inputs.getvalue())
    assert {name for name in found if name != "build/compile.py"} == {
        f"build/in/0000/{SITE}/x.py",
        f"build/in/0000/{SITE}/y.py",
        f"build/in/0001/{SITE}/x.py",
        "build/in/0002/opt/envbuild/lib/g.py",
    }
    with tarfile.open(fileobj=io.BytesIO(inputs.getvalue())) as tar:
        unpack(tar, tmp_path / "step")
    (tmp_path / "out").mkdir()
    for number in ("0000", "0001", "0002"):
        compile_tree(str(tmp_path / "step/build/in" / number), str(tmp_path / "out" / f"{number}.tar"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(tmp_path / "out", "out")
    buffer.seek(0)
    (tmp_path / "kept").mkdir()
    archives = unpack_bytecode(buffer, 3, tmp_path / "kept")
    output = io.BytesIO()
    layer = pack_bytecode(output, archives, "bytecode")
    assert layer.size == len(output.getvalue())
    made = members(output.getvalue())
    assert len(made) == 3
    (x,) = (data for name, (_, data) in made.items() if "/x." in name)
    assert isinstance(x, bytes)
    assert b"second" in x
    assert b"first" not in x


def test_an_incomplete_compile_step_is_refused(tmp_path: Path) -> None:
    """A result that lacks a group is no result."""
    buffer = io.BytesIO()
    tarfile.open(fileobj=buffer, mode="w").close()
    buffer.seek(0)
    with pytest.raises(BuildError) as caught:
        unpack_bytecode(buffer, 1, tmp_path)
    assert caught.value.message == "the compile step left out out/0000.tar"


def test_trees() -> None:
    """Made files, links and empty folders come with the folders above them."""
    output = io.BytesIO()
    pack_tree(output, {"a/b": Made(data=b"1", mode=0o755), "c": Made(target="a/b")}, ["d/e"])
    assert members(output.getvalue()) == {"a/b": (0o755, b"1"), "c": (0o777, "a/b")}
    with tarfile.open(fileobj=io.BytesIO(output.getvalue())) as tar:
        assert tar.getnames() == ["a", "a/b", "c", "d", "d/e"]
