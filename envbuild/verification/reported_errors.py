"""What a library logs of a part of itself that failed, or not, by the clock: the line, and the stack behind it.

Prefect's server, which a flow starts for itself, reports home while the flow begins; whether that finds the network, or
the database locked, is luck (``prefect/server/services/telemetry.py``).
"""

from __future__ import annotations

from envbuild.core.patterns import lazy

_HEAD = lazy(
    r"\d\d:\d\d:\d\d\.\d{3} \| (?:ERROR|WARNING) +\| (?:prefect\.server\.services\.telemetry - Failed to send telemetry"
    r"|docket\.\w+ - ↩ \[ *\d+m?s\] send_telemetry_heartbeat\()"
)
_STACK = lazy(
    r"(?:Traceback \(most recent call last\):\s*$|\s|\s*$|(?:The above|During handling of the above) exception"
    r"|[A-Za-z_][\w.]*(?:Error|Exception)(?:: | \(|$)|\[SQL: |\[parameters: |\(Background on this error at: )"
)
"""Lines of stacks as Python and SQLAlchemy write them."""


class ReportedErrors:
    """Finds such lines of a stream, which are given one by one."""

    def __init__(self) -> None:
        self._within = False

    def has(self, line: str) -> bool:
        """Whether a line belongs to such an error."""
        self._within = _HEAD.match(line) is not None or (self._within and _STACK.match(line) is not None)
        return self._within
