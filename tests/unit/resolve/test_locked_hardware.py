"""Requirements and host description make the lock's hardware: the spec wins, what nobody names is not compared."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.errors import SpecError
from envbuild.host import file
from envbuild.host.facts import Cpu, GpuFacts, HostFacts, Problem
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.lockfile.model import dumps, loads
from envbuild.resolve.hardware import ANOTHER, GIVE_ONE, lock_hardware
from envbuild.spec.model import parse_spec
from tests.support.hosts import gpu, host
from tests.support.locks import small_lock

CUDA = Cuda(version="12.9", driver="525.60.13")
H200 = GpuDevice(
    model="NVIDIA H200",
    compute_capability="9.0",
    sms=132,
    mig="none",
    memory=143771,
    ecc=True,
    vbios="96.00.D9.00.01",
    board="900-21010-0040-000",
)
T4 = gpu("Tesla T4", compute_capability="7.5", sms=40, memory=15360, mig="", ecc=None, vbios="", board="")
ANY_GPU = Gpu(driver="525.60.13", devices=(GpuDevice(),))
AT_LEAST = {"gpu.count": "at least", "gpu.driver": "at least"}


def lock(section: str = "{}", facts: HostFacts | None = None, cuda: Cuda | None = None, old: Any = None) -> Hardware:
    """Lock a spec's hardware section; whatever results can be written in a lock and be read again."""
    hardware = lock_hardware(parse_spec(f"name: x\ncuda: auto\nhardware: {section}\n").hardware, facts, cuda, old)
    whole = msgspec.structs.replace(small_lock(), hardware=hardware)
    assert loads(dumps(whole)).hardware == hardware
    return hardware


def refusal(
    section: str = "{}", facts: HostFacts | None = None, cuda: Cuda | None = None, old: Any = None
) -> list[str]:
    """Return what is wrong with a section, each as ``path: message``."""
    wanted = parse_spec(f"name: x\ncuda: auto\nhardware: {section}\n").hardware
    with pytest.raises(SpecError) as caught:
        lock_hardware(wanted, facts, cuda, old, source="my.yaml")
    assert caught.value.source == "my.yaml"
    assert caught.value.hint == (GIVE_ONE if facts is None else ANOTHER)
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


# --- without a host description ------------------------------------------------------------------------------------


def test_an_empty_spec_compares_nothing() -> None:
    """No section and no host: any kernel, any CPU, no GPU, no table of policies."""
    assert lock() == Hardware()
    assert lock("{gpu: none}", cuda=CUDA) == Hardware()


def test_cuda_needs_a_gpu_whose_driver_loads_it() -> None:
    """Without any requirement, CUDA alone asks for one GPU or more and the least driver."""
    assert lock(cuda=CUDA) == Hardware(gpu=ANY_GPU, policy=AT_LEAST)


def test_values_by_hand() -> None:
    """What the spec states is locked, with its policy if that is not the default; one GPU unless it reports more."""
    section = (
        "{kernel: '>=6.1', cpu: {value: v3, policy: exact}, cpu-flags: [fma, avx2], fingerprint: true,"
        " gpu: {model: NVIDIA H200, driver: {value: 580.10, policy: same branch}, sms: {value: 132, policy: exact},"
        " memory: 143771 MiB, ecc: {value: true, policy: any}, exclusive: true}}"
    )
    assert lock(section, cuda=CUDA) == Hardware(
        kernel=">=6.1",
        cpu="x86-64-v3",
        cpu_flags=("avx2", "fma"),
        fingerprint=True,
        gpu=Gpu(
            driver="580.10",
            exclusive=True,
            devices=(GpuDevice(model="NVIDIA H200", sms=132, memory=143771, ecc=True),),
        ),
        policy={"cpu": "exact", "gpu.driver": "same branch", "gpu.ecc": "any"},
    )


def test_a_gpu_by_hand_without_a_driver_needs_one_that_loads_cuda() -> None:
    """The least driver is not lost by naming the model; ``any`` drops it."""
    found = lock("{gpu: {model: NVIDIA H200, count: 4}}", cuda=CUDA)
    assert found.gpu == Gpu(driver="525.60.13", devices=(GpuDevice(model="NVIDIA H200", count=4),))
    assert found.policy == {"gpu.driver": "at least"}
    found = lock("{gpu: {model: NVIDIA H200, driver: any}}", cuda=CUDA)
    assert (found.gpu, found.policy) == (Gpu(devices=(GpuDevice(model="NVIDIA H200"),)), {})


