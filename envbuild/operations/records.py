"""``runs`` and ``show``: what was recorded of a project's runs, and the schema of that."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuild.core.text import script_in
from envbuild.lockfile.discovery import project_of
from envbuild.record import history, jobs, model
from envbuild.record.jobs import JobRecord
from envbuild.record.model import Record, RecordError


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectRuns:
    """The readable records of a project, newest first; ``jobs`` has those of one start together.

    Attributes:
        unreadable: runs whose records are there and cannot be read.
    """

    project: Path
    records: tuple[Record, ...]
    jobs: tuple[JobRecord, ...]
    unreadable: tuple[str, ...] = ()


def list_records(folder: Path) -> ProjectRuns:
    """Return the records of the project that holds a folder."""
    project = project_of(folder)
    records = history.list_runs(project)
    unreadable = history.unreadable_runs(project, records)
    return ProjectRuns(project=project, records=records, jobs=jobs.group(records), unreadable=unreadable)


def earlier_job(job: JobRecord, folder: Path) -> JobRecord | None:
    """Return the run that a run's results were compared with; None without one, or if it was deleted."""
    name = job.first.same_bits_as or job.first.differs_from
    with suppress(RecordError):
        return history.find_job(project_of(folder), name) if name else None
    return None


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of ``record.json``."""
    return model.record_schema()


def find_job(name: str | None, folder: Path) -> JobRecord:
    """Return the run of a project whose identity begins with ``name``, the newest without one; case does not matter.

    One rank's identity names its whole job, ``NAME:1`` rank 1 of it.

    Raises:
        RecordError: none or several begin so, the record is damaged, or the job has no record of that rank.
        RecordError: the project has no runs.
    """
    project = project_of(folder)
    if name is not None:
        return history.find_job(project, name)
    newest = jobs.group(history.list_runs(project))[:1]
    if not newest:
        raise RecordError(f"nothing to show: {project} has no runs", f"start one: envbuild run {script_in(project)}")
    return newest[0]
