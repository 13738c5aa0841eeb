"""Wheels: what is installed where, and what is refused."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import os
import stat
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from envbuild.image.bytecode import compile as compiler
from envbuild.image.python import wheel as module
from envbuild.image.python.inflate import Reader
from envbuild.image.python.wheel import Wheel, WheelError, main, skeleton
from envbuild.image.runtime.files import STARTUP
from envbuild.lockfile import layout
from tests.support.wheels import Member, make_wheel, wheel_bytes

SITE = "opt/env/lib/python3.11/site-packages"


def installed(path: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything a wheel installs."""
    with Wheel(str(path), "3.11") as wheel:
        assert [file.path.encode() for file in wheel.files] == sorted(file.path.encode() for file in wheel.files)
        found = {file.path: (file.mode, wheel.read(file)) for file in wheel.files}
        assert all(file.size == len(found[file.path][1]) for file in wheel.files)
        return found


def refused(path: Path) -> str:
    """The error that installing a wheel raises."""
    with pytest.raises(WheelError) as caught:
        installed(path)
    return str(caught.value)


def test_constants_agree_with_the_layout() -> None:
    """The script cannot import envbuild, so it repeats the prefix."""
    assert f"/{module.PREFIX}" == layout.ENV_PREFIX


@pytest.mark.parametrize("script", [module, compiler])
def test_scripts_run_on_old_interpreters(script: ModuleType) -> None:
    """What runs inside an image is Python 3.9 and imports the standard library only."""
    source = Path(str(script.__file__)).read_text()
    tree = ast.parse(source, feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_records_that_are_no_csv(tmp_path: Path) -> None:
    """A RECORD that cannot be read is named."""
    path = make_wheel(tmp_path, "a", record="x" * 200_000 + ",sha256=AAAA,1\n")
    assert refused(path).startswith("a-1.0-py3-none-any.whl: 'a-1.0.dist-info/RECORD': not a CSV file: ")


def test_schemes(tmp_path: Path) -> None:
    """Modules, headers, scripts and data go where pip's virtual environments have them."""
    data = {
        "purelib/p.py": "1",
        "platlib/q.py": "2",
        "headers/h.h": "3",
        "scripts/run": "#!/bin/sh\n",
        "data/share/doc/x": "4",
    }
    found = installed(make_wheel(tmp_path, "My.Pkg", files={"my/__init__.py": "0"}, data=data))
    assert {path for path in found if "dist-info" not in path} == {
        f"{SITE}/my/__init__.py",
        f"{SITE}/p.py",
        f"{SITE}/q.py",
        "opt/env/include/site/python3.11/My.Pkg/h.h",
        "opt/env/bin/run",
        "opt/env/share/doc/x",
    }
    assert found["opt/env/bin/run"] == (0o755, b"#!/bin/sh\n")


def test_modes(tmp_path: Path) -> None:
    """Any execute bit in the archive makes a file executable; every other bit is the installer's."""
    members = [Member(name="a.py", mode=0o600), Member(name="b", mode=0o700), Member(name="c", mode=0o777)]
    found = installed(make_wheel(tmp_path, "a", files={}, members=members))
    assert [found[f"{SITE}/{name}"][0] for name in ("a.py", "b", "c")] == [0o644, 0o755, 0o755]


def test_shebangs(tmp_path: Path) -> None:
    """``#!python`` and ``#!pythonw`` become the environment's interpreter; other first lines stay."""
    data = {"scripts/a": "#!python\nx", "scripts/b": "#!pythonw -u\r\ny", "scripts/c": "#!/usr/bin/perl\nz"}
    found = installed(make_wheel(tmp_path, "a", data=data))
    assert [found[f"opt/env/bin/{name}"][1] for name in "abc"] == [
        b"#!/opt/env/bin/python\nx",
        b"#!/opt/env/bin/python\ny",
        b"#!/usr/bin/perl\nz",
    ]


def test_entry_points(tmp_path: Path) -> None:
    """Console and GUI entry points become scripts that call the object; other groups do not."""
    points = {
        "console_scripts": {"tool": "pkg.mod:App.run [extra]", "tool-2.x": "pkg:main"},
        "gui_scripts": {"win": "pkg:gui"},
        "tensorboard_plugins": {"not": "a script"},
    }
    found = installed(make_wheel(tmp_path, "a", entry_points=points))
    assert found["opt/env/bin/tool"] == (
        0o755,
        b"#!/opt/env/bin/python\nimport sys\n\nfrom pkg.mod import App\n\n"
        b"if __name__ == '__main__':\n    sys.exit(App.run())\n",
    )
    assert {path for path in found if path.startswith("opt/env/bin/")} == {
        "opt/env/bin/tool",
        "opt/env/bin/tool-2.x",
        "opt/env/bin/win",
    }


def test_an_entry_point_beats_a_script_of_its_name(tmp_path: Path) -> None:
    """As in pip: a wrapper shipped by an old build tool gives way."""
    points = {"console_scripts": {"tool": "pkg:main"}}
    found = installed(make_wheel(tmp_path, "a", entry_points=points, data={"scripts/tool": "#!python\nold"}))
    assert b"from pkg import main" in found["opt/env/bin/tool"][1]


def test_record(tmp_path: Path) -> None:
    """RECORD lists every installed file, sorted, with its true hash and size, and itself without."""
    data = {"scripts/run": "#!python\n", "data/share/a,b": "x"}
    found = installed(make_wheel(tmp_path, "a", "2.0", files={"z.py": "z", "a.py": "a"}, data=data))
    record = found[f"{SITE}/a-2.0.dist-info/RECORD"][1].decode()
    rows = list(csv.reader(io.StringIO(record)))
    assert record.startswith("../../../bin/run,")
    assert '"../../../share/a,b",' in record
    assert [row[0].encode() for row in rows] == sorted(row[0].encode() for row in rows)
    listed = {os.path.normpath(f"{SITE}/{row[0]}"): row[1:] for row in rows}
    assert listed.keys() == found.keys()
    for path, (hashed, size) in listed.items():
        if not path.endswith("/RECORD"):
            content = found[path][1]
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (hashed, size) == (f"sha256={digest}", str(len(content)))
    assert listed[f"{SITE}/a-2.0.dist-info/RECORD"] == ["", ""]
    assert found[f"{SITE}/a-2.0.dist-info/INSTALLER"] == (0o644, b"envbuild\n")


def test_shipped_bytecode_and_signatures_are_left_out(tmp_path: Path) -> None:
    """What would be stale or broken afterwards is not installed; bytecode without a source next to it is."""
    members = [
        Member(name="p/__pycache__/m.cpython-311.pyc"),
        Member(name="legacy.pyc"),
        Member(name="a-1.0.dist-info/RECORD.jws", record=False),
        Member(name="a-1.0.dist-info/INSTALLER", data=b"conda"),
    ]
    found = installed(make_wheel(tmp_path, "a", files={}, members=members))
    info = f"{SITE}/a-1.0.dist-info"
    assert set(found) == {
        f"{SITE}/legacy.pyc",
        *(f"{info}/{name}" for name in ("INSTALLER", "METADATA", "RECORD", "WHEEL")),
    }


def test_files_that_record_forgot_are_installed(tmp_path: Path) -> None:
    """The lock's hash covers the whole archive, so an incomplete RECORD is completed rather than refused."""
    found = installed(
        make_wheel(tmp_path, "a", files={"a.py": "a"}, members=[Member(name="b.py", data=b"b", record=False)])
    )
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"b").digest()).rstrip(b"=").decode()
    assert f"b.py,sha256={digest},1\n" in found[f"{SITE}/a-1.0.dist-info/RECORD"][1].decode()


