"""scripts/ensure-compiler.sh: quiet where a compiler works, clear where there is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/ensure-compiler.sh"


def test_a_compiler_that_works_is_left_alone() -> None:
    """With a compiler, the script names it and exits 0, however often it runs."""
    for _ in range(2):
        done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("compiler  ")


def test_a_user_without_rights_reads_what_to_install(tmp_path: Path) -> None:
    """Without a compiler, and without the right to install one, nothing is tried; the packages are named."""
    for name in ("sh", "printf"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    done = subprocess.run(
        [str(shutil.which("sh")), SCRIPT], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "compiler  no C compiler that works (cc)\n"
        "compiler  get one: sudo apt-get install gcc libc6-dev (or your distribution's gcc)\n"
    )
