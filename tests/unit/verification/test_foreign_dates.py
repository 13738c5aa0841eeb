"""Which commands for the date are quoted (envbuild/verification/causes/foreign_dates.py)."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.foreign_dates import dated_by_programs


@pytest.mark.parametrize(
    ("script", "quoted"),
    [
        ("date -u -d '09:30' +%s", "date -u -d '09:30' +%s"),
        ("set -e\nseed=$(date +%j)\nawk -v s=$seed 'BEGIN { srand(s) }'", "date +%j"),
        ("if [ $(date +%u) -gt 5 ]; then echo weekend; fi", "date +%u"),
        ("n=$(( $(date +%d) % 7 ))", "date +%d"),
        ("case `date +%H` in 0*) night=1;; esac", "date +%H"),
        ('tail -n "$(date +%d)" rows.csv > sample.csv', "date +%d"),
        ("day=$(date +%F)\ntar -cf backup-$day.tar data", ""),
        ('echo "[$(date +%F)] begin"', ""),
        ("log=run-$(date +%Y%m%d).log", ""),
        ("start=$(date +%s)\necho $(( $(date +%s) - start ))", ""),
        ("date -r data.csv +%Y", ""),
        ("date -d 2026-11-30 +%j", ""),
        ("date -d @1796000000 +%F", ""),
        ("date", ""),
        ("# date +%F", ""),
        ("update +%j", ""),
    ],
)
def test_commands_of_scripts(script: str, quoted: str) -> None:
    found = [*dated_by_programs({}, {"a.sh": script}, ["python", "train.py"])]
    assert [words for words, _ in found] == ([quoted] if quoted else [])


def test_commands_of_python() -> None:
    """And the program itself; each with its place."""
    source = "import subprocess\nday = int(subprocess.run(['date', '+%j'], capture_output=True).stdout)\n"
    assert [*dated_by_programs({"train.py": source}, {}, ["date", "+%u"])] == [
        ("date +%j", "train.py:2"),
        ("date +%u", ""),
    ]
