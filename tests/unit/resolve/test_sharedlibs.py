"""Shared libraries of wheels: what is found, what is missing, what is added."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from envbuild.core.digest import sha256_file
from envbuild.errors import BuildError, IntegrityError
from envbuild.image.layer_cache import names_in
from envbuild.image.python.environment import WheelFile, pack_wheels
from envbuild.lockfile.model import PythonPackage, Wheel
from envbuild.resolve.debian.releases import RELEASES
from envbuild.resolve.libraries import closure
from envbuild.resolve.libraries.closure import Missing, added_os_packages, missing_libraries, scan_wheel
from tests.support.elf import make_elf
from tests.support.unpacking import unpack
from tests.support.wheels import make_wheel

LIBC = {"libc.so.6"}


def _package(file: str, sha256: str = "0" * 64) -> PythonPackage:
    name, version = file.split("-")[:2]
    return PythonPackage(
        name=name.lower().replace("_", "-"), version=version, wheel=Wheel(name=file, size=1, sha256=sha256)
    )


def _scan(tmp_path: Path, name: str, files: Mapping[str, bytes]) -> closure.WheelLibraries:
    path = make_wheel(tmp_path, name, files=dict(files), tag="cp311-cp311-manylinux_2_28_x86_64")
    return scan_wheel(path, sha256_file(path), tmp_path / "cache")


def test_every_object_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Objects are known by their bytes, not their names."""
    found = _scan(
        tmp_path,
        "pkg",
        {
            "pkg/_ext.cpython-311-x86_64-linux-gnu.so": make_elf(["libinner.so.1", "libc.so.6"]),
            "pkg.libs/libinner-1a2b.so.1": make_elf(["libm.so.6", "libc.so.6"], "libinner.so.1"),
            "pkg/fake.so": b"INPUT(libc.so.6)" * 10,
            "pkg/damaged.so": make_elf(["libx.so"])[:100],
            "pkg/__init__.py": "",
        },
    )
    assert [item.file for item in found.objects] == [
        "pkg.libs/libinner-1a2b.so.1",
        "pkg/_ext.cpython-311-x86_64-linux-gnu.so",
    ]
    assert {"libinner.so.1", "libinner-1a2b.so.1"} <= found.provides
    assert found.needs == {
        "libm.so.6": "pkg.libs/libinner-1a2b.so.1",
        "libc.so.6": "pkg.libs/libinner-1a2b.so.1",
        "libinner.so.1": "pkg/_ext.cpython-311-x86_64-linux-gnu.so",
    }


def test_a_wheel_is_read_once(tmp_path: Path) -> None:
    """What was found is kept by digest: the wheel need not be there a second time, nor the cache be whole."""
    path = make_wheel(tmp_path, "pkg", files={"a.so": make_elf(["libz.so.1"])})
    digest = sha256_file(path)
    assert closure.known_libraries(digest, tmp_path / "cache") is None
    first = scan_wheel(path, digest, tmp_path / "cache")
    kept = next((tmp_path / "cache/wheel-libraries").iterdir())
    kept.write_bytes(kept.read_bytes()[:-5])
    assert scan_wheel(path, digest, tmp_path / "cache") == first
    path.unlink()
    assert scan_wheel(path, digest, tmp_path / "cache") == first
    assert closure.known_libraries(digest, tmp_path / "cache") == first


def test_a_large_object_is_not_held_in_memory(tmp_path: Path) -> None:
    """An object of 200 MB is read with far less memory."""
    import tracemalloc

    path = make_wheel(tmp_path, "pkg", files={"a.so": make_elf(["libz.so.1"], padding=200 << 20)})
    tracemalloc.start()
    found = scan_wheel(path, sha256_file(path), tmp_path / "cache")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.needs == {"libz.so.1": "a.so"}
    assert peak < 40 << 20


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no zip at all"])
def test_a_broken_wheel_is_an_integrity_error(tmp_path: Path, data: bytes) -> None:
    """Bytes that are no zip are refused with the wheel's name."""
    path = tmp_path / "broken-1-py3-none-any.whl"
    path.write_bytes(data)
    with pytest.raises(
        IntegrityError, match=r"^broken-1-py3-none-any\.whl: not a readable wheel: File is not a zip file$"
    ):
        scan_wheel(path, "0" * 64, tmp_path / "cache")


