"""Loading: parts go ahead as layers become ready; a recorded image goes ahead as a whole, its layers as they grow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.blob import FileBlob
from envbuild.core.progress import Progress, Silent
from envbuild.engine.protocol import Delivered, Parcel
from envbuild.errors import BuildError, EngineError
from envbuild.image import delivery
from envbuild.image.delivery import Loading
from envbuild.image.layer_cache import KIND, TAR
from envbuild.image.oci import layout
from envbuild.image.plan.layer_order import LayerSpec
from envbuild.image.plan.model import Plan
from envbuild.image.tar.layer import Entry, LayerWriter

DELIVERED = Delivered(how="pull", sent=frozenset())


def plan(count: int = 3) -> Plan:
    """A plan of so many layers, with keys ``0`` …"""
    return Plan(
        name="t",
        lock="0" * 64,
        layout=1,
        python="3.11",
        executable="/usr/bin/python3.11",
        interpreter="1" * 64,
        layers=tuple(LayerSpec(kind="wheel", title=f"layer {index}", key=str(index)) for index in range(count)),
        platform={"os": "linux", "architecture": "amd64"},
        config={},
        labels={},
    )


def blobs(folder: Path, count: int = 3) -> list[FileBlob]:
    """Layers holding one empty folder each."""
    made = []
    for index in range(count):
        path = folder / f"{index}.tar"
        with path.open("wb") as stream, LayerWriter(stream) as writer:
            writer.add(Entry(path=f"d{index}", kind="dir", mode=0o755))
        made.append(FileBlob(digest=writer.digest, size=writer.size, path=path))
    return made


class FakeEngine:
    """Takes parcels one by one, each when the test allows it."""

    def __init__(self, then: Callable[[Progress], None] = lambda progress: None) -> None:
        self.parcels: list[Parcel] = []
        self.got = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.ended: BaseException | None = None
        self._then = then

    def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
        """Keep parcels."""
        try:
            for parcel in parcels:
                self.parcels.append(parcel)
                self.got.release()
                assert self.go.acquire(timeout=60)
            self._then(progress)
        except BaseException as error:
            self.ended = error
            raise
        return DELIVERED


def begin(engine: Any, expected: Any = None) -> Loading:
    return Loading(engine, "t:1", plan(), Silent(), expected)


def test_parts_go_ahead_once_they_are_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there goes ahead; the whole comes last, with the layer that only the uppermost was missing above."""
    made, engine = blobs(tmp_path), FakeEngine()
    monkeypatch.setattr(delivery, "_WORTH", made[0].size)
    with begin(engine) as load:
        load.ready(0, made[0])
        assert engine.got.acquire(timeout=60)
        engine.go.release(3)
        load.ready(1, made[1])
        load.ready(2, made[2])
        whole = layout.image(plan(), made)
        assert load.finish(whole) is DELIVERED
    digests = [[layer.digest for layer in parcel.layers] for parcel in engine.parcels]
    expected = [blob.digest for blob in made]
    assert digests == [expected[:1], expected]
    assert engine.parcels[-1].manifest == whole.manifest
    assert engine.parcels[-1].layers[2].file() == (made[2].path, True)


@pytest.mark.parametrize(("worth", "first"), [(1, 1), (1 << 30, 0)])
def test_layers_wait_for_those_below_and_for_their_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worth: int, first: int
) -> None:
    """A layer above a missing one goes later, and so does one that is too small: then all go together."""
    made, engine = blobs(tmp_path), FakeEngine()
    monkeypatch.setattr(delivery, "_WORTH", worth)
    with begin(engine) as load:
        load.ready(first, made[first])
        assert not engine.got.acquire(timeout=0.2)
        load.ready(1 - first, made[1 - first])
        load.ready(2, made[2])
        engine.go.release()
        assert load.finish(layout.image(plan(), made)) is DELIVERED
    assert [len(parcel.layers) for parcel in engine.parcels] == [3]


