"""Rank 0's side of a meeting over TCP: a server in a thread, from the first answer to the last exit code."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import resource
import tempfile
import threading
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol, TypeVar

import msgspec

from envbuild.cluster import frames
from envbuild.cluster.agreement import Answer, Call, Codes, Delivery, Ended, Kept, Verdict, Wanted, compare
from envbuild.cluster.frames import RefusedError
from envbuild.core.text import plain, plural

_MOMENT = 10.0
"""Seconds that a peer gets for a message, and that messages to peers get in the end."""
_AT_ONCE = 64
"""Connections that are greeted at once; the others wait for their turn. Each may fill a message's memory."""
_BACKLOG = 4096
_OWN_FILES = 512
"""Open files besides a connection for each rank: this process's own, and those of strangers."""
_PAUSE = 0.5
"""Seconds between two messages of exit codes to one rank."""
_RECEIVED_AT_ONCE = 4
"""Ranks whose files are received at once: each may fill a temporary file of ``frames.LARGEST_DELIVERY``."""
_SLOWEST = 1 << 20
"""Bytes a second at which a rank must deliver its files, besides a moment to begin."""
_PART = 1 << 18
"""Bytes of a delivery in memory."""
_COUNTED = 1000
_NAMED = 5
"""Addresses of refused connections that are named."""

_Result = TypeVar("_Result")


class Keeper(Protocol):
    """Stores what other ranks deliver; called by threads of the server, for one rank at a time."""

    def wanted(self, delivery: Delivery) -> tuple[str, ...]:
        """Return the names of the files that are not there."""

    def keep(self, delivery: Delivery, files: Mapping[str, int], stream: IO[bytes]) -> str:
        """Store a rank's files; returns why that cannot be, empty if it could.

        Args:
            delivery: what was announced; sizes and digests are those of the stream's content.
            files: where each wanted file begins in the stream.
            stream: their content.
        """


