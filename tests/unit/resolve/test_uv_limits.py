"""uv, ended by a limit of this process: no answer about packages."""

from __future__ import annotations

import resource
import signal
import subprocess
from typing import Any, cast

import pytest

from envbuild.core import limits
from envbuild.errors import BuildError, ResolveError
from envbuild.resolve.python.uv import _failure

_NONE = cast(Any, None)


@pytest.mark.parametrize(
    ("most", "status", "stderr", "kind", "message", "hint"),
    [
        (
            209_715_200, -signal.SIGABRT, "memory allocation of 65536 bytes failed\n", BuildError,
            "uv was ended before it had resolved the Python requirements: out of memory: the limit is 209715200 bytes",
            "raise the limit, then rerun: ulimit -v unlimited",
        ),
        (
            resource.RLIM_INFINITY, -signal.SIGSEGV, "", ResolveError,
            "uv was ended by signal 11 before it had resolved the Python requirements",
            "lock again",
        ),
    ],
)  # fmt: skip
def test_uv_that_was_ended(
    most: int, status: int, stderr: str, kind: type, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice was to loosen requirements, after a backtrace of Rust or nothing at all."""
    free = resource.RLIM_INFINITY
    monkeypatch.setattr(
        limits.resource, "getrlimit", lambda which: (most if which == resource.RLIMIT_AS else free, free)
    )
    done = subprocess.CompletedProcess(["uv"], status, "", stderr)
    error = _failure(done, _NONE, _NONE, _NONE, {})
    assert (type(error), error.message, error.hint) == (kind, message, hint)
