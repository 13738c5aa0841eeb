"""Files of frameworks whose bytes depend on addresses and chance: storages, examples, notes of datasets."""

from __future__ import annotations

import gzip
import pickle
import struct
import sys
from collections.abc import Iterable, Mapping
from io import BytesIO
from types import ModuleType
from typing import Any

import pytest

from envbuild.core.tfrecord import crc32c
from envbuild.verification.content import Difference, compare, read
from envbuild.verification.printed import Masks
from tests.unit.verification.test_wandb import message

MASKS = Masks(1_795_247_763.0)
"""Of a run that began on 2026-11-21 at 07:56:03 UTC."""


def compared(one: bytes, other: bytes) -> Difference:
    """Compare two files, which must be of a format that is opened."""
    mine, theirs = read(one, MASKS), read(other, MASKS)
    assert mine is not None
    assert theirs is not None
    return compare(mine, theirs)


def flipped(data: bytes, at: int) -> bytes:
    """Return data with another bit."""
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


class FloatStorage:
    """Stands for PyTorch's class of that name, with an address and numbers."""

    __module__ = "torch"

    def __init__(self, address: int, numbers: tuple[float, ...]) -> None:
        self.address = address
        self.numbers = numbers


def saved(
    value: Any, storages: Iterable[FloatStorage], *, view: Any = None, magic: int = 0x1950A86A20F9469CFC6C
) -> bytes:
    """Return a value as ``torch.save`` of old writes it (``_legacy_save`` in torch/serialization.py)."""
    module = ModuleType("torch")
    module.FloatStorage = FloatStorage  # type: ignore[attr-defined]
    stream = BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, found: Any) -> Any:
            if isinstance(found, FloatStorage):
                return ("storage", FloatStorage, str(found.address), "cpu", len(found.numbers), view)
            return None

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", module)
        machine = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
        for each in (magic, 1001, machine):
            pickle.dump(each, stream, protocol=2)
        Pickler(stream, protocol=2).dump(value)
        table = {str(each.address): each for each in storages}
        pickle.dump(sorted(table), stream, protocol=2)
    for key in sorted(table):
        numbers = table[key].numbers
        stream.write(struct.pack(f"<q{len(numbers)}f", len(numbers), *numbers))
    return stream.getvalue()


def model(first: int, second: int, *, bias: float = 0.5, shared: bool = True) -> bytes:
    """Return a file with two storages at some addresses, the first of which is in two places."""
    weight, other = FloatStorage(first, (1.0, 2.0)), FloatStorage(second, (bias,))
    return saved({"weight": weight, "bias": other, "tied": weight if shared else other}, (weight, other))


def test_storages_of_pytorchs_old_files_count_by_their_place() -> None:
    """Their keys are addresses, by whose texts they are sorted: the order in the file is another one in each run."""
    one = model(94_000_000_000_001, 99_000_000_000_000)
    assert one != model(95_000_000_000_001, 99_000_000_000_000)
    for same in (model(95_000_000_000_001, 99_000_000_000_000), model(99, 94_000_000_000_001), model(9, 10)):
        assert compared(one, same).same
    assert not compared(one, model(99, 94, bias=0.25)).same
    assert not compared(one, model(99, 94, shared=False)).same
    assert not compared(one, flipped(one, len(one) - 1)).same


def test_two_storages_that_are_exchanged_are_a_difference() -> None:
    """Which tensor has which numbers is what counts, not that there are such numbers."""
    one, two = FloatStorage(11, (1.0,)), FloatStorage(22, (2.0,))
    three, four = FloatStorage(11, (2.0,)), FloatStorage(22, (1.0,))
    assert not compared(saved([one, two], (one, two)), saved([three, four], (three, four))).same
    assert compared(saved([one, two], (one, two)), saved([four, three], (three, four))).same


def test_each_bit_of_an_old_file_counts() -> None:
    """Numbers, counts, keys and names; the numbers of opcodes in a pickle's memory, which mean nothing, aside."""
    one = model(94, 99)
    body = len(one) - struct.calcsize("<q2fqf")
    kept = read(one, MASKS)
    assert kept is not None
    for at in range(body, len(one)):
        found = read(flipped(one, at), MASKS)
        assert found is None or found.digest != kept.digest, at


def test_an_old_file_of_another_form_counts_by_its_bytes() -> None:
    """Something behind it, a part that is missing, views, keys that are no addresses, storages without a reference."""
    storage, other = FloatStorage(94, (1.0, 2.0)), FloatStorage(99, (3.0,))
    whole = saved([storage], (storage,))
    assert read(whole, MASKS) is not None
    named = FloatStorage(94, (1.0,))
    named.address = "weights"  # type: ignore[assignment]
    for data in (
        whole + b"\0",
        whole[:-1],
        whole[:-8],
        saved([storage], (storage,), view=("94", 0, 2)),
        saved([storage], (storage, other)),
        saved([storage, other], (storage,)),
        saved([named], (named,)),
    ):
        assert read(data, MASKS) is None
    assert not compared(whole, saved([storage], (storage,), magic=7) + b".").same


