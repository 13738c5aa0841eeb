"""Records of a job whose nodes share no folder: each rank's, and its step traces, brought to rank 0's machine.

What arrives is data from outside, from holders of the job's secret: names are those that a run's folder has, a record
is of the rank and the start that it is delivered for, and nothing that is there is replaced.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from envbuild.cluster.agreement import Delivery, SentFile
from envbuild.cluster.frames import LARGEST_DELIVERY
from envbuild.cluster.rank import RECORD
from envbuild.core.digest import sha256_stream
from envbuild.core.fs import atomic_file, folder_below, open_regular
from envbuild.lockfile.discovery import STATE_FOLDER
from envbuild.record import history
from envbuild.record.jobs import job_size, rank_of, start_of
from envbuild.record.model import Record, RecordError, loads

_PART = 1 << 20


def files_of(project: Path, record: Record) -> tuple[dict[SentFile, Path], bool]:
    """Return what a run has to deliver, its record last; and whether its traces are among that, or too large.

    Raises:
        OSError: the record cannot be read.
    """
    above = history.run_folder(project, record.id)
    process = above / history.PROCESS
    traces = [_described(path) for path in sorted([*process.glob("trace-*.bin"), *process.glob("nccl-*.xml")])]
    own = _described(above / RECORD)
    fits = sum(file.size for file, _ in (*traces, own)) <= LARGEST_DELIVERY
    return dict([*(traces if fits else ()), own]), fits


def _described(path: Path) -> tuple[SentFile, Path]:
    """Return a file's name, size and digest; a link that a program made is none."""
    with open_regular(path, follow=False) as stream:
        size = os.fstat(stream.fileno()).st_size
        return SentFile(name=path.name, size=size, sha256=sha256_stream(stream)), path


class RankRecords:
    """What other ranks deliver, stored among the runs of rank 0's project.

    Args:
        project: rank 0's.
        world: number of ranks.
    """

    def __init__(self, project: Path, world: int) -> None:
        self._project, self._world = project, world

    def wanted(self, delivery: Delivery) -> tuple[str, ...]:
        """Return the names of the files that are not there: ranks may share a folder all the same."""
        missing = []
        for file in delivery.files:
            try:
                with folder_below(self._project, *_folders(delivery.run, file.name)) as folder:
                    found, _ = _described(folder / file.name)
            except OSError:
                found = None
            if found != file:
                missing.append(file.name)
        return tuple(missing)

    def keep(self, delivery: Delivery, files: Mapping[str, int], stream: IO[bytes]) -> str:
        """Store files, the record last; returns why that cannot be, empty if it could."""
        sizes = {file.name: file.size for file in delivery.files}
        if not files:
            return ""
        try:
            if RECORD not in files:
                return f"it has no {RECORD}, or another file of its run is not as it was"
            stream.seek(files[RECORD])
            record = loads(stream.read(sizes[RECORD]), f"the record of rank {delivery.rank}")
            found = (record.id, start_of(record), rank_of(record), job_size(record))
            if found != (delivery.run, delivery.start, delivery.rank, self._world):
                return "it is the record of another run"
            for name in sorted(files, key=lambda name: name == RECORD):
                with folder_below(self._project, *_folders(delivery.run, name), make=True) as folder:
                    if os.path.lexists(folder / name):
                        return f"there is another {name} of run {delivery.run}"
                    stream.seek(files[name])
                    with atomic_file(folder / name, mode=0o600, hand_over=True) as out:
                        _copy(stream, out, sizes[name])
        except RecordError as error:
            return error.message[:1000]
        except OSError as error:
            return f"it cannot be stored: {error.strerror or error}"
        return ""


def _folders(run: str, name: str) -> tuple[str, ...]:
    """Return the folders, below the project, of a file of a run."""
    folders = (STATE_FOLDER, "runs", run)
    return folders if name == RECORD else (*folders, history.PROCESS)


def _copy(stream: IO[bytes], out: IO[bytes], size: int) -> None:
    while size:
        part = stream.read(min(size, _PART))
        out.write(part)
        size -= len(part)
