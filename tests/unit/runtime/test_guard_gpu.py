"""The GPU's checks: each mismatch with its field and its sentence, matching hosts, order, policies."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from envbuild.runtime.guard import checks, gpu_match, table
from tests.support.gpu_facts import (
    A100,
    EIGHT,
    H100,
    H200,
    LAPTOP,
    MATCHES,
    MISMATCHES,
    T4,
    expect,
    facts,
    found,
    libcuda,
)


def judge(wanted: dict[str, Any], seen: dict[str, Any], scope: str = "image", **variables: str) -> list[checks.Check]:
    return checks.gpu(wanted, {"scope": scope, "environment": variables, "gpu": seen})


def failures(done: list[checks.Check]) -> dict[str, tuple[str, str]]:
    """What refuses and has a separate row: found and meaning by field."""
    failed = {check.field for check in done if not check.ok}
    return {
        check.field: (check.found, check.meaning) for check in done if check.refuses and check.because not in failed
    }


@pytest.mark.parametrize("case", MISMATCHES.values(), ids=MISMATCHES)
def test_mismatch(case: tuple[Any, ...]) -> None:
    """Each difference is refused with one row: its field, what was found, what it means; and it states what to do."""
    wanted, seen, field, value, meaning, *variables = case
    done = judge(wanted, seen, **(variables[0] if variables else {}))
    rows = failures(done)
    assert rows == {field: (value, meaning)}
    check = next(check for check in done if check.field == field)
    assert f"envbuild run --allow {field}" in check.fix.splitlines()[-1]
    assert len(check.fix.splitlines()) > 1
    assert checks.refused(done)


@pytest.mark.parametrize("case", MATCHES.values(), ids=MATCHES)
def test_match(case: tuple[Any, ...]) -> None:
    """Each matching host is accepted; only differences that are meant to warn do."""
    wanted, seen, *more = case
    done = judge(wanted, seen, **(more[0] if more else {}))
    assert [check.field for check in done if not check.ok] == (more[1] if len(more) > 1 else [])
    assert not checks.refused(done)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_order_means_nothing(order: tuple[int, ...]) -> None:
    """GPUs may come in any order, in lock and machine, however many kinds there are."""
    kinds = [H200, H100, T4, LAPTOP]
    assert not [check for check in judge(expect(*kinds), facts(*[found(kinds[i]) for i in order])) if not check.ok]


def test_assignment_is_the_best_one() -> None:
    """No other way to pair GPUs would differ less."""
    costs = [[4, 1, 3], [2, 0, 5], [3, 2, 2]]
    best = min(sum(costs[row][column] for row, column in enumerate(way)) for way in permutations(range(3)))
    assert sum(costs[row][column] for row, column in gpu_match.assign(costs)) == best == 5
    assert gpu_match.assign([[1, 0], [0, 1], [5, 5]]) == [(0, 1), (1, 0)]
    assert gpu_match.assign([[3, 1, 2]]) == [(0, 1)]
    assert gpu_match.assign([]) == gpu_match.assign([[], []]) == []


def test_host_has_more_than_the_run_needs() -> None:
    """On a host, GPUs beyond the locked number and what CUDA's variable hides do not matter: the run gets its own."""
    machine = facts(found(T4), found(H200, visible=False), found(H200), found(T4))
    done = judge(expect(H200, H200), machine, "host", CUDA_VISIBLE_DEVICES="0")
    assert [check.field for check in done if not check.ok] == []
    assert failures(judge(expect(H200, H200), facts(found(H200)), "host")).keys() == {"gpu.count"}


def test_more_than_at_least_are_compared_too() -> None:
    """A program that uses every GPU uses those beyond the locked number: another kind among them is reported."""
    done = judge(expect(H200, gpu_count="at least"), facts(found(H200), found(T4)))
    assert failures(done)["gpu.model"][0] == "Tesla T4 (GPU 1 GPU-00000001)"


def test_lock_without_gpu() -> None:
    """GPUs that nobody asked for are noted; they are warned of in a container whose CUDA framework would use them."""
    nothing = {"gpu": None, "policy": {}, "cuda": None}
    assert checks.gpu(nothing, {"scope": "image"}) == []
    assert judge(nothing, facts()) == []
    (check,) = judge(nothing, facts(found(H200)), "host")
    assert (check.field, check.found, check.severity, check.refuses) == ("gpu", "1 × NVIDIA H200", "info", False)
    (check,) = judge({**nothing, "cuda": {"version": "12.9"}}, {"devices": [{}, {}]})
    assert (check.found, check.severity) == ("2 × GPU", "soft")
    assert check.meaning == "the framework would compute on a GPU that the lock does not have: other bits"