def test_missing_is_what_neither_wheels_nor_system_have(tmp_path: Path) -> None:
    """A library in another wheel counts; one that is nowhere is named with the first file that needs it."""
    one = _scan(
        tmp_path, "one", {"one/b.so": make_elf(["liblost.so.3", "libtwo.so"]), "one/a.so": make_elf(["libc.so.6"])}
    )
    two = _scan(tmp_path, "two", {"two/libtwo.so": make_elf(["libc.so.6", "liblost.so.3"])})
    lost = [
        Missing(wheel="one-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", file="one/b.so", soname="liblost.so.3"),
        Missing(wheel="two-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", file="two/libtwo.so", soname="liblost.so.3"),
    ]
    assert missing_libraries([one, two], LIBC) == lost
    assert missing_libraries([one, two], {*LIBC, "liblost.so.3"}) == []
    assert [lack.soname for lack in missing_libraries([one], LIBC)] == ["liblost.so.3", "libtwo.so"]


def test_what_is_no_error(tmp_path: Path) -> None:
    """The driver's libraries, plugins, programs and objects of other machines are left alone."""
    found = _scan(
        tmp_path,
        "pkg",
        {
            "pkg/gpu.so": make_elf(["libcuda.so.1", "libnvidia-ml.so.1"]),
            "pkg/qt/plugins/platforms/libq.so": make_elf(["libwayland-client.so.0"]),
            "pkg/bin/tool": make_elf(["libncurses.so.6"], program=True),
            "pkg/attach_x86.so": make_elf(["ld-linux.so.2"], machine=3),
        },
    )
    assert missing_libraries([found], ()) == []
    assert [lack.soname for lack in missing_libraries([found], (), "i386")] == ["ld-linux.so.2"]


@pytest.mark.parametrize(
    ("wheel", "release", "added"),
    [
        ("PyQt5-5.15.11-cp38-abi3-manylinux_2_17_x86_64.whl", "debian-12", {"libglib2.0-0", "libgl1"}),
        ("pyside6_essentials-6.12.0-cp310-abi3-manylinux_2_34_x86_64.whl", "debian-13", {"libglib2.0-0t64", "libegl1"}),
        ("open3d-0.20.0-cp311-cp311-manylinux_2_35_x86_64.whl", "debian-12", {"libusb-1.0-0", "libidn2-0", "libgl1"}),
    ],
)
def test_what_qt_and_open3d_are_linked_to_is_locked(wheel: str, release: str, added: set[str]) -> None:
    """Importing QtWidgets or open3d needs these; plug-ins that need more are noted by ``build``."""
    assert added <= added_os_packages([_package(wheel)], release).keys()


