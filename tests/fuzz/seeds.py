"""Good inputs for each target, made by the test suite's own makers of such files."""

from __future__ import annotations

import base64
import gzip
import io
import json
import marshal
import pickle
import sqlite3
import struct
import tempfile
import zlib
from pathlib import Path
from typing import Any

import msgspec

from envbuild.cluster import frames
from envbuild.core.digest import canonical_json
from envbuild.core.tfrecord import crc32c
from envbuild.host import file as host_file
from envbuild.lockfile import model as locks
from envbuild.record import model as records
from envbuild.store.bundle import ARTIFACT
from envbuild.verification import attestation
from tests.support import debs, formats, models
from tests.support.archives import BASE, sign, stanza
from tests.support.base import GLIBC, base_tar
from tests.support.elf import make_elf
from tests.support.hosts import gpu, host
from tests.support.locks import small_lock
from tests.support.pythons import tiny_archive
from tests.support.records import record
from tests.support.records import verdict as made_verdict
from tests.support.traces import make_trace
from tests.support.wheels import Member, wheel_bytes

_ZEROS, _A = "0" * 64, "a" * 64
_NAME = "pkg-1.0-py3-none-any.whl"

__all__ = ["Member"]


def spec() -> list[bytes]:
    """Specs with most keys."""
    return [
        b'name: digits\nos: debian-12\npython: "3.11"\nrequirements: [tensorflow-cpu==2.21.*, scikit-learn]\n'
        b"determinism: {seed: 42, threads: 2}\n",
        b'name: t\nos: {release: debian-13, snapshot: 20260101T000000Z, mirror: "https://deb.invalid/debian"}\n'
        b'python: "3.13"\npackages: [git, libgomp1]\nrequirements:\n  - torch>=2 ; python_version > "3.9"\n'
        b'cuda: "12"\ncudnn: "9"\nwheels: [wheels]\ninputs: [data]\nenv: {A: b}\nrun: {network: none}\n'
        b'hardware:\n  gpu: {count: {value: 1, policy: at least}, model: "NVIDIA H200"}\n  kernel: ">=6.1"\n'
        b"  cpu_flags: [avx2]\n  fingerprint: true\n",
        b"name: &a x\nrequirements: *a\n",
    ]


def requirements() -> list[bytes]:
    """Requirements files, and a project's metadata."""
    return [
        b"torch==2.1 ; python_version<'3.12' # x\n-r requirements.txt\n-c constraints.txt\n--hash=sha256:00\n"
        b"-e ./x\nnumpy \\\n>=1\n",
        b'[project]\nname = "x"\nversion = "1"\ndependencies = ["numpy>=1"]\ndynamic = ["version"]\n'
        b"[tool.uv.sources]\n",
    ]


def project() -> list[bytes]:
    """What defines a project: ``pyproject.toml``, NUL, ``setup.cfg``."""
    return [
        b'[project]\nname = "My.Lib"\nversion = "1"\n[build-system]\nrequires = ["setuptools>=61", "wheel"]\n'
        b'build-backend = "setuptools.build_meta:__legacy__"\nbackend-path = ["."]\n[tool.uv.sources]\n'
        b'a = {workspace = true}\nb = [{git = "https://git.invalid/b", marker = "x"}, {path = "../b"}]\n\0',
        b"[tool.poetry]\nname = 'x'\n[tool.poetry.dependencies]\ny = {path = '../y'}\n\0[metadata]\nname = attr: x\n",
        b"\0[metadata]\nname = my_lib\nversion = %(x)s\n",
    ]


def source_archive() -> list[bytes]:
    """Source archives, compressed and not, and as zip."""
    toml = project()[0].partition(b"\0")[0]
    members = [debs.Member(name="x-1/", kind="dir", mode=0o755), debs.Member(name="x-1/pyproject.toml", data=toml)]
    tar = debs.tar_bytes(members)
    return [tar, gzip.compress(tar, mtime=0), models.zipped({"x-1/pyproject.toml": toml}, 8)]


def origin() -> list[bytes]:
    """References of git, each after a commit."""
    commit = b"1234567890" * 4
    return [commit + ref for ref in (b"v1.2.0", b"refs/tags/release-2024.1rc1", b"main", b"1234567", b"x/v1!2+a.b")]


