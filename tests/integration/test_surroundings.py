"""Facts about project and host."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from envbuild.surroundings import git_state, host_facts


def git(folder: Path, *arguments: str) -> bytes:
    """Run git with a constant identity."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.invalid", "-C", str(folder), *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True).stdout


def test_the_version_of_a_project_is_told(tmp_path: Path) -> None:
    """Commit, branch, uncommitted changes by digest, and untracked files; ignored files do not count."""
    assert git_state(tmp_path) is None
    git(tmp_path, "init", "-b", "work")
    assert git_state(tmp_path) is None
    (tmp_path / "train.py").write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "m")
    clean = git_state(tmp_path)
    assert clean is not None
    assert clean.commit == git(tmp_path, "rev-parse", "HEAD").decode().strip()
    assert (clean.branch, clean.dirty, clean.diff_sha256, clean.untracked) == ("work", False, "", 0)
    (tmp_path / "train.py").write_text("two\n")
    (tmp_path / "new.py").touch()
    (tmp_path / "a.log").touch()
    git(tmp_path, "checkout", "-q", "--detach")
    dirty = git_state(tmp_path)
    assert dirty is not None
    diff = git(tmp_path, "diff", "HEAD", "--full-index")
    assert (dirty.branch, dirty.dirty, dirty.untracked) == ("", True, 1)
    assert dirty.diff_sha256 == hashlib.sha256(diff).hexdigest()


def test_the_host_is_described(tmp_path: Path) -> None:
    """Kernel and CPU come from the machine; without a driver no GPU is looked for."""
    facts = host_facts()
    assert facts.kernel == os.uname().release
    assert facts.cpus >= 1
    assert facts.memory > 1 << 20
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: A CPU: fast\nflags : fpu\n\n")
    other = host_facts(tmp_path)
    assert (other.cpu, other.gpu_driver, other.gpus) == ("A CPU: fast", "", ())
