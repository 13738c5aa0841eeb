"""Where records are, and finding them again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild.core.identity import new_id
from envbuild.core.process_mark import mark
from envbuild.difference.results import verdict
from envbuild.record import history
from envbuild.record.compare_outputs import compare as different_files
from envbuild.record.compare_printed import PrintedComparison, compare_printed
from envbuild.record.model import Folder, LockFacts, Options, Output, Record, RecordError
from envbuild.record.printed import IGNORED, KEPT_TEXT, Printed, Stream, keep, kept
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import BoundedDigest
from tests.support.marks import mark_of_ended
from tests.support.records import process

SHA = "ab" * 32


def a_record(identity: str, **changes: Any) -> Record:
    """A finished run with one output."""
    record = Record(
        id=identity, state="finished", start="2026-01-02T03:04:05.678Z", exit_code=0, image=SHA, recipe="r",
        lock=LockFacts(file="pylock.a.toml", sha256=SHA), command=("x",), directory="/workspace", environment={},
        options=Options(network="none", workspace="rw"),
        outputs=(Output(path="model", change="created", size=1, sha256=SHA),),
    )  # fmt: skip
    return msgspec.structs.replace(record, **changes)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1))
def test_identities_sort_by_time(first: int, second: int) -> None:
    """Identities are 26 characters of Crockford's base 32 and sort as their times do."""
    one, two = new_id(first), new_id(second)
    assert len(one) == 26
    assert set(one) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert (first < second) <= (one < two)


def test_the_first_ten_characters_are_the_time() -> None:
    """The example of the ULID specification: 1469918176385 ms is 01ARYZ6S41."""
    assert new_id(1469918176385).startswith("01ARYZ6S41")


def test_records_are_listed_newest_first(tmp_path: Path) -> None:
    """Saved records come back newest first; damaged ones and strange folders are passed over."""
    ids = [new_id(when) for when in (1, 2, 3)]
    for identity in ids:
        history.save(tmp_path, a_record(identity))
    (history.run_folder(tmp_path, ids[1]) / "record.json").write_text("{")
    (tmp_path / ".envbuild" / "runs" / "notes").mkdir()
    assert [record.id for record in history.list_runs(tmp_path)] == [ids[2], ids[0]]
    assert (tmp_path / ".envbuild" / ".gitignore").read_text() == "*\n"
    assert history.list_runs(tmp_path / "elsewhere") == ()


@pytest.mark.subprocess
def test_a_run_whose_envbuild_was_killed_is_lost(tmp_path: Path) -> None:
    """Its record has ``running`` for ever; one that may still run, here or on another machine, stays as it is."""
    ended = mark_of_ended()
    elsewhere = f"00000000-0000-0000-0000-000000000000 {mark().split(' ', 1)[1]}"
    for when, supervisor in enumerate((ended, mark(), elsewhere, "")):
        history.save(tmp_path, a_record(new_id(when), state="running", exit_code=None, supervisor=supervisor))
    states = [record.state for record in history.list_runs(tmp_path)]
    assert states == ["running", "running", "running", "lost"]
    lost = history.find_run(tmp_path, new_id(0)[:10])
    assert lost.state == "lost"
    assert b'"state": "running"' in (history.run_folder(tmp_path, lost.id) / "record.json").read_bytes()


def test_a_run_that_ends_while_it_is_read_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its record is replaced before its process ends: what was read before that is read again."""
    record = a_record(new_id(1))
    history.save(tmp_path, msgspec.structs.replace(record, state="running", supervisor="x"))

    def ends(mark: str) -> bool:
        history.save(tmp_path, record)
        return False

    monkeypatch.setattr(history, "lives", ends)
    assert history.find_run(tmp_path, record.id).state == "finished"


@pytest.mark.parametrize("name", [".envbuild", ".envbuild/runs"])
def test_records_that_cannot_be_there(tmp_path: Path, name: str) -> None:
    """A file or a link where the folder of the records should be is no project without runs."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    for _ in range(2):
        with pytest.raises(RecordError) as error:
            history.list_runs(tmp_path)
        assert error.value.message == f"{path}: expected a folder with records of runs, found a file or a link"
        assert error.value.hint == f"move it away: mv {path} ELSEWHERE"
        with pytest.raises(RecordError, match="expected a folder"):
            history.find_run(tmp_path, "0")
        path.unlink()
        path.symlink_to(tmp_path)


