"""Downloads: blobs in parallel into files that remember where they stopped, checked before they get their names."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from envbuild.core.blob import Blob
from envbuild.core.progress import Progress
from envbuild.errors import IntegrityError
from envbuild.net.pool import StoppedError, run_all
from envbuild.net.transfer import ContentMismatch, Control, Destination, P, Transfer
from envbuild.registry.repository import Repository

_THREADS = 3


def pull_blobs(repository: Repository, blobs: Sequence[Blob], destination: Destination[P], progress: Progress) -> int:
    """Bring blobs to a destination, several at once; returns the bytes that came over the wire.

    Raises:
        RegistryError: the registry does not answer or refuses.
        IntegrityError: it gave other bytes than the digests name, or the destination takes no more. What had come in
            stays, and the next call continues with it.
    """
    wanted = list({blob.digest: blob for blob in blobs if not destination.has(blob.digest, blob.size)}.values())
    if not wanted:
        return 0
    stop = threading.Event()

    def check() -> None:
        if stop.is_set():
            raise StoppedError

    with progress.phase("pull", sum(blob.size for blob in wanted)) as advance:
        control = Control(network=repository.network, check=check, wait=stop.wait, advance=advance)
        return sum(run_all([partial(_pull, repository, blob, destination, control) for blob in wanted], stop, _THREADS))


def _pull(repository: Repository, blob: Blob, destination: Destination[P], control: Control) -> int:
    """Bring one blob in; returns the bytes that came over the wire."""
    name = f"sha256:{blob.digest[:12]}… of {repository.reference.name}"
    with destination.claim(blob.digest, control.check) as part:
        if destination.has(blob.digest, blob.size):
            control.advance(blob.size)
            return 0
        transfer = Transfer(part, blob.size, blob.digest, control)
        try:
            with repository.explained(f"pull {name}"):
                transfer.fetch(partial(repository.open_blob, blob.digest))
        except ContentMismatch as error:
            raise IntegrityError(f"{name} has other bytes than promised: {error}") from None
        destination.publish(part, blob.digest, blob.size, name=name)
    return transfer.received
