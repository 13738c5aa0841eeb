"""What a build step leaves is read within limits: a backend is foreign code."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from envbuild.errors import BuildError, NotReproducibleError
from envbuild.sources import backend, canonical, step
from tests.support.debs import Member, tar_bytes
from tests.support.wheels import wheel_bytes

_WHEEL = "x-1-py3-none-any.whl"


def _left(*members: Member) -> object:
    return step._result(io.BytesIO(tar_bytes(list(members))), "x-1.tar.gz")


def test_a_wheel_or_a_list_of_requirements_is_taken() -> None:
    """Both by their names."""
    assert _left(Member(name=f"out/{_WHEEL}", data=b"w")) == (_WHEEL, b"w")
    assert _left(Member(name="out/requires.json", data=b'["a"]')) == step.Asked(requires=("a",))


@pytest.mark.parametrize("count", [1, 5])
def test_more_than_fits_is_not_read(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without end, or many of them, would fill the memory before anybody asks whether they are a wheel."""
    monkeypatch.setattr(canonical, "LARGEST", 10_000)
    members = [Member(name=f"out/{number}.whl", data=bytes(12_000 // count)) for number in range(count)]
    with pytest.raises(BuildError, match="left more than"):
        _left(*members)


def test_many_files_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are as many empty ones as a disk can name."""
    monkeypatch.setattr(step, "_FILES", 20)
    with pytest.raises(BuildError, match="left more than"):
        _left(*(Member(name=f"out/{number}") for number in range(30)))


@pytest.mark.parametrize(
    ("printed", "versioned", "named"),
    [
        ('File "/opt/env/…/puccinialin/_setup_rust.py", line 34\nhttpx.ConnectError: [Errno -3]', False, "crates"),
        ("error: can't find Rust compiler", False, "crates"),
        ("error: failed to get `cc` as a dependency\n  Could not resolve host: index.crates.io", False, "crates"),
        ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", False, "downloads"),
        ("meson-python: error: Could not find ninja version 1.8.2 or newer.", False, "build-packages: [libstdc++6]"),
        ("LookupError: setuptools-scm was unable to detect version", False, "fallback_version"),
        ("LookupError: setuptools-scm was unable to detect version", True, "build-packages: [gcc, python3-dev]"),
        ("error: command 'gcc' failed: No such file or directory", False, "build-packages: [gcc, python3-dev]"),
        (
            "a.cpp:1:10: fatal error: Python.h: No such file or directory",
            False,
            "Python's headers (Python.h); write in",
        ),
        ("gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory", False, "[g++, python3-dev]"),
        (
            "error: command 'x86_64-linux-gnu-g++' failed: No such file or directory",
            False,
            "packages: [g++, python3-dev]",
        ),
        ("src/a.h:5:10: fatal error: vector: No such file or directory", False, "build-packages: [g++, python3-dev]"),
        ("a.cpp:1:10: fatal error: 'cstdint' file not found", False, "build-packages: [g++, python3-dev]"),
        ("  No CMAKE_CXX_COMPILER could be found.", False, "build-packages: [g++, python3-dev]"),
        ("ERROR: Unknown compiler(s): [['c++'], ['g++'], ['clang++']]", False, "build-packages: [g++, python3-dev]"),
        (
            "/bin/sh: 1: gcc: not found",
            False,
            "it lacks a C compiler; write in the spec  build-packages: [gcc, python3",
        ),
        ("x.c:3:10: fatal error: openssl/ssl.h: No such file or directory", False, "the header openssl/ssl.h; write"),
        (
            "ModuleNotFoundError: No module named 'torch'",
            False,
            "its build imports torch and does not ask for it; write in the spec  build-requirements: {NAME: [torch]}",
        ),
        ("OSError: CUDA_HOME environment variable is not set.", False, "build-requirements: {NAME: [nvidia-cuda-nvcc"),
        ("/bin/sh: 1: nvcc: not found", False, "build-requirements: {NAME: [nvidia-cuda-nvcc"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'bash'", False, "build-packages: [bash]"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'c++'", False, "build-packages: [g++, python3-dev]"),
        (
            "error: [Errno 2] No such file or directory: 'x86_64-linux-gnu-g++'",
            False,
            "build-packages: [g++, python3-dev]  (Debian packages",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a/b.txt'", False, "if a compiler, a library"),
        ("trusted rusty scargo", False, "build-packages: [gcc, python3-dev]"),
    ],
)
def test_what_a_backend_prints_decides_the_way_out(printed: str, versioned: bool, named: str) -> None:
    """A compiler is no help where Rust is missing or something is downloaded, in a build without network."""
    assert named in step.way_out(printed, versioned=versioned)


def _built(place: str, folder: str, *, more: bytes = b"") -> tuple[str, bytes]:
    """A wheel of contourpy's form, whose module names the folder of its build."""
    text = f'dict(build_dir=r"/build-sources/{place}/contourpy-1.3.3/{folder}", python="3.11")\n'.encode() + more
    return _WHEEL, wheel_bytes("x", "1", files={"x.py": text, "y.bin": b"\0same"})


def test_the_folder_of_a_build_is_taken_out_of_texts() -> None:
    """meson-python builds in a folder with a random name, which contourpy writes into a module."""
    archive = step.Archive(name="x-1.tar.gz", path=Path())
    one, two = _built("one", ".mesonpy-ab3_x9kq"), _built("second/place", ".mesonpy-zz81mm_p")
    made = step._compared(archive, one, two)
    assert made.normalised == ('folder of the build in "x.py"',)
    text = canonical.read(made.data, _WHEEL)["x.py"].data
    assert text == b'dict(build_dir=r"/build/contourpy-1.3.3/.mesonpy", python="3.11")\n'
    assert made.data == step._compared(archive, _built("one", ".mesonpy-12345678"), two).data


@pytest.mark.parametrize("more", [b"x = 1\n", b"\0"])
def test_what_differs_next_to_the_folder_of_a_build_is_named(more: bytes) -> None:
    """Nothing else is made equal, and nothing in files that are no text."""
    archive = step.Archive(name="x-1.tar.gz", path=Path())
    two = _built("second/place", ".mesonpy-zz81mm_p", more=b"\0" if more == b"\0" else b"")
    with pytest.raises(NotReproducibleError, match=r"x\.py"):
        step._compared(archive, _built("one", ".mesonpy-ab3_x9kq", more=more), two)


@pytest.mark.parametrize(
    ("name", "optimised"),
    [
        ("setuptools.build_meta", True),
        ("setuptools.build_meta:__legacy__", True),
        ("poetry.core.masonry.api", True),
        ("mesonpy", False),
        ("scikit_build_core.build", False),
    ],
)
def test_modules_are_compiled_with_optimisation(name: str, optimised: bool) -> None:
    """setuptools takes CFLAGS in place of Python's own flags; Meson and CMake add them to theirs, after -O3."""
    assert ("-O2 " in backend._optimised(name)) == optimised


def test_what_wheels_have_of_cuda_is_put_together(tmp_path: Path) -> None:
    """nvcc looks for headers and libraries next to itself, linkers for names without version; no nvcc, no CUDA."""
    folder = tmp_path / "nvidia"
    assert backend._cuda(tmp_path / "none", [folder]) is None
    for name in ("cuda_runtime/include/cuda.h", "cuda_runtime/lib/libcudart.so.12", "cuda_nvcc/nvvm/bin/cicc"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    assert backend._cuda(tmp_path / "none", [folder]) is None
    (folder / "cuda_nvcc/bin").mkdir()
    (folder / "cuda_nvcc/bin/nvcc").write_text("nvcc")
    home = tmp_path / "home"
    assert backend._cuda(home, [tmp_path / "absent", folder]) == home
    found = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert found == {"bin/nvcc", "include/cuda.h", "lib/libcudart.so", "lib/libcudart.so.12", "nvvm/bin/cicc"}
    assert (home / "lib64/libcudart.so").read_text() == "cuda_runtime/lib/libcudart.so.12"
