"""GPUs in the engine's words: who can, what is asked for, and what its refusals mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envbuild.engine.docker.adapter import DockerEngine
from envbuild.engine.docker.endpoint import Endpoint
from envbuild.engine.docker.gpus import GENERATE, INSTALL, GpuWays, device_requests, gpu_ways, refused
from envbuild.engine.docker.run import container_config
from envbuild.engine.protocol import ContainerRun, Gpus, GpusRefusedError

LISTED = [
    {"Source": "cdi", "ID": f"nvidia.com/gpu={name}"} for name in ("1", "GPU-b", "10", "0", "GPU-a", "2", "all")
] + [{"Source": "cdi", "ID": "vendor.example/nic=3"}]  # fmt: skip
RUNTIMES = {"runc": {}, "nvidia": {"path": "nvidia-container-runtime"}}


def test_an_engine_that_lists_cdi_gpus_uses_them() -> None:
    """Devices in /info (Docker 28.2 and newer) settle it, also where NVIDIA's runtime is configured too."""
    ways = gpu_ways({"DiscoveredDevices": LISTED, "Runtimes": RUNTIMES}, "Docker/28.5.2 (linux)", local=False)
    assert ways == GpuWays(support="cdi", devices=("1", "GPU-b", "10", "0", "GPU-a", "2", "all"))


