"""The files of a lock next to its image in a registry, for the time when mirrors and indexes have dropped them.

``push --bundle`` copies them there, into the image's repository, under a tag of their own. A build that finds a file
nowhere else asks the repositories that the lock's image was pushed to.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from envbuild.core.text import plural
from envbuild.errors import EnvbuildError
from envbuild.operations.blob_locations import read_published
from envbuild.operations.events import Events, Note
from envbuild.operations.load_lock import LoadedLock
from envbuild.store.bundle import files_of, read_artifact, tag_of
from envbuild.store.objects import Store


@dataclass(kw_only=True, slots=True)
class Asked:
    """Where a lock's image was pushed, and what came from there.

    Attributes:
        answers: by repository what it answered, as a sentence.
        found: SHA-256 of the files that came in.
    """

    answers: dict[str, str] = field(default_factory=dict)
    found: set[str] = field(default_factory=set)


def pull_from_published(loaded: LoadedLock, store: Store, missing: Iterable[str], events: Events) -> Asked:
    """Take files that nobody else has from the repositories that the lock's image was pushed to, each byte checked.

    No failure is raised: a registry that does not answer is one more place where nothing was found.

    Args:
        missing: SHA-256 of the files.
    """
    asked, wanted = Asked(), set(missing)
    for place in dict.fromkeys(f"oci://{reference.name}" for reference in read_published(loaded.path, loaded.lock)):
        if not wanted - asked.found:
            break
        try:
            came = _pull(place, loaded, store, wanted - asked.found, events)
        except EnvbuildError as error:
            asked.answers[place] = error.message.splitlines()[0]
            continue
        asked.found |= came
        if not came:
            asked.answers[place] = "it has the image and none of these files: it was pushed without --bundle"
            continue
        asked.answers[place] = f"it has {len(came)} of them"
        events.report(Note(text=f"{plural(len(came), 'file')} that no mirror or index has came from {place}"))
    return asked


def _pull(place: str, loaded: LoadedLock, store: Store, wanted: set[str], events: Events) -> set[str]:
    """Bring what a repository has of some files into the store; returns their SHA-256."""
    from envbuild.operations.store_remotes import open_remote

    blobs = [blob for blob in files_of(loaded.lock) if blob.digest in wanted]
    tag = tag_of(loaded.lock)
    with open_remote(place, exists=True) as remote:
        data = remote.manifest(tag)
        artifact = None if data is None else read_artifact(data, f"{place}: {tag}")
        listed = set() if artifact is None else {blob.digest for blob in artifact.blobs}
        # Another lock's files may be in the same repository.
        there = [blob for blob in blobs if blob.digest in listed] + remote.held(
            [blob for blob in blobs if blob.digest not in listed]
        )
        remote.pull(there, store, events)
    return {blob.digest for blob in there}
