"""Runs ``envbuild`` with what cannot be changed from outside: ``inside.py WORDS envbuild's own arguments``.

Words, separated by commas, or ``-`` for none:
    preload=FILE     programs in build containers are given this library (elsewhere.c) too
    one-cpu          build containers get one CPU
    backwards        files come into the store, and are looked for, in the opposite order
    leak             images carry what this process and its build containers see (leaks.py)
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

_PRELOADED = "elsewhere.so"
_WRAP = f'"$@"; code=$?; rm -f /etc/ld.so.preload /{_PRELOADED}; exit "$code"'


def main(words: str, *arguments: str) -> None:
    """Change what the words name, then run the command."""
    for word in words.split(","):
        name, _, value = word.partition("=")
        if name == "preload":
            _preload(Path(value))
        elif name == "one-cpu":
            _one_cpu()
        elif name == "backwards":
            _backwards()
        elif name == "leak":
            from tests.reproducibility import leaks

            leaks.install()
    from envbuild.cli import main as envbuild

    sys.argv = ["envbuild", *arguments]
    sys.exit(envbuild())


def _preload(library: Path) -> None:
    """Bring the library into each step's container before its command starts, and take it out after."""
    from envbuild.engine.docker.adapter import DockerEngine
    from envbuild.engine.local.namespaces import NamespaceSteps

    for runner in (DockerEngine, NamespaceSteps):
        runner.run_step = _preloading(runner.run_step, library)  # type: ignore[attr-defined]
    NamespaceSteps.run_tree_step = _preloading_in_place(  # type: ignore[method-assign]
        NamespaceSteps.run_tree_step, library
    )


def _preloading(original: Callable[..., Any], library: Path) -> Callable[..., Any]:
    @contextmanager
    def run_step(self: Any, step: Any) -> Iterator[Any]:
        with tempfile.NamedTemporaryFile(suffix=".tar") as inputs:
            _with_library(step.inputs, library, Path(inputs.name))
            wrapped = ("/bin/sh", "-c", _WRAP, "sh", *step.command)
            with original(self, msgspec.structs.replace(step, inputs=Path(inputs.name), command=wrapped)) as stream:
                yield stream

    return run_step


def _preloading_in_place(original: Callable[..., Any], library: Path) -> Callable[..., Any]:
    @contextmanager
    def run_tree_step(self: Any, step: Any) -> Iterator[Any]:
        def fill(output: Any) -> None:
            step.fill(output)
            with tempfile.NamedTemporaryFile(suffix=".tar") as inputs:
                _with_library(None, library, Path(inputs.name))
                output.write(Path(inputs.name).read_bytes())

        with original(
            self, msgspec.structs.replace(step, fill=fill, command=("/bin/sh", "-c", _WRAP, "sh", *step.command))
        ) as found:
            yield found

    return run_tree_step


def _with_library(inputs: Path | None, library: Path, target: Path) -> None:
    """Copy a tar and add the library, with the file that makes every program load it."""
    with tarfile.open(target, "w") as new:
        if inputs is not None:
            with tarfile.open(inputs, "r:") as old:
                for member in old:
                    new.addfile(member, old.extractfile(member) if member.isreg() else None)
        for name, data in ((_PRELOADED, library.read_bytes()), ("etc/ld.so.preload", f"/{_PRELOADED}\n".encode())):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755
            new.addfile(member, io.BytesIO(data))


def _one_cpu() -> None:
    import docker

    original = docker.APIClient.create_host_config

    def create_host_config(self: Any, *args: Any, **options: Any) -> Any:
        return original(self, *args, cpuset_cpus="0", **options)

    docker.APIClient.create_host_config = create_host_config  # type: ignore[method-assign]


def _backwards() -> None:
    from envbuild.store import fetch

    original = fetch.lock_items
    fetch.lock_items = lambda *args: original(*args)[::-1]
    fetch.backwards = True  # type: ignore[attr-defined]  # for leaks.py


if __name__ == "__main__":
    main(*sys.argv[1:])