def test_kinds_of_gpu_by_hand() -> None:
    """A list is locked as it is, equal kinds counted together, in one order however it is written."""
    kinds = ("{model: NVIDIA H200, sms: 132}", "{model: Tesla T4, count: 2}", "{model: NVIDIA H200, sms: 132}")
    one = lock(f"{{gpu: {{driver: 580.10, devices: [{', '.join(kinds)}]}}}}")
    other = lock(f"{{gpu: {{driver: 580.10, devices: [{', '.join(reversed(kinds))}]}}}}")
    devices = (GpuDevice(model="NVIDIA H200", sms=132, count=2), GpuDevice(model="Tesla T4", count=2))
    assert one.gpu == other.gpu == Gpu(driver="580.10", devices=devices)
    found = lock(
        "{gpu: {devices: [{model: {value: A, policy: 'exact, warn'}}, {model: {value: B, policy: 'exact,warn'}}]}}"
    )
    assert found.policy == {"gpu.model": "exact, warn"}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("detect", ["hardware: is detect, but no host is described"]),
        ("{gpu: detect}", ["hardware.gpu: is detect, but no host is described"]),
        (
            "{cpu: exact, cpu-flags: exact, gpu: {driver: same branch, count: at least, ecc: any, model: A}}",
            [
                'hardware.gpu.count: "at least" takes the host\'s value, but no host is described',
                'hardware.gpu.driver: "same branch" takes the host\'s value, but no host is described',
                'hardware.cpu: "exact" takes the host\'s value, but no host is described',
                'hardware.cpu-flags: "exact" takes the host\'s value, but no host is described',
            ],
        ),
    ],
)
def test_what_is_left_to_the_host_needs_one(section: str, expected: list[str]) -> None:
    """Every field that a host would have to fill is named, with how to describe one."""
    assert refusal(section) == expected


def test_any_needs_no_host() -> None:
    """What is not compared may stay unknown, and then has no policy."""
    assert lock("{cpu-flags: any, gpu: {vbios: any, count: any}}") == Hardware(
        gpu=Gpu(devices=(GpuDevice(),)), policy={"gpu.count": "any"}
    )


# --- with a host description ---------------------------------------------------------------------------------------


def test_a_host_fills_what_the_spec_leaves_open() -> None:
    """Kernel (not older), CPU, driver and GPUs come from the description, whose digest is kept."""
    facts = host([gpu(), gpu(uuid="GPU-1")])
    expected = Hardware(
        kernel=">=6.8",
        cpu="x86-64-v4",
        cpu_flags=("avx2", "avx512f", "fma"),
        host=file.digest(facts),
        gpu=Gpu(driver="580.159.04", devices=(msgspec.structs.replace(H200, count=2),)),
    )
    assert lock("detect", facts) == lock("{gpu: detect}", facts) == lock(facts=facts, cuda=CUDA) == expected


def test_gpus_are_locked_where_something_uses_them() -> None:
    """Without CUDA and without a requirement, a run on a host with GPUs has none; nor if the spec reports none."""
    facts = host([gpu()])
    assert lock(facts=facts).gpu is None
    assert lock("{gpu: none}", facts, CUDA).gpu is None


def test_the_spec_has_precedence_over_the_host() -> None:
    """By-hand values replace the description's, and the lock states which ones did."""
    facts = host([gpu(), gpu()])
    section = "{kernel: any, cpu: v3, gpu: {driver: 570.10, count: 1, sms: any, memory: {value: 16 GiB, policy: any}}}"
    found = lock(section, facts)
    assert (found.kernel, found.cpu, found.cpu_flags) == ("", "x86-64-v3", ("avx2", "avx512f", "fma"))
    assert found.gpu == Gpu(driver="570.10", devices=(msgspec.structs.replace(H200, memory=16384),))
    assert found.policy == {"gpu.memory": "any", "gpu.sms": "any"}
    assert found.by_hand == ("cpu", "gpu.count", "gpu.driver", "gpu.memory", "kernel")


def test_a_policy_takes_the_host_s_value() -> None:
    """A policy word alone changes how strictly, not what."""
    found = lock("{gpu: {driver: same branch, vbios: any, count: at least}}", host([gpu(), gpu()]))
    assert found.gpu == Gpu(driver="580.159.04", devices=(msgspec.structs.replace(H200, count=2),))
    assert found.policy == {"gpu.count": "at least", "gpu.driver": "same branch", "gpu.vbios": "any"}


