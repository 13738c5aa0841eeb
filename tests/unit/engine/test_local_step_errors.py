"""What is said of a build step that failed without a container engine."""

from __future__ import annotations

import errno

import pytest

from envbuild.engine.local import namespaces
from envbuild.engine.protocol import TreeStep
from envbuild.errors import BuildError, EngineError


def test_a_full_disk_is_the_stores_and_no_refusal_of_an_engine() -> None:
    """Exit code 14, as where the store itself finds its disk full, whoever finds it: the script, or the kernel."""
    step = TreeStep(fill=lambda stream: None, command=("dpkg", "--unpack"), environment={})
    printed = namespaces._failed(step, 2, "unpacking\ndpkg: error: No space left on device\n")
    assert (type(printed), printed.message) == (
        BuildError, "cannot run a build step: dpkg: error: No space left on device",
    )  # fmt: skip
    refused = namespaces._refused({"failed": "mount /proc", "reason": errno.ENOSPC})
    assert (refused.exit_code, refused.message) == (14, "cannot run a build step: mount /proc: no space left on device")


@pytest.mark.parametrize(("failed", "reason"), [("make a user namespace", errno.ENOSPC), ("mount /proc", errno.EPERM)])
def test_what_the_kernel_refuses_is_a_refusal_of_the_engine(failed: str, reason: int) -> None:
    """A limit of namespaces is ``ENOSPC`` too, and no full disk."""
    assert type(namespaces._refused({"failed": failed, "reason": reason})) is EngineError
