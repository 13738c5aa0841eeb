"""Which image starts: the one that was checked, by its identity."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from envbuild.core.blob import Blob
from envbuild.core.digest import sha256_bytes
from envbuild.engine.protocol import Engine, ImageInfo
from envbuild.errors import EngineError, IntegrityError
from envbuild.image.record import ImageRecord, write_image_record
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice, Hardware
from envbuild.operations import pull, run
from envbuild.operations.load_lock import LoadedLock
from envbuild.operations.run import AS_LOCKED, RunOptions, image_identity
from envbuild.registry.image import RemoteLayer
from envbuild.runs import container
from envbuild.store.objects import Store
from tests.support.events import Recorded
from tests.support.image_records import image_record
from tests.support.locks import small_lock


class OneImage:
    """Has one image under every name."""

    def __init__(self, config: str) -> None:
        self.config = config

    def find_image(self, reference: str) -> ImageInfo | None:
        return ImageInfo(config=self.config, tags=(), diff_ids=()) if self.config else None


def engine(config: str) -> Engine:
    return cast("Engine", OneImage(config))


def test_the_image_that_was_checked_starts() -> None:
    """It is named by its identity in the engine; one that took its tag meanwhile does not start."""
    recorded = image_record(small_lock())
    assert image_identity(engine(recorded.config), recorded) == f"sha256:{recorded.config}"
    assert image_identity(engine(recorded.manifest), recorded) == f"sha256:{recorded.manifest}"
    for other in ("f" * 64, ""):
        with pytest.raises(EngineError, match="was removed or replaced after it was checked"):
            image_identity(engine(other), recorded)


def test_a_required_signature_is_not_settled_by_what_the_engine_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest that is signed states which image it is; the file next to the lock might name another, too."""
    lock = small_lock()
    path = tmp_path / lock.file_name
    path.write_bytes(locks.dumps(lock))
    (tmp_path / "key.pub").write_text("-----BEGIN PUBLIC KEY-----")
    recorded = image_record(lock)
    write_image_record(path, recorded)
    asked: list[Any] = []

    def pulled(loaded: LoadedLock, reference: Any, engine: Any, events: Any, who: Any = None) -> ImageRecord:
        asked.append(who)
        return recorded

    monkeypatch.setattr(pull, "pulled", pulled)
    text, loaded = f"r.example/i@sha256:{recorded.manifest}", LoadedLock(path=path, lock=lock, spec_path=None)
    assert pull.image_for_run(text, loaded, engine(recorded.config), Recorded()) == (recorded, "")
    assert not asked
    key = str(tmp_path / "key.pub")
    pull.image_for_run(text, loaded, engine(recorded.config), Recorded(), require_signature=key)
    assert [str(who) for who in asked] == [key]


def _compressed(store: Store, data: bytes) -> RemoteLayer:
    """A layer as a registry gives it with gzip, its blob in the store."""
    packed = gzip.compress(data)
    blob = Blob(digest=sha256_bytes(packed), size=len(packed), media_type="application/vnd.oci.image.layer.v1.tar+gzip")
    with store.writer(blob.digest, name="blob") as part:
        part.write(packed)
    return RemoteLayer(blob=blob, diff_id=sha256_bytes(data), title="")


def test_a_compressed_layer_is_unpacked_to_its_recorded_size(tmp_path: Path) -> None:
    """The registry decides what a blob holds: not a byte more than recorded is written, whatever its digest."""
    store = Store(tmp_path / "store")
    layer = _compressed(store, bytes(5000))
    for size, message in ((4999, "holds more than 4999 bytes"), (None, "its size is not recorded")):
        with pytest.raises(IntegrityError, match=message):
            pull.unpack(layer, store, size)
        assert not store.has(layer.diff_id)
    pull.unpack(layer, store, 5000)
    assert store.has(layer.diff_id, 5000)
    assert not store.has(layer.blob.digest)


@pytest.mark.parametrize(
    ("optional", "missing", "gpus", "allowed"),
    [
        (True, True, AS_LOCKED, ("gpu",)),
        (True, False, AS_LOCKED, ()),
        (True, False, None, ("gpu",)),
        (False, True, AS_LOCKED, ()),
        (False, False, None, ()),
    ],
)
def test_a_run_does_without_an_optional_gpu(
    monkeypatch: pytest.MonkeyPatch, optional: bool, missing: bool, gpus: Any, allowed: tuple[str, ...]
) -> None:
    """Where there is none, or none is wanted, the guard allows that, a note names it, and nothing else is allowed."""
    monkeypatch.setattr(container, "wants_missing_gpus", lambda lock, engine: missing)
    lock = small_lock()
    hardware = Hardware(gpu=Gpu(devices=(GpuDevice(),)), gpu_optional=optional)
    lock = msgspec.structs.replace(lock, hardware=hardware)
    events = Recorded()
    options = RunOptions(command=("t.py",), gpus=gpus)
    assert run._allowed(lock, options, engine(""), events) == allowed
    assert len(events.events) == len(allowed)
