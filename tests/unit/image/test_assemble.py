"""Assembly without an engine: identity, reuse, faults."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import pytest

from envbuild.core.digest import sha256_file
from envbuild.core.fs import boot_id
from envbuild.core.progress import Silent
from envbuild.engine.local.trees import Trees
from envbuild.engine.protocol import FinishedTree, FoundEntry, TreeStep
from envbuild.errors import BuildError, EngineError
from envbuild.image import assemble as module
from envbuild.image import runtime_layer as runtime_layer_module
from envbuild.image.assemble import Built, Objects, assemble
from envbuild.image.bytecode.compile import LIST, compile_tree
from envbuild.image.bytecode.interpreter import Interpreter
from envbuild.image.plan.model import plan
from envbuild.image.python.wheel import record_digest
from envbuild.image.tar.layer import Layer
from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock
from envbuild.store.objects import Store
from tests.support.locks import small_lock
from tests.support.steps import LocalSteps, write_os_layer
from tests.support.unpacking import unpack
from tests.support.wheels import Member, wheel_bytes

BIG = {"big/__init__.py": "x = 1\n", "big/data.bin": bytes(range(256)) * (layout.LARGE_WHEEL // 256 + 1)}
ELF = b"\x7fELF"
TOOL = {"console_scripts": {"tool": "tool:main"}}
WHEELS = {
    "big-1.0-py3-none-any.whl": wheel_bytes("big", files=BIG, compression=zipfile.ZIP_STORED),
    "tool-2.0-py3-none-any.whl": wheel_bytes("tool", "2.0", {"tool.py": "def main(): return 0\n"}, entry_points=TOOL),
    "zed-1.0-py3-none-any.whl": wheel_bytes("zed", files={"zed.py": "names = {'a', 'b'}\n"}),
}


def build(folder: Path, wheels: dict[str, bytes] | None = None, **changes: Any) -> tuple[Built, LocalSteps]:
    """Assemble a lock over wheels, with the store in ``folder``."""
    wheels = WHEELS if wheels is None else wheels
    lock: Lock = msgspec.structs.replace(small_lock(wheels), **changes.pop("lock", {}))
    store = Store(folder / "store")
    for data in wheels.values():
        store.add_bytes(data)
    steps = LocalSteps(folder / "steps")
    arguments: dict[str, Any] = {
        "cache": store,
        "runner": steps,
        "build_os": write_os_layer,
        "progress": Silent(),
        **changes,
    }
    return assemble(plan(lock), lock, **arguments), steps


def test_identity_is_a_function_of_the_lock(tmp_path: Path) -> None:
    """Two stores, another umask, another order of packages: one config digest, one manifest digest."""
    first, _ = build(tmp_path / "a")
    before = os.umask(0o077)
    try:
        second, _ = build(tmp_path / "b")
    finally:
        os.umask(before)
    assert first.image.config == second.image.config
    assert first.image.manifest == second.image.manifest
    assert [layer.blob.digest for layer in first.layers] == [layer.blob.digest for layer in second.layers]


@pytest.mark.parametrize("unpacked", [False, True])
def test_files_that_were_changed_after_record(tmp_path: Path, trees: Trees, unpacked: bool) -> None:
    """RECORD in the image has their hashes, and every build names them, also one that reuses the layer."""
    record = f"odd.py,sha256={'A' * 43},6\nodd-1.0.dist-info/RECORD,,\n"
    name = "odd-1.0-py3-none-any.whl"
    wheels = {**WHEELS, name: wheel_bytes("odd", files={"odd.py": "x = 1\n"}, record=record)}
    for _ in range(2):
        built, _ = build(tmp_path, wheels, trees=trees, unpacked=unpacked)
        assert built.changed == {name: ["odd.py"]}
    (layer,) = (layer for layer in built.layers if layer.kind == "environment")
    path = "opt/env/lib/python3.11/site-packages/odd-1.0.dist-info/RECORD"
    if unpacked:
        text = (trees.path(layer.blob.digest) / path).read_text()
    else:
        with tarfile.open(layer.blob.path) as tar:
            text = cast(BinaryIO, tar.extractfile(path)).read().decode()
    assert f"odd.py,sha256={record_digest(hashlib.sha256(b'x = 1' + bytes([10])).digest())},6\n" in text


def test_what_was_made_is_reused(tmp_path: Path) -> None:
    """The second build makes nothing and runs no step; a changed small wheel leaves the large ones alone."""
    first, steps = build(tmp_path)
    assert len(steps.steps) == 1
    assert not any(layer.reused for layer in first.layers)

    def never(path: Path, stream: BinaryIO | None) -> Layer:
        raise AssertionError(path)

    second, steps = build(tmp_path, build_os=never)
    assert second.image == first.image
    assert steps.steps == []
    assert {layer.kind for layer in second.layers if not layer.reused} == {"runtime"}
    changed = {**WHEELS, "zed-1.1-py3-none-any.whl": wheel_bytes("zed", "1.1", files={"zed.py": "names = {'c'}\n"})}
    del changed["zed-1.0-py3-none-any.whl"]
    third, steps = build(tmp_path, changed, build_os=never)
    assert len(steps.steps) == 1
    assert [(layer.title, layer.reused) for layer in third.layers] == [
        ("big 1.0", True),
        ("bytecode of wheels from 4 MiB", True),
        ("debian-12, 0 packages", True),
        ("Python 3.11 environment, 2 small wheels", False),
        ("bytecode of small wheels", False),
        ("guard and lock", False),
    ]


def test_only_what_is_new_is_compiled(tmp_path: Path) -> None:
    """Bytecode is kept by wheel: a wheel that moves between layers is not compiled again."""
    build(tmp_path)
    inputs: list[list[str]] = []

    class Listing(LocalSteps):
        def run_step(self, step: Any) -> Any:
            with tarfile.open(step.inputs) as tar:
                inputs.append([name for name in tar.getnames() if name.endswith(".py") and "/in/" in name])
            return super().run_step(step)

    more = {**WHEELS, "new-1.0-py3-none-any.whl": wheel_bytes("new", files={"new.py": "n = 1\n"})}
    build(tmp_path, more, runner=Listing(tmp_path / "steps"))
    assert inputs == [["build/in/0000/opt/env/lib/python3.11/site-packages/new.py"]]


def test_the_runtime_has_bytecode_and_the_workspace(tmp_path: Path) -> None:
    """The top layer holds guard, lock, bytecode of both, and the folder that the image starts in."""
    built, _ = build(tmp_path)
    with tarfile.open(built.image.layers[-1].path) as tar:
        names = set(tar.getnames())
    assert {"workspace", layout.LOCK_PATH.lstrip("/"), layout.EXPECT_PATH.lstrip("/")} <= names
    assert any(name.startswith("opt/envbuild/lib/") and name.endswith(".pyc") for name in names)


def test_conflicts_across_layers_are_reported(tmp_path: Path) -> None:
    """A file that a large and a small wheel ship with different content is named with loser and winner."""
    wheels = {**WHEELS, "y-1.0-py3-none-any.whl": wheel_bytes("y", files={"big/__init__.py": "x = 2\n"})}
    built, _ = build(tmp_path, wheels)
    path = "opt/env/lib/python3.11/site-packages/big/__init__.py"
    assert built.replaced == {path: ("big-1.0-py3-none-any.whl", "y-1.0-py3-none-any.whl")}


def test_the_check_is_asked_once(tmp_path: Path) -> None:
    """It sees the OS layer, all wheels and where they are unpacked; once passed it is not asked again."""
    seen: list[tuple[list[str], int]] = []

    def check(os_files: Iterable[str], wheels: Sequence[Path], objects: Objects) -> None:
        assert {f"{path.parent.name}{path.name}" for path in wheels} == set(objects)
        places = [place for each in objects.values() for place in each.values()]
        assert all(path.read_bytes()[offset : offset + 4] == ELF for path, offset, _ in places)
        assert ["lib.so"] in [[*each] for each in objects.values()]
        seen.append((list(os_files), len([path for path in wheels if path.exists()])))

    wheels = {**WHEELS, "elf-1.0-py3-none-any.whl": wheel_bytes("elf", files={"lib.so": ELF + bytes(90)})}
    build(tmp_path, wheels, check=check)
    build(tmp_path, wheels, check=check)
    assert seen == [([], 4)]
    trees = Trees(tmp_path / "trees", lambda diff_id: None, boot_id())
    build(tmp_path / "fresh", wheels, check=check, trees=trees, unpacked=True)
    assert seen == [([], 4)] * 2


def test_a_failed_check_fails_again(tmp_path: Path) -> None:
    """What a check refused is refused by the next build too, though the layers are kept."""

    def check(os_files: Iterable[str], wheels: Sequence[Path], objects: Objects) -> None:
        raise BuildError("libfoo is missing")

    for _ in range(2):
        with pytest.raises(BuildError, match="libfoo is missing"):
            build(tmp_path, check=check)


def test_compiling_ends_with_the_build(tmp_path: Path) -> None:
    """An OS layer that fails ends the concurrent step, and is the error reported; the base is the interpreter's."""
    bases: list[str] = []
    begun = threading.Event()

    class Waiting(LocalSteps):
        def run_step(self, step: Any) -> Any:
            bases.append(step.base_key)
            assert step.base.read_bytes() == b"interpreter"
            begun.set()
            assert step.unwanted.wait(60)
            raise BuildError("ended")

    def fails(path: Path, stream: BinaryIO | None) -> Layer:
        assert begun.wait(60)
        raise EngineError("no engine")

    interpreter = Interpreter(
        key="a" * 64,
        write=lambda path: path.write_bytes(b"interpreter") and None,
        fill=lambda output: output.write(b"interpreter") and None,
    )
    with pytest.raises(EngineError, match="no engine"):
        build(tmp_path, runner=Waiting(tmp_path / "steps"), build_os=fails, interpreter=interpreter)
    assert bases == ["python-" + "a" * 64]


