"""``probe``: this machine described, and the description as a file to lock for."""

from __future__ import annotations

from pathlib import Path

from envbuild.core.fs import atomic_write
from envbuild.host import file
from envbuild.host.facts import HostFacts
from envbuild.host.probe import probe_host


def probe(output: Path | None = None) -> HostFacts:
    """Describe this machine: GPUs, driver, CPU, kernel, containers.

    Args:
        output: a file to write the description to, for ``lock(host=…)`` on any machine; None for none.

    Raises:
        OSError: the file cannot be written.
    """
    host = probe_host()
    if output is not None:
        atomic_write(output, file.dumps(host).encode())
    return host
