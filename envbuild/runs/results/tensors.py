"""The tensors of saved models: read in the image after the program, in a separate container.

Why another container: the guard has become the program and nothing of envbuild is left in its container; a reader in
there would share its memory limit, its network and its writable project, and would be gone with it. In one of its own
it has the environment's h5py and NumPy, no network, and the project read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec

from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import read_foreign
from envbuild.engine.protocol import ContainerRun, ContainerRunner, Mount
from envbuild.errors import EngineError
from envbuild.lockfile import layout
from envbuild.record.model import Output, Tensor
from envbuild.record.processes import ForeignPackage

SUFFIXES: Final = (".npy", ".npz", ".safetensors", ".pt", ".pth", ".ckpt", ".h5", ".hdf5", ".keras")
MIXED: Final = {".bin": b"PK"} | dict.fromkeys(
    (".nc", ".nc4", ".cdf", ".hdf", ".he5", ".h5ad", ".h5mu", ".loom", ".mat"),
    b"\x89HDF\r\n\x1a\n",
)
"""Suffixes that much else has too: read if the file begins like this. NetCDF 4 and MATLAB's 7.3 are HDF5."""
CHECKPOINTS: Final = {
    ".index": "a checkpoint of TensorFlow, which only TensorFlow reads",
    ".ocdbt": "a checkpoint of Orbax, which only Orbax reads",
}
"""Files next to which others hold tensors that are never read here, by suffix."""
FILES = 200
"""Files that are read."""
_LIBRARY = f"{layout.RUNTIME_PREFIX}/lib"
_PROGRAM = (
    f"import sys; sys.path.insert(0, {_LIBRARY!r}); "
    "from _envbuild.tensors.__main__ import main; sys.exit(main(sys.argv[1:]))"
)
_LIBRARIES = ("h5py", "numpy")
"""What the reader takes from the environment."""
_ANSWER = "tensors.json"
_TOO_LARGE = 1 << 24
"""Bytes of the answer."""
_REASON = 300


def saved_models(project: Path, outputs: Iterable[Output]) -> list[str]:
    """Name the outputs that may hold tensors, by suffix."""
    return [output.path for output in outputs if output.sha256 and _may_hold(project / output.path)]


def with_tensors(outputs: Iterable[Output], found: Mapping[str, Any], asked: Sequence[str]) -> tuple[Output, ...]:
    """Put what was found into the outputs.

    Args:
        outputs: of the run.
        found: the reader's answer by path; whatever it is.
        asked: paths that should be in it.
    """
    return tuple(_with(output, found.get(output.path)) if output.path in asked else output for output in outputs)


def with_reasons(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """Name the library for each checkpoint that is not read here; TensorFlow's only with its data next to it."""
    with_data = {output.path.rpartition(".data-")[0] for output in outputs}

    def reason(output: Output) -> str:
        stem, dot, suffix = output.path.rpartition(".")
        return CHECKPOINTS.get(dot + suffix, "") if suffix != "index" or stem in with_data else ""

    return tuple(msgspec.structs.replace(each, unread=why) if (why := reason(each)) else each for each in outputs)


def read(
    engine: ContainerRunner,
    program: ContainerRun,
    project: Path,
    folder: Path,
    python: str,
    files: Sequence[str],
    packages: Iterable[ForeignPackage] = (),
) -> dict[str, Any]:
    """Have files read in the image of a run and return the answer: for each file what is in it, or why not.

    Args:
        engine: runs the container.
        program: the run that has ended; image, user and limits are its own.
        project: what the files are relative to; mounted read-only.
        folder: the run's folder, where the answer is written.
        python: version of the environment's Python, such as ``3.11``.
        files: saved models.
        packages: what the run imported from elsewhere than the image: libraries that are mounted read-only are used.
    """
    answer = folder / _ANSWER
    why = "its reader gave no answer"
    try:
        answer.unlink(missing_ok=True)
        code = engine.run_container(_container(program, project, folder, python, files[:FILES], packages))
        if code:
            why = f"its reader ended with exit code {int(code)}"
        elif (data := read_foreign(answer, _TOO_LARGE)) is not None:
            found = dict(parse_json(data))
            return found | {path: {"unread": f"only {FILES} files of a run are read"} for path in files[FILES:]}
    except EngineError as error:
        why = error.message
    except (OSError, ValueError, TypeError, RecursionError):
        pass
    return {path: {"unread": why} for path in files}


def _container(
    program: ContainerRun,
    project: Path,
    folder: Path,
    python: str,
    files: Sequence[str],
    packages: Iterable[ForeignPackage],
) -> ContainerRun:
    """Describe the reader's container."""
    sites = [f"{layout.ENV_PREFIX}/lib/python{python}/site-packages"]
    mounts: list[Mount] = []
    for package in packages:
        site = PurePosixPath(package.path).parent
        found = [mount for mount in program.mounts if mount.read_only and site.is_relative_to(mount.target)]
        if package.name.lower() in _LIBRARIES and found and ":" not in str(site):
            sites.append(str(site))
            mounts += (mount for mount in found if mount not in mounts)
    return msgspec.structs.replace(
        program,
        entrypoint=(f"{layout.ENV_PREFIX}/bin/python", "-I", "-S", "-B", "-c", _PROGRAM),
        command=(f"{layout.RUN_DIR}/{_ANSWER}", layout.WORKSPACE, ":".join(dict.fromkeys(sites)), *files),
        # A file lock is a write for some network file systems, and the project is read-only.
        environment={"HDF5_USE_FILE_LOCKING": "FALSE"},
        mounts=(
            Mount(source=project, target=layout.WORKSPACE, read_only=True),
            Mount(source=folder, target=layout.RUN_DIR),
            *mounts,
        ),
        workdir="/",
        network="none",
        interactive=False,
        tty=False,
        scratch=(),
        gpus=None,
        watcher=None,
        tap=None,
        ready=None,
    )


def _may_hold(path: Path) -> bool:
    start = MIXED.get(path.suffix)
    if (path.suffix not in SUFFIXES and start is None) or path.is_symlink():
        return False
    if start is None:
        return True
    with suppress(OSError), path.open("rb") as stream:
        return stream.read(len(start)) == start
    return False


def _with(output: Output, found: Any) -> Output:
    """Return an output with what was found in it; an answer that makes no sense counts as none."""
    try:
        table = msgspec.convert(found, dict[str, Any])
        tensors = msgspec.convert(table.get("tensors", {}), dict[str, Tensor])
        notes = msgspec.convert(table.get("notes", {}), dict[str, str])
        content, bare, why = (str(table.get(key, "")) for key in ("content", "bare", "unread"))
    except msgspec.ValidationError:
        return msgspec.structs.replace(output, unread="its reader gave no answer")
    return msgspec.structs.replace(
        output, tensors=tensors, content=content, notes=notes, bare=bare, unread=why[:_REASON]
    )
