"""A standalone Python as a layer: what is taken, what is refused, and that equal archives give equal bytes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.cpython.archive import licence_text, pack_python, python_modules
from envbuild.lockfile.model import PythonBuild
from tests.support.pythons import LICENCE, RELEASE, file_name, members, tiny_archive, tiny_tree, write_archive


def build_of(archive: Path, version: str = "3.12.7") -> PythonBuild:
    path = f"{RELEASE}/{file_name(version)}"
    return PythonBuild(version=version, path=path, size=archive.stat().st_size, sha256=sha256_file(archive))


def layer(archive: Path) -> bytes:
    output = io.BytesIO()
    pack_python(output, build_of(archive), archive)
    return output.getvalue()


def test_the_layer_holds_the_interpreter_alone(tmp_path: Path) -> None:
    """Owners, modes and times are fixed; bytecode, pip and its programs are left out, folders above are there."""
    data = layer(tiny_archive(tmp_path / "a.tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = [(entry.name, entry.mode, entry.linkname) for entry in tar]
        assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in tar} == {(0, 0, "", 315_532_800)}
    assert found == [
        ("opt", 0o755, ""),
        ("opt/python", 0o755, ""),
        ("opt/python/bin", 0o755, ""),
        ("opt/python/bin/python", 0o777, "python3.12"),
        ("opt/python/bin/python3.12", 0o755, ""),
        ("opt/python/lib", 0o755, ""),
        ("opt/python/lib/python3.12", 0o755, ""),
        ("opt/python/lib/python3.12/LICENSE.txt", 0o644, ""),
        ("opt/python/lib/python3.12/os.py", 0o644, ""),
    ]


def test_the_order_and_times_of_an_archive_are_no_part_of_the_layer(tmp_path: Path) -> None:
    """Two archives of the same files in another order, by another owner, give one layer."""
    tree = tiny_tree()
    other = members(dict(reversed(tree.items())), ("bin/python3.12",))
    for member, _ in other:
        member.mtime, member.uid = 5, 7
    one, two = tiny_archive(tmp_path / "a.tar.gz"), write_archive(tmp_path / "b.tar.gz", other)
    assert sha256_file(one) != sha256_file(two)
    assert layer(one) == layer(two)


def test_modules_and_licence_are_read(tmp_path: Path) -> None:
    """The modules to compile are those of the layer, at their installed paths."""
    archive = tiny_archive(tmp_path / "a.tar.gz")
    assert python_modules(build_of(archive), archive) == {"opt/python/lib/python3.12/os.py": b"x = 1\n"}
    assert licence_text(build_of(archive), archive) == LICENCE.decode()


def test_a_hard_link_is_a_file(tmp_path: Path) -> None:
    """Engines and archives disagree on what may link to what, so each name has its own content."""
    link = tarfile.TarInfo("python/bin/python3")
    link.type, link.linkname = tarfile.LNKTYPE, "python/bin/python3.12"
    archive = write_archive(tmp_path / "a.tar.gz", [*members(tiny_tree(), ("bin/python3.12",)), (link, b"")])
    with tarfile.open(fileobj=io.BytesIO(layer(archive))) as tar:
        entry = tar.getmember("opt/python/bin/python3")
        assert (entry.isreg(), entry.mode, entry.size) == (True, 0o755, len(b"\x7fELF interpreter"))


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("../evil", b"", "a component must not be '..'"),
        ("lib/evil", "/etc/passwd", "it leads out of python/, to '/etc/passwd'"),
        ("lib/evil", "../../etc", "it leads out of python/, to '../../etc'"),
        ("lib/python3.12/os.py/x", b"", "lib/python3.12/os.py is no folder"),
        ("lib/python3.12t/os.py", b"", "this build has no global interpreter lock (free-threaded)"),
    ],
)
def test_an_unsound_archive_is_refused(tmp_path: Path, path: str, content: bytes | str, message: str) -> None:
    """Nothing outside the top folder is written, and no other kind of Python gets in; the message names the member."""
    archive = tiny_archive(tmp_path / "a.tar.gz", **{path: content})
    with pytest.raises(BuildError) as caught:
        layer(archive)
    assert caught.value.message.startswith(f"{file_name('3.12.7')}: ")
    assert message in caught.value.message


def test_an_archive_of_another_version_is_refused(tmp_path: Path) -> None:
    """The interpreter that the lock names must be in it."""
    archive = tiny_archive(tmp_path / "a.tar.gz", feature="3.11")
    with pytest.raises(BuildError, match=r"expected python/bin/python3\.12 in it"):
        layer(archive)


@pytest.mark.parametrize("damage", ["other", "short", "none"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    """Other bytes than locked are no build; bytes that are locked and no archive are reported as such."""
    archive = tiny_archive(tmp_path / "a.tar.gz")
    build = build_of(archive)
    kind: type[Exception] = IntegrityError
    if damage == "other":
        archive.write_bytes(archive.read_bytes() + b"\0")
    elif damage == "none":
        archive.unlink()
    else:
        archive.write_bytes(archive.read_bytes()[:100])
        build, kind = build_of(archive), BuildError
    with pytest.raises(kind, match=r"cpython-3\.12\.7"):
        pack_python(io.BytesIO(), build, archive)
