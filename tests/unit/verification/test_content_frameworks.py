"""Files of frameworks whose bytes depend on addresses and chance: storages, examples, notes of datasets."""

from __future__ import annotations

import gzip
import json
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
from envbuild.verification.masking.masks import Masks
from tests.support.formats import FRAMES, FRAMES_OF_DATES
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
        framed([example(), b"else", b"else"]),
        framed([example(turned())]),
        framed([example(turned()), b"elso"]),
        framed([example(changed), b"else"]),
        framed([example(turned(changed)), b"else"]),
        framed([example({**FEATURES, "label": BYTES}), b"else"]),
        framed([example({("other" if name == "label" else name): each for name, each in FEATURES.items()}), b"else"]),
    ):
        assert not compared(one, other).same
    assert compared(gzip.compress(one, mtime=1), gzip.compress(same, mtime=2)).same
    assert read(framed([b"else", example()]), MASKS) is None
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
    assert not compared(framed([example(), one]), framed([example(), other])).same
    assert read(framed([one]), MASKS) is None


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


def structure(order: str, *, kind: int = 9, wrapped: bool = False) -> bytes:
    """Return what ``tf.data`` notes of a dataset of dictionaries, as TensorFlow 2.21 writes it."""
    parts = {name: message((33, message((2, b""), (3, kind if name == "a" else 1)))) for name in order}
    table = message((53, a_map(parts.items())))
    return message((52, message((1, table), (1, message((32, 3)))))) if wrapped else table


@pytest.mark.parametrize("wrapped", [False, True])
def test_names_in_the_structure_of_a_saved_dataset_come_in_any_order(wrapped: bool) -> None:
    """``dataset_spec.pb`` has a map; the types of what is under the names count."""
    one = structure("abc", wrapped=wrapped)
    assert one != structure("cab", wrapped=wrapped)
    assert compared(one, structure("cab", wrapped=wrapped)).same
    assert not compared(one, structure("cab", kind=3, wrapped=wrapped)).same
    assert not compared(one, structure("abd", wrapped=wrapped)).same
    kept = read(one, MASKS)
    assert kept is not None
    for at in range(len(one)):
        found = read(flipped(one, at), MASKS)
        assert found is None or found.digest != kept.digest, at


def test_a_structure_of_another_form_counts_by_its_bytes() -> None:
    """A name that comes twice, a field that no structure has, something behind it, a structure without names."""
    for data in (structure("abc") + b"\0", structure("ab") * 2, message((52, b"")), structure("a")[:-1]):
        assert read(data, MASKS) is None
    twice = message((53, a_map([("a", message((32, 3))), ("a", message((32, 1)))])))
    assert read(twice, MASKS) is None
    assert read(message((53, a_map([("a", message((99, 3)))]))), MASKS) is None


def snapshot(*, moment: int = 1_795_247_763_000_000, run: str = "171", version: int = 2) -> bytes:
    return message((2, run), (3, moment), (4, version), (5, b"\x09\x01"), (6, 100), (1000, 1))


def test_when_a_dataset_was_saved_does_not_count() -> None:
    """Its version and its run do, unless the run's name is drawn for a folder; a moment of another year is data."""
    assert compared(snapshot(), snapshot(moment=1_795_247_799_000_000)).same
    assert not compared(snapshot(), snapshot(moment=1_495_247_799_000_000)).same
    assert not compared(snapshot(), snapshot(run="172")).same
    assert not compared(snapshot(), snapshot(version=3)).same
    assert read(snapshot() + snapshot(), MASKS) is None
    assert read(snapshot(run="one"), MASKS) is None


STATE = {
    "_data_files": [{"filename": "data-00000-of-00001.arrow"}],
    "_fingerprint": "78808a1a1309ac68",
    "_format_columns": None,
    "_format_kwargs": {},
    "_format_type": None,
    "_output_all_columns": False,
    "_split": "train",
}


def test_how_a_dataset_was_made_is_no_content_of_it() -> None:
    """Hugging Face's fingerprint has times of files in it; elsewhere such a key is data."""
    one, same, other, split = (
        json.dumps(STATE | changed).encode()
        for changed in (
            {},
            {"_fingerprint": "6feb466ac805b441"},
            {"_fingerprint": "6feb466ac805b44"},
            {"_fingerprint": "6feb466ac805b441", "_split": "test"},
        )
    )
    assert compared(one, same).same
    assert not compared(one, other).same
    assert not compared(one, split).same
    assert not compared(*(json.dumps({"_fingerprint": each}).encode() for each in ("a" * 16, "b" * 16))).same


def test_who_has_an_environment_of_lmdb_open_is_no_content_of_it() -> None:
    """Its lock has processes and threads, and is made anew; the file of the data has its magic number elsewhere."""
    magic = bytes.fromhex("dec0efbe01000100")

    def lock(thread: int, size: int = 8192) -> bytes:
        return (magic + bytes(136) + thread.to_bytes(8, "little")).ljust(size, b"\0")

    assert compared(lock(0x7F8D2BF10040), lock(0x7F8D2BF20040)).same
    assert not compared(lock(1), lock(1, size=4096)).same
    assert not compared(lock(1), lock(1).replace(magic, magic[:4] + b"\2\0\1\0")).same
    assert read(lock(1) + b"\0", MASKS) is None
    assert read(bytes(16) + lock(1)[:-16], MASKS) is None


