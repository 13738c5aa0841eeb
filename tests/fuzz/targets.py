"""The parsers of foreign bytes, each as a function of bytes that raises nothing but what the parser promises."""

from __future__ import annotations

import atexit
import gzip
import importlib
import importlib.util
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import struct
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import msgspec
import urllib3

from envbuild.cluster import frames
from envbuild.cluster.agreement import Answer, Call, Codes, Ended, Verdict, compare
from envbuild.cluster.hostlist import expand_counts, expand_hosts
from envbuild.cluster.launchers import find_rank, job_key, launcher_variables
from envbuild.core.clock import utc_now
from envbuild.core.tfrecord import crc32c
from envbuild.errors import BuildError, EnvbuildError, IntegrityError, LockError, RegistryError, SpecError, UsageError
from envbuild.host import file as host_file
from envbuild.image.cpython.archive import pack_python
from envbuild.image.os.base import read_facts
from envbuild.image.os.deb import open_deb, parse_control
from envbuild.image.python.inflate import Reader
from envbuild.image.python.wheel import Wheel, WheelError
from envbuild.inputs.manifest import ManifestError, entries
from envbuild.lockfile import model as locks
from envbuild.lockfile.model import Origin
from envbuild.net.config import NetworkConfig, origin
from envbuild.net.http import Http, HttpError
from envbuild.record import model as records
from envbuild.record.process_facts import facts
from envbuild.record.processes import json_table
from envbuild.registry import artifacts, image
from envbuild.registry.authorization import Authorization, parse_challenge
from envbuild.registry.errors import answer_error
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import Manifest, Repository, descriptors
from envbuild.registry.transport import Transport
from envbuild.resolve.debian.contents import _libraries
from envbuild.resolve.debian.index import _parse
from envbuild.resolve.debian.relations import parse_relations
from envbuild.resolve.debian.release_file import check_release, read_release
from envbuild.resolve.debian.universe import _package
from envbuild.resolve.libraries.elf import NotElfError, read_dynamic
from envbuild.resolve.libraries.wheels import scan_wheel
from envbuild.runs.outside import Outside
from envbuild.runs.results import events
from envbuild.runs.results.lines import StdoutCapture
from envbuild.runs.results.metrics import of_keras
from envbuild.runs.results.tensors import with_tensors
from envbuild.runs.verdict import _verdict
from envbuild.runtime.tensors.__main__ import _limit, read_file
from envbuild.sbom.licences import debian_licence, wheel_licence
from envbuild.signing.cosign import _covers, _entries, _predicates, _words
from envbuild.signing.provenance import builder_of, locked_by
from envbuild.sources import canonical, scm
from envbuild.sources.archive import build_system
from envbuild.sources.editable import editable
from envbuild.sources.project import stated
from envbuild.sources.step import _result
from envbuild.sources.tree import TreeFile
from envbuild.spec.model import parse_spec
from envbuild.spec.requirement_files import (
    flattened,
    included,
    places_in,
    python_conflicts,
    required_digests,
    requirement_lines,
)
from envbuild.store.bundle import BundleFolder, read_artifact, title_of
from envbuild.trace import file as traces
from envbuild.verification import attestation
from envbuild.verification.content import read as read_content
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import BoundedDigest
from envbuild.verification.measurements import labels
from tests.fuzz import seeds
from tests.support.archives import keyring
from tests.support.debs import ar_bytes
from tests.support.locks import small_lock, standalone_lock
from tests.support.records import record
from tests.support.wheels import wheel_bytes

_SCRATCH = Path(tempfile.mkdtemp(prefix="envbuild-fuzz-"))
atexit.register(shutil.rmtree, _SCRATCH, ignore_errors=True)
_FILE = _SCRATCH / "file"
_MASKS = Masks(1_795_247_763.0)
_DIGEST = "0" * 64
_WHEEL = "pkg-1.0-py3-none-any.whl"
_LARGEST = 1 << 22
_HDF5 = 0.2
"""Seconds for a file that HDF5 may never be done with; one that is late on a busy machine is not judged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One parser.

    Attributes:
        run: gives it an input.
        allowed: what it may raise.
        seeds: good inputs.
    """

    run: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    seeds: Callable[[], list[bytes]]

    def check(self, data: bytes) -> None:
        """Give the parser an input; raises whatever it may not raise."""
        with suppress(*self.allowed):
            self.run(data)


