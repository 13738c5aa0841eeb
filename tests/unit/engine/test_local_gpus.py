"""What the local engine hands over for GPUs, from descriptions and from what the driver installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.engine.local import gpus
from envbuild.engine.protocol import Gpus, GpusRefusedError

Describe = Callable[..., None]


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Describe GPUs; without a call there are no descriptions, and no driver."""

    def describe(name: str = "nvidia.json", **table: Any) -> None:
        whole = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", **table}
        (tmp_path / name).write_text(json.dumps(whole))  # JSON is YAML too

    monkeypatch.setenv("ENVBUILD_CDI_DIRS", f"{tmp_path}:/nowhere")
    monkeypatch.setattr(gpus, "_libraries", dict)
    return describe


@pytest.mark.parametrize("name", ["nvidia.json", "nvidia.yaml"])
def test_a_description_becomes_mounts_links_and_a_cache(name: str, describe: Describe, tmp_path: Path) -> None:
    """Nodes, files, variables of the GPU and of all; links and the loader's cache are what the hooks would make."""
    for file in ("null", "libcuda.so.1", "nvidia-smi"):
        (tmp_path / file).touch()
    hooks = [
        {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
         "args": ["nvidia-cdi-hook", "create-symlinks", "--link", "libcuda.so.1::/usr/lib/libcuda.so"]},
        {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook",
         "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", "/usr/lib64", "--folder=/opt/lib"]},
        {"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook", "chmod"]},
    ]  # fmt: skip
    mount = {
        "hostPath": f"{tmp_path}/libcuda.so.1",
        "containerPath": "/usr/lib/libcuda.so.1",
        "options": ["ro", "bind"],
    }
    describe(
        name,
        devices=[
            {
                "name": "0",
                "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": f"{tmp_path}/null"}]},
            },
            {"name": "all", "containerEdits": {}},
        ],
        containerEdits={"mounts": [mount], "env": ["NVIDIA_VISIBLE_DEVICES=void"], "hooks": hooks},
    )
    assert gpus.support() == "cdi"
    handed = gpus.handed(Gpus(count=1))
    assert [(each["target"], each["devices"], each["read_only"]) for each in handed.mounts] == [
        ("/usr/lib/libcuda.so.1", False, True),
        ("/dev/nvidia0", True, False),
    ]
    assert handed.variables == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert handed.links == {"/usr/lib/libcuda.so": "libcuda.so.1"}
    assert handed.folders == ("/usr/lib64", "/opt/lib")


def test_a_gpu_that_is_not_described(describe: Describe) -> None:
    """The message lists those that are."""
    describe(devices=[{"name": "0"}, {"name": "GPU-abc"}])
    with pytest.raises(GpusRefusedError, match=r"^this machine describes no GPU nvidia\.com/gpu=7; it has 0, GPU-abc$"):
        gpus.handed(Gpus(devices=("7",)))


@pytest.mark.parametrize(
    ("edits", "hint"),
    [
        ({"mounts": [{"hostPath": "/no/such/file", "containerPath": "/x"}]}, "describe the GPUs anew: "),
        ({"deviceNodes": [{"path": "/no/such/file"}]}, "load the driver's modules: sudo nvidia-modprobe "),
    ],
)
def test_a_description_that_names_what_is_not_there(describe: Describe, edits: dict[str, Any], hint: str) -> None:
    """The driver was updated, and the description was not; or its modules are not loaded yet."""
    describe(devices=[{"name": "0", "containerEdits": edits}])
    with pytest.raises(GpusRefusedError, match=r"names /no/such/file, which this machine does not have$") as caught:
        gpus.handed(Gpus(count=1))
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("text", ["", "kind: [", "[1, 2]", "kind: nvidia.com/gpu\ndevices: 3", "\x00", "a: &a [*a]"])
def test_unsound_descriptions_describe_nothing(text: str, describe: Describe, tmp_path: Path) -> None:
    """Whatever is in the folder, and however deep."""
    (tmp_path / "broken.yaml").write_text(text)
    (tmp_path / "broken.json").write_text("[" * 5000)
    assert gpus.support() == ""
    with pytest.raises(GpusRefusedError, match=r"neither a CDI description of GPUs nor NVIDIA's driver"):
        gpus.handed(Gpus())


