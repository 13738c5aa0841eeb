"""``envbuild lock`` and hosts: where a description comes from, what is reported, and what moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.cli.render.events import Line
from envbuild.cli.render.lock import change_lines, hardware_lines
from envbuild.errors import SpecError, UsageError
from envbuild.host import file, probe
from envbuild.host.facts import HostFacts
from envbuild.lockfile.changes import changes
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.lockfile.model import Lock
from envbuild.operations.lock_hardware import Host
from envbuild.spec.model import parse_spec
from tests.support.hosts import gpu, host
from tests.support.locks import small_lock

CUDA = Cuda(version="12.9", cudnn="9.10.2.21", cublas="12.9.1.4", nccl="2.27.3", driver="525.60.13")
H200 = GpuDevice(model="NVIDIA H200", sms=132, count=2)


@pytest.fixture(name="here")
def _here(monkeypatch: pytest.MonkeyPatch) -> HostFacts:
    """This machine, as far as the test goes: two H200."""
    facts = host([gpu(), gpu()])
    monkeypatch.setattr(probe, "probe_host", lambda: facts)
    return facts


def found(section: str, option: str = "", old: Lock | None = None) -> Host:
    """Find the host for a spec with this hardware section."""
    return Host.of(parse_spec(f"name: x\nhardware: {section}\n"), Path("a/spec.yaml"), option, old)


def locked(**hardware: Any) -> Lock:
    """Return a lock with this hardware."""
    return msgspec.structs.replace(small_lock(), hardware=Hardware(**hardware))


def holding(seen: Host, cuda: Cuda | None = None) -> Lock:
    """Return a lock for a host."""
    return msgspec.structs.replace(small_lock(), hardware=seen.lock(cuda))


def test_where_the_description_comes_from(here: HostFacts, tmp_path: Path) -> None:
    """A file, this machine if the option or the spec asks, else none."""
    path = tmp_path / "host.toml"
    path.write_text(file.dumps(host()))
    assert found("{}", str(path)).facts == host()
    assert found("detect", str(path)).facts == host()
    assert found("{}", "detect").facts == here
    assert found("detect").facts == found("{gpu: detect}").facts == here
    assert found("{gpu: {model: A}}").facts is None
    assert found("{}", "none").facts is None


def test_a_lock_keeps_its_host(here: HostFacts) -> None:
    """Without an option the old lock's host stays, also where the spec reports detect; ``none`` forgets it."""
    old = locked(host="a" * 64, kernel=">=5.15", gpu=Gpu(driver="570.10", devices=(H200,)))
    assert found("detect", "", old).facts is None
    assert found("detect", "", old).lock(None) == old.hardware
    assert found("detect", "detect", old).lock(None).host == file.digest(here)
    assert found("{gpu: none}", "none", old).lock(None) == Hardware()
    with pytest.raises(SpecError, match="hardware: is detect, but no host is described"):
        found("detect", "none", old).lock(None)
    by_hand = locked(kernel=">=5.15")
    assert found("detect", "", by_hand).facts == here


def test_a_wrong_option_is_refused(here: HostFacts, tmp_path: Path) -> None:
    """Neither a word nor a file: both are named; a description of another machine type is refused."""
    with pytest.raises(UsageError) as caught:
        found("{}", "detekt")
    assert caught.value.message == (
        "--host detekt: expected detect, none or the file of a host description, and there is no such file"
    )
    assert caught.value.hint == "describe a host, on it: envbuild probe -o host.toml"
    path = tmp_path / "arm.toml"
    path.write_text(file.dumps(host(machine="aarch64")))
    with pytest.raises(UsageError) as caught:
        found("{}", str(path))
    assert caught.value.message == f"--host {path}: the spec is for amd64 (x86_64), but the host is aarch64"
    path.write_text("format = 1")
    with pytest.raises(SpecError, match=r"^arm\.toml has 1 problem\n  kernel: missing$"):
        found("{}", str(path))


def test_problems_name_the_spec_s_file() -> None:
    """What cannot be locked is a mistake of the spec, reported before anything is resolved."""
    with pytest.raises(SpecError) as caught:
        found("{cpu: exact}").lock(None)
    assert caught.value.message.splitlines()[0] == "spec.yaml has 1 problem"


def test_gpus_that_are_not_locked_are_reported(here: HostFacts) -> None:
    """Someone who locks for a GPU server without CUDA is warned that its GPUs are not compared."""
    seen = found("{}", "detect")
    assert seen.notes(holding(seen)) == (
        "not locked: the host's 2 × NVIDIA H200, since cuda is none; if your code uses them: hardware: {gpu: detect}",
    )
    for section, cuda in (("{gpu: none}", None), ("{gpu: detect}", None), ("{}", CUDA)):
        seen = found(section, "detect")
        assert seen.notes(holding(seen, cuda)) == ()
    assert found("{}").notes(small_lock()) == ()


def test_a_lock_that_refuses_its_own_host(here: HostFacts) -> None:
    """What the spec states by hand stays, so where the host has something else, that is reported when it is locked."""
    seen = found('{kernel: ">=6.99", gpu: {driver: "570.86.15", sms: 144}}', "detect")
    assert seen.notes(holding(seen)) == (
        "the host described does not match this lock: kernel: ≥ 6.99, not 6.8.0-45-generic",
        "the host described does not match this lock: gpu.sms: 144, not 132 (all 2 GPUs)",
        "the host described does not match this lock: gpu.driver: 570.86.15, not 580.159.04",
    )
    seen = found('{gpu: {driver: {value: "580.10", policy: at least}, exclusive: true}}', "detect")
    assert seen.notes(holding(seen)) == ()