def profile(names: str, *, thread: str = "140404894445632", size: str = "200", cat: str = "Node") -> bytes:
    """Return an event as ONNX Runtime's profiler writes it."""
    threads = {"main_thread": {"thread_id": thread, "core": -1, "Run": 3}, "sub_threads": {thread: {"num_run": 1}}}
    known: dict[str, Any] = {"a": size, "b": [{"float": [10, 4]}], "t": threads}
    arguments = {("thread_scheduling_stats" if name == "t" else name): known[name] for name in names}
    event = {"cat": cat, "pid": 2, "tid": 2, "dur": 135, "ts": 8915, "ph": "X", "name": "Gemm_kernel_time"}
    return json.dumps([event | {"args": arguments}]).encode()


def test_profiles_of_onnx_runtime() -> None:
    """Arguments come in any order, and what threads of its pool did, by their addresses, is measured; sizes count."""
    one = profile("abt")
    assert compared(one, profile("tba", thread="139747226468416")).same
    assert not compared(one, profile("tba", size="208")).same
    assert not compared(one, profile("ab")).same
    assert not compared(profile("abt", cat="mine"), profile("abt", cat="mine", thread="7")).same


@pytest.mark.parametrize("form", FRAMES)
def test_durations_in_pickled_frames_do_not_count(form: str) -> None:
    """They are in one block with losses; a negative one is none, and neither is one of a column with another name."""
    whole = FRAMES[form]
    assert whole.count(number(2.5)) == whole.count(number(0.0625)) == 1
    for old, new, same in (
        (2.5, 2.625, True),
        (0.0625, 7.5, True),
        (2.5, -2.5, False),
        (2.5, float("nan"), False),
        (0.25, 0.26, False),
        (0.5, 0.0, False),
    ):
        other = whole.replace(number(old), number(new))
        assert other != whole
        found = compared(whole, other)
        assert found.same is same, (old, new)
        if same:
            assert found.left_out[0].rpartition(".")[2] in ("epoch_time", "score_time")
    renamed = whole.replace(b"epoch_time", b"epoch_loss")
    assert not compared(renamed, renamed.replace(number(2.5), number(2.625))).same
    assert not compared(whole, renamed).same


def test_columns_of_a_frame_that_have_one_name_count() -> None:
    """Which of them is which is not known."""
    twice = FRAMES["labels as objects"].replace(b"score_time", b"epoch_time")
    assert not compared(twice, twice.replace(number(2.5), number(2.625))).same


@pytest.mark.parametrize("form", FRAMES_OF_DATES)
def test_moments_and_rates_in_pickled_frames_do_not_count(form: str) -> None:
    """By the names of their columns: one that is no moment of the run is a result, and so is a date of another name."""
    whole = FRAMES_OF_DATES[form]
    first = struct.pack("<q", 1_795_247_765_000_000)
    at, peak = whole.index(first), whole.rindex(first)
    assert at < peak
    for place, later, same in ((at, 1_000_001, True), (at, 40 * 86_400_000_000, False), (peak, 1_000_000, False)):
        moved = struct.pack("<q", 1_795_247_765_000_000 + later)
        assert compared(whole, whole[:place] + moved + whole[place + 8 :]).same is same
    for old, new, same in ((512.0, 300.0, True), (512.0, -1.0, False), (0.5, 0.25, False)):
        assert whole.count(number(old)) == 1
        assert compared(whole, whole.replace(number(old), number(new))).same is same


def number(value: float) -> bytes:
    return struct.pack("<d", value)


def classes(first: str, second: str, last: str, *, name: str = "Net") -> bytes:
    """Return three classes as cloudpickle 3 writes them, by their identities."""
    function = b"ccloudpickle.cloudpickle\n_make_skeleton_class\n"
    parts = b"".join(
        function + b"(cbuiltins\ntype\n" + text(name) + b")}" + text(each) + b"NtR" for each in (first, second, last)
    )
    return b"\x80\x05(" + parts + b"t."


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def test_identities_of_classes_that_cloudpickle_draws_do_not_count() -> None:
    """Which of them are the same class does, and so do names; an identity of another form is data."""
    a, b, c, d = (f"{each}320f3053abf4e95b5947da99213cd83" for each in "1234")
    one = classes(a, b, a)
    assert compared(one, classes(c, d, c)).same
    assert compared(one, classes(b, a, b)).same
    assert not compared(one, classes(c, d, d)).same
    assert not compared(one, classes(c, d, c, name="Nut")).same
    assert not compared(one, classes(c, d, "mine")).same
    assert not compared(classes(a, "mine", a), classes(a, "yours", a)).same
