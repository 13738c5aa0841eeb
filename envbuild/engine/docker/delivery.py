"""How an image gets into a Docker engine: pulled from a registry on loopback, or loaded where that cannot be reached.

A pull brings only the layers that the engine lacks, several at a time, and the image can come in parts while its upper
layers are still being made: the lower ones are unpacked already when the whole image follows. Where all digests are
known beforehand, layers even travel while they are being written. An engine in a virtual machine, in another network
namespace (a rootless one) or on another host does not find the registry. It reports it at once, or asks nothing for a
while; then the whole image is loaded, as every engine can.

What is pulled has a foreign name until it gets its own: ``127.0.0.1:PORT/envbuild-RANDOM@sha256:…``. It is taken away
at the end, or by the next delivery if this process is killed.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from envbuild.core.digest import sha256_bytes
from envbuild.core.progress import Advance, Progress
from envbuild.engine.docker.blob_server import BlobServer, Content
from envbuild.engine.docker.http import ApiError, EngineClient, SilenceError, engine_refused
from envbuild.engine.protocol import Delivered, Parcel
from envbuild.errors import EngineError

_PATIENCE = 10.0
"""Seconds until an engine must have asked for the first manifest."""

_DOING = "pull the image from envbuild"
_FOREIGN = re.compile(r"127\.0\.0\.1:([0-9]{1,5})/envbuild-[0-9a-f]{32}@sha256:[0-9a-f]{64}")

Load = Callable[[Iterator[bytes]], None]
Held = Callable[[], tuple[tuple[str, ...], ...] | None]


class _UnreachedError(Exception):
    """The engine did not come to our registry; the message states what it reported instead."""


def deliver(
    client: EngineClient, parcels: Iterator[Parcel], tag: str, progress: Progress, load: Load, held: Held
) -> Delivered:
    """Implement ``ImageStore.deliver``; ``load`` and ``held`` are the engine's way without a registry."""
    last: Parcel | None = None
    why = _far(client)
    if not why:
        with BlobServer() as server:
            pulls = _Pulls(client, server, progress)
            try:
                for parcel in parcels:
                    last = parcel
                    pulls.take(parcel)
                pulls.name(tag)
                pulls.sweep()
                return Delivered(how="pull", sent=frozenset(server.requested))
            except _UnreachedError as error:
                why = str(error)
            finally:
                pulls.clean()
    for parcel in parcels:
        last = parcel
    assert last is not None  # noqa: S101 - the whole image is always the last one
    skip = _lowest_held(last, held() or ())
    new = {layer.digest: layer.size for layer in last.layers if layer.digest not in skip}
    with progress.phase("load", sum(new.values())) as advance:
        load(_reporting(last.archive(skip), advance))
    return Delivered(how="load", sent=frozenset(new), why=why)


