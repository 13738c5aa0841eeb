"""What a record that somebody edited contradicts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from envbuild.difference.compare import compare
from envbuild.record.consistency import contradictions, contradictions_between
from envbuild.record.model import Options, Output, Tensor, Verified
from envbuild.record.printed import Printed
from tests.support.records import A, B, record, sha, verdict


def test_a_record_as_written_contradicts_nothing() -> None:
    """Neither itself nor an equal one."""
    assert contradictions(record()) == ()
    assert contradictions_between(record(A), record(B)) == ()
    assert compare(record(A), record(B)).outcome == "equal"


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"environment": {"OMP_NUM_THREADS": "1"}}, "its recipe is not that of its lock, image, script, command,"),
        ({"command": ("python", "train.py", "--lr", "1")}, "its recipe is not that of its lock, image, script,"),
        ({"image": sha("0")}, "its recipe is not that of its lock, image, script, command, environment and options"),
        ({"options": Options(network="none", workspace="rw", cpuset="x")}, "its recipe is not that of its lock,"),
        ({"verified": "no"}, "it states verified: no, which is not the guard's verdict in it"),
        (
            {"verdict": verdict({"field": "gpu.sms", "ok": False})},
            "the guard's verdict is good, and a check in it refuses: gpu.sms",
        ),
        ({"outputs": record().outputs * 2}, "it lists model.npz twice"),
    ],
)
def test_an_edit_is_noticed(changes: dict[str, Any], reported: str) -> None:
    """Where what follows from the edited value was left as it was; such a record is equal to none."""
    edited = msgspec.structs.replace(record(B), **changes)
    (found,) = contradictions(edited)
    assert found.startswith(reported)
    difference = compare(record(A), edited)
    assert difference.outcome == "unknown"
    assert difference.verdict == f"not known: the record of B contradicts itself: {found}; all else is equal"
    assert f"the record of B contradicts itself: {found}" in difference.unknown
    assert f"the record of A contradicts itself: {found}" in compare(edited, record(A)).unknown


@pytest.mark.parametrize("state", ["", "yes"])
def test_a_run_that_has_not_ended_has_no_verdict_yet(state: Verified) -> None:
    """Its record is not whole."""
    assert contradictions(msgspec.structs.replace(record(), state="running", verdict=None, verified=state)) == ()


def output(**changes: Any) -> Output:
    """A file of a run."""
    return msgspec.structs.replace(record().outputs[0], **changes)


@pytest.mark.parametrize(
    ("left", "what"),
    [
        (output(size=10), "size"),
        (output(content=sha("0")), "content"),
        (output(tensors={"kernel": Tensor(dtype="float32", shape=(3,), digest="0" * 32)}), "tensor"),
    ],
)
def test_equal_bytes_hold_the_same(left: Output, what: str) -> None:
    """A digest that was copied from another record is no proof."""
    edited = record(B, outputs=(left,))
    reported = f"model.npz has one SHA-256 in both, and another {what}"
    assert contradictions_between(record(A), edited) == (reported,)
    difference = compare(record(A), edited)
    assert (difference.outcome, difference.verdict) == (
        "unknown",
        f"not known: the records contradict each other: {reported}; all else is equal",
    )


@pytest.mark.parametrize(
    "left", [output(size=10, sha256=sha("0")), output(sha256=None, size=10), output(path="b"), output(content="")]
)
def test_files_of_which_nothing_is_claimed_contradict_nothing(left: Output) -> None:
    """Other bytes, bytes that nobody could read, another file, content that was not read."""
    assert contradictions_between(record(A), record(B, outputs=(left,))) == ()


def test_another_image_may_read_content_otherwise() -> None:
    """Its reader is another one; the size of equal bytes is not."""
    left = output(content=sha("0"))
    assert contradictions_between(record(A), record(B, image=sha("f"), outputs=(left,))) == ()


def test_equal_lines_are_equally_many() -> None:
    """The digest of a stream is of all its lines."""
    one, other = (record(each, printed={"stdout": Printed(lines=n, sha256=sha("1"))}) for each, n in ((A, 3), (B, 4)))
    assert contradictions_between(one, other) == (
        "standard output has one SHA-256 in both, and another number of lines",
    )
