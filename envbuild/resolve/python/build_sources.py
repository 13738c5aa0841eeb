"""Where archives of standalone Pythons come from: the configured mirror or folder, else where uv gets them.

A mirror has the archives as the project's releases do, ``ROOT/RELEASE/FILE``: uv's own convention, so that one mirror
serves both. None of this is in a lock, and no address is built in: without a mirror the list of the installed uv names
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, unquote, urlsplit

from envbuild.core.fs import open_regular
from envbuild.core.settings import setting
from envbuild.errors import IntegrityError, ResolveError, UsageError
from envbuild.net.config import redacted, uv_setting
from envbuild.resolve.python.builds import FILE
from envbuild.resolve.python.uv import find_uv

if TYPE_CHECKING:
    from envbuild.core.progress import Progress
    from envbuild.net.config import NetworkConfig
    from envbuild.net.http import Http

VARIABLE = "ENVBUILD_PYTHON_MIRROR"
UV_VARIABLE = "UV_PYTHON_INSTALL_MIRROR"
_MIRROR = re.compile(r"(?:https?|file)://[^\s\"'\\]+|/[^\0\n]*")
_CHUNK = 1 << 20
_AS_SENT = {"decode_content": False}
_LIMIT = 1 << 30
"""Most bytes of an archive; those of today have 30 MB."""
_HINT = f"check the network; a mirror or a folder with the archives: export {VARIABLE}=ADDRESS"


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """An archive that was read: its size in bytes, its SHA-256, and where it came from, for messages."""

    size: int
    sha256: str
    source: str


def addresses(path: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return where an archive may be, best first: URLs, or absolute paths.

    Args:
        path: below a mirror's root, as a lock names it.
        environ: variables of the process; ``os.environ`` if absent.

    Raises:
        UsageError: the configured mirror is no http, https or file address and no absolute path.
        ResolveError: none is configured, and uv is missing or lists no build.
    """
    root = mirror(os.environ if environ is None else environ)
    folder = _folder(root)
    if not root:
        return (f"{_uv_root()}/{quote(path)}",)
    if not folder:
        return (f"{root}/{quote(path)}",)
    name = path.rsplit("/", 1)[-1]
    return tuple(f"{folder}/{place}" for place in (path, quote(path), name, quote(name)))


def own_list(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the list of builds (``pythons.toml``) that a configured folder has; raises as ``mirror`` does."""
    folder = _folder(mirror(os.environ if environ is None else environ))
    path = Path(folder, FILE)
    return path if folder and path.is_file() else None


def _folder(root: str) -> str:
    """Return the folder that a mirror is; empty if it is none of this machine's."""
    return unquote(urlsplit(root).path).rstrip("/") if root.startswith("file:") else root if root[:1] == "/" else ""


def mirror(environ: Mapping[str, str]) -> str:
    """Return the configured mirror's root or folder without trailing slashes; empty if there is none.

    ``ENVBUILD_PYTHON_MIRROR`` (``python-mirror`` in a file) comes before uv's ``UV_PYTHON_INSTALL_MIRROR``
    (``python-install-mirror``).

    Raises:
        UsageError: it is no http, https or file address and no absolute path.
    """
    found = (
        setting("python-mirror", environ) or environ.get(UV_VARIABLE) or uv_setting("python-install-mirror", environ)
    )
    if found and not _MIRROR.fullmatch(found):
        raise UsageError(
            f"the mirror of standalone Pythons: expected an http, https or file address or an absolute path, "
            f"found {redacted(found)!r}",
            f"correct {VARIABLE}, {UV_VARIABLE} or the setting python-mirror",
        )
    return found.rstrip("/")


def download(path: str, target: Path, network: NetworkConfig, progress: Progress) -> Found:
    """Write an archive whose digest nobody stated to ``target``, from the first place that has it.

    Args:
        path: below a mirror's root.

    Raises:
        IntegrityError: no place has it; all of them are named. UsageError, ResolveError: as for ``addresses``.
    """
    from envbuild.net.http import Http, HttpError

    reasons = []
    http = Http(network, connections=1)
    try:
        for source in addresses(path):
            try:
                with target.open("wb") as output, progress.phase("python: download") as advance:
                    return _draw(source, output, http, advance)
            except HttpError as error:
                reasons.append(f"  {redacted(source)}: {error}")
            except OSError as error:
                reasons.append(f"  {redacted(source)}: {error.strerror or error}")
    finally:
        http.close()
    name = path.rsplit("/", 1)[-1]
    raise IntegrityError("\n".join([f"{name} could not be fetched", *reasons]), _HINT)


def _draw(source: str, output: BinaryIO, http: Http, advance: Callable[[int], None]) -> Found:
    """Copy one source; raises ``HttpError`` or ``OSError``."""
    import urllib3

    from envbuild.net.http import HttpError, explain

    digest, size = hashlib.sha256(), 0
    stream, options = (open_regular(Path(source)), {}) if source.startswith("/") else (http.open(source), _AS_SENT)
    try:
        while chunk := stream.read(_CHUNK, **options):
            size += len(chunk)
            if size > _LIMIT:
                raise HttpError(f"more than {_LIMIT} bytes", transient=False)
            digest.update(chunk)
            output.write(chunk)
            advance(len(chunk))
    except urllib3.exceptions.HTTPError as error:
        raise explain(error) from error
    finally:
        stream.close()
    return Found(size=size, sha256=digest.hexdigest(), source=redacted(source))


@cache
def _uv_root() -> str:
    """Return the root of the addresses that uv lists; raises ``ResolveError``."""
    command = [find_uv(), "python", "list", "--all-versions", "--show-urls", "--output-format", "json", "--offline"]
    command += ["--python-preference", "only-managed", "--no-config"]
    done = subprocess.run(command, check=False, capture_output=True, env=_clean())
    try:
        urls = [str(entry["url"]) for entry in json.loads(done.stdout) if entry.get("url")]
        return next(url for url in urls if "/cpython-" in url).rsplit("/", 2)[0]
    except (ValueError, KeyError, TypeError, StopIteration):
        raise ResolveError("the installed uv does not state where standalone Pythons are", _HINT) from None


def _clean() -> dict[str, str]:
    """Return the environment without uv's own mirror: the root is asked for, and a mirror is read here."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UV_PYTHON")}