def test_other_programs_are_noted() -> None:
    """Without ``exclusive`` a program on the GPU is recorded, no more."""
    done = judge(expect(LAPTOP), facts(found(LAPTOP, processes=[{"pid": 4, "name": "", "memory": 0}])))
    (check,) = [check for check in done if not check.ok]
    assert (check.field, check.found, check.severity) == ("gpu.exclusive", "a program (pid 4)", "info")


def test_followers_name_their_cause() -> None:
    """What another model brings with it stays in the verdict, hard or soft as it is, with its cause."""
    done = judge(expect(H200), facts(found(A100)))
    assert {check.field: (check.severity, check.because) for check in done if not check.ok} == {
        "gpu.model": ("hard", ""),
        "gpu.compute-capability": ("hard", "gpu.model"),
        "gpu.sms": ("hard", "gpu.model"),
        "gpu.memory": ("soft", "gpu.model"),
        "gpu.vbios": ("soft", "gpu.model"),
        "gpu.board": ("soft", "gpu.model"),
    }
    done = judge(expect(H200, H200), facts(found(A100), found(H200, sms=100)))
    assert failures(done).keys() == {"gpu.model", "gpu.sms"}
    done = judge(expect(H200, gpu_model="exact, warn"), facts(found(A100)))
    assert failures(done).keys() == {"gpu.compute-capability", "gpu.sms"}
    done = judge(expect(H200), facts(found(H200, sms=0), **libcuda(path="")))
    assert {check.field: check.because for check in done if not check.ok} == {
        "gpu.libcuda": "",
        "gpu.sms": "gpu.libcuda",
    }


RELAX = "relax hardware.{} in spec.yaml (policy: {}), then: envbuild lock spec.yaml && envbuild build"


@pytest.mark.parametrize(
    ("wanted", "seen", "field", "policies"),
    [
        (expect(H200), facts(found(H200), driver="580.126.09"), "gpu.driver", "same branch or any"),
        (expect(H200), facts(found(H200), driver="590.44.01"), "gpu.driver", "at least or any"),
        (expect(H200), facts(found(H200), driver="580.200.01"), "gpu.driver", "same branch or at least or any"),
        (expect(H200), facts(found(H200), driver="570.86.15"), "gpu.driver", "any"),
        (expect(H200), facts(found(H200, sms=144)), "gpu.sms", "at least or any"),
        (expect(H200), facts(found(H200, sms=114)), "gpu.sms", "any"),
        (expect(H200, gpu_sms="at least"), facts(found(H200, sms=114)), "gpu.sms", "any"),
        (expect(H200), facts(found(H200), found(H200)), "gpu.count", "at least or any"),
        (expect(H200, H200), facts(found(H200)), "gpu.count", "any"),
        (expect(H200, gpu_ecc="exact"), facts(found(H200, ecc=False)), "gpu.ecc", "any"),
    ],
)
def test_only_policies_that_help_are_named(
    wanted: dict[str, Any], seen: dict[str, Any], field: str, policies: str
) -> None:
    """A user who relaxes a field as the message states and locks again is not refused for it once more."""
    (check,) = [check for check in judge(wanted, seen) if check.refuses]
    assert check.field == field
    assert RELAX.format(field, policies) in check.fix.splitlines()


@pytest.mark.parametrize(
    ("policy", "cuda", "install"),
    [
        ("exact", None, "install NVIDIA driver 580.159.04"),
        ("same branch", None, "install NVIDIA driver 580.*"),
        ("at least", None, "install NVIDIA driver 580.159.04 or newer"),
        ("any", {"version": "12.9", "driver": "525.60.13"}, "install NVIDIA driver 525.60.13 or newer"),
        ("any", None, "install NVIDIA's driver"),
    ],
)
def test_the_driver_to_install(policy: str, cuda: dict[str, str] | None, install: str) -> None:
    """Without a driver, the one to install is one that the lock's policy accepts."""
    wanted = {**expect(H200, gpu_driver=policy), "cuda": cuda}
    (check,) = judge(wanted, facts(driver="", libcuda={}))
    assert check.fix.splitlines()[1] == install


def test_no_gpu_at_all_on_a_host() -> None:
    """A host is not reported to give a container GPUs, nor to relax or to lock what it does not have."""
    done = judge(expect(H200), facts(), scope="host")
    (check,) = [check for check in done if check.refuses]
    assert check.fix.splitlines() == [
        "run on a host with 1 × NVIDIA H200",
        "once, knowingly (recorded as overridden): envbuild run --allow gpu.count",
    ]


