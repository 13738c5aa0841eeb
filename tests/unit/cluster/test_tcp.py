"""Ranks that meet over TCP: the same agreement as in a folder, and nothing that a stranger sends counts."""

from __future__ import annotations

import hashlib
import resource
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.cluster import frames, tcp_server
from envbuild.cluster.agreement import Answer, Call, Codes, Delivery, Ended, Kept, SentFile, Verdict, Wanted
from envbuild.cluster.frames import RefusedError
from envbuild.cluster.rank import RECORD
from envbuild.cluster.tcp import TcpExchange
from envbuild.errors import JobError
from tests.unit.cluster.test_agreement import Clock, answer, rank, text

pytestmark = pytest.mark.loopback

KEY = frames.derive_key("a secret of the job", "7" * 32)
PATIENCE = 120.0


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    """A port of this test's own: bound all the time, so that nobody else gets it; rank 0 may listen at it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


class Shelf:
    """Keeps what is delivered in memory: by rank, what each file holds."""

    def __init__(self, *there: str) -> None:
        self._there = there
        self.kept: dict[int, dict[str, bytes]] = {}

    def wanted(self, delivery: Delivery) -> tuple[str, ...]:
        return tuple(file.name for file in delivery.files if file.name not in self._there)

    def keep(self, delivery: Delivery, files: Mapping[str, int], stream: IO[bytes]) -> str:
        self.kept[delivery.rank] = {}
        for file in delivery.files:
            if file.name in files:
                stream.seek(files[file.name])
                self.kept[delivery.rank][file.name] = stream.read(file.size)
        return "the disk is full" if delivery.rank == 9 else ""


def exchange(
    port: int, number: int, world: int = 3, patience: float = PATIENCE, keeper: Shelf | None = None
) -> TcpExchange:
    return TcpExchange(("127.0.0.1", port), KEY, rank(number, world), patience, keeper or Shelf())


def meet(port: int, *answers: Answer, ends: tuple[int, ...] = ()) -> tuple[list[Verdict], list[dict[int, int]]]:
    """Let ranks meet, all at once, and end; nobody waits for the clock."""
    meetings = [exchange(port, each.rank, len(answers)) for each in answers]
    with ThreadPoolExecutor(len(answers)) as pool:
        verdicts = list(pool.map(lambda meeting, each: meeting.agree(each), meetings, answers))
        codes = list(pool.map(lambda meeting, code: meeting.ended(code, PATIENCE), meetings, ends))
    for meeting in meetings:
        meeting.close()
    return verdicts, codes


@contextmanager
def leading(port: int, world: int = 2, patience: float = PATIENCE) -> Iterator[Future[Verdict]]:
    """Rank 0, waiting for the others in a thread; at the end it must have a verdict."""
    lead = exchange(port, 0, world, patience)
    with ThreadPoolExecutor(1) as pool:
        verdict = pool.submit(lead.agree, answer(0))
        yield verdict
        verdict.result()
        lead.close()


def connect(port: int) -> socket.socket:
    """Connect to rank 0, as soon as it listens."""
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            threading.Event().wait(0.01)


def message(stream: socket.socket) -> tuple[int, bytes, bytes]:
    """Kind, tag and content of the next message."""
    kind, length, tag = frames.unpack_head(stream.recv(frames.HEAD.size, socket.MSG_WAITALL), 1 << 26)
    return kind, tag, stream.recv(length, socket.MSG_WAITALL)


def called(stream: socket.socket, key: bytes = KEY) -> str:
    """The start that rank 0 calls for."""
    kind, tag, content = message(stream)
    return frames.unpack(key, kind, tag, "", content, Call).start


def refusal(stream: socket.socket) -> str:
    """Why rank 0 refused, after which it ends the connection."""
    kind, _, content = message(stream)
    assert (kind, stream.recv(1)) == (frames.REFUSED, b"")
    return frames.REASONS[content[0]]


def test_ranks_meet(port: int) -> None:
    """All get one verdict and the exit codes of all, again and again at one port."""
    starts = set()
    for _ in range(4):
        verdicts, codes = meet(port, *(answer(number) for number in range(3)), ends=(0, 1, 137))
        assert verdicts[0] == verdicts[1] == verdicts[2]
        assert (verdicts[0].lines, verdicts[0].hosts) == ((), ("node1", "node1", "node2"))
        assert codes == [{0: 0, 1: 1, 2: 137}] * 3
        starts.add(verdicts[0].start)
    assert len(starts) == 4


def test_all_hear_of_a_mismatch(port: int) -> None:
    """One other driver, and every rank has the same table; rank 0 has sent it before it goes on."""
    verdicts, _ = meet(port, answer(0), answer(1), answer(2, gpu_driver="1"))
    assert {verdict.lines for verdict in verdicts} == {verdicts[0].lines}
    assert "gpu.driver 580.159.04 rank 0-1 (node1)" in text(verdicts[0])
    assert verdicts[0].mismatch


def test_many_ranks_meet(port: int) -> None:
    """More than are greeted at once."""
    verdicts, codes = meet(port, *(answer(number) for number in range(96)), ends=(0,) * 96)
    assert {verdict.lines for verdict in verdicts} == {()}
    assert all(found == dict.fromkeys(range(96), 0) for found in codes)


def test_rank_0_may_hold_a_connection_for_each_rank() -> None:
    """For that time only: its program has the limit of before."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = before[0] // 2
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, before[1]))
        with tcp_server.allow_open_files(least):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > least
        with tcp_server.allow_open_files(1 << 40):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= before[0]
        with tcp_server.allow_open_files(0):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (least, before[1])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (least, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_does_not_arrive_is_named(port: int) -> None:
    """As in a folder, after the time limit."""
    verdict = exchange(port, 0, 3, 0.1).agree(answer(0))
    assert text(verdict) == "did not arrive: rank 1-2 of 3; arrived from: node1"


def test_a_rank_without_rank_0_says_so(port: int) -> None:
    """With the address that it tried, and why that failed last."""
    clock = Clock()
    follow = TcpExchange(("127.0.0.1", port), KEY, rank(2), 5.0, Shelf(), clock, clock.sleep)
    with pytest.raises(
        JobError, match=rf"no verdict at 127\.0\.0\.1:{port} within 35 s.*\n.*rank 2 of 3 on node2: Connection refused"
    ):
        follow.agree(answer(2))


def test_a_port_that_is_taken_is_an_error() -> None:
    """Of rank 0, at once, with what to do."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(JobError, match=rf"cannot listen at 127\.0\.0\.1:{port}") as caught:
            exchange(port, 0).agree(answer(0))
    assert "ENVBUILD_RANKS_ADDRESS=HOST:PORT" in caught.value.hint


STRANGERS = {
    "another protocol": (b"GET / HTTP/1.1\r\nHost: node1\r\nUser-Agent: what is this\r\n\r\n", frames.GARBAGE),
    "a message too long": (frames.HEAD.pack(frames.ANSWER, frames.LARGEST + 1, bytes(32)), frames.GARBAGE),
    "no such kind": (frames.HEAD.pack(0, 0, bytes(32)), frames.GARBAGE),
    "rank 0's own kind": (frames.pack(KEY, frames.VERDICT, "", Call(start="0" * 32)), frames.GARBAGE),
    "no tag": (frames.HEAD.pack(frames.ANSWER, 2, bytes(32)) + b"{}", frames.SECRET),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_is_told_and_does_not_count(port: int, name: str) -> None:
    """Whatever it sends first; the ranks meet as if it had not come."""
    sent, reason = STRANGERS[name]
    with leading(port) as verdict:
        with connect(port) as stranger:
            called(stranger)
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert refusal(stranger) == frames.REASONS[reason]
        assert exchange(port, 1, 2).agree(answer(1)) == verdict.result()
        assert verdict.result().lines == ()


FORGED: dict[str, tuple[dict[str, Any], int]] = {
    "no such rank": ({"rank": 2}, frames.NO_RANK),
    "rank 0": ({"rank": 0}, frames.NO_RANK),
    "another start": ({"start": "f" * 32}, frames.NO_RANK),
    "a negative rank": ({"rank": -1}, frames.GARBAGE),
    "a nonce that is none": ({"nonce": "../../etc"}, frames.GARBAGE),
    "too many facts": ({"facts": {str(number): "" for number in range(100)}}, frames.GARBAGE),
    "a fact too long": ({"facts": {"cpu": "x" * 5000}}, frames.GARBAGE),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_answer_is_refused(port: int, name: str) -> None:
    """Also from who has the secret: no traceback, no wrong rank."""
    changes, reason = FORGED[name]
    with leading(port) as verdict:
        with connect(port) as peer:
            start = called(peer)
            table = msgspec.to_builtins(answer(1)) | {"start": start} | changes
            peer.sendall(frames.pack(KEY, frames.ANSWER, start, table))
            assert refusal(peer) == frames.REASONS[reason]
        exchange(port, 1, 2).agree(answer(1))
        assert verdict.result().hosts == ("node1", "node1")


def test_a_rank_is_claimed_once(port: int) -> None:
    """By the first one while it is connected: a second process is refused; when the first is gone one may take it."""
    with leading(port, 3) as verdict, ThreadPoolExecutor(2) as pool:
        with connect(port) as first, connect(port) as second:
            for stream in (first, second):
                start = called(stream)
                claim = msgspec.structs.replace(answer(1, "elsewhere"), start=start)
                stream.sendall(frames.pack(KEY, frames.ANSWER, start, claim))
            assert refusal(second) == "another process has claimed that rank"
        list(pool.map(lambda number: exchange(port, number).agree(answer(number)), (1, 2)))
        assert verdict.result().hosts == ("node1", "node1", "node2")


def test_an_answer_sent_again_does_not_count(port: int) -> None:
    """What was recorded on the network of one start has a wrong tag in the next one."""
    with leading(port), connect(port) as peer:
        start = called(peer)
        recorded = frames.pack(KEY, frames.ANSWER, start, msgspec.structs.replace(answer(1), start=start))
        peer.sendall(recorded)
        assert message(peer)[0] == frames.VERDICT
    with leading(port) as verdict:
        with connect(port) as peer:
            called(peer)
            peer.sendall(recorded)
            assert refusal(peer) == frames.REASONS[frames.SECRET]
        exchange(port, 1, 2).agree(answer(1))
        assert verdict.result().start != start


def test_who_was_refused_is_named_where_a_rank_is_missing(port: int) -> None:
    """A rank with another secret would look like one that never came."""
    with leading(port) as verdict:
        with connect(port) as stranger:
            called(stranger)
            stranger.sendall(frames.pack(b"other", frames.ANSWER, "", answer(1)))
            assert refusal(stranger) == "it has another secret, or is of another job"
        exchange(port, 1, 2).agree(msgspec.structs.replace(answer(1), failed="no image"))
        refused = "refused: 1 connection from 127.0.0.1: it has another secret, or is of another job"
        assert text(verdict.result()) == f"rank 1 (node1) cannot start: no image\n{refused}"


def test_a_silent_connection_holds_nobody_up(port: int) -> None:
    """It has its time, and the others do not wait for it."""
    with leading(port) as verdict, connect(port), connect(port):
        exchange(port, 1, 2).agree(answer(1))
        assert verdict.result().lines == ()


class Impostor:
    """Something that listens in rank 0's place, and answers each connection with the same bytes after its call."""

    def __init__(self, port: int, key: bytes, *replies: bytes) -> None:
        self._replies = [frames.pack(key, frames.CALL, "", Call(start="1" * 32)), *replies]
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                stream, _ = self._server.accept()
            except OSError:
                return
            with stream, suppress(OSError):  # a rank may leave at any time
                for reply in self._replies:
                    stream.sendall(reply)
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(1 << 16):
                    pass

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


VERDICT = Verdict(start="1" * 32, nonces={"1": "2" * 32})
IMPOSTORS = {
    "another secret": (b"other", (), frames.REASONS[frames.SECRET]),
    "another process's verdict": (KEY, (frames.pack(KEY, frames.VERDICT, "1" * 32, VERDICT),), ": $"),
    "a verdict without the secret": (
        KEY,
        (frames.pack(b"other", frames.VERDICT, "1" * 32, VERDICT),),
        "another secret",
    ),
    "a verdict of another start": (KEY, (frames.pack(KEY, frames.VERDICT, "3" * 32, VERDICT),), "another secret"),
    "half a message": (KEY, (frames.HEAD.pack(frames.VERDICT, 9, bytes(32)),), "rank 0 ended the connection"),
    "a page": (KEY, (b"HTTP/1.1 400 Bad Request\r\nServer: none of ours\r\n\r\n",), "does not speak this protocol"),
    "a reason that is none": (KEY, (frames.HEAD.pack(frames.REFUSED, 1, bytes(32)) + b"\xff",), "does not speak"),
}


@pytest.mark.parametrize("name", IMPOSTORS)
def test_an_impostor_starts_nothing(port: int, name: str) -> None:
    """A rank takes no verdict but one that holds its own random number and was made with the secret."""
    key, replies, why = IMPOSTORS[name]
    impostor = Impostor(port, key, *replies)
    clock = Clock()
    follow = TcpExchange(("127.0.0.1", port), KEY, rank(1, 2), -20.0, Shelf(), clock, clock.sleep)
    try:
        with pytest.raises(JobError, match=why):
            follow.agree(answer(1))
    finally:
        impostor.close()


def test_the_end_of_a_stranger_does_not_count(port: int) -> None:
    """An exit code is taken from the process that answered for its rank."""
    lead, follow = exchange(port, 0, 2), exchange(port, 1, 2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda meeting, number: meeting.agree(answer(number)), (lead, follow), (0, 1)))
        with connect(port) as peer:
            start = called(peer)
            peer.sendall(frames.pack(KEY, frames.ENDED, start, Ended(start=start, nonce="0" * 32, rank=1, code=9)))
            assert refusal(peer) == frames.REASONS[frames.NO_RANK]
        codes = pool.map(lambda meeting, code: meeting.ended(code, PATIENCE), (lead, follow), (0, 3))
        assert list(codes) == [{0: 0, 1: 3}] * 2
    lead.close()