def frame() -> list[bytes]:
    """Messages between ranks, with their heads."""
    table = {"start": "0" * 32, "nonce": "a" * 32, "rank": 1}
    values: list[tuple[int, dict[str, Any]]] = [
        (frames.CALL, {"start": "0" * 32}),
        (frames.ANSWER, {**table, "host": "a", "facts": {"image": "x"}, "refused": ["y"]}),
        (frames.VERDICT, {"start": "0" * 32, "nonces": {"1": "a" * 32}, "hosts": ["a"], "lines": ["z"]}),
        (frames.ENDED, {**table, "code": 3}),
        (frames.CODES, {"codes": {"0": 1, "2": 255}}),
    ]
    found = [frames.pack(b"key", kind, "", value) for kind, value in values]
    return [*found, frames.pack_refusal(frames.SECRET)]


def hosts() -> list[bytes]:
    """Slurm's short forms: names, and numbers."""
    return [b"node[1-3,07],login", b"a[1-2]b[01-03],c", b"2(x3),1", b""]


def launch() -> list[bytes]:
    """Variables of launchers, separated by NUL."""
    slurm = {
        "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
        "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    }  # fmt: skip
    torch = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    task = {"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"]}, "task": {"type": "worker", "index": 1}}
    tables = (slurm, torch, {"TF_CONFIG": json.dumps(task)}, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"})
    return ["\0".join(f"{name}={value}" for name, value in table.items()).encode() for table in tables]


def labels() -> list[bytes]:
    """Texts around numbers."""
    return [
        b"epoch,time,loss\n1,0.5,0.25\n",
        b"total time [3]: 1.5 s\nthroughput = 12.5 samples/s\n",
        b'| "train loss" | elapsed_ms |\n| 0.1 | 3 |\n',
        b"\x81\xa4time\xcb\x3f\xf0\0\0\0\0\0\0",
        b"a.b[3].wall_clock\n/x/times.npy\n",
    ]


def built() -> list[bytes]:
    """What a build step leaves, as a tar."""
    asked = debs.Member(name="out/requires.json", data=b'["numpy>=2", "cython"]')
    return [debs.tar_bytes([debs.Member(name=f"out/{_NAME}", data=wheel_bytes("pkg"))]), debs.tar_bytes([asked])]


def machine() -> list[bytes]:
    """Host descriptions, with and without a GPU."""
    return [host_file.dumps(host([gpu()])).encode(), host_file.dumps(host()).encode()]


def lock() -> list[bytes]:
    """Locks."""
    wheels, packages = {_NAME: b"wheel"}, {"libc6_2.36-9_amd64.deb": b"deb"}
    return [locks.dumps(small_lock()), locks.dumps(small_lock(wheels, packages))]


def record_file() -> list[bytes]:
    """Records."""
    return [records.dumps(record()), records.dumps(record(state="failed", problem="x", verdict=None))]


def process() -> list[bytes]:
    """What the hook writes."""
    draw = {"call": "os.urandom", "file": "t.py", "line": 3, "chain": [{"file": "t.py", "line": 1}], "used": None}
    return [
        json.dumps(
            {
                "format": 1,
                "pid": 7,
                "parent": 1,
                "path": "0",
                "seed": 5,
                "level": "ops",
                "python": "3.11.2",
                "arguments": ["t.py"],
                "frameworks": {"numpy": "2"},
                "generators": {"numpy": 5},
                "switches": [{"name": "s", "wanted": 1, "found": 1, "ok": True}],
                "entropy": [draw],
                "parameters": [{"parser": "argparse", "program": "t", "values": {"lr": {"value": 1, "source": "x"}}}],
                "modules": [{"path": "/workspace/t.py", "size": 1, "sha256": _A}],
                "objects": {"others": []},
                "configs": [{"path": "c.json", "size": None, "sha256": None}],
                "left_out": 0,
                "warnings": ["x"],
                "reads": [{"path": "/workspace/d", "size": 1, "mtime_ns": 2}],
                "environment_changed": {"A": None},
            }
        ).encode()
    ]


def verdict() -> list[bytes]:
    """What the guard writes."""
    return [msgspec.json.encode(made_verdict({"field": "kernel"}))]


def statement() -> list[bytes]:
    """Attestations."""
    table: dict[str, Any] = {"compared": ("1 file",), "ignored": (), "trace": "", "version": "1"}
    found = attestation.state([record()], lock_name="digits", date="2026-01-02T03:04:05.678Z", **table)
    return [attestation.dumps(found)]


def deb() -> list[bytes]:
    """Packages."""
    control = debs.deb_control("x", depends="libc6 (>= 2)")
    files = {"/usr/bin/x": b"#!/bin/sh\n", "/etc/x.conf": b"a"}
    return [debs.deb_bytes(control, files, compression=kind) for kind in ("xz", "gz", "none")]


def control() -> list[bytes]:
    """Control files."""
    return [
        debs.deb_control("x", fields={"Depends": "a | b (>= 1:2~x), c:any", "Description": "x\n more\n ."}).encode()
    ]


def control_tar() -> bytes:
    """A control archive."""
    return debs.tar_bytes([debs.Member(name="./control", data=debs.deb_control("x").encode())])


def data_tar() -> list[bytes]:
    """Data archives with members of all kinds."""
    members = [
        debs.Member(name="./", kind="dir", mode=0o755),
        debs.Member(name="./usr/", kind="dir", mode=0o755),
        debs.Member(name="./usr/a", data=b"a", xattrs={"security.capability": b"\1\0\0\2"}),
        debs.Member(name="./usr/b", kind="symlink", target="a"),
        debs.Member(name="./usr/c", kind="hardlink", target="./usr/a"),
    ]
    return [debs.tar_bytes(members), debs.tar_bytes(members[:3])]


def rootfs() -> list[bytes]:
    """File systems of base images."""
    files: dict[str, bytes | str] = {
        "etc/os-release": "ID=debian\nVERSION_ID=12\n",
        "usr/bin/python3.11": b"",
        "lib/x86_64-linux-gnu/libc.so.6": GLIBC,
    }
    return [base_tar(files, {"usr/bin/python3": "python3.11"})]


def python_build() -> list[bytes]:
    """Archives of standalone Pythons, uncompressed."""
    with tempfile.TemporaryDirectory() as folder:
        return [gzip.decompress(tiny_archive(Path(folder, "a"), **{"bin/python3": "python3.12"}).read_bytes())]


def wheel() -> list[bytes]:
    """Wheels."""
    scripts = {"console_scripts": {"run": "pkg:main"}}
    return [
        wheel_bytes("pkg"),
        wheel_bytes(
            "pkg", entry_points=scripts, data={"scripts/x": "#!python\n", "headers/h.h": "h", "data/share/x": "x"}
        ),
        wheel_bytes("pkg", members=[Member(name="pkg.so", data=make_elf(["libc.so.6"]))], compression=0),
    ]


def wheel_record() -> list[bytes]:
    """RECORD files."""
    return [b"pkg-1.0.dist-info/METADATA,,\npkg-1.0.dist-info/RECORD,,\n", b'"a""b",md5=x,1\npkg.py,sha256=47DEQ,0\n']


def entry_points() -> list[bytes]:
    """entry_points.txt."""
    return [b"[console_scripts]\nrun = pkg:main\nx=a.b:c.d [extra]\n[gui_scripts]\ny = pkg:m\n# c\n"]


def libraries() -> list[bytes]:
    """Wheels with libraries."""
    return [
        wheel_bytes("pkg", members=[Member(name="pkg/x.so", data=make_elf(["libc.so.6"], "x.so", runpath="$ORIGIN"))])
    ]


def elf() -> list[bytes]:
    """Objects of both widths and byte orders."""
    names = ["libc.so.6", "libm.so.6"]
    return [
        make_elf(names, "x.so", runpath="$ORIGIN", wide=wide, little=little, program=program)
        for wide, little, program in (
            (True, True, False),
            (False, True, True),
            (True, False, True),
            (False, False, False),
        )
    ]


def packages() -> list[bytes]:
    """Packages files."""
    more = stanza("a", "1:2~b-3", depends="b (>= 1) | c:any, d [amd64]", provides="v (= 1), w", conflicts="z (<< 2)")
    return ["\n".join([*BASE, more]).encode(), b"a (>= 1) | b:any (<< 2:3~4), c [!amd64] <!nocheck>"]


def release() -> list[bytes]:
    """The text of a release file."""
    text = (
        "Origin: Debian\nSuite: stable\nCodename: bookworm\nDate: Sat, 21 Nov 2026 07:00:00 UTC\n"
        f"Valid-Until: Sat, 28 Nov 2126 07:00:00 UTC\nSHA256:\n {_A} 1000 main/binary-amd64/Packages.xz\n"
    )
    return [text.encode()]


def signed_release() -> list[bytes]:
    """Release files that the right key has signed."""
    return [sign(release()[0].decode())]


def contents() -> list[bytes]:
    """Contents indexes."""
    return [gzip.compress(b"usr/lib/x86_64-linux-gnu/libgomp.so.1\tlibs/libgomp1,libs/x\nusr/bin/x  y\n", mtime=0)]


def registry() -> list[bytes]:
    """Answers of a registry, separated by NUL: an index, a manifest, a configuration; and single ones."""
    layer = {"digest": f"sha256:{_A}", "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "size": 5}
    manifest = {
        "config": {**layer, "annotations": {"a": "b"}}, "layers": [layer], "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "annotations": {"x": "y"},
    }  # fmt: skip
    index = {
        "manifests": [{**layer, "platform": {"os": "linux", "architecture": "amd64"}, "artifactType": "x"}],
        "mediaType": "application/vnd.oci.image.index.v1+json",
    }
    config = {
        "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_ZEROS}"]},
        "config": {"Labels": {"a": "b"}}, "history": [{"created_by": "envbuild: os"}],
    }  # fmt: skip
    first, second, third = (json.dumps(each).encode() for each in (index, manifest, config))
    stored = {"artifactType": ARTIFACT, "config": layer, "layers": [layer], "mediaType": "x"}
    return [
        b"i" + first + b"\0m" + second + b"\0" + third,
        b"m" + second + b"\0" + third,
        first,
        canonical_json(stored),
        b'{"errors": [{"code": "DENIED", "message": "no", "detail": {"a": 1}}]}',
    ]


