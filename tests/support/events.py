"""An ``Events`` for tests that keeps what is reported."""

from __future__ import annotations

from envbuild.operations.events import Event, Silent


class Recorded(Silent):
    """Keeps reported events, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def report(self, event: Event) -> None:
        """Keep one event."""
        self.events.append(event)
