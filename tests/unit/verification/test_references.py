"""Drawn names of files where they are mentioned: which of the files is meant."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.operations.contents import content_of
from envbuild.record.model import Output
from envbuild.record.printed import Printed
from envbuild.record.shared_names import shortened
from envbuild.verification.content import read
from envbuild.verification.files import masks_of
from envbuild.verification.judge import judge
from envbuild.verification.ran import Ran
from envbuild.verification.references import dated_files_named, dated_names_in, other_files_named, other_names_repeated
from tests.support.records import process, record, sha

NAMES = (
    ("0f86d081884c4d659a2feaa0c55ad015", "9a3870be274f4c49b3e31a0c6728957f"),
    ("f50b64b9a57a47e1ac5b89540eec00d6", "1b2d9b6c2f5e4f0c8a7d3e6f5a4b3c2d"),
)
"""Of each of two runs: the second one has them in another order."""


def _run(at: int, text: bytes, stdout: tuple[str, ...] = (), **changes: Any) -> Ran:
    """A run that wrote two files under drawn names, one after the other, and a third one with a text."""
    files = tuple(
        Output(path=f"ck/{name}.npy", change="created", size=1, sha256=sha(str(number)))
        for number, name in enumerate(NAMES[at])
    )
    best = Output(path="best.json", change="created", size=1, sha256=sha("ab"[at]))
    known = record(outputs=(*files, best), metrics={}, **changes)
    content = read(text, masks_of(known))
    assert content is not None
    printed = Printed(lines=1, sha256="a", unordered="a", names=tuple(map(shortened, stdout)))
    written = {each.path: number for number, each in enumerate(files, 1)}
    return Ran(record=known, stdout=printed, contents={"best.json": content}, written=written)


def _text(at: int, which: int) -> bytes:
    return b'{"best": "ck/%s.npy"}' % NAMES[at][which].encode()


@pytest.mark.parametrize(("second", "quoted"), [(0, False), (1, True)])
def test_another_file_that_is_mentioned_is_quoted(second: int, *, quoted: bool) -> None:
    """Both runs call a drawn name the best one: that of the first file, or that of the second one."""
    runs = [_run(0, _text(0, 0)), _run(1, _text(1, second))]
    assert judge(runs, 2).outcome == "identical"
    said = "which file best.json names: ck/⟨name⟩.npy (1) → ck/⟨name⟩.npy (2)"
    assert other_files_named(runs, ()) == (said,) * quoted
    assert other_files_named(runs, ("best.json",)) == ()


def test_what_is_printed_mentions_files_too() -> None:
    """Lines of several processes come in any order; a stream that is not compared is not looked at."""
    texts = (b"{}", b"{}")
    swapped = [_run(at, texts[at], NAMES[at][:: 1 - 2 * at]) for at in (0, 1)]
    assert other_files_named(swapped, ()) == (
        "which file standard output names: ck/⟨name⟩.npy (1) → ck/⟨name⟩.npy (2)",
    )
    assert other_files_named(swapped, ("stdout",)) == ()
    two = {"processes": (process(), process(path="1"))}
    assert other_files_named([_run(at, texts[at], NAMES[at][:: 1 - 2 * at], **two) for at in (0, 1)], ()) == ()
    fewer = [_run(0, texts[0], NAMES[0][:1]), _run(1, texts[1], ())]
    assert other_files_named(fewer, ()) == ("which file standard output names: ck/⟨name⟩.npy (1) → (none)",)


@pytest.mark.parametrize(
    ("printed", "quoted"),
    [
        ("abca xyzx", False),
        ("abca xyzy", True),
        ("abc zyx", False),
        ("ab xyz", False),
    ],
)
def test_which_of_its_drawn_names_a_run_has_again_is_quoted(printed: str, *, quoted: bool) -> None:
    """Of trials with drawn names the best one: the first one in one run, the second one in another."""
    runs = [_run(at, b"{}", tuple(names)) for at, names in enumerate(printed.split())]
    said = "which of the drawn names standard output has again: number 1 → number 2"
    assert other_names_repeated(runs, ()) == (said,) * quoted
    assert other_names_repeated(runs, ("stdout",)) == ()
    two = {"processes": (process(), process(path="1"))}
    runs = [_run(at, b"{}", tuple(names), **two) for at, names in enumerate(printed.split())]
    assert other_names_repeated(runs, ()) == ()


def test_a_drawn_name_may_be_in_another_file_again() -> None:
    """Standard output has two trials, a file the best of them."""
    best = [b'{"trial_id": "%s"}' % NAMES[at][at].encode() for at in (0, 1)]
    runs = [_run(at, text, NAMES[at]) for at, text in enumerate(best)]
    assert other_names_repeated(runs, ()) == ("which of the drawn names best.json has again: number 1 → number 2",)


def test_a_link_mentions_its_target(tmp_path: Path) -> None:
    """The drawn name is left out of what counts, and kept aside."""
    (tmp_path / "latest").symlink_to(f"{NAMES[0][0]}.npy")
    output = Output(path="latest", change="created", size=1, sha256=sha("1"))
    content = content_of(tmp_path, output, masks_of(record()))
    assert content is not None
    assert content.names == (shortened(NAMES[0][0]),)


def _written(best: Output, text: bytes) -> Callable[[str | Output], bytes | None]:
    return lambda what: text if what in ("stdout", best) else b"" if what == "stderr" else None


def _dated_runs(
    which: tuple[int, int], folders: tuple[str, str], shifted: tuple[str, str]
) -> tuple[list[Ran], list[dict[str, tuple[bytes, ...]]]]:
    """Two runs that wrote two files each in folders that hold the time, and a third file that names one of them."""
    runs, mentioned = [], []
    for names, at, digest in zip((folders, shifted), which, "ab", strict=True):
        text = b'{"best": "%s"}' % names[at].encode()
        files = [
            Output(path=f"{name}/w.npy", change="created", size=1, sha256=sha(str(number)))
            for number, name in enumerate(names)
        ]
        best = Output(path="best.json", change="created", size=len(text), sha256=sha(digest))
        known = record(outputs=(*files, best), metrics={}, start="2026-11-21T10:15:00+00:00")
        content = read(text, masks_of(known))
        assert content is not None
        mentioned.append(dated_names_in(known, _written(best, text)))
        printed = Printed(lines=1, sha256="a", unordered="a")
        runs.append(Ran(record=known, stdout=printed, contents={"best.json": content}))
    return runs, mentioned


@pytest.mark.parametrize(
    ("folders", "shifted"),
    [
        (("r/20261121-101500", "r/20261121-101502"), ("r/20261121-101502", "r/20261121-101504")),
        (("o/2026-11-21/10-15-00", "o/2026-11-21/10-15-02"), ("o/2026-11-21/10-15-02", "o/2026-11-21/10-15-04")),
    ],
)
@pytest.mark.parametrize(("second", "quoted"), [(0, False), (1, True)])
def test_another_file_with_a_time_in_its_name(
    folders: tuple[str, str], shifted: tuple[str, str], second: int, *, quoted: bool
) -> None:
    """The best one is the first folder in one run and the second one in the other: what they hold is equal."""
    runs, mentioned = _dated_runs((0, second), folders, shifted)
    assert judge(runs, 2).outcome == "identical"
    found = dated_files_named(runs, (), mentioned)
    names = f"{folders[0][0]}/⟨date⟩/w.npy (1) → {folders[0][0]}/⟨date⟩/w.npy (2)"
    assert found == (f"which file standard output names: {names}", f"which file best.json names: {names}") * quoted
    assert dated_files_named(runs, ("stdout", "best.json"), mentioned) == ()
    large = [{place: names for place, names in each.items() if place != "best.json"} for each in mentioned]
    assert dated_files_named(runs, ("std*",), large) == ("which files best.json names: not looked at",)
    assert dated_files_named(runs, (), [mentioned[0], {}]) == ()


def test_one_folder_with_a_time_is_the_one_that_is_meant() -> None:
    """Where a run has no other one nothing is read."""
    file = Output(path="r/20261121-101500/w.npy", change="created", size=1, sha256=sha("0"))
    known = record(outputs=(file,), start="2026-11-21T10:15:00+00:00")
    assert dated_names_in(known, lambda what: pytest.fail("read")) == {}


_TWO = ("r/20261121-101500", "r/20261121-101502")


def _names_in(text: bytes, folders: tuple[str, ...] = _TWO) -> tuple[bytes, ...]:
    files = tuple(Output(path=f"{each}/w.npy", change="created", size=1, sha256=sha("0")) for each in folders)
    known = record(outputs=files, start="2026-11-21T10:15:00+00:00")
    return dated_names_in(known, lambda what: text if what == "stdout" else b"")["stdout"]


@pytest.mark.parametrize("bracket", [b"", b"["])
def test_times_of_lines_in_the_form_of_a_folder_mention_none(bracket: bytes) -> None:
    """Which line was printed in the second in which a folder was made is luck; what is behind the time counts."""
    heads = (b"20261121-101500", b"20261121-101501", b"20261121-101502")
    lines = b"\n".join(bracket + each + b" epoch" for each in heads)
    assert _names_in(lines) == ()
    assert _names_in(lines + b"\n" + bracket + b"20261121-101501 best 20261121-101502") == (heads[2],)


def test_what_packed_files_mention() -> None:
    """A text counts as it is, and as it is packed: which checkpoint a packed list names first."""
    text = b'{"best": "r/20261121-101502/w.npy"}'
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("best.json", text)
    for data in (gzip.compress(text), bz2.compress(text), lzma.compress(text), archive.getvalue()):
        assert set(_names_in(data)) == {b"20261121-101502"}


def test_names_at_the_beginning_of_lines_are_mentions() -> None:
    """A list of folders has no other times of their form."""
    assert _names_in(b"20261121-101502 0.5\n20261121-101500 0.4") == (b"20261121-101502", b"20261121-101500")
    listed = b"20261121-101502/w.npy\n20261121-101501 epoch"
    assert _names_in(b"r/20261121-101502\n" + listed)[:1] == (b"20261121-101502",)


def test_the_longest_name_is_the_one_that_is_mentioned() -> None:
    """Names that begin with other ones, in any order."""
    folders = ("20261121-101500", "20261121-101500-b", "20261121-101500-bc", "x.20261121-101502")
    for name in folders:
        assert _names_in(b"best %s." % name.encode(), folders) == (name.encode(),)
    assert _names_in(b"best 20261121-101500-bd", folders) == (b"20261121-101500",)