def test_the_baseline_is_added_with_its_reason() -> None:
    """Compiled wheels get the C++ library, reported with the wheel that needs it where that is known."""
    tensorflow = _package("tensorflow_cpu-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl")
    strange = _package("strange-1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    assert added_os_packages([tensorflow, strange]) == {"libstdc++6": "needed by tensorflow-cpu (libstdc++.so.6)"}
    assert added_os_packages([strange]) == {"libstdc++6": "manylinux baseline (libstdc++.so.6)"}
    assert added_os_packages([]) == {"libstdc++6": "manylinux baseline (libstdc++.so.6)"}
    assert added_os_packages([_package("six-1.17.0-py2.py3-none-any.whl")]) == {}


def test_known_wheels_bring_what_they_need() -> None:
    """LightGBM needs OpenMP and OpenCV needs OpenGL and GLib, whose package is named otherwise from Debian 13 on."""
    lightgbm = _package("lightgbm-4.7.0-py3-none-manylinux_2_28_x86_64.whl")
    opencv = _package("opencv_python-4.14.0-cp37-abi3-manylinux_2_28_x86_64.whl")
    assert added_os_packages([lightgbm, opencv]) == {
        "libgl1": "needed by opencv-python (libGL.so.1)",
        "libglib2.0-0": "needed by opencv-python (libgthread-2.0.so.0)",
        "libgomp1": "needed by lightgbm (libgomp.so.1)",
        "libstdc++6": "manylinux baseline (libstdc++.so.6)",
    }
    assert "libglib2.0-0t64" in added_os_packages([opencv], "debian-13")


def test_needs_that_came_with_a_version() -> None:
    """PyTorch's wheels need libquadmath since 2.15."""
    old = _package("torch-2.14.1-cp313-cp313-manylinux_2_28_x86_64.whl")
    new = _package("torch-2.15.0-cp313-cp313-manylinux_2_28_x86_64.whl")
    assert list(added_os_packages([old])) == ["libstdc++6"]
    assert added_os_packages([new]) == {
        "libquadmath0": "needed by torch (libquadmath.so.0)",
        "libstdc++6": "needed by torch (libstdc++.so.6)",
    }


def test_objects_tell_more_than_the_table(tmp_path: Path) -> None:
    """Where a wheel's objects are known, what they need is added too."""
    found = _scan(tmp_path, "strange", {"strange/a.so": make_elf(["libodbc.so.2", "libstdc++.so.6", "libnowhere.so"])})
    added = added_os_packages([_package("strange-1.0-cp311-cp311-linux_x86_64.whl")], libraries=[found])
    assert added == {
        "libodbc2": "needed by strange (libodbc.so.2)",
        "libstdc++6": "manylinux baseline (libstdc++.so.6)",
    }
    found = _scan(tmp_path, "odd", {"odd/a.so": make_elf(["libodbc.so.2"])})
    plain = _package("odd-1.0-py3-none-any.whl")  # as a project is tagged whose build calls a compiler on its own
    assert added_os_packages([plain], libraries=[found]) == {"libodbc2": "needed by odd (libodbc.so.2)"}
    assert added_os_packages([plain]) == {}


def test_only_the_linkers_folders_count() -> None:
    """A library in a private folder is not found by name, so it provides nothing."""
    assert closure.sonames_in(
        [
            "./usr/lib/x86_64-linux-gnu/libz.so.1",
            "usr/lib/libold.so",
            "lib64/ld-linux-x86-64.so.2",
            "usr/lib/x86_64-linux-gnu/pulseaudio/libprivate.so",
            "usr/share/doc/libz.so.1.gz",
            "usr/lib/x86_64-linux-gnu/libz.a",
        ]
    ) == {"libz.so.1", "libold.so", "ld-linux-x86-64.so.2"}


def test_objects_of_a_layer_are_read_where_they_lie(tmp_path: Path) -> None:
    """What is found in the unpacked layer is what is found in the wheel, without inflating anything again."""
    library = make_elf(["libGL.so.1"], soname="libneedy.so.1")
    files = {"needy/a.so": library, "needy/large.so": library + bytes(3 << 20), "needy/fake.so": b"\x7fELF" + bytes(90)}
    path = make_wheel(tmp_path, "needy", files={**files, "needy/__init__.py": "x = 1\n"})
    wheel = WheelFile(name=path.name, path=path)
    with (tmp_path / "layer.tar").open("wb", buffering=0) as stream:
        _, contents = pack_wheels(stream, [wheel], "3.11", advance=lambda amount: None)
    noted = contents.objects[path.name]
    assert set(noted) == set(files)
    tar = tmp_path / "layer.tar"
    places = {file: (tar, offset, size) for file, (offset, size, _) in noted.items()}
    with tarfile.open(tar) as archive:
        unpack(archive, tmp_path / "tree")
    unpacked = {file: (tmp_path / "tree" / name, 0, size) for file, (_, size, name) in noted.items()}
    args = (sha256_file(path), tmp_path / "cache", path.name)
    found = closure.scan_unpacked(places, *args)
    assert closure.scan_unpacked(unpacked, args[0], tmp_path / "again", path.name) == found
    tar.unlink()
    assert closure.scan_unpacked(places, *args) == found
    assert closure.scan_wheel(path, args[0], tmp_path / "other", path.name) == found
    assert [item.file for item in found.objects] == ["needy/a.so", "needy/large.so"]


def _tar(path: Path, names: list[str]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return path


def test_the_check_of_an_image_names_everything(tmp_path: Path) -> None:
    """A build whose wheels lack a library fails with wheel, file, library, its package and the line to add."""
    from tests.support.locks import small_lock

    path = make_wheel(tmp_path, "needy", files={"needy/a.so": make_elf(["libGL.so.1", "libown.so.9", "libc.so.6"])})
    package = _package(path.name, sha256_file(path))
    lock = _replaced(small_lock(), package)
    layer = _tar(tmp_path / "os.tar", ["usr/lib/x86_64-linux-gnu/libc.so.6"])
    with pytest.raises(BuildError) as caught:
        closure.checker(lock, tmp_path / "cache", lambda soname: ["libown9"])(names_in(layer), [path], {})
    assert caught.value.message == (
        "2 shared libraries are missing from the image\n"
        f"  {path.name}: needy/a.so needs libGL.so.1, which libgl1 ships\n"
        f"  {path.name}: needy/a.so needs libown.so.9, which libown9 ships"
    )
    assert caught.value.hint == (
        "add to the spec and lock again:  packages: [libgl1, libown9]; "
        "if your program does without them:  missing-libraries: [libGL.so.1, libown.so.9]"
    )
    layer = _tar(tmp_path / "os.tar", [f"usr/lib/{name}" for name in ("libc.so.6", "libGL.so.1", "libown.so.9")])
    closure.checker(lock, tmp_path / "cache")(names_in(layer), [path], {})


_ABI = ".cpython-311-x86_64-linux-gnu.so"


def _check(tmp_path: Path, files: Mapping[str, bytes | str], accept: tuple[str, ...] = ()) -> tuple[list[str], str]:
    """Check an image of one wheel over a bare system; returns its notes, and the sonames that it is refused for."""
    import msgspec

    from tests.support.locks import small_lock

    path = make_wheel(tmp_path, "needy", files=dict(files), tag="cp311-cp311-manylinux_2_28_x86_64")
    lock = _replaced(small_lock(), _package(path.name, sha256_file(path)))
    lock = msgspec.structs.replace(lock, missing_libraries=accept)
    layer = _tar(tmp_path / "os.tar", ["usr/lib/x86_64-linux-gnu/libc.so.6"])
    notes: list[str] = []
    try:
        closure.checker(lock, tmp_path / "cache", None, notes.append)(names_in(layer), [path], {})
    except BuildError as error:
        return notes, " ".join(line.split(" needs ")[1].split(",")[0] for line in error.message.splitlines()[1:])
    return notes, ""


BACKENDS: dict[str, bytes | str] = {
    "needy/__init__.py": "from . import native\n",
    "needy/native.py": "import ctypes\n",
    "needy/libneedy_cpu.so": make_elf(["libc.so.6"]),
    "needy/libneedy_rocm.so": make_elf(["libhipblas.so.2", "libc.so.6"]),
    "needy/libneedy_xpu.so": make_elf(["libsycl.so.8"]),
}


def test_a_back_end_for_other_hardware_is_a_note(tmp_path: Path) -> None:
    """Of objects loaded by name (bitsandbytes has one for each kind of GPU) those that cannot be loaded are noted."""
    assert _check(tmp_path, BACKENDS) == (
        [
            "needy-1.0-cp311-cp311-manylinux_2_28_x86_64.whl: 2 libraries are missing that importing it does not load, "
            "by its sources: libhipblas.so.2, libsycl.so.8"
        ],
        "",
    )


def test_of_back_ends_none_of_which_loads_the_nearest_is_needed(tmp_path: Path) -> None:
    """A package whose every object lacks something cannot work: what is asked for is what can be added."""
    files = {**BACKENDS, "needy/libneedy_cpu.so": make_elf(["libgomp.so.1", "libGL.so.1"])}
    notes, refused = _check(tmp_path, files)
    assert refused == "libGL.so.1 libgomp.so.1"
    assert "libhipblas.so.2, libsycl.so.8" in notes[0]


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("from . import _ext\n", True),
        ("from ._ext import thing\n", True),
        ("import needy._ext as ext\n", True),
        ("from .deeper import other\n", True),
        ("try:\n    from . import _ext\nexcept ImportError as e:\n    raise ImportError('broken') from e\n", True),
        ("try:\n    from . import _ext\nfinally:\n    pass\n", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    from . import _ext\n", True),
        ("try:\n    from . import _ext\nexcept (ImportError, OSError):\n    _ext = None\n", False),
        ("import contextlib\nwith contextlib.suppress(ImportError):\n    from . import _ext\n", False),
        ("def later():\n    from . import _ext\n", False),
        ("import sys\nif sys.platform == 'win32':\n    from . import _ext\n", False),
        ("import json\n", False),
        ("this is no Python\n", False),
    ],
)
def test_what_importing_a_package_surely_loads_is_needed(tmp_path: Path, source: str, needed: bool) -> None:
    """An extension module that the package imports unconditionally is needed, with what it is linked to."""
    files = {
        "needy/__init__.py": source,
        "needy/deeper/__init__.py": "from .. import _ext\n",
        f"needy/_ext{_ABI}": make_elf(["libneedy.so.1"]),
        "needy.libs/libneedy.so.1": make_elf(["libpulse.so.0"], "libneedy.so.1"),
    }
    notes, refused = _check(tmp_path, files)
    assert (refused, bool(notes)) == (("libpulse.so.0", False) if needed else ("", True))


def test_a_module_at_the_top_is_needed(tmp_path: Path) -> None:
    """A wheel that is one extension module is imported by loading it."""
    assert _check(tmp_path, {f"needy{_ABI}": make_elf(["libodbc.so.2"])}) == ([], "libodbc.so.2")


def test_operators_for_another_framework_are_a_note(tmp_path: Path) -> None:
    """A library that is next to the extension module but not linked to it (open3d's PyTorch operations) is noted."""
    files = {
        "needy/__init__.py": "from needy.cpu import pybind\n",
        f"needy/cpu/pybind{_ABI}": make_elf(["libc.so.6"]),
        "needy/cpu/needy_torch_ops.so": make_elf(["libtorch.so"]),
    }
    notes, refused = _check(tmp_path, files)
    assert not refused
    assert "libtorch.so" in notes[0]


@pytest.mark.parametrize(
    ("accept", "refused"),
    [
        (("libodbc.so.2",), ""),
        (("needy:libodbc*",), ""),
        (("*",), ""),
        (("other:*", "libodbc.so.1"), "libodbc.so.2"),
    ],
)
def test_a_spec_accepts_what_is_missing(tmp_path: Path, accept: tuple[str, ...], refused: str) -> None:
    """``missing-libraries`` lifts the refusal, by library or by package and library, and silences the note."""
    assert _check(tmp_path, {f"needy{_ABI}": make_elf(["libodbc.so.2"])}, accept) == ([], refused)


def _replaced(lock: object, package: PythonPackage) -> object:
    import msgspec

    return msgspec.structs.replace(lock, packages=(package,))


def test_a_deb_reports_its_libraries(tmp_path: Path) -> None:
    """The data archive's names are read, whatever its compression."""
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as archive:
        archive.addfile(tarfile.TarInfo("./usr/lib/x86_64-linux-gnu/libz.so.1.2.13"))
        link = tarfile.TarInfo("./usr/lib/x86_64-linux-gnu/libz.so.1")
        link.type, link.linkname = tarfile.SYMTYPE, "libz.so.1.2.13"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("./usr/share/doc/zlib1g/copyright"))

    def member(name: str, data: bytes) -> bytes:
        return f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)

    deb = tmp_path / "zlib1g.deb"
    head = b"!<arch>\n" + member("debian-binary", b"2.0\n") + member("control.tar.gz", b"odd")
    deb.write_bytes(head + member("data.tar.xz", inner.getvalue()))
    assert closure.deb_sonames(deb) == {"libz.so.1", "libz.so.1.2.13"}
    deb.write_bytes(head)
    with pytest.raises(IntegrityError, match=r"^zlib1g\.deb: not a readable Debian package: no data archive$"):
        closure.deb_sonames(deb)


