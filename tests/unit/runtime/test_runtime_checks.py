"""Expectations against observations."""

from __future__ import annotations

from typing import Any

import pytest

from envbuild.determinism import policy
from envbuild.runtime.guard import checks, variables

EXPECT: dict[str, Any] = {
    "kernel": ">=5.10,<7",
    "cpu": "x86-64-v3",
    "threads": 2,
    "environment": {"OMP_NUM_THREADS": "2", "TZ": "UTC"},
    "interpreter": "/opt/env/bin/python",
    "distributions": {"numpy": "2.4.6", "ruamel-yaml": "0.17"},
    "files": {"/opt/envbuild/guard.py": "a" * 64},
}
SEEN: dict[str, Any] = {
    "kernel": "6.18.44-fc-v595",
    "cpu": "x86-64-v3",
    "cpus": 2,
    "quota": None,
    "environment": {"OMP_NUM_THREADS": "2", "TZ": "UTC", "HOME": "/root"},
    "interpreter": "/opt/env/bin/python",
    "distributions": {"numpy==2.4.6": "", "ruamel.yaml==0.17": ""},
    "files": {"/opt/envbuild/guard.py": "a" * 64},
}
RELOCK = "envbuild lock spec.yaml && envbuild build"


def differences(scope: str = "image", **seen: Any) -> list[dict[str, Any]]:
    found = checks.judge(EXPECT, {**SEEN, **seen}, scope)
    return [check.as_dict() for check in found if not check.ok]


def test_all_is_well() -> None:
    """Each field has one check that holds."""
    found = checks.judge(EXPECT, SEEN)
    assert [(check.field, check.locked, check.found) for check in found] == [
        ("kernel", "≥ 5.10, < 7", "6.18.44-fc-v595"),
        ("cpu", "x86-64-v3", "x86-64-v3"),
        ("cpus", "2 threads", "2 CPUs"),
        ("environment", "2 variables", "as locked"),
        ("python", "/opt/env/bin/python", "/opt/env/bin/python"),
        ("packages", "2 distributions", "as locked"),
        ("runtime", "1 file", "unaltered"),
    ]
    assert all(check.ok and not check.meaning and not check.fix for check in found)
    assert not checks.refused(found)


def test_host_scope() -> None:
    """On a host only what a host has is judged."""
    found = checks.judge(EXPECT, {key: SEEN[key] for key in ("kernel", "cpu", "cpus", "quota")}, "host")
    assert [check.field for check in found] == ["kernel", "cpu", "cpus"]


@pytest.mark.parametrize(
    ("release", "meaning"),
    [
        ("5.4.0", "older than the locked range"),
        ("7.0", "newer than the locked range"),
        ("weird", "outside the locked range"),
    ],
)
def test_kernel(release: str, meaning: str) -> None:
    """A kernel outside the range is refused, with the direction."""
    fix = f"run on a host whose kernel is ≥ 5.10, < 7, or widen hardware.kernel in spec.yaml, then: {RELOCK}\n"
    fix += "once, knowingly (recorded as overridden): envbuild run --allow kernel"
    assert differences(kernel=release) == [
        {
            "field": "kernel",
            "locked": "≥ 5.10, < 7",
            "found": release,
            "ok": False,
            "severity": "hard",
            "meaning": meaning,
            "fix": fix,
        }
    ]


@pytest.mark.parametrize(
    ("level", "found", "severity", "meaning"),
    [
        ("x86-64-v2", "x86-64-v2", "hard", "the CPU lacks instructions of the locked level"),
        ("any", "any", "hard", "another kind of CPU"),
        ("", "unknown", "hard", "another kind of CPU"),
        (
            "x86-64-v4",
            "x86-64-v4",
            "info",
            "libraries that choose code by CPU may give other bits than on the locked level",
        ),
    ],
)
def test_cpu(level: str, found: str, severity: str, meaning: str) -> None:
    """A lower level is refused; a higher one, which the spec allows, is recorded."""
    (check,) = differences(cpu=level)
    assert (check["found"], check["severity"], check["meaning"]) == (found, severity, meaning)


def test_cpus() -> None:
    """Fewer CPUs than threads are refused; less CPU time is a warning."""
    (check,) = differences(cpus=1)
    assert (check["locked"], check["found"], check["severity"]) == ("2 threads", "1 CPU", "hard")
    assert check["fix"].splitlines() == [
        f"give the run 2 CPUs, or lower determinism.threads in spec.yaml, then: {RELOCK}",
        "once, knowingly (recorded as overridden): envbuild run --allow cpus",
    ]
    (check,) = differences(quota=1.5)
    assert (check["found"], check["severity"], check["fix"]) == (
        "2 CPUs, time for 1.5",
        "soft",
        "give the run --cpus 2 or more",
    )
    assert differences(quota=2.0) == []


