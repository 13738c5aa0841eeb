"""GPUs for a container: CDI where the engine has it, else NVIDIA's runtime hook.

CDI (Container Device Interface) names devices ``nvidia.com/gpu=0``, ``=GPU-<uuid>``, ``=0:1`` for a MIG slice and
``=all``, described in files that ``nvidia-ctk cdi generate`` writes. Docker has it from 25 on if switched on, from 28.2
on by itself, and then lists the devices in ``/info``. The hook takes a count or identities and is all that older
engines have.

Only the capability ``gpu`` is asked for: with it the engine sets ``NVIDIA_VISIBLE_DEVICES`` alone. Each of NVIDIA's own
(``compute``, ``utility``) would make it set ``NVIDIA_DRIVER_CAPABILITIES``, which is locked.

Sources: https://docs.docker.com/reference/api/engine/version/v1.51/ (SystemInfo, DeviceRequest), moby's
daemon/devices_nvidia_linux.go and daemon/cdi.go, https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envbuild.engine.cdi import FOLDERS, KIND, chosen_names, describes_gpus
from envbuild.engine.protocol import Gpus, GpusRefusedError, GpuSupport
from envbuild.errors import EngineError

INSTALL = (
    "install NVIDIA's container toolkit on the engine's machine; on Debian and Ubuntu, with NVIDIA's package "
    "repository (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/install-guide.html): "
    "sudo apt-get install nvidia-container-toolkit && sudo nvidia-ctk runtime configure --runtime=docker && "
    "sudo systemctl restart docker"
)
GENERATE = "describe the GPUs anew: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuWays:
    """How an engine passes GPUs.

    Attributes:
        support: ``cdi``, ``nvidia``, or empty if it does not state that it can.
        devices: names below ``nvidia.com/gpu`` that the engine lists; empty if it lists none.
    """

    support: GpuSupport = ""
    devices: tuple[str, ...] = ()


def gpu_ways(info: Mapping[str, Any], server: str, local: bool) -> GpuWays:
    """Read from an engine's ``/info`` how it passes GPUs.

    Args:
        info: the answer.
        server: what the engine calls itself; podman does not report in ``/info`` that it knows CDI.
        local: the engine is on this machine, so that its CDI folders can be looked into.
    """
    listed = [str(device.get("ID", "")).partition("=") for device in info.get("DiscoveredDevices") or ()]
    devices = tuple(name for kind, _, name in listed if kind == KIND)
    folders = info.get("CDISpecDirs") or (FOLDERS if server.startswith("Libpod") else ())
    if devices or (local and any(describes_gpus(folder) for folder in folders)):
        return GpuWays(support="cdi", devices=devices)
    return GpuWays(support="nvidia" if "nvidia" in (info.get("Runtimes") or {}) else "")


def device_requests(gpus: Gpus, ways: GpuWays) -> list[dict[str, Any]]:
    """Translate a wish into the ``DeviceRequests`` of the create call.

    An engine that reports no GPUs is asked like one with NVIDIA's runtime: it may have the hook all the same, and
    refuses by itself if it does not.
    """
    if ways.support == "cdi":
        names = gpus.devices or chosen_names(gpus, ways.devices)
        return [{"Driver": "cdi", "DeviceIDs": [f"{KIND}={name}" for name in names]}]
    chosen: dict[str, Any] = {"DeviceIDs": list(gpus.devices)} if gpus.devices else {"Count": gpus.count or -1}
    return [{"Driver": "nvidia", **chosen, "Capabilities": [["gpu"]]}]


def refused(message: str) -> EngineError | None:
    """Turn what an engine reports of GPUs into an error a person can act on; None if it is about something else."""
    for pattern, sentence, hint in _ANSWERS:
        if found := re.search(pattern, message):
            return GpusRefusedError(sentence.format(*found.groups()), hint)
    return None


_CHECK = "compare this host with the lock: envbuild check"
_ANSWERS = (
    (
        r"could not select device driver",
        "the engine cannot hand GPUs to containers: NVIDIA's container toolkit is not installed or not configured",
        INSTALL,
    ),
    (
        r"unresolvable CDI devices ([^\n\"]*[^\s\"])",
        "the engine knows no GPU {0}",
        f"list those it knows: nvidia-ctk cdi list; or {GENERATE}",
    ),
    (
        r"CDI (?:device injection failed|registry initialization failure): ([^\n]*)",
        "the engine cannot hand GPUs over by CDI: {0}",
        GENERATE,
    ),
    (
        r"unsatisfied condition: ([^\n(]*?)(?:, please|\s*\(|\n|$)",
        "the host's NVIDIA driver is too old for this image, which needs {0}",
        f"update the driver, or {_CHECK}",
    ),
    (
        r"nvidia-container-cli: device error: (\S*?):? unknown device",
        "the host has no GPU {0}",
        "list its GPUs: nvidia-smi -L",
    ),
    (
        r"driver/library version mismatch",
        "the host's NVIDIA driver was updated under its running kernel module",
        "restart the machine, or load the module anew: sudo modprobe -r nvidia_uvm nvidia && sudo modprobe nvidia",
    ),
    (
        r"driver not loaded|libnvidia-ml\.so\.1: cannot open shared object file|driver rpc error",
        "the host's NVIDIA driver does not answer",
        f"see its output: nvidia-smi; {_CHECK}",
    ),
    (
        r"nvidia-container-cli: ([^\n]*[^\s\n])",
        "NVIDIA's container toolkit could not hand the GPUs over: {0}",
        f"see whether the driver answers: nvidia-smi; {_CHECK}",
    ),
    (
        r"(?:custom device|error mounting) \"([^\"]*(?:nvidia|libcuda)[^\"]*)\"[^\n]*no such file or directory",
        "the engine's description of the GPUs names {0}, which the host does not have",
        GENERATE,
    ),
)
"""Messages of engines and NVIDIA's tools, the most specific first: pattern, sentence, next command."""
