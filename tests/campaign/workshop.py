"""What a campaign works on: small projects that change between three states, and what each state must give."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.cli import Project, copy_store
from tests.support.images import forget_images
from tests.support.indexes import make_index
from tests.support.registry import Registry, running_registry
from tests.support.server import FileServer
from tests.support.wheels import make_wheel

STATES = 3
"""Versions of a project's requirement, so that every command finds work again and again."""
_OF_PROJECTS = ("locks", "leases")
"""Folders of a store that say what which project uses."""
_RATE = 2_000_000
"""Bytes a second of the package index: a kill must be able to come in the middle of a download."""
_SPEC = """\
name: {name}
os: debian-12
python: "3.11"
packages: [libstdc++6, libgomp1]  # as the small project of tests/integration has, whose system may be there already
requirements: [{wheel}=={version}.0]
determinism: {{threads: 1}}
"""
SCRIPT = "import {wheel}\nprint('state', {wheel}.__version__)\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """What a project's files must be in one state, made once, undisturbed, in another store."""

    lock: bytes
    record: bytes

    @property
    def config(self) -> str:
        """The image's identity."""
        return str(json.loads(self.record)["config"])

    @property
    def manifest(self) -> str:
        """The digest of the image's manifest in a registry."""
        return str(json.loads(self.record)["manifest"])


@dataclass(kw_only=True)
class Subject:
    """One project, its state now, and what every state must give."""

    name: str
    project: Project
    state: int = 0
    references: list[Reference] = field(default_factory=list)

    @property
    def wheel(self) -> str:
        """The name of the package that it requires."""
        return self.name.replace("-", "_")

    @property
    def lock(self) -> Path:
        """The lock's file."""
        return self.project.folder / f"pylock.{self.name}.toml"

    @property
    def record(self) -> Path:
        """The image's record."""
        return self.project.folder / f"pylock.{self.name}.image.json"

    @property
    def reference(self) -> Reference:
        """What the state now must give."""
        return self.references[self.state]

    def change(self, state: int) -> None:
        """Ask for another state; what was made of the last one is as a checkout would leave it."""
        self.state = state
        self.project.write("spec.yaml", _SPEC.format(name=self.name, wheel=self.wheel, version=state + 1))
        self.record.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workshop:
    """Everything that a campaign needs."""

    root: Path
    store: Path
    subjects: tuple[Subject, ...]
    registry: Registry
    server: FileServer


@contextmanager
def workshop(
    root: Path, seed: int, count: int = 2, states: int = STATES, base: Path | None = None
) -> Iterator[Workshop]:
    """Make projects over one store, a package index and a registry, and build every state once in another store.

    Args:
        count: of projects.
        states: of each project.
        base: a store that has their operating system already; what is in it stays as it is.
    """
    words = random.Random(seed)
    names = [f"crash{words.getrandbits(24):06x}{letter}" for letter in "abcdefgh"[:count]]
    with ExitStack() as stack:
        server = stack.enter_context(FileServer())
        registry = stack.enter_context(running_registry(root / "registry"))
        stack.callback(forget_images, *(f"envbuild/{name}" for name in names))
        wheels = [
            make_wheel(root / "wheels", name, f"{state + 1}.0", _files(name, state, words))
            for name in names
            for state in range(states)
        ]
        make_index(root / "index", wheels)
        server.add_tree(root / "index", rate=_RATE)
        environ = {"PIP_NO_INDEX": "", "PIP_INDEX_URL": f"{server.url}/simple/"}
        if base is not None:
            copy_store(base, root / "quiet", without=(*_OF_PROJECTS, "trees"))
        subjects = tuple(_prepare(root, name, environ, states) for name in names)
        shutil.copytree(root / "quiet", root / "store")
        yield Workshop(root=root, store=root / "store", subjects=subjects, registry=registry, server=server)


def _files(name: str, state: int, words: random.Random) -> dict[str, bytes | str]:
    """A module, and data that neither compresses nor repeats."""
    return {f"{name}/__init__.py": f'__version__ = "{state + 1}.0"\n', f"{name}/data.bin": words.randbytes(2_000_000)}


def _prepare(root: Path, name: str, environ: dict[str, str], states: int) -> Subject:
    quiet = Subject(name=name, project=Project(folder=root / name, store=root / "quiet", environ=environ))
    quiet.project.write("train.py", SCRIPT.format(wheel=quiet.wheel))
    for state in range(states):
        quiet.change(state)
        quiet.project.must("lock")
        quiet.project.must("build", "--output", "oci:out.tar")
        (quiet.project.folder / "out.tar").unlink()
        reference = Reference(lock=quiet.lock.read_bytes(), record=quiet.record.read_bytes())
        quiet.references.append(reference)
    project = Project(folder=quiet.project.folder, store=root / "store", environ=environ)
    return Subject(name=name, project=project, state=quiet.state, references=quiet.references)
