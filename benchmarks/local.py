"""The local engine, from a filled store to the first line that a program prints; Docker and uv do the same work.

The store is filled before anything is timed, and nothing asks a network. The floor writes as many bytes as the image
has to one file, and syncs it. What earlier runs made is moved away, not removed: an ext4 without a journal looks for
inodes that were not removed in the last minute or five, which costs the next command seconds (fs/ext4/ialloc.c,
``recently_deleted``), and no user removes a store before each run.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import images
from benchmarks.cases import BIN, ENVBUILD, EXAMPLE, call
from benchmarks.measure import Case
from benchmarks.workshop import BASE, framework, quietly, workshop
from envbuild.lockfile import model as locks
from envbuild.store.objects import Store

_LOCAL, _DOCKER = {"ENVBUILD_ENGINE": "local"}, {"ENVBUILD_ENGINE": "docker"}
_RUN = [ENVBUILD, "run", "--offline", "program.py"]
_IMAGES: set[str] = set()
"""Images that Docker may have: the tens of thousands of files that it removes with one slow down a run after that."""
_PROGRAM = "import tensorflow\nprint(tensorflow.__version__, flush=True)\n"


def start(folder: Path) -> tuple[str, list[Case]]:
    """A trivial program in an image: guard, hook and record, with either engine, against Python alone."""
    shutil.copy(EXAMPLE / "spec.yaml", folder)
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    (folder / "program.py").write_text("print('done')\n")
    for engine in (_LOCAL, _DOCKER):
        call(ENVBUILD, "build", cwd=folder, environment=engine)
    return "start: a trivial program, guard, hook and record", [
        Case(
            name="envbuild run, local engine", command=[ENVBUILD, "run", "program.py"], cwd=folder, environment=_LOCAL
        ),
        Case(name="envbuild run, Docker", command=[ENVBUILD, "run", "program.py"], cwd=folder, environment=_DOCKER),
        Case(name="python program.py", command=[sys.executable, "program.py"], cwd=folder),
    ]


def cold(folder: Path) -> tuple[str, list[Case]]:
    """Nothing but wheels and .debs in the store, until TensorFlow for CPUs has been imported and told its version."""
    project, store = _filled(folder)
    return "cold: from the store's files to the first line of a program", [
        *_engines(project, store, functools.partial(_forget, folder, project)),
        _pip(framework()),
        _uv(folder, project, store),
        _floor(folder, project, store),
    ]


def system(folder: Path) -> tuple[str, list[Case]]:
    """The same with the OS layer made, as the base image of others is."""
    project, store = _filled(folder)
    _forget(folder, project)
    call(*_RUN, cwd=project, environment={**store, **_LOCAL})
    return "the same, its OS layer made", [
        *_engines(project, store, functools.partial(_forget, folder, project, system=True)),
        _pip(framework()),
        _uv(folder, project, store),
    ]


def cuda(folder: Path) -> tuple[str, list[Case]]:
    """``tensorflow[and-cuda]``, cold, on a machine without a GPU; about 30 GB of disk."""
    project, store = _filled(folder, "os: debian-12\nrequirements:\n  - tensorflow[and-cuda]==2.21.*\n")
    local, _ = _engines(project, store, functools.partial(_forget, folder, project))
    return "cold, TensorFlow and CUDA: from the store's files to the first line of a program", [
        local,
        _pip("cuda"),
        _floor(folder, project, store),
    ]


def second(folder: Path) -> tuple[str, list[Case]]:
    """A second project with the same framework and one small wheel more, whose image nobody has made."""
    project, store = _filled(folder)
    other = images._project(folder / "other", "bench-second", _spec("  - click==8.1.8\n"))
    images._store(other, folder / "store")
    (other / "program.py").write_text(_PROGRAM)
    for engine in (_LOCAL, _DOCKER):
        call(*_RUN, cwd=project, environment={**store, **engine})
    kinds = ("layers", "trees", "bytecode")
    before = {path.name for kind in kinds for path in _derived(folder, kind)}

    def forget() -> None:
        for kind in kinds:
            for path in _derived(folder, kind):
                if path.name not in before:
                    _put_away(path, folder)
        _forget_images(other)

    environment = {**store, **_LOCAL}

    def build() -> None:
        call(*_RUN, cwd=other, environment=environment)

    made = Case(
        name="envbuild run, local engine, the image made: the framework's import above all",
        command=_RUN,
        cwd=other,
        environment=environment,
        prepare=build,
    )
    return "a second project with the same framework, to its first line", [*_engines(other, store, forget), made]


def _spec(more: str = "") -> str:
    return f"os: debian-12\nrequirements:\n  - tensorflow-cpu==2.21.*\n{more}"


def _filled(folder: Path, spec: str = "") -> tuple[Path, dict[str, str]]:
    project = images._project(folder / "project", "bench-local", spec or _spec())
    (project / "program.py").write_text(_PROGRAM)
    return project, images._store(project, folder / "store")


def _derived(folder: Path, kind: str) -> list[Path]:
    place = folder / "store/derived" / kind
    return sorted(place.iterdir()) if place.is_dir() else []


def _forget(folder: Path, project: Path, *, system: bool = False) -> None:
    """Remove what was made; with ``system`` all but the OS layer, its tree and what Docker keeps of it."""
    base = _system(folder)
    for kind in _derived(folder, ""):
        if not system or kind.name not in ("layers", "trees"):
            _put_away(kind, folder)
            continue
        for path in kind.iterdir():
            note = path / "layer.json"
            digest = json.loads(note.read_bytes())["diff_id"] if note.is_file() else path.name
            if digest != base:
                _put_away(path, folder)
    _forget_images(project)


def _put_away(path: Path, folder: Path) -> None:
    """Move what a run has made to where nobody looks for it; it goes with the benchmark's folder."""
    away = folder / "away"
    away.mkdir(exist_ok=True)
    path.rename(away / f"{len(list(away.iterdir()))}")