def test_the_table_is_sound() -> None:
    """Every library of the baseline and of known wheels has a package in every release, every exemption a reason."""
    table = closure.table()
    wanted = {*table.baseline, *(soname for sonames in table.known.values() for soname in sonames)}
    for soname in wanted:
        for release in RELEASES:
            assert closure.package_for(soname, release), (soname, release)
    assert all(rule.why for rule in table.exempt)


def test_what_is_loaded_by_name_is_known() -> None:
    """Of the packages that lack it, for the wheels that lack it; what is there, or brought by another wheel, is not."""
    magic, pure = _package("python_magic-0.4.27-py2.py3-none-any.whl"), _package("soundfile-1-py3-none-any.whl")
    found = closure.opened_by_name([magic, pure], ["libc6"], "debian-12")
    assert found == {"libmagic1": ("python-magic: libmagic.so.1",), "libsndfile1": ("soundfile: libsndfile.so.1",)}
    assert list(closure.opened_by_name([magic], [], "debian-13")) == ["libmagic1t64"]
    assert closure.opened_by_name([magic, pure], ["libmagic1", "libsndfile1"], "debian-12") == {}
    bundled = _package("soundfile-1-py2.py3-none-manylinux_2_28_x86_64.whl")
    assert closure.opened_by_name([bundled], [], "debian-12") == {}
    psycopg, binary = _package("psycopg-3-py3-none-any.whl"), _package("psycopg_binary-3-cp311-cp311-linux_x86_64.whl")
    assert list(closure.opened_by_name([psycopg], [], "debian-12")) == ["libpq5"]
    assert closure.opened_by_name([psycopg, binary], [], "debian-12") == {}


