"""What Snakemake notes of a workflow: its log, in the order in which jobs end, what it keeps of outputs, benchmarks.

Sources: snakemake/persistence.py (``Persistence.finished``: ``hash(job)``, which Python makes of an address),
snakemake/benchmark.py (``BenchmarkRecord.get_header``), snakemake/logging.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from envbuild.verification.content.canonical import Canonical, UnreadableError
from envbuild.verification.printed import Row, rows

BENCHMARK = ("s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out", "mean_load", "cpu_time")
"""Columns with which a benchmark begins: all of a process that Snakemake looked at every so many seconds."""
UNKNOWN = ("-", "NA")
"""What is in a cell if the job was too short to be looked at."""
_HASH, _OF_METADATA = "job_hash", frozenset(("rule", "shellcmd", "starttime", "endtime", "incomplete"))
_FOLDER, _LOGS, _END = ".snakemake", "log", ".snakemake.log"


def is_benchmark(names: Sequence[str]) -> bool:
    """Whether a table is a benchmark, by the names of its columns."""
    return tuple(names[: len(BENCHMARK)]) == BENCHMARK


def is_hash_of_job(key: str, siblings: Iterable[str]) -> bool:
    """Whether a key is that of the address of a job."""
    return key == _HASH and {*siblings} >= _OF_METADATA


def is_log(path: Path) -> bool:
    """Whether a file is a log of Snakemake's own, by its name and place."""
    return path.name.endswith(_END) and path.parent.name == _LOGS and path.parent.parent.name == _FOLDER


def read_log(out: Canonical, data: bytes) -> None:
    """Count the lines of a log, which come in the order in which jobs begin and end; raises ``UnreadableError``.

    Lines that are indented belong to the one before them: which job had which output is no matter of luck.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
    out.unordered = True
    blocks: list[list[Row]] = []
    for row in rows(data, out.masks):
        if not blocks or not row.text[:1].isspace():
            blocks.append([])
        blocks[-1].append(row)
    blocks.sort(key=lambda block: [(row.masked.text, row.blanks) for row in block])
    for number, row in enumerate((row for block in blocks for row in block), 1):
        where = f"line {number} in order of the alphabet"
        out.add(where, row.masked.text)
        if row.masked.kinds:
            out.leave_out_of_text(where, row.text, row.masked)
        elif row.blanks:
            out.add(where, row.blanks)
    out.leave_out("order of lines", data, "order")
