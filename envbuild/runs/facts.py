"""Facts about the host, the engine and the project's repository, gathered by a thread while the program runs."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.types import prepare_deferred
from envbuild.errors import EnvbuildError
from envbuild.record import history
from envbuild.record.model import Git, Record
from envbuild.record.repositories import may_be_in_repository
from envbuild.runs.request import RunEngine, RunRequest

_PATIENCE = 30.0
"""Seconds to wait for facts when the program has ended: git on a network file system may never answer."""
_GIT_PATIENCE = 10.0
"""Seconds that a program waits for git at most: a large repository on a slow disk, looked at for the first time."""
_BEHIND = 0.001
"""Seconds in which the program is started first: of two threads that both have work one waits for 1 ms and more."""
_SHORTAGE = (MemoryError, OSError, ImportError)
"""What a limit of memory or of open files raises in a thread here, imports included; the user sees no traceback of it.

What is not had is absent from the record; the run's end imports and needs as much, and reports what it meets.
"""
_SHORT = 0.1
"""Seconds after which a program is no short one: what only longer ones need is imported then, while they run."""


class Facts:
    """Facts gathered by a thread, and saved as soon as they are known: of git before the program starts, then the rest.

    What only they and the end of a run need is imported there too, while the program runs. Half of it is needed if
    the program left or printed something: that is imported once the program is no short one, which would wait for it.

    Attributes:
        record: is saved with the facts.
    """

    def __init__(self, request: RunRequest, engine: RunEngine) -> None:
        self.record: Record | None = None
        self._found: dict[str, Any] = {}
        self._given = False
        self._turn = threading.Lock()
        self._looked, self._starts, self._ended = threading.Event(), threading.Event(), threading.Event()
        threading.Thread(target=self._look, args=(request.project,), name="git", daemon=True).start()
        self._work = threading.Thread(target=self._gather, args=(request, engine), name="facts", daemon=True)

    def wait_for_git(self) -> None:
        """Wait until git has been asked, since the program may change what that looks at; then gather the rest.

        What git answers later is left out: it may be what the program has made of the project.
        """
        if self._starts.is_set():
            return  # a second program: the reader of saved models
        self._looked.wait(_GIT_PATIENCE)
        self._starts.set()
        self._work.start()

    def result(self) -> dict[str, Any]:
        """Wait for the facts; those that could not be had, or not in time, are absent."""
        self.wait_for_git()  # the program did not start, if that was not done before
        self._ended.set()
        self._work.join(_PATIENCE)
        with self._turn:
            self._given = True
            return dict(self._found)

    def _look(self, project: Path) -> None:
        try:
            with suppress(*_SHORTAGE):
                state = _git_state(project)
                with self._turn:
                    if not self._starts.is_set():
                        self._found["git"] = state
        finally:
            self._looked.set()

    def _gather(self, request: RunRequest, engine: RunEngine) -> None:
        with suppress(*_SHORTAGE):
            time.sleep(_BEHIND)
            prepare_deferred()
            self._gather_all(request, engine)

    def _gather_all(self, request: RunRequest, engine: RunEngine) -> None:
        from envbuild.host.probe import host_facts

        self._found["host"] = host_facts(gpus=self.record is None or bool(self.record.gpus))
        with suppress(EnvbuildError):
            self._found["engine"] = dict(engine.describe())
        from envbuild.engine import overlay  # noqa: F401 - loaded while the program runs
        from envbuild.record import listing  # noqa: F401
        from envbuild.runs import nccl, observations  # noqa: F401
        from envbuild.runs.results import metrics, tensors  # noqa: F401

        if request.meanwhile is not None:
            request.meanwhile()
        if self._ended.wait(_SHORT):
            return
        with self._turn, suppress(OSError):
            if not self._given and self.record is not None:
                history.save(request.project, msgspec.structs.replace(self.record, **self._found))
        from envbuild.record import compare_outputs, compare_printed  # noqa: F401 - loaded while the program runs

        if request.preload is not None:
            request.preload()


def _git_state(project: Path) -> Git | None:
    """Ask git, unless there plainly is no repository: to import what starts programs takes longer than to look."""
    if not may_be_in_repository(project):
        return None
    from envbuild.record.git import git_state

    return git_state(project)