def test_environment() -> None:
    """Locked variables hold their values; known dangers are refused or warned of; all else is free."""
    found = differences(environment={"OMP_NUM_THREADS": "8", "LD_PRELOAD": "x.so", "PYTHONPATH": "src", "MINE": "1"})
    assert [
        (check["field"], check["locked"], check["found"], check["severity"], check["meaning"]) for check in found
    ] == [
        ("environment.OMP_NUM_THREADS", "2", "8", "hard", "changed after the lock"),
        ("environment.TZ", "UTC", "(not set)", "hard", "not set"),
        ("environment.LD_PRELOAD", "(not set)", "x.so", "hard", "puts other code under every library"),
        ("environment.PYTHONPATH", "(not set)", "src", "soft", "may import other modules than the locked ones"),
    ]
    assert found[0]["fix"] == (
        f"start without changing OMP_NUM_THREADS, or set it under env or determinism in spec.yaml, then: {RELOCK}"
    )
    assert found[2]["fix"] == f"unset LD_PRELOAD, or set it under env or determinism in spec.yaml, then: {RELOCK}"


def test_command() -> None:
    """Another python on the search path is refused: it would not carry the hook."""
    (check,) = differences(interpreter="/usr/bin/python")
    assert (check["field"], check["found"], check["meaning"]) == (
        "python",
        "/usr/bin/python",
        "another Python would run, with other packages",
    )
    (check,) = differences(interpreter="")
    assert check["found"] == "(not on PATH)"


def test_distributions() -> None:
    """Missing, changed, extra, doubled and damaged distributions are each named."""
    found = differences(
        distributions={
            "numpy==2.4.5": "",
            "Extra_Thing==1.0": "",
            "evil.pth==": "start-up file of no locked distribution",
        }
    )
    assert [(check["field"], check["locked"], check["found"], check["meaning"]) for check in found] == [
        ("packages.evil-pth", "(not locked)", "present", "start-up file of no locked distribution"),
        ("packages.extra-thing", "(not locked)", "1.0", "installed after the build"),
        ("packages.numpy", "2.4.6", "2.4.5", "another version"),
        ("packages.ruamel-yaml", "0.17", "(not installed)", "missing"),
    ]
    assert found[1]["fix"] == f"add what you need to requirements in spec.yaml, then: {RELOCK}"
    (check,) = differences(distributions={"numpy==2.4.6": "", "numpy==2.4.5": "", "ruamel.yaml==0.17": ""})
    assert (check["found"], check["meaning"]) == ("2.4.6, 2.4.5", "installed twice")
    (check,) = differences(distributions={"numpy==2.4.6": "RECORD missing", "ruamel.yaml==0.17": ""})
    assert (check["field"], check["meaning"]) == ("packages.numpy", "RECORD missing")


def test_versions_written_otherwise() -> None:
    """2024.01 and 2024.1 are one version, as PEP 440 specifies."""
    assert differences(distributions={"numpy==2.4.6.0": "", "ruamel.yaml==0.017": ""}) == []


def test_runtime() -> None:
    """An altered or missing runtime file is refused."""
    (check,) = differences(files={"/opt/envbuild/guard.py": "b" * 64})
    assert (check["field"], check["found"], check["meaning"]) == (
        "runtime./opt/envbuild/guard.py",
        "sha256 bbbbbbbbbbbb…",
        "altered after the build",
    )
    (check,) = differences(files={})
    assert (check["found"], check["meaning"]) == ("(not readable)", "missing or not readable")


def test_refused_needs_a_hard_difference() -> None:
    """Warnings alone let the program start."""
    assert not checks.refused(checks.judge(EXPECT, {**SEEN, "quota": 1.0, "cpu": "x86-64-v4"}))
    assert checks.refused(checks.judge(EXPECT, {**SEEN, "cpus": 1}))


def test_every_variable_of_the_policy_is_watched() -> None:
    """A variable that a lock may export to change results is refused where a lock does not export it."""
    exported = {row.name for row in policy.table().variable if row.level} | {"XLA_FLAGS"}
    refused = {row.name for row in policy.table().forbidden} - {"TF_USE_CUDNN_AUTOTUNE"}  # nothing reads it
    assert (exported | refused) - set(variables.HARD) == set()
    assert set(variables.HARD) & set(variables.SOFT) == set()
