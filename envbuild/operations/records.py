"""``runs`` and ``show``: what was recorded of a project's runs, and the schema of that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.lockfile.discovery import project_of
from envbuild.record import history, model
from envbuild.record.model import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectRuns:
    """The readable records of a project, newest first."""

    project: Path
    records: tuple[Record, ...]


def list_records(folder: Path) -> ProjectRuns:
    """Return the records of the project that holds a folder."""
    project = project_of(folder)
    return ProjectRuns(project=project, records=history.list_runs(project))


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``record.json``."""
    return model.record_schema()


def find_record(prefix: str, folder: Path) -> Record:
    """Return the one record of a project whose identity begins with ``prefix``; case does not matter.

    Raises:
        RecordError: none or several begin so, or the record is damaged.
    """
    return history.find_run(project_of(folder), prefix)