def _forget_images(project: Path) -> None:
    """Remove what was recorded next to the lock; the image that Docker has goes before Docker's next run."""
    for file in project.glob("pylock.*.image.json"):
        _IMAGES.add(json.loads(file.read_bytes())["reference"])
        file.unlink()


@atexit.register
def _remove_images() -> None:
    for reference in sorted(_IMAGES):
        quietly("docker", "image", "rm", "--force", reference)


def _system(folder: Path) -> str:
    """The digest of the OS layer: dpkg's database is in its tree. Large wheels are below it in an image."""
    found = [path.name for path in _derived(folder, "trees") if (path / "tree/var/lib/dpkg/status").is_file()]
    return found[0] if found else ""


def _engines(project: Path, store: dict[str, str], prepare: Callable[[], None]) -> list[Case]:
    def prepare_docker() -> None:
        prepare()
        _remove_images()

    return [
        Case(
            name="envbuild run, local engine",
            command=_RUN,
            cwd=project,
            environment={**store, **_LOCAL},
            prepare=prepare,
        ),
        Case(
            name="envbuild run, Docker",
            command=_RUN,
            cwd=project,
            environment={**store, **_DOCKER},
            prepare=prepare_docker,
            slow=True,
        ),
    ]


@functools.cache
def _pip(name: str) -> Case:
    """What most people do: pip in a Dockerfile, on a base that has Python and pip, and docker run."""
    shop = workshop(name)
    made = shop.project("local")
    base, tag = shop.base_image(""), f"envbuild-bench-local:{os.getpid()}"

    def forget() -> None:
        quietly("docker", "image", "rm", "--force", tag)

    atexit.register(quietly, "docker", "image", "rm", "--force", tag, BASE, base)
    script = (
        f"docker build --no-cache --network=none --quiet -t {tag} -f classic . && "
        f"docker run --rm --network=none {tag} /opt/venv/bin/python -c {shlex.quote(_PROGRAM)}"
    )
    return Case(
        name="docker build with pip, docker run",
        command=["sh", "-c", script],
        cwd=made.context,
        environment={"DOCKER_BUILDKIT": "0"},
        prepare=forget,
        slow=True,
    )


def _uv(folder: Path, project: Path, store: dict[str, str]) -> Case:
    """The user's other choice: a virtual environment by uv, wheels in its cache, bytecode compiled."""
    lock = locks.load(project / "pylock.bench-local.toml")
    wheels = folder / "wheels"
    wheels.mkdir()
    for package in lock.packages:
        os.link(Store(Path(store["ENVBUILD_STORE"])).path(package.wheel.sha256), wheels / package.wheel.name)
    (folder / "requirements.txt").write_text("".join(f"{p.name}=={p.version}\n" for p in lock.packages))
    uv, venv = str(BIN / "uv"), str(folder / "venv")
    script = (
        f"'{uv}' venv -q --python '{sys.executable}' '{venv}' && VIRTUAL_ENV='{venv}' '{uv}' pip sync -q --no-index "
        f"--compile-bytecode --find-links '{wheels}' '{folder}/requirements.txt' && '{venv}/bin/python' program.py"
    )
    environment = {"UV_CACHE_DIR": str(folder / "uv-cache"), "UV_OFFLINE": "1"}
    return Case(
        name="uv venv, uv pip sync, warm cache",
        command=["sh", "-c", script],
        cwd=project,
        environment=environment,
        prepare=lambda: _put_away(Path(venv), folder) if Path(venv).exists() else None,
    )


def _floor(folder: Path, project: Path, store: dict[str, str]) -> Case:
    call(*_RUN, cwd=project, environment={**store, **_LOCAL})
    (record,) = project.glob("pylock.*.image.json")
    size = sum(json.loads(record.read_bytes())["sizes"])
    return Case(
        name=f"{size / 1e9:.2f} GB written and synced",
        command=[sys.executable, "-c", images._WRITE, str(size)],
        cwd=folder,
        prepare=lambda: (folder / "floor").unlink(missing_ok=True),
    )


BENCHMARKS = {
    "local-start": start,
    "local-cold": cold,
    "local-system": system,
    "local-second": second,
    "local-cuda": cuda,
}
