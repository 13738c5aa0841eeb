"""How the ranks of a job meet: files in a folder that all of them see, next to the project's records.

    .envbuild/ranks/<key of the job>/call.json          rank 0: the identity of this start, 128 random bits
                                     answer-<rank>.json each other rank: its facts, for that start
                                     verdict-<start>.json rank 0: who was compared, and the result
                                     ended-<start>-<rank>.json each rank, when its program has ended
                                     codes-<start>.json  rank 0: the exit codes that it knows when it ends

A key may come again: a launcher that names no job, a second start in the same step. So nothing that was there before
counts: rank 0 takes answers to its own call only, and another rank takes a verdict only if the random number that it
has just sent is in it. Rank 0 has sent its verdict before it can call again, so a rank looks for the verdict of the
call that it answered before it answers another one.

Who can write the folder can take part; it is the user's alone (mode 0700), and a file of another user counts for
nothing. The program does not see it: ``.envbuild`` is an empty folder in the container.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from envbuild.cluster.agreement import Answer, Call, Codes, Ended, Verdict, compare
from envbuild.cluster.launchers import job_key
from envbuild.cluster.rank import Rank
from envbuild.core.fs import atomic_file, folder_below, open_regular
from envbuild.core.text import plain
from envbuild.errors import JobError

FOLDER = "ranks"
_LARGEST = 1 << 20
_LARGEST_VERDICT = 64 << 20
_SOONEST, _LATEST = 0.02, 0.5
"""Seconds between two looks, growing."""
_FEW = 32
"""Ranks of a job whose ranks read the ends of all others by themselves, without waiting for rank 0."""
_AFTER = 30.0
"""Seconds that a rank waits longer than rank 0, so that rank 0's verdict can name who is missing."""
_OLD = 7 * 24 * 3600
"""Seconds after which the files of a job are removed by another one."""
_KEY = re.compile(r"[0-9a-f]{32}")
_HINT = (
    "all ranks need the same project folder: put it on a file system that all nodes share, or share another folder: "
    "ENVBUILD_RANKS_FOLDER=FOLDER; to wait longer: ENVBUILD_RANKS_TIMEOUT=30m"
)

_Kind = TypeVar("_Kind", Answer, Call, Codes, Ended, Verdict)


