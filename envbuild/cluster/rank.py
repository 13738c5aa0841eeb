"""One process of a distributed job, as its launcher numbers it; a value that records keep."""

from collections.abc import Mapping, Sequence

import msgspec

from envbuild.core.text import plain

LARGEST_WORLD = 1 << 16
"""Most ranks of a job."""
RECORD = "record.json"
"""Name of a run's record, also among the files that a rank delivers."""


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
        restarts: how often the launcher had started the job before (Slurm's requeues, torchrun's restarts): such a run
            may go on from files that an earlier one left.
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
    restarts: int = 0
    start: str = ""
    hosts: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    codes: dict[int, int] = {}
    waited: bool = False


def ranks_text(ranks: Sequence[int], hosts: Mapping[int, str]) -> str:
    """Write ranks as ``0, 2-3 (node1), 4 (node2)``."""
    found: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        found.setdefault(hosts.get(rank, ""), []).append(rank)
    return ", ".join(numbers_text(numbers) + (f" ({plain(host)})" if host else "") for host, numbers in found.items())


def numbers_text(numbers: Sequence[int]) -> str:
    """Write numbers in ascending order as ``0-2, 5``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