def test_a_run_is_found_by_the_beginning_of_its_identity(tmp_path: Path) -> None:
    """A prefix in any case finds its run; an ambiguous or unknown one is an error that reports it."""
    one, two = "01JC" + "A" * 22, "01JD" + "A" * 22
    history.save(tmp_path, a_record(one))
    history.save(tmp_path, a_record(two))
    assert history.find_run(tmp_path, "01jd").id == two
    with pytest.raises(RecordError) as ambiguous:
        history.find_run(tmp_path, "01J")
    assert ambiguous.value.message == f"2 runs begin with '01J': {two}, {one}"
    with pytest.raises(RecordError) as unknown:
        history.find_run(tmp_path, "7")
    assert unknown.value.message == f"no runs begin with '7' in {tmp_path}"


def test_many_runs_that_begin_alike(tmp_path: Path) -> None:
    """Five are named, and that there are more is reported."""
    for sign in "1234567":
        history.save(tmp_path, a_record("01JC" + sign * 22))
    with pytest.raises(RecordError) as ambiguous:
        history.find_run(tmp_path, "01J")
    assert ambiguous.value.message.startswith(f"7 runs begin with '01J': 01JC{'7' * 22}, ")
    assert ambiguous.value.message.endswith(f", 01JC{'3' * 22} and 2 more")


NOT_RECORDED = "printed lines (not recorded; envbuild verify compares them)"


def test_the_newest_equal_run_is_named(tmp_path: Path) -> None:
    """A run is compared with successful earlier runs of its recipe only, and an equal one wins over a newer other."""
    other = (Output(path="model", change="created", size=1, sha256="cd" * 32),)
    ids = [new_id(when) for when in range(1, 7)]
    history.save(tmp_path, a_record(ids[0]))
    history.save(tmp_path, a_record(ids[1]))
    history.save(tmp_path, a_record(ids[2], outputs=other))
    history.save(tmp_path, a_record(ids[3], recipe="another"))
    history.save(tmp_path, a_record(ids[4], exit_code=1))
    assert history.compared(tmp_path, a_record(ids[5])) == {
        "same_bits_as": ids[1], "same_tensors_in": (), "not_compared": (NOT_RECORDED,),
    }  # fmt: skip
    third = (Output(path="model", change="created", size=1, sha256="ef" * 32),)
    found = history.compared(tmp_path, a_record(ids[5], outputs=third))
    assert found == {"differs_from": ids[2], "differs_in": ("model",)}
    assert history.compared(tmp_path, a_record(ids[5], outputs=())) == {}


def test_equal_content_in_other_bytes_is_no_difference(tmp_path: Path) -> None:
    """A saved model that differs in a time stamp only agrees, and is named; other tensors are a difference."""
    ids = [new_id(when) for when in range(1, 4)]

    def model(sha: str, content: str) -> Record:
        output = Output(path="m.keras", change="created", size=1, sha256=sha * 32, content=content)
        return a_record(ids[2], outputs=(output,))

    history.save(tmp_path, msgspec.structs.replace(model("aa", "same"), id=ids[0]))
    assert history.compared(tmp_path, model("bb", "same")) == {
        "same_bits_as": ids[0], "same_tensors_in": ("m.keras",), "not_compared": (NOT_RECORDED,),
    }  # fmt: skip
    for content in ("other", ""):
        found = history.compared(tmp_path, model("bb", content))
        assert found == {"differs_from": ids[0], "differs_in": ("m.keras",)}


def test_equal_content_outside_the_project_is_no_difference() -> None:
    """As in it: a log with times in `/tmp`, which a verification has opened."""

    def log(sha: str, canonical: str) -> Record:
        output = Output(path="/tmp/run.log", change="created", size=1, sha256=sha * 32, canonical=canonical * 32)
        return a_record(new_id(1), outputs=(), outside=(output,))

    one, same, other = log("aa", "cd"), log("bb", "cd"), log("bb", "ef")
    assert different_files(one, same) == ()
    assert different_files(one, other) == ("/tmp/run.log",)
    assert verdict(one, same, causes=False) == (
        "equal content (1 file outside the project); the files' bytes differ: /tmp/run.log"
    )
    assert verdict(one, log("aa", ""), causes=False) == "bit-identical (1 file outside the project)"


