"""What a run happened in: the project's version in git, and the host. Facts for the record, never a judgement."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from envbuild.host.facts import GpuFacts, HostFacts
from envbuild.record.model import Git
from envbuild.runtime.guard import driver

_CHANGED = 1000
"""Names of changed files that a record keeps."""


def git_state(project: Path) -> Git | None:
    """Ask git, in four processes at once; None outside a repository, before its first commit, or without git."""
    import subprocess

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = ["git", "-C", str(project), *arguments]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is meant for the program
        )

    try:
        head = start("rev-parse", "HEAD", "--abbrev-ref", "HEAD")
        diff = start("diff", "HEAD", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
        changed = start("diff", "HEAD", "--name-only", "--relative", "--no-renames", "--no-ext-diff", "-z")
        others = start("ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
    except OSError:
        return None
    digest = hashlib.sha256()
    size = 0
    while diff.stdout is not None and (chunk := diff.stdout.read(1 << 16)):
        digest.update(chunk)
        size += len(chunk)
    listed, _ = others.communicate()
    names, _ = head.communicate()
    files, _ = changed.communicate()
    words = names.decode(errors="replace").split()
    if diff.wait() != 0 or head.returncode != 0 or len(words) != 2:
        return None
    return Git(
        commit=words[0],
        branch="" if words[1] == "HEAD" else words[1],
        dirty=size > 0,
        diff_sha256=digest.hexdigest() if size else "",
        untracked=listed.count(b"\0"),
        changed=tuple(files.decode(errors="replace").split("\0")[:-1][:_CHANGED]) if changed.returncode == 0 else None,
    )


def host_facts(root: Path = Path("/")) -> HostFacts:
    """Describe this machine but for its container engine, which describes itself; ``root`` stands for ``/`` in tests.

    Without a driver no GPU is looked for; with one it is asked in a process of its own.
    """
    from envbuild.host import probe

    system = os.uname()
    return HostFacts(
        kernel=system.release,
        machine=system.machine,
        libc=probe.libc(),
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        cpu=probe.cpu_facts(root),
        gpu=GpuFacts() if lacks_gpu_driver(root) else probe.gpu_facts(),
    )


def lacks_gpu_driver(root: Path = Path("/")) -> bool:
    """Tell whether this machine plainly has no driver for NVIDIA's GPUs; costs a few looks at files."""
    return not driver.traces(str(root), os.environ.get("LD_LIBRARY_PATH", ""))