def _file(data: bytes) -> Path:
    _FILE.write_bytes(data)
    return _FILE


def _lock(data: bytes) -> None:
    """Read a lock, and once more with the digest that the altered content should have."""
    try:
        locks.loads(data)
    except LockError as error:
        if found := re.search(r"digest of its content  ([0-9a-f]{64})", error.message):
            locks.loads(re.sub(rb'\ndigest = "[0-9a-f]*"\n', f'\ndigest = "{found[1]}"\n'.encode(), data))
        raise


def _process(data: bytes) -> None:
    table = json_table(data)
    if table is not None:
        found = facts([table, table])
        records.dumps(record(**found))


def _memory(data: bytes) -> None:
    """What the last process of a run found in memory file systems."""
    if (table := json_table(data)) is not None:
        files, left_out = Outside(mounts=(), wanted=(), kept=_SCRATCH).look_last(table)
        records.dumps(record(outside=files, outside_left_out=left_out))


def _deb(data: bytes) -> None:
    deb = open_deb(_file(data))
    deb.fields()
    _unpack(deb)


def _deb_data(data: bytes) -> None:
    """Read a data archive, inside a good package."""
    deb = open_deb(_file(ar_bytes({"debian-binary": b"2.0\n", "control.tar": seeds.control_tar(), "data.tar": data})))
    _unpack(deb)


def _unpack(deb: Any) -> None:
    output = io.BytesIO()
    deb.unpack_data(_Limited(output))
    output.seek(0)
    for _, content in deb.members(output):
        while content is not None and content.read(1 << 20):
            pass


class _Limited:
    """Takes what fits into memory; a file on disk is not the parser's memory."""

    def __init__(self, output: io.BytesIO) -> None:
        self._output = output

    def write(self, data: bytes) -> int:
        """Append, up to a limit."""
        if self._output.tell() > _LARGEST:
            raise BuildError("enough")
        return self._output.write(data)


def _python_build(data: bytes) -> None:
    """Make the layer of a standalone Python, whose archive is this tar, compressed."""
    archive = _file(gzip.compress(data, compresslevel=0, mtime=0))
    lock = standalone_lock(small_lock(), archive)
    assert lock.python.build is not None
    pack_python(io.BytesIO(), lock.python.build, archive)


def _wheel(data: bytes) -> None:
    path = _file(data)
    with Wheel(str(path), "3.11", "pkg-1.0-py3-none-any.whl") as wheel, Reader(wheel, path) as reader:
        for file in wheel.files:
            for _ in reader.chunks(file):
                pass
        for file in wheel.files:
            with wheel.open(file) as stream:
                stream.read(1 << 20)


def _wheel_record(data: bytes) -> None:
    _wheel(wheel_bytes("pkg", record=data.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()))


