"""The GPU probe as it runs: its own process, the real binding, libraries that stand in for NVIDIA's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pynvml
import pytest

from envbuild.host.facts import GpuFacts, HostGpu, Problem
from envbuild.runtime.guard import gpu_ask
from tests.support import gpus
from tests.support.guardbox import EXECUTABLE, Box, import_image, make_image_lock

SITE = str(Path(pynvml.__file__).parent)
Look = Callable[..., GpuFacts]


@pytest.fixture(scope="session", name="libraries")
def _libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled stand-ins."""
    return gpus.build_standin(tmp_path_factory.mktemp("standin"))


@pytest.fixture(name="look")
def _look(libraries: Path, tmp_path: Path) -> Look:
    """Probe a machine with the stand-ins; further arguments go to ``install``, ``variables`` to the probe."""

    def look(
        scenario: gpus.Scenario, variables: Mapping[str, str] = {}, *, timeout: float = 60, **layout: Any
    ) -> GpuFacts:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        standin = gpus.install(libraries, folder, scenario, **layout)
        environment = {"PATH": os.environ["PATH"], **standin.environment, **variables}
        found = gpu_ask.gpus(SITE, sys.executable, timeout=timeout, environment=environment)
        return msgspec.convert(found, GpuFacts)

    return look


def whole(device: gpus.Device, **changes: Any) -> HostGpu:
    """Return what the probe reports of a whole GPU that answers everything."""
    values: dict[str, Any] = {
        **{name: getattr(device, name) for name in ("name", "uuid", "compute_capability", "sms", "memory", "free")},
        "mig": "none",
        "ecc": bool(device.ecc),
        "vbios": device.vbios,
        "board": device.board,
        "persistence": bool(device.persistence),
        "visible": True,
    }
    return HostGpu(**{**values, **changes})


@pytest.mark.parametrize("name", ["h100", "h200", "a100", "8xh200", "t4", "mixed"])
def test_whole_gpus_are_reported_as_they_are(look: Look, name: str) -> None:
    """Every field of every whole GPU arrives through NVML, the binding and libcuda unaltered, in NVML's order."""
    scenario = gpus.SCENARIOS[name]
    facts = look(scenario)
    assert facts.problem is None
    assert facts.libcuda.problem is None
    assert (facts.driver, facts.driver_source, facts.nvml) == (scenario.driver, "NVML", scenario.driver)
    assert facts.devices == tuple(whole(device) for device in scenario.devices)


def test_a_laptop_lacks_much_and_nothing_fails(look: Look) -> None:
    """What a GPU answers with NotSupported is absent, not wrong: no ECC mode, no board part, no memory of a program."""
    scenario = gpus.SCENARIOS["laptop"]
    device = scenario.devices[0]
    facts = look(scenario)
    assert (facts.driver, facts.libcuda.api, facts.libcuda.version) == ("550.144.03", "12.4", "550.144.03")
    found = facts.devices[0]
    assert msgspec.structs.replace(found, processes=()) == whole(device, ecc=None, board="")
    assert [(process.pid, process.name, process.memory) for process in found.processes] == [
        (4242, "/usr/bin/blender", 0)
    ]


@pytest.mark.parametrize("code", [gpus.NOT_SUPPORTED, gpus.NO_PERMISSION, gpus.FUNCTION_NOT_FOUND])
def test_a_gpu_that_reports_nothing_is_still_counted(look: Look, code: int) -> None:
    """When NVML knows no field at all, the GPU is there empty, and libcuda still states how many SMs it has."""
    fields = "Name UUID CudaComputeCapability MemoryInfo EccMode PersistenceMode VbiosVersion BoardPartNumber MigMode"
    running = [f"ComputeRunningProcesses_v{version}" for version in (2, 3)]
    device = gpus.h100().unsupported(*fields.split(), *running, code=code)
    facts = look(gpus.machine(device))
    assert facts.problem is None
    assert facts.devices == (HostGpu(mig="none", visible=False),)


def test_memory_that_is_no_text_is_no_answer(look: Look) -> None:
    """A board part or name of other bytes than UTF-8 is absent; the GPU's other facts and the other GPUs stay."""
    broken = gpus.h200(1, name="NVIDIA \udcff\udcfe", board="\udcff" * 8)
    facts = look(gpus.machine(gpus.h200(), broken))
    assert facts.problem is None
    assert facts.devices == (whole(gpus.h200()), whole(broken, name="", board=""))


