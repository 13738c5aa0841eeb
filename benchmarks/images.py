"""How layers are made: a cold build to a layout against the floor, the OS layer against mmdebstrap.

The store is filled before anything is timed, and nothing asks a network. The floor is a program that writes as many
bytes as the layout has, and waits for the disk.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.cases import ENVBUILD, EXAMPLE, call
from benchmarks.measure import Case
from envbuild.core.digest import sha256_file
from envbuild.image.os.deb import open_deb
from envbuild.lockfile import model as locks
from envbuild.store.objects import Store

_WRITE = (
    "import os, sys\n"
    "left, chunk = int(sys.argv[1]), os.urandom(4 << 20)\n"
    "with open('floor', 'wb', buffering=0) as stream:\n"
    "    while left > 0:\n"
    "        left -= stream.write(chunk)\n"
    "    os.fsync(stream.fileno())\n"
)
_LAYER = (
    "import sys\n"
    "from pathlib import Path\n"
    "from envbuild.lockfile import model as lock\n"
    "from envbuild.engine.docker.adapter import connect\n"
    "from envbuild.image.os.rootfs import build_os_layer\n"
    "from envbuild.core.progress import Silent\n"
    "from envbuild.store.objects import Store\n"
    "build_os_layer(lock.load(Path(sys.argv[1])).os, Store().path, connect(), Path('layer.tar'), Silent())\n"
)
_SYSTEM = "packages: [ca-certificates]\n"
_MERGED = "/usr/share/mmdebstrap/hooks/merged-usr"


def cold(folder: Path) -> tuple[str, list[Case]]:
    """The example's image from a filled store, nothing built, to an OCI layout; TensorFlow for CPUs."""
    project = _project(folder / "project", "bench-cold", EXAMPLE.joinpath("spec.yaml").read_text())
    store = _store(project, folder / "store")
    return _cold(folder, project, store, "cold build to a layout, TensorFlow for CPUs")


def cuda(folder: Path) -> tuple[str, list[Case]]:
    """The same with TensorFlow and CUDA; needs about 20 GB of disk."""
    spec = "requirements: ['tensorflow[and-cuda]==2.21.*']\ncuda: auto\n"
    project = _project(folder / "project", "bench-cuda", spec)
    return _cold(folder, project, _store(project, folder / "store"), "cold build to a layout, TensorFlow and CUDA")


def system(folder: Path) -> tuple[str, list[Case]]:
    """The layer of the OS with Python alone, against mmdebstrap with the same packages from a local repository."""
    project = _project(folder / "project", "bench-system", _SYSTEM)
    store = _store(project, folder / "store")
    lock = locks.load(project / "pylock.bench-system.toml")
    repository = _repository(lock, Store(folder / "store"), folder / "repository")
    names = ",".join(package.name for package in lock.os.packages)
    ours = [sys.executable, "-c", _LAYER, str(project / "pylock.bench-system.toml")]
    options = ["--mode=root", "--variant=essential", "--quiet", f"--include={names}", f"--hook-dir={_MERGED}"]
    source = f"deb [trusted=yes] copy://{repository} ./"
    return f"the OS layer, cold, {len(lock.os.packages)} packages", [
        Case(name="envbuild's OS layer", command=ours, cwd=folder, environment=store),
        Case(name="mmdebstrap", command=["mmdebstrap", *options, "", "os.tar", source], cwd=folder),
    ]


def _cold(folder: Path, project: Path, store: dict[str, str], title: str) -> tuple[str, list[Case]]:
    ours = [ENVBUILD, "build", "--quiet", "--offline", "--output", "oci:out"]
    forget = _forget(folder)
    forget()
    call(*ours, cwd=project, environment=store)
    size = sum(path.stat().st_size for path in (project / "out" / "blobs" / "sha256").iterdir())
    floor = [sys.executable, "-c", _WRITE, str(size)]
    return f"{title}, {size / 1e9:.1f} GB", [
        Case(name="envbuild build", command=ours, cwd=project, environment=store, prepare=forget),
        Case(
            name="the same bytes written",
            command=floor,
            cwd=folder,
            prepare=lambda: (folder / "floor").unlink(missing_ok=True),
        ),
    ]


def _project(folder: Path, name: str, spec: str) -> Path:
    """A locked and fetched project."""
    folder.mkdir(parents=True)
    lines = [line for line in spec.splitlines() if not line.startswith("name:")]
    (folder / "spec.yaml").write_text("\n".join([f"name: {name}", *lines]) + "\n")
    call(ENVBUILD, "lock", "spec.yaml", cwd=folder)
    call(ENVBUILD, "fetch", cwd=folder)
    return folder


def _store(project: Path, root: Path) -> dict[str, str]:
    """Fill a separate store with a project's files, as hard links; returns the variable that names it."""
    shared, own = Store(), Store(root)
    (path,) = project.glob("pylock.*.toml")
    lock = locks.load(path)
    wheels = [package.wheel.sha256 for package in lock.packages]
    for sha256 in [*wheels, *(package.sha256 for package in lock.os.packages)]:
        target = own.path(sha256)
        own.make_folder(target.parent)
        if not target.exists():
            os.link(shared.path(sha256), target)
    return {"ENVBUILD_STORE": str(root)}


def _forget(folder: Path) -> Callable[[], None]:
    """Return what removes all that was made."""

    def forget() -> None:
        shutil.rmtree(folder / "store" / "derived", ignore_errors=True)
        shutil.rmtree(folder / "project" / "out", ignore_errors=True)

    return forget


def _repository(lock: locks.Lock, store: Store, folder: Path) -> Path:
    """A flat repository of a lock's packages, as apt reads it (``Packages``, sources.list(5))."""
    folder.mkdir()
    folder.chmod(0o755)
    stanzas = []
    for package in lock.os.packages:
        path = folder / package.file
        os.link(store.path(package.sha256), path)
        fields = open_deb(path).fields()
        fields |= {"Filename": f"./{path.name}", "Size": str(path.stat().st_size), "SHA256": sha256_file(path)}
        stanzas.append("".join(f"{name}: {value}\n" for name, value in fields.items()))
    (folder / "Packages").write_text("\n".join(stanzas))
    return folder


BENCHMARKS: dict[str, Callable[[Path], tuple[str, list[Case]]]] = {
    "image-cold": cold,
    "image-cuda": cuda,
    "image-system": system,
}