class Exchange:
    """The meeting of one rank with the others of its job.

    Args:
        root: the folder that holds all meetings; it must exist.
        names: folders below it, made if need be.
        rank: this process.
        patience: seconds to wait for the others.
        clock: seconds, and ``sleep`` waits for some; for tests.
    """

    def __init__(
        self,
        root: Path,
        names: tuple[str, ...],
        rank: Rank,
        patience: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root, self._names, self._rank = root, (*names, FOLDER, job_key(rank)), rank
        self._patience, self._clock, self._sleep = patience, clock, sleep
        self._nonce = secrets.token_hex(16)
        self._nonces: dict[str, str] = {}
        self.start = ""

    def agree(self, answer: Answer, allow: Collection[str] = ()) -> Verdict:
        """Send this rank's answer, and return the verdict on all of them; ``start`` and ``nonce`` are filled in.

        Raises:
            JobError: the others did not arrive in time, or the folder cannot be used.
        """
        answer = msgspec.structs.replace(answer, nonce=self._nonce)
        try:
            verdict = self._lead(answer, allow) if self._rank.rank == 0 else self._follow(answer)
        except OSError as error:
            place = error.filename or self._root.joinpath(*self._names)
            raise JobError(f"the ranks cannot meet in {place}: {error.strerror}", _HINT) from None
        self.start, self._nonces = verdict.start, dict(verdict.nonces)
        return verdict

    def ended(self, code: int, patience: float) -> dict[int, int]:
        """Report that the program has ended, and return the exit codes of the ranks that have ended by then.

        Args:
            code: its exit code.
            patience: seconds to wait for the others.
        """
        own = Ended(start=self.start, nonce=self._nonce, rank=self._rank.rank, code=code & 0xFF)
        found = {self._rank.rank: own.code}
        with suppress(OSError):
            with self._folder() as folder:
                _write(folder / f"ended-{self.start}-{own.rank}.json", own)
            one_by_one = self._rank.rank == 0 or self._rank.world <= _FEW
            for _ in self._looks(patience):
                with self._folder() as folder:
                    if (known := self._collected(folder)) is not None:
                        found, one_by_one = known | found, True  # of what rank 0 did not know there are files only
                    if one_by_one:
                        found |= self._codes(folder, found)
                if len(found) == self._rank.world:
                    break
            with self._folder() as folder:
                if own.rank == 0:
                    _write(folder / f"codes-{self.start}.json", Codes(codes=found))
                elif not one_by_one:
                    found |= self._codes(folder, found)  # rank 0 was killed
        return dict(sorted(found.items()))

    def close(self) -> None:
        """End the meeting: files alone are left, which a later job removes."""

    def _collected(self, folder: Path) -> dict[int, int] | None:
        """Return what rank 0 collected; None before its end. With it n ranks do not read n² files."""
        found = _read(folder / f"codes-{self.start}.json", Codes) if self._rank.rank else None
        return None if found is None else {rank: code for rank, code in found.codes.items() if rank < self._rank.world}

    def _codes(self, folder: Path, known: Collection[int]) -> dict[int, int]:
        found = {}
        for rank in range(self._rank.world):
            if rank in known:
                continue
            ended = _read(folder / f"ended-{self.start}-{rank}.json", Ended)
            if ended is not None and ended.start == self.start and self._nonces.get(str(rank)) == ended.nonce:
                found[rank] = ended.code
        return found

    def _lead(self, answer: Answer, allow: Collection[str]) -> Verdict:
        """Call, collect answers to this call, and send the verdict."""
        call = Call(start=secrets.token_hex(16))
        answer = msgspec.structs.replace(answer, start=call.start)
        with self._folder() as folder:
            _remove_old(folder)
            _write(folder / "call.json", call)
        answers = {0: answer}
        for _ in self._looks(self._patience):
            with self._folder() as folder:
                for rank in (rank for rank in range(1, self._rank.world) if rank not in answers):
                    found = _read(folder / f"answer-{rank}.json", Answer)
                    if found is not None and (found.start, found.rank) == (call.start, rank):
                        answers[rank] = found
            if len(answers) == self._rank.world:
                break
        verdict = compare([answers[rank] for rank in sorted(answers)], self._rank.world, allow)
        with self._folder() as folder:
            _write(folder / f"verdict-{call.start}.json", verdict)
        return verdict

    def _follow(self, answer: Answer) -> Verdict:
        """Answer the newest call until there is a verdict that knows this answer."""
        answered = ""
        for _ in self._looks(self._patience + _AFTER):
            with self._folder() as folder:
                call = _read(folder / "call.json", Call)
                if answered:
                    verdict = _read(folder / f"verdict-{answered}.json", Verdict, _LARGEST_VERDICT)
                    if verdict is not None and verdict.nonces.get(str(self._rank.rank)) == self._nonce:
                        return verdict
                if call is not None and call.start != answered:
                    _write(folder / f"answer-{self._rank.rank}.json", msgspec.structs.replace(answer, start=call.start))
                    answered = call.start
        what = "gave no verdict" if answered else "did not arrive"
        raise JobError(
            f"rank 0 {what} within {self._patience + _AFTER:g} s — nothing was run\n"
            f"  this is rank {self._rank.rank} of {self._rank.world} on {plain(self._rank.host)}",
            _HINT,
        )

    def _looks(self, patience: float) -> Iterator[None]:
        """Yield until the time is over, at least once, with growing pauses."""
        end, pause = self._clock() + patience, _SOONEST
        while True:
            yield
            left = end - self._clock()
            if left <= 0:
                return
            self._sleep(min(pause, left))
            pause = min(pause * 1.3, _LATEST)

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Open the job's folder, made if need be: this user's alone. It is opened anew each time, for NFS's sake."""
        with folder_below(self._root, *self._names, make=True) as folder:
            status = folder.stat()
            if os.geteuid() not in (status.st_uid, 0):
                place = self._root.joinpath(*self._names)
                raise JobError(f"the ranks cannot meet in {place}: it belongs to another user", "remove it")
            if status.st_mode & 0o077:
                folder.chmod(0o700)
            yield folder


def _write(path: Path, value: Any) -> None:
    with atomic_file(path, mode=0o600, sync=False, hand_over=True) as stream:
        stream.write(msgspec.json.encode(value))


def _read(path: Path, kind: type[_Kind], limit: int = _LARGEST) -> _Kind | None:
    """Return what another rank wrote; None if it is not there, is not this user's, or is not what it should be."""
    try:
        with open_regular(path, follow=False) as stream:
            status = os.fstat(stream.fileno())
            if status.st_size > limit or status.st_uid != path.parent.stat().st_uid:
                return None
            return msgspec.json.decode(stream.read(limit), type=kind)
    except (OSError, ValueError, RecursionError):
        return None


def _remove_old(folder: Path) -> None:
    """Remove what other jobs left long ago."""
    with suppress(OSError):
        above = Path(os.path.realpath(folder)).parent
        limit = time.time() - _OLD
        for path in above.iterdir():
            if _KEY.fullmatch(path.name) and not path.is_symlink() and path.stat().st_mtime < limit:
                shutil.rmtree(path, ignore_errors=True)
