"""The files of a container whose program has ended, as the engine lists and gives them.

An engine's list of changes compares the whole image with the container and takes a tenth of a second and more. Where
the engine keeps a container's own layer in a folder that this process may read, the folder is listed instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from envbuild.engine.docker.http import ApiError, EngineClient, engine_refused
from envbuild.engine.overlay import layer_changes
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
            driver = self._client.call("GET", f"/containers/{self._identity}/json").get("GraphDriver") or {}
            upper, lowers = _folders(driver)
            if upper and self._client.endpoint.scheme == "unix" and Path(upper).is_dir():
                try:
                    return layer_changes(upper, lowers)
                except OSError:  # not all of it is ours to read
                    pass
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


def _folders(driver: Mapping[str, Any]) -> tuple[str, Sequence[str]]:
    """Return the folder of a container's own layer and those of the layers below; empty for other drivers."""
    data = driver.get("Data") or {}
    if driver.get("Name") not in ("overlay", "overlay2") or not data.get("UpperDir") or not data.get("LowerDir"):
        return "", ()
    return str(data["UpperDir"]), str(data["LowerDir"]).split(":")
