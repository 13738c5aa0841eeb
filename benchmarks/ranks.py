"""Ranks of one machine that meet, end and deliver their records, as forks of one process.

Arguments: how they meet (``tcp``, ``records``, ``folder``, ``nobody``), their number, and a folder, in which ``noted``
states how long that took without the start of the interpreter, and how much processor time rank 0 and all others used.
"""

from __future__ import annotations

import os
import resource
import secrets
import socket
import sys
import time
from pathlib import Path

import msgspec

from envbuild.cluster.agreement import Answer, host_values
from envbuild.cluster.exchange import Exchange
from envbuild.cluster.frames import derive_key
from envbuild.cluster.rank import Rank
from envbuild.cluster.tcp import TcpExchange
from envbuild.core.identity import new_id
from envbuild.host.probe import host_facts
from envbuild.operations.rank_records import RankRecords, files_of
from envbuild.record import history
from tests.support.records import record

_NONE, _PATIENCE = "0" * 32, 120.0
_POINTS = 4000
"""Of a metric, which make a record of about 100 kB."""


def meet(way: str, number: int, world: int, folder: Path, address: tuple[str, int], key: bytes) -> None:
    """Be one rank, from its answer to its end."""
    rank = Rank(launcher="benchmark", rank=number, world=world, host=f"node{number // 8}", job="1")
    answer = Answer(start=_NONE, nonce=_NONE, rank=number, host=rank.host, facts=host_values(host_facts()))
    if way == "nobody":
        return
    if way == "folder":
        meeting = Exchange(folder, (), rank, _PATIENCE)
        verdict = meeting.agree(answer)
        assert not verdict.lines, verdict.lines
        meeting.ended(0, _PATIENCE)
        return
    over_tcp = TcpExchange(address, key, rank, _PATIENCE, RankRecords(folder / "0", world))
    verdict = over_tcp.agree(answer)
    assert not verdict.lines, verdict.lines
    assert len(over_tcp.ended(0, _PATIENCE)) == world
    if way != "records":
        over_tcp.close()
        return
    own = folder / str(number)
    points = tuple((step, 1.0 / (step + number + 1)) for step in range(_POINTS))
    ended = record(new_id(), rank=msgspec.structs.replace(rank, start=verdict.start), metrics={"loss": points})
    own.mkdir(exist_ok=True)
    history.save(own, ended)
    if number == 0:
        assert over_tcp.collect(_PATIENCE) == {}
    else:
        assert over_tcp.deliver(ended.id, files_of(own, ended)[0], _PATIENCE) == ""


def main(way: str, world: int, folder: Path) -> None:
    """Fork the ranks and wait for all."""
    (folder / "0").mkdir()
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        key = derive_key(secrets.token_hex(16), "1")
        began, processes = time.perf_counter(), []
        for number in range(world):
            process = os.fork()
            if not process:
                code = 1
                try:
                    meet(way, number, world, folder, held.getsockname(), key)
                    if not number:
                        (folder / "lead").write_text(str(_used(resource.RUSAGE_SELF)))
                    code = 0
                finally:
                    os._exit(code)
            processes.append(process)
        failed = sum(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 for process in processes)
        seconds = time.perf_counter() - began
    if failed:
        sys.exit(f"{failed} ranks failed")
    lead = float((folder / "lead").read_text())
    (folder / "noted").write_text(
        f"{seconds:.2f} s without the interpreter's start; processor: rank 0 {lead:.2f} s, each other rank "
        f"{(_used(resource.RUSAGE_CHILDREN) - lead) / (world - 1):.4f} s"
    )


def _used(whose: int) -> float:
    """Return processor seconds, of the user and the system."""
    found = resource.getrusage(whose)
    return found.ru_utime + found.ru_stime


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
