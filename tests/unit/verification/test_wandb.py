"""What Weights & Biases keeps of a run: what the program gave it counts, what it notes of itself does not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from envbuild.verification.content import read
from envbuild.verification.content.names import common_names, drawn_names
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)
HEAD = b":W&B\xe1\xbe\0"


def message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """Return a message of Protocol Buffers."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(data)) + data
    return found


def varint(value: int) -> bytes:
    """Return a number of variable length."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def items(values: dict[str, Any], *, nested: bool = False) -> list[tuple[int, bytes]]:
    """Return the items of a row, a summary or a configuration."""
    return [(1, message((2 if nested else 1, key), (16, json.dumps(value)))) for key, value in values.items()]


def history(step: int, values: dict[str, Any]) -> bytes:
    """Return a row of history."""
    return message((2, message(*items(values), (2, message((1, step))))))


def log(*records: bytes, split: int = 0) -> bytes:
    """Return a transaction log; ``split``: bytes of the parts of a record, if these are in several."""
    found = HEAD
    for record in records:
        parts = [record[at : at + split] for at in range(0, len(record), split)] if split else [record]
        for at, part in enumerate(parts):
            kind = 1 if len(parts) == 1 else 2 if not at else 4 if at == len(parts) - 1 else 3
            found += zlib.crc32(bytes([kind]) + part).to_bytes(4, "little") + len(part).to_bytes(2, "little")
            found += bytes([kind]) + part
    return found


def run(loss: float = 0.5, *, lr: float = 0.1, now: float = 1_795_247_763.25, name: str = "baseline") -> list[bytes]:
    """Return the records of a run of two steps."""
    given = message((1, "id12id34"), (3, "elastic"), (4, message(*items({"lr": lr, "_wandb": {"t": now}}))), (8, name))
    rows = [
        history(step, {"loss": loss / (step + 1), "_timestamp": now + step, "_runtime": now / 1e9}) for step in range(2)
    ]
    kept = {"loss": loss / 2, "_timestamp": now, "_wandb": {"runtime": 3}}
    return [
        message((1, 1), (21, message((1, "0.30.0")))),
        message((17, given)),
        message((7, message((3, message((1, f"cpu {now}")))))),
        *rows,
        message((3, message(*items(kept)))),
        message((13, message((3, f"took {now}")))),
        message((8, message((1, "id12id34"), (4, "model"), (5, "m"), (6, "abcd"), (15, f"drawn{now}")))),
        message((18, message((1, 0), (2, int(now))))),
    ]


def same(one: bytes, other: bytes) -> bool:
    """Whether two files hold the same."""
    contents = [read(data, MASKS) for data in (one, other)]
    assert all(each is not None for each in contents)
    return len({each.digest for each in contents if each is not None}) == 1


def test_what_it_notes_of_itself_does_not_count() -> None:
    """Times, use of the machine, output, what was drawn; nor how records are cut, nor the order of items."""
    assert same(log(*run()), log(*run(now=1_795_247_999.5)))
    assert same(log(*run()), log(*run(), split=11))
    values = {"loss": 0.5, "accuracy": 0.25}
    assert same(log(history(0, values)), log(history(0, dict(reversed(values.items())))))
    assert same(log(*run()), log(*reversed(run()[:3]), *run()[3:]))


@pytest.mark.parametrize(
    "other", [run(loss=0.51), run(lr=0.2), run(name="another"), run()[:-4] + run()[-3:], run()[:-2]]
)
def test_what_the_program_gave_counts(other: list[bytes]) -> None:
    """A row of history, the configuration, the run's name, the summary, an artifact."""
    assert not same(log(*run()), log(*other))


def test_steps_rows_and_what_is_not_known_count() -> None:
    """Rows come one after another, and a record of an unknown kind is compared as it is."""
    assert not same(log(history(0, {"loss": 0.5})), log(history(1, {"loss": 0.5})))
    assert not same(log(history(0, {"a": 1}), history(1, {"b": 1})), log(history(0, {"b": 1}), history(1, {"a": 1})))
    assert not same(log(message((50, "one"))), log(message((50, "two"))))
    assert not same(log(history(0, {"loss": 0.5})), log(history(0, {"loss": 0.5}), history(0, {"loss": 0.5})))
    later = message((17, message((3, "elastic"))))
    assert not same(*(log(message((17, message((8, name)))), later) for name in ("res-0.5", "res-0.6")))


