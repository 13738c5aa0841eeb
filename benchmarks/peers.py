"""Images against the builders that people use: pip and uv in Dockerfiles, reproducible BuildKit, buildah.

All contestants get the same wheels from the same disk, without network. The peers start on a base image that has
Python, pip, venv and uv; envbuild starts from Debian packages. What a run left is removed before the next, untimed.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.cases import ENVBUILD, call
from benchmarks.measure import Case
from benchmarks.workshop import (
    BASE,
    EPOCH,
    SMALL_WHEELS,
    NewEngine,
    Project,
    Workshop,
    framework,
    link_tree,
    new_engine,
    quietly,
    workshop,
)

OS_PACKAGE = "libsndfile1"
NEEDED = 25_000_000_000
"""Bytes of free disk for the CUDA environment: 3.3 GB of wheels, 6.5 GB unpacked, in the engine twice."""
_BUILD = [ENVBUILD, "build", "--quiet", "--offline"]
_FLOOR = (
    "import os, sys\n"
    "block = os.urandom(1 << 20)\n"
    "with open('floor', 'wb') as stream:\n"
    "    for number in range(int(sys.argv[1]) >> 20):\n"
    "        stream.write(number.to_bytes(8, 'big') + block[8:])\n"
    "    stream.flush()\n"
    "    os.fsync(stream.fileno())\n"
)
Made = tuple[str, list[Case]]


def cold(folder: Path) -> Made:
    """The image from a filled store, nothing built, against all of BuildKit's ways, and the disk itself."""
    return _cold(folder, framework(), reproducible=True)


def wheel(folder: Path) -> Made:
    """One small wheel changed after the image was built; uv finds the others in its cache mount."""
    shop = workshop(framework())
    return "one small wheel changed, to a runnable image (Engine 28.5)", _changed(folder, shop, peers=True)


def packages(folder: Path) -> Made:
    """One OS package added after the image was built."""
    shop = workshop(framework())
    old = _project(shop, "small-0", SMALL_WHEELS[0])
    new = _project(shop, "os", SMALL_WHEELS[0], packages=OS_PACKAGE)
    return f"one OS package added ({OS_PACKAGE} and what it needs), to a runnable image (Engine 28.5)", _after(
        folder, old, new, pip=True
    )


def second(folder: Path) -> Made:
    """Another project that shares the framework, on an engine that has the first one's image."""
    shop, engine = workshop(framework()), new_engine(framework())
    old, new = _project(shop, "small-0", SMALL_WHEELS[0]), _project(shop, "second", "rich")
    cases = _after(folder, old, new, pip=False)
    before = shop.derived()
    shop.build(new, engine.host)
    written = sum(file.stat().st_size for path in shop.derived() - before for file in path.rglob("*") if file.is_file())
    total = shop.size(new)
    title = (
        f"second project sharing the framework: {written / 1e6:.1f} MB of {total / 1e6:,.0f} MB written (Engine 28.5)"
    )
    return title, cases


def nothing(folder: Path) -> Made:
    """Nothing changed since the image was built."""
    shop, engine = workshop(framework()), new_engine(framework())
    project = _project(shop, "small-0", SMALL_WHEELS[0])
    project.forget()
    engine.sweep()
    shop.build(project, engine.host)
    by_pip = engine.command("pip", "--tag", "bench-pip", cache=True)
    call(*by_pip, cwd=project.context, environment=engine.environment)
    return "nothing changed (Engine 28.5)", [
        Case(
            name="envbuild build",
            command=[*engine.inside, *_BUILD],
            cwd=project.folder,
            environment=shop.environment(engine.host),
        ),
        Case(name="(a) BuildKit, all cached", command=by_pip, cwd=project.context, environment=engine.environment),
    ]