@pytest.mark.parametrize(
    ("info", "server", "local", "support"),
    [
        ({"CDISpecDirs": ["FOLDER"]}, "Docker/25.0.5 (linux)", True, "cdi"),
        ({"CDISpecDirs": ["FOLDER"], "Runtimes": RUNTIMES}, "Docker/25.0.5 (linux)", False, "nvidia"),
        ({"CDISpecDirs": ["/nowhere"], "Runtimes": RUNTIMES}, "Docker/25.0.5 (linux)", True, "nvidia"),
        ({"CDISpecDirs": [], "Runtimes": RUNTIMES}, "Docker/27.5.1 (linux)", True, "nvidia"),
        ({"DiscoveredDevices": None, "CDISpecDirs": None, "Runtimes": {"runc": {}}}, "Docker/20.10.24", True, ""),
        ({}, "Libpod/5.4.2 (linux)", False, ""),
    ],
)
def test_older_engines_are_read_with_care(
    tmp_path: Path, info: dict[str, Any], server: str, local: bool, support: str
) -> None:
    """Without a list the CDI files count, if they are here; else NVIDIA's runtime; else nothing is claimed."""
    (tmp_path / "other.json").write_text('{"kind": "vendor.example/nic"}')
    (tmp_path / "nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    (tmp_path / "notes.txt").write_text("nvidia.com/gpu")
    if info.get("CDISpecDirs") == ["FOLDER"]:
        info = info | {"CDISpecDirs": [str(tmp_path)]}
    assert gpu_ways(info, server, local) == GpuWays(support=support)  # type: ignore[arg-type]


def test_files_of_other_devices_are_no_gpus(tmp_path: Path) -> None:
    """A CDI folder without NVIDIA's kind does not make an engine one with GPUs."""
    (tmp_path / "other.yaml").write_text("kind: vendor.example/nvidia.com-gpu\n")
    assert gpu_ways({"CDISpecDirs": [str(tmp_path)]}, "Docker/25.0.5", local=True).support == ""


CDI = GpuWays(support="cdi", devices=("1", "GPU-b", "10", "0", "GPU-a", "2", "all"))


@pytest.mark.parametrize(
    ("gpus", "ways", "names"),
    [
        (Gpus(), CDI, ["all"]),
        (Gpus(count=1), CDI, ["0"]),
        (Gpus(count=3), CDI, ["0", "1", "2"]),
        (Gpus(count=9), CDI, ["0", "1", "2", "10"]),
        (Gpus(devices=("GPU-b", "2")), CDI, ["GPU-b", "2"]),
        (Gpus(), GpuWays(support="cdi"), ["all"]),
        (Gpus(count=2), GpuWays(support="cdi"), ["0", "1"]),
        (Gpus(count=2), GpuWays(support="cdi", devices=("1:1", "0:10", "0:2", "MIG-x")), ["0:2", "0:10"]),
        (Gpus(), GpuWays(support="cdi", devices=("1", "0")), ["0", "1"]),
        (Gpus(count=1), GpuWays(support="cdi", devices=("GPU-b", "GPU-a", "all")), ["GPU-a"]),
        (Gpus(count=1), GpuWays(support="cdi", devices=("all",)), ["all"]),
    ],
)
def test_cdi_devices_are_chosen_by_the_lowest_index(gpus: Gpus, ways: GpuWays, names: list[str]) -> None:
    """Which GPUs a count means is the same every time: numbers in order of value, else identities in order."""
    asked = [{"Driver": "cdi", "DeviceIDs": [f"nvidia.com/gpu={name}" for name in names]}]
    assert device_requests(gpus, ways) == asked


def test_more_gpus_than_an_engine_lists() -> None:
    """As a count that was typed; NVIDIA's hook and an engine that lists none refuse by themselves."""
    with pytest.raises(GpusRefusedError, match=r"^--gpus 9: the host has 4 GPUs$"):
        device_requests(Gpus(count=9, exact=True), CDI)
    assert device_requests(Gpus(count=2, exact=True), GpuWays(support="cdi"))


@pytest.mark.parametrize("support", ["nvidia", ""])
@pytest.mark.parametrize(
    ("gpus", "chosen"),
    [
        (Gpus(), {"Count": -1}),
        (Gpus(count=2), {"Count": 2}),
        (Gpus(devices=("GPU-b", "MIG-c")), {"DeviceIDs": ["GPU-b", "MIG-c"]}),
    ],
)
def test_the_hook_is_asked_for_the_capability_gpu_alone(gpus: Gpus, chosen: dict[str, Any], support: Any) -> None:
    """More capabilities would make the engine set NVIDIA_DRIVER_CAPABILITIES, which is locked."""
    asked = [{"Driver": "nvidia", **chosen, "Capabilities": [["gpu"]]}]
    assert device_requests(gpus, GpuWays(support=support)) == asked


def test_only_a_run_with_gpus_asks_for_any() -> None:
    """Without GPUs the create call asks for none and hides them from a runtime that hands them out by itself."""
    without = container_config(ContainerRun(image="t"), init=True, rootless=False, shm_size=1)
    assert "DeviceRequests" not in without["HostConfig"]
    assert without["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    request = ContainerRun(image="t", gpus=Gpus(count=1))
    devices = device_requests(Gpus(count=1), CDI)
    config = container_config(request, init=True, rootless=False, shm_size=1, devices=devices)
    assert config["HostConfig"]["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]}]
    assert config["Env"] == []


def test_the_engine_is_asked_once() -> None:
    """/info costs a round trip: one per engine, however many ask."""
    calls: list[str] = []

    class Client:
        endpoint = Endpoint(url="tcp://127.0.0.1:1", source="test")
        server = "Docker/28.5.2 (linux)"

        def call(self, method: str, path: str) -> dict[str, Any]:
            calls.append(f"{method} {path}")
            return {"DiscoveredDevices": LISTED}

    engine = DockerEngine(Client())  # type: ignore[arg-type]
    assert (engine.gpu_support(), engine.gpu_support()) == ("cdi", "cdi")
    assert calls == ["GET /info"]


RUNC = "failed to create task for container: failed to create shim task: OCI runtime create failed: "
HOOK = RUNC + "error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: "


@pytest.mark.parametrize(
    ("answer", "sentence", "hint"),
    [
        (
            'could not select device driver "" with capabilities: [[gpu]]',
            "the engine cannot hand GPUs to containers: NVIDIA's container toolkit is not installed or not configured",
            INSTALL,
        ),
        (
            'could not select device driver "cdi" with capabilities: []',
            "the engine cannot hand GPUs to containers: NVIDIA's container toolkit is not installed or not configured",
            INSTALL,
        ),
        (
            "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=7",
            "the engine knows no GPU nvidia.com/gpu=7",
            f"list those it knows: nvidia-ctk cdi list; or {GENERATE}",
        ),
        (
            "CDI device injection failed: no CDI specification directories specified",
            "the engine cannot hand GPUs over by CDI: no CDI specification directories specified",
            GENERATE,
        ),
        (
            f"{HOOK}nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.5, please update your "
            "driver to a newer version, or use an earlier cuda container: unknown",
            "the host's NVIDIA driver is too old for this image, which needs cuda>=12.5",
            "update the driver, or compare this host with the lock: envbuild check",
        ),
        (
            f"{HOOK}unsatisfied condition: driver>=525.60.13 (driver=470.57.02)\n",
            "the host's NVIDIA driver is too old for this image, which needs driver>=525.60.13",
            "update the driver, or compare this host with the lock: envbuild check",
        ),
        (
            f"{HOOK}nvidia-container-cli: device error: 7: unknown device: unknown",
            "the host has no GPU 7",
            "list its GPUs: nvidia-smi -L",
        ),
        (
            f"{HOOK}nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
            "the host's NVIDIA driver was updated under its running kernel module",
            "restart the machine, or load the module anew: sudo modprobe -r nvidia_uvm nvidia && sudo modprobe nvidia",
        ),
        (
            f"{HOOK}nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
            "the host's NVIDIA driver does not answer",
            "see its output: nvidia-smi; compare this host with the lock: envbuild check",
        ),
        (
            f"{HOOK}nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open "
            "shared object file: no such file or directory: unknown",
            "the host's NVIDIA driver does not answer",
            "see its output: nvidia-smi; compare this host with the lock: envbuild check",
        ),
        (
            f"{HOOK}nvidia-container-cli: mount error: something new\n: unknown",
            "NVIDIA's container toolkit could not hand the GPUs over: mount error: something new",
            "see whether the driver answers: nvidia-smi; compare this host with the lock: envbuild check",
        ),
        (
            f'{RUNC}error mounting "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15" to rootfs at "/x": '
            "stat /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15: no such file or directory: unknown",
            "the engine's description of the GPUs names /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15, which the host "
            "does not have",
            GENERATE,
        ),
        (
            'error gathering device information while adding custom device "/dev/nvidia3": no such file or directory',
            "the engine's description of the GPUs names /dev/nvidia3, which the host does not have",
            GENERATE,
        ),
    ],
)  # fmt: skip
def test_refusals_become_sentences_with_a_next_command(answer: str, sentence: str, hint: str) -> None:
    """Errors of engine, hook and runtime about GPUs are reported in plain words, with the next command."""
    error = refused(answer)
    assert isinstance(error, GpusRefusedError)
    assert (error.message, error.hint, error.exit_code) == (sentence, hint, 15)


@pytest.mark.parametrize(
    "answer",
    [
        "network nowhere not found",
        f'{RUNC}exec: "python": executable file not found in $PATH: unknown',
        'error mounting "/srv/data" to rootfs at "/data": no such file or directory',
    ],
)
def test_other_refusals_are_left_alone(answer: str) -> None:
    """A run with GPUs that fails for another reason states that reason."""
    assert refused(answer) is None


def test_the_install_hint_is_complete() -> None:
    """Package, its source, configuration and restart: what a machine without the toolkit needs, in order."""
    commands = (
        "apt-get install nvidia-container-toolkit",
        "nvidia-ctk runtime configure --runtime=docker",
        "restart docker",
    )
    places = [INSTALL.index(command) for command in commands]
    assert places == sorted(places)
    assert GENERATE.endswith("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")


@pytest.mark.parametrize(
    ("gpus", "text"), [(Gpus(), "all"), (Gpus(count=2), "2"), (Gpus(devices=("GPU-a", "0:1")), "GPU-a,0:1")]
)
def test_gpus_are_written_as_they_are_typed(gpus: Gpus, text: str) -> None:
    """The record holds the option's own words."""
    assert str(gpus) == text