@pytest.mark.parametrize(
    "name", ["../a", "/etc/passwd", "a/../../b", "a//b", "./a", "a\\b", "a\nb", "a\0b", ".wh.a", "a/.wh..wh..opq"]
)
def test_names_that_could_leave_the_prefix(tmp_path: Path, name: str) -> None:
    """No member climbs out, and none reads as a deletion in an image."""
    path = make_wheel(tmp_path, "a", members=[Member(name=name)])
    assert refused(path) == f"a-1.0-py3-none-any.whl: {name!r}: the name is not a plain relative path"


@pytest.mark.parametrize("name", ["x", "a-1.0.data/scripts/x", "a-1.0.data/data/lib"])
def test_links(tmp_path: Path, name: str) -> None:
    """A symbolic link is refused wherever it points."""
    path = make_wheel(tmp_path, "a", members=[Member(name=name, data=b"/etc", symlink=True)])
    assert refused(path) == (
        f"a-1.0-py3-none-any.whl: {name!r}: expected a file or a directory, found a link or a device"
    )


def test_duplicates(tmp_path: Path) -> None:
    """A name twice in the archive, or two members for one place, is refused."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = make_wheel(tmp_path, "a", members=[Member(name="x"), Member(name="x")])
    assert refused(path) == "a-1.0-py3-none-any.whl: 'x': the archive holds this name twice"
    path = make_wheel(tmp_path, "a", files={"x": "1"}, data={"purelib/x": "2"})
    assert refused(path) == (
        f"a-1.0-py3-none-any.whl: 'a-1.0.data/purelib/x': another member of the wheel also installs /{SITE}/x"
    )


def test_a_file_where_a_folder_is(tmp_path: Path) -> None:
    """A file and a folder of one name cannot both be."""
    path = make_wheel(tmp_path, "a", files={"x": "1", "x/y": "2"})
    assert refused(path) == (
        f"a-1.0-py3-none-any.whl: '{SITE}/x': a file cannot be installed here: it is a folder or the environment's own"
    )


@pytest.mark.parametrize("name", ["bin/python", "bin/python3.11", "pyvenv.cfg", "lib64", "bin"])
def test_the_environments_own_files(tmp_path: Path, name: str) -> None:
    """No wheel replaces the interpreter, or writes through its link."""
    path = make_wheel(tmp_path, "a", data={f"data/{name}": "evil"})
    assert refused(path) == (
        f"a-1.0-py3-none-any.whl: 'opt/env/{name}': a file cannot be installed here: it is a folder or the "
        "environment's own"
    )


def test_weak_hashes(tmp_path: Path) -> None:
    """RECORD must have SHA-2."""
    path = make_wheel(tmp_path, "a", files={"a.py": "a"}, record="a.py,md5=AAAA,1\n")
    assert (
        refused(path)
        == "a-1.0-py3-none-any.whl: 'a-1.0.dist-info/RECORD': the hash of 'a.py' must be SHA-2, found 'md5'"
    )


@pytest.mark.parametrize("name", ["a-1.0.dist-info/top_level.txt", "a.libs/liba.so.1"])
def test_files_that_were_changed_after_record(tmp_path: Path, name: str) -> None:
    """As in decord 0.6.0 and eckitlib 2.5: pip and uv install them; RECORD is made anew with what was noted."""
    record = f"{name},sha256={'A' * 43},2\na-1.0.dist-info/RECORD,,\n"
    path = make_wheel(tmp_path, "a", files={name: "b\n"}, record=record)
    found = installed(path)
    assert found[f"{SITE}/{name}"][1] == b"b\n"
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        assert {file.path: reader.read(file) for file in wheel.files} == {key: data for key, (_, data) in found.items()}
    own = f"sha256={module.record_digest(hashlib.sha256(b'b' + bytes([10])).digest())}"
    assert wheel.changed == {name: own}
    with Wheel(str(path), "3.11", digests=wheel.changed) as again, Reader(again, path) as reader:
        after = {file.path: reader.read(file) for file in again.files}
    assert again.changed == {}
    assert f"{name},{own},2\n" in after[f"{SITE}/a-1.0.dist-info/RECORD"].decode()
    assert [key for key, data in after.items() if data != found[key][1]] == [f"{SITE}/a-1.0.dist-info/RECORD"]


def test_files_that_are_neither_what_record_nor_what_the_checksum_has(tmp_path: Path) -> None:
    """A file that was damaged on the way is refused, by name, by both readers."""
    path = make_wheel(tmp_path, "a", files={"a.py": "value = 1\n"}, compression=zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"value = 1", b"value = 2"))
    assert refused(path).startswith("a-1.0-py3-none-any.whl: 'a.py': cannot be unpacked: Bad CRC-32")
    with Wheel(str(path), "3.11") as wheel, Reader(wheel, path) as reader:
        (file,) = (file for file in wheel.files if file.path.endswith("/a.py"))
        with pytest.raises(WheelError, match=r"'a\.py': cannot be unpacked: Bad CRC-32"):
            reader.read(file)


def test_damaged_archives(tmp_path: Path) -> None:
    """Flipped bytes and cut files are refused as what they are, not as a bug."""
    good = wheel_bytes("a", files={"a.py": "x" * 5000})
    at = good.index(b"a.py") + 5
    path = tmp_path / "a-1.0-py3-none-any.whl"
    path.write_bytes(good[:at] + bytes(8) + good[at + 8 :])
    assert refused(path).startswith("a-1.0-py3-none-any.whl: 'a.py': cannot be unpacked: ")
    path.write_bytes(good[:100])
    assert refused(path) == "a-1.0-py3-none-any.whl: not a readable zip archive: File is not a zip file"


def test_metadata_folders(tmp_path: Path) -> None:
    """There is one metadata folder, it is the right one, and it is complete."""
    path = make_wheel(tmp_path, "a", members=[Member(name="b-1.0.dist-info/METADATA")])
    assert refused(path) == (
        "a-1.0-py3-none-any.whl: expected exactly one .dist-info folder, found ['a-1.0.dist-info', 'b-1.0.dist-info']"
    )
    other = tmp_path / "b-1.0-py3-none-any.whl"
    make_wheel(tmp_path, "a").rename(other)
    assert refused(other) == "b-1.0-py3-none-any.whl: 'a-1.0.dist-info': expected the metadata of 'b'"
    with zipfile.ZipFile(tmp_path / "c-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("c-1.0.dist-info/METADATA", "")
    assert refused(tmp_path / "c-1.0-py3-none-any.whl") == (
        "c-1.0-py3-none-any.whl: 'c-1.0.dist-info/WHEEL': the wheel lacks this file"
    )


@pytest.mark.parametrize(
    ("script", "target", "message"),
    [
        ("../x", "a:b", "'../x = a:b' is not 'name = module:function' with a plain name"),
        ("x", "a", "'x = a' is not 'name = module:function' with a plain name"),
        ("x", "a:b;import os", "'x = a:b;import os' is not 'name = module:function' with a plain name"),
        ("x", "a.1:b", "'a.1:b' does not name an object of a module"),
    ],
)
def test_hostile_entry_points(tmp_path: Path, script: str, target: str, message: str) -> None:
    """What goes into a script's text is an object of a module and nothing else."""
    path = make_wheel(tmp_path, "a", entry_points={"console_scripts": {script: target}})
    assert refused(path) == f"a-1.0-py3-none-any.whl: 'a-1.0.dist-info/entry_points.txt': {message}"


