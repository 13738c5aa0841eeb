"""Makers of locks and of runtime trees: the runtime layer on a temporary path, as a site folder an interpreter uses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.digest import sha256_bytes
from envbuild.image.runtime import files
from envbuild.lockfile import layout
from envbuild.lockfile.model import Determinism, Hardware, Lock, Os, Python, PythonPackage, Wheel
from envbuild.record import processes
from envbuild.runtime import fastjson
from envbuild.runtime.guard import gate

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"

SHARED = ("parameters", "configs", "modules", "reads", "reads_left_out", "objects")
"""What a record lists once for all processes."""


def make_lock(**changes: Any) -> Lock:
    """Make a small valid lock; ``packages`` may be a mapping of names to versions."""
    packages = changes.pop("packages", {"numpy": "2.4.6"})
    if isinstance(packages, Mapping):
        packages = tuple(
            PythonPackage(
                name=name,
                version=version,
                wheel=Wheel(name=f"{name.replace('-', '_')}-{version}-py3-none-any.whl", size=1, sha256="0" * 64),
            )
            for name, version in packages.items()
        )
    values: dict[str, Any] = {
        "name": "digits",
        "resolution": {"spec": "0" * 64},
        "os": Os(release="debian-12", architecture="amd64"),
        "python": Python(version=VERSION, executable=f"/usr/bin/python{VERSION}", platform="manylinux_2_36_x86_64"),
        "packages": packages,
        "frameworks": {},
        "hardware": Hardware(kernel=">=3.10", cpu="any"),
        "determinism": Determinism(level="ops", seed=42, threads=1),
        "environment": {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "42"},
    }
    return Lock(**{**values, **changes})


@dataclass
class Tree:
    """A runtime on a temporary path: ``site`` holds the start-up file, ``run`` gets the records."""

    lock: Lock
    root: Path
    site: Path
    run: Path
    python: str

    def execute(
        self,
        *arguments: str,
        variables: Mapping[str, str] = {},
        marked: bool = True,
        check: bool = True,
        folder: Path | None = None,
        timeout: int = 900,
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter with the site folder; ``marked``: as if the entry point's gate had passed.

        Args:
            arguments: of the interpreter.
            variables: over those of the lock.
            marked: whether the check at start-up is skipped.
            check: whether another exit code than 0 is an error.
            folder: working directory; the tree's root by default.
            timeout: in seconds.
        """
        environment = {"PATH": f"{Path(self.python).parent}:/usr/bin:/bin", **self.lock.environment, **variables}
        if marked:
            environment[gate.MARKER] = gate.marker(files.expectations(self.lock)["identity"])
        done = subprocess.run(
            [self.python, *arguments],
            env=environment,
            cwd=folder or self.root,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all processes, by their path in the run; each must read as a ``ProcessRecord``."""
        found = [json.loads(path.read_text()) for path in self.run.glob("process-*.json")]
        for table in found:
            own = {key: value for key, value in processes.encodable(table).items() if key not in SHARED}
            read = msgspec.to_builtins(msgspec.convert(table | own, processes.ProcessRecord))
            assert json.dumps(read) == json.dumps(own), "ProcessRecord differs from what the hook writes"
        return sorted(found, key=lambda record: str(record["path"]))


def make_tree(root: Path, lock: Lock, *, python: str = sys.executable, paths: Sequence[Path] = ()) -> Tree:
    """Lay the runtime of a lock out below ``root`` as a separate environment for ``python``.

    Args:
        root: an empty folder that represents the image's ``/``.
        lock: the lock.
        python: base interpreter.
        paths: further folders of packages.
    """
    run = root / "run"
    run.mkdir(parents=True)
    prefix = root / "opt" / "env"
    subprocess.run([python, "-m", "venv", "--without-pip", prefix], check=True)
    version = subprocess.run(
        [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], check=True, capture_output=True, text=True
    ).stdout.strip()
    site = prefix / "lib" / f"python{version}" / "site-packages"
    written = {}
    for path, file in files.runtime_files(lock).items():
        target = site / Path(path).name if path.endswith(".pth") else root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        data = file.data.replace(layout.RUNTIME_PREFIX.encode(), f"{root}{layout.RUNTIME_PREFIX}".encode())
        written[str(target)] = data.replace(layout.RUN_DIR.encode(), str(run).encode())
        target.write_bytes(written[str(target)])
    expect = files.expectations(lock, {path: data for path, data in written.items() if "expect" not in path})
    expect = {**expect, "site": str(site), "interpreter": str(prefix / "bin" / "python")}
    document = {"sha256": sha256_bytes(fastjson.dumps(expect).encode()), "expect": expect}
    (root / layout.EXPECT_PATH.lstrip("/")).write_text(fastjson.dumps(document))
    for package in lock.packages:
        info = site / f"{package.name.replace('-', '_')}-{package.version}.dist-info"
        info.mkdir()
        (info / "METADATA").touch()
        (info / "RECORD").write_text("zz-paths.pth,,\n")
    (site / "zz-paths.pth").write_text("".join(f"{path}\n" for path in paths))
    return Tree(lock=lock, root=root, site=site, run=run, python=str(prefix / "bin" / "python"))