def test_slices_stand_for_their_gpu(look: Look) -> None:
    """A GPU in MIG mode is its slices, each with profile, SMs and memory of its own; CUDA shows a program the first."""
    scenario = gpus.SCENARIOS["a100-mig-mixed"]
    device = scenario.devices[0]
    facts = look(scenario)
    assert [(gpu.mig, gpu.sms, gpu.memory, gpu.visible) for gpu in facts.devices] == [
        ("3g.20gb", 42, 19968, True),
        ("2g.10gb", 28, 9856, False),
        ("1g.5gb", 14, 4864, False),
    ]
    assert [gpu.uuid for gpu in facts.devices] == [piece.uuid for piece in device.slices]
    assert {(gpu.name, gpu.compute_capability, gpu.ecc, gpu.vbios, gpu.board) for gpu in facts.devices} == {
        (device.name, "8.0", True, device.vbios, device.board)
    }


@pytest.mark.parametrize("profile", sorted(gpus.A100_SLICES))
def test_every_profile_is_named(look: Look, profile: str) -> None:
    """A slice's profile is what NVML calls it."""
    assert [gpu.mig for gpu in look(gpus.machine(gpus.a100_mig(profile))).devices] == [profile]


def test_a_profile_follows_from_the_size(look: Look) -> None:
    """Where NVML does not name a slice, its profile follows from slice counts and memory."""
    device = gpus.a100_mig("3g.20gb", "2g.10gb", "1g.5gb").unsupported("Name")
    assert [gpu.mig for gpu in look(gpus.machine(device)).devices] == ["3g.20gb", "2g.10gb", "1g.5gb"]


def test_mig_without_a_slice_is_a_problem(look: Look) -> None:
    """A GPU in MIG mode without a slice to open is of no use, and that is reported."""
    facts = look(gpus.machine(gpus.a100_mig()))
    message = "MIG mode is on and no slice can be opened here: no program can use this GPU"
    assert [gpu.problem for gpu in facts.devices] == [Problem(code=0, name="NO_SLICE", message=message)]
    assert facts.libcuda.problem == Problem(
        code=100, name="CUDA_ERROR_NO_DEVICE", message="no CUDA-capable device is detected"
    )


def test_order_means_nothing(look: Look) -> None:
    """Shuffled GPUs are the same GPUs: each keeps its SMs and its visibility, matched by UUID."""
    devices = gpus.SCENARIOS["mixed"].devices
    facts = look(gpus.machine(devices[2], devices[0], devices[1]), {"CUDA_VISIBLE_DEVICES": devices[1].uuid})
    assert {gpu.uuid: (gpu.visible, gpu.name) for gpu in facts.devices} == {
        devices[0].uuid: (False, "NVIDIA H200"),
        devices[1].uuid: (True, "NVIDIA H100 80GB HBM3"),
        devices[2].uuid: (False, "Tesla T4"),
    }


@pytest.mark.parametrize(
    ("value", "visible"),
    [
        ("0", [0]),
        ("1,0", [0, 1]),
        (gpus.gpu_uuid(0x202), [2]),
        (gpus.gpu_uuid(0x203)[:12], [3]),
        ("0,9,1", [0]),
        ("0,0", []),
        ("", []),
        ("-1", []),
    ],
)
def test_what_cuda_shows_is_asked_of_cuda(look: Look, value: str, visible: list[int]) -> None:
    """NVML reports every GPU; which of them a program would see after CUDA_VISIBLE_DEVICES, libcuda reports."""
    facts = look(gpus.eight_h200(), {"CUDA_VISIBLE_DEVICES": value})
    assert len(facts.devices) == 8
    assert [gpu.visible for gpu in facts.devices] == [index in visible for index in range(8)]
    assert (facts.libcuda.problem is None) == bool(visible)
    assert all(gpu.sms == (132 if gpu.visible else 0) for gpu in facts.devices)


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (1, "NVML_ERROR_UNINITIALIZED", "Uninitialized"),
        (4, "NVML_ERROR_NO_PERMISSION", "Insufficient Permissions"),
        (9, "NVML_ERROR_DRIVER_NOT_LOADED", "Driver Not Loaded"),
        (12, "NVML_ERROR_LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"),
        (13, "NVML_ERROR_FUNCTION_NOT_FOUND", "Function Not Found"),
        (15, "NVML_ERROR_GPU_IS_LOST", "GPU is lost"),
        (17, "NVML_ERROR_OPERATING_SYSTEM", "The operating system has blocked the request."),
        (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "RM has detected an NVML/RM version mismatch."),
        (20, "NVML_ERROR_MEMORY", "Insufficient Memory"),
        (999, "NVML_ERROR_UNKNOWN", "Unknown Error"),
    ],
)
def test_why_nvml_does_not_start(look: Look, code: int, name: str, message: str) -> None:
    """An NVML that does not start is a problem with its code, the code's name and a sentence, never a crash."""
    returns = {"nvmlInitWithFlags": code, "cuInit": 999}
    facts = look(gpus.SCENARIOS["h200"].but(returns=returns))
    assert facts.problem == Problem(code=code, name=name, message=message)
    assert facts.devices == ()
    assert facts.libcuda.problem == Problem(code=999, name="CUDA_ERROR_UNKNOWN", message="unknown error")


