"""How the ranks of a job meet over TCP, where their nodes share no folder: rank 0 listens, the others connect.

Same messages, same comparison and same verdict as through a folder (``exchange``). Each connection begins with rank
0's call; a rank sends its answer and waits for the verdict, and when its program has ended it connects once more.
Who has not the job's secret is refused and takes no rank; a message is bounded, and so is the time for it; a rank is
claimed by one connection at a time. Once its run is recorded a rank connects a last time and delivers the record, which
no folder brings to rank 0's machine: sizes and digests first, under the job's secret; then those files that rank 0 does
not have.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from envbuild.cluster import frames
from envbuild.cluster.agreement import Answer, Call, Codes, Delivery, Ended, Kept, SentFile, Verdict, Wanted
from envbuild.cluster.frames import RefusedError
from envbuild.cluster.rank import Rank
from envbuild.core.fs import open_regular
from envbuild.core.text import plain
from envbuild.errors import JobError

if TYPE_CHECKING:
    from envbuild.cluster.tcp_server import Keeper, Server

Address = tuple[str, int]
_SOONEST, _LATEST = 0.05, 2.0
"""Seconds between two attempts to connect, growing."""
_CONNECT, _GREETING = 5.0, 30.0
"""Seconds for a connection, and for rank 0's call: it greets a limited number at once."""
_AFTER = 30.0
"""Seconds that a rank waits longer than rank 0, so that rank 0's verdict can name who is missing."""
HINT = (
    "all ranks need the same ENVBUILD_RANKS_ADDRESS and ENVBUILD_RANKS_SECRET, and a network between their machines "
    "that lets this port pass; to wait longer: ENVBUILD_RANKS_TIMEOUT=30m"
)

_Kind = TypeVar("_Kind")


