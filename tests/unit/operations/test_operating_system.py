"""Base images through an engine: what is locked, what is refused, and how often the engine is asked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from envbuild.engine.protocol import ImageInfo
from envbuild.errors import EngineError, IntegrityError, ResolveError
from envbuild.operations.events import Silent
from envbuild.operations.operating_system import fetch_base_image, lock_base
from envbuild.spec.model import Os, Spec
from envbuild.store.objects import Store
from tests.support.base import GLIBC, base_tar

DIGEST = f"sha256:{'a' * 64}"
IMAGE = f"registry.example.invalid:5000/team/base:1@{DIGEST}"
BARE = f"registry.example.invalid:5000/team/base@{DIGEST}"
FILES: dict[str, bytes | str] = {
    "etc/os-release": "ID=debian\nVERSION_ID=12\n",
    "usr/bin/python3.11": "x",
    "usr/lib/x86_64-linux-gnu/libc.so.6": GLIBC,
}
QUIET = Silent()


class FakeEngine:
    """Holds one image, or gets it when it is pulled; remembers what it was asked."""

    def __init__(
        self, files: dict[str, bytes | str] | None = None, architecture: str = "amd64", *, held: bool = False
    ) -> None:
        self.files = FILES if files is None else files
        self.architecture = architecture
        self.held = held
        self.environment: dict[str, str] = {}
        self.refuses = ""
        self.asked: list[str] = []

    def __call__(self) -> FakeEngine:
        """Be found."""
        return self

    def find_image(self, reference: str) -> ImageInfo | None:
        """Give the image if it is here."""
        if not self.held or reference != BARE:
            return None
        return ImageInfo(config="", tags=(), diff_ids=(), architecture=self.architecture, environment=self.environment)

    def pull_image(self, reference: str, architecture: str) -> None:
        """Have the image from now on."""
        self.asked.append(f"pull {reference} {architecture}")
        if self.refuses:
            raise EngineError(f"cannot pull {reference}: {self.refuses}")
        self.held = True

    @contextmanager
    def export_image(self, reference: str, architecture: str) -> Iterator[BinaryIO]:
        """Give the files."""
        self.asked.append(f"export {reference} {architecture}")
        yield io.BytesIO(base_tar(self.files))


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def spec(python: str = "", architecture: str = "amd64") -> Spec:
    return Spec(name="t", os=Os(image=IMAGE, architecture=architecture), python=python)


def refusal(store: Store, engine: FakeEngine, wanted: Spec) -> tuple[str, str]:
    with pytest.raises(ResolveError) as caught:
        lock_base(wanted, store, QUIET, engine)
    return caught.value.message, caught.value.hint


def test_the_engine_is_asked_once(store: Store) -> None:
    """Pulled without the tag, exported, kept: the second lock is the same and asks nothing."""
    engine = FakeEngine()
    first = lock_base(spec(), store, QUIET, engine)
    assert engine.asked == [f"pull {BARE} amd64", f"export {BARE} amd64"]
    assert lock_base(spec(), store, QUIET, engine) == first
    assert len(engine.asked) == 2
    assert first.os.image == IMAGE
    assert store.path(first.os.image_rootfs).stat().st_size == first.os.image_size
    assert first.python.platform == "manylinux_2_36_x86_64"


def test_a_held_image_is_not_pulled(store: Store) -> None:
    """An engine that has the image needs no registry."""
    engine = FakeEngine(held=True)
    lock_base(spec(), store, QUIET, engine)
    assert engine.asked == [f"export {BARE} amd64"]


def test_a_file_system_removed_from_the_store_comes_back(store: Store) -> None:
    """A user who cleans the store loses time only."""
    engine = FakeEngine()
    first = lock_base(spec(), store, QUIET, engine)
    store.path(first.os.image_rootfs).unlink()
    fetch_base_image(first.os, store, QUIET, engine, offline=False)
    assert store.has(first.os.image_rootfs, first.os.image_size)


def test_what_the_image_exports_is_the_locks_but_for_what_is_ours(store: Store) -> None:
    """The image's variables are locked; paths, what the spec decides and what cannot be written are not."""
    engine = FakeEngine()
    engine.environment = {
        "LD_LIBRARY_PATH": "/usr/local/nvidia/lib",
        "PATH": "/x",
        "PYTHONPATH": "/x",
        "PYTHONHASHSEED": "1",
        "LD_PRELOAD": "/x",
        "HOME": "/root",
        "MULTI": "a\nb",
        "not-a-name": "x",
    }
    assert lock_base(spec(), store, QUIET, engine).environment == {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib"}


@pytest.mark.parametrize(
    ("has", "wants", "message", "hint"),
    [
        (["3.9", "3.12"], "", "has Python 3.9, 3.12, and the spec does not name one", 'python: "3.9"'),
        (["3.12"], "3.11", "has Python 3.12, not 3.11", 'python: "3.12"'),
        ([], "3.11", "has no Python in /usr/local/bin, /usr/bin, /bin or /opt/*/bin", "os: debian-12"),
    ],
)
def test_the_python_must_be_there_and_clear(has: list[str], wants: str, message: str, hint: str, store: Store) -> None:
    """The error states what the image has, and what to write."""
    files = {**{f"usr/bin/python{version}": "x" for version in has}, "usr/lib64/libc.so.6": GLIBC}
    found = refusal(store, FakeEngine(files), spec(wants))
    assert found[0] == f"python: {IMAGE} {message}"
    assert found[1].endswith(hint)


def test_another_architecture_is_refused(store: Store) -> None:
    """The digest may name one image of one architecture; it is no use for another."""
    assert refusal(store, FakeEngine(architecture="arm64"), spec()) == (
        f"os.image: {BARE}: expected an image for amd64, found arm64",
        "use the digest of its image for amd64",
    )


def test_the_registrys_refusal_is_passed_on(store: Store) -> None:
    """What the engine states, and what to check."""
    engine = FakeEngine()
    engine.refuses = "manifest unknown"
    assert refusal(store, engine, spec()) == (
        f"os.image: cannot pull {BARE}: manifest unknown",
        f"check the digest, and that the engine may read that registry: docker pull {BARE}",
    )


def test_musl_is_refused(store: Store) -> None:
    """No wheel of a lock would load there."""
    assert refusal(store, FakeEngine({"usr/bin/python3.11": "x"}), spec())[0] == (
        f"os.image: {IMAGE} has no GNU C library, which manylinux wheels need"
    )


def test_an_image_that_envbuild_built_is_no_base(store: Store) -> None:
    """Its environment would shine through into the new one."""
    assert refusal(store, FakeEngine({**FILES, "opt/env/x": "x", "opt/envbuild/x": "x"}), spec())[0] == (
        f"os.image: {IMAGE} has /opt/env and /opt/envbuild already, which envbuild makes"
    )


def test_other_bytes_than_locked_are_refused(store: Store, tmp_path: Path) -> None:
    """A build never continues with another file system."""
    locked = lock_base(spec(), store, QUIET, FakeEngine()).os
    engine = FakeEngine({**FILES, "etc/x": "other"})
    with pytest.raises(
        IntegrityError, match=rf"^the file system of {IMAGE} is not the one locked\n  expected  sha256:"
    ):
        fetch_base_image(locked, Store(tmp_path / "other"), QUIET, engine, offline=False)


def test_offline_nothing_is_pulled(store: Store, tmp_path: Path) -> None:
    """Without network an engine may give what it has, and no more."""
    locked = lock_base(spec(), store, QUIET, FakeEngine()).os
    empty = FakeEngine()
    with pytest.raises(IntegrityError) as caught:
        fetch_base_image(locked, Store(tmp_path / "other"), QUIET, empty, offline=True)
    assert caught.value.message == f"neither store nor engine has {BARE}"
    assert empty.asked == []
    fetch_base_image(locked, Store(tmp_path / "other"), QUIET, FakeEngine(held=True), offline=True)
    assert Store(tmp_path / "other").has(locked.image_rootfs)