class _Place:
    """Runs a compile step in a folder of this machine; ``seeing``: its wheels are seen there."""

    def __init__(self, folder: Path, *, seeing: bool = False) -> None:
        self.folder = folder
        self.seeing = seeing
        self.read: list[str] = []

    def shows(self, file: Path) -> bool:
        return self.seeing and file.is_file()

    @contextmanager
    def run_tree_step(self, step: TreeStep) -> Iterator[FinishedTree]:
        stream = io.BytesIO()
        step.fill(stream)
        stream.write(bytes(1024))
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            unpack(tar, self.folder)
        (self.folder / "build/out").mkdir()
        found = []
        for group in sorted((self.folder / "build/in").iterdir()):
            self.read.append(group.name)
            if group.suffix == LIST:
                place, _, rest = group.read_bytes().partition(b"\n")
                wheel = step.files[place.decode().removeprefix(f"{step.folder}/")]
                group.write_bytes(b"\n".join([str(wheel).encode(), rest]))
            path = f"build/out/{group.name.removesuffix(LIST)}.tar"
            compile_tree(str(group), str(self.folder / path))
            size = (self.folder / path).stat().st_size
            found.append(FoundEntry(path=path, kind="file", mode=0o644, uid=0, gid=0, size=size))
        yield FinishedTree(root=self.folder, entries=iter(found))


