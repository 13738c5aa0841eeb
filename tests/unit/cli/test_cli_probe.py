"""``envbuild probe``: what people see, the file, and what is wrong in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.host import file
from envbuild.host.diagnose import troubles
from envbuild.host.facts import Containers, Cpu, GpuFacts, GpuProcess, HostFacts, HostGpu, Libcuda, Problem
from envbuild.operations import probe as operation

FIRST = HostGpu(
    name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", sms=132, memory=143771, free=1, mig="none", ecc=True,
    vbios="96.00", board="692", persistence=True, processes=(GpuProcess(pid=7, name="python", memory=9),), visible=True,
)  # fmt: skip
GPU = GpuFacts(
    driver="580.159.04",
    driver_source="/sys/module/nvidia/version",
    nvml="580.159.04",
    libcuda=Libcuda(path="/usr/lib/libcuda.so.580.159.04", version="580.159.04", api="13.0"),
    devices=(FIRST, HostGpu(visible=False)),
)
HOST = HostFacts(
    kernel="6.1.0",
    machine="x86_64",
    libc="glibc 2.36",
    memory=25_000_000_000,
    cpu=Cpu(model="AMD EPYC", level="x86-64-v4", flags=("avx", "avx2"), visible=2, total=96),
    gpu=GPU,
    containers=Containers(engine="docker", version="28.5.1", nvidia="cdi", toolkit="1.17.4"),
)


def gpu(**changes: Any) -> HostFacts:
    """The machine with other facts about GPUs."""
    return msgspec.structs.replace(HOST, gpu=msgspec.structs.replace(GPU, **changes))


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine described is the one above."""
    monkeypatch.setattr(operation, "probe_host", lambda: HOST)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_machine_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns line up, what is unknown is a dash, and nothing is reported to be wrong where nothing is."""
    assert cli.main(["probe"]) == 0
    assert capsys.readouterr().out == (
        "host      kernel 6.1.0  x86_64  glibc 2.36  25 GB memory\n"
        "cpu       AMD EPYC  x86-64-v4  2 of 96 CPUs\n"
        "          avx avx2\n"
        "driver    580.159.04 (kernel module)  libraries 580.159.04\n"
        "libcuda   580.159.04  CUDA 13.0  /usr/lib/libcuda.so.580.159.04\n"
        "gpus      2\n"
        "          GPU  NAME         CAPABILITY  SMS  MEMORY      FREE   MIG   ECC  FOR CUDA\n"
        "          0    NVIDIA H200  9.0         132  143771 MiB  1 MiB  none  on   visible\n"
        "          1    -            -           -    -           -      -     -    hidden\n"
        "          GPU  UUID   VBIOS  BOARD  AWAKE   PROGRAMS\n"
        "          0    GPU-1  96.00  692    always  python (9 MiB)\n"
        "          1    -      -      -      -       none\n"
        "engine    docker 28.5.1  GPUs by CDI  NVIDIA container toolkit 1.17.4\n"
    )


def test_a_machine_without_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing found is reported in two words, without alarm."""
    nothing = msgspec.structs.replace(HOST, gpu=GpuFacts(), containers=Containers())
    monkeypatch.setattr(operation, "probe_host", lambda: nothing)
    assert cli.main(["probe"]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        "driver    none of NVIDIA's",
        "gpus      none",
        "engine    none found",
    ]


def test_the_file_can_be_locked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file holds the whole description, and the next command is named."""
    path = tmp_path / "host.toml"
    assert cli.main(["probe", "-o", str(path)]) == 0
    assert file.load(path) == HOST
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"wrote     {path}  lock for this host anywhere: envbuild lock --host {path}"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json`` the description is one document on standard output, and nothing else is there."""
    assert cli.main(["probe", "--json"]) == 0
    assert msgspec.convert(json.loads(capsys.readouterr().out), HostFacts) == HOST