def test_the_order_of_gpus_makes_no_difference() -> None:
    """Indexes are not stable, so equal GPUs are counted together and kinds have one order."""
    gpus = [gpu(), T4, gpu(ecc=False), gpu()]
    found = lock("detect", host(gpus)).gpu
    assert found == lock("detect", host(reversed(gpus))).gpu
    assert found is not None
    assert [(kind.count, kind.model, kind.ecc) for kind in found.devices] == [
        (2, "NVIDIA H200", True),
        (1, "NVIDIA H200", False),
        (1, "Tesla T4", None),
    ]


def test_a_model_by_hand_chooses_among_the_host_s_gpus() -> None:
    """A display card next to the training GPUs is left out by naming those."""
    found = lock("{gpu: {model: NVIDIA H200}}", host([T4, gpu(), gpu()]))
    assert found.gpu == Gpu(driver="580.159.04", devices=(msgspec.structs.replace(H200, count=2),))
    found = lock("{gpu: {mig: 1g.18gb}}", host([gpu(), gpu(mig="1g.18gb", sms=16, memory=16384)]))
    assert found.gpu is not None
    assert [(kind.count, kind.mig, kind.sms) for kind in found.gpu.devices] == [(1, "1g.18gb", 16)]


def test_unknown_facts_are_not_compared() -> None:
    """What NVML or libcuda did not report stays empty."""
    bare = gpu(compute_capability="", sms=0, memory=0, mig="", ecc=None, vbios="", board="")
    facts = host([bare], kernel="unknown", cpu=Cpu())
    assert lock("detect", facts) == Hardware(
        host=file.digest(facts), gpu=Gpu(driver="580.159.04", devices=(GpuDevice(model="NVIDIA H200"),))
    )


def test_the_baseline_level_has_the_spec_s_name() -> None:
    """The baseline is x86-64 everywhere; another architecture has no level."""
    assert lock(facts=host(cpu=Cpu(level="x86-64"))).cpu == "x86-64"
    assert lock(facts=host(cpu=Cpu(level="any"), machine="aarch64")).cpu == "any"


def test_a_host_without_a_gpu_still_locks_cuda() -> None:
    """On a laptop, the driver's floor is in for a GPU; by hand, a GPU may be named."""
    found = lock(facts=host(), cuda=CUDA)
    assert (found.gpu, found.policy, found.kernel) == (ANY_GPU, AT_LEAST, ">=6.8")
    found = lock("{gpu: {model: NVIDIA H200}}", host(), CUDA)
    assert found.gpu == Gpu(driver="525.60.13", devices=(GpuDevice(model="NVIDIA H200"),))
    assert lock("detect", host()).gpu is None


MISMATCH = Problem(code=18, name="NVML_ERROR_LIB_RM_VERSION_MISMATCH", message="Driver/library version mismatch")
LOST = Problem(code=15, name="NVML_ERROR_GPU_IS_LOST", message="GPU is lost")


@pytest.mark.parametrize(
    ("section", "facts", "expected"),
    [
        (
            "{gpu: detect}",
            host(),
            "hardware.gpu: is detect, but the host described has no GPU: no NVIDIA driver is loaded there",
        ),
        (
            "{gpu: detect}",
            host(problem=MISMATCH),
            "hardware.gpu: is detect, but the host described has no GPU: NVML reported: Driver/library version mismatch"
            " (NVML_ERROR_LIB_RM_VERSION_MISMATCH)",
        ),
        (
            "{gpu: detect}",
            host(gpu=GpuFacts(driver="580.10")),
            "hardware.gpu: is detect, but the host described has no GPU: driver 580.10 is loaded, but it shows no GPU",
        ),
        (
            "{gpu: detect}",
            host([gpu(problem=LOST)]),
            "hardware.gpu: is detect, but the host described has no GPU that can be opened: NVIDIA H200 (GPU is lost)",
        ),
        (
            "detect",
            host(problem=MISMATCH),
            "hardware: is detect, but the host described has no GPU: NVML reported: Driver/library version mismatch"
            " (NVML_ERROR_LIB_RM_VERSION_MISMATCH); write {gpu: none} if it needs none",
        ),
        (
            "detect",
            host([gpu(), gpu("", problem=LOST)]),
            "hardware.gpu.count: is left to the host, but a GPU there cannot be opened: GPU 1 (GPU is lost)",
        ),
        (
            "{gpu: {sms: exact}}",
            host(),
            'hardware.gpu.sms: "exact" takes the host\'s value, but the host described has no GPU:'
            " no NVIDIA driver is loaded there",
        ),
        (
            "{gpu: {sms: exact}}",
            host([gpu(sms=0)]),
            'hardware.gpu.sms: "exact" takes the host\'s value, but the host description does not know it',
        ),
        (
            "{gpu: {model: NVIDIA H100}}",
            host([gpu(), gpu(), T4]),
            'hardware.gpu.model: is "NVIDIA H100", but the host described has 2 × NVIDIA H200, 1 × Tesla T4',
        ),
        (
            "{gpu: {compute-capability: 8.0}}",
            host([gpu(), T4]),
            'hardware.gpu.compute-capability: is "8.0", but the host described has 7.5, 9.0',
        ),
        (
            "{gpu: {count: 1}}",
            host([gpu(), T4]),
            "hardware.gpu.count: is 1, but of which kind? 1 × NVIDIA H200, 1 × Tesla T4; list them in devices",
        ),
    ],
)
def test_a_host_that_does_not_fit_the_spec_is_refused(section: str, facts: HostFacts, expected: str) -> None:
    """A contradiction is reported when locking, with what the description has, not guessed away."""
    assert refusal(section, facts) == [expected]


