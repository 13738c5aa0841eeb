"""Limits of this process that end a command: which one, and what helps."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time

import pytest

from envbuild.core import limits
from envbuild.core.limits import behind, explained, of_child, of_step, require_memory
from envbuild.errors import BuildError

_SET = {"RLIMIT_NOFILE": 16, "RLIMIT_FSIZE": 1024, "RLIMIT_AS": 60_000, "RLIMIT_DATA": 50_000, "RLIMIT_NPROC": 3}
_FREE = dict.fromkeys((*_SET, "RLIMIT_CPU"), resource.RLIM_INFINITY)


def _limited(monkeypatch: pytest.MonkeyPatch, most: dict[str, int]) -> None:
    numbers = {getattr(resource, name): value for name, value in {**_FREE, **most}.items()}
    monkeypatch.setattr(limits.resource, "getrlimit", lambda which: (numbers[which], resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError(errno.EMFILE, ""), ("too many open files: the limit is 16", "ulimit -n 1024")),
        (OSError(errno.ENFILE, ""), ("too many open files", "ulimit -n 1024")),
        (OSError(errno.EFBIG, ""), ("a file becomes too large: the limit is 1024 bytes", "ulimit -f unlimited")),
        (OSError(errno.EFBIG, "", "a"), ("a becomes too large: the limit is 1024 bytes", "ulimit -f unlimited")),
        (MemoryError(), ("out of memory: the limit is 50000 bytes", "ulimit -d unlimited")),
        (OSError(errno.ENOMEM, ""), ("out of memory: the limit is 50000 bytes", "ulimit -d unlimited")),
        (
            ImportError("/a.so: failed to map segment from shared object"),
            ("out of memory: the limit is 50000 bytes", "ulimit -d unlimited"),
        ),
        (
            RuntimeError("can't start new thread"),
            ("cannot start another thread: out of memory: the limit is 50000 bytes", "ulimit -d unlimited"),
        ),
        (
            OSError(errno.EAGAIN, ""),
            ("cannot start another process or thread: the limit is 3 of this user", "(ulimit -u, pids.max"),
        ),
    ],
)
def test_a_limit_is_named(error: Exception, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its value and with the command that raises it."""
    _limited(monkeypatch, _SET)
    found = explained(error)
    assert found is not None
    assert (found[0], expected[1] in found[1]) == (expected[0], True)


