"""Records of jobs of several ranks for tests: as many as ranks, which share their start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from envbuild.cluster.rank import Rank
from envbuild.record.jobs import JobRecord
from envbuild.record.model import Record
from tests.support.records import process, record


def job(letter: str, world: int = 2, *, per_node: int = 2, without: tuple[int, ...] = (), **changes: Any) -> JobRecord:
    """The records of a start: ids that begin with ``01J`` and the letter, seeds and process paths as the hook has them.

    Args:
        letter: of the job's identity, also of its start.
        per_node: ranks on each machine: ``node1``, ``node2`` and so on.
        without: ranks that left no record.
        changes: of all records; ``rank0``, ``rank1`` and so on: of one.
    """
    own: Mapping[str, Any] = {name: changes.pop(name) for name in [*changes] if name.startswith("rank")}
    hosts = tuple(f"node{rank // per_node + 1}" for rank in range(world))
    found = []
    for rank in range(world):
        place = Rank(
            launcher="Slurm", rank=rank, world=world, local=rank % per_node, local_world=per_node, host=hosts[rank],
            job="7/0", start=sha32(letter), hosts=hosts, codes=dict.fromkeys(range(world), 0), waited=True,
        )  # fmt: skip
        path = f"rank {rank}" if rank else ""
        processes = (process(path=path, seed=42 + rank, pid=8 + rank, generators={"torch": 42 + rank}),)
        whole = record(f"01J{letter}00000{rank:02d}" + "0" * 15, rank=place, processes=processes, **changes)
        found.append(msgspec.structs.replace(whole, **own.get(f"rank{rank}", {})))
    return JobRecord(ranks=tuple(each for rank, each in enumerate(found) if rank not in without))


def sha32(letter: str) -> str:
    """32 hexadecimal digits for a letter."""
    return f"{ord(letter):02x}" * 16


def replaced(found: JobRecord, rank: int, **changes: Any) -> JobRecord:
    """A job with one rank's record changed."""
    ranks: list[Record] = list(found.ranks)
    ranks[rank] = msgspec.structs.replace(ranks[rank], **changes)
    return JobRecord(ranks=tuple(ranks))
