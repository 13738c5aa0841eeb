"""The recording on the first page: the picture is drawn from the recording, and every line appears at its time."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tools import recording

ASSETS = Path(__file__).parents[2] / "docs" / "assets"


def test_the_picture_is_drawn_from_the_recording() -> None:
    """Whoever changes one makes the other again."""
    cast = (ASSETS / "recording.cast").read_text(encoding="utf-8")
    assert (ASSETS / "recording.svg").read_text(encoding="utf-8") == recording.draw(cast), "run: make recording"


def test_the_recording_shows_the_main_job() -> None:
    """The commands of today, each with an exit as wanted; the second run has the same bits as the first."""
    header, *events = (json.loads(line) for line in (ASSETS / "recording.cast").read_text("utf-8").splitlines())
    assert header["version"] == 2
    shown = [re.sub(r"\x1b\[[\d;]*m", "", text).rstrip() for _, _, text in events]
    assert tuple(line[2:] for line in shown if line.startswith("$ ")) == recording.COMMANDS
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    assert any(" · same bits as run 01" in line for line in shown)
    assert not [line for line in shown if len(line) > 3 * recording.COLUMNS]


def test_a_line_waits_for_its_time_and_nothing_comes_from_elsewhere() -> None:
    """Lines are hidden until their time, long ones are folded, and all are there where nothing may move."""
    events = [[0, "o", "$ one\r\n"], [1.5, "o", "\x1b[1mx\x1b[0m" * 30 + "\r\n"], [2.25, "o", "<end>\r\n"]]
    cast = "\n".join(json.dumps(each) for each in [{"version": 2, "width": 20, "height": 9, "title": "t"}, *events])
    svg = recording.draw(cast)
    waits = dict(re.findall(r"r-line-(\d+)\)\"\] { animation: wait ([\d.]+)s; }", svg))
    assert waits == {"1": "1.50", "2": "1.50", "3": "2.25"}
    assert "&lt;end&gt;" in svg
    assert "prefers-reduced-motion" in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
