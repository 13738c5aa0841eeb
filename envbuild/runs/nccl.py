"""What NCCL found between the GPUs: its channels (the graph), and the machine's links that they were chosen by.

Which ring of GPUs adds a sum up follows the links of the GPUs that a job gets, and no variable names it; NCCL writes it
down on request. The program's communicator that was made last wins: each one writes the file anew.

Sources: NCCL 2.29, init.cc (``NCCL_GRAPH_DUMP_FILE_RANK``), graph/search.cc (``NCCL_GRAPH_DUMP_FILE``,
``NCCL_GRAPH_FILE``), graph/topo.cc (``NCCL_TOPO_DUMP_FILE``, ``…_RANK``). Read, not tried on GPUs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from envbuild.core.digest import sha256_bytes
from envbuild.core.fs import read_foreign
from envbuild.lockfile import layout

if TYPE_CHECKING:
    from envbuild.runs.request import RunRequest

_DUMPS = {"graph": "NCCL_GRAPH_DUMP_FILE", "topology": "NCCL_TOPO_DUMP_FILE"}
_LARGEST = 64 << 20
"""Bytes of a file that is digested."""


def file_name(kind: str) -> str:
    """Return the name of a file in a run's ``process`` folder."""
    return f"nccl-{kind}.xml"


def dump_variables(request: RunRequest) -> dict[str, str]:
    """Return variables with which NCCL writes down what it found; none for a lock without NCCL.

    By default rank 0 of a communicator writes; each rank of a job has a folder of its own, and another machine.
    """
    if "nccl" not in request.lock.frameworks:
        return {}
    found = {name: f"{layout.RUN_DIR}/{file_name(kind)}" for kind, name in _DUMPS.items()}
    if request.rank is not None:
        found |= {f"{name}_RANK": str(request.rank.rank) for name in _DUMPS.values()}
    return found


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of what NCCL wrote in a run's ``process`` folder, by kind; the program may have changed it."""
    found = {kind: read_foreign(folder / file_name(kind), _LARGEST) for kind in _DUMPS}
    return {kind: sha256_bytes(data) for kind, data in found.items() if data}
