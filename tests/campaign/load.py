"""Load: many commands at once on one store; many images pushed to one registry."""

from __future__ import annotations

import hashlib
import json
import random
import resource
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from envbuild.core.blob import Blob, blob_of
from envbuild.core.progress import Silent
from envbuild.net.config import NetworkConfig
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import OCI_MANIFEST, Manifest, Repository
from envbuild.registry.upload import push
from tests.campaign import leaks
from tests.campaign.workshop import Workshop
from tests.support.cli import Project

_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("lock",),
    ("fetch",),
    ("build", "--output", "docker-archive:out.tar"),
    ("build",),
    ("run", "train.py"),
    ("store", "gc", "--older-than", "0"),
    ("store", "verify"),
)
_AT_ONCE = 8
"""Images that are pushed at the same time."""
_SHARED, _OWN = 20_000_000, 500_000
"""Bytes of the layer that all images have, and of each one's own."""


@dataclass(kw_only=True)
class Tally:
    """What was found."""

    faults: list[str] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    total: float = 0.0


def commands(shop: Workshop, count: int, kinds: Sequence[tuple[str, ...]] = _COMMANDS) -> Tally:
    """Start ``count`` commands at the same moment, each in a copy of a project, all over one store."""
    tally = Tally()
    projects = []
    for number in range(count):
        subject = shop.subjects[number % len(shop.subjects)]
        folder = shop.root / "load" / str(number)
        shutil.copytree(subject.project.folder, folder)
        projects.append(Project(folder=folder, store=shop.store, environ=subject.project.environ))
    began = time.monotonic()

    def one(number: int) -> None:
        words = kinds[number // len(shop.subjects) % len(kinds)]
        done = projects[number](*words)
        tally.seconds[" ".join(words[:2])].append(time.monotonic() - began)
        if done.code:
            tally.faults.append(f"{' '.join(words)}: exit {done.code}\n{done.out}{done.err}")

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(one, range(count)))
    tally.total = time.monotonic() - began
    if wrong := leaks.wrong_bytes(shop.store):
        tally.faults.append(f"wrong bytes: {wrong}")
    for subject in shop.subjects:
        for project in projects:
            lock = project.folder / subject.lock.name
            if lock.exists() and lock.read_bytes() != subject.reference.lock:
                tally.faults.append(f"another lock: {lock}")
    projects[0].must("store", "gc", "--older-than", "0")
    if left := leaks.leftovers(shop.store):
        tally.faults.append(f"files are left in the store: {left}")
    return tally


def images(shop: Workshop, seed: int, count: int) -> Tally:
    """Push ``count`` images that share a layer, several at once, then ask for each of them by its tag."""
    tally = Tally()
    shared = blob_of(random.Random(seed).randbytes(_SHARED))
    name = f"{shop.registry.host}/load/images"
    began = time.monotonic()
    with Repository(parse_reference(name), NetworkConfig()) as repository:

        def one(number: int) -> tuple[str, str]:
            start = time.monotonic()
            blobs, manifest = _image(shared, random.Random(f"{seed} {number}"))
            push(repository, blobs, manifest, Silent(), tag=f"image-{number}")
            tally.seconds["push"].append(time.monotonic() - start)
            return f"image-{number}", manifest.digest

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            pushed = list(pool.map(one, range(count)))
        tally.total = time.monotonic() - began
        for tag, digest in pushed:
            found = repository.manifest(tag)
            if found is None or found.digest != digest:
                tally.faults.append(f"{tag} is not what was pushed")
        if len(repository.tags()) != count:
            tally.faults.append(f"expected {count} tags, found {len(repository.tags())}")
    stored = shop.registry.folder.glob("docker/registry/v2/blobs/sha256/*/*/data")
    wrong = [path for path in stored if hashlib.sha256(path.read_bytes()).hexdigest() != path.parent.name]
    tally.faults += [f"the registry holds wrong bytes: {path}" for path in wrong]
    return tally


def _image(shared: Blob, words: random.Random) -> tuple[list[Blob], Manifest]:
    blobs = [shared, blob_of(words.randbytes(_OWN))]
    config = blob_of(json.dumps({"rootfs": {"diff_ids": [f"sha256:{blob.digest}" for blob in blobs]}}).encode())
    described = [{"mediaType": "x", "digest": f"sha256:{blob.digest}", "size": blob.size} for blob in (*blobs, config)]
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described[-1], "layers": described[:-1]}
    return [*blobs, config], Manifest(json.dumps(document).encode(), OCI_MANIFEST)


def figures(title: str, tally: Tally) -> Sequence[str]:
    """Return the lines that state what was done."""
    lines = [f"{title}: {tally.total:.0f} s, {len(tally.faults)} faults"]
    for name, seconds in sorted(tally.seconds.items()):
        middle = sorted(seconds)[len(seconds) // 2]
        lines.append(f"  {name:<16} {len(seconds):>4}  median {middle:>5.1f} s  last {max(seconds):>5.1f} s")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    return [*lines, f"  largest process {memory:.0f} MB"]
