"""Names of files that nothing drew, and orders of lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from envbuild.operations.doubtful import _in_other_order
from envbuild.operations.undrawn_names import phrases
from envbuild.record.model import ProcessRecord
from envbuild.record.printed import Printed

DRAW = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize(("name", "quoted"), [("9f86d081", False), ("3fa9c1d2", True)])
def test_a_name_that_no_run_drew_is_quoted(name: str, quoted: bool) -> None:
    """A digest of a result is in nothing that the system's entropy gave."""
    own = {"12345abc": "out/⟨name⟩.json"}
    how = "computed of what differs, or by a generator"
    found = phrases(own, {name: "out/⟨name⟩.json"}, (DRAW,))
    assert [*found] == [f"names of files: 12345abc in out/⟨name⟩.json is not as it was drawn: {how}"] * quoted


def runs(orders: str) -> list[Any]:
    """Return runs of several processes that printed the same lines in orders of these names."""
    process = cast(ProcessRecord, SimpleNamespace(parent=1, pid=2, python="3"))
    return [
        SimpleNamespace(
            stdout=Printed(lines=3, sha256=each, unordered="same"),
            record=SimpleNamespace(processes=(process, process)),
        )
        for each in orders
    ]


@pytest.mark.parametrize(("orders", "asked"), [("aab", False), ("abc", True), ("aaa", False)])
def test_an_order_of_lines_is_asked_for_if_each_run_has_its_own(
    orders: str, monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    """Two processes that race have two orders, and luck chooses among few."""
    monkeypatch.setattr("envbuild.operations.doubtful.several_processes", lambda *records: True)
    assert _in_other_order(runs(orders), "stdout") is asked