def test_the_table_of_what_is_loaded_by_name_holds_for_every_release() -> None:
    """Each entry has a package in each release, and names a distribution as locks do."""
    for entry in closure.table().opened:
        assert entry.name == canonicalize_name(entry.name)
        assert isinstance(entry.package, str) or {*entry.package, *_others(entry.package)} >= RELEASES.keys()


def _others(names: Mapping[str, str]) -> Iterable[str]:
    """Return the releases that a table's `otherwise` stands for."""
    return RELEASES if "otherwise" in names else ()


def test_a_package_s_name_by_release() -> None:
    """One name for all, one by release, one for the releases that are not listed, or none."""
    found = {release: closure.package_for("libodbc.so.2", release) for release in RELEASES}
    assert found == {release: "libodbc1" if release == "debian-11" else "libodbc2" for release in RELEASES}
    assert closure.package_for("libtbb.so.12", "debian-11") == ""
    assert closure.package_for("libpython3.11.so.1.0", "debian-13") == ""
    assert closure.package_for("libz.so.1", "debian-testing") == "zlib1g"
    assert closure.package_for("libnothing.so.1", "debian-12") == ""


OF_NUMPY_1 = (
    b"numpy.core._multiarray_umath\0module compiled against ABI version 0x%x but this version of numpy is 0x%x\0"
)
OF_NUMPY_2 = OF_NUMPY_1 + b"numpy._core._multiarray_umath\0"