def test_without_nvml_cuda_still_answers(look: Look) -> None:
    """A container without the ``utility`` capability has no NVML: that is reported, and CUDA's GPUs are listed."""
    scenario = gpus.SCENARIOS["h100"].but(returns={"nvmlInitWithFlags": 12})
    facts = look(scenario)
    assert facts.problem is not None
    assert facts.problem.code == 12
    device = scenario.devices[0]
    values = {name: getattr(device, name) for name in ("name", "uuid", "compute_capability", "sms", "memory")}
    assert facts.devices == (HostGpu(**values, visible=True),)


@pytest.mark.parametrize(
    ("code", "name"), [(802, "CUDA_ERROR_SYSTEM_NOT_READY"), (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")]
)
def test_why_cuda_does_not_start(look: Look, code: int, name: str) -> None:
    """A libcuda that does not start leaves SM counts and visibility unknown, and states why; NVML's facts stay."""
    facts = look(gpus.SCENARIOS["h200"].but(returns={"cuInit": code}))
    assert facts.problem is None
    assert facts.libcuda.problem is not None
    assert (facts.libcuda.problem.code, facts.libcuda.problem.name) == (code, name)
    assert facts.devices == (whole(gpus.h200(), sms=0, visible=None),)


def test_a_gpu_that_cannot_be_opened(look: Look) -> None:
    """GPUs are counted that this process may not open; the others are reported as ever."""
    closed = gpus.h200(1).but(returns={"nvmlDeviceGetHandleByIndex_v2": gpus.NO_PERMISSION})
    facts = look(gpus.machine(gpus.h200(0), closed))
    assert facts.problem is None
    problem = Problem(code=4, name="NVML_ERROR_NO_PERMISSION", message="Insufficient Permissions")
    assert facts.devices == (whole(gpus.h200(0)), HostGpu(visible=False, problem=problem))


@pytest.mark.parametrize("calls", [1, 2, 4, 9])
def test_a_gpu_that_falls_off_the_bus(look: Look, calls: int) -> None:
    """A GPU lost half-way keeps what it reported before, and has the loss as its problem; the other is untouched."""
    facts = look(gpus.machine(gpus.h100(0, lost_after=calls), gpus.h100(1)))
    lost, other = facts.devices
    assert lost.problem == Problem(code=15, name="NVML_ERROR_GPU_IS_LOST", message="GPU is lost")
    assert lost.name == ("NVIDIA H100 80GB HBM3" if calls > 1 else "")
    assert other == whole(gpus.h100(1))


def test_other_programs_are_listed(look: Look) -> None:
    """Programs that hold a GPU are listed with their memory; those of other containers without a name."""
    device = gpus.h200(processes=((7, 1024, "python"), (90210, 5, "")))
    found = look(gpus.machine(device)).devices[0].processes
    assert [(process.pid, process.name, process.memory) for process in found] == [(7, "python", 1024), (90210, "", 5)]


def test_an_old_driver_lists_programs_by_the_older_call(look: Look) -> None:
    """Drivers before 510 know only the second form of the call."""
    device = gpus.t4(processes=((7, 1024, "python"),)).unsupported("ComputeRunningProcesses_v3", code=13)
    assert [process.pid for process in look(gpus.machine(device)).devices[0].processes] == [7]


def test_libcuda_is_the_file_really_mapped(look: Look) -> None:
    """The version is that of the mapped file; one newer than the driver is a compatibility package's."""
    facts = look(gpus.SCENARIOS["h100"].but(driver="535.54.03"), libcuda="580.65.06")
    assert facts.libcuda.path.endswith("/lib/libcuda.so.580.65.06")
    assert (facts.libcuda.version, facts.libcuda.compat, facts.driver) == ("580.65.06", True, "535.54.03")
    older = look(gpus.SCENARIOS["h100"], libcuda="535.54.03")
    assert (older.libcuda.version, older.libcuda.compat) == ("535.54.03", False)


def test_no_libcuda(look: Look) -> None:
    """A container without the ``compute`` capability has no libcuda: a separate problem, NVML's facts stay."""
    facts = look(gpus.SCENARIOS["h100"], libcuda="none")
    assert facts.libcuda.path == ""
    assert facts.libcuda.problem is not None
    assert facts.libcuda.problem.name == "LIBRARY_NOT_FOUND"
    assert facts.devices == (whole(gpus.h100(), sms=0, visible=None),)


def test_a_driver_without_gpus(look: Look) -> None:
    """A driver that finds no GPU reports it; nothing is a problem of NVML."""
    facts = look(gpus.SCENARIOS["none"])
    assert (facts.driver, facts.problem, facts.devices) == (gpus.DRIVER, None, ())


def children() -> set[int]:
    """Processes that this one started and has not waited for; another test may have left one that serves it."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
    return found


def test_nvml_that_never_answers(look: Look) -> None:
    """A hanging driver is left after the limit, and its process is ended."""
    before = children()
    facts = look(gpus.SCENARIOS["h100"].but(returns={"nvmlInitWithFlags": gpus.HANG}), timeout=0.7)
    assert children() <= before
    assert facts.problem == Problem(name="TIMEOUT", message="NVIDIA's libraries did not answer within 0.7 s")


def test_nvml_that_crashes(look: Look) -> None:
    """A crash of a library is a problem, not the end of the guard."""
    facts = look(gpus.SCENARIOS["h100"].but(returns={"nvmlDeviceGetCount_v2": gpus.CRASH}))
    assert facts.problem == Problem(name="CRASHED", message="NVIDIA's libraries ended the probe with signal 11")


def test_a_library_that_prints(look: Look) -> None:
    """What a library prints does not get into the answer."""
    assert look(gpus.SCENARIOS["h100"].but(returns={"cuInit": gpus.CHATTER})).devices == (whole(gpus.h100()),)


def test_without_the_binding(libraries: Path, tmp_path: Path) -> None:
    """An environment without nvidia-ml-py states that it lacks it; CUDA's GPUs are listed all the same."""
    standin = gpus.install(libraries, tmp_path / "machine", gpus.SCENARIOS["h100"])
    facts = gpu_ask.gpus(str(tmp_path), sys.executable, environment=standin.environment)
    assert facts["problem"]["name"] == "BINDING_NOT_FOUND"
    assert [device["sms"] for device in facts["devices"]] == [132]


def test_an_interpreter_that_is_not_there(libraries: Path, tmp_path: Path) -> None:
    """A probe that cannot be started is a problem, not a machine without GPUs."""
    standin = gpus.install(libraries, tmp_path / "machine", gpus.SCENARIOS["h100"])
    facts = gpu_ask.gpus(SITE, str(tmp_path / "python"), environment=standin.environment)
    assert facts["problem"]["name"] == "FAILED"
    assert facts["problem"]["message"].startswith("the GPU probe cannot be started: ")


def test_a_machine_that_changes_between_probes(libraries: Path, tmp_path: Path) -> None:
    """Nothing is remembered: a GPU that vanishes between two probes is gone in the second."""
    standin = gpus.install(libraries, tmp_path / "machine", gpus.machine(gpus.h100(0), gpus.h100(1)))
    assert len(gpu_ask.gpus(SITE, environment=standin.environment)["devices"]) == 2
    standin.change(gpus.machine(gpus.h100(1)))
    assert [gpu["uuid"] for gpu in gpu_ask.gpus(SITE, environment=standin.environment)["devices"]] == [
        gpus.h100(1).uuid
    ]


_COST = """\
import os, resource, subprocess, sys
sys.path.insert(0, sys.argv[1])
from envbuild.runtime.guard import gpu_ask
def spent():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
times = [spent()]
subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
times.append(spent())
assert len(gpu_ask.gpus(sys.argv[2])["devices"]) == 8
times.append(spent())
print(times[1] - times[0], times[2] - times[1])
"""


def test_eight_gpus_cost_little(libraries: Path, tmp_path: Path) -> None:
    """Asking about eight GPUs takes as much process time as to start 3.6 interpreters that do nothing; 12 pass.

    The least of several counts: whoever shares the processor's caches can only add to it.
    """
    standin = gpus.install(libraries, tmp_path / "machine", gpus.eight_h200())
    root = Path(gpu_ask.__file__).parents[3]
    binding = tmp_path / "site" / "pynvml.py"
    binding.parent.mkdir()
    binding.write_bytes(Path(pynvml.__file__).read_bytes())
    compiled = "import compileall, sys; compileall.compile_dir(sys.argv[1], quiet=1)"  # as in an image
    subprocess.run([sys.executable, "-c", compiled, str(binding.parent)], check=True)
    command = [sys.executable, "-I", "-S", "-c", _COST, str(root), str(binding.parent)]
    times = []
    for _ in range(15):
        done = subprocess.run(command, env=standin.environment, capture_output=True, text=True, check=True)
        times.append([float(word) for word in done.stdout.split()])
    start, asked = map(min, zip(*times, strict=True))
    print(asked / start)
    assert asked < 12 * start, times


_IN_CONTAINER = """\
import sys
sys.path.insert(0, "/opt/envbuild/lib")
from _envbuild import fastjson
from _envbuild.guard import probe
print(fastjson.dumps(probe.gpus("/opt/binding")))
"""


@pytest.fixture(scope="module", name="in_container")
def _in_container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[gpus.Standin], GpuFacts]]:
    """Probes inside a container that has a machine's libraries mounted and no variable set."""
    from envbuild.engine.docker.adapter import connect

    client = connect()._sdk_client()
    further = {"/opt/binding/pynvml.py": Path(pynvml.__file__)}
    tag = import_image(client, tmp_path_factory.mktemp("image"), make_image_lock(), further)

    def look(standin: gpus.Standin) -> GpuFacts:
        binds = {source: {"bind": target, "mode": "ro"} for source, target in standin.mounts.items()}
        command = ["-I", "-S", "-B", "-c", _IN_CONTAINER]
        box = Box(client, tag, command, entrypoint=[str(EXECUTABLE)], binds=binds)
        try:
            code, out, err = box.wait()
            assert (code, err) == (0, "")
            return msgspec.json.decode(out, type=GpuFacts)
        finally:
            client.remove_container(box.identity, force=True)

    yield look
    client.remove_image(tag, force=True)