def memory() -> list[bytes]:
    """What the hook writes of memory file systems."""
    files = [{"path": "/dev/shm/a", "size": 3, "sha256": _A}, {"path": "/tmp/big", "size": 9, "sha256": None}]
    return [json.dumps({"files": files, "left_out": 2}).encode(), b'{"files": [], "left_out": 0}']


def token() -> list[bytes]:
    """A challenge and the token server's answer."""
    return [
        b'Bearer realm="https://auth.invalid/t?a=b",service="s",scope="x y"\n{"token": "abc"}',
        b'Basic realm="r"\n{}',
    ]


def location() -> list[bytes]:
    """Where a server may send us."""
    return [b"https://storage.invalid:443/a?b=c%20d#e", b"//u:p@[::1]:80/x", b"../v2/name/blobs/uploads/1?_state=x"]


def layer() -> list[bytes]:
    """Compressed layers."""
    return [gzip.compress(bytes(5000), mtime=0) + gzip.compress(b"second", mtime=0)]


def bundle() -> list[bytes]:
    """The index of a folder that carries a store's files."""
    entry = {
        "annotations": {"org.opencontainers.image.ref.name": "name"}, "artifactType": ARTIFACT,
        "digest": f"sha256:{_A}", "mediaType": "x", "size": 1,
    }  # fmt: skip
    return [json.dumps({"manifests": [entry], "schemaVersion": 2}).encode()]