def test_an_artifact_is_its_files() -> None:
    """Its own digest is of their names too, which may hold the run's identity."""

    def artifact(digest: str, name: str = "m", kind: str = "model", **files: str) -> bytes:
        entries = [(4, message((1, path), (2, each), (4, 9))) for path, each in files.items()]
        given = (9, int(kind == "model"))
        return message((8, message((4, kind), (5, name), (6, digest), given, (12, message(*entries)))))

    assert same(log(artifact("x", a="1", b="2")), log(artifact("y", b="2", a="1")))
    assert not same(log(artifact("x", a="1", b="2")), log(artifact("x", a="1", b="3")))
    assert not same(log(artifact("x", a="1")), log(artifact("x", b="1")))
    assert not same(log(artifact("x")), log(artifact("y")))
    assert not same(log(artifact("x", "one", a="1")), log(artifact("x", "two", a="1")))
    assert same(
        log(artifact("x", "run-t-aQEE", "run_table", a="1")), log(artifact("x", "run-t-h_Xt", "run_table", a="1"))
    )


def test_a_key_of_several_parts_is_one() -> None:
    """And an item may take a value away again."""
    removed = message((5, message((2, message((1, "lr"))))))
    given = [message((5, message(*items({"lr": 0.1}, nested=nested)))) for nested in (False, True)]
    assert same(log(given[0]), log(given[1]))
    assert not same(log(given[0]), log(given[0], removed))
    nested = (1, message((2, "a"), (2, "b"), (16, "1")))
    dotted = ((1, message((1, "a.b"), (16, value))) for value in ("2", "3"))
    assert not same(*(log(message((2, message(each, nested)))) for each in dotted))


def test_a_damaged_log_counts_by_its_bytes() -> None:
    """A sum that is wrong, a part without its end, another version."""
    whole = log(*run())
    for data in (
        whole[:-1] + b"?",
        whole[:-1],
        whole.replace(b"\xe1\xbe\0", b"\xe1\xbe\1"),
        log(run()[1], split=9)[:-20],
    ):
        assert read(data, MASKS) is None


OF_ITSELF: Sequence[str] = (
    "2026-11-26 14:50:10,246 INFO    MainThread:2 [wandb_setup.py:_flush():81] Configure stats pid to {}\n",
    '{{"time":"2026-11-26T14:50:10.469464145Z","level":"INFO","msg":"wandb-core","n":{}}}\n',
)


@pytest.mark.parametrize("line", OF_ITSELF)
def test_its_own_logs_are_no_results(line: str) -> None:
    """But for what is no message of it: what it was given, and lines of others."""
    one, other = (line.format(number).encode() for number in (1, 2))
    assert same(one, other + other)
    assert not same(one + b"config: {'lr': 0.1}\n", one + b"config: {'lr': 0.2}\n")
    theirs = "2026-11-26 14:50:10,246 INFO    MainThread:2 [train.py:main():8] loss {}\n"
    assert not same(one + theirs.format(0.5).encode(), one + theirs.format(0.6).encode())
    assert not same(theirs.format(0.5).encode() + one, theirs.format(0.6).encode() + one)


