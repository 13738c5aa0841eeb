"""An image in a file: an OCI image layout, as a folder or a tar archive, read as a registry's repository is.

Source: OCI image specification 1.1, image-layout.md. Nothing in it is believed: paths are made of digests alone, links
are not followed, every blob is checked where it is read.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from envbuild.core.blob import Blob
from envbuild.core.foreign_json import parse_json
from envbuild.core.fs import folder_below, open_regular
from envbuild.core.progress import Advance, Progress
from envbuild.errors import IntegrityError, UsageError
from envbuild.net.transfer import Destination, P
from envbuild.registry.reference import DIGEST
from envbuild.registry.repository import OCI_INDEX, Manifest, descriptors

SCHEME = "oci:"
_INDEX, _BLOBS = "index.json", ("blobs", "sha256")
_LARGEST = 4 << 20
"""Bytes of an index or manifest."""
_MEMBERS = 100_000
"""Entries of an archive that are looked at."""
_PIECE = 1 << 20
_AGAIN = "it is no whole OCI layout: make or copy it again"


@dataclass(frozen=True, kw_only=True, slots=True)
class LayoutReference:
    """An image in a file.

    Attributes:
        path: the layout, a folder or an archive.
        digest: of the manifest or index, SHA-256 in hexadecimal; empty if none is named.
    """

    path: Path
    digest: str = ""

    @property
    def name(self) -> str:
        """What people call the layout."""
        return f"{SCHEME}{self.path}"

    @property
    def target(self) -> str:
        """The digest that is asked for; empty for the one image that the layout has."""
        return f"sha256:{self.digest}" if self.digest else ""

    def __str__(self) -> str:
        """Write it as people do."""
        return f"{self.name}@{self.target}" if self.digest else self.name


def parse_layout(text: str) -> LayoutReference | None:
    """Read ``oci:PATH`` or ``oci:PATH@sha256:…``; None for other texts.

    Raises:
        UsageError: there is no such file or folder, or the digest is none.
    """
    if not text.startswith(SCHEME) or text.startswith(f"{SCHEME}//"):
        return None
    name, at, digest = text.removeprefix(SCHEME).partition("@sha256:")
    found = DIGEST.fullmatch(f"sha256:{digest}") if at else None
    if at and found is None:
        raise UsageError(
            f"{text}: expected 64 lower-case hexadecimal digits behind @sha256:", f"such as {SCHEME}{name}"
        )
    path = Path(name)
    if not name or not path.exists():
        raise UsageError(f"{text}: there is no such layout", "make one: envbuild build --output oci:DIR")
    return LayoutReference(path=path, digest=digest)


class LayoutSource:
    """The images of a layout; a context manager that closes it.

    Args:
        reference: which layout.
    """

    def __init__(self, reference: LayoutReference) -> None:
        self.reference = reference
        self._stack = ExitStack()
        self._archive: BinaryIO | None = None
        self._members: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> LayoutSource:
        """Open it; raises ``IntegrityError`` if it is no layout."""
        if not self.reference.path.is_dir():
            self._archive = self._stack.enter_context(open_regular(self.reference.path))
            self._members = self._listed(self._archive)
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self._stack.close()

    def manifest(self, target: str) -> Manifest | None:
        """Return the manifest or index of a digest, or of the one image that the layout has; None if it has none such.

        A layout with several images is an index of them.

        Raises:
            IntegrityError: it is no layout, or bytes do not match their digest.
        """
        if target.startswith("sha256:"):
            data = self.read_blob(target.removeprefix("sha256:"), _LARGEST)
            return Manifest(data, _media_type(data))
        with self._opened(_INDEX) as stream:
            index = Manifest(stream.read(_LARGEST + 1)[:_LARGEST], OCI_INDEX)
        entries = descriptors(index, "manifests")
        return self.manifest(f"sha256:{entries[0].digest}") if len(entries) == 1 else index if entries else None

    def read_blob(self, digest: str, limit: int) -> bytes:
        """Return a small blob, checked; raises ``IntegrityError`` if it is larger than ``limit`` bytes, or another."""
        with self._opened(*_BLOBS, digest) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise IntegrityError(f"a blob of {self.reference.name} has more than {limit} bytes")
        if (found := hashlib.sha256(data).hexdigest()) != digest:
            raise IntegrityError(
                f"a blob of {self.reference.name} has other bytes than promised\n"
                f"  expected  sha256:{digest}\n  found     sha256:{found}",
                "the file is damaged: make or copy it again",
            )
        return data

    def pull(self, blobs: Sequence[Blob], destination: Destination[P], progress: Progress) -> int:
        """Copy blobs to a destination, each checked against its digest; returns their bytes.

        Raises:
            IntegrityError: one is not there, has other bytes, or the destination takes no more.
        """
        wanted = {blob.digest: blob for blob in blobs if not destination.has(blob.digest, blob.size)}.values()
        with progress.phase("pull", sum(blob.size for blob in wanted)) as advance:
            for blob in wanted:
                self._copy(blob, destination, advance)
        return sum(blob.size for blob in wanted)

    def _copy(self, blob: Blob, destination: Destination[P], advance: Advance) -> None:
        name = f"sha256:{blob.digest[:12]}… of {self.reference.name}"
        with (
            self._opened(*_BLOBS, blob.digest) as stream,
            destination.claim(blob.digest, lambda: None) as part,
        ):
            if destination.has(blob.digest, blob.size):  # another command has brought it in meanwhile
                advance(blob.size)
                return
            part.restart()
            left = blob.size + 1  # one byte more shows that it is too large
            while left > 0 and (data := stream.read(min(_PIECE, left))):
                part.write(data)
                left -= len(data)
                advance(len(data))
            destination.publish(part, blob.digest, blob.size, name=name)

    @contextmanager
    def _opened(self, *names: str) -> Iterator[BinaryIO]:
        """Open a file of the layout for reading."""
        *above, name = names
        if self._archive is not None:
            place = self._members.get("/".join(names))
            if place is None:
                raise self._lacks("/".join(names))
            yield cast(BinaryIO, _Slice(self._archive, *place))
            return
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(folder_below(self.reference.path, *above))
                stream = stack.enter_context(open_regular(folder / name, follow=False))
            except FileNotFoundError:
                raise self._lacks("/".join(names)) from None
            except OSError as error:  # a link or a pipe, or it may not be read
                raise IntegrityError(
                    f"{'/'.join(names)} of {self.reference.name} cannot be read: {error.strerror}", _AGAIN
                ) from None
            yield stream

    def _listed(self, stream: BinaryIO) -> dict[str, tuple[int, int]]:
        """Return place and size of the regular files of an archive; the first of a name counts.

        Headers alone are read, one at a time: names of a layout need no extended ones, whose size an archive chooses.
        """
        found: dict[str, tuple[int, int]] = {}
        at, end = 0, self.reference.path.stat().st_size
        for _ in range(_MEMBERS):
            stream.seek(min(at, end))
            try:
                member = tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:  # at the end a block of zeros, or nothing
                if at and str(error) in ("empty header", "end of file header"):
                    break
                raise IntegrityError(
                    f"{self.reference.name} is no OCI layout: {error}", "expected a folder or a tar archive"
                ) from None
            at += tarfile.BLOCKSIZE
            if member.type in (tarfile.REGTYPE, tarfile.AREGTYPE):
                found.setdefault(member.name.removeprefix("./"), (at, member.size))
            at += -(-max(0, member.size) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        return found

    def _lacks(self, name: str) -> IntegrityError:
        return IntegrityError(f"{self.reference.name} has no {name}", _AGAIN)


class _Slice(io.RawIOBase):
    """A part of an open file, read from its start."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream, self._at, self._end = stream, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._stream.seek(self._at)
        data = self._stream.read(min(len(buffer), self._end - self._at))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _media_type(data: bytes) -> str:
    try:
        found = parse_json(data)
    except ValueError:
        return ""
    return str(found.get("mediaType") or "") if isinstance(found, dict) else ""
