"""What the image benchmarks are on: projects, the same wheels as build contexts for others, a separate engine.

Nothing comes from a registry: the base image of all peers is a Debian that envbuild built, with pip, venv and uv in it.
Everything is in one temporary folder, the engine is one of ``scripts/second-engine.sh``; both go with the process.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import BIN, ENVBUILD, REPOSITORY, call
from envbuild.lockfile import model as locks
from envbuild.store.fetch import Item, lock_items
from envbuild.store.objects import Store
from tests.support.second_engine import where_it_is

FRAMEWORKS = {"tensorflow": "tensorflow-cpu==2.21.*", "cuda": "tensorflow[and-cuda]==2.21.*", "jax": "jax"}
SMALL_WHEELS = tuple(f"click==8.{version}" for version in ("1.3", "1.6", "1.7", "1.8", "2.0", "2.1", "3.0", "3.1"))
"""What is changed where one small wheel changes: the first is that of the image before, each run takes another one."""
BASE = "envbuild-bench-base:latest"
EPOCH = "315532800"
PEER_TAGS = ("bench-pip", "bench-uv")
BUILDX = "usr/libexec/docker/cli-plugins/docker-buildx"
_ENGINE = str(REPOSITORY / "scripts" / "second-engine.sh")

_SYNC = "RUN --mount=type=bind,source={0},target=/{0} "
_OS = "dpkg --install /debs/*.deb\n"
_PIP = (
    "/usr/bin/python3 -m venv /opt/venv && "
    "/opt/venv/bin/pip install --no-index --no-deps --no-cache-dir /wheels/*.whl\n"
)
_UV = (
    "ENV UV_LINK_MODE=copy UV_OFFLINE=1 UV_CACHE_DIR=/root/.cache/uv\n"
    "ENV VIRTUAL_ENV=/opt/venv UV_COMPILE_BYTECODE={compile}\n"
    "RUN uv venv --python /usr/bin/python3 /opt/venv\n"
    "RUN --mount=type=cache,target=/root/.cache/uv --mount=type=bind,source=requirements.txt,target=/requirements.txt "
    "--mount=type=bind,source=wheels,target=/wheels "
    "uv pip sync --no-index --find-links /wheels /requirements.txt\n"
)


def framework() -> str:
    """What the measured environment holds: ``$ENVBUILD_BENCH_FRAMEWORK``, by default TensorFlow for CPUs."""
    return os.environ.get("ENVBUILD_BENCH_FRAMEWORK", "tensorflow")


@dataclass(frozen=True, kw_only=True)
class Project:
    """A locked project, and the same wheels for everybody else.

    Attributes:
        folder: spec and lock.
        context: ``wheels/``, ``requirements.txt``, ``debs/`` where OS packages are wanted, and one Dockerfile a peer.
    """

    folder: Path
    context: Path

    def reference(self) -> str:
        """The name of the image that was built."""
        (file,) = self.folder.glob("pylock.*.json")
        return str(json.loads(file.read_text())["reference"])

    def forget(self) -> list[str]:
        """Remove what a build recorded next to the lock; returns the image it named, if there was one."""
        recorded = list(self.folder.glob("pylock.*.json"))
        images = [self.reference()] if recorded else []
        for file in recorded:
            file.unlink()
        return images


class Workshop:
    """Projects of one framework over a separate store, filled with their files and nothing else."""

    def __init__(self, name: str) -> None:
        self.requirement = FRAMEWORKS[name]
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix="envbuild-bench-images-"))
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        self.store = Store(self.folder / "store")
        self._base = self._lock("base", "packages: [python3-pip, python3-venv, libstdc++6]\n")

    def project(self, name: str, *extras: str, packages: str = "") -> Project:
        """Lock the framework with further requirements and OS packages, fill the store, write the contexts."""
        requirements = ", ".join(json.dumps(wanted) for wanted in (self.requirement, *extras))
        wanted = f"requirements: [{requirements}]\n" + (f"packages: [{packages}]\n" if packages else "")
        folder = self._lock(name, f'python: "3.11"\n{wanted}')
        context = self.folder / f"{name}-context"
        _write_context(context, self._items(folder), self._items(self._base), self.store, os_packages=bool(packages))
        return Project(folder=folder, context=context)

    def build(self, project: Project, host: str) -> dict[str, str]:
        """Build with envbuild into an engine; returns what is recorded."""
        record: dict[str, str] = json.loads(
            call(ENVBUILD, "build", "--json", "--quiet", cwd=project.folder, environment=self.environment(host))
        )
        return record

    def size(self, project: Project) -> int:
        """Bytes of a built image's layers."""
        answer = call(ENVBUILD, "image", "--json", cwd=project.folder, environment=self.environment(""))
        return int(json.loads(answer)["size"])

    def environment(self, host: str) -> dict[str, str]:
        """Return what points envbuild at this store, and at an engine unless it is the usual one."""
        return {"ENVBUILD_STORE": str(self.store.root), **({"DOCKER_HOST": host} if host else {})}

    def forget_derived(self) -> None:
        """Leave the store what was downloaded, and nothing that was made of it."""
        shutil.rmtree(self.store.root / "derived", ignore_errors=True)

    def save_system(self, project: Project) -> Path:
        """Keep a built image's OS layer aside, as a folder of hard links; returns it."""
        answer = call(ENVBUILD, "image", "--json", cwd=project.folder, environment=self.environment(""))
        (wanted,) = [layer["digest"] for layer in json.loads(answer)["layers"] if layer["kind"] == "os"]
        (made,) = [
            path.parent
            for path in (self.store.root / "derived" / "layers").glob("*/layer.json")
            if wanted.endswith(json.loads(path.read_bytes())["diff_id"])
        ]
        aside = self.folder / "system" / made.name
        shutil.copytree(made, aside, copy_function=os.link, dirs_exist_ok=True)
        return aside

    def restore_system(self, aside: Path) -> None:
        """Put an OS layer back into a store that has forgotten everything it made."""
        shutil.copytree(aside, self.store.root / "derived" / "layers" / aside.name, copy_function=os.link)

    def derived(self) -> frozenset[Path]:
        """Return everything that was made of the downloads."""
        return frozenset((self.store.root / "derived").glob("*/*"))

    def keep_derived(self, kept: frozenset[Path]) -> None:
        """Remove what was made since ``kept`` was taken."""
        for path in self.derived() - kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def base_image(self, host: str) -> str:
        """Build the base of all peers into an engine, as ``BASE``; returns its other name."""
        built = self.build(Project(folder=self._base, context=self._base), host)
        call("docker", "tag", built["reference"], BASE, cwd=self._base, environment=self.environment(host))
        return built["reference"]

    def base_archive(self) -> Path:
        """Write the base of all peers as a docker archive."""
        archive = self.folder / "base.tar"
        environment = self.environment("")
        call(ENVBUILD, "build", "-o", f"docker-archive:{archive}", cwd=self._base, environment=environment)
        return archive

    def _lock(self, name: str, wanted: str) -> Path:
        """Lock a spec, fetch into the user's store, and give this one the same files."""
        folder = self.folder / name
        folder.mkdir()
        (folder / "spec.yaml").write_text(f"name: bench-{self.name}-{name}\nos: debian-12\n{wanted}")
        call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
        call(ENVBUILD, "fetch", "--quiet", cwd=folder)
        theirs = Store()
        for item in self._items(folder):
            _link(theirs.path(item.sha256), self.store.path(item.sha256))
        return folder

    def _items(self, folder: Path) -> tuple[Item, ...]:
        (path,) = folder.glob("pylock.*.toml")
        return lock_items(locks.load(path))


