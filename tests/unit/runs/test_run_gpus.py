"""Which GPUs a run gets where a machine has more than the lock wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envbuild.engine.protocol import Gpus
from envbuild.host import probe
from envbuild.host.facts import GpuFacts, GpuProcess, HostGpu, Problem
from envbuild.lockfile.hardware import Gpu, GpuDevice, Hardware
from envbuild.runs.gpus import choose, divided, fitting, given, number_of_gpus


def h100(uuid: str, **changes: Any) -> HostGpu:
    """A GPU that was found."""
    fields = {"name": "NVIDIA H100", "compute_capability": "9.0", "sms": 132, "mig": "none", **changes}
    return HostGpu(uuid=uuid, **fields)


def t4(uuid: str, **changes: Any) -> HostGpu:
    """Another kind."""
    return h100(uuid, name="Tesla T4", compute_capability="7.5", sms=40, **changes)


H100 = GpuDevice(model="NVIDIA H100", compute_capability="9.0", sms=132, mig="none")
BUSY = (GpuProcess(pid=7),)


def hardware(*devices: GpuDevice, exclusive: bool = False, **policy: str) -> Hardware:
    """What a lock states."""
    policies = {f"gpu.{field}": word for field, word in policy.items()}
    return Hardware(gpu=Gpu(devices=devices, exclusive=exclusive), policy=policies)


@pytest.mark.parametrize(
    ("locked", "found", "chosen"),
    [
        ([H100], [h100("a"), h100("b")], ("a",)),
        ([H100], [t4("t"), h100("a"), h100("b")], ("a",)),
        ([GpuDevice(model="NVIDIA H100", count=2)], [h100("a"), t4("t"), h100("b")], ("a", "b")),
        ([GpuDevice(model="Tesla T4"), H100], [h100("a"), h100("b"), t4("t")], ("a", "t")),
        ([GpuDevice(model="NVIDIA H100", count=3)], [h100("a"), t4("t"), h100("b")], ()),
        ([GpuDevice()], [t4("t"), h100("a")], ("t",)),
        ([GpuDevice(mig="3g.40gb")], [h100("w"), h100("m", mig="1g.10gb"), h100("n", mig="3g.40gb")], ("n",)),
        ([H100], [h100("x", sms=114), h100("a")], ("a",)),
        ([H100], [h100("a", sms=0, mig="")], ("a",)),
    ],
)
def test_gpus_as_locked_are_taken_in_order(
    locked: list[GpuDevice], found: list[HostGpu], chosen: tuple[str, ...]
) -> None:
    """Those that are as locked, lowest index first, each for one locked device; what is unknown does not exclude."""
    assert choose(hardware(*locked), found) == chosen


def test_fields_that_may_differ_do_not_choose() -> None:
    """A model that is not compared, or only warns, leaves the first GPU the first."""
    found = [t4("t"), h100("a")]
    assert choose(hardware(GpuDevice(model="NVIDIA H100"), model="any"), found) == ("t",)
    assert choose(hardware(GpuDevice(model="NVIDIA H100"), model="exact, warn"), found) == ("t",)


def test_fields_are_as_strict_as_the_guard_is() -> None:
    """With ``at least`` more SMs will do, and drivers before 470 leave the maker out of a model's name."""
    found = [t4("t"), h100("a", sms=144), h100("b", name="H100")]
    assert choose(hardware(H100, sms="at least"), found) == ("a",)
    assert choose(hardware(H100), found) == ("b",)


def test_a_free_gpu_is_taken_before_a_busy_one_if_it_matters() -> None:
    """``exclusive`` refuses a GPU that others use, so another is looked for; without it the order stays."""
    found = [h100("a", processes=BUSY), h100("b"), h100("c")]
    assert choose(hardware(H100, exclusive=True), found, exclusive=True) == ("b",)
    assert choose(hardware(H100), found) == ("a",)
    assert choose(hardware(H100), [h100("a", processes=BUSY)], exclusive=True) == ("a",)
    found = [h100("a", memory=80000, free=20000), h100("b", memory=80000, free=79500)]
    assert choose(hardware(H100, exclusive=True), found, exclusive=True) == ("b",), "another container's program"


def a_machine(root: Path, monkeypatch: pytest.MonkeyPatch, *devices: HostGpu, whole: int | None = None) -> list[bool]:
    """A machine with these GPUs; returns a list that grows with each look at them."""
    looks: list[bool] = []
    for number in range(len(devices) if whole is None else whole):
        (root / f"proc/driver/nvidia/gpus/0000:0{number}:00.0").mkdir(parents=True)

    def facts() -> GpuFacts:
        looks.append(True)
        return GpuFacts(driver="580.159.04", devices=devices)

    monkeypatch.setattr(probe, "gpu_facts", facts)
    return looks


def test_nothing_is_asked_where_there_is_no_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many GPUs as wanted, or fewer: a count will do, and no GPU is woken for it."""
    looks = a_machine(tmp_path, monkeypatch, t4("t"))
    assert number_of_gpus(tmp_path) == 1
    assert fitting(hardware(H100), Gpus(count=1), tmp_path) == Gpus(count=1)
    assert (number_of_gpus(tmp_path / "none"), looks) == (0, [])


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        ([h100("a"), h100("b")], Gpus(count=1)),
        ([t4("t"), h100("a")], Gpus(devices=("a",))),
        ([t4("t"), t4("u")], Gpus(count=1)),
        ([h100("z", problem=Problem(code=15)), h100("a")], Gpus(devices=("a",))),
        ([h100("a"), h100("z", problem=Problem(code=15))], Gpus(count=1)),
        ([h100(""), t4("t"), h100("a")], Gpus(devices=("a",))),
    ],
)
def test_other_gpus_than_the_first_are_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, devices: list[HostGpu], gpus: Gpus
) -> None:
    """A count where the first are as locked, or none is; names where others are. A broken GPU is none."""
    looks = a_machine(tmp_path, monkeypatch, *devices)
    assert fitting(hardware(H100), Gpus(count=1), tmp_path) == gpus
    assert looks == [True]


def test_slices_are_always_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count would give the whole GPU that was cut, on which no CUDA program runs."""
    a_machine(tmp_path, monkeypatch, h100("m", mig="3g.40gb"), whole=1)
    assert fitting(hardware(GpuDevice(mig="3g.40gb")), Gpus(count=1), tmp_path) == Gpus(devices=("m",))


FOUR = [h100("GPU-aaaaaaa"), h100("GPU-bbbbbbb"), t4("GPU-ccccccc"), h100("GPU-ddddddd")]


@pytest.mark.parametrize(
    ("visible", "local", "count", "chosen"),
    [
        ("", 0, 1, ["a"]),
        ("", 1, 1, ["b"]),
        ("", 2, 1, ["d"]),
        ("", 3, 1, []),
        ("", 0, 2, ["a", "b"]),
        ("", 1, 2, []),
        ("1,3", 1, 1, ["d"]),
        ("3", 1, 1, ["d"]),
        ("GPU-bbbbbbb", 5, 1, ["b"]),
        ("GPU-bbb", 5, 1, ["b"]),
        ("0,9,1", 1, 1, ["a"]),
        ("-1", 0, 1, []),
        ("2", 0, 1, []),
    ],
)
def test_ranks_of_one_machine_share_its_gpus(visible: str, local: int, count: int, chosen: list[str]) -> None:
    """No GPU goes to two ranks: each has what the launcher gave it alone, else its part of those that are as locked."""
    names = divided(hardware(GpuDevice(model="NVIDIA H100", count=count)), given(FOUR, visible), local, count)
    assert [name[4] for name in names] == chosen