@pytest.mark.engine
def test_inside_a_container(libraries: Path, tmp_path: Path, in_container: Callable[[gpus.Standin], GpuFacts]) -> None:
    """The kernel module's version comes from its file; a compatibility package's libcuda is caught."""
    plain = in_container(gpus.install(libraries, tmp_path / "plain", gpus.eight_h200()))
    assert (plain.driver, plain.driver_source) == (gpus.DRIVER, "/sys/module/nvidia/version")
    assert [gpu.sms for gpu in plain.devices] == [132] * 8
    assert plain.libcuda.path == f"{gpus.HWCAPS}/libcuda.so.{gpus.DRIVER}"
    old = gpus.SCENARIOS["h100"].but(driver="535.54.03")
    compat = in_container(gpus.install(libraries, tmp_path / "compat", old, libcuda="535.104.05", compat=True))
    assert (compat.driver, compat.nvml) == ("535.54.03", "535.54.03")
    assert (compat.libcuda.path, compat.libcuda.compat) == (f"{gpus.COMPAT}/libcuda.so.535.104.05", True)


@pytest.mark.engine
def test_a_mismatch_inside_a_container(
    libraries: Path, tmp_path: Path, in_container: Callable[[gpus.Standin], GpuFacts]
) -> None:
    """A driver upgraded under a running module: NVML returns 18, and the module's file still states what is loaded."""
    scenario = gpus.SCENARIOS["h200"].but(returns={"nvmlInitWithFlags": 18, "cuInit": 803})
    facts = in_container(gpus.install(libraries, tmp_path / "machine", scenario, kernel="570.86.15"))
    assert facts.problem is not None
    assert (facts.problem.code, facts.driver, facts.libcuda.version) == (18, "570.86.15", gpus.DRIVER)
    assert facts.libcuda.compat  # newer than the module: it must not be taken for the driver's own