class NewEngine:
    """The newer engine, its BuildKit, and the base image in it."""

    def __init__(self, workshop: Workshop) -> None:
        self.workshop = workshop
        environment = {"ENVBUILD_SECOND_NAME": "bench"}
        atexit.register(call, _ENGINE, "stop", cwd=REPOSITORY, environment=environment)
        answer = call(_ENGINE, "start", cwd=REPOSITORY, environment=environment)
        self.host = answer.split("DOCKER_HOST=", 1)[1].strip()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        suite = os.environ.get("ENVBUILD_SECOND_SUITE", "unstable")
        self.buildx = str(cache / "envbuild" / "second-engine" / f"packages-{suite}" / BUILDX)
        self.environment = {"DOCKER_HOST": self.host, "BUILDX_CONFIG": str(workshop.folder / "buildx")}
        # The script's engine is in a network namespace of its own, from where it cannot pull from another's loopback.
        self.inside = where_it_is(Path(self.host.removeprefix("unix://")).parent)
        workshop.base_image(self.host)
        self._with_uv()
        self._kept = self._images(BASE)

    def command(self, dockerfile: str, *options: str, cache: bool = False) -> list[str]:
        """Return the command line that builds one of a context's Dockerfiles with BuildKit."""
        again = [] if cache else ["--no-cache"]
        build = [self.buildx, "build", "--quiet", "--network=none", "--provenance=false", *again]
        return [*build, *options, "--file", dockerfile, "."]

    def sweep(self) -> None:
        """Remove every image but the base, and all that BuildKit keeps."""
        self.remove(*self._images() - self._kept)
        self._call(self.buildx, "prune", "--force", "--all")
        os.sync()

    def sweep_peers(self) -> None:
        """Remove what the peers built; what they keep for the next time stays: cache mounts and the context as sent."""
        quietly("docker", "image", "rm", "--force", *PEER_TAGS, environment=self.environment)
        self._call(self.buildx, "prune", "--force", "--all", "--filter", "type=regular")

    def remove(self, *images: str) -> None:
        """Remove images."""
        if images:
            self._call("docker", "image", "rm", "--force", *images)

    def _call(self, *command: str) -> str:
        return call(*command, cwd=self.workshop.folder, environment=self.environment)

    def _with_uv(self) -> None:
        context = self.workshop.folder / "uv"
        context.mkdir()
        shutil.copy(BIN / "uv", context)
        (context / "Dockerfile").write_text(f"FROM {BASE}\nENTRYPOINT []\nCOPY uv /usr/local/bin/uv\n")
        call(*self.command("Dockerfile", "--tag", BASE), cwd=context, environment=self.environment)

    def _images(self, *names: str) -> set[str]:
        return set(self._call("docker", "image", "ls", "--quiet", "--no-trunc", *names).split())