def test_unknown_schemes(tmp_path: Path) -> None:
    """Data for a place that does not exist is refused, not lost."""
    path = make_wheel(tmp_path, "a", data={"etc/x": "1"})
    assert refused(path) == (
        "a-1.0-py3-none-any.whl: 'a-1.0.data/etc/x': expected purelib, platlib, headers, scripts or data below the "
        ".data folder"
    )


def test_the_script_makes_the_same_tree(tmp_path: Path) -> None:
    """Run as in a Dockerfile, under any umask, it writes what the layers hold; a later wheel wins."""
    first = make_wheel(
        tmp_path, "a", files={"a.py": "a", "both.py": "1"}, entry_points={"console_scripts": {"t": "a:b"}}
    )
    second = make_wheel(tmp_path, "b", files={"both.py": "2"})
    root, sources = tmp_path / "root", tmp_path / "sources"
    before = os.umask(0o077)
    try:
        arguments = ["--python", "3.11", "--executable", "/usr/bin/python3.11", "--root", str(root)]
        assert main([*arguments, "--sources", str(sources), str(first), str(second)]) == 0
    finally:
        os.umask(before)
    wanted = {**installed(first), **installed(second)}
    folders, links, files = skeleton("3.11", "/usr/bin/python3.11")
    wanted.update({path: (0o644, data) for path, data in files.items()})
    found = {str(path.relative_to(root)): path for path in root.rglob("*")}
    assert {name for name, path in found.items() if path.is_symlink()} == set(links)
    assert str((root / "opt/env/bin/python").readlink()) == "/usr/bin/python3.11"
    regular = {name: path for name, path in found.items() if path.is_file() and not path.is_symlink()}
    assert {n: (stat.S_IMODE(p.stat().st_mode), p.read_bytes()) for n, p in regular.items()} == wanted
    assert set(folders) <= set(found)
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values() if path.is_dir()} == {0o755}
    assert sorted(str(path.relative_to(sources)) for path in sources.rglob("*.py")) == [
        f"0000/{SITE}/a.py",
        f"0000/{SITE}/both.py",
        f"0001/{SITE}/both.py",
    ]