@pytest.fixture
def driver(describe: Describe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a driver and two GPUs, and no description."""
    root = tmp_path / "root"
    for number, identity in ((1, "GPU-a"), (0, "GPU-b")):
        folder = root / f"proc/0000:0{1 - number}:00.0"
        folder.mkdir(parents=True)
        text = f"Model: \t\t NVIDIA T4\nGPU UUID: \t {identity}\nDevice Minor: \t {number}\n"
        (folder / "information").write_text(text)
    monkeypatch.setattr(gpus, "_PROC", root / "proc")
    return root


@pytest.mark.parametrize(
    ("wish", "minors"),
    [
        (Gpus(), [1, 0]),
        (Gpus(count=1), [1]),
        (Gpus(devices=("GPU-b",)), [0]),
        (Gpus(devices=("0", "1")), [1, 0]),
        (Gpus(devices=("MIG-1",)), [1, 0]),
    ],
)
def test_device_nodes_of_the_chosen_gpus(driver: Path, wish: Gpus, minors: list[int]) -> None:
    """Counted in the order of the bus, as the driver does; by identity; all where the driver chooses a slice."""
    assert gpus._minors(wish) == minors


def test_a_gpu_that_is_not_there(driver: Path) -> None:
    """Refused before anything starts."""
    with pytest.raises(GpusRefusedError, match=r"^the host has no GPU GPU-c$"):
        gpus._minors(Gpus(devices=("GPU-c",)))


def test_more_gpus_than_there_are(driver: Path) -> None:
    """`--gpus 3` on a machine with two does not run on two; a lock's count is compared by the guard."""
    with pytest.raises(GpusRefusedError, match=r"^--gpus 3: the host has 2 GPUs$"):
        gpus._minors(Gpus(count=3, exact=True))
    assert gpus._minors(Gpus(count=2, exact=True)) == gpus._minors(Gpus(count=3)) == [1, 0]


def test_more_gpus_than_are_described(describe: Describe) -> None:
    """One device has several names: its index, its identity, `all`."""
    describe(devices=[{"name": "0"}, {"name": "GPU-abc"}, {"name": "all"}])
    with pytest.raises(GpusRefusedError, match=r"^--gpus 2: the host has 1 GPU$"):
        gpus.handed(Gpus(count=2, exact=True))
    gpus.handed(Gpus(count=1, exact=True))


def test_which_libraries_are_the_drivers() -> None:
    """Those for computing, and no graphics."""
    names = [
        "libcuda.so.1",
        "libnvidia-ml.so.1",
        "libnvidia-ptxjitcompiler.so.1",
        "libcudadebugger.so.1",
        "libnvidia-nvvm.so.4",
    ]
    assert all(gpus._driver_library().match(name) for name in names)
    assert not any(
        gpus._driver_library().match(name) for name in ("libcudart.so.12", "libGLX_nvidia.so.0", "libcuda.so.1.x")
    )


def test_libraries_are_found_where_the_loader_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of LD_LIBRARY_PATH come first, then the loader's cache, then where containers have them; 64 bits only."""
    first, cached, last, old = (tmp_path / name for name in ("first", "cached", "last", "old"))
    for folder in (first, cached, last, old):
        folder.mkdir()
        for name in ("libcuda.so", "libcuda.so.1", f"libnvidia-ml.so.{len(folder.name)}", "libother.so.1"):
            (folder / name).write_bytes(b"\x7fELF" + bytes([1 if folder == old else 2]))

    def add(found: dict[str, str]) -> None:
        found.setdefault("libcuda.so.1", f"{cached}/libcuda.so.1")
        found.setdefault("libnvidia-ml.so.6", f"{cached}/libnvidia-ml.so.6")

    monkeypatch.setattr(gpus, "_add_cached", add)
    monkeypatch.setattr(gpus, "_FOLDERS", (str(last),))
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{old}:{first}:/nowhere:relative:")
    assert gpus._libraries() == {
        "libcuda.so.1": f"{first}/libcuda.so.1",
        "libnvidia-ml.so.5": f"{first}/libnvidia-ml.so.5",
        "libnvidia-ml.so.6": f"{cached}/libnvidia-ml.so.6",
        "libnvidia-ml.so.4": f"{last}/libnvidia-ml.so.4",
    }
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert gpus._libraries()["libcuda.so.1"] == f"{cached}/libcuda.so.1"