def test_a_gpu_that_cannot_be_opened_may_be_left_out_by_hand() -> None:
    """A person may state how many GPUs count."""
    found = lock("{gpu: {count: 1}}", host([gpu(), gpu(problem=LOST)]))
    assert found.gpu is not None
    assert found.gpu.count == 1


KIND = "hardware.gpu.devices[0]"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            host([gpu()], driver="newest"),
            'hardware.gpu.driver: expected a driver version such as 580.159.04, found "newest"',
        ),
        (host([gpu(sms=5000)]), f"{KIND}.sms: expected a whole number, 4096 or less, found 5000"),
        (host([gpu(sms=-1)]), f"{KIND}.sms: expected a whole number, 0 or more, found -1"),
        (
            host([gpu(memory=1 << 63)]),
            f"{KIND}.memory: expected a whole number, 1099511627776 or less, found 9223372036854775808",
        ),
        (
            host([gpu("a\u2028b")]),
            f'{KIND}.model: expected one line of text without control characters, found "a\\u2028b"',
        ),
        (
            host([gpu("a\x9bb")]),
            f'{KIND}.model: expected one line of text without control characters, found "a\\u009bb"',
        ),
    ],
)
def test_a_fact_that_a_lock_cannot_hold_is_refused(facts: HostFacts, expected: str) -> None:
    """A description corrected by hand cannot bring into a lock what no GPU has, or what would redraw a screen."""
    with pytest.raises(SpecError) as caught:
        lock_hardware(parse_spec("name: x\nhardware: detect\n").hardware, facts, None, None)
    assert [f"{problem.path}: {problem.message}" for problem in caught.value.problems] == [
        f"{expected} in the host description"
    ]


# --- locking again -------------------------------------------------------------------------------------------------


def test_locking_again_keeps_the_host() -> None:
    """Without a description, the values of the old lock's host stay, byte for byte, whatever else the spec has."""
    facts = host([gpu(), T4])
    sections = ("detect", "{gpu: detect, fingerprint: true}", "{gpu: {driver: same branch}}")
    for section in sections:
        old = lock(section, facts, CUDA)
        assert lock(section, None, CUDA, old) == old
    old = lock("detect", facts)
    assert lock("{gpu: {driver: any, exclusive: true}}", None, None, old) == lock(
        "{gpu: {driver: any, exclusive: true}}", facts
    )
    assert lock("{gpu: none, kernel: '>=5'}", None, None, old).gpu is None


def test_values_by_hand_are_not_taken_for_the_host_s() -> None:
    """A field that leaves the spec again is asked for: what the host had there is not known any more."""
    section = "{kernel: any, gpu: {driver: 570.10, count: 1}}"
    old = lock(section, host([gpu(), gpu()]))
    assert lock(section, None, None, old) == old
    was = "was in the spec when this lock was made, so what the host has there is not known"
    assert refusal("{gpu: {ecc: any}}", None, None, old) == [
        f"hardware.gpu.count: {was}",
        f"hardware.gpu.driver: {was}",
        f"hardware.kernel: {was}",
    ]
    assert refusal("{gpu: detect, kernel: any}", None, None, old)[0] == f"hardware.gpu.count: {was}"
    assert lock("{kernel: '>=5', gpu: {driver: any, count: 2}}", None, None, old).by_hand == ("gpu.count", "kernel")


