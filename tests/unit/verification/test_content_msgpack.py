"""MessagePack: measurements are left out by their names, all else counts."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest

from envbuild.verification.content import compare, read
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)
"""Of a run that began on 2026-11-21 at 07:56:03 UTC."""
MOMENT = 1_795_248_000


def packed(**table: Any) -> bytes:
    return msgspec.msgpack.encode({"loss": 0.25, **table})


def stamp(seconds: int) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(-1, struct.pack(">Q", 5 << 34 | seconds))


def same(one: bytes, other: bytes) -> bool:
    mine, theirs = read(one, MASKS), read(other, MASKS)
    assert mine is not None
    assert theirs is not None
    return compare(mine, theirs).same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (packed(fit_time=0.2512), packed(fit_time=0.3141)),
        (packed(epoch_times=[0.2512, 0.5]), packed(epoch_times=[0.3141, 0.25])),
        (packed(created_at="2026-11-21T07:56:10"), packed(created_at="2026-11-21T07:56:23")),
        (packed(at=stamp(MOMENT)), packed(at=stamp(MOMENT + 9))),
        (packed(fit_time=0.2) * 2, packed(fit_time=0.2) + packed(fit_time=0.3)),  # a log of one table after the other
        (packed(inner=packed(fit_time=0.2512)), packed(inner=packed(fit_time=0.3141))),
    ],
)
def test_measurements_in_msgpack_are_left_out(one: bytes, other: bytes) -> None:
    """As in JSON."""
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (packed(w=1), packed(w=2)),
        (packed(w=1), packed(w=1.0)),
        (packed(w=1), packed(w="1")),
        (packed(w="a"), packed(w=b"a")),
        (packed(w=True), packed(w=1)),
        (b"\x81\xa1w\xca" + struct.pack(">f", 0.25), packed()[:1] + b"\xa1w\xcb" + struct.pack(">d", 0.25)),
        (packed(w=None), packed(w="None")),
        (packed(w=0.0), packed(w=-0.0)),
        (packed(w=[1, 2]), packed(w=[1, 3])),
        (packed(w={1: 2}), packed(w={2: 2})),
        (packed(w=msgspec.msgpack.Ext(1, b"abc")), packed(w=msgspec.msgpack.Ext(1, b"abd"))),
        (packed(w=msgspec.msgpack.Ext(1, b"abc")), packed(w=msgspec.msgpack.Ext(2, b"abc"))),
        (packed(at=stamp(1_500_000_000)), packed(at=stamp(1_500_000_001))),
        (packed(survival_time=3.5), packed(survival_time=3.25)),
        (packed(epoch_times=[0.5]), packed(epoch_times=[0.5, 0.25])),
        (packed(w=1), packed(w=1) * 2),
        (b"\x82\xa1a\x01\xa1a\x02", b"\x82\xa1a\x01\xa1a\x03"),  # the same key twice
        (b"\x82\xa1a\x01\xa1a\x02", b"\x82\xa1a\x00\xa1a\x02"),
    ],
)
def test_all_else_in_msgpack_counts(one: bytes, other: bytes) -> None:
    """Values, types, names, other extensions, how many there are."""
    assert not same(one, other)


@pytest.mark.parametrize("data", [packed()[:-1], packed() + b"\x01", b"\x82\xa1a\x01\xa1b\xc1", b"\x81" * 5000])
def test_what_is_not_whole_counts_by_its_bytes(data: bytes) -> None:
    """Data that only begin as MessagePack does are of no known format."""
    assert read(data, MASKS) is None


def test_lists_in_lists_by_the_thousand_are_not_followed() -> None:
    """A hostile file counts by its bytes."""
    assert read(b"\x81\xa1a" + b"\x91" * 5000 + b"\x01", MASKS) is None