class _Pulls:
    """The pulls of one image, part by part."""

    def __init__(self, client: EngineClient, server: BlobServer, progress: Progress) -> None:
        self._client = client
        self._server = server
        self._progress = progress
        self._references: list[str] = []
        self._counted: set[str] = set()

    def take(self, parcel: Parcel) -> None:
        """Let the engine pull an image, which keeps its foreign name until ``clean``.

        Raises:
            _UnreachedError: the engine did not ask for it.
            EngineError: it did, and failed.
        """
        digest, config = sha256_bytes(parcel.manifest), sha256_bytes(parcel.config)
        blobs: dict[str, Content] = {config: parcel.config, **{layer.digest: layer for layer in parcel.layers}}
        reference = self._server.offer((digest, parcel.manifest), blobs)
        if reference in self._references:
            return  # it came while it was being made
        self._references.append(reference)
        new = {layer.digest: layer.size for layer in parcel.layers if layer.digest not in self._counted}
        self._counted |= new.keys()
        with self._progress.phase("load", sum(new.values())) as advance:
            self._pull(reference, _Meter(new, advance))

    def _pull(self, reference: str, meter: _Meter) -> None:
        """Follow one pull to its end."""
        began = time.monotonic()

        def patient() -> bool:
            return self._server.asked.is_set() or time.monotonic() - began < _PATIENCE

        try:
            with closing(self._client.events("/images/create", {"fromImage": reference}, patient)) as events:
                for event in events:
                    if "error" in event:
                        raise ApiError(0, str(event["error"]))
                    meter.hear(event)
        except SilenceError:
            raise _UnreachedError(f"it asked nothing for {_PATIENCE:.0f} s") from None
        except ApiError as error:
            if self._server.asked.is_set():
                raise engine_refused(_DOING, error.message) from None
            raise _UnreachedError(error.message.replace(reference, "…").strip()) from None

    def name(self, tag: str) -> None:
        """Give what was pulled last its own name."""
        repository, _, version = tag.rpartition(":")
        try:
            self._client.call("POST", f"/images/{self._references[-1]}/tag", {"repo": repository, "tag": version})
        except ApiError as error:
            raise engine_refused(f"name the image {tag}", error.message) from None

    def clean(self) -> None:
        """Take the foreign names away."""
        for reference in self._references:
            self._forget(reference)

    def _forget(self, reference: str) -> None:
        """Take one foreign name away; if that fails, a later delivery does."""
        with suppress(ApiError, EngineError):
            self._client.call("DELETE", f"/images/{reference}")

    def sweep(self) -> None:
        """Take away the foreign names that killed deliveries have left: nobody listens where they point any more.

        Only after a pull: it has proved that this process's loopback is the engine's, where others may be delivering.
        """
        filters = json.dumps({"reference": ["127.0.0.1:*/envbuild-*"]})
        try:
            images = self._client.call("GET", "/images/json", {"filters": filters})
        except (ApiError, EngineError):
            return
        own, _, _ = self._server.repository.partition("/")
        for image in images or ():
            for reference in image.get("RepoDigests") or ():
                if not (found := _FOREIGN.fullmatch(reference)) or reference in self._references:
                    continue
                if reference.startswith(f"{own}/") or not _listens(int(found[1])):  # ports come again, ours too
                    self._forget(reference)


class _Meter:
    """Turns an engine's events into bytes: half of a layer's count when it arrives, half when it is unpacked."""

    def __init__(self, sizes: Mapping[str, int], advance: Advance) -> None:
        self._sizes = {name[:12]: size for name, size in sizes.items()}
        self._done = dict.fromkeys(self._sizes, 0)
        self._advance = advance

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take one event: ``id`` names the layer, ``status`` its state; a transfer reports bytes."""
        name, status = event.get("id"), event.get("status")
        if name not in self._sizes:
            return
        size, detail = self._sizes[name], event.get("progressDetail") or {}
        done = 0 if "units" in detail else min(int(detail.get("current") or 0), size)
        match status:
            case "Downloading":
                now = done // 2
            case "Download complete" | "Verifying Checksum":
                now = size // 2
            case "Extracting":
                now = size // 2 + done // 2
            case "Already exists" | "Pull complete":
                now = size
            case _:
                return
        if now > self._done[name]:
            self._advance(now - self._done[name])
            self._done[name] = now


def _far(client: EngineClient) -> str:
    """Explain why our loopback is surely not the engine's, or nothing."""
    if client.podman:
        return "podman pulls over TLS only"
    return "" if client.endpoint.scheme == "unix" else f"the engine is at {client.endpoint.url}"


def _lowest_held(parcel: Parcel, chains: Collection[tuple[str, ...]]) -> frozenset[str]:
    """Return the layers that an engine with these chains takes from itself."""
    names = tuple(layer.digest for layer in parcel.layers)
    counts = (count for count in range(len(names), 0, -1) if any(chain[:count] == names[:count] for chain in chains))
    return frozenset(names[: next(counts, 0)])


def _reporting(archive: Iterator[bytes], advance: Advance) -> Iterator[bytes]:
    """Count the bytes of an archive on their way."""
    for chunk in archive:
        yield chunk
        advance(len(chunk))


def _listens(port: int) -> bool:
    """Return whether something on this machine's loopback accepts connections at a port."""
    with closing(socket.socket()) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