def signatures() -> list[bytes]:
    """What cosign prints."""
    statement = {
        "subject": [{"name": "x", "digest": {"sha256": _ZEROS}}],
        "predicate": {
            "buildDefinition": {"buildType": "x", "externalParameters": {"lock": {"digest": {"sha256": _A}}}},
            "runDetails": {"builder": {"id": "https://x.invalid"}},
        },
    }
    payload = base64.b64encode(json.dumps(statement).encode()).decode()
    critical = {"type": "cosign container image signature", "image": {"docker-manifest-digest": f"sha256:{_ZEROS}"}}
    return [
        json.dumps({"payload": payload}).encode() + b"\n",
        json.dumps([{"critical": critical}]).encode(),
        json.dumps(statement["predicate"]).encode(),
        b"Error: no matching signatures: https://user:secret@x.invalid\n",
    ]


def metadata() -> list[bytes]:
    """A wheel's METADATA and a Debian copyright file."""
    return [
        b"Metadata-Version: 2.4\nName: x\nVersion: 1\nLicense-Expression: MIT OR Apache-2.0\nLicense: BSD\n"
        b"Classifier: License :: OSI Approved :: MIT License\nRequires-Dist: a>=1 ; extra == 'b'\n\nText\n",
        b"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
        b"Files: *\nLicense: GPL-2+ or MIT\n\nLicense: GPL-2+\n text\n .\n more\n",
    ]


