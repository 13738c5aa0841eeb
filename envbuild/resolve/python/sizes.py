"""Sizes and digests that an index did not give.

The size of a file never changes once its digest is known, so it is asked for once and kept. A missing digest is made
by downloading the file: that is reported, since it costs time and the index is to blame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envbuild.core.digest import SHA256, canonical_json, sha256_file
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import atomic_write, locked
from envbuild.errors import IntegrityError
from envbuild.resolve.python.wheels import Candidate

if TYPE_CHECKING:
    from envbuild.core.progress import Progress
    from envbuild.net.config import NetworkConfig
    from envbuild.net.http import Http

_FILE = "wheel-sizes.json"
_THREADS = 8


def complete(
    candidates: Sequence[Candidate],
    cache_dir: Path,
    network: NetworkConfig,
    progress: Progress,
    known: Mapping[str, int] | None = None,
) -> tuple[list[Candidate], list[str]]:
    """Return the wheels, each with its SHA-256 and its size in bytes, and notes on what was odd.

    Args:
        cache_dir: folder in which sizes are kept.
        known: sizes by SHA-256 that an earlier lock holds.

    Raises:
        IntegrityError: a file cannot be reached, or a local one is missing.
    """
    sizes = {**_load(cache_dir), **(known or {})}
    filled = [replace(c, size=sizes.get(c.sha256)) if c.size is None and c.sha256 else c for c in candidates]
    lacking = [index for index, c in enumerate(filled) if not c.sha256 or c.size is None]
    notes = []
    if lacking:
        from envbuild.net.http import Http

        http = Http(network, connections=_THREADS)
        try:
            with progress.phase("sizes", len(lacking), unit="wheels") as advance, ThreadPoolExecutor(_THREADS) as pool:
                for index, found in zip(lacking, pool.map(lambda i: _fill(filled[i], http), lacking), strict=True):
                    if not filled[index].sha256:
                        notes.append(f"{_where(found)} gives no SHA-256 for {found.file}: downloaded and hashed it")
                    filled[index] = found
                    advance(1)
        finally:
            http.close()
        _save(cache_dir, (filled[index] for index in lacking))
    return filled, notes


def _fill(candidate: Candidate, http: Http) -> Candidate:
    """Find the size of one wheel, and its digest if that is missing too."""
    if "://" in candidate.location:
        return _fill_remote(candidate, http)
    path = Path(candidate.location)
    try:
        digest = candidate.sha256 or sha256_file(path)
        return replace(candidate, sha256=digest, size=path.stat().st_size)
    except OSError as error:
        raise IntegrityError(f"cannot read the wheel {path}: {error.strerror}") from None


def _fill_remote(candidate: Candidate, http: Http) -> Candidate:
    """Ask the server of one wheel."""
    from urllib3.exceptions import HTTPError

    from envbuild.net.http import HttpError, finish

    try:
        response = http.open(candidate.location)
        try:
            length = response.headers.get("Content-Length", "")
            if candidate.sha256 and length.isascii() and length.isdigit():
                finish(response)
                return replace(candidate, size=int(length))
            digest, size = hashlib.sha256(), 0
            for chunk in response.stream(1 << 20, decode_content=False):
                digest.update(chunk)
                size += len(chunk)
        finally:
            response.close()
    except (HttpError, HTTPError, OSError) as error:
        raise IntegrityError(
            f"{candidate.file}: {_where(candidate)} does not give it: {error}",
            "lock again; if it stays so, ask the operator of that index",
        ) from None
    if candidate.sha256 and digest.hexdigest() != candidate.sha256:
        raise IntegrityError(
            f"{candidate.file}: its index lists sha256 {candidate.sha256}, but {_where(candidate)} gives "
            f"{digest.hexdigest()}"
        )
    return replace(candidate, sha256=digest.hexdigest(), size=size)


def _where(candidate: Candidate) -> str:
    """Return the host or folder that holds a wheel."""
    if "://" in candidate.location:
        return urlsplit(candidate.location).hostname or candidate.location
    return str(Path(candidate.location).parent)


def _load(cache_dir: Path) -> dict[str, int]:
    """Return the sizes kept; anything unreadable counts as nothing kept."""
    with suppress(OSError, ValueError):
        table = parse_json((cache_dir / _FILE).read_bytes())
        if isinstance(table, dict):
            return {key: size for key, size in table.items() if SHA256.fullmatch(key) and isinstance(size, int)}
    return {}


def _save(cache_dir: Path, candidates: Iterable[Candidate]) -> None:
    """Keep sizes, together with what other commands kept meanwhile; a read-only cache is no failure."""
    with suppress(OSError), locked(cache_dir / f"{_FILE}.lock"):
        fresh = {c.sha256: c.size for c in candidates if c.size is not None}
        atomic_write(cache_dir / _FILE, canonical_json({**_load(cache_dir), **fresh}))