def test_several_slices_are_reported() -> None:
    """CUDA shows a program one MIG slice: of several locked ones, chance would choose."""
    slices = host([gpu("A", mig="3g.40gb", sms=60), gpu("A", mig="1g.10gb", sms=16)])
    seen = Host(wanted=parse_spec("name: x\nhardware: {gpu: detect}\n").hardware, facts=slices, old=None, source="s")
    assert seen.notes(holding(seen)) == (
        "CUDA shows a program one MIG slice, the first of those it is given: lock the one it needs, "
        "hardware: {gpu: {mig: 1g.10gb, count: 1}}",
    )
    one = parse_spec("name: x\nhardware: {gpu: {mig: 3g.40gb, count: 1}}\n").hardware
    seen = Host(wanted=one, facts=slices, old=None, source="s")
    assert (seen.notes(holding(seen)), seen.lock(None).gpu.devices[0].sms) == ((), 60)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("hardware", "line"),
    [
        (Hardware(), "no GPU; kernel any; CPU any"),
        (Hardware(kernel=">=5.10,<7", cpu="x86-64-v3"), "no GPU; kernel ≥ 5.10, < 7; CPU x86-64-v3"),
        (
            Hardware(kernel=">=6.1", cpu="x86-64-v4", gpu=Gpu(driver="580.159.04", devices=(H200,))),
            "2 × NVIDIA H200, driver 580.159.04 exact; kernel ≥ 6.1; CPU x86-64-v4",
        ),
        (
            Hardware(
                gpu=Gpu(driver="525.60.13", devices=(GpuDevice(),)),
                policy={"gpu.count": "at least", "gpu.driver": "at least"},
            ),
            "at least 1 × GPU, driver ≥ 525.60.13; kernel any; CPU any",
        ),
        (
            Hardware(
                cpu="x86-64-v3",
                gpu=Gpu(
                    driver="580.10", exclusive=True, devices=(GpuDevice(model="A", mig="3g.40gb"), GpuDevice(model="B"))
                ),
                policy={"gpu.driver": "same branch, warn", "cpu": "exact", "gpu.count": "any"},
            ),
            "any number of 1 × A (MIG 3g.40gb), 1 × B, driver 580.10 same branch, warn, exclusive; kernel any;"
            " CPU x86-64-v3 exact",
        ),
        (
            Hardware(cpu_flags=("avx2", "fma"), fingerprint=True),
            "no GPU; kernel any; CPU any with 2 flags; numeric fingerprint",
        ),
        (
            Hardware(
                cpu="x86-64-v3",
                gpu=Gpu(driver="580.10", devices=(H200,)),
                policy={"gpu.driver": "any", "cpu": "any"},
            ),
            "2 × NVIDIA H200, driver 580.10 not compared; kernel any; CPU x86-64-v3 not compared",
        ),
    ],
)
def test_the_hardware_line(hardware: Hardware, line: str) -> None:
    """One line states what a host must be, as a person would."""
    assert list(hardware_lines(msgspec.structs.replace(small_lock(), hardware=hardware))) == [Line("hardware", (line,))]


def test_the_cuda_line() -> None:
    """CUDA and its libraries are in one place, with the least driver; what is not there is not named."""
    _, line = hardware_lines(msgspec.structs.replace(small_lock(), cuda=CUDA))
    assert line == Line("cuda", ("CUDA 12.9, cuDNN 9.10.2.21, cuBLAS 12.9.1.4, NCCL 2.27.3; driver ≥ 525.60.13",))
    _, line = hardware_lines(msgspec.structs.replace(small_lock(), cuda=Cuda(version="13.0", driver="580.65.06")))
    assert line == Line("cuda", ("CUDA 13.0; driver ≥ 580.65.06",))


def test_what_moved_between_two_hosts() -> None:
    """Each hardware field and CUDA library that moved has a line, by the name a spec gives it."""
    old = locked(kernel=">=5.15", gpu=Gpu(driver="570.10", devices=(H200,)), cpu_flags=("avx2", "fma"), host="a" * 64)
    t4 = GpuDevice(model="Tesla T4", sms=40, ecc=False)
    new = locked(
        kernel=">=5.15",
        gpu=Gpu(driver="580.10", devices=(t4,)),
        cpu_flags=("avx2",),
        policy={"gpu.driver": "same branch"},
    )
    assert change_lines(changes(old, msgspec.structs.replace(new, cuda=CUDA))) == [
        "cuda.cublas                   (not locked) → 12.9.1.4",
        "cuda.cudnn                    (not locked) → 9.10.2.21",
        "cuda.driver                   (not locked) → 525.60.13",
        "cuda.nccl                     (not locked) → 2.27.3",
        "cuda.version                  (not locked) → 12.9",
        "hardware.cpu-flags            avx2 fma → avx2",
        "hardware.gpu.count            2 → 1",
        "hardware.gpu.driver           570.10 → 580.10",
        "hardware.gpu.driver policy    exact → same branch",
        "hardware.gpu.ecc              (not locked) → false",
        "hardware.gpu.model            NVIDIA H200 → Tesla T4",
        "hardware.gpu.sms              132 → 40",
    ]
    mixed = locked(kernel=">=5.15", gpu=Gpu(driver="570.10", devices=(H200, t4)), cpu_flags=("avx2", "fma"))
    assert "hardware.gpu.devices[1].model (not locked) → Tesla T4" in change_lines(changes(old, mixed))
    assert change_lines(changes(old, old)) == []


def test_check_takes_no_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``lock --check`` asks nothing of any host, so a host next to it is a mistake."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lock", "--check", "--host", "detect"]) == 2
    assert capsys.readouterr().err == (
        "envbuild: --check compares a lock with its spec, not with a host\n  → compare with this host: envbuild check\n"
    )