def test_the_script_reports_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad wheel ends the script with its name and a failing exit code."""
    path = make_wheel(tmp_path, "a", members=[Member(name="../x")])
    assert main(["--python", "3.11", "--executable", "/p", "--root", str(tmp_path / "r"), str(path)]) == 1
    assert capsys.readouterr().err == "a-1.0-py3-none-any.whl: '../x': the name is not a plain relative path\n"


@pytest.mark.parametrize(
    "name",
    [
        "0.pth",
        "!.pth",
        "00-envbuild.pth",
        "a-1.0.data/purelib/-x.pth",
        "a-1.0.data/platlib/-x.pth",
        "a-1.0.data/data/lib/python3.11/site-packages/0.pth",
    ],
)
def test_nothing_starts_before_the_guard(tmp_path: Path, name: str) -> None:
    """Python runs start-up files in the order of their names; later ones are the packages' own affair."""
    assert STARTUP == module._GUARD
    reason = "it would run before 00-envbuild.pth, the guard's start"
    assert refused(make_wheel(tmp_path, "a", files={name: "import x"})) == f"a-1.0-py3-none-any.whl: {name!r}: {reason}"


def test_metadata_of_any_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes of a wheel unpack to gigabytes."""
    monkeypatch.setattr(module, "_TEXT_LIMIT", 4096)
    path = make_wheel(tmp_path, "a", entry_points={"console_scripts": {"x" * 5000: "a:b"}})
    assert refused(path).endswith("it is larger than 4096 bytes")
