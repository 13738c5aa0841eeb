"""What is the same in all runs of one machine, and another elsewhere or after its next start: seeds, and its speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envbuild.verification.causes.calls import calls

_OF_MACHINE = frozenset((
    "os.cpu_count", "os.statvfs", "os.sysconf", "os.uname", "multiprocessing.cpu_count",
    "platform.platform", "platform.processor", "platform.release", "platform.uname", "platform.version",
    "psutil.boot_time", "psutil.cpu_count", "psutil.disk_usage", "psutil.virtual_memory", "resource.getrlimit",
    "shutil.disk_usage", "socket.if_nameindex", "/proc/meminfo", "/proc/stat", "/proc/sys/kernel/random/boot_id",
))  # fmt: skip
"""What says how large a machine is, what runs on it, and since when. Processors (``/proc/cpuinfo``) are locked."""


_ALARMS = frozenset(("signal.alarm", "signal.setitimer"))
"""What has a signal come at a time."""


def limits_by_signals(sources: Mapping[str, str], longest: float) -> Iterator[tuple[str, str]]:
    """Yield the limits of time that a signal ends what it comes into at, and where; not those that no run reached.

    Args:
        sources: modules of the project, by path.
        longest: seconds that the longest run took.
    """
    for path, source in sources.items():
        for call in calls(source):
            known = call.seconds
            if call.name in _ALARMS and (known is None or 0 < known < longest):
                yield f"{call.name}()", f"{path}:{call.line}"


def seeds_of_this_machine(sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what becomes a seed and is a fact of this machine, and where.

    Args:
        sources: modules of the project, by path.
    """
    for path, source in sources.items():
        for call in calls(source):
            if call.name in _OF_MACHINE and call.use == "seed":
                yield (call.name if call.name.startswith("/") else f"{call.name}()"), f"{path}:{call.line}"
