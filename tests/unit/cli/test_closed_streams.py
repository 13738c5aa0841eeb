"""Standard streams that are closed when envbuild starts: ``envbuild run t.py >&-``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from envbuild import cli
cli._open_closed_streams()
found = [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)]
print("printed"), print("said", file=sys.stderr), sys.stdin.read()
own = os.open("own", os.O_CREAT | os.O_RDWR)
os.system("echo of a child; echo of a child >&2")
os.write(os.open("found", os.O_CREAT | os.O_WRONLY), repr((found, own > 2, os.path.getsize("own"))).encode())
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("closed", [(1,), (0, 1), (0, 1, 2), (2,), (0,)])
def test_no_file_gets_their_numbers(closed: tuple[int, ...], tmp_path: Path) -> None:
    """What this process or one of its children prints would else go into the files that it opens."""
    shut = "".join(f"os.close({number});" for number in closed)
    command = [
        sys.executable,
        "-c",
        f"import os, sys; {shut} os.execv(sys.executable, sys.orig_argv[:1] + sys.argv[1:])",
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*command, "-c", PROGRAM], cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True)
    found, apart, size = eval((tmp_path / "found").read_text())
    assert [found[number] for number in closed] == ["/dev/null"] * len(closed)
    assert (apart, size) == (True, 0)
