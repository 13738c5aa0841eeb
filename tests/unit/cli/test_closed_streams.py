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


@pytest.mark.subprocess
@pytest.mark.parametrize(("command", "code"), [(["run", "t.py"], 2), (["push"], 2), (["build"], 11)])
@pytest.mark.parametrize("gone", [False, True])
def test_messages_that_nobody_takes_change_no_exit_code(
    command: list[str], code: int, gone: bool, tmp_path: Path
) -> None:
    """A full disk below the log, or a reader that went away: it was 1 or 141, also for programs that had ended well."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reader, writer = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    words = [sys.executable, "-m", "envbuild", *command]
    try:
        done = subprocess.run(
            words, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=writer if gone else full,
        )  # fmt: skip
    finally:
        os.close(writer)
        os.close(full)
    assert (done.returncode, done.stdout) == (code, b"")
