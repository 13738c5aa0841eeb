"""One process of a distributed job, as its launcher numbers it; a value that records keep."""

from __future__ import annotations

import msgspec

LARGEST_WORLD = 1 << 16
"""Most ranks of a job."""


class Rank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """This process among the ranks of its job.

    Attributes:
        launcher: who numbered the ranks, such as ``Slurm`` or ``torchrun``.
        rank: from 0; ``world`` is the number of ranks.
        local: number among the ranks of this machine; ``local_world`` is their number; None if the launcher sets none.
        node: number of this machine in the job; None if the launcher sets none.
        host: name of this machine.
        nodes: names of the machines of the job, in the launcher's order; empty if it does not name them.
        job: the launcher's name for the job or step; empty if it has none.
        start: 128 random bits that the records of all ranks of one start share; empty if they were not compared.
        hosts: of a start whose ranks were compared: the machine of each rank, in their order.
        allowed: facts that differ between the machines and were allowed.
        codes: exit code of each rank that had ended when this record was completed, by rank.
        waited: all ranks had ended before the outputs of this one were read, so that those are complete.
    """

    launcher: str
    rank: int
    world: int
    local: int | None = None
    local_world: int | None = None
    node: int | None = None
    host: str = ""
    nodes: tuple[str, ...] = ()
    job: str = ""
    start: str = ""
    hosts: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    codes: dict[int, int] = {}
    waited: bool = False
