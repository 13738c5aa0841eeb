"""Faults of the system that are limits of this process, as people set them with ``ulimit``: which, and what helps.

A filter of system calls around envbuild is one too, as sandboxes have it. Imported when a command has failed. Sources:
getrlimit(2); fork(2); open(2), EMFILE and ENFILE; PR_GET_SECCOMP(2const).
"""

from __future__ import annotations

import errno
import resource
import signal
from collections.abc import Iterator

from envbuild.core.patterns import lazy
from envbuild.errors import BuildError, EnvbuildError

_CLONE3 = 435
"""Number of the call on all machines."""
_THREAD = "can't start new thread"
"""What ``threading`` raises where the kernel starts none."""
_NOT_LOADED = lazy(r"failed to map segment|[Cc]annot allocate memory")
"""What the loader of glibc or musl answers where a module written in C finds no room."""
_NO_MEMORY = lazy(r"memory allocation of \d+ bytes failed|out of memory|Cannot allocate memory|os error 12\b")
"""What programs in C and Rust write before they abort."""
_NO_PROCESS = lazy(r"failed to\s+spawn\s+thread|os error 11\b|\bOs \{ code: 11,")
_NO_FORK = lazy(r"\b[Ff]ork\b.{0,200}Resource temporarily unavailable|\bCannot fork\b|can't start new thread")
"""What bash, perl and dpkg write, and dash and Python."""
_NO_FILE = lazy(r"os error 24\b|Too many open files")
_GET_SECCOMP, _FILTERED = 21, 2
FORBIDS = (errno.EPERM, errno.ENOSYS)
"""What a call answers that a filter of system calls forbids, as engines and sandboxes write filters."""
ALLOW = (
    "a filter of system calls (seccomp) is around it: allow the call there, or start the container with --privileged"
)


def explained(error: Exception) -> tuple[str, str] | None:
    """Return which limit an error comes from, and what to do; None if it comes from none.

    Args:
        error: what ended a command.
    """
    for each in _behind(error):
        if isinstance(each, MemoryError) or (isinstance(each, ImportError) and _NOT_LOADED.search(str(each))):
            return _memory()
        if isinstance(each, RuntimeError) and str(each) == _THREAD:
            return _processes(a_thread=True)
    if not isinstance(error, OSError):
        return None
    name = error.filename2 or error.filename
    if error.errno in (errno.EMFILE, errno.ENFILE):
        most = _limit(resource.RLIMIT_NOFILE) if error.errno == errno.EMFILE else None
        return f"too many open files{_at_most(most)}", "raise the limit, then rerun: ulimit -n 1024"
    if error.errno == errno.EFBIG and (most := _limit(resource.RLIMIT_FSIZE)) is not None:
        what = f"{name} becomes too large" if name else "a file becomes too large"
        return f"{what}{_at_most(most, ' bytes')}", "raise the limit, then rerun: ulimit -f unlimited"
    if error.errno == errno.ENOMEM and not name:
        return _memory() or ("the system has no memory left", "end other programs, then rerun")
    if error.errno == errno.EAGAIN and not name:
        return _processes()
    if error.errno in FORBIDS and not name and is_filtered():
        return f"the system refuses a call that envbuild needs: {error.strerror}{_line(error)}", ALLOW
    return None


def processor_time(most: int) -> tuple[str, str]:
    """Return that a process has used up its seconds of processor time, and what to do."""
    return f"out of processor time{_at_most(most, ' seconds')}", "raise the limit, then rerun: ulimit -t unlimited"


def behind(error: EnvbuildError) -> tuple[str, str] | None:
    """Return which limit brought an error of envbuild's own about, and what to do; None if none did.

    Whoever reads a file says what is wrong with it, and that it cannot be opened is then the file's fault. A number
    that means other things too (EAGAIN of a lock, a file's name with ENOMEM) is not taken for a limit here.
    """
    for each in _behind(error):
        files = isinstance(each, OSError) and each.errno in (errno.EMFILE, errno.ENFILE)
        thread = isinstance(each, RuntimeError) and str(each) == _THREAD
        if isinstance(each, Exception) and (files or thread or isinstance(each, MemoryError)):
            return explained(each)
    return None