def test_a_record_is_its_owners_and_a_regular_file(tmp_path: Path) -> None:
    """Others cannot read a command's arguments; what a program left in the place of a record stops no command."""
    ids = [new_id(when) for when in (1, 2, 3)]
    for identity in ids:
        history.save(tmp_path, a_record(identity))
    paths = [history.run_folder(tmp_path, identity) / "record.json" for identity in ids]
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600] * 3
    paths[0].unlink()
    os.mkfifo(paths[0])
    paths[1].unlink()
    paths[1].symlink_to("/dev/zero")
    assert [record.id for record in history.list_runs(tmp_path)] == [ids[2]]
    for identity in ids[:2]:
        with pytest.raises(RecordError, match="cannot read"):
            history.find_run(tmp_path, identity)


def test_what_nobody_could_read_has_not_the_same_bits(tmp_path: Path) -> None:
    """Two files without digests are no equal ones: nothing is claimed of such runs, but a difference is."""
    ids = [new_id(when) for when in (1, 2, 3)]
    closed = Output(path="closed", change="created", size=0, sha256=None)
    model = Output(path="model", change="created", size=1, sha256=SHA)
    other = Output(path="model", change="created", size=1, sha256="cd" * 32)
    history.save(tmp_path, a_record(ids[0], outputs=(model, closed)))
    assert history.compared(tmp_path, a_record(ids[1], outputs=(model, closed))) == {}
    assert history.compared(tmp_path, a_record(ids[1], outputs=(other, closed))) == {
        "differs_from": ids[0], "differs_in": ("model",),
    }  # fmt: skip


def printed(text: bytes, start: float = 1_795_247_763.0, **bounds: int) -> dict[Stream, Printed]:
    """What a run has of its standard output."""
    digest = BoundedDigest(Masks(start), **bounds)
    digest.feed(text)
    return {"stdout": digest.result()}


def test_permissions_and_attributes_are_results(tmp_path: Path) -> None:
    """Runs of equal bytes with other permissions, extended attributes or empty folders have not the same bits."""
    ids = [new_id(when) for when in (1, 2)]
    left = Output(path="model", change="created", size=1, sha256="ab" * 32, mode="644", attributes="cd" * 32)
    fold = Folder(path="fold", change="created", mode="755", empty=True)
    history.save(tmp_path, a_record(ids[0], outputs=(left,), printed={}))
    same = history.compared(tmp_path, a_record(ids[1], outputs=(left,), printed={}))
    assert same["same_bits_as"] == ids[0]
    for changes in ({"mode": "600"}, {"attributes": ""}):
        changed = (msgspec.structs.replace(left, **changes),)
        found = history.compared(tmp_path, a_record(ids[1], outputs=changed, printed={}))
        assert found == {"differs_from": ids[0], "differs_in": ("model",)}
    found = history.compared(tmp_path, a_record(ids[1], outputs=(left,), folders=(fold,), printed={}))
    assert found == {"differs_from": ids[0], "differs_in": ("fold",)}


def test_what_is_deleted_and_measured_is_a_result(tmp_path: Path) -> None:
    """Runs of equal files of which one deleted another file, or measured another loss, have not the same bits."""
    ids = [new_id(when) for when in (1, 2)]
    history.save(tmp_path, a_record(ids[0], printed={}, metrics={"loss": ((0, 0.5),), "time": ((0, 1.5),)}))
    other_time = {"loss": ((0, 0.5),), "time": ((0, 2.5),)}
    same = a_record(ids[1], printed={}, metrics=other_time, outside_left_out=("/data was not looked at",))
    assert history.compared(tmp_path, same) == {
        "same_bits_as": ids[0], "same_tensors_in": (), "not_compared": ("/data was not looked at",),
    }  # fmt: skip
    deleted = history.compared(tmp_path, msgspec.structs.replace(same, deleted=("old.pt",)))
    assert deleted == {"differs_from": ids[0], "differs_in": ("old.pt",)}
    measured = history.compared(tmp_path, msgspec.structs.replace(same, metrics={"loss": ((0, 0.75),)}))
    assert measured == {"differs_from": ids[0], "differs_in": ("metric loss",)}


def test_printed_lines_are_results(tmp_path: Path) -> None:
    """Runs of equal files that print other numbers are not the same; other times are; a run without files counts."""
    ids = [new_id(when) for when in (1, 2, 3)]
    history.save(tmp_path, a_record(ids[0], printed=printed(b"took 3.1 s\naccuracy 0.9063\n")))
    same = history.compared(tmp_path, a_record(ids[1], printed=printed(b"took 4.7 s\naccuracy 0.9063\n")))
    assert same == {"same_bits_as": ids[0], "same_tensors_in": (), "not_compared": ()}
    other = history.compared(tmp_path, a_record(ids[1], printed=printed(b"took 3.1 s\naccuracy 0.9067\n")))
    assert other == {"differs_from": ids[0], "differs_in": ("standard output",)}
    quiet = history.compared(tmp_path, a_record(ids[1], printed={}))
    assert quiet == {"differs_from": ids[0], "differs_in": ("standard output",)}
    history.save(tmp_path, a_record(ids[1], outputs=(), printed=printed(b"accuracy 0.9063\n")))
    only = history.compared(tmp_path, a_record(ids[2], outputs=(), printed=printed(b"accuracy 0.9063\n")))
    assert only == {"same_bits_as": ids[1], "same_tensors_in": (), "not_compared": ()}


