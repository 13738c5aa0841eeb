"""A step runner without an engine: it runs the compile step's script in a folder, under this interpreter."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.engine.protocol import Step
from envbuild.image.bytecode import compile as compile_module
from envbuild.image.tar.layer import Entry, Layer, LayerWriter
from tests.support.unpacking import unpack


class LocalSteps:
    """Runs compile steps below ``folder``, in this process or (``fresh``) as the real step does; counts them."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self.fresh = fresh
        self.steps: list[Step] = []

    @contextmanager
    def run_step(self, step: Step) -> Iterator[BinaryIO]:
        """Unpack the inputs, compile, and give the results as docker cp does."""
        self.steps.append(step)
        root = self.folder / f"step{len(self.steps)}"
        root.mkdir(parents=True)
        assert step.inputs is not None
        with tarfile.open(step.inputs) as tar:
            unpack(tar, root)
        sources, results = root / "build/in", root / "build/out"
        if self.fresh:
            script = str(root / "build/compile.py")
            command = [sys.executable, *compile_module.FLAGS, script, str(sources), "--archive", str(results)]
            subprocess.run(command, check=True, env=dict(step.environment))
        else:
            results.mkdir()
            for group in sources.iterdir():
                compile_module.compile_tree(str(group), str(results / f"{group.name}.tar"))
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(results, "out")
        shutil.rmtree(root)
        buffer.seek(0)
        yield cast(BinaryIO, buffer)


def write_os_layer(path: Path, stream: BinaryIO | None = None) -> Layer:
    """Write a stand-in for the OS layer to a stream, or to a path: one folder."""
    with nullcontext(stream) if stream else path.open("wb") as output, LayerWriter(output) as writer:
        writer.add(Entry(path="etc", kind="dir", mode=0o755))
    return writer.layer()
