"""The formats of files that are opened, recognised by their bytes: each has a test and a reader.

The order counts: a format with a signature of its own comes before those that are recognised by their structure, since
their tests accept more. A file of none of these is a text, or counts by its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from envbuild.verification.content.archives import Nested, read_tar, read_zip, unpack
from envbuild.verification.content.arrays import NUMPY, is_safetensors, read_npy, read_safetensors
from envbuild.verification.content.arrow import ARROW, is_stream, read_arrow, read_stream
from envbuild.verification.content.avro import is_avro, read_avro
from envbuild.verification.content.berkeley import is_hash_file, read_hash_file
from envbuild.verification.content.boosting import MODEL, read_model
from envbuild.verification.content.canonical import Canonical
from envbuild.verification.content.cbor import is_cbor, read_cbor
from envbuild.verification.content.columns import PARQUET, read_parquet
from envbuild.verification.content.database import read_database
from envbuild.verification.content.datasets import is_snapshot, is_spec, read_snapshot, read_spec
from envbuild.verification.content.duckdb import is_database as is_duckdb
from envbuild.verification.content.duckdb import read_database as read_duckdb
from envbuild.verification.content.event_files import is_event_file, read_event_file
from envbuild.verification.content.examples import are_records, read_records
from envbuild.verification.content.fingerprints import is_fingerprint, read_fingerprint
from envbuild.verification.content.hdf5_times import is_hdf5, read_hdf5
from envbuild.verification.content.images import read_jpeg, read_pdf, read_png
from envbuild.verification.content.locks import is_lock, read_lock
from envbuild.verification.content.lz4 import MAGIC as LZ4
from envbuild.verification.content.lz4 import unpack_lz4
from envbuild.verification.content.msgpack import is_msgpack, read_msgpack
from envbuild.verification.content.onnx import is_model
from envbuild.verification.content.onnx import read_model as read_onnx
from envbuild.verification.content.pickles import read_pickles
from envbuild.verification.content.storages import is_storage_file, read_storage_file
from envbuild.verification.content.telemetry import is_profile, read_profile
from envbuild.verification.content.trackers import is_operations, read_operations
from envbuild.verification.content.wandb import MAGIC as TRANSACTIONS
from envbuild.verification.content.wandb import is_log as is_log_of_wandb
from envbuild.verification.content.wandb import read_log, read_transactions

Reader = Callable[[Canonical, str, bytes, Nested], object]
"""Reads data into what counts, and opens what is inside them by the last argument."""

_DATABASE = b"SQLite format 3\0"
_ZLIB = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")


class Format(NamedTuple):
    """One format: whether data are of it, and what reads them."""

    fits: Callable[[bytes], bool]
    read: Reader


def format_of(data: bytes) -> Format | None:
    """Return the format of data; None for texts, and for formats that are not opened."""
    return next((each for each in _FORMATS if each.fits(data)), None)


def is_database(data: bytes) -> bool:
    """Whether data are a database of SQLite."""
    return data.startswith(_DATABASE)


def is_text(data: bytes) -> bool:
    """Whether data are a text in UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _starts(*signatures: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(signatures)


def _framed(start: bytes, end: bytes) -> Callable[[bytes], bool]:
    return lambda data: data.startswith(start) and data.endswith(end)


def _packed(kind: str) -> Reader:
    return lambda out, path, data, nested: nested(out, path, unpack(out, data, kind))


def _flat(read: Callable[[Canonical, str, bytes], object]) -> Reader:
    """Make a reader of one that opens nothing inside its data."""
    return lambda out, path, data, _: read(out, path, data)


def _is_tar(data: bytes) -> bool:
    return data[257:262] == b"ustar"


def _is_zlib(data: bytes) -> bool:
    return data.startswith(_ZLIB) and not is_text(data)  # as joblib compresses by default


def _is_pickle(data: bytes) -> bool:
    return data[:1] == b"\x80" and b"\x02" <= data[1:2] <= b"\x05" and data[-1:] == b"."


def _of_lz4(out: Canonical, path: str, data: bytes, nested: Nested) -> None:
    nested(out, path, unpack_lz4(out, data))


_FORMATS = (
    Format(_starts(b"\x1f\x8b\x08"), _packed("gz")),
    Format(_starts(b"BZh"), _packed("bz2")),
    Format(_starts(b"\xfd7zXZ\0"), _packed("xz")),
    Format(_starts(b"\x28\xb5\x2f\xfd"), _packed("zst")),
    Format(_starts(b"]\0\0"), _packed("lzma")),
    Format(_starts(b"PK\x03\x04", b"PK\x05\x06"), read_zip),
    Format(_starts(b"\x89PNG\r\n\x1a\n"), _flat(read_png)),
    Format(_starts(b"\xff\xd8\xff"), _flat(read_jpeg)),
    Format(_starts(b"%PDF-"), _flat(read_pdf)),
    Format(is_database, read_database),
    Format(_is_tar, read_tar),
    Format(_is_zlib, _packed("zlib")),
    Format(_starts(LZ4), _of_lz4),
    Format(_framed(PARQUET, PARQUET), read_parquet),
    Format(_framed(ARROW + b"\0\0", ARROW), read_arrow),
    Format(is_stream, read_stream),
    Format(_starts(NUMPY), read_npy),
    Format(_starts(MODEL), _flat(read_model)),
    Format(is_hash_file, read_hash_file),
    Format(is_profile, _flat(read_profile)),
    Format(is_event_file, _flat(read_event_file)),
    Format(is_safetensors, read_safetensors),
    Format(are_records, _flat(read_records)),
    Format(is_storage_file, read_storage_file),
    Format(is_snapshot, _flat(read_snapshot)),
    Format(is_spec, _flat(read_spec)),
    Format(is_lock, _flat(read_lock)),
    Format(is_avro, _flat(read_avro)),
    Format(is_duckdb, _flat(read_duckdb)),
    Format(_starts(TRANSACTIONS), read_transactions),
    Format(is_log_of_wandb, read_log),
    Format(is_fingerprint, _flat(read_fingerprint)),
    Format(is_model, read_onnx),
    Format(is_hdf5, _flat(read_hdf5)),
    Format(is_operations, read_operations),
    Format(is_msgpack, read_msgpack),
    Format(is_cbor, read_cbor),
    Format(_is_pickle, read_pickles),
)