class Server:
    """What all ranks talk to. Its state is touched in its own thread only.

    Args:
        key: of the job's messages.
        start: the random bits of this start.
        world: number of ranks.
        keeper: stores what the ranks deliver in the end.
    """

    def __init__(self, key: bytes, start: str, world: int, keeper: Keeper) -> None:
        self._key, self._start, self._world, self._keeper = key, start, world, keeper
        self._answers: dict[int, Answer] = {}
        self._codes: dict[int, int] = {}
        self._delivered: dict[int, str] = {}
        self._refused: Counter[tuple[str, int]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: None)  # what a peer does is no news to this user
        self._thread = threading.Thread(target=self._loop.run_forever, name="ranks", daemon=True)
        self._server: asyncio.Server | None = None
        self._handlers: set[asyncio.Task[Any]] = set()
        self._ranks: set[asyncio.Task[Any]] = set()

    def listen(self, address: tuple[str, int]) -> None:
        """Begin; raises ``OSError`` if the port is in use.

        An address that no interface has (of a gateway that forwards to this machine) is reached through any.
        """
        self._thread.start()
        try:
            self._run(self._listen(address))
        except BaseException:
            self.close()
            raise

    def decide(self, own: Answer, patience: float, allow: Collection[str]) -> Verdict:
        """Wait for the answers of all ranks, and send them the verdict.

        Args:
            own: rank 0's.
            patience: seconds.
            allow: facts that may differ.
        """
        with allow_open_files(self._world):
            return self._run(self._decide(own, patience, allow))

    def ended(self, code: int, patience: float) -> dict[int, int]:
        """Wait for the exit codes of all ranks for some seconds, and send what is known to those that wait."""
        with allow_open_files(self._world):
            return self._run(self._end(code, patience))

    def collect(self, patience: float) -> dict[int, str]:
        """Wait for the files of all ranks for some seconds; returns which have not delivered theirs, and why."""
        with allow_open_files(self._world):
            return self._run(self._collect(patience))

    def close(self) -> None:
        """End the thread and all connections."""
        if self._thread.is_alive():
            with suppress(RuntimeError):
                self._run(self._close())
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_MOMENT)
        if not self._thread.is_alive():
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self, address: tuple[str, int]) -> None:
        self._complete, self._changed, self._closing = asyncio.Event(), asyncio.Condition(), asyncio.Event()
        self._verdict: asyncio.Future[Verdict] = self._loop.create_future()
        self._slots, self._receiving = asyncio.Semaphore(_AT_ONCE), asyncio.Semaphore(_RECEIVED_AT_ONCE)
        self._keeping = asyncio.Lock()
        try:
            self._server = await asyncio.start_server(self._connected, *address, backlog=_BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            self._server = await asyncio.start_server(self._connected, None, address[1], backlog=_BACKLOG)

    async def _decide(self, own: Answer, patience: float, allow: Collection[str]) -> Verdict:
        self._answers[0] = own
        end = self._loop.time() + patience
        while len(self._answers) < self._world and (left := end - self._loop.time()) > 0:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._complete.wait(), left)  # a rank may leave again before this goes on
        verdict = compare([self._answers[rank] for rank in sorted(self._answers)], self._world, allow)
        if verdict.lines and not verdict.mismatch:
            verdict = msgspec.structs.replace(verdict, lines=(*verdict.lines, *self._strangers()))
        self._verdict.set_result(verdict)
        if self._ranks:
            await asyncio.wait(self._ranks, timeout=_MOMENT)
        return verdict

    async def _end(self, code: int, patience: float) -> dict[int, int]:
        await self._note(0, code)
        end = self._loop.time() + patience
        async with self._changed:
            while len(self._codes) < self._world and (left := end - self._loop.time()) > 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), left)
        self._closing.set()
        async with self._changed:
            self._changed.notify_all()
        if self._ranks:
            await asyncio.wait(self._ranks, timeout=_MOMENT)
        return dict(sorted(self._codes.items()))

    async def _collect(self, patience: float) -> dict[int, str]:
        end = self._loop.time() + patience
        async with self._changed:
            while len(self._delivered) < self._world - 1 and (left := end - self._loop.time()) > 0:
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), left)
        if self._ranks:
            await asyncio.wait(self._ranks, timeout=_PAUSE)
        found = {}
        for rank in range(1, self._world):
            absent = f"it did not come within {patience:g} s" if rank in self._codes else "its end was not reported"
            if problem := self._delivered.get(rank, absent):
                found[rank] = problem
        return found

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._handlers:
            task.cancel()
        if self._handlers:
            await asyncio.wait(self._handlers, timeout=_MOMENT)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; whatever a peer does ends it, and nothing else."""
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
        try:
            await self._served(reader, writer)
        except RefusedError as refusal:
            peer = writer.get_extra_info("peername")
            if not self._verdict.done() and len(self._refused) < _COUNTED:
                self._refused[str(peer[0]) if peer else "", refusal.reason] += 1
            with suppress(OSError, asyncio.TimeoutError):
                writer.write(frames.pack_refusal(refusal.reason))
                await asyncio.wait_for(writer.drain(), _MOMENT)
        except (OSError, EOFError, asyncio.TimeoutError, asyncio.CancelledError):
            pass
        finally:
            if task is not None:
                self._handlers.discard(task)
            writer.close()

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Greet a peer, and do what it asks for."""
        async with self._slots:
            await self._send(writer, frames.CALL, "", Call(start=self._start))
            kind, tag, content = await asyncio.wait_for(_read(reader), _MOMENT)
        if kind == frames.ANSWER:
            answer = frames.unpack(self._key, kind, tag, self._start, content, Answer)
            await self._answered(answer, reader, writer)
        elif kind == frames.ENDED:
            ended = frames.unpack(self._key, kind, tag, self._start, content, Ended)
            await self._heard_end(ended, writer)
        elif kind == frames.DELIVERY:
            delivery = frames.unpack(self._key, kind, tag, self._start, content, Delivery)
            await self._received(delivery, reader, writer)
        else:
            raise RefusedError(frames.GARBAGE)

    async def _answered(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep a rank's answer as long as it is connected, and send it the verdict."""
        if self._verdict.done():
            raise RefusedError(frames.OVER)
        if not 0 < answer.rank < self._world or answer.start != self._start:
            raise RefusedError(frames.NO_RANK)
        if answer.rank in self._answers:
            raise RefusedError(frames.CLAIMED)
        self._served_now()
        self._answers[answer.rank] = answer
        if len(self._answers) == self._world:
            self._complete.set()
        gone = asyncio.ensure_future(reader.read(1))
        either: set[asyncio.Future[Any]] = {gone, self._verdict}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not self._verdict.done():
            del self._answers[answer.rank]
            self._complete.clear()
            return
        await self._send(writer, frames.VERDICT, self._start, self._verdict.result())

    async def _heard_end(self, ended: Ended, writer: asyncio.StreamWriter) -> None:
        """Note a rank's exit code, and send it all that are known until all are."""
        self._require_rank(ended)
        await self._note(ended.rank, ended.code)
        sent: dict[int, int] = {}
        while True:
            closing = self._closing.is_set()  # before the codes are sent, which takes time: they are the last then
            if sent != self._codes:
                sent = dict(self._codes)
                await self._send(writer, frames.CODES, self._start, Codes(codes=sent))
            if len(sent) == self._world or closing:
                return
            async with self._changed:
                while sent == self._codes and not self._closing.is_set():
                    await self._changed.wait()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _PAUSE)

    async def _received(self, delivery: Delivery, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Store the files of a rank's run. Its secret is proved before the first byte of them is read."""
        self._require_rank(delivery)
        problem = "the connection ended before all was there"
        try:
            if (size := sum(file.size for file in delivery.files)) > frames.LARGEST_DELIVERY:
                raise RefusedError(frames.TOO_LARGE)
            async with self._receiving:
                problem = await asyncio.wait_for(self._stored(delivery, reader, writer), _MOMENT + size / _SLOWEST)
        except RefusedError as refusal:
            problem = str(refusal)
            raise
        finally:
            self._delivered[delivery.rank] = problem
            async with self._changed:
                self._changed.notify_all()
        await self._send(writer, frames.KEPT, self._start, Kept(problem=problem))

    async def _stored(self, delivery: Delivery, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        wanted = await self._loop.run_in_executor(None, self._keeper.wanted, delivery)
        await self._send(writer, frames.WANTED, self._start, Wanted(names=wanted))
        places = {}
        with tempfile.TemporaryFile() as stream:
            for file in (file for file in delivery.files if file.name in wanted):
                places[file.name] = stream.tell()
                digest, left = hashlib.sha256(), file.size
                while left:
                    part = await reader.readexactly(min(left, _PART))
                    digest.update(part)
                    stream.write(part)
                    left -= len(part)
                if digest.hexdigest() != file.sha256:
                    raise RefusedError(frames.DAMAGED)
            async with self._keeping:
                return await self._loop.run_in_executor(None, self._keeper.keep, delivery, places, stream)

    def _require_rank(self, message: Ended | Delivery) -> None:
        """Refuse a message that is not of the process that answered for its rank; rank 0 waits for one that is."""
        answer = self._answers.get(message.rank)
        if answer is None or answer.nonce != message.nonce or not message.rank or not self._verdict.done():
            raise RefusedError(frames.NO_RANK)
        self._served_now()

    def _served_now(self) -> None:
        """Count the connection of this task as a rank's: rank 0 waits for it before it ends."""
        if (task := asyncio.current_task()) is not None:
            self._ranks.add(task)
            task.add_done_callback(self._ranks.discard)

    async def _note(self, rank: int, code: int) -> None:
        self._codes[rank] = code
        async with self._changed:
            self._changed.notify_all()

    async def _send(self, writer: asyncio.StreamWriter, kind: int, start: str, value: Any) -> None:
        writer.write(frames.pack(self._key, kind, start, value))
        await asyncio.wait_for(writer.drain(), _MOMENT)

    def _strangers(self) -> list[str]:
        """Name connections that were refused, for whoever looks for a rank that did not arrive."""
        lines = []
        for (peer, reason), count in self._refused.most_common(_NAMED):
            lines.append(f"refused: {plural(count, 'connection')} from {plain(peer)}: {frames.REASONS[reason]}")
        return lines


@contextmanager
def allow_open_files(world: int) -> Iterator[None]:
    """Allow this process a connection for each rank; the program, which may inherit the limit, gets the one before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = world + _OWN_FILES
    enough = soft == resource.RLIM_INFINITY or soft >= wanted
    if not enough:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
    try:
        yield
    finally:
        if not enough:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """Return kind, tag and content of the next message; raises ``RefusedError`` for what is none."""
    try:
        kind, length, tag = frames.unpack_head(await reader.readexactly(frames.HEAD.size), frames.LARGEST)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise RefusedError(frames.GARBAGE) from None
        raise
    return kind, tag, await reader.readexactly(length)