def test_a_thread_that_no_memory_is_in_the_way_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stack needs room, and a process may have too many: without a limit of memory it is the number."""
    _limited(monkeypatch, {**_FREE, "RLIMIT_NPROC": 3})
    found = explained(RuntimeError("can't start new thread"))
    assert found is not None
    assert found[0] == "cannot start another process or thread: the limit is 3 of this user"
    assert "(ulimit -u, pids.max" in found[1]


def test_what_a_lack_of_memory_brought_about_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done about it may fail as well: "cannot join thread before it is started"."""
    _limited(monkeypatch, _SET)
    error = RuntimeError("cannot join thread before it is started")
    assert explained(error) is None
    error.__context__ = MemoryError()
    assert (explained(error) or ("",))[0] == "out of memory: the limit is 50000 bytes"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("failed to map segment from shared object"),
        RuntimeError("boom"),
        ValueError("boom"),
        OSError(errno.EFBIG, "more than 5 bytes", "a"),
    ],
)
def test_anything_else_stays_a_fault(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no limit is set, a lack of memory may well be envbuild's own doing, and needs its traceback."""
    _limited(monkeypatch, _FREE)
    assert explained(error) is None


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_call_that_a_filter_forbids_is_named(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the line that made it; without a filter, or with a file's name, something else is wrong."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - it is what is tested
        raise OSError(number, os.strerror(number))
    monkeypatch.setattr(limits, "is_filtered", lambda: False)
    assert explained(caught.value) is None
    monkeypatch.setattr(limits, "is_filtered", lambda: True)
    assert explained(OSError(number, "no", "file")) is None
    found = explained(caught.value)
    assert found is not None
    assert found[0].endswith(f"needs: {os.strerror(number)} (raise OSError(number, os.strerror(number)))")
    assert "seccomp" in found[1]


def test_a_filter_that_forbids_threads_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Docker before 20.10.10 has it: to raise a limit would not help. Here, the call is known or unknown."""
    assert not limits._clone3_is_forbidden()
    monkeypatch.setattr(limits, "_clone3_is_forbidden", lambda: True)
    found = explained(RuntimeError("can't start new thread"))
    assert found is not None
    assert found[0].startswith("cannot start a thread: a filter of system calls forbids clone3 (EPERM)")
    assert "--privileged" in found[1]


_PANIC = (
    "thread 'main2' (1) panicked at /rustc/b940/library/std/src/thread/functions.rs:131:29:\n"
    'failed to spawn thread: Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }\n'
)
_UNWRAPPED = (
    "thread 'main2' (1) panicked at crates/uv-resolver/src/resolver/mod.rs:339:14:\n"
    "called `Result::unwrap()` on an `Err` value: "
    'Os { code: 11, kind: WouldBlock, message: "Resource temporarily unavailable" }\n'
)
_MEMORY = ("out of memory: the limit is 50000 bytes", "raise the limit, then rerun: ulimit -d unlimited")


@pytest.mark.parametrize(
    ("status", "stderr", "expected"),
    [
        (101, _PANIC, _MEMORY),
        (-signal.SIGABRT, _UNWRAPPED, _MEMORY),
        (-signal.SIGABRT, "memory allocation of 65536 bytes failed\n", _MEMORY),
        (-signal.SIGABRT, "Fatal glibc error: failed to register TLS destructor: out of memory\n", _MEMORY),
        (-signal.SIGSEGV, "", _MEMORY),
        (-signal.SIGXFSZ, "", ("a file became too large: the limit is 1024 bytes", "ulimit -f unlimited")),
        (2, "error: Too many open files (os error 24)", ("too many open files: the limit is 16", "ulimit -n 1024")),
        (-signal.SIGKILL, "", ("it was killed, as the system does that has no memory left", "end other programs")),
        (1, "No solution found when resolving dependencies", None),
    ],
)
def test_a_program_that_a_limit_ended(
    status: int, stderr: str, expected: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rust panics or aborts without a sentence; none of that is an answer about packages."""
    _limited(monkeypatch, _SET)
    found = of_child(status, stderr)
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == expected[0]
        assert expected[1] in found[1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGXCPU])
def test_a_program_whose_processor_time_ended(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel kills it; without such a limit, or long before it, that means a lack of memory."""
    _limited(monkeypatch, {"RLIMIT_CPU": 2})
    monkeypatch.setattr(limits, "_used_by_children", lambda: 1.9)
    found = of_child(-number, "")
    assert found == (
        "out of processor time: the limit is 2 seconds",
        "raise the limit, then rerun: ulimit -t unlimited",
    )


def test_a_program_that_is_killed_long_before_its_processor_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts that many use have such a limit for all; the kernel kills for want of memory too."""
    _limited(monkeypatch, {"RLIMIT_CPU": 10**9})
    found = of_child(-signal.SIGKILL, "")
    assert found is not None
    assert found[0] == "it was killed, as the system does that has no memory left"


def test_a_program_that_aborts_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash is no lack of memory where nothing limits it; threads may still be too many."""
    _limited(monkeypatch, _FREE)
    assert of_child(-signal.SIGSEGV, "") is None
    assert of_child(-signal.SIGABRT, "memory allocation of 1 bytes failed") == (
        "the system has no memory left",
        "end other programs, then rerun",
    )
    _limited(monkeypatch, _FREE | {"RLIMIT_NPROC": 3})
    query = "error: Failed to query Python interpreter\n  Caused by: Resource temporarily unavailable (os error 11)\n"
    for status, stderr in ((101, _PANIC), (-signal.SIGABRT, _UNWRAPPED), (2, query)):
        found = of_child(status, stderr)
        assert found is not None
        assert found[0] == "cannot start another process or thread: the limit is 3 of this user"


def test_the_output_of_a_step_is_searched_in_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of a megabyte with one word again and again took minutes."""
    _limited(monkeypatch, _FREE | {"RLIMIT_NPROC": 3})
    start = time.process_time()
    assert of_step("fork " * 200_000) is None
    assert time.process_time() - start < 5
    assert of_step("bash: fork: retry: Resource temporarily unavailable") is not None


@pytest.mark.parametrize("met", [OSError(errno.EMFILE, "", "a"), MemoryError(), RuntimeError("can't start new thread")])
def test_a_limit_behind_an_error_is_found(met: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever could not open a file says something about the file: it is the limit that helps."""
    _limited(monkeypatch, _SET)
    error = BuildError("cannot read a")
    assert behind(error) is None
    middle = ValueError("no file")
    middle.__context__ = met
    error.__context__, error.__suppress_context__ = middle, True
    assert behind(error) == explained(met)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.ENOENT, errno.EACCES])
def test_what_may_be_no_limit_stays_the_error_it_is(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that somebody has is answered with the number of too many processes."""
    _limited(monkeypatch, _SET)
    error = BuildError("somebody has the lock")
    error.__context__ = OSError(number, "")
    assert behind(error) is None


def test_what_would_hang_for_want_of_memory_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal names the limit that is set, and the least that it must be."""
    _limited(monkeypatch, _FREE)
    require_memory("x", addresses=60_000, data=50_000)
    _limited(monkeypatch, _SET)
    require_memory("x", addresses=60_000, data=50_000)
    for letter, addresses, data, most in (("v", 60_001, 1, 60_000), ("d", 1, 50_001, 50_000)):
        with pytest.raises(BuildError) as error:
            require_memory("x", addresses=addresses, data=data)
        assert error.value.message == f"the limit of memory is {most} bytes, and x needs {most + 1} at least"
        assert error.value.hint == f"raise it, then rerun: ulimit -{letter} unlimited"