def test_a_recorded_image_goes_ahead_as_a_whole(tmp_path: Path) -> None:
    """Its manifest is known before a layer is; a layer's file is reported when it is begun, and when it is whole."""
    made, engine, cache = blobs(tmp_path), FakeEngine(), FakeCache(tmp_path)
    with begin(engine, made) as load:
        assert engine.got.acquire(timeout=60)
        whole = layout.image(plan(), made)
        assert engine.parcels[0].manifest == whole.manifest
        file = engine.parcels[0].layers[1].file
        assert file() is None
        seen = []
        load.watching(cache).derive("bytecode", "1", lambda folder: seen.append(file()))
        load.watching(cache).derive(KIND, "1", lambda folder: seen.append(file()))
        assert seen == [None, (tmp_path / "fresh" / TAR, False)]
        load.ready(1, made[1])
        assert file() == (made[1].path, True)
        engine.go.release(2)
        assert load.finish(whole) is DELIVERED
    assert [parcel.manifest for parcel in engine.parcels] == [whole.manifest] * 2


def test_giving_up_ends_the_delivery(tmp_path: Path) -> None:
    """If the assembly fails, the engine's wait for the next parcel ends with an error, and so does its work."""

    def work(progress: Progress) -> None:
        with progress.phase("load", 10) as advance:
            while True:
                advance(0)

    made = blobs(tmp_path)
    for engine, whole in ((FakeEngine(), None), (FakeEngine(work), layout.image(plan(), made))):
        load = begin(engine)
        with suppress(KeyboardInterrupt), load:
            if whole is not None:
                load._image = whole
                load.ready(0, made[0])
                engine.go.release()
            raise KeyboardInterrupt
        assert type(engine.ended).__name__ == "_GivenUpError"
        assert not load._thread.is_alive()


def test_an_engine_that_waits_for_a_layer_gets_none_of_a_failed_assembly(tmp_path: Path) -> None:
    """A recorded image is promised as a whole; the command waited forever for the engine, which waited for a layer."""

    class Waiting(FakeEngine):
        def deliver(self, parcels: Iterator[Parcel], tag: str, progress: Progress) -> Delivered:
            try:
                for parcel in parcels:
                    self.got.release()
                    while parcel.layers[0].file() is None:
                        time.sleep(0.01)
            except BaseException as error:
                self.ended = error
                raise
            return DELIVERED

    engine = Waiting()
    load = begin(engine, blobs(tmp_path))
    with suppress(KeyboardInterrupt), load:
        assert engine.got.acquire(timeout=60)
        raise KeyboardInterrupt
    assert type(engine.ended).__name__ == "_GivenUpError"
    assert not load._thread.is_alive()


def test_what_the_engine_refused_is_reported_with_its_cause(tmp_path: Path) -> None:
    """A damaged layer file is named; if all are sound, the engine's own words are passed on."""

    def refuse(progress: Progress) -> None:
        raise EngineError("cannot pull: digest mismatch")

    made = blobs(tmp_path)
    for damaged in (False, True):
        engine = FakeEngine(refuse)
        engine.go.release(2)
        if damaged:
            made[1].path.write_bytes(b"x" * made[1].size)
        with pytest.raises(BuildError if damaged else EngineError) as caught, begin(engine) as load:
            load.finish(layout.image(plan(), made))
        text = f"{made[1].path} is not as it was made: expected sha256 {made[1].digest}"
        assert caught.value.message == (text if damaged else "cannot pull: digest mismatch")


class FakeCache:
    """Makes everything anew in one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, sha256: str) -> Path:
        """Not needed."""
        raise NotImplementedError

    def derived(self, kind: str, key: str) -> Path | None:
        """Nothing was made."""
        return None

    def derive(self, kind: str, key: str, make: Callable[[Path], None]) -> Path:
        """Make it."""
        make(self._root / "fresh")
        return self._root

    def forget(self, kind: str, key: str) -> None:
        """Not needed."""
