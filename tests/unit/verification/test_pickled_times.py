"""Dates, moments and spans of time in pickles: those of the run are left out, and nothing else of their objects is."""

from __future__ import annotations

import pickle
import struct
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from envbuild.verification.content import Content, compare, read
from envbuild.verification.files import masks_of
from envbuild.verification.masking.masks import Masks
from tests.support.records import record

SECONDS = 1_767_323_050
"""A moment of the run of these tests, which began five seconds before."""
MOMENT = datetime.fromtimestamp(SECONDS, timezone.utc).replace(tzinfo=None)
LATER = MOMENT + timedelta(seconds=20, microseconds=7)


def _why(one: bytes, other: bytes) -> str | None:
    """Return what was left out, or None if the contents differ."""
    first, second = (read(each, masks_of(record())) for each in (one, other))
    assert first is not None
    assert second is not None
    found = compare(first, second)
    return ", ".join(found.left_out) if found.same else None


def _stamp(value: int, frequency: Any = None, zone: Any = None, unit: Any = 9) -> bytes:
    """A table with a ``Timestamp`` as pandas pickles it."""
    arguments = b"".join(pickle.dumps(each, 2)[2:-1] for each in (value, frequency, zone, unit))
    called = b"cpandas._libs.tslibs.timestamps\n_unpickle_timestamp\n"
    return b"\x80\x02}X\x04\x00\x00\x00when" + called + b"(" + arguments + b"tRs."


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (pickle.dumps({"when": MOMENT}, 2), pickle.dumps({"when": LATER}, 2), "when"),  # as PyTorch's files have it
        (pickle.dumps({"when": MOMENT}), pickle.dumps({"when": LATER}), "when"),
        (_stamp(SECONDS * 1_000_000), _stamp(SECONDS * 1_000_000 + 7), "when"),
        (_stamp(SECONDS * 10**9, None, "UTC", 10), _stamp(SECONDS * 10**9 + 7, None, "UTC", 10), "when"),
        (
            pickle.dumps({"elapsed": timedelta(seconds=1.5)}),
            pickle.dumps({"elapsed": timedelta(days=1, microseconds=7)}),
            "elapsed",
        ),
    ],
)
def test_measurements_are_left_out(one: bytes, other: bytes, why: str) -> None:
    """In each protocol, and in each unit."""
    assert _why(one, other) == why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pickle.dumps(date(2019, 3, 1), 2), pickle.dumps(date(2019, 3, 2), 2)),
        (
            pickle.dumps(MOMENT.replace(tzinfo=timezone(timedelta(hours=1)))),
            pickle.dumps(MOMENT.replace(tzinfo=timezone(timedelta(hours=2)))),
        ),
        (
            pickle.dumps({"horizon": timedelta(seconds=1)}),
            pickle.dumps({"horizon": timedelta(seconds=1, microseconds=1)}),
        ),
        (pickle.dumps({"elapsed": timedelta(seconds=-1)}), pickle.dumps({"elapsed": timedelta(seconds=-2)})),
        (pickle.dumps([timedelta(seconds=1)]), pickle.dumps([timedelta(seconds=2)])),
        (_stamp(1_500_000_000, unit=7), _stamp(1_500_000_001, unit=7)),
        (_stamp(SECONDS, unit=7), _stamp(SECONDS * 1000, unit=8)),
        (_stamp(SECONDS, unit=7, zone="UTC"), _stamp(SECONDS, unit=7, zone="CET")),
        (_stamp(SECONDS, unit=7, frequency=0), _stamp(SECONDS + 1, unit=7, frequency=0)),
        (_stamp(SECONDS, unit=11), _stamp(SECONDS + 1, unit=11)),
        (_stamp(SECONDS, unit=True), _stamp(SECONDS + 1, unit=True)),
    ],
)
def test_results_count(one: bytes, other: bytes) -> None:
    """Dates of other times, zones, units, spans under names of no measurement, objects of another form."""
    assert _why(one, other) is None


@pytest.mark.parametrize(
    "make", [lambda at: pickle.dumps({"when": at}, 2), lambda at: _stamp(int(at.timestamp() * 1e6))]
)
def test_a_moment_of_no_run_is_quoted(make: Any) -> None:
    """One of some hours before may have been drawn."""
    content = read(make((MOMENT - timedelta(hours=5)).replace(tzinfo=timezone.utc)), masks_of(record()))
    assert content is not None
    assert "when" in content.strange


def test_tables_of_other_classes_have_names() -> None:
    """Values of a ``defaultdict`` and scikit-learn's ``Bunch`` are known by their keys; a ``Counter`` counts words."""
    for name in _TABLES:
        one, other, result = (_table(name, *values) for values in ((0.25, 1.0), (0.5, 1.0), (0.5, 1.5)))
        assert one is not None
        assert other is not None
        assert result is not None
        assert (one.digest == other.digest) == (name != "collections Counter"), name
        assert other.digest != result.digest


_TABLES = ("collections defaultdict", "sklearn.utils._bunch Bunch", "collections Counter")


def _table(name: str, took: float, loss: float) -> Content | None:
    """A pickle as such a class makes it: the class, what it is made of, and what is put into it."""
    module, _, name = name.partition(" ")
    head = b"\x80\x04c" + f"{module}\n{name}\n".encode() + b")\x81("
    values = b"".join(
        b"\x8c" + bytes([len(key)]) + key.encode() + b"G" + struct.pack(">d", value)
        for key, value in (("fit_time", took), ("loss", loss))
    )
    return read(head + values + b"u.", Masks(0.0))
