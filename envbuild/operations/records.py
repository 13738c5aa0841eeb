"""``runs`` and ``show``: what was recorded of a project's runs."""

from __future__ import annotations

from pathlib import Path

from envbuild.lockfile.discovery import project_of
from envbuild.record import history
from envbuild.record.model import Record


def list_records(folder: Path) -> tuple[Record, ...]:
    """Return the readable records of the project that holds a folder, newest first."""
    return history.list_runs(project_of(folder))


def find_record(prefix: str, folder: Path) -> Record:
    """Return the one record of a project whose identity begins with ``prefix``; case does not matter.

    Raises:
        RecordError: none or several begin so, or the record is damaged.
    """
    return history.find_run(project_of(folder), prefix)