def of_child(status: int, stderr: str) -> tuple[str, str] | None:
    """Return which limit ended a program that envbuild has started, and what to do; None if none is known to have.

    Args:
        status: its exit code, negative for a signal.
        stderr: what it wrote.
    """
    if status == -signal.SIGXFSZ:
        most = _limit(resource.RLIMIT_FSIZE)
        return f"a file became too large{_at_most(most, ' bytes')}", "raise the limit, then rerun: ulimit -f unlimited"
    if _NO_FILE.search(stderr):
        most = _limit(resource.RLIMIT_NOFILE)
        return f"too many open files{_at_most(most)}", "raise the limit, then rerun: ulimit -n 1024"
    if _NO_PROCESS.search(stderr):
        return _memory() or _processes()
    aborted = status in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS, -signal.SIGTRAP)
    if _NO_MEMORY.search(stderr) or (aborted and _memory()):
        return _memory() or ("the system has no memory left", "end other programs, then rerun")
    seconds = _limit(resource.RLIMIT_CPU) if status in (-signal.SIGXCPU, -signal.SIGKILL) else None
    if seconds is not None and (status == -signal.SIGXCPU or _used_by_children() > seconds - 1):
        return processor_time(seconds)
    if status == -signal.SIGKILL:
        return "it was killed, as the system does that has no memory left", "end other programs, then rerun"
    return None


def _used_by_children() -> float:
    """Return the seconds of processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_step(output: str) -> tuple[str, str] | None:
    """Return which limit a build step has met by what its programs printed, and what to do; None if none is known.

    Of memory nothing: that a compiler has none may be its own fault.
    """
    if _NO_FORK.search(output) or _NO_PROCESS.search(output):
        return _processes()
    if _NO_FILE.search(output) and (most := _limit(resource.RLIMIT_NOFILE)) is not None:
        return f"too many open files{_at_most(most)}", "raise the limit, then rerun: ulimit -n 1024"
    return None


def require_memory(command: str, *, addresses: int, data: int) -> None:
    """Refuse to begin what would not end in an error for want of memory, but hang: a library of it waits for itself.

    Args:
        command: what needs it.
        addresses, data: bytes that ``ulimit -v`` and ``ulimit -d`` must allow.

    Raises:
        BuildError: a limit is lower.
    """
    for letter, which, least in (("v", resource.RLIMIT_AS, addresses), ("d", resource.RLIMIT_DATA, data)):
        most = _limit(which)
        if most is not None and most < least:
            raise BuildError(
                f"the limit of memory is {most} bytes, and {command} needs {least} at least",
                f"raise it, then rerun: ulimit -{letter} unlimited",
            )


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that it came from: what is done about a lack of memory may fail, too."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def is_filtered() -> bool:
    """Whether a filter of system calls is on this process."""
    import ctypes

    return int(ctypes.CDLL(None).prctl(_GET_SECCOMP, 0, 0, 0, 0)) == _FILTERED


def _line(error: OSError) -> str:
    """Return the line that made the call: which call it was, nobody reports."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].line})" if frames and frames[-1].line else ""


def _memory() -> tuple[str, str] | None:
    """Explain that there is no memory; None where no limit is set: then it is a fault."""
    limits = [
        (f"ulimit -{letter} unlimited", most)
        for letter, most in (("v", _limit(resource.RLIMIT_AS)), ("d", _limit(resource.RLIMIT_DATA)))
        if most is not None
    ]
    if not limits:
        return None
    command, most = min(limits, key=lambda each: each[1])
    return f"out of memory{_at_most(most, ' bytes')}", f"raise the limit, then rerun: {command}"


def _processes(*, a_thread: bool = False) -> tuple[str, str]:
    """Explain that no process could be started, or no thread, whose stack needs room too (mmap(2), EAGAIN of clone)."""
    if _clone3_is_forbidden():
        return (
            "cannot start a thread: a filter of system calls forbids clone3 (EPERM) where C libraries expect ENOSYS",
            "update the container's engine (Docker 20.10.10, libseccomp 2.5 or newer), or start it with --privileged",
        )
    if a_thread and (memory := _memory()):
        return f"cannot start another thread: {memory[0]}", memory[1]
    most = _at_most(_limit(resource.RLIMIT_NPROC), " of this user")
    return (
        f"cannot start another process or thread{most}",
        "end other programs, or raise the limit (ulimit -u, pids.max of the control group), then rerun",
    )


def _clone3_is_forbidden() -> bool:
    """Whether clone3(2) is refused, whatever its arguments: with none at all the kernel finds them too small."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(_CLONE3, None, 0) == -1 and ctypes.get_errno() == errno.EPERM


def _limit(which: int) -> int | None:
    """Return a limit that is set, as far as it can be found out."""
    try:
        most = resource.getrlimit(which)[0]
    except OSError:  # a filter of system calls
        return None
    return None if most == resource.RLIM_INFINITY else most


def _at_most(most: int | None, unit: str = "") -> str:
    return "" if most is None else f": the limit is {most}{unit}"