@pytest.mark.parametrize(
    ("numpy", "module", "source", "noted"),
    [
        ("2.2.1", OF_NUMPY_1, "from . import _ext\n", "importing it fails"),
        ("2.2.1", OF_NUMPY_1, "def later():\n    from . import _ext\n", "what loads them fails"),
        ("2.2.1", OF_NUMPY_2, "from . import _ext\n", ""),
        ("1.26.4", OF_NUMPY_1, "from . import _ext\n", ""),
        ("", OF_NUMPY_1, "from . import _ext\n", ""),
        ("2.2.1", b"numpy.core._multiarray_umath\0", "from . import _ext\n", ""),
    ],
)
def test_a_wheel_that_was_compiled_for_another_numpy_is_noted(
    tmp_path: Path, numpy: str, module: bytes, source: str, noted: str
) -> None:
    """pandas 1.5.3 allows any later NumPy by its metadata, and cannot be imported with NumPy 2."""
    import msgspec

    from tests.support.locks import small_lock

    files = {"needy/__init__.py": source, f"needy/_ext{_ABI}": make_elf(["libc.so.6"]) + module}
    path = make_wheel(tmp_path, "needy", files=files, tag="cp311-cp311-manylinux_2_28_x86_64")
    packages = [_package(path.name, sha256_file(path))]
    packages += [_package(f"numpy-{numpy}-cp311-cp311-manylinux_2_28_x86_64.whl", "1" * 64)] if numpy else []
    lock = msgspec.structs.replace(small_lock(), packages=tuple(packages))
    layer = _tar(tmp_path / "os.tar", ["usr/lib/x86_64-linux-gnu/libc.so.6"])
    notes: list[str] = []
    closure.checker(lock, tmp_path / "cache", None, notes.append)(names_in(layer), [path], {})
    assert notes == (
        [f"needy 1.0 was compiled for NumPy 1, and numpy {numpy} is locked: {noted} (needy/_ext{_ABI}); "
         "write requirements: [numpy<2], or a newer needy, and lock again"] if noted else []
    )  # fmt: skip
