"""NVIDIA's libraries: which files are theirs, what is wrong with one, and copies that would be found first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envbuild.runtime.guard import checks, library_check, probe
from envbuild.runtime.hook import libraries

ENV = "/opt/env"
SITE = f"{ENV}/lib/python3.11/site-packages"
CUDA = {"version": "12.9", "cudnn": "9.10.2.21", "cublas": "12.9.1.4", "nccl": "2.27.3", "driver": "525.60.13"}


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        (f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "libcudnn"),
        (f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9 (deleted)", "libcudnn_ops"),
        (f"{SITE}/torch/lib/libcudart-d0da41ae.so.11.0", "libcudart"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", "libcuda"),
        (f"{SITE}/nvidia/cu13/lib/libcublasLt.so.13", "libcublasLt"),
        (f"{SITE}/torch/lib/libtorch_cuda.so", ""),
        ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", ""),
        (f"{SITE}/libcudnn_notes.txt", ""),
        ("/usr/lib/libcudadebugger.so.1", ""),
    ],
)
def test_which_files_are_theirs(path: str, stem: str) -> None:
    """User-space libraries and libcuda count, also bundled ones with a hash in the name; the driver's others do not."""
    assert libraries.relevant([path]) == ([path] if stem else [])
    if stem:
        assert libraries._stem(path) == stem


@pytest.mark.parametrize(
    ("locked", "found", "same"),
    [
        ("9.10.2.21", "9.10.2", True),
        ("9.10.2.21", "9.10.3", False),
        ("12.9", "12.9", True),
        ("12.9", "12.10", False),
        ("2.27.3", "2.27.3", True),
        ("2.27.03", "2.27.3", True),
        ("", "9.10.2", True),
        ("9.10.2.21", "", True),
    ],
)
def test_versions(locked: str, found: str, same: bool) -> None:
    """A wheel's version has more numbers than its library reports; what is not known is no mismatch."""
    assert libraries.same(locked, found) is same