def test_names_of_its_folders() -> None:
    """An identity may have no digit, and is in the name of the log too."""
    folders = [f"run-20261126_1450{second}-{drawn}" for second, drawn in (("10", "unpoennc"), ("12", "nzlitb21"))]
    paths = [
        [f"wandb/offline-{each}/run-{each[-8:]}.wandb", f"wandb/{each}/files/{each[-8:]}_model.json"]
        for each in folders
    ]
    paths = [
        [*each, f"digits/{folder[-8:]}/last.ckpt", f"{folder[-8:]}_w.npy"]
        for each, folder in zip(paths, folders, strict=True)
    ]
    masks = [Masks(1_795_704_610.0).with_files(drawn_names(each), dict) for each in paths]
    one, other = common_names([*zip(paths, masks, strict=True)])
    assert (
        {*one.values()}
        == {*other.values()}
        == {
            "wandb/offline-run-⟨date⟩-⟨name⟩/run-⟨name⟩.wandb",
            "wandb/run-⟨date⟩-⟨name⟩/files/⟨name⟩_model.json",
            "digits/⟨name⟩/last.ckpt",
            "⟨name⟩_w.npy",
        }
    )
    assert drawn_names(paths[0]) == {"unpoennc"}


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("wandb: epoch_time █▃▁", True),
        ("wandb: train/time ▁▁", True),
        ("wandb:       loss █▃▁", False),
        ("epoch_time █▃▁", False),
        ("Epoch 1 29/29 v_num: ff1b", True),
        ("Epoch 1: 29/29 [v_num=8vuk]", True),
        ("Epoch 1: 29/29 [v_num=12]", False),
        ("Epoch 1 29/29 101.51it/s v_num: 0123", True),
        ("v_num: 5321, f_num: 10642", False),
        ("Epoch 1 29/29 v_num: 0.25", False),
    ],
)
def test_curves_of_measurements(line: str, masked: bool) -> None:
    """As it draws them at the end of a run; and the end of an identity, which a number of vertices is not."""
    assert ("v_num" in line and "names" in MASKS.mask(line).kinds) or bool(MASKS.mask(line).kinds) is masked


def test_an_identity_is_no_part_of_a_word_or_number() -> None:
    """Such as a program may choose."""
    masks = Masks(1_795_247_763.0, drawn={"resnet50", "unpoennc"})
    assert masks.mask("loss of myresnet50 0.1").text == "loss of myresnet50 0.1"
    assert masks.mask("run unpoennc").text == "run ⟨name⟩"
    assert not drawn_names(["wandb/run-20261126_145010-00001234/x"])


def test_packages_may_come_in_any_order() -> None:
    """It writes them as folders list them; which they are counts, and so does the order of anything else."""
    assert same(b"wandb==0.30.0\nzipp==4.1.2\n", b"zipp==4.1.2\nwandb==0.30.0\n")
    assert not same(b"wandb==0.30.0\nzipp==4.1.2\n", b"zipp==4.1.3\nwandb==0.30.0\n")
    assert not same(b"wandb==0.30.0\nzipp==4.1.2\nmodel 1\n", b"zipp==4.1.2\nwandb==0.30.0\nmodel 1\n")
    assert not same(b"tree==0.91\nlasso==0.87\n", b"lasso==0.87\ntree==0.91\n")


def test_drawn_names_without_a_time_are_numbered_in_the_order_of_writing() -> None:
    """Of files and folders; where that order is not known they keep their names."""
    one = ["c/4f0b2a6100364d489690565e64d27ffe.zip", "c/58ea837e240b469192cdf205d75c370a.zip"]
    other = ["c/0a7fd9bd5e5b4c0f9a64a35ab8a3f1c2.zip", "c/3e61da6016684d73898deb86833ed98b.zip"]
    runs = [(one, MASKS), (other, MASKS)]
    written = [dict(zip(one, (1, 2), strict=True)), dict(zip(other, (8, 7), strict=True))]
    assert common_names(runs, written) == [
        {one[0]: "c/⟨name⟩.zip (1)", one[1]: "c/⟨name⟩.zip (2)"},
        {other[1]: "c/⟨name⟩.zip (1)", other[0]: "c/⟨name⟩.zip (2)"},
    ]
    for times in ({one[0]: 1}, {one[0]: 1, one[1]: 1}):
        assert common_names(runs, [times, written[1]]) == [{}, {}]
    assert common_names(runs) == [{}, {}]


def test_drawn_folders_are_numbered_by_their_first_file() -> None:
    """All files of one have its number."""
    folders = (
        ("777ddd35-2ad7-4b1a-9797-9056bbdd7888", "b101a09e-d8c5-40a9-84a1-231aa368d5f5"),
        ("f101a09e-d8c5-40a9-84a1-231aa368d5f5", "2e4a9ca1-85dc-430c-82a6-e555df0a008e"),
    )
    paths = [[f"{folder}/{file}" for folder in each for file in "ab"] for each in folders]
    written = [{path: at for at, path in enumerate(each, 5)} for each in paths]
    one, other = common_names([(each, MASKS) for each in paths], written)
    assert [one[path] for path in paths[0]] == [other[path] for path in paths[1]]
    assert one[paths[0][3]] == "⟨name⟩/b (2)"
