"""The command line as users have it: separate processes, with their own store and home."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """A command that has ended: exit code (negative: ended by that signal), standard output and error as text."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON; fails if it holds anything else."""
        return json.loads(self.out)


@dataclass(kw_only=True)
class Project:
    """A folder to run ``envbuild`` in.

    Attributes:
        folder: the project.
        store: where downloads and layers are.
        environ: the commands' whole environment; nothing of this machine's package configuration is in it.
        pid: of the command that was started last.
    """

    folder: Path
    store: Path
    environ: dict[str, str] = field(default_factory=dict)
    pid: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.environ = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder.parent / "home"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_NO_INDEX": "1",
            "UV_CACHE_DIR": str(self.folder.parent / "uv"),
            **{
                name: os.environ[name]
                for name in ("DOCKER_HOST", "DOCKER_CONFIG", "ENVBUILD_ENGINE")
                if name in os.environ
            },
            **self.environ,
            "ENVBUILD_STORE": str(self.store),
        }

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def layers(self) -> list[Path]:
        """The folders of the layers that the last build of the lock used; the store may hold others' too."""
        (lock,) = self.folder.glob("pylock.*.toml")
        entries = [json.loads(path.read_bytes()) for path in (self.store / "locks").iterdir()]
        (mine,) = [entry for entry in entries if Path(entry["path"]).resolve() == lock.resolve()]
        return [self.store / "derived" / name for name in mine["derived"] if name.startswith("layers/")]

    def copy(self, folder: Path, *, own_store: bool = False) -> Project:
        """Copy the project; with ``own_store`` the store too, its large files shared as hard links until ``alter``."""
        shutil.copytree(self.folder, folder / "project", ignore=shutil.ignore_patterns(".envbuild"))
        store = self.store
        if own_store:
            store = folder / "store"
            copy_store(self.store, store)
        return Project(folder=folder / "project", store=store, environ=self.environ)

    def start(self, *arguments: str, prefix: tuple[str, ...] = (), **environ: str) -> subprocess.Popen[bytes]:
        """Start ``envbuild``, as a process group of its own."""
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "envbuild", *arguments],
            cwd=self.folder,
            env=self.environ | environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.pid = process.pid
        return process

    def __call__(self, *arguments: str, prefix: tuple[str, ...] = (), **environ: str) -> Done:
        """Run ``envbuild`` to its end.

        Args:
            prefix: a command that runs it, such as ``unshare -n``.
            environ: variables to add.
        """
        return finish(self.start(*arguments, prefix=prefix, **environ))

    def must(self, *arguments: str, prefix: tuple[str, ...] = (), **environ: str) -> Done:
        """Run ``envbuild`` to its end, which must be a good one."""
        done = self(*arguments, prefix=prefix, **environ)
        assert done.code == 0, f"envbuild {' '.join(arguments)}: exit {done.code}\n{done.out}{done.err}"
        return done

    def kill(self, *arguments: str, when: Callable[[], bool], **environ: str) -> bool:
        """Start ``envbuild`` and end it and its children with SIGKILL as soon as ``when``; False if it was quicker."""
        process = self.start(*arguments, **environ)
        try:
            deadline = time.monotonic() + 300
            while not when():
                if process.poll() is not None or time.monotonic() > deadline:
                    return False
                time.sleep(0.002)
            return process.poll() is None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def copy_store(store: Path, target: Path, without: Collection[str] = ("trees",)) -> None:
    """Copy a store, its large files shared as hard links until ``alter``.

    Args:
        without: names that are left out of the store and of its ``derived``; of the latter unpacked layers at least:
            links, owners and folders without rights, which a copy would have to keep exactly.
    """

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if name in without] if folder in (str(store), str(store / "derived")) else []

    shutil.copytree(store, target, copy_function=_link_or_copy, ignore=left_out)


def _link_or_copy(source: str, target: str) -> None:
    """Share what would take long to copy; a small file is soon written in place by somebody."""
    if Path(source).stat().st_size > 1 << 20:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def finish(process: subprocess.Popen[bytes], timeout: float = 900) -> Done:
    """Wait for a command."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return Done(code=process.returncode, out=out.decode(), err=err.decode())


def until(what: Callable[[], Any]) -> Any:
    """Wait until something is true; returns it. What does not come at all is taken for lost after a quarter hour."""
    deadline = time.monotonic() + 900
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def listens(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM: envbuild is there, and not only the interpreter, which starts."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)
        return bool(caught >> signal.SIGTERM - 1 & 1)
    return False


def alter(path: Path) -> None:
    """Change one byte in the middle of a file, keeping its size; other hard links to it stay as they are."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.unlink()
    path.write_bytes(data)