def test_a_lock_of_a_host_without_gpu_keeps_that() -> None:
    """The floor that stood in for a GPU is not taken for a GPU of the host."""
    old = lock(facts=host(), cuda=CUDA)
    newer = Cuda(version="13.0", driver="580.65.06")
    found = lock(cuda=newer, old=old)
    assert (found.gpu, found.policy) == (Gpu(driver="580.65.06", devices=(GpuDevice(),)), AT_LEAST)
    assert refusal("{gpu: detect}", None, None, old) == [
        "hardware.gpu: is detect, but the host described has no GPU: this lock keeps none of its host"
    ]


def test_a_lock_without_a_host_keeps_nothing() -> None:
    """A value of the spec alone is gone when the spec drops it."""
    old = lock("{kernel: '>=6.1', gpu: {model: NVIDIA H200}}")
    assert lock(old=old) == Hardware()


def test_two_locks_for_two_hosts_differ_in_hardware_alone() -> None:
    """Everything else in the two files is the same, byte for byte."""
    whole = small_lock({"a-1.0-py3-none-any.whl": b"a"})
    texts = []
    for facts in (host([gpu()]), host([T4, T4], driver="570.86.15", kernel="5.15.0", cpu=Cpu(level="x86-64-v3"))):
        hardware = lock("{gpu: detect}", facts, CUDA)
        texts.append(dumps(msgspec.structs.replace(whole, cuda=CUDA, hardware=hardware)).decode())
    texts = [re.sub(r'(?m)^digest = ".*"$', "", text) for text in texts]
    rest = [[part for part in text.split("\n[") if "tool.envbuild.hardware" not in part] for text in texts]
    assert rest[0] == rest[1]
    assert len(rest[0]) > 4
    assert texts[0] != texts[1]


def test_equal_machines_give_equal_locks() -> None:
    """Two nodes that differ in serials and load are one host to a lock."""
    busy = host([gpu(uuid="GPU-2", free=10, persistence=False)], memory=1, libc="glibc 2.40")
    assert lock("detect", busy) == lock("detect", host([gpu()]))


_VALUES = {
    "model": ["NVIDIA H200", "Tesla T4", "any", "exact"],
    "count": [1, 2, 3, "at least", {"value": 2, "policy": "at least"}],
    "driver": ["580.10", "same branch", "any", {"value": "570.10", "policy": "exact, warn"}],
    "sms": [132, 16, "any", "at least"],
    "mig": ["none", "1g.18gb"],
    "ecc": [True, "any"],
    "memory": ["16 GiB", "exact"],
}
_gpus = st.one_of(
    st.sampled_from(["none", "detect"]),
    st.fixed_dictionaries({}, optional={key: st.sampled_from(some) for key, some in _VALUES.items()}).filter(bool),
    st.sampled_from([{"devices": [{"model": "NVIDIA H200", "count": 2}, {"ecc": True}]}, {"exclusive": True}]),
)
_sections = st.just("detect") | st.fixed_dictionaries(
    {},
    optional={
        "gpu": _gpus,
        "kernel": st.sampled_from(["any", ">=5.10,<7"]),
        "cpu": st.sampled_from(["any", "exact", "v3", {"value": "v2", "policy": "exact"}]),
        "cpu-flags": st.sampled_from([["fma"], "any", "at least"]),
        "fingerprint": st.booleans(),
    },
)
_machines = st.builds(
    lambda gpus, problem: host(gpus, problem=problem),
    st.lists(
        st.sampled_from([gpu(), T4, gpu(mig="1g.18gb", sms=16), gpu(ecc=False, sms=0), gpu(problem=LOST)]), max_size=4
    ),
    st.sampled_from([None, None, MISMATCH]),
)


@given(_sections, st.none() | _machines, st.sampled_from([None, CUDA]))
@settings(max_examples=200, deadline=None)
def test_any_wish_and_any_host_give_a_lock_that_stays(section: Any, facts: HostFacts | None, cuda: Cuda | None) -> None:
    """Whatever can be locked can be written, and locking again without the description changes nothing."""
    text = msgspec.json.encode(section).decode()
    try:
        first = lock(text, facts, cuda)
    except SpecError:
        return
    assert lock(text, None, cuda, first) == first
    assert set(first.policy) <= {"cpu", "cpu.flags"} or first.gpu is not None


def test_an_optional_gpu_is_any_that_loads_the_cuda() -> None:
    """Also where a host with GPUs is described: those are not locked."""
    wanted = Hardware(gpu=ANY_GPU, gpu_optional=True, policy=AT_LEAST)
    assert lock("{gpu: optional}", cuda=CUDA) == wanted
    described = lock("{gpu: optional}", host([gpu("NVIDIA H200")]), CUDA)
    assert (described.gpu, described.gpu_optional) == (ANY_GPU, True)
    assert b"gpu-optional" not in dumps(small_lock())