@pytest.mark.parametrize("many", [False, True])
def test_what_is_compiled_comes_before_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool) -> None:
    """On this machine the OS layer's seed and what is compiled are packed before any wheel; the image is equal.

    Of wheels that are more work than all else, each begins at once.
    """
    events: list[str] = []
    filled, begun = threading.Event(), threading.Event()
    wheels, sources = module.pack_wheels, module.pack_sources

    def pack_wheels(*arguments: Any, **named: Any) -> Any:
        events.append("wheel")
        begun.set()
        return wheels(*arguments, **named)

    def pack_sources(*arguments: Any, **named: Any) -> None:
        sources(*arguments, **named)
        events.append("modules")

    def build_os(path: Path, stream: BinaryIO | None) -> Layer:
        assert not many or begun.wait(60)
        events.append("seed")
        filled.set()
        return write_os_layer(path, stream)

    monkeypatch.setattr(module, "pack_wheels", pack_wheels)
    monkeypatch.setattr(module, "pack_sources", pack_sources)
    if many:
        monkeypatch.setattr(module, "_MANY", 0)
    interpreter = Interpreter(key="a" * 64, write=Path.touch, fill=lambda output: None)
    place = _Place(tmp_path / "place")
    built, steps = build(tmp_path, build_os=build_os, interpreter=interpreter, place=lambda: place, configuring=filled)
    assert sorted(events) == ["modules", "seed", "wheel", "wheel"]
    assert events.index("seed") < events.index("modules")
    assert events[0] == "wheel" if many else events[2:] == ["wheel", "wheel"]
    assert steps.steps == []
    assert built.image.config == build(tmp_path / "other")[0].image.config