def _entry_points(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    _wheel(wheel_bytes("pkg", members=[seeds.Member(name="pkg-1.0.dist-info/entry_points.txt", data=text.encode())]))


def _scan(data: bytes) -> None:
    with tempfile.TemporaryDirectory(dir=_SCRATCH) as folder:
        scan_wheel(_file(data), _DIGEST, Path(folder))


def _packages(data: bytes) -> None:
    for entry in _parse(data, "Packages"):
        _package(entry, 0, (0, 0))
    with suppress(ValueError):  # what it promises
        parse_relations(data.decode("utf-8", "replace"))


def _release(data: bytes) -> None:
    """Read a text as that of a release file whose signature is good."""
    signed = SimpleNamespace(bytes=data, valid_sigs=[])
    with mock.patch("pysequoia.verify", return_value=signed):
        release = read_release(b"-----BEGIN PGP SIGNED MESSAGE-----", "InRelease")
    release.files("main/binary-amd64/Packages.xz", "")
    check_release(release, "bookworm", now=utc_now(), judged=utc_now())


def _key() -> Path:
    path = _SCRATCH / "keyring"
    return path if path.exists() else keyring(path)


def _contents(data: bytes) -> None:
    list(_libraries(data))


class _Answers(Repository):
    """A registry that gives one prepared answer after the other, whatever it is asked."""

    def __init__(self, data: bytes) -> None:
        super().__init__(parse_reference("registry.invalid/name:tag"), cast(Any, None), lambda name: None)
        self._answers = iter(data.split(b"\0"))

    def manifest(self, target: str) -> Manifest | None:
        """Return the next answer."""
        data = next(self._answers, b"{}")
        return Manifest(data[1:], "application/vnd.oci.image.index.v1+json" if data[:1] == b"i" else "")

    def read_blob(self, digest: str, limit: int) -> bytes:
        """Return the next answer."""
        return next(self._answers, b"{}")


def _registry(data: bytes) -> None:
    answer_error(400, "Bad Request", data, "5")
    with _lone_repository(data) as repository:
        with suppress(EnvbuildError):
            found = image.read_image(repository, "tag", "amd64")
            _ = (found.labels, found.plain, found.platform, found.config_digest, found.document)
        with suppress(EnvbuildError):
            manifest = Manifest(data, "")
            for key in ("layers", "manifests", "config"):
                descriptors(manifest, key)
        with suppress(EnvbuildError):
            for blob in descriptors(Manifest(data, ""), "manifests"):
                artifacts._referring(repository, blob)
        with suppress(EnvbuildError):
            artifact = read_artifact(data, "registry.invalid/name")
            for one in (artifact.lock, *artifact.blobs) if artifact is not None else ():
                title_of(one)


@contextmanager
def _lone_repository(data: bytes) -> Iterator[Repository]:
    found = _Answers.__new__(_Answers)
    found.reference = parse_reference("registry.invalid/name:tag")
    found.network = NetworkConfig()
    found.path = "/v2/name"
    found._answers = iter(data.split(b"\0"))
    yield found


def _token(data: bytes) -> None:
    """Answer a challenge whose header is the first line, with the rest as the token server's answer."""
    header, _, body = data.partition(b"\n")
    text = header.decode("latin-1")
    parse_challenge(text)
    with suppress(EnvbuildError):
        parse_reference(text)

    def ask(method: str, url: str, *rest: object) -> bytes:
        origin(url)  # where the request would go to
        return body

    known = Authorization("registry.invalid", lambda: None, ask, plain=False)
    known.refused(text, "repository:name:pull", "")
    known.header("repository:name:pull").encode("latin-1")  # as it would be sent


def _location(data: bytes) -> None:
    """Be sent there by a registry, and by an index."""
    text = data.decode("latin-1")
    transport = Transport("registry.invalid", NetworkConfig(), lambda name: None)
    transport._base = "https://registry.invalid"  # which it would ask for over the network
    with suppress(RegistryError):
        transport.address(text)
    moved = urllib3.HTTPResponse(status=302, headers={"Location": text})
    there = urllib3.HTTPResponse(status=200)

    class Asked(Http):
        def request(self, method: str, address: str, *rest: Any, **more: Any) -> urllib3.BaseHTTPResponse:
            """Send away the first request only."""
            return moved if address == "https://index.invalid/" else there

    Asked(NetworkConfig(), 1).open("https://index.invalid/")


def _bundle(data: bytes) -> None:
    folder = _SCRATCH / "bundle"
    folder.mkdir(exist_ok=True)
    (folder / "index.json").write_bytes(data)
    bundle = BundleFolder(folder)
    bundle.tags()
    with suppress(IntegrityError):
        bundle.manifest("name")


def _member(data: bytes) -> None:
    for _ in image.unpacked(iter((data,)), 1 << 22, "layer"):
        pass


def _tensors(data: bytes) -> None:
    # As in an image with a framework; the tests' own environment has no NumPy.
    numpy = importlib.import_module("numpy") if importlib.util.find_spec("numpy") is not None else None
    answer = read_file(str(_file(data)), 1 << 26, {"numpy": numpy})
    found = json.loads(json.dumps(answer))
    output = records.Output(path="model.npz", change="created", size=len(data), sha256=_DIGEST)
    with_tensors((output,), {"model.npz": found}, ["model.npz"])


def _hdf5(data: bytes) -> None:
    """Read it as it is read in the image, in a process that may be ended: HDF5's library is not made for damage.

    What that process could read in time is read once more in this one, where libFuzzer sees which code it reaches.
    """
    _file(data)
    if _TRIAL.passes():
        before = resource.getrlimit(resource.RLIMIT_DATA)
        _limit()
        try:
            read_file(str(_FILE), 1 << 26, _hdf5_libraries(), str(_SCRATCH))
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)