def test_exclusive_on_a_host_with_a_free_gpu() -> None:
    """A run is handed the GPU that nobody holds, so that the host will do; without a free one it will not."""
    wanted = expect(H200, exclusive=True)
    busy, small = found(H200, processes=[{"pid": 7, "name": "x"}]), found(H200, memory=143771, free=9000)
    assert failures(judge(wanted, facts(busy, small, found(H200)), scope="host")) == {}
    assert failures(judge(wanted, facts(busy, small, found(T4)), scope="host")).keys() == {"gpu.exclusive"}
    assert failures(judge(wanted, facts(busy, found(T4)), scope="host")).keys() == {"gpu.exclusive"}


def test_every_override_is_named() -> None:
    """The last line names whatever refuses, also what is not about GPUs; nothing is offered for an altered guard."""
    done = judge(expect(H200), facts(found(H200), driver="590.44.01"))
    done.append(checks.Check("environment.TZ", "UTC", "X", ok=False, fix="unset it"))
    done.append(checks.Check("environment.ENVBUILD_ALLOW", "names", "X", ok=False, fix="name fields"))
    assert table.render(done, "l").splitlines()[-1] == (
        "  once, knowingly (recorded as overridden): envbuild run --allow gpu.driver --allow environment.TZ"
    )
    done.append(checks.Check("runtime./opt/envbuild/guard.py", "1", "2", ok=False, fix="build it again"))
    assert "--allow" not in table.render(done, "l")


def test_table_leads_with_the_cause() -> None:
    """Another model on another driver: two rows, and one line with every override that would be needed."""
    done = judge(expect(EIGHT), facts(*[found(A100)] * 8, driver="570.86.15"))
    assert table.render(done, "pylock.train.toml") == (
        "envbuild: this host does not match pylock.train.toml — nothing was run\n"
        "  field        locked        found                                what it means\n"
        "  gpu.model    NVIDIA H200   NVIDIA A100-SXM4-40GB (all 8 GPUs)   another architecture (compute capability "
        "8.0 instead of 9.0, 108 SMs instead of 132): neither cuBLAS nor cuDNN promises equal bits\n"
        "  gpu.driver   580.159.04    570.86.15                            the driver compiles kernels (PTX): other "
        "bits possible\n"
        "what to do:\n"
        "  run on a host with 8 × NVIDIA H200\n"
        "  install NVIDIA driver 580.159.04, or run on a host that has it\n"
        "  relax hardware.gpu.driver in spec.yaml (policy: any), then: envbuild lock spec.yaml && envbuild build\n"
        "  lock for this host (values written in spec.yaml stay: remove them): "
        "envbuild lock spec.yaml --host detect && envbuild build\n"
        "  once, knowingly (recorded as overridden): envbuild run --allow gpu.model --allow gpu.compute-capability "
        "--allow gpu.sms --allow gpu.driver\n"
    )


def test_soft_followers_are_not_warned_of_twice() -> None:
    """Where the model only warns, what follows from it is not reported again."""
    done = judge(expect({"model": "NVIDIA H200", "memory": 1}, gpu_model="exact, warn"), facts(found(T4)))
    assert table.warnings(done) == (
        "envbuild: warning: gpu.model: locked NVIDIA H200, found Tesla T4: another GPU, other memory: "
        "equal bits are not promised\n"
    )


@pytest.mark.parametrize(
    ("policy", "found_flags", "failed"),
    [
        ("exact", ["avx2", "fma"], ""),
        ("exact", ["avx2"], "-fma"),
        ("exact", ["avx2", "avx512f", "fma"], "+avx512f"),
        ("exact", ["avx512f", "fma"], "-avx2 +avx512f"),
        ("at least", ["avx2", "avx512f", "fma"], ""),
        ("at least", ["fma"], "-avx2"),
        ("any", [], ""),
        ("exact, warn", ["avx2"], "-fma"),
    ],
)
def test_cpu_flags(policy: str, found_flags: list[str], failed: str) -> None:
    """Flags by which libraries choose code are compared by the policy: those missing and those added are shown."""
    wanted = {"cpu-flags": ["avx2", "fma"], "policy": {"cpu.flags": policy}}
    (check,) = checks.cpu_flags(wanted, {"cpu-flags": found_flags})
    assert (check.ok, "" if check.ok else check.found) == (not failed, failed)
    assert check.severity == ("soft" if "warn" in policy else "hard")
    assert checks.cpu_flags({"cpu-flags": []}, {}) == []


def test_cpu_exact() -> None:
    """With the policy ``exact`` a CPU of a higher level is refused."""
    wanted = {"cpu": "x86-64-v3", "policy": {"cpu": "exact"}}
    (check,) = checks.cpu(wanted, {"cpu": "x86-64-v4"})
    assert check.refuses
    (check,) = checks.cpu({**wanted, "policy": {"cpu": "any"}}, {"cpu": "x86-64-v2"})
    assert check.ok
