"""What a script of a shell takes from the machine, and cuts short (envbuild/verification/causes/script_times.py)."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.script_times import cut_in, taken_in


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("SEED=$(date +%s)", ["date +%s"]),
        ("df --output=avail -k . | tail -n 1", ["df --output=avail -k ."]),
        ("room=$(free -m | awk '/Mem/ {print $4}')", ["free -m"]),
        ("load=`uptime`", ["uptime"]),
        ('echo "$(df .)"', []),
        ("# df .", []),
        ("df=3", []),
        ("pdf a.csv", []),
    ],
)
def test_values_of_now_and_figures_of_the_machine(line: str, taken: list[str]) -> None:
    assert [words for _, words in taken_in(line)] == taken


@pytest.mark.parametrize(
    ("line", "cut"),
    [
        ('"$1" sensor.py | head -n 400 > preview.txt', ["head -n 400"]),
        ("python3 sensor.py | grep -q ready", ["grep -q ready"]),
        ("./stream.sh data | sed 5q", ["sed 5q"]),
        ("sort a.csv | head -n 4", []),
        ("python3 sensor.py | sort | head", []),
        ("python3 sensor.py | tail -n 4", []),
        ("# python3 sensor.py | head", []),
    ],
)
def test_programs_whose_reader_ends_first(line: str, cut: list[str]) -> None:
    assert [words for _, words in cut_in(line)] == cut
