"""What people see: lines, numbers, colour, and which stream they go to."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from envbuild.cli import console
from envbuild.cli.console import Console, print_error, wants_colour
from envbuild.core.text import human_bytes, plural
from tests.support.walkthrough import SLOW


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1949, "1.9 kB"),
        (9949, "9.9 kB"),
        (9950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (359_000_000, "359 MB"),
        (1_900_000_000, "1.9 GB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_human_bytes(count: int, text: str) -> None:
    """Decimal units, two or three digits, never ``1000 kB``."""
    assert human_bytes(count) == text


def test_plural() -> None:
    """Counts agree with their noun, and thousands are set off."""
    assert [plural(count, "file") for count in (0, 1, 2, 1234)] == ["0 files", "1 file", "2 files", "1,234 files"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_only_where_it_is_wanted(
    settings: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal takes colour unless NO_COLOR (not empty: no-color.org) or TERM=dumb; a file never does."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(_Terminal()) is expected
    assert wants_colour(io.StringIO()) is False


def test_errors_are_red_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line of an error is coloured, the rest and the hint are not."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    console.print_error("first\nsecond", "hint")
    assert terminal.getvalue() == "envbuild: \033[31mfirst\033[0m\nsecond\n  → hint\n"


def test_lines_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """A label of ten columns, then what is not empty, nothing at the end."""
    Console().line("os", "debian-12", "", "82 packages", "")
    Console().line("elapsed", "x", elapsed=True)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "os        debian-12  82 packages"
    assert re.fullmatch(r"elapsed   x {69}0\.\d s", out[1])


def test_streams(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is for what was asked for: with ``--json`` lines go to standard error, with ``--quiet`` none."""
    for speaker in (Console(as_json=True), Console(quiet=True), Console(quiet=True, as_json=True), Console()):
        speaker.line("a", "b")
        speaker.detail("detail")
        speaker.note("note")
        speaker.result({"ü": 1, "a": [2]})
        sentence = capsys.readouterr()
        reported = "" if speaker.quiet else "envbuild: note\n"
        line = "" if speaker.quiet else "a         b\n"
        result = '{\n  "a": [\n    2\n  ],\n  "ü": 1\n}\n'
        assert sentence.out == (result if speaker.as_json else line)
        assert sentence.err == (line if speaker.as_json else "") + reported
    Console(verbose=True).detail("detail")
    assert capsys.readouterr() == ("", "          detail\n")


def test_a_phase_reports_nothing_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Progress is for terminals: a log has no bars in it."""
    with Console().phase("fetch", 10) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_phases_share_a_display_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bars of several phases at once are taken down with the last of them, leaving nothing but control characters."""
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    speaker = Console()
    with speaker.phase("one", 2000) as one, speaker.phase("two", unit="packages") as two:
        one(1500)
        two(3)
        assert speaker._bars is not None
        assert [task.fields["amount"].split("  ")[0] for task in speaker._bars.tasks] == [
            "1.5 kB of 2.0 kB",
            "3 packages",
        ]
    assert speaker._bars is None


@pytest.mark.parametrize(
    ("name", "total", "unit", "expected"),
    [
        ("wheels: unpack", 380_000_000, "B", "wheels: unpack      190 MB  19 MB/s                 10.0 s\n"),
        ("os: unpack", 83, "packages", "os: unpack          190,000,000 packages            10.0 s\n"),
    ],
)
def test_a_log_gets_a_line_at_the_end_of_a_phase(
    name: str,
    total: int,
    unit: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In CI: what was done, how fast, how long, on standard error; what has failed is not reported to be done."""
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(console, "time", _Clock())
    with Console().phase(name, total, unit=unit) as advance:
        advance(190_000_000)
        console.time.now += 10
    assert capsys.readouterr() == ("", expected)
    with pytest.raises(KeyError), Console().phase(name, total, unit=unit):
        raise KeyError(console.time.monotonic())
    assert capsys.readouterr() == ("", "")


def test_a_long_phase_reports_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice a minute, with what is still to do; a phase of which nothing is known has its time."""
    monkeypatch.setenv("CI", "1")
    monkeypatch.setattr(console, "time", _Clock())
    with Console().phase("fetch", 1_000_000_000) as advance:
        for _ in range(4):
            console.time.now += 15
            advance(100_000_000)
    with Console().phase("os: configure"):
        console.time.now += 7
    with Console().phase("run", 2, unit="runs") as advance:
        for _ in range(2):
            console.time.now += 31
            advance(1)
    lines = capsys.readouterr().err
    assert lines == (
        "fetch               200 MB of 1.0 GB  6.7 MB/s      30.0 s\n"
        "fetch               400 MB of 1.0 GB  6.7 MB/s      60.0 s\n"
        "fetch               400 MB  6.7 MB/s                60.0 s\n"
        "os: configure                                       7.0 s\n"
        "run                 1 of 2 runs                     31.0 s\n"
        "run                 2 runs                          62.0 s\n"
    )
    assert all(SLOW.fullmatch(line) for line in lines.splitlines()), "pages show none of them, whatever the machine"


@pytest.mark.parametrize("setting", ["", "0", "False"])
def test_no_lines_without_request(
    setting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside CI a pipe gets none, in CI a quiet command gets none, and neither does what took no time."""
    monkeypatch.setattr(console, "time", _Clock())
    for value, quiet, seconds in ((setting, False, 10), ("true", True, 10), ("true", False, 0.5)):
        monkeypatch.setenv("CI", value)
        with Console(quiet=quiet).phase("fetch", 10) as advance:
            console.time.now += seconds
            advance(10)
    assert capsys.readouterr() == ("", "")


class _Clock:
    """Represents the module ``time``."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_foreign_text_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs, registries and archives give texts; escape sequences and marks of direction are shown, not obeyed."""
    text = "a\x1b[31m\x9b0m\u202eb\r\udc80\tc\nd"
    shown = r"a\x1b[31m\x9b0m\u202eb\r\udc80" + "\tc\nd"
    console = Console(verbose=True)
    console.line("label", text)
    console.detail(text)
    console.note(text)
    print_error(text, text)
    done = capsys.readouterr()
    assert done.out == f"label     {shown}\n"
    assert done.err.count(shown) == 4
    console.text(f"{text}\n")
    console.text(text, sys.stderr)
    done = capsys.readouterr()
    assert (done.out, done.err) == (f"{shown}\n", shown)
    Console(as_json=True).result({"x": text})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"x": text}
    assert "\x9b" not in printed
