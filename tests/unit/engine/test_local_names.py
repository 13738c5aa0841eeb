"""Names that a program of the local engine finds: its own, and the host's where it is on the host's network."""

from __future__ import annotations

from pathlib import Path

from envbuild.engine.local.program_request import name_files
from envbuild.engine.protocol import ContainerRun


def test_only_its_own_name_without_a_network() -> None:
    """Of the host nothing is seen."""
    found = name_files(ContainerRun(image="t"))
    assert found["/etc/hosts"].splitlines() == [
        "127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", "127.0.0.1\tenvbuild",
    ]  # fmt: skip
    assert found["/etc/resolv.conf"] == ""


def test_the_hosts_names_with_its_network() -> None:
    """What the host's file names is found; the own name comes first, and leads to the address of a rank's machine."""
    found = name_files(ContainerRun(image="t", network="host", address="10.1.0.2"))["/etc/hosts"]
    assert found.splitlines()[2] == "10.1.0.2\tenvbuild"
    assert found.endswith(Path("/etc/hosts").read_text())