@functools.cache
def workshop(name: str) -> Workshop:
    """Return the one workshop of a framework."""
    return Workshop(name)


@functools.cache
def new_engine(name: str) -> NewEngine:
    """Return the newer engine, with the base image in it."""
    return NewEngine(workshop(name))


def _write_context(
    context: Path, items: tuple[Item, ...], base: tuple[Item, ...], store: Store, *, os_packages: bool
) -> None:
    """Link the wheels, and the OS packages that the base lacks if any are wanted; write a Dockerfile for each peer."""
    held = {item.sha256 for item in base}
    wheels = [item for item in items if item.name.endswith(".whl")]
    debs = [item for item in items if item.name.endswith(".deb") and item.sha256 not in held and os_packages]
    for kind, files in (("wheels", wheels), ("debs", debs)):
        for item in files:
            _link(store.path(item.sha256), context / kind / item.name)
    pins = ["==".join(item.name.split("-")[:2]) for item in wheels]
    (context / "requirements.txt").write_text("\n".join(pins) + "\n")
    head = f"FROM {BASE}\nENTRYPOINT []\n"
    copied = head + ("COPY debs /debs\nRUN " + _OS if debs else "") + "COPY wheels /wheels\nRUN " + _PIP
    (context / "classic").write_text(copied)
    head += _SYNC.format("debs") + _OS if debs else ""
    (context / "pip").write_text(head + _SYNC.format("wheels") + _PIP)
    (context / "uv").write_text(head + _UV.format(compile=1))
    (context / "uv-reproducible").write_text(head + _UV.format(compile=0))


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def link_tree(source: Path, target: Path) -> None:
    """Make a folder the same as another, of the same files."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, copy_function=os.link)


def quietly(*command: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a command whose failure does not matter."""
    subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, check=False)