def classic(folder: Path) -> Made:
    """The image from a filled store, nothing built, against the classic builder of the usual engine, and buildah."""
    shop = workshop(framework())
    project = _project(shop, "small-0", SMALL_WHEELS[0])
    base = shop.base_image("")
    tag = f"envbuild-bench-pip:{os.getpid()}"
    atexit.register(quietly, "docker", "image", "rm", "--force", tag, BASE, base)

    def clean() -> None:
        steps = call("docker", "image", "ls", "--quiet", "--filter", "label=envbuild.step", cwd=shop.folder).split()
        quietly("docker", "image", "rm", "--force", tag, *project.forget())
        quietly("docker", "image", "rm", *steps)  # what envbuild keeps in an engine; other builds make theirs again
        shop.forget_derived()
        os.sync()

    def weigh(image: str) -> str:
        size = call("docker", "image", "inspect", "--format", "{{.Size}}", image, cwd=shop.folder)
        return f"image of {int(size) / 1e6:,.0f} MB"

    atexit.register(clean)
    title = "from a filled store, nothing built (the machine's own engine)"
    return title, [
        Case(
            name="envbuild build (bootstraps the OS too)",
            command=_BUILD,
            cwd=project.folder,
            environment=shop.environment(""),
            prepare=clean,
            note=lambda: weigh(project.reference()),
        ),
        Case(
            name="(a) classic builder, pip install",
            command=["docker", "build", "--no-cache", "--network=none", "--quiet", "-t", tag, "-f", "classic", "."],
            cwd=project.context,
            environment={"DOCKER_BUILDKIT": "0"},
            prepare=clean,
            slow=True,
            note=lambda: weigh(tag),
        ),
        *_buildah(folder, shop, project, clean),
    ]


def cuda(folder: Path) -> Made:
    """``tensorflow[and-cuda]``, nothing built."""
    _require_disk(folder)
    return _cold(folder, "cuda", reproducible=False)


def cuda_wheel(folder: Path) -> Made:
    """``tensorflow[and-cuda]``, one small wheel changed."""
    _require_disk(folder)
    shop = workshop("cuda")
    return "tensorflow[and-cuda], one small wheel changed (Engine 28.5)", _changed(folder, shop, peers=False)


BENCHMARKS: dict[str, Callable[[Path], Made]] = {
    "peers-cold": cold,
    "peers-wheel": wheel,
    "peers-packages": packages,
    "peers-second": second,
    "peers-nothing": nothing,
    "peers-classic": classic,
}

ON_REQUEST: dict[str, Callable[[Path], Made]] = {"peers-cuda": cuda, "peers-cuda-wheel": cuda_wheel}
"""Too large to be run unless named."""

_PROJECTS: dict[tuple[str, str], Project] = {}


def _project(shop: Workshop, name: str, *extras: str, packages: str = "") -> Project:
    """Return a project, the same one for all benchmarks."""
    key = shop.name, name
    if key not in _PROJECTS:
        _PROJECTS[key] = shop.project(name, *extras, packages=packages)
    return _PROJECTS[key]


def _cold(folder: Path, name: str, *, reproducible: bool) -> Made:
    """Build from a filled store into the newer engine, nothing built, against all of BuildKit's ways."""
    shop, engine = workshop(name), new_engine(name)
    project = _project(shop, "small-0", SMALL_WHEELS[0])
    shop.build(project, engine.host)
    size = shop.size(project)

    def sweep() -> None:
        project.forget()
        engine.sweep()
        shop.forget_derived()
        (folder / "image.tar").unlink(missing_ok=True)

    system = shop.save_system(project)

    def sweep_but_system() -> None:
        sweep()
        shop.restore_system(system)

    ours = partial(
        Case,
        command=[*engine.inside, *_BUILD],
        cwd=project.folder,
        environment=shop.environment(engine.host),
    )
    peer = partial(_peer, engine, project.context, sweep)
    output = f"type=oci,dest={folder / 'image.tar'},rewrite-timestamp=true"
    repeatable = engine.command("uv-reproducible", f"--build-arg=SOURCE_DATE_EPOCH={EPOCH}", "--output", output)
    cases = [
        ours(name="envbuild build (bootstraps the OS too)", prepare=sweep),
        ours(name="envbuild build, its Debian layer in the store", prepare=sweep_but_system),
        peer("(a) BuildKit, pip install", engine.command("pip", "--tag", "bench-pip")),
        peer("(b) BuildKit, uv, cache mount", engine.command("uv", "--tag", "bench-uv")),
    ]
    if reproducible:
        cases.append(peer("(c) BuildKit, uv, rewrite-timestamp, oci file only", repeatable))
    cases.append(
        Case(
            name=f"floor: {size / 1e9:.2f} GB written in one go, synced",
            command=[sys.executable, "-c", _FLOOR, str(size)],
            cwd=folder,
            prepare=lambda: (folder / "floor").unlink(missing_ok=True),
        )
    )
    return f"{shop.requirement} from a filled store, nothing built (Engine 28.5, containerd store)", cases


