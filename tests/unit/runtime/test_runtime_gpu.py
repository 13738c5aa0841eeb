"""The GPU probe's pure parts: versions, paths, profiles, and NVML's devices joined with CUDA's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.runtime import fastjson
from envbuild.runtime.guard import driver, gpu, gpu_ask, gpu_cuda, gpu_nvml

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\nGCC version:\n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (archlinux)\n"


def put(root: Path, path: str, text: str = "") -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "535.54.03"), (OPEN, "580.159.04"), ("NVRM\n", "")])
def test_both_kernel_modules_tell_their_version(tmp_path: Path, text: str, version: str) -> None:
    """The proprietary and the open module write their version into procfs in different words."""
    put(tmp_path, "proc/driver/nvidia/version", text)
    assert driver.module(str(tmp_path)) == (version, "/proc/driver/nvidia/version" if version else "")


def test_sysfs_comes_first(tmp_path: Path) -> None:
    """The module's version in sysfs is the first source; without any file there is no module."""
    assert driver.module(str(tmp_path)) == ("", "")
    put(tmp_path, "proc/driver/nvidia/version", OPEN)
    put(tmp_path, "sys/module/nvidia/version", "570.86.15\n")
    assert driver.module(str(tmp_path)) == ("570.86.15", "/sys/module/nvidia/version")


@pytest.mark.parametrize("text", ["580.159.04", "450.80.02", "1024.1", "535.104"])
def test_a_driver_version(text: str) -> None:
    """A driver's version has a branch of three digits or more and one to three further numbers."""
    assert driver.is_version(text)


@pytest.mark.parametrize("text", ["1", "1.1", "580", "x86_64", "580.", "580.a", "", "12345.1", "580.1.2.3.4"])
def test_no_driver_version(text: str) -> None:
    """Sonames, WSL's ``1.1`` and words are no driver's version."""
    assert not driver.is_version(text)


@pytest.mark.parametrize(
    "path",
    [
        "dev/nvidiactl",
        "dev/dxg",
        "sys/module/nvidia/version",
        "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
        "usr/lib64/libnvidia-ml.so.1",
    ],
)
def test_anything_of_a_driver_is_a_trace(tmp_path: Path, path: str) -> None:
    """One device, module or library is enough to ask further."""
    assert not driver.traces(str(tmp_path))
    put(tmp_path, path)
    assert driver.traces(str(tmp_path))


def test_a_library_elsewhere_is_a_trace(tmp_path: Path) -> None:
    """So is a library on the search path of this process, or one that the loader's cache names."""
    put(tmp_path, "opt/libnvidia-ml.so.1")
    assert driver.traces(str(tmp_path), f"/nowhere:{tmp_path / 'opt'}")
    assert not driver.traces(str(tmp_path), "/nowhere::")
    put(tmp_path, "etc/ld.so.cache", "\0libnvidia-ml.so.1\0/usr/lib/wsl/lib/libnvidia-ml.so.1\0")
    assert driver.traces(str(tmp_path))


def test_without_a_trace_nothing_is_started(tmp_path: Path) -> None:
    """A machine without a driver is reported at once: no process, no library, and no problem."""
    assert gpu_ask.gpus("", "/no/such/python", environment={}, root=str(tmp_path)) == gpu.empty()


@pytest.mark.parametrize(
    ("path", "version"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", "580.159.04"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", ""),
        ("/usr/lib/wsl/drivers/nv_dispi.inf_amd64/libcuda.so.1.1", ""),
        ("/opt/libcuda.so", ""),
        ("", ""),
    ],
)
def test_libcudas_file_names_its_version(path: str, version: str) -> None:
    """The version is the end of the file's name, where it is a driver's."""
    assert gpu_cuda.version_of(path) == version


@pytest.mark.parametrize(
    ("path", "version", "kernel", "compat"),
    [
        ("/usr/local/cuda-13.0/compat/libcuda.so.580.65.06", "580.65.06", "580.65.06", True),
        ("/usr/lib/libcuda.so.580.65.06", "580.65.06", "535.54.03", True),
        ("/usr/lib/libcuda.so.580.65.06", "580.65.06", "580.65.06", False),
        ("/usr/lib/libcuda.so.535.54.03", "535.54.03", "580.65.06", False),
        ("/usr/lib/libcuda.so.580.65.06", "580.65.06", "", False),
        ("/usr/lib/compat.d/libcuda.so.1", "", "580.65.06", False),
        ("/usr/lib/libcuda.so.580.9.1", "580.9.1", "580.10.1", False),
    ],
)
def test_a_compatibility_package(path: str, version: str, kernel: str, compat: bool) -> None:
    """Its folder gives it away, and else that it is newer than the kernel module, number by number."""
    assert gpu_cuda.is_compat(path, version, kernel) is compat