def _hdf5_libraries() -> dict[str, Any]:
    return {name: importlib.import_module(name) for name in ("numpy", "h5py")}


class _Trial:
    """A process that reads one input after the other, as long as it lives."""

    _INPUTS = 1000

    def __init__(self) -> None:
        self._child = self._left = 0
        self._question = self._answer = -1

    def passes(self) -> bool:
        """Return whether the file is read in time by a process that may die of it; fails if it raised anything."""
        if not self._left:
            self._start()
        self._left -= 1
        os.write(self._question, b"?")
        there = select.select([self._answer], [], [], _HDF5)[0]
        answer = os.read(self._answer, 1 << 16) if there else b""
        assert answer in (b"", b"!"), answer.decode()
        passed = bool(answer)
        if not passed or not self._left:
            self._end()
        return passed

    def _start(self) -> None:
        asked, self._question = os.pipe()
        self._answer, answered = os.pipe()
        libraries = _hdf5_libraries()  # imported once, not in each child
        self._child, self._left = os.fork(), self._INPUTS
        if not self._child:
            try:
                os.close(self._question)
                _limit()
                while os.read(asked, 1):
                    json.dumps(read_file(str(_FILE), 1 << 26, libraries, str(_SCRATCH)))
                    os.write(answered, b"!")
            except Exception:
                os.write(answered, traceback.format_exc().encode()[: 1 << 15])
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)

    def _end(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        os.close(self._question)
        os.close(self._answer)
        self._left = 0


_TRIAL = _Trial()


def _events(data: bytes) -> None:
    """Read an event file as it is, and one whose only record holds these bytes."""
    list(events.scalars(_file(data)))
    head = struct.pack("<Q", len(data))
    framed = (head, struct.pack("<I", crc32c(head)), data, struct.pack("<I", crc32c(data)))
    list(events.scalars(_file(b"".join(framed))))


def _trace(data: bytes) -> None:
    found = traces.read(_file(data))
    for step in found.steps:
        for place in range(min(len(step.group.tensors), 8)):
            step.figures(place)
            found.values(step, place)


def _printed(data: bytes) -> None:
    capture = StdoutCapture()
    for start in range(0, len(data), 100):
        capture.feed(data[start : start + 100])
    lines = list(capture.finish())
    pieces, whole = (BoundedDigest(Masks(1_795_247_763.0), lines=8) for _ in range(2))
    whole.feed(data)
    for start in range(0, len(data), 7):
        pieces.feed(data[start : start + 7])
    assert pieces.result() == whole.result(), "printed lines depend on the pieces in which they come"
    (_SCRATCH / "metrics-1.jsonl").write_bytes(data)
    records.dumps(record(metrics=dict(lines)))
    of_keras(_SCRATCH)


def _host(data: bytes) -> None:
    host_file.load(_file(data))


def _requirements(data: bytes) -> None:
    for name in ("requirements.txt", "pyproject.toml"):
        (_SCRATCH / name).write_bytes(data)
        with suppress(SpecError):
            included(_SCRATCH, [name])


def _flattened(data: bytes) -> None:
    """Read requirements files as the resolvers' lines, projects and digests are read from them."""
    (_SCRATCH / "constraints.txt").write_bytes(b"six<2\n")
    for name in ("requirements.txt", "pyproject.toml", "pylock.toml"):
        (_SCRATCH / name).write_bytes(data)
        for read in (requirement_lines, flattened, places_in, required_digests):
            with suppress(SpecError):
                read(_SCRATCH, [name])
        python_conflicts(_SCRATCH, [name], "3.11")


def _project(data: bytes) -> None:
    pyproject, _, setup = data.partition(b"\0")
    with suppress(ValueError):  # what it promises
        stated(pyproject, setup)


def _source_archive(data: bytes) -> None:
    for name, subdirectory in (("x-1.tar.gz", ""), ("x-1.tar", "a/b"), ("x-1.zip", "")):
        with suppress(BuildError):
            build_system(_file(data), name, subdirectory)


def _built_wheel(data: bytes) -> None:
    members = canonical.read(data, _WHEEL)
    again = canonical.read(canonical.canonical(members), _WHEEL)
    assert not canonical.differences(members, again)
    canonical.normalised(members, again)
    with suppress(BuildError):
        editable(data, _WHEEL, [TreeFile(path="src/pkg.py", data=b"")], "/workspace", "-e .")


def _built(data: bytes) -> None:
    with suppress(tarfile.TarError):  # the tar is envbuild's own, what is in it is not
        _result(io.BytesIO(data), "x-1.tar.gz")


def _version(data: bytes) -> None:
    with suppress(msgspec.ValidationError):
        text = data.decode("latin-1")
        table = {"git": "https://git.invalid/a", "commit": text[:40], "ref": text[40:]}
        version = scm.version_of(msgspec.convert(table, Origin))
        assert re.fullmatch(r"[A-Za-z0-9.!+]*", version), version


def _frame(data: bytes) -> None:
    """Read a message as it came, and as if whoever sent it knew the secret."""
    if len(data) < frames.HEAD.size:
        return
    with suppress(frames.RefusedError):
        kind, length, tag = frames.unpack_head(data[: frames.HEAD.size], frames.LARGEST)
        content = data[frames.HEAD.size :][:length]
        for expected in (Call, Answer, Verdict, Ended, Codes):
            for known in (tag, frames._tag(b"key", kind, "", content)):
                with suppress(frames.RefusedError):
                    found: Any = frames.unpack(b"key", kind, known, "", content, expected)
                    if isinstance(found, Answer):
                        compare([found, found], 2)


def _hosts(data: bytes) -> None:
    for expand in (expand_hosts, expand_counts):
        with suppress(ValueError):
            expand(data.decode("utf-8", "surrogateescape"))


def _launch(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    environment = dict(each.partition("=")[::2] for each in text.split("\0"))
    if (rank := find_rank(environment, "host")) is not None:
        launcher_variables(rank, environment)
        job_key(rank)


def _labels(data: bytes) -> None:
    """Ask for the names of whatever follows each of some places."""
    text = data.decode("utf-8", "replace")
    lines = text.splitlines() or [""]
    header = labels.Header.of(lines[0])
    names = tuple(filter(None, (header.column(line, len(line) // 2) for line in lines[:8]))) if header else ()
    for at in range(0, len(text), max(1, len(text) // 16)):
        labels.may_be_time(text[:at], text[at:], names)
        labels.names_time(labels.name_in_bytes(data[:at]))
    labels.may_be_times(labels.place_name(lines[0]), lines[-1])


def _signatures(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for entry in _entries(text):
        _covers(entry, _DIGEST)
    for predicate in _predicates(text, _DIGEST):
        locked_by(predicate), builder_of(predicate)
    with suppress(ValueError):
        predicate = json.loads(text)
        locked_by(predicate), builder_of(predicate)
    _words(text)


def _licences(data: bytes) -> None:
    wheel_licence(data)
    debian_licence(data.decode("utf-8", "replace"))


def _manifest(data: bytes) -> None:
    for entry in entries(io.BytesIO(data)):
        entry.encoded  # noqa: B018


TARGETS: dict[str, Target] = {
    "spec": Target(
        run=lambda data: parse_spec(data.decode("utf-8", "replace")), allowed=(SpecError,), seeds=seeds.spec
    ),
    "requirements": Target(run=_requirements, allowed=(), seeds=seeds.requirements),
    "requirement-lines": Target(run=_flattened, allowed=(), seeds=seeds.requirements),
    "project": Target(run=_project, allowed=(), seeds=seeds.project),
    "source-archive": Target(run=_source_archive, allowed=(), seeds=seeds.source_archive),
    "built-wheel": Target(run=_built_wheel, allowed=(BuildError,), seeds=seeds.wheel),
    "built": Target(run=_built, allowed=(BuildError,), seeds=seeds.built),
    "scm": Target(run=_version, allowed=(), seeds=seeds.origin),
    "ranks": Target(run=_frame, allowed=(), seeds=seeds.frame),
    "hosts": Target(run=_hosts, allowed=(), seeds=seeds.hosts),
    "launch": Target(run=_launch, allowed=(UsageError,), seeds=seeds.launch),
    "labels": Target(run=_labels, allowed=(), seeds=seeds.labels),
    "host": Target(run=_host, allowed=(SpecError,), seeds=seeds.machine),
    "lock": Target(run=_lock, allowed=(LockError,), seeds=seeds.lock),
    "record": Target(run=records.loads, allowed=(records.RecordError,), seeds=seeds.record_file),
    "process": Target(run=_process, allowed=(), seeds=seeds.process),
    "memory": Target(run=_memory, allowed=(), seeds=seeds.memory),
    "verdict": Target(run=lambda data: _verdict(json_table(data)), allowed=(), seeds=seeds.verdict),
    "attestation": Target(run=lambda data: attestation.load(_file(data)), allowed=(LockError,), seeds=seeds.statement),
    "deb": Target(run=_deb, allowed=(BuildError,), seeds=seeds.deb),
    "deb-control": Target(
        run=lambda data: parse_control(data.decode("utf-8", "replace"), "x.deb"),
        allowed=(BuildError,),
        seeds=seeds.control,
    ),
    "deb-data": Target(run=_deb_data, allowed=(BuildError,), seeds=seeds.data_tar),
    "base-image": Target(run=lambda data: read_facts(_file(data)), allowed=(BuildError,), seeds=seeds.rootfs),
    "python-build": Target(run=_python_build, allowed=(BuildError,), seeds=seeds.python_build),
    "wheel": Target(run=_wheel, allowed=(WheelError,), seeds=seeds.wheel),
    "wheel-record": Target(run=_wheel_record, allowed=(WheelError,), seeds=seeds.wheel_record),
    "entry-points": Target(run=_entry_points, allowed=(WheelError,), seeds=seeds.entry_points),
    "wheel-libraries": Target(run=_scan, allowed=(IntegrityError,), seeds=seeds.libraries),
    "metadata": Target(run=_licences, allowed=(), seeds=seeds.metadata),
    "elf": Target(run=lambda data: read_dynamic(io.BytesIO(data)), allowed=(NotElfError,), seeds=seeds.elf),
    "packages": Target(run=_packages, allowed=(IntegrityError,), seeds=seeds.packages),
    "release": Target(run=_release, allowed=(IntegrityError,), seeds=seeds.release),
    "signed-release": Target(
        run=lambda data: read_release(data, "InRelease", (_key(),)),
        allowed=(IntegrityError,),
        seeds=seeds.signed_release,
    ),
    "contents": Target(run=_contents, allowed=(IntegrityError,), seeds=seeds.contents),
    "registry": Target(run=_registry, allowed=(), seeds=seeds.registry),
    "token": Target(run=_token, allowed=(EnvbuildError,), seeds=seeds.token),
    "location": Target(run=_location, allowed=(HttpError,), seeds=seeds.location),
    "layer": Target(run=_member, allowed=(IntegrityError,), seeds=seeds.layer),
    "bundle": Target(run=_bundle, allowed=(IntegrityError,), seeds=seeds.bundle),
    "signatures": Target(run=_signatures, allowed=(), seeds=seeds.signatures),
    "tensors": Target(run=_tensors, allowed=(), seeds=seeds.tensors),
    "hdf5": Target(run=_hdf5, allowed=(), seeds=seeds.hdf5),
    "events": Target(run=_events, allowed=(), seeds=seeds.events),
    "trace": Target(run=_trace, allowed=(traces.TraceError,), seeds=seeds.trace),
    "printed": Target(run=_printed, allowed=(), seeds=seeds.printed),
    "content": Target(run=lambda data: read_content(data, _MASKS, unpacked=_LARGEST), allowed=(), seeds=seeds.content),
    "inputs": Target(run=_manifest, allowed=(ManifestError,), seeds=seeds.manifest),
}
"""All parsers, by name."""


def available() -> list[str]:
    """Return the names of the targets whose libraries are there."""
    return [name for name in TARGETS if name != "hdf5" or importlib.util.find_spec("h5py") is not None]