def test_a_rank_that_ended_badly_does_not_wait(port: int) -> None:
    """Rank 0 ends the meeting: what is known by then is known; a rank that comes later has its own code."""
    lead, follow = exchange(port, 0, 2), exchange(port, 1, 2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda meeting, number: meeting.agree(answer(number)), (lead, follow), (0, 1)))
    assert lead.ended(1, 0.0) == {0: 1}
    lead.close()
    assert follow.ended(0, PATIENCE) == {1: 0}


@contextmanager
def ending(port: int, world: int, keeper: Shelf) -> Iterator[list[TcpExchange]]:
    """Ranks that have been compared; rank 0 keeps what they deliver."""
    meetings = [exchange(port, number, world, keeper=keeper) for number in range(world)]
    with ThreadPoolExecutor(world) as pool:
        list(pool.map(lambda meeting, number: meeting.agree(answer(number)), meetings, range(world)))
    try:
        yield meetings
    finally:
        meetings[0].close()


def files(folder: Path, **contents: bytes) -> dict[SentFile, Path]:
    """What a rank delivers: traces by name, and its record."""
    found = {}
    for name, data in {**{f"trace-{key}.bin": data for key, data in contents.items()}, RECORD: b"{}"}.items():
        (folder / name).write_bytes(data)
        sent = SentFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest())
        found[sent] = folder / name
    return found