def test_a_name_cannot_move_the_cursor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of programs, devices, drivers and engines are shown with control characters escaped."""
    bad = msgspec.structs.replace(FIRST, processes=(GpuProcess(pid=7, name="\x1b[2Jx"),))
    host = gpu(devices=(bad,), nvml="\x9b1m", libcuda=Libcuda(path="/\u2028", version="\x07", api="13.0"))
    host = msgspec.structs.replace(host, containers=Containers(engine="docker", version="\x1b[3m"))
    monkeypatch.setattr(operation, "probe_host", lambda: host)
    assert cli.main(["probe"]) == 0
    printed = capsys.readouterr().out
    assert all(text in printed for text in ("\\x1b[2Jx", "\\x9b1m", "/\\u2028", "\\x07", "docker \\x1b[3m"))
    assert printed.replace("\n", "").isprintable()


LIBCUDA = "/usr/local/cuda/compat/libcuda.so.590.1.1"


@pytest.mark.parametrize(
    ("host", "what"),
    [
        (
            gpu(problem=Problem(code=18, name="NVML_ERROR_LIB_RM_VERSION_MISMATCH", message="mismatch."), devices=()),
            "NVML: the host's driver was upgraded under a running kernel module: no CUDA program can start "
            "(18: mismatch)",
        ),
        (
            gpu(problem=Problem(name="TIMEOUT", message="NVIDIA's libraries did not answer within 60 s"), devices=()),
            "NVML: NVIDIA's libraries did not answer within 60 s",
        ),
        (gpu(nvml="570.1.1"), "the kernel module is 580.159.04, the driver's libraries are 570.1.1"),
        (
            gpu(libcuda=Libcuda(path=LIBCUDA, version="590.1.1", compat=True)),
            f"libcuda is a compatibility package's ({LIBCUDA}), not the driver's 580.159.04: other bits possible",
        ),
        (
            gpu(libcuda=Libcuda(path="/opt/libcuda.so.570.1.1", version="570.1.1")),
            "libcuda is 570.1.1 (/opt/libcuda.so.570.1.1), the driver is 580.159.04",
        ),
        (
            gpu(libcuda=Libcuda(problem=Problem(name="LIBRARY_NOT_FOUND", message="x"))),
            "libcuda.so.1 cannot be loaded: no CUDA program can start",
        ),
        (
            gpu(libcuda=Libcuda(problem=Problem(code=802, name="CUDA_ERROR_SYSTEM_NOT_READY", message="x"))),
            "CUDA is not ready: on machines with NVSwitch the fabric manager has to run first",
        ),
        (
            gpu(libcuda=Libcuda(problem=Problem(code=46, name="CUDA_ERROR_DEVICE_UNAVAILABLE", message="busy"))),
            "CUDA cannot be started: busy (CUDA_ERROR_DEVICE_UNAVAILABLE)",
        ),
        (
            gpu(libcuda=Libcuda(problem=Problem(code=100, name="CUDA_ERROR_NO_DEVICE", message="x"))),
            "CUDA finds no GPU although NVML does",
        ),
        (
            gpu(devices=(FIRST, HostGpu(problem=Problem(code=4, message="Insufficient Permissions")))),
            "GPU 1: this user may not use the GPU (4: Insufficient Permissions)",
        ),
        (
            gpu(devices=(HostGpu(problem=Problem(name="NO_SLICE", message="MIG mode is on and no slice")),)),
            "GPU 0: MIG mode is on and no slice",
        ),
        (
            msgspec.structs.replace(HOST, containers=Containers(engine="docker", version="28.5.1")),
            "docker cannot hand GPUs to containers: NVIDIA's container toolkit is not installed",
        ),
    ],
)
def test_what_is_wrong(host: HostFacts, what: str) -> None:
    """Each trouble is one sentence that states what it means, and comes with something to do."""
    found = troubles(host, {})
    assert [trouble.what for trouble in found] == [what]
    assert all(trouble.fix for trouble in found)


def test_hiding_every_gpu_is_named() -> None:
    """An empty CUDA_VISIBLE_DEVICES is the cause, not a driver that is broken; without any GPU it is no trouble."""
    no_device = Libcuda(problem=Problem(code=100, name="CUDA_ERROR_NO_DEVICE", message="x"))
    found = troubles(gpu(libcuda=no_device), {"CUDA_VISIBLE_DEVICES": "-1"})
    assert [trouble.what for trouble in found] == ["CUDA_VISIBLE_DEVICES=-1 hides every GPU from CUDA programs"]
    assert troubles(gpu(libcuda=no_device, devices=()), {"CUDA_VISIBLE_DEVICES": "-1"}) == []


def test_nothing_is_wrong() -> None:
    """A sound machine, and one without GPUs, have no trouble."""
    assert troubles(HOST, {}) == []
    assert troubles(msgspec.structs.replace(HOST, gpu=GpuFacts(), containers=Containers(engine="docker")), {}) == []
