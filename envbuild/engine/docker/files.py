"""The files of a container whose program has ended, as the engine lists and gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

from envbuild.engine.docker.http import ApiError, EngineClient, engine_refused
from envbuild.engine.protocol import FileChange

_KINDS: tuple[FileChange, ...] = ("changed", "created", "deleted")
"""In the order of the numbers that the engine's API gives them."""


class EndedFiles:
    """Implements ``OwnFiles``.

    Args:
        client: of the engine.
        identity: of a container that exists, and does not run any more.
    """

    def __init__(self, client: EngineClient, identity: str) -> None:
        self._client = client
        self._identity = identity

    def changes(self) -> Mapping[str, FileChange]:
        """List the container's own layer; see ``OwnFiles``."""
        try:
            found = self._client.call("GET", f"/containers/{self._identity}/changes")
        except ApiError as error:
            raise engine_refused("list what the program wrote", error.message) from None
        return {str(each["Path"]): _KINDS[each["Kind"]] for each in found or ()}

    @contextmanager
    def archive(self, path: str) -> Iterator[BinaryIO]:
        """Give a file or folder as tar; see ``OwnFiles``."""
        try:
            with self._client.stream(f"/containers/{self._identity}/archive", {"path": path}) as stream:
                yield stream
        except ApiError as error:
            raise engine_refused(f"read {path} in the container", error.message) from None