def tensors() -> list[bytes]:
    """Saved models of every format but HDF5."""
    array = models.npy("<f4", (2, 2), bytes(16))
    storage = models.Storage("FloatStorage", "0", 4)
    value = {"w": models.tensor(storage, 0, (2, 2)), "n": 1, "list": [1, (2, "x")]}
    return [
        array,
        models.npy([("a", "<i4"), ("b", "<f8", (2,))], (1,), bytes(20), version=2),
        models.zipped({"a.npy": array, "b/c.npy": models.npy("<i8", (1,), bytes(8), fortran=True)}),
        models.zipped({"a.npy": array}, 8),
        models.safetensors({"a": ("F32", (2,), bytes(8)), "b": ("BF16", (1, 2), bytes(4))}, {"k": "v"}),
        models.torch_archive(value, {"0": bytes(16)}, version=b"3"),
    ]


def hdf5() -> list[bytes]:
    """HDF5 files, and a Keras archive with one."""
    import h5py

    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file["layers/dense/kernel"] = [[1.0, 2.0], [3.0, 4.0]]
        file["layers/dense/bias"] = [1, 2]
        file.attrs["name"] = "model"
        file.attrs["of"] = file["layers/dense"].ref
        file["soft"] = h5py.SoftLink("/layers")
        file["far"] = h5py.ExternalLink("elsewhere.h5", "/x")
        file["again"] = file["layers/dense/bias"]
        file.create_dataset("ragged", (2,), h5py.vlen_dtype("f4"))[0] = [0.5]
        file.create_dataset("words", data=["a", "b"])
        file.create_dataset("kinds", data=[1], dtype=h5py.enum_dtype({"A": 1}))
    data = buffer.getvalue()
    keras = {"config.json": b'{"shared_object_id": 12}', "metadata.json": b'{"date_saved": "x"}'}
    return [data, models.zipped({**keras, "model.weights.h5": data})]


def events() -> list[bytes]:
    """An event file with scalars in both forms, and an event without its frame."""

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    simple = b"\x15" + struct.pack("<f", 0.5)
    whole = field(8, b"\x08\x01" + field(2, b"") + field(4, struct.pack("<f", 0.25)))
    found = [
        b"\x09" + struct.pack("<d", 1.5) + b"\x10\x07" + field(5, field(1, field(1, b"loss") + value))
        for value in (simple, whole)
    ]
    frames = []
    for event in found:
        head = struct.pack("<Q", len(event))
        frames += [head, struct.pack("<I", crc32c(head)), event, struct.pack("<I", crc32c(event))]
    return [b"".join(frames), *found]


def trace() -> list[bytes]:
    """Step traces."""
    with tempfile.TemporaryDirectory() as name:
        values = {"kernel": [1.0, 2.0], "bias": [0.5]}
        path = make_trace(Path(name), [values, values, values], losses=[0.5, 0.25], batches=[1, 2], per_epoch=2)
        return [path.read_bytes()]


def printed() -> list[bytes]:
    """Lines that a program prints, and what the hook notes of Keras."""
    return [
        b'epoch 1\n{"step": 1, "loss": 0.5, "nested": {"a": 1e3}}\r{"epoch": 2, "acc": -0.0}\n',
        b'{"process": "", "fit": 1, "epoch": 0, "values": {"loss": 0.5, "acc": "nan"}}\n',
    ]


