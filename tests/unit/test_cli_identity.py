"""Which image a lock stands for, and whether an engine holds it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from envbuild.engine.protocol import ImageInfo
from envbuild.errors import NotReproducibleError
from envbuild.image.identity import (
    check_reproduced,
    identity_path,
    image_tag,
    is_recorded,
    read_identity,
    write_identity,
)
from envbuild.lockfile.model import lock_digest
from tests.support.locks import small_lock

CONFIG, MANIFEST, OTHER = "a" * 64, "b" * 64, "c" * 64
LOCK = small_lock({"a-1.0-py3-none-any.whl": b""})
RECORDED = {
    "config": CONFIG,
    "layout": 1,
    "lock": lock_digest(LOCK),
    "manifest": MANIFEST,
    "recipe": "d" * 64,
    "reference": image_tag(LOCK),
}


@pytest.mark.parametrize(("held", "same"), [(CONFIG, True), (MANIFEST, True), (OTHER, False), ("", False)])
def test_an_image_is_known_by_its_config_or_its_manifest(held: str, same: bool) -> None:
    """Engines name an image by its config's digest; from Docker 28 on, with containerd's store, by its manifest's."""
    assert is_recorded(ImageInfo(config=held, tags=(image_tag(LOCK),), diff_ids=()), RECORDED) is same
    assert not is_recorded(None, RECORDED)


def test_what_is_recorded_is_of_one_lock(tmp_path: Path) -> None:
    """The file beside a lock is believed only if it is whole and of this very lock."""
    path = tmp_path / "pylock.a.toml"
    assert read_identity(path, LOCK) is None
    write_identity(path, RECORDED)
    assert identity_path(path).name == "pylock.a.image.json"
    assert read_identity(path, LOCK) == RECORDED
    assert read_identity(path, msgspec.structs.replace(LOCK, environment={"A": "1"})) is None
    for damaged in (b"", b"[]", b"{", json.dumps({**RECORDED, "manifest": 1}).encode()):
        identity_path(path).write_bytes(damaged)
        assert read_identity(path, LOCK) is None


def test_other_bits_from_the_same_recipe_are_refused(tmp_path: Path) -> None:
    """Same lock, same code, other image: named with both digests. With other code, or nothing recorded, it is news."""
    path = tmp_path / "pylock.a.toml"
    made = {**RECORDED, "config": OTHER}
    with pytest.raises(NotReproducibleError) as caught:
        check_reproduced(path, RECORDED, made)
    assert caught.value.message == (
        "the image is not the one recorded in pylock.a.image.json\n"
        f"  recorded  sha256:{CONFIG}\n  built     sha256:{OTHER}"
    )
    check_reproduced(path, RECORDED, RECORDED)
    check_reproduced(path, RECORDED, {**made, "recipe": "e" * 64})
    check_reproduced(path, None, made)