def test_modules_are_read_from_wheels_that_a_step_sees(tmp_path: Path) -> None:
    """Lists of them replace what they hold; the image is equal."""
    interpreter = Interpreter(key="a" * 64, write=Path.touch, fill=lambda output: None)
    images = []
    for seeing in (False, True):
        place = _Place(tmp_path / f"place-{seeing}", seeing=seeing)
        changes: dict[str, Any] = {"interpreter": interpreter, "place": partial(_same, place)}
        images.append(build(tmp_path / f"{seeing}", **changes)[0].image.config)
        assert [name.endswith(LIST) for name in place.read] == [seeing] * 3 + [False]
    assert images[0] == images[1] == build(tmp_path / "other")[0].image.config


def _same(place: _Place) -> _Place:
    return place


@pytest.mark.parametrize("part", ["fill", "step", "system"])
def test_wheels_do_not_wait_for_a_step_that_fails(tmp_path: Path, part: str) -> None:
    """Whatever fails before the inputs are packed, the build ends with that error."""
    filled = threading.Event()

    def fail(*_: Any) -> Any:
        raise BuildError(part)

    class Refusing(_Place):
        def run_tree_step(self, step: TreeStep) -> Any:
            return fail() if part == "step" else super().run_tree_step(step)

    def build_os(path: Path, stream: BinaryIO | None) -> Layer:
        return fail() if part == "system" else write_os_layer(path, stream)

    interpreter = Interpreter(key="a" * 64, write=Path.touch, fill=fail if part == "fill" else lambda output: None)
    place = Refusing(tmp_path / "place")
    with pytest.raises(BuildError, match=part):
        build(tmp_path, build_os=build_os, interpreter=interpreter, place=lambda: place, configuring=filled)


def _hostile() -> dict[str, bytes]:
    return {**WHEELS, "bad-1.0-py3-none-any.whl": wheel_bytes("bad", members=[Member(name="../x")])}


def _engineless(path: Path, stream: BinaryIO | None) -> Layer:
    raise EngineError("no engine")