RUN = "01M7Y9C2KD0000000000000000"


def test_what_ranks_deliver_is_kept(port: int, tmp_path: Path) -> None:
    """All files of all ranks, also of those that deliver before rank 0 has ended; what is there is not sent again."""
    shelf = Shelf("trace-there.bin")
    with ending(port, 6, shelf) as (lead, *others), ThreadPoolExecutor(6) as pool:
        sent = files(tmp_path, large=bytes(range(256)) * 9000, empty=b"", there=b"0")
        assert list(pool.map(lambda each: each.deliver(RUN, sent, PATIENCE), others)) == [""] * 5
        assert lead.collect(PATIENCE) == {}
    expected = {"trace-large.bin": bytes(range(256)) * 9000, "trace-empty.bin": b"", RECORD: b"{}"}
    assert shelf.kept == dict.fromkeys(range(1, 6), expected)


def test_who_does_not_deliver_is_named(port: int, tmp_path: Path) -> None:
    """After the time limit: a rank that was killed, one that had ended, one whose files could not be stored."""
    with ending(port, 10, Shelf()) as (lead, *others):
        lead.ended(0, 0.0)
        others[3].ended(0, 0.0)
        for number in (0, 1, 2, 5, 6, 7):
            assert others[number].deliver(RUN, files(tmp_path), PATIENCE) == ""
        assert others[8].deliver(RUN, files(tmp_path), PATIENCE) == "the disk is full"
        assert lead.collect(0.1) == {
            4: "it did not come within 0.1 s",
            5: "its end was not reported",
            9: "the disk is full",
        }
    assert others[0].deliver(RUN, files(tmp_path), PATIENCE) == "Connection refused"