def framed(records: Iterable[bytes]) -> bytes:
    """Return records as TensorFlow's writer frames them."""
    found = b""
    for each in records:
        length = struct.pack("<Q", len(each))
        found += length + struct.pack("<I", crc32c(length)) + each + struct.pack("<I", crc32c(each))
    return found


INTEGERS, BYTES, FLOATS = (message((3, message((1, b"\x05\x80\x01")))), message((1, message((1, b"a"), (1, b"")))),
                           message((2, message((1, struct.pack("<2f", 0.5, -1.0))))))  # fmt: skip
FEATURES = {"label": INTEGERS, "image": BYTES, "weight": FLOATS}


def a_map(entries: Iterable[tuple[str, bytes]]) -> bytes:
    return message(*((1, message((1, name), (2, value))) for name, value in entries))


def example(features: Mapping[str, bytes] = FEATURES, *more: tuple[str, bytes]) -> bytes:
    return message((1, a_map([*features.items(), *more])))


def turned(features: Mapping[str, bytes] = FEATURES) -> dict[str, bytes]:
    return dict(reversed(features.items()))


def test_features_of_examples_come_in_any_order() -> None:
    """They are a map, which protobuf writes in an order that depends on addresses; records come in theirs."""
    changed = {**FEATURES, "label": message((3, message((1, b"\x05\x81\x01"))))}
    one, same = framed([example(), b"else"]), framed([example(turned()), b"else"])
    assert one != same
    assert compared(one, same).same
    for other in (
        framed([b"else", example()]),
        framed([example(turned())]),
        framed([example(turned()), b"elso"]),
        framed([example(changed), b"else"]),
        framed([example(turned(changed)), b"else"]),
        framed([example({**FEATURES, "label": BYTES}), b"else"]),
        framed([example({("other" if name == "label" else name): each for name, each in FEATURES.items()}), b"else"]),
    ):
        assert not compared(one, other).same
    assert compared(gzip.compress(one, mtime=1), gzip.compress(same, mtime=2)).same
    assert not compared(gzip.compress(one, mtime=1), gzip.compress(framed([example(changed), b"else"]))).same


def test_lists_of_features_come_in_any_order_and_what_is_in_them_does_not() -> None:
    """``SequenceExample`` has two maps: of features, and of lists of these."""
    lists = {"words": message((1, INTEGERS), (1, FLOATS)), "tags": message((1, BYTES))}
    other = {**lists, "words": message((1, FLOATS), (1, INTEGERS))}
    for context in (FEATURES, {}):
        one = framed([message((1, a_map(context.items())), (2, a_map(lists.items())))])
        same = framed([message((1, a_map(turned(context).items())), (2, a_map(turned(lists).items())))])
        assert one != same
        assert compared(one, same).same
        assert not compared(one, framed([message((1, a_map(context.items())), (2, a_map(other.items())))])).same
    without = framed([message((2, a_map(lists.items())))])
    assert compared(without, framed([message((2, a_map(turned(lists).items())))])).same
    assert not compared(one, without).same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (example(FEATURES, ("label", BYTES)), example(turned(), ("label", BYTES))),
        (example() + message((3, 1)), example(turned()) + message((3, 1))),
        (example({**FEATURES, "x": message((4, b"q"))}), example(turned({**FEATURES, "x": message((4, b"q"))}))),
        (example({**FEATURES, "x": INTEGERS + INTEGERS}), example(turned({**FEATURES, "x": INTEGERS + INTEGERS}))),
        (example({**FEATURES, "x": message((2, b"\x0a\x03abc"))}),
         example(turned({**FEATURES, "x": message((2, b"\x0a\x03abc"))}))),
        (example({**FEATURES, "x": message((3, b"\x0a\x02\x80\x00"))}),
         example(turned({**FEATURES, "x": message((3, b"\x0a\x02\x80\x00"))}))),
        (message((1, a_map(FEATURES.items()) + message((2, 1)))),
         message((1, a_map(turned().items()) + message((2, 1))))),
        (message((1, message((1, message((2, INTEGERS), (1, "a"))), (1, message((2, INTEGERS), (1, "b")))))),
         message((1, message((1, message((2, INTEGERS), (1, "b"))), (1, message((2, INTEGERS), (1, "a"))))))),
        (example(dict.fromkeys("ab", b"")), example(dict.fromkeys("ba", b""))),
        (b"\x0a\xac\x00" + example()[2:], b"\x0a\xac\x00" + example(turned())[2:]),
    ],
    ids=["name twice", "further field", "unknown kind", "two lists", "no floats", "long number", "more than a map",
         "value first", "no feature at all", "long length"],
)  # fmt: skip
def test_what_is_no_example_to_the_last_bit_counts_by_its_bytes(one: bytes, other: bytes) -> None:
    """The order of a message's parts may mean something there."""
    assert one != other
    assert not compared(framed([one]), framed([other])).same


def test_each_bit_of_a_record_counts() -> None:
    """A file with a wrong sum is no file of records: readers stop there."""
    one = framed([example(), example(turned())])
    kept = read(one, MASKS)
    assert kept is not None
    for at in range(len(one)):
        found = read(flipped(one, at), MASKS)
        assert found is None or found.digest != kept.digest, at
    assert read(one[:-1], MASKS) is None
    assert read(one + b"\0", MASKS) is None