@pytest.mark.parametrize(
    ("wheels", "changes", "error", "message"),
    [
        (_hostile(), {}, BuildError, "bad-1.0-py3-none-any.whl: '../x': the name is not a plain relative path"),
        (WHEELS, {"build_os": _engineless}, EngineError, "no engine"),
    ],
)
def test_faults_end_the_build(
    tmp_path: Path, wheels: dict[str, bytes], changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The cause is reported, no thread continues, nothing half-made stays, and the next build works."""
    with pytest.raises(error) as caught:
        build(tmp_path, wheels, **changes)
    assert str(caught.value) == message
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith(("assemble", "layer"))] == []
    assert list((tmp_path / "store").rglob("*.tmp")) == []
    assert build(tmp_path)[0].image.config == build(tmp_path / "fresh")[0].image.config


@pytest.fixture(name="trees")
def _trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "store/derived/trees", lambda diff_id: None, boot_id())


def test_trees_alone_are_the_same_image(tmp_path: Path, trees: Trees) -> None:
    """A build for the local engine writes no tar; who wants one has the same bytes made of the trees."""
    interpreter = Interpreter(key="a" * 64, write=Path.touch, fill=lambda output: None)
    built, _ = build(tmp_path, trees=trees, unpacked=True, interpreter=interpreter)
    assert list((tmp_path / "store/derived/layers").rglob("*.tar*")) == []
    assert all(trees.find(blob.digest) for blob in built.image.layers)
    again, steps = build(tmp_path, trees=trees, unpacked=True)
    assert again.image == built.image
    assert all(layer.reused for layer in again.layers[:-1])
    tars, _ = build(tmp_path, trees=trees)
    assert steps.steps == []
    assert all(layer.reused for layer in tars.layers[:-1])
    assert [(sha256_file(blob.path), blob.path.stat().st_size) for blob in tars.image.layers] == [
        (blob.digest, blob.size) for blob in built.image.layers
    ]
    assert build(tmp_path / "other")[0].image.config == built.image.config


def test_a_damaged_tree_is_made_again(tmp_path: Path, trees: Trees) -> None:
    """A tar that a tree does not give any more is not given to anybody: the layer is made again."""
    built, _ = build(tmp_path, trees=trees, unpacked=True)
    wheel = trees.path(built.image.layers[0].digest) / "opt/env/lib/python3.11/site-packages/big/data.bin"
    wheel.write_bytes(bytes(wheel.stat().st_size))
    tars, _ = build(tmp_path, trees=trees)
    assert [layer.title for layer in tars.layers if not layer.reused] == ["big 1.0", "guard and lock"]
    assert [sha256_file(blob.path) for blob in tars.image.layers] == [blob.digest for blob in built.image.layers]


def test_after_a_restart_trees_are_read(tmp_path: Path, trees: Trees) -> None:
    """A power cut may have damaged what was not synced: what is sound is used again, what is not is made again."""
    built, _ = build(tmp_path, trees=trees, unpacked=True)
    later = Trees(tmp_path / "store/derived/trees", lambda diff_id: None, "another run of the machine")
    (later.path(built.image.layers[0].digest) / "opt/env/lib/python3.11/site-packages/big/data.bin").unlink()
    again, _ = build(tmp_path, trees=later, unpacked=True)
    assert again.image == built.image
    assert [layer.title for layer in again.layers if not layer.reused] == ["big 1.0", "guard and lock"]
    assert all(later.find(blob.digest) for blob in built.image.layers)


@pytest.mark.parametrize("unpacked", [False, True])
def test_two_builds_at_once(tmp_path: Path, trees: Trees, unpacked: bool) -> None:
    """Builds that share a store do not disturb each other, and end with one image."""
    results: list[Built] = []
    errors: list[BaseException] = []

    def one(number: int) -> None:
        try:
            steps = LocalSteps(tmp_path / f"steps{number}")
            results.append(build(tmp_path, runner=steps, trees=trees, unpacked=unpacked)[0])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len({result.image.config for result in results}) == 1


@pytest.mark.parametrize("version", range(layout.OLDEST, layout.VERSION + 1))
def test_golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Configuration and layers of a tiny image never change by accident, in any layout version.

    ENVBUILD_GOLDEN=write records a new version's; a published one's file is never written again. Bytecode and the
    runtime's own files are left out, as they follow the interpreter and the guard's code.
    """
    monkeypatch.setattr(module, "pack_bytecode", _no_bytecode(module.pack_bytecode))
    monkeypatch.setattr(runtime_layer_module.runtime, "runtime_files", lambda lock: {})
    monkeypatch.setattr(runtime_layer_module, "read_archive", lambda archive: {})
    monkeypatch.setattr("envbuild.image.plan.model.lock_digest", lambda lock: "0" * 64)
    built, _ = build(tmp_path, lock={"layout": version})
    found = {
        "config": json.loads(built.image.config),
        "config_digest": built.image.config_digest,
        "manifest_digest": built.image.manifest_digest,
        "layers": {layer.title: {"diff_id": layer.blob.digest, "size": layer.blob.size} for layer in built.layers},
    }
    golden = Path(__file__).parents[2] / "golden" / f"image-layout-{version}.json"
    if not golden.exists() and os.environ.get("ENVBUILD_GOLDEN") == "write":
        golden.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    assert found == json.loads(golden.read_text())


def _no_bytecode(original: Callable[..., Layer]) -> Callable[..., Layer]:
    return lambda output, archives, label: original(output, [], label)
