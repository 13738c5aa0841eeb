"""The guard's side of the GPU probe: start it, wait for its answer, never longer than a limit.

Without ``subprocess``, whose import takes as long as the probe's own start. The answer is a value in every case: a
probe that hangs, dies or answers nonsense is the ``problem`` of a machine whose GPUs cannot be known.
"""

from __future__ import annotations

import os
import sys

from ..fastjson import loads
from . import driver
from .gpu import empty, failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

TIMEOUT = 60.0
"""Seconds. Without persistence mode the driver starts each GPU anew, 1 to 3 s each: a machine of 16 takes 48."""
_CODE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {package} import gpu; gpu.main()"


def gpus(
    site: str = "",
    python: str = "",
    *,
    timeout: float = TIMEOUT,
    environment: Mapping[str, str] | None = None,
    root: str = "/",
) -> dict[str, Any]:
    """Return what is known of this machine's GPUs: ``GpuFacts`` of ``envbuild/host/facts.py``, keys as in its file.

    Args:
        site: folder where nvidia-ml-py is; found along this interpreter's path if empty.
        python: interpreter of the probe; this one if empty.
        timeout: seconds.
        environment: variables of the probe, which decide what CUDA shows; this process's own if None.
        root: replaces ``/`` in tests.
    """
    variables = dict(os.environ if environment is None else environment)
    if not driver.traces(root, variables.get("LD_LIBRARY_PATH", "")):
        return empty()
    package = __name__.rpartition(".")[0]
    folder = __file__
    for _ in range(package.count(".") + 2):
        folder = os.path.dirname(folder)
    code = _CODE.format(package=package)
    command = [python or sys.executable, "-I", "-S", "-B", "-c", code, folder, site or _site()]
    try:
        status, answer = _output(command, variables, timeout)
    except OSError as error:
        return failed("FAILED", f"the GPU probe cannot be started: {error}", root)
    if status is None:
        return failed("TIMEOUT", f"NVIDIA's libraries did not answer within {timeout:g} s", root)
    if status < 0:
        return failed("CRASHED", f"NVIDIA's libraries ended the probe with signal {-status}", root)
    try:
        facts = loads(answer.decode())
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        return failed("FAILED", f"the GPU probe gave no answer and exit status {status}", root)
    return facts


def _site() -> str:
    """Return the first folder of this interpreter's path that has nvidia-ml-py, or an empty string."""
    return next((folder for folder in sys.path if os.path.isfile(os.path.join(folder, "pynvml.py"))), "")


def _output(command: list[str], variables: Mapping[str, str], timeout: float) -> tuple[int | None, bytes]:
    """Run a program; return its exit status (negative: a signal; None: killed after the limit) and its output."""
    from select import POLLIN, poll
    from time import monotonic

    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
    ]
    try:
        pid = os.posix_spawn(command[0], command, variables, file_actions=actions)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    answer, end = b"", monotonic() + timeout
    waiting = poll()
    waiting.register(reader, POLLIN)
    try:
        while waiting.poll(max(0.0, end - monotonic()) * 1000):
            chunk = os.read(reader, 65536)
            if not chunk:
                break
            answer += chunk
        return _status(pid, end), answer
    except BaseException:  # Ctrl-C: the probe may be deaf to it
        os.kill(pid, 9)
        raise
    finally:
        os.close(reader)


def _status(pid: int, end: float) -> int | None:
    """Wait for a program until a time, then kill it; one stuck in the driver is left to the kernel."""
    from time import monotonic, sleep

    killed = False
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # whoever started this process ignores SIGCHLD: the kernel keeps no status
            return 0
        if done:
            return None if killed else os.waitstatus_to_exitcode(status)
        if monotonic() > end + (1 if killed else 0):
            if killed:
                return None
            os.kill(pid, 9)
            killed = True
        sleep(0.0005)
