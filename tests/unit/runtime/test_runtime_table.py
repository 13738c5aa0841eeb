"""The table that a refusal prints."""

from __future__ import annotations

from envbuild.runtime.guard.checks import Check
from envbuild.runtime.guard.table import ROWS, render, warnings

KERNEL = Check("kernel", "≥ 6.1", "5.15.0", ok=False, meaning="older than the locked range", fix="run elsewhere")
THREADS = Check(
    "environment.OMP_NUM_THREADS", "2", "8", ok=False, meaning="changed after the lock", fix="start without changing it"
)
QUOTA = Check("cpus", "2 threads", "2 CPUs, time for 1", ok=False, severity="soft", meaning="slower", fix="--cpus 2")
GOOD = Check("python", "/opt/env/bin/python", "/opt/env/bin/python", ok=True)
LEVEL = Check("cpu", "x86-64-v3", "x86-64-v4", ok=False, severity="info", meaning="other bits possible")


def test_whole_table() -> None:
    """Hard differences first, then warnings; what holds is left out; what to do comes last."""
    assert render([GOOD, QUOTA, LEVEL, KERNEL, THREADS], "pylock.digits.toml") == (
        "envbuild: this host does not match pylock.digits.toml — nothing was run\n"
        "  field                         locked      found                what it means\n"
        "  kernel                        ≥ 6.1       5.15.0               older than the locked range\n"
        "  environment.OMP_NUM_THREADS   2           8                    changed after the lock\n"
        "  cpus                          2 threads   2 CPUs, time for 1   slower (warning only)\n"
        "what to do:\n"
        "  run elsewhere\n"
        "  start without changing it\n"
    )


def test_subject() -> None:
    """The first line names what is wrong: the host, the environment, or the image."""
    package = Check("packages.numpy", "2.4.6", "2.4.5", ok=False, meaning="another version")
    assert render([THREADS], "l").startswith("envbuild: the environment does not match l — nothing was run\n")
    assert render([THREADS, package], "l").startswith("envbuild: this image does not match l — nothing was run\n")
    assert render([KERNEL], "l", "").startswith("envbuild: this host does not match l\n")


def test_long_and_hostile_values() -> None:
    """Long cells are cut and control characters shown as escapes: a value cannot redraw the screen."""
    check = Check("environment.X", "\x1b[2Jred", "y" * 100, ok=False, meaning="changed after the lock")
    row = render([check], "l").splitlines()[2]
    assert "\x1b" not in row
    assert row == f"  environment.X   \\x1b[2Jred   {'y' * 27}…   changed after the lock"


def test_many_rows() -> None:
    """A hundred differences are summed up; fixes that are the same are reported once."""
    many = [Check(f"packages.p{n:03}", "1", "2", ok=False, meaning="m", fix="build again") for n in range(100)]
    lines = render(many, "l").splitlines()
    assert lines[-3:] == [f"  … and {100 - ROWS} more", "what to do:", "  build again"]
    assert len(lines) == 2 + ROWS + 3


def test_warnings() -> None:
    """A passed verdict states its soft differences in a line each, and is silent otherwise."""
    assert warnings([GOOD, LEVEL]) == ""
    assert warnings([QUOTA]) == "envbuild: warning: cpus: locked 2 threads, found 2 CPUs, time for 1: slower\n"