def content() -> list[bytes]:
    """Files of every kind that ``verify`` opens."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "x.db")
        with sqlite3.connect(path) as connection:
            connection.executescript("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, 'x'), (2.5, NULL)")
        connection.close()
        database = path.read_bytes()
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"tEXt", b"a\0b"), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b""))
    png = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    table: dict[str, Any] = {"time": 1.5, "loss": [0.1, 0.2], "when": "2026-11-21T07:56:03", "id": "x" * 40}
    text = json.dumps(table).encode()
    return [
        text,
        b"epoch,time,loss\n1,0.5,0.25\n2,0.75,0.125\n",
        gzip.compress(text, mtime=0),
        models.zipped({"a.json": text, "b.txt": b"x"}, 8),
        debs.tar_bytes([debs.Member(name="a.txt", data=b"a"), debs.Member(name="b", kind="symlink", target="a")]),
        b"\x89PNG\r\n\x1a\n" + png,
        b"%PDF-1.4\n1 0 obj\n<</CreationDate (D:20261121075603Z) /ID [<00><00>]>>\nendobj\n%%EOF",
        database,
        pickle.dumps({"a": [1, 2.5, (None, True)], "b": {"x", "y"}}, 4),
        pickle.dumps({"when": 1.0, "set": frozenset({1})}, 2),
        _joblib(),
        zlib.compress(_joblib()),
        pickle.dumps({"a": 1}).ljust(512, b"\0") + pickle.dumps({"a": 2}),
        b'<?xml version="1.0"?><testsuite time="1.5"><testcase name="a">0.5</testcase><!-- b --></testsuite>',
        b'# TYPE loss gauge\nloss{epoch="1"} 0.5 1795247763000\nprocess_cpu_seconds_total 1.5\n',
        json.dumps({"traceEvents": [{"name": "a", "ph": "X", "ts": 1.5, "dur": 2, "pid": 3, "tid": 4}]}).encode(),
        marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 0.5, {("b.py", 2, "g"): (1, 1, 0.5, 0.5)})}),
        b"\x04\x22\x4d\x18\x60\x70\x73\x0a\0\0\0\x50hello\x05\0\x10!\0\0\0\0",
        formats.PARQUET,
        formats.FEATHER,
        formats.FEATHER_PACKED[0],
        formats.ARROW_STREAM,
        formats.HASH_FILE,
        *formats.FRAMES.values(),
        formats.STORAGES,
        formats.EXAMPLES,
        formats.STRUCTURE,
        formats.SNAPSHOT,
        bytes.fromhex("dec0efbe01000100").ljust(8192, b"\0"),
        b"\xff\xd8\xff\xfe\0\x06abcd\xff\xe1\0\x0aExif\0\0ab\xff\xda\0\x02abc\xff\xd9",
        models.npy("<f4", (2, 3), bytes(24)),
        models.npy([("time", "<M8[s]"), ("loss", "<f8")], (1,), bytes(16)),
        models.safetensors({"a": ("I8", (1,), b"a")}, {"k": "v"}),
        msgspec.msgpack.encode({**table, "b": b"x", "d": {"e": None}}),
        b"\xd9\xd9\xf7\xbf\x64loss\xfb" + struct.pack(">d", 0.5) + b"\x61l\x9f\x01\xc1\x1a\0\x01\0\0\xff\xff",
        _avro(),
        b"\x89HDF\r\n\x1a\n\0\x12\0\x08\0\0\0\0\0\x01\0\0\0" + struct.pack("<I", 1_795_247_763) + bytes(9),
        events()[0],
    ]


def _avro() -> bytes:
    """One number in one block, as Avro's files of records have it."""
    marker = bytes(range(16))
    return b'Obj\x01\x02\x16avro.schema\x10"double"\0' + marker + b"\x02\x10" + struct.pack("<d", 0.5) + marker


def _joblib() -> bytes:
    """An array as joblib writes it: its values are behind the object that describes it."""
    name, array = b"joblib.numpy_pickle\nNumpyArrayWrapper\n", b"cnumpy\ndtype\n(X\x02\0\0\0f8tR"
    state = b"}(X\5\0\0\0shapeK\x02\x85X\5\0\0\0dtype" + array + b"X\x1b\0\0\0numpy_array_alignment_bytesK\x10u"
    return b"\x80\x02c" + name + b")\x81" + state + b"b\x01\xff" + struct.pack("<dd", 0.5, 1.0) + b"."


def manifest() -> list[bytes]:
    """The manifest of input data."""
    rows = ("file", "a", "4", _A), ("link", "b", "", "a"), ("dir", "c", "", "")
    return [b"envbuild inputs 1\n" + "".join(f"{field}\0" for row in rows for field in row).encode()]