def test_what_is_not_known_of_printed_lines_is_not_claimed(tmp_path: Path) -> None:
    """Behind the bound equal bytes are equal, and other bytes may be times; a terminal shows other lines."""
    ids = [new_id(when) for when in (1, 2)]
    first, bound = b"loss 1\nloss 2\nloss 3 took 1.5 s\n", 2
    history.save(tmp_path, a_record(ids[0], printed=printed(first, lines=bound)))
    same = history.compared(tmp_path, a_record(ids[1], printed=printed(first, lines=bound)))
    assert same == {"same_bits_as": ids[0], "same_tensors_in": (), "not_compared": ()}
    behind = "lines of standard output beyond those that a run's record has (envbuild verify compares all)"
    for old, new in ((b"1.5", b"1.7"), (b"loss 3", b"loss 4"), (b"loss 2", b"loss 4")):
        text = first.replace(old, new)
        found = history.compared(tmp_path, a_record(ids[1], printed=printed(text, lines=bound)))
        assert found == {"same_bits_as": ids[0], "same_tensors_in": (), "not_compared": (behind,)}
        alone = a_record(ids[1], printed=printed(text, lines=bound), outputs=())
        history.save(tmp_path, a_record(ids[0], printed=printed(first, lines=bound), outputs=()))
        assert history.compared(tmp_path, alone) == {}
        history.save(tmp_path, a_record(ids[0], printed=printed(first, lines=bound)))
    at_terminal = msgspec.structs.replace(a_record("").options, tty=True)
    found = history.compared(tmp_path, a_record(ids[1], printed=printed(b"x\n"), options=at_terminal))
    assert found["not_compared"] == ("printed lines (one run was on a terminal)",)


def test_lines_that_were_not_to_be_compared(tmp_path: Path) -> None:
    """``verify --ignore stdout:…`` leaves lines out of the digest, which then is of something else."""
    ids = [new_id(when) for when in (1, 2)]
    left_out = {"stdout": Printed(lines=1, sha256="ab" * 32, unordered="ab" * 32, masked={IGNORED: 3})}
    history.save(tmp_path, a_record(ids[0], printed=left_out))
    found = history.compared(tmp_path, a_record(ids[1], printed=left_out))
    assert found["not_compared"] == ("lines of standard output that were not to be compared",)


def test_lines_of_several_processes_come_in_any_order() -> None:
    """The order of lines is nobody's result where several processes print them; that it was another one is known."""
    one, other = (a_record("", printed=printed(text)) for text in (b"a\nb\n", b"b\na\n"))
    assert compare_printed(one, other).differing == ("stdout",)
    several = (process(), process(pid=9, path="worker 1"))
    both = [msgspec.structs.replace(each, processes=several) for each in (one, other)]
    order = "order of the lines of standard output (several processes printed)"
    assert compare_printed(*both) == PrintedComparison(left_out=(order,))
    assert compare_printed(both[0], both[0]) == PrintedComparison()


def test_the_text_of_a_run_is_its_owners(tmp_path: Path) -> None:
    """The beginning of each stream is kept next to the record, readable by its owner alone; links are not followed."""
    identity = new_id()
    history.save(tmp_path, a_record(identity))
    keep(tmp_path, identity, {"stdout": b"x" * (KEPT_TEXT + 1), "stderr": b"warning\n"})
    files = history.run_folder(tmp_path, identity) / "printed"
    assert {path.name: path.stat().st_mode & 0o777 for path in files.iterdir()} == {"stdout": 0o600, "stderr": 0o600}
    assert kept(tmp_path, identity, "stdout") == b"x" * KEPT_TEXT
    (files / "stderr").unlink()
    assert kept(tmp_path, identity, "stderr") is None
    (tmp_path / "secret").write_text("secret")
    (files / "stderr").symlink_to(tmp_path / "secret")
    assert kept(tmp_path, identity, "stderr") is None