@pytest.mark.parametrize(
    ("path", "version", "problem"),
    [
        (f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "9.10.2", ""),
        (f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "", ""),
        (f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", "9.8.0", "is version 9.8.0, locked is 9.10.2.21"),
        ("/usr/lib/libcudnn.so.9", "9.10.2", "is loaded from outside /opt/env, not from a locked wheel"),
        ("/opt/environment/libcudnn.so.9", "9.10.2", "is loaded from outside /opt/env, not from a locked wheel"),
        (f"{SITE}/libcudnn.so.9 (deleted)", "", "was replaced while it is in use"),
    ],
)
def test_what_is_wrong(monkeypatch: pytest.MonkeyPatch, path: str, version: str, problem: str) -> None:
    """Another place, another version or another file is a problem."""
    monkeypatch.setattr(libraries, "version_of", lambda stem, path: version)
    found = libraries.describe(path, CUDA, ENV)
    assert found["problem"] == problem
    assert (found["name"], found["locked"]) == ("libcudnn.so.9", "9.10.2.21")


def test_the_drivers_library_is_only_recorded() -> None:
    """Which libcuda is right is the guard's question; its version is in its name."""
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"
    assert libraries.describe(path, CUDA, ENV) == {
        "name": "libcuda.so.580.159.04",
        "path": path,
        "version": "580.159.04",
        "locked": "",
        "problem": "",
    }


class Number:
    """Represents a C function that puts a number behind a pointer, or returns one."""

    def __init__(self, *numbers: int, code: int = 0) -> None:
        self.numbers, self.code, self.restype = numbers, code, None

    def __call__(self, *arguments: Any) -> int:
        if not arguments:
            return self.numbers[0]
        arguments[-1]._obj.value = self.numbers[arguments[0] if len(arguments) > 1 else 0]
        return self.code


class Library:
    """Has any function of one library."""

    def __init__(self, **functions: Number) -> None:
        self.__dict__.update(functions)


@pytest.mark.parametrize(
    ("stem", "library", "version"),
    [
        ("libcudnn", Library(cudnnGetVersion=Number(8907)), "8.9.7"),
        ("libcudnn", Library(cudnnGetVersion=Number(92000)), "9.20.0"),
        ("libnccl", Library(ncclGetVersion=Number(22907)), "2.29.7"),
        ("libnccl", Library(ncclGetVersion=Number(2708)), "2.7.8"),
        ("libcudart", Library(cudaRuntimeGetVersion=Number(12090)), "12.9"),
        ("libcudart", Library(cudaRuntimeGetVersion=Number(13000)), "13.0"),
        ("libcublas", Library(cublasGetProperty=Number(13, 1, 1)), "13.1.1"),
        ("libcublasLt", Library(cublasLtGetProperty=Number(12, 9, 1)), "12.9.1"),
    ],
)
def test_how_versions_are_counted(stem: str, library: Library, version: str) -> None:
    """Each library's own way to write its version as a number is read."""
    import ctypes

    assert libraries._ASK[stem](ctypes, library) == version


def test_a_library_that_cannot_say() -> None:
    """An error code, a missing function or a library that is not loaded is no version."""
    import ctypes

    with pytest.raises(OSError, match="no version"):
        libraries._ASK["libnccl"](ctypes, Library(ncclGetVersion=Number(0, code=3)))
    assert libraries.version_of("libcudnn", "/nowhere/libcudnn.so.9") == ""
    assert libraries.version_of("libcufft", "/nowhere/libcufft.so.12") == ""


def touch(folder: Path, *names: str) -> str:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return str(folder)


def test_copies_on_the_search_path(tmp_path: Path) -> None:
    """Each copy in LD_LIBRARY_PATH outside the environment is found; the driver's libraries there are none."""
    one = touch(tmp_path / "cuda", "libcudnn.so.9", "libcublas.so.12", "readme", "libcudnn_static.a")
    two = touch(tmp_path / "driver", "libcuda.so.1", "libnvidia-ml.so.1")
    own = touch(tmp_path / "env" / "lib", "libcudnn.so.9")
    (tmp_path / "link").symlink_to(own)
    search = f"{one}:{two}:{own}:{tmp_path}/link:{tmp_path}/missing"
    found = library_check.on_search_path(search, f"{tmp_path}/env")
    assert found == [f"{one}/libcublas.so.12", f"{one}/libcudnn.so.9"]
    assert library_check.on_search_path(search.replace(":", ";"), f"{tmp_path}/env") == found
    assert library_check.on_search_path("", ENV) == []


def test_copies_in_the_linkers_cache(tmp_path: Path) -> None:
    """The dynamic linker's cache is searched without any tool; none is no copy."""
    cache = tmp_path / "ld.so.cache"
    cache.write_bytes(b"glibc-ld.so.cache1.1\0\1\2libz.so.1\0/lib/libz.so.1\0libnccl.so.2\0/usr/lib/libnccl.so.2\0\xff")
    assert library_check.in_cache(str(cache)) == ["/usr/lib/libnccl.so.2"]
    assert library_check.in_cache(str(tmp_path / "none")) == []


def test_judged() -> None:
    """A copy that comes first is refused, one that could be loaded warns, and a lock without CUDA does not care."""
    seen = {"libraries": {"path": ["/x/libcudnn.so.9"], "cache": ["/usr/lib/libnccl.so.2"]}}
    first, second = checks.libraries({"cuda": CUDA}, seen)
    assert (first.field, first.found, first.severity) == ("libraries.libcudnn.so.9", "/x/libcudnn.so.9", "hard")
    assert first.meaning == "LD_LIBRARY_PATH leads to this copy before the locked one"
    assert first.fix.splitlines() == [
        "start without LD_LIBRARY_PATH, or take /x out of it",
        "once, knowingly (recorded as overridden): envbuild run --allow libraries.libcudnn.so.9",
    ]
    assert (second.field, second.severity) == ("libraries.libnccl.so.2", "soft")
    assert second.meaning == "a copy next to the locked one, which a program could load"
    (fine,) = checks.libraries({"cuda": CUDA}, {"libraries": {"path": [], "cache": []}})
    assert (fine.field, fine.ok) == ("libraries", True)
    assert checks.libraries({"cuda": None}, seen) == []


def test_files_with_variables_of_nccl(tmp_path: Path) -> None:
    """Those of the home folder and of the machine are found and refused together; without them nothing is reported."""
    assert probe.nccl_files("/home/a", str(tmp_path)) == []
    for path in ("home/a/.nccl.conf", "etc/nccl.conf"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("NCCL_ALGO=Tree\n")
    found = probe.nccl_files("/home/a/", str(tmp_path))
    assert found == ["/home/a/.nccl.conf", "/etc/nccl.conf"]
    assert probe.nccl_files("", str(tmp_path)) == ["/etc/nccl.conf"]
    (check,) = checks.nccl_files({}, {"nccl-files": found})
    assert (check.field, check.refuses, check.found) == ("nccl.conf", True, ", ".join(found))
    assert checks.nccl_files({}, {}) == []
