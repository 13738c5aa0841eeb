"""This machine's clock: where something fails for its date, the message names the clock and the time it gives."""

from __future__ import annotations

from datetime import datetime, timezone

CHECK = "check this machine's clock: date -u; if it is wrong, set it by network time: timedatectl set-ntp true"
"""The next command for a date in the future, and for a certificate that is not valid now."""


def utc_now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(timezone.utc)


def minutes(moment: datetime) -> str:
    """Return a time for people, to the minute, in UTC."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