def _changed(folder: Path, shop: Workshop, *, peers: bool) -> list[Case]:
    """Change one small wheel again and again: an engine that has just removed an image unpacks slowly for a while."""
    old, *new = (_project(shop, f"small-{number}", wheel) for number, wheel in enumerate(SMALL_WHEELS))
    return _after(folder, old, *new, pip=peers, uv=peers)


def _after(folder: Path, old: Project, *changes: Project, pip: bool, uv: bool = True) -> list[Case]:
    """Build ``changes``, a run each, where ``old`` is built: envbuild has its image and layers, uv its cache mount."""
    name = next(key[0] for key, project in _PROJECTS.items() if project is old)
    shop, engine = workshop(name), new_engine(name)
    for project in (old, *changes):
        project.forget()
    engine.sweep()
    shop.forget_derived()
    context, place, turns = folder / "context", folder / "project", itertools.cycle(changes)
    link_tree(old.context, context)
    if uv:
        call(*engine.command("uv", "--tag", "bench-uv"), cwd=context, environment=engine.environment)
        engine.sweep_peers()
    link_tree(changes[0].context, context)
    shop.build(old, engine.host)
    kept = shop.derived()

    def undo() -> None:
        shop.keep_derived(kept)
        engine.sweep_peers()
        os.sync()

    def change() -> None:
        project = next(turns)
        engine.remove(*project.forget())  # built by an earlier run, if there are more of them than changes
        place.unlink(missing_ok=True)
        place.symlink_to(project.folder)
        undo()

    peer = partial(_peer, engine, context, undo)
    ours = Case(
        name="envbuild build",
        command=[*engine.inside, *_BUILD],
        cwd=place,
        environment=shop.environment(engine.host),
        prepare=change,
    )
    by_pip = peer("(a) BuildKit, pip install", engine.command("pip", "--tag", "bench-pip"))
    by_uv = peer("(b) BuildKit, uv, warm cache mount", engine.command("uv", "--tag", "bench-uv"))
    return [ours, *([by_pip] if pip else []), *([by_uv] if uv else [])]


def _peer(engine: NewEngine, context: Path, prepare: Callable[[], None], name: str, command: list[str]) -> Case:
    """Return a contestant that is BuildKit on the newer engine."""
    return Case(name=name, command=command, cwd=context, environment=engine.environment, prepare=prepare, slow=True)


def _buildah(folder: Path, shop: Workshop, project: Project, clean: Callable[[], None]) -> list[Case]:
    """Return buildah with a separate storage, if it is installed."""
    if not shutil.which("buildah"):
        return []
    storage = shop.folder / "storage"
    policy = folder / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
    buildah = ["buildah", "--root", str(storage), "--runroot", f"{storage}-run", "--storage-driver", "overlay"]
    atexit.register(quietly, "umount", str(storage / "overlay"))  # which it mounts on itself
    archive = f"docker-archive:{shop.base_archive()}"
    base = call(*buildah, "pull", "--signature-policy", str(policy), archive, cwd=folder).split()[-1]
    call(*buildah, "tag", base, f"localhost/{BASE}", cwd=folder)

    def sweep() -> None:
        quietly(*buildah, "rmi", "--force", "bench-buildah")
        quietly(*buildah, "rmi", "--prune")
        clean()

    options = [
        "--isolation=oci",
        "--runtime=runc",
        "--network=none",
        "--pull-never",
        "--no-cache",
        "--quiet",
        "--layers=false",
    ]
    policies = ["--signature-policy", str(policy)]
    return [
        Case(
            name="(d) buildah, pip install",
            command=[*buildah, "bud", *options, *policies, "-t", "bench-buildah", "-f", "pip", "."],
            cwd=project.context,
            prepare=sweep,
            slow=True,
        )
    ]


def _require_disk(folder: Path) -> None:
    """Stop where the CUDA environment would fill the disk."""
    if (free := shutil.disk_usage(folder).free) < NEEDED:
        raise SystemExit(f"the CUDA environment needs {NEEDED / 1e9:.0f} GB of free disk, there are {free / 1e9:.0f}")