def test_the_mapped_file_is_found(tmp_path: Path) -> None:
    """The path is what the kernel maps, blanks and a file deleted since included."""
    lines = (
        "7f00-7f01 r-xp 00000000 08:01 12   /usr/lib/libcudart.so.13\n"
        "7f01-7f02 rw-p 00000000 00:00 0 \n"
        "7f02-7f03 r-xp 00000000 08:01 13   /opt/my driver/libcuda.so.580.65.06 (deleted)\n"
    )
    put(tmp_path, "maps", lines)
    assert gpu_cuda.loaded_path(str(tmp_path / "maps")) == "/opt/my driver/libcuda.so.580.65.06"
    assert gpu_cuda.loaded_path(str(tmp_path / "none")) == ""
    put(tmp_path, "maps", lines.partition("\n")[0])
    assert gpu_cuda.loaded_path(str(tmp_path / "maps")) == ""


@pytest.mark.parametrize(
    ("name", "size", "compute", "slices", "memory", "profile"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 19968, 1, 3, 40960, "1c.3g.20gb"),
        ("", 4864, 1, 1, 40960, "1g.5gb"),
        ("", 9856, 2, 2, 40960, "2g.10gb"),
        ("", 19968, 1, 3, 40960, "1c.3g.20gb"),
        ("", 40192, 7, 7, 40960, "7g.40gb"),
        ("", 40448, 3, 3, 81559, "3g.40gb"),
        ("", 16384, 1, 1, 143771, "1g.18gb"),
        ("", 71424, 4, 4, 143771, "4g.71gb"),
        ("NVIDIA A100", 4864, 1, 1, 0, ""),
    ],
)
def test_a_slices_profile(name: str, size: int, compute: int, slices: int, memory: int, profile: str) -> None:
    """NVML's name ends in the profile; without it, slices and memory give the name of NVIDIA's tables."""
    attributes = SimpleNamespace(
        memorySizeMB=size, computeInstanceSliceCount=compute, gpuInstanceSliceCount=slices, multiprocessorCount=0
    )
    assert gpu_nvml.profile(name, attributes, memory) == profile


def device(name: str, uuid: str, **values: Any) -> dict[str, Any]:
    """One of NVML's devices."""
    return {**gpu_nvml.blank(), "name": name, "uuid": uuid, **values}


def shown(name: str, uuid: str, sms: int) -> dict[str, Any]:
    """One of CUDA's devices."""
    return {"name": name, "uuid": uuid, "sms": sms, "compute-capability": "9.0", "memory": 1}


FIRST, SECOND = "GPU-00000001-0000-4000-8000-00000000000A", "GPU-00000002-0000-4000-8000-000000000000"
FIRST_HEX, SECOND_HEX = "0000000100004000800000000000000a", "00000002000040008000000000000000"


def test_devices_are_joined_by_uuid() -> None:
    """CUDA's order means nothing, nor does the case of an UUID; what CUDA does not show is hidden."""
    found = [device("a", FIRST), device("a", SECOND), device("b", "GPU-3")]
    gpu.join(found, [shown("a", SECOND_HEX, 2), shown("a", FIRST_HEX, 1)])
    assert [(each["sms"], each["visible"]) for each in found] == [(1, True), (2, True), (0, False)]


def test_devices_without_uuid_are_joined_by_name() -> None:
    """Each of CUDA's devices represents one of NVML's only."""
    found = [device("a", ""), device("b", ""), device("b", "")]
    gpu.join(found, [shown("b", "", 7), shown("a", FIRST_HEX, 1)])
    assert [(each["sms"], each["visible"]) for each in found] == [(1, True), (7, True), (0, False)]


def test_a_slices_own_count_stays() -> None:
    """NVML knows the SMs of a MIG slice, and CUDA does not overwrite them."""
    found = [device("a", "MIG-" + FIRST[4:], sms=14, mig="1g.5gb")]
    gpu.join(found, [shown("a MIG 1g.5gb", FIRST_HEX, 108)])
    assert (found[0]["sms"], found[0]["visible"]) == (14, True)


def test_the_answer_is_one_object_whatever_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bug in the probe is reported as a problem: it must not look like a machine without GPUs."""

    def broken(site: str) -> dict[str, Any]:
        raise ValueError("unexpected")

    left: list[int] = []
    out, keep = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY), (os.dup(1), os.dup(2))
    monkeypatch.setattr(gpu, "look", broken)
    monkeypatch.setattr(os, "_exit", left.append)
    try:
        os.dup2(out, 1)
        gpu.main([""])
    finally:
        sys.stdout.flush()
        os.dup2(keep[0], 1)
        os.dup2(keep[1], 2)
    assert left == [0]
    problem = fastjson.loads((tmp_path / "out").read_text())["problem"]
    assert problem == {"code": 0, "name": "FAILED", "message": "the GPU probe failed: ValueError: unexpected"}
