"""Which image a lock represents, and whether an engine holds it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from envbuild.engine.protocol import ImageInfo
from envbuild.errors import NotReproducibleError
from envbuild.image.record import (
    check_reproduced,
    image_record_path,
    image_tag,
    is_recorded,
    read_image_record,
    write_image_record,
)
from tests.support.image_records import image_record
from tests.support.locks import small_lock

CONFIG, MANIFEST, OTHER = "a" * 64, "b" * 64, "c" * 64
LOCK = small_lock({"a-1.0-py3-none-any.whl": b""})
RECORDED = image_record(LOCK, config=CONFIG, manifest=MANIFEST)


@pytest.mark.parametrize(("held", "same"), [(CONFIG, True), (MANIFEST, True), (OTHER, False), ("", False)])
def test_an_image_is_known_by_its_config_or_its_manifest(held: str, same: bool) -> None:
    """Engines name an image by its config's digest; from Docker 28 on, with containerd's store, by its manifest's."""
    assert is_recorded(ImageInfo(config=held, tags=(image_tag(LOCK),), diff_ids=()), RECORDED) is same
    assert not is_recorded(None, RECORDED)


def test_what_is_recorded_is_of_one_lock(tmp_path: Path) -> None:
    """The file next to a lock is believed only if it is whole and of this very lock."""
    path = tmp_path / "pylock.a.toml"
    assert read_image_record(path, LOCK) is None
    write_image_record(path, RECORDED)
    assert image_record_path(path).name == "pylock.a.image.json"
    assert read_image_record(path, LOCK) == RECORDED
    assert read_image_record(path, msgspec.structs.replace(LOCK, environment={"A": "1"})) is None
    table = RECORDED.as_dict()
    wrong = [{"manifest": 1}, {"config": f"{CONFIG}\n"}, {"layers": ["1"]}, {"sizes": [-1]}, {"recipe": None}]
    for damaged in (b"", b"[]", b"{", b"\xff", *(json.dumps({**table, **one}).encode() for one in wrong)):
        image_record_path(path).write_bytes(damaged)
        assert read_image_record(path, LOCK) is None


def test_the_file_is_sorted_and_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    """The file is in version control: one key a line, sorted; an image that was pulled has no sizes in it."""
    path = tmp_path / "pylock.a.toml"
    write_image_record(path, RECORDED)
    written = image_record_path(path).read_bytes()
    assert written == (json.dumps(RECORDED.as_dict(), indent=2, sort_keys=True) + "\n").encode()
    assert list(json.loads(written)) == [
        "config", "layers", "layout", "lock", "manifest", "recipe", "reference", "sizes",
    ]  # fmt: skip
    pulled = msgspec.structs.replace(RECORDED, recipe="", sizes=())
    write_image_record(path, pulled)
    assert "sizes" not in json.loads(image_record_path(path).read_bytes())
    assert read_image_record(path, LOCK) == pulled


def test_a_replaced_digest_is_reported(tmp_path: Path) -> None:
    """A digest that somebody reviewed never goes silently: another lock, other code or a damaged file is named."""
    path = tmp_path / "pylock.a.toml"
    made = msgspec.structs.replace(RECORDED, config=OTHER)
    assert write_image_record(path, RECORDED) == ""
    assert write_image_record(path, RECORDED) == ""
    moved = f"pylock.a.image.json recorded sha256:{CONFIG[:12]}…, now sha256:{OTHER[:12]}…"
    assert write_image_record(path, made) == f"{moved}: envbuild's own code has changed"
    write_image_record(path, RECORDED)
    assert write_image_record(path, msgspec.structs.replace(made, lock=OTHER)) == f"{moved}: the lock has changed"
    for damaged in (b"", b"[]", b"{", b"[" * 100_000, b'{"lock": 1}'):
        image_record_path(path).write_bytes(damaged)
        assert write_image_record(path, made) == "pylock.a.image.json was no record of an image and is replaced"
    write_image_record(path, RECORDED)
    other = msgspec.structs.replace(RECORDED, layers=(OTHER,), sizes=(7,))
    named = "pylock.a.image.json had other layers and sizes than the image that it names, and is replaced"
    assert write_image_record(path, other) == named
    image_record_path(path).unlink()
    os.mkfifo(image_record_path(path))
    assert read_image_record(path, LOCK) is None


def test_other_bits_from_the_same_recipe_are_refused(tmp_path: Path) -> None:
    """Same lock, same code, other image: named with both digests. With other code, or nothing recorded, it is news."""
    path = tmp_path / "pylock.a.toml"
    made = msgspec.structs.replace(RECORDED, config=OTHER)
    with pytest.raises(NotReproducibleError) as caught:
        check_reproduced(path, RECORDED, made)
    assert caught.value.message == (
        "the image is not the one recorded in pylock.a.image.json\n"
        f"  recorded  sha256:{CONFIG}\n  built     sha256:{OTHER}"
    )
    check_reproduced(path, RECORDED, RECORDED)
    check_reproduced(path, RECORDED, msgspec.structs.replace(made, recipe="e" * 64))
    check_reproduced(path, None, made)
