"""What tests of ``envbuild verify`` share."""

from __future__ import annotations

from tests.support.cli import Done

MEASURED = """\
import json, struct, time
begin = time.perf_counter()
sum(range(1000))
json.dump({"w": 0.25, "passed": time.perf_counter() - begin}, open("notes.json", "w"))
open("state.bin", "wb").write(b"W" * 8 + struct.pack("<d", time.time()))
"""


def rows(done: Done) -> dict[str, str]:
    """The screen of runs that differ, by label; the first text of each."""
    assert done.code == 16, done.out + done.err
    found: dict[str, str] = {}
    for line in done.out.splitlines():
        if line.startswith("  ") and line[2:21].strip():
            found.setdefault(line[2:21].strip(), line[21:])
    return found
