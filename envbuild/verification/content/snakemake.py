"""What Snakemake notes of a workflow: its log, in the order in which jobs end, what it keeps of outputs, benchmarks.

Sources: snakemake/persistence.py (``Persistence.finished``: ``hash(job)``, which Python makes of an address),
snakemake/benchmark.py (``BenchmarkRecord.get_header``), snakemake/logging.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, UnreadableError
from envbuild.verification.masking.printed import Row, rows

BENCHMARK = ("s", "h:m:s", "max_rss", "max_vms", "max_uss", "max_pss", "io_in", "io_out", "mean_load", "cpu_time")
"""Columns with which a benchmark begins: all of a process that Snakemake looked at every so many seconds."""
UNKNOWN = ("-", "NA")
"""What is in a cell if the job was too short to be looked at."""
_HASH, _OF_METADATA = "job_hash", frozenset(("rule", "shellcmd", "starttime", "endtime", "incomplete"))
_OF_JOBS = lazy(
    r"(?P<date>\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\]\s*$)|(?:local)?(?:rule|checkpoint) \w+:\s*$"
    r"|(?P<message>Job \d+: )|Finished job(?:id: \d+ \(Rule: \w+\)| \d+\.)"
    r"|\d+ of \d+ steps(?: \(\d+(?:\.\d+)?%\))? done\s*$"
    r"|Select jobs to execute\.\.\.\s*$|Execute \d+ jobs\.\.\.\s*$|(?:Touching|Removing temporary) output(?: file)? \S"
)
"""Lines that are written when a job begins or ends (snakemake/logging.py); a rule's message follows a date."""
_COMMAND = "snakemake"
_FOLDER, _LOGS, _END = ".snakemake", "log", ".snakemake.log"


def is_benchmark(names: Sequence[str]) -> bool:
    """Whether a table is a benchmark, by the names of its columns."""
    return tuple(names[: len(BENCHMARK)]) == BENCHMARK


def is_hash_of_job(key: str, siblings: Iterable[str]) -> bool:
    """Whether a key is that of the address of a job."""
    return key == _HASH and {*siblings} >= _OF_METADATA


def is_log(path: PurePath) -> bool:
    """Whether a file is a log of Snakemake's own, by its name and place."""
    return path.name.endswith(_END) and path.parent.name == _LOGS and path.parent.parent.name == _FOLDER


def is_started_by(arguments: Sequence[str]) -> bool:
    """Whether a process is Snakemake, by its command line: ``python /opt/env/bin/snakemake -c2``, ``-m snakemake``."""
    return any(PurePath(word).name == _COMMAND for word in arguments[1:3])


def without_order(lines: Iterable[Row]) -> list[list[Row]]:
    """Return lines of Snakemake's in blocks: those of jobs at the end, in order of the alphabet."""
    blocks: list[list[Row]] = []
    for row in lines:
        if not blocks or not row.text[:1].isspace():
            blocks.append([])
        blocks[-1].append(row)
    of_jobs: list[list[Row]] = []
    others: list[list[Row]] = []
    dated = False
    for block in blocks:
        found = _OF_JOBS.match(block[0].text)
        is_of_job = found is not None and (found["message"] is None or dated)
        (of_jobs if is_of_job else others).append(block)
        dated = found is not None and found["date"] is not None
    of_jobs.sort(key=lambda block: [(row.masked.text, row.blanks) for row in block])
    return [*others, *of_jobs]


def read_log(out: Canonical, data: bytes) -> None:
    """Count the lines of a log, of which those of jobs come in the order in which these begin and end.

    Lines that are indented belong to the one before them: which job had which output is no matter of luck. All other
    lines keep their order. Raises ``UnreadableError``.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        raise UnreadableError("no text") from None
    out.unordered = True
    for number, row in enumerate((row for block in without_order(rows(data, out.masks)) for row in block), 1):
        where = f"line {number}, jobs sorted"
        out.add(where, row.masked.text)
        if row.masked.kinds:
            out.leave_out_of_text(where, row.text, row.masked)
        elif row.blanks:
            out.add(where, row.blanks)
    out.leave_out("order of lines of jobs", data, "order")
