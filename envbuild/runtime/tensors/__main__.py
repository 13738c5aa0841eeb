"""Read the files named as arguments, each in a child process, and write what they hold."""

from __future__ import annotations

import os
import sys
from time import monotonic

from .contents import Contents, UnreadableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

BYTES = 32 << 30
"""Bytes of values that are read of all files together."""
MEMORY = 448 << 20
"""Bytes of data that a child may hold: with libraries and what is mapped at a time it stays below 512 MiB."""
ANSWER = 8 << 20
"""Bytes of a child's answer, and of all answers together that name tensors."""
SECONDS = 120.0
"""Time for all files together."""
LISTED = 20_000
"""Tensors that are listed by name; files after that keep the digest of their content only."""
_LISTS = ("tensors", "notes", "bare")
_REGULAR, _KIND = 0o100000, 0o170000
_OLD_TORCH = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_CHUNK = 1 << 20


def main(arguments: Sequence[str]) -> int:
    """Write ``OUTPUT``; prints nothing, whatever libraries print."""
    output, root, sites, *files = arguments
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(silence, descriptor)
    sys.path += sites.split(os.pathsep)
    write(output, read_all(root, files, folder=os.path.dirname(output)))
    return 0


def read_all(
    root: str, files: Sequence[str], seconds: float = SECONDS, budget: int = BYTES, folder: str = ""
) -> dict[str, Any]:
    """Return what each file holds.

    Args:
        root: what ``files`` are relative to.
        seconds: for all files together.
        budget: bytes of values, of all files together.
        folder: on a disk, for large members of compressed archives; without one they are not read.
    """
    import json

    deadline, listed, size = monotonic() + seconds, 0, 0
    found: dict[str, Any] = {}
    libraries = _libraries(root, files)
    for file in files:
        answer = _in_child(os.path.join(root, file), budget, libraries, folder, deadline)
        try:
            entry: dict[str, Any] = json.loads(answer) if isinstance(answer, bytes) else {"unread": answer}
        except ValueError:
            entry = {"unread": "its reader ended without an answer"}
        budget -= entry.pop("bytes", 0)
        listed, size = listed + entry.get("count", 0), size + len(answer)
        if listed > LISTED or size > ANSWER:
            entry = {key: value for key, value in entry.items() if key not in _LISTS}
        found[file] = entry
    return found


def write(path: str, found: dict[str, Any]) -> None:
    """Write the answer, whole or not at all."""
    import json

    with open(f"{path}.tmp", "w", encoding="utf-8") as stream:
        json.dump(found, stream)
    os.replace(f"{path}.tmp", path)


def read_file(path: str, budget: int, libraries: dict[str, Any], folder: str = "") -> dict[str, Any]:
    """Return what one file holds; by its first bytes, not by its name."""
    from .mapping import mapped, release

    contents = Contents(budget, libraries.get("numpy"), release)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_mode & _KIND != _REGULAR or not status.st_size:
                raise UnreadableError("it is empty" if status.st_mode & _KIND == _REGULAR else "it is no regular file")
            whole = mapped(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        with whole as view:
            _read(view, contents, libraries, folder)
    except UnreadableError as error:
        return {"unread": str(error)}
    except OSError as error:
        return {"unread": f"it cannot be read: {error.strerror}"}
    except RecursionError:
        return {"unread": "it is nested too deeply"}
    except MemoryError:
        return {"unread": f"it needs more than {MEMORY >> 20} MiB of memory"}
    except BufferError:  # a view that an error's traceback still holds
        pass
    return {**contents.as_dict(), "bytes": budget - contents.left}


def _read(view: memoryview, contents: Contents, libraries: dict[str, Any], folder: str) -> None:
    from . import of_hdf5, of_numpy, of_safetensors

    start = bytes(view[:32])
    if start.startswith(b"PK"):
        _read_zip(view, contents, libraries, folder)
    elif start.startswith(of_hdf5.MAGIC):
        of_hdf5.read(view, contents, libraries.get("h5py"))
    elif start.startswith(of_numpy.MAGIC):
        of_numpy.read_npy(view, contents)
    elif start.startswith(_OLD_TORCH):
        raise UnreadableError("PyTorch's format from before 1.6 is not read: save it without the old format")
    elif of_safetensors.is_one(view):
        of_safetensors.read(view, contents)
    elif start.startswith(b"\x80"):
        raise UnreadableError("it is a pickle, which only running it could read")
    else:
        raise UnreadableError("it begins like no format that is known")


def _read_zip(view: memoryview, contents: Contents, libraries: dict[str, Any], folder: str) -> None:
    from . import of_hdf5, of_numpy, of_torch
    from .archive import Archive

    archive = Archive(view, folder)
    names = archive.members
    if any(name.rpartition("/")[2] == of_torch.STRUCTURE for name in names):
        of_torch.read(archive, contents)
    elif of_hdf5.CONFIG in names:
        of_hdf5.read_keras(archive, contents, libraries.get("h5py"))
    elif names and all(name.endswith(".npy") for name in names):
        of_numpy.read_npz(archive, contents)
    else:
        raise UnreadableError("it is a zip archive of no kind that is known")
    for part in archive.beside():
        contents.rest("beside", part)


def _libraries(root: str, files: Sequence[str]) -> dict[str, Any]:
    """Import what the files need once, before the children: NumPy if it is there, h5py only for HDF5."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    wanted = ["numpy"]
    if any(file.endswith(".keras") or _is_hdf5(os.path.join(root, file)) for file in files):
        wanted.append("h5py")
    found = {}
    for name in wanted:
        try:
            found[name] = __import__(name)
        except Exception:  # noqa: S112 - it is not there, or broken: then so it is for the program
            continue
    return found


def _is_hdf5(path: str) -> bool:
    from .of_hdf5 import MAGIC

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.read(descriptor, len(MAGIC)) == MAGIC
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _in_child(path: str, budget: int, libraries: dict[str, Any], folder: str, deadline: float) -> bytes | str:
    """Return a child's result for one file, or why there is none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            _limit()
            result = _encoded(read_file(path, budget, libraries, folder))
            while result:
                result = result[os.write(writer, result) :]
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    answer = _answer(reader, deadline)
    if isinstance(answer, str):
        os.kill(child, 9)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if isinstance(answer, bytes) and os.WIFSIGNALED(status):
        return f"its reader was ended by signal {os.WTERMSIG(status)}"
    return answer


def _encoded(found: dict[str, Any]) -> bytes:
    """Return an answer, without the table of tensors where that would be too long."""
    import json

    result = json.dumps(found).encode()
    if len(result) > ANSWER:
        result = json.dumps({key: value for key, value in found.items() if key not in _LISTS}).encode()
    return result


def _limit() -> None:
    """Bound the memory of this process, and leave no core file."""
    import gc
    import resource

    gc.disable()  # it would look at millions of a file's values again and again

    for kind, limit in ((resource.RLIMIT_DATA, MEMORY), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _answer(reader: int, deadline: float) -> bytes | str:
    """Read to the end; why not, if that is not before the deadline or too far away."""
    import select

    parts: list[bytes] = []
    room = ANSWER
    while select.select([reader], [], [], max(0.0, deadline - monotonic()))[0]:
        data = os.read(reader, _CHUNK)
        if not data:
            return b"".join(parts)
        parts.append(data)
        room -= len(data)
        if room < 0:  # a file may have made its library its own
            return "its reader gave more than an answer"
    return "reading took too long"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
