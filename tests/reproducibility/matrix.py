"""Runs the cells: one cold build for each engine and variation, each with its own folder and store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from envbuild.engine.docker.images import remove_image
from envbuild.image.compare import Parts, image_differences, report
from tests.reproducibility.engines import Column
from tests.reproducibility.subject import Subject, fill
from tests.reproducibility.variations import NOBODY, Variation

_LAYOUT = "layout"
_LENT = 3_000_000
"""The first of the identities that nobody is lent."""
_LEND = 'mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@"'


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """What one build gave.

    Attributes:
        config: the image's config digest; empty if the build failed or was not tried.
        identity: what the engine calls the image; without an engine, the manifest that the written layout names.
        error: the end of a failed build's output, or why it was not tried.
    """

    column: Column
    variation: Variation
    folder: Path
    config: str = ""
    manifest: str = ""
    identity: str = ""
    seconds: float = 0.0
    error: str = ""

    def state(self, reference: Cell) -> str:
        """Return ``same``, ``differs``, ``failed`` or ``needs root``."""
        if self.variation.root and os.geteuid() != 0:
            return "needs root"
        if not self.config:
            return "failed"
        digests = (self.config, self.manifest)
        same = digests == (reference.config, reference.manifest) and self.identity in digests
        return "same" if same else "differs"


class Matrix:
    """Builds a subject in cells.

    Args:
        leak: what the variations change goes into the images; stores are filled, which spares most of the time.
        earlier: a store that an earlier build left; by default that of the first cell.
        reported: called with each finished cell.
    """

    def __init__(
        self,
        subject: Subject,
        *,
        leak: bool = False,
        earlier: Path | None = None,
        reported: Callable[[Cell], None] = lambda cell: None,
    ) -> None:
        self.subject = subject
        self._leak = leak
        self._told = reported
        self._earlier = earlier

    def run(self, columns: Sequence[Column], rows: Sequence[Variation], jobs: int = 2) -> list[list[Cell]]:
        """Build every cell; returns one list for each row. What was built like the first one is removed at once.

        The first row on the first engine is built alone: its store is what other cells find filled. The cells of one
        engine run one after the other, since they build one tag.
        """
        first = self.cell(columns[0], rows[0])
        self._earlier = first.folder / "store" if first.config else None

        def down(column: Column) -> list[Cell]:
            done = [first] if column is columns[0] else []
            for row in rows[len(done) :]:
                done.append(self.cell(column, row))
                if done[-1].state(first) == "same":  # nobody asks for an explanation; each takes a quarter of a GB
                    self.tidy(done[-1])
            return done

        with ThreadPoolExecutor(jobs) as pool:
            made = list(pool.map(down, columns))
        return [list(cells) for cells in zip(*made, strict=True)]

    def cell(self, column: Column, row: Variation) -> Cell:
        """Build one cell, and take its image out of the engine; a filled store is left out of what is measured."""
        (self.subject.folder / "cells").mkdir(mode=0o755, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.subject.folder / "cells"))
        folder.chmod(0o755)
        cell = Cell(column=column, variation=row, folder=folder)
        if row.root and os.geteuid() != 0:
            return cell
        self._furnish(cell)
        began = time.monotonic()
        output = () if column.host else ("--output", f"oci:{folder / _LAYOUT}")
        vendor = str(self.subject.vendor)
        done = self._envbuild(cell, "build", "--offline", "--from", vendor, *output, self.subject.lock.name)
        seconds = time.monotonic() - began
        record = folder / row.folder / self.subject.lock.with_suffix(".image.json").name
        if done.returncode == 0 and record.is_file():
            found = json.loads(record.read_bytes())
            cell = Cell(
                column=column, variation=row, folder=folder, config=found["config"], manifest=found["manifest"],
                identity=_identity(column, folder, found["reference"]), seconds=seconds,
            )  # fmt: skip
        else:
            cell = Cell(column=column, variation=row, folder=folder, error=done.stderr[-2000:], seconds=seconds)
        self._told(cell)
        return cell

    def explain(self, reference: Cell, cell: Cell) -> list[str]:
        """Return where a cell's image differs from the reference's: layer, path, field and both values."""
        if not cell.config:
            return [f"  {line}" for line in cell.error.strip().splitlines()[-6:]]
        lines = []
        if cell.identity not in (cell.config, cell.manifest):
            lines.append(f"  the engine calls it sha256:{cell.identity or '(nothing)'}")
        parts = [_layout_parts(self._written(one)) for one in (reference, cell)]
        return lines + report(image_differences(*parts))

    def tidy(self, cell: Cell) -> None:
        """Remove what a cell left."""
        shutil.rmtree(cell.folder, ignore_errors=True)

    def _furnish(self, cell: Cell) -> None:
        """Make a cell's folders."""
        row, folder = cell.variation, cell.folder
        for name in ("store", "home", "elsewhere", row.folder):
            (folder / name).mkdir(parents=True)
        shutil.copy(self.subject.lock, folder / row.folder)
        if self._earlier is not None and (row.store != "empty" or self._leak):
            fill(folder / "store", self._earlier, half=row.store == "half")
        (folder / "held").write_text(row.store)
        if any("--reuid" in word for word in row.prefix):
            for path in (folder, *folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def _envbuild(self, cell: Cell, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in a cell's surroundings."""
        row, folder, subject = cell.variation, cell.folder, self.subject
        words = ["leak"] * self._leak + list(row.words)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "PYTHONPATH": str(subject.code),
            "ENVBUILD_STORE": str(folder / "store"),
            **cell.column.environ(),
            **{name: value.replace("{folder}", str(folder)) for name, value in row.environ.items()},
        }
        if row.library:
            environ["LD_PRELOAD"] = str(subject.libraries[row.library])
            words.append(f"preload={subject.libraries[row.library]}")
        inside = subject.code / "tests" / "reproducibility" / "inside.py"
        column = cell.column
        given = {"{socket_group}": str(column.socket_group()), "{access}": column.access()}
        prefix = [reduce(lambda text, name: text.replace(name, given[name]), given, word) for word in row.prefix]
        command = [*_lending(cell), *prefix, sys.executable, str(inside), ",".join(words) or "-", *arguments]
        return subprocess.run(
            command, cwd=folder / row.folder, env=environ, umask=row.umask, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=900, check=False,
        )  # fmt: skip

    def _written(self, cell: Cell) -> Path:
        """Write a cell's image as an OCI image layout, from the layers that its store keeps."""
        target = cell.folder / _LAYOUT
        if not target.exists():
            done = self._envbuild(cell, "build", "--offline", "--output", f"oci:{target}", self.subject.lock.name)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
        return target


def _identity(column: Column, folder: Path, reference: str) -> str:
    """Return what a built image is called where it went; an engine's is taken out of it."""
    if not column.host:
        index = json.loads((folder / _LAYOUT / "index.json").read_bytes())
        return str(index["manifests"][0]["digest"]).removeprefix("sha256:")
    engine = column.engine()
    held = engine.find_image(reference)
    remove_image(engine._sdk_client(), reference)
    return held.config if held else ""


def _lending(cell: Cell) -> Sequence[str]:
    """Return a command that lends identities to nobody in a mount namespace, where a user builds without an engine."""
    if cell.column.host or not any("--reuid" in word for word in cell.variation.prefix):
        return ()
    lent = cell.folder / "lent"
    lent.write_text(f"{NOBODY}:{_LENT}:65536\n")
    return ("unshare", "--mount", "sh", "-c", _LEND, str(lent))


def _layout_parts(folder: Path) -> Parts:
    """Read an OCI image layout (a folder) with one image."""

    def blob(descriptor: Mapping[str, Any]) -> Path:
        return folder / "blobs" / "sha256" / str(descriptor["digest"]).removeprefix("sha256:")

    (entry,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    manifest = json.loads(blob(entry).read_bytes())
    paths = [blob(layer) for layer in manifest["layers"]]
    return Parts(config=blob(manifest["config"]).read_bytes(), layers={path.name: path for path in paths})