def test_a_file_that_changes_while_it_is_sent_is_refused(port: int, tmp_path: Path) -> None:
    """Shorter, or of other content than was announced: nothing of it is kept, and nobody waits."""
    shelf = Shelf()
    with ending(port, 3, shelf) as (lead, *others):
        for meeting, content in zip(others, (b"another one", b"short"), strict=True):
            sent = files(tmp_path, a=b"of 11 bytes")
            (tmp_path / "trace-a.bin").write_bytes(content)
            assert meeting.deliver(RUN, sent, PATIENCE)
        problems = lead.collect(PATIENCE)
    assert problems == {1: "a file is not what was announced", 2: "the connection ended before all was there"}
    assert shelf.kept == {}


FILE = {"name": RECORD, "size": 2, "sha256": "0" * 64}
DELIVERIES: dict[str, tuple[dict[str, Any], int]] = {
    "too large": ({"files": [FILE | {"size": frames.LARGEST_DELIVERY + 1}]}, frames.TOO_LARGE),
    "too large together": ({"files": [FILE | {"size": frames.LARGEST_DELIVERY // 2 + 1}] * 2}, frames.TOO_LARGE),
    "a path": ({"files": [FILE | {"name": "../record.json"}]}, frames.GARBAGE),
    "another file": ({"files": [FILE | {"name": "pylock.toml"}]}, frames.GARBAGE),
    "too many files": ({"files": [FILE] * 1025}, frames.GARBAGE),
    "a negative size": ({"files": [FILE | {"size": -1}]}, frames.GARBAGE),
    "no identity": ({"run": "../../../../etc/cron.d/run"}, frames.GARBAGE),
    "rank 0": ({"rank": 0}, frames.NO_RANK),
    "no such rank": ({"rank": 7}, frames.NO_RANK),
    "another process": ({"nonce": "f" * 32}, frames.NO_RANK),
}


@pytest.mark.parametrize("name", DELIVERIES)
def test_what_is_no_delivery_is_refused(port: int, name: str) -> None:
    """Also from who has the secret, before a byte of a file is read."""
    changes, reason = DELIVERIES[name]
    shelf = Shelf()
    with ending(port, 2, shelf) as (lead, follow), connect(port) as peer:
        start = called(peer)
        own = {"start": start, "nonce": follow._nonce, "rank": 1, "run": RUN, "files": [FILE]}
        peer.sendall(frames.pack(KEY, frames.DELIVERY, start, own | changes))
        assert refusal(peer) == frames.REASONS[reason]
        assert 1 in lead.collect(0.1)
    assert shelf.kept == {}


def test_a_delivery_without_the_secret_is_refused(port: int) -> None:
    """And counts for nothing: the rank itself delivers after that."""
    shelf = Shelf()
    with ending(port, 2, shelf) as (lead, follow):
        with connect(port) as peer:
            start = called(peer)
            forged = {"start": start, "nonce": follow._nonce, "rank": 1, "run": RUN, "files": [FILE]}
            peer.sendall(frames.pack(b"other", frames.DELIVERY, start, forged) + b"{}")
            assert refusal(peer) == frames.REASONS[frames.SECRET]
        assert follow.deliver(RUN, {}, PATIENCE) == ""
        assert lead.collect(PATIENCE) == {}


def test_a_delivery_that_is_cut_off_is_named(port: int) -> None:
    """The connection ends in the middle of a file."""
    with ending(port, 2, Shelf()) as (lead, follow):
        with connect(port) as peer:
            start = called(peer)
            own = {"start": start, "nonce": follow._nonce, "rank": 1, "run": RUN, "files": [FILE | {"size": 1 << 20}]}
            peer.sendall(frames.pack(KEY, frames.DELIVERY, start, own))
            assert message(peer)[0] == frames.WANTED
            peer.sendall(bytes(1 << 19))
        assert lead.collect(PATIENCE) == {1: "the connection ended before all was there"}


@given(st.binary(max_size=200), st.sampled_from((Answer, Call, Codes, Delivery, Ended, Kept, Verdict, Wanted)))
def test_any_bytes_are_refused(data: bytes, kind: Any) -> None:
    """Of a stranger's bytes nothing becomes a value, and no other error comes of them."""
    head = data[: frames.HEAD.size].ljust(frames.HEAD.size, b"\0")

    def read() -> None:
        found, _, tag = frames.unpack_head(head, frames.LARGEST)
        frames.unpack(KEY, found, tag, "0" * 32, data[frames.HEAD.size :], kind)

    with pytest.raises(RefusedError):
        read()
