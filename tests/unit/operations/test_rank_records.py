"""Records that other ranks deliver to rank 0's machine: stored as they are, and nothing else is stored or replaced."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import msgspec
import pytest

from envbuild.cluster.agreement import Delivery, SentFile
from envbuild.cluster.rank import RECORD, Rank
from envbuild.operations.rank_records import RankRecords, files_of
from envbuild.record import history
from envbuild.record.model import Record, dumps
from tests.support.records import record as ordinary

START = "5" * 32
RUN = "01M7Y9C2KD0000000000000001"


def of_rank(number: int = 1, **changes: object) -> Record:
    rank = Rank(launcher="Slurm", rank=number, world=2, host="node2", start=START)
    return msgspec.structs.replace(ordinary(RUN), rank=msgspec.structs.replace(rank, **changes))


def delivery(rank: int = 1, **contents: bytes) -> tuple[Delivery, dict[str, int], io.BytesIO]:
    """What a rank has announced and sent: ``record`` and traces by name."""
    described, places, stream = [], {}, io.BytesIO()
    for key, data in contents.items():
        name = RECORD if key == "record" else f"trace-{key}.bin"
        places[name] = stream.tell()
        stream.write(data)
        described.append(SentFile(name=name, size=len(data), sha256=hashlib.sha256(data).hexdigest()))
    return Delivery(start=START, nonce="0" * 32, rank=rank, run=RUN, files=tuple(described)), places, stream


def test_a_run_is_the_same_on_rank_0s_machine(tmp_path: Path) -> None:
    """Record and traces, byte for byte and for this user alone; what is there is not wanted again."""
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        folder.mkdir()
    history.save(there, of_rank())
    process = history.process_folder(there, RUN)
    process.mkdir()
    (process / "trace-main.bin").write_bytes(b"steps")
    (process / "memory.json").write_bytes(b"not of interest")
    sent, whole = files_of(there, of_rank())
    assert ([file.name for file in sent], whole) == (["trace-main.bin", RECORD], True)
    content = {("record" if file.name == RECORD else "main"): path.read_bytes() for file, path in sent.items()}
    announced, places, stream = delivery(**content)
    records = RankRecords(here, 2)
    assert records.wanted(announced) == ("trace-main.bin", RECORD)
    assert records.keep(announced, places, stream) == ""
    assert history.find_run(here, RUN) == of_rank()
    for name in (RECORD, "process/trace-main.bin"):
        copy = history.run_folder(here, RUN) / name
        assert copy.read_bytes() == (history.run_folder(there, RUN) / name).read_bytes()
        assert copy.stat().st_mode & 0o777 == 0o600
    assert records.wanted(announced) == ()
    assert records.keep(announced, {}, stream) == ""


def test_a_link_that_a_program_made_is_not_read(tmp_path: Path) -> None:
    """A trace is the program's own file, or there is an error."""
    history.save(tmp_path, of_rank())
    history.process_folder(tmp_path, RUN).mkdir()
    (history.process_folder(tmp_path, RUN) / "trace-main.bin").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic links"):
        files_of(tmp_path, of_rank())


REFUSED = {
    "no record": (b"not JSON", "the record of rank 1 is not a record of this format"),
    "another rank's": (dumps(of_rank(0)), "it is the record of another run"),
    "another start's": (dumps(of_rank(start="6" * 32)), "it is the record of another run"),
    "another world's": (dumps(of_rank(world=3)), "it is the record of another run"),
    "a run by itself": (dumps(ordinary(RUN)), "it is the record of another run"),
    "another identity": (
        dumps(msgspec.structs.replace(of_rank(), id="01M7Y9C2KD0000000000000002")),
        "it is the record of another run",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_record_of_the_rank_is_not_stored(tmp_path: Path, name: str) -> None:
    """Nothing is, of its traces too."""
    data, why = REFUSED[name]
    problem = RankRecords(tmp_path, 2).keep(*delivery(main=b"steps", record=data))
    assert problem.startswith(why), problem
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    """Neither a record nor a trace of a record that is there."""
    own = of_rank()
    history.save(tmp_path, own)
    other = msgspec.structs.replace(own, exit_code=7)
    records = RankRecords(tmp_path, 2)
    assert records.keep(*delivery(record=dumps(other))) == f"there is another {RECORD} of run {RUN}"
    announced, places, stream = delivery(record=dumps(own), main=b"steps")
    assert records.wanted(announced) == ("trace-main.bin",)
    del places[RECORD]
    assert "another file of its run is not as it was" in records.keep(announced, places, stream)
    assert history.find_run(tmp_path, RUN) == own
    assert not history.process_folder(tmp_path, RUN).exists()


def test_a_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    """A program may have put it there."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (project / ".envbuild/runs").mkdir(parents=True)
    elsewhere.mkdir()
    (project / ".envbuild/runs" / RUN).symlink_to(elsewhere)
    problem = RankRecords(project, 2).keep(*delivery(record=dumps(of_rank())))
    assert problem.startswith("it cannot be stored: "), problem
    assert list(elsewhere.iterdir()) == []