class TcpExchange:
    """The meeting of one rank with the others of its job.

    Args:
        address: where rank 0 listens: host and port.
        key: of the job's messages (``frames.derive_key``).
        rank: this process.
        patience: seconds to wait for the others.
        keeper: stores what other ranks deliver, if this is rank 0.
        clock: seconds, and ``sleep`` waits for some; for tests.
    """

    def __init__(
        self,
        address: Address,
        key: bytes,
        rank: Rank,
        patience: float,
        keeper: Keeper,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address, self._key, self._rank, self._patience = address, key, rank, patience
        self._keeper, self._clock, self._sleep = keeper, clock, sleep
        self._nonce = secrets.token_hex(16)
        self._server: Server | None = None
        self.start = ""

    def agree(self, answer: Answer, allow: Collection[str] = ()) -> Verdict:
        """Send this rank's answer, and return the verdict on all of them; ``start`` and ``nonce`` are filled in.

        Raises:
            JobError: the others did not arrive in time, or rank 0 cannot listen.
        """
        answer = msgspec.structs.replace(answer, nonce=self._nonce)
        verdict = self._lead(answer, allow) if self._rank.rank == 0 else self._follow(answer)
        self.start = verdict.start
        return verdict

    def ended(self, code: int, patience: float) -> dict[int, int]:
        """Report that the program has ended, and return the exit codes of the ranks that have ended by then.

        Args:
            code: its exit code.
            patience: seconds to wait for the others; rank 0 sends the last codes then.
        """
        own = Ended(start=self.start, nonce=self._nonce, rank=self._rank.rank, code=code & 0xFF)
        if self._rank.rank == 0:
            return {0: own.code} if self._server is None else self._server.ended(own.code, patience)
        found = {own.rank: own.code}
        with suppress(OSError, RefusedError), socket.create_connection(self._address, timeout=_CONNECT) as stream:
            if self._greeted(stream) == self.start:
                stream.sendall(frames.pack(self._key, frames.ENDED, self.start, own))
                found |= self._codes(stream, patience)
        return dict(sorted(found.items()))

    def collect(self, patience: float) -> dict[int, str]:
        """On rank 0: wait for the files of the other ranks, and end the meeting.

        Returns:
            Which ranks have not delivered theirs, and why.
        """
        if self._server is None:
            return {}
        try:
            return self._server.collect(patience)
        finally:
            self.close()

    def close(self) -> None:
        """End the meeting: rank 0 listens no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def deliver(self, run: str, files: Mapping[SentFile, Path], patience: float) -> str:
        """On another rank: send the files of this run to rank 0's machine; those that it has are not sent.

        Args:
            run: identity of the record.
            files: what to deliver, and where it is here.
            patience: seconds for all.

        Returns:
            Why they are not there; empty if they are.
        """
        end = self._clock() + patience
        value = Delivery(start=self.start, nonce=self._nonce, rank=self._rank.rank, run=run, files=tuple(files))
        try:
            with socket.create_connection(self._address, timeout=min(_CONNECT, patience)) as stream:
                if self._greeted(stream) != self.start:
                    return "rank 0 has started again"
                stream.sendall(frames.pack(self._key, frames.DELIVERY, self.start, value))
                wanted = self._receive(stream, frames.WANTED, self.start, Wanted, max(end - self._clock(), 0.1)).names
                stream.settimeout(max(end - self._clock(), 0.1))
                for file, path in files.items():
                    if file.name in wanted and file.size:
                        with open_regular(path, follow=False) as content:
                            stream.sendfile(content, count=file.size)
                stream.shutdown(socket.SHUT_WR)  # a file that has become shorter holds nobody up
                return self._receive(stream, frames.KEPT, self.start, Kept, max(end - self._clock(), 0.1)).problem
        except RefusedError as refusal:
            return f"this rank was refused: {refusal}"
        except OSError as error:
            return f"{error.strerror or error}"

    def _codes(self, stream: socket.socket, patience: float) -> dict[int, int]:
        """Return the newest exit codes that rank 0 sends until all are known or the time is over."""
        found: dict[int, int] = {}
        end = self._clock() + patience
        with suppress(OSError, RefusedError):
            while len(found) < self._rank.world and (left := end - self._clock()) > 0:
                found |= self._receive(stream, frames.CODES, self.start, Codes, left).codes
        return found

    def _lead(self, answer: Answer, allow: Collection[str]) -> Verdict:
        """Listen, collect answers, and send the verdict."""
        from envbuild.cluster.tcp_server import Server  # asyncio, which the other ranks do not need

        host, port = (plain(str(part)) for part in self._address)
        start = secrets.token_hex(16)
        server = Server(self._key, start, self._rank.world, self._keeper)
        try:
            server.listen(self._address)
        except OSError as error:
            raise JobError(
                f"rank 0 cannot listen at {host}:{port}: {error.strerror or error} — nothing was run",
                "choose another address or port: ENVBUILD_RANKS_ADDRESS=HOST:PORT",
            ) from None
        verdict = server.decide(msgspec.structs.replace(answer, start=start), self._patience, allow)
        self._server = server
        return verdict

    def _follow(self, answer: Answer) -> Verdict:
        """Connect until rank 0 has sent a verdict that knows this answer."""
        why = ""
        for left in self._attempts():
            try:
                with socket.create_connection(self._address, timeout=min(_CONNECT, left)) as stream:
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    start = self._greeted(stream)
                    sent = msgspec.structs.replace(answer, start=start)
                    stream.sendall(frames.pack(self._key, frames.ANSWER, start, sent))
                    verdict = self._receive(stream, frames.VERDICT, start, Verdict, left)
                if verdict.start == start and verdict.nonces.get(str(self._rank.rank)) == self._nonce:
                    return verdict
            except RefusedError as refusal:
                why = f"this rank was refused: {refusal}" if refusal.reason != frames.SECRET else str(refusal)
            except OSError as error:
                why = f"{error.strerror or error}"
        host, port = (plain(str(part)) for part in self._address)
        raise JobError(
            f"rank 0 gave no verdict at {host}:{port} within {self._patience + _AFTER:g} s — nothing was run\n"
            f"  this is rank {self._rank.rank} of {self._rank.world} on {plain(self._rank.host)}: {plain(why)}",
            HINT,
        )

    def _greeted(self, stream: socket.socket) -> str:
        """Return the start that rank 0 calls for."""
        return self._receive(stream, frames.CALL, "", Call, _GREETING).start

    def _receive(self, stream: socket.socket, kind: int, start: str, expected: type[_Kind], patience: float) -> _Kind:
        """Return the next message.

        Raises:
            RefusedError: it is another one, or its tag is wrong.
            OSError: it did not come in time, or the connection ended.
        """
        end = self._clock() + patience
        found, length, tag = frames.unpack_head(self._exactly(stream, frames.HEAD.size, end), frames.LARGEST_OF_RANK_0)
        content = self._exactly(stream, length, end)
        value = frames.unpack(self._key, found, tag, start, content, expected)
        if found != kind:
            raise RefusedError(frames.GARBAGE)
        return value

    def _exactly(self, stream: socket.socket, count: int, end: float) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            stream.settimeout(max(end - self._clock(), 0.001))
            part = stream.recv(min(count - len(parts), 1 << 16))
            if not part:
                raise ConnectionError("rank 0 ended the connection")
            parts += part
        return bytes(parts)

    def _attempts(self) -> Iterator[float]:
        """Yield the seconds that are left until the time is over, at least once, with growing pauses."""
        end, pause = self._clock() + self._patience + _AFTER, _SOONEST
        while True:
            yield max(end - self._clock(), 0.1)
            left = end - self._clock()
            if left <= 0:
                return
            self._sleep(min(pause, left))
            pause = min(pause * 1.3, _LATEST)
