"""What files mean: containers and clocks make no difference, results always do, and hostile files do no harm."""

from __future__ import annotations

import base64
import bz2
import datetime
import gzip
import io
import json
import lzma
import os
import pickle
import random
import sqlite3
import struct
import sys
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, KeysView
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from envbuild.record.measurements import kind_of
from envbuild.verification.content import Difference, compare, database, documents, leaves, read, read_file, read_noted
from envbuild.verification.content.canonical import with_shared_names
from envbuild.verification.content.names import common_names, masked_path
from envbuild.verification.masking.masks import Masks

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

START = 1_795_247_763.0
"""2026-11-21 07:56:03 UTC: when the runs of these tests began."""
MASKS = Masks(START)
MOMENT, LATER = datetime.datetime(2026, 11, 21, 8), datetime.datetime(2026, 11, 21, 9)
NUMBERS = b"\0".join(b"%d" % (number**3 % 9973) for number in range(900))


def compared(one: bytes, other: bytes) -> Difference:
    """Compare two files of the same run, which must be of a format that is opened."""
    mine, theirs = read(one, MASKS), read(other, MASKS)
    assert mine is not None
    assert theirs is not None
    mine, theirs = with_shared_names((mine, theirs))
    return compare(mine, theirs)


def as_json(**table: Any) -> bytes:
    return json.dumps(table).encode()


def stream(*lines: str) -> dict[str, Any]:
    """What a notebook's cell printed."""
    return {"output_type": "stream", "name": "stdout", "text": lines}


note = {"output_type": "stream", "name": "stderr", "text": "a warning\n"}


def as_zip(members: dict[str, bytes], second: int = 2, **options: Any) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 21, 8, 0, second)), data)
    return stream.getvalue()


def as_tar(members: dict[str, bytes], mtime: float) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def as_png(pixels: bytes, level: int = 6, date: str = "2026-11-21T08:00:00+00:00") -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", len(pixels) - 1, 1, 8, 0, 0, 0, 0)
    text = b"date:create\0" + date.encode()
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (chunk(b"IHDR", head), chunk(b"tEXt", text), chunk(b"IDAT", zlib.compress(pixels, level)), chunk(b"IEND", b""))
    )


def as_page(image: bytes, loss: str = "0.25") -> bytes:
    encoded = base64.b64encode(image).decode()
    return (
        f'<html><body><p>loss {loss}</p>\n<img alt="loss" src="data:image/png;base64,{encoded}"></body></html>'.encode()
    )


def as_jpeg(pixels: bytes, date: str = "2026:11:21 08:00:00", comment: bytes = b"plot") -> bytes:
    exif = b"Exif\0\0II*\0\x08\0\0\0\1\0\x32\1\2\0\x14\0\0\0\x1a\0\0\0\0\0\0\0" + date.encode() + b"\0"
    segments = ((0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"), (0xE1, exif), (0xFE, comment))
    head = b"".join(struct.pack(">BBH", 0xFF, kind, len(body) + 2) + body for kind, body in segments)
    return b"\xff\xd8" + head + b"\xff\xda\0\x02" + pixels + b"\xff\xd9"


def as_database(path: Path, rows: list[tuple[Any, ...]], columns: str, *, deleted: int = 0) -> bytes:
    with sqlite3.connect(path) as connection:
        connection.execute(f"create table t ({columns})")
        marks = ", ".join("?" * len(rows[0]))
        for _ in range(deleted):  # free pages and a counter that differ
            connection.executemany(f"insert into t values ({marks})", rows * 50)
            connection.execute("delete from t")
        connection.executemany(f"insert into t values ({marks})", rows)
    connection.close()
    return path.read_bytes()


JOBLIB = zlib.decompress(
    base64.b85decode(
        b"c-"
        b"n=L%}T>S5XX~#&{C_lh*j_f>LuXKgHTEj1p^fo@g!k4UEQ|%A|IB5LOm2)*pp7)zz6ALh$kPxH>i`uU~3P~vdQc+v;W`BjC0|;l-"
        b"MKGg**hY)3>S7qly)n&Pa25`oLfys-5WAbX_vKc8TLK7hd7;38Ji`7f{_Go(CcyXMreKT@uA&kjQ(SI1JRx1by4>Vyci^=y&}Q-"
        b"t%JWVQl917-rLFxPZEv74ivmI-"
        b"S!6TKrKZAE+o1!?1^%X%Yvf;vnIS)ih%C?ktm8zD7qr^FZAWXnC<@NvWTW<p0$O+dtJKIWaMV=aQm$ftUD3#LPGO7O(KC$Xp%$vh"
        b"iIcQ**eA$i(-id_NMaELM%+(-"
        b"e1jp6V2A+Go1IrX(*bovn1?;ZGMDvEnRI9OuKA^zB;Q3q{jymnmjo_`PHZqO7@0w=K_i1Kp2jvOXtOnm|jYkjTn0P<DAV|3l4gup"
        b"l81K$Sg$XC<tqXho0Qv#y4>?dHe)@@+0jf$|NMx&7k"
    )
)
"""As joblib 1.6 writes {"w": array([0.5, 1]), "names": array(["a", "b"]), "objects": array([{"k": 1}], dtype=object),
"saved_at": 1795247763.0}: the values of arrays are between the opcodes."""


def as_joblib(w: float = 1.0, saved: float = 0.0, name: bytes = b"b", k: int = 1) -> bytes:
    data = JOBLIB.replace(struct.pack("<dd", 0.5, 1.0), struct.pack("<dd", 0.5, w))
    data = data.replace(struct.pack(">d", 1795247763.0), struct.pack(">d", 1795247763.0 + saved))
    return data.replace(b"b\0\0\0\x95Q", name + b"\0\0\0\x95Q").replace(b"\x8c\x01k\x94K\x01", b"\x8c\x01k\x94K%c" % k)


PDF = b"%%PDF-1.4\n1 0 obj <</CreationDate (D:20261121%s+00'00') /Title (%s)>> endobj\n"
PDF += b"trailer <</ID [<%s> <%s>]>>\n%%%%EOF"

SKORCH = b'[{"epoch": 1, "batches": [], "train_loss": 0.5, "dur": %s}]'

STYLED = (
    b'<style type="text/css">\n#T_%s_row1_col0 {\n  background-color: yellow;\n}\n</style>\n<table id="T_%s">\n'
    b'  <th id="T_%s_level0_row0" class="head">0</th>\n  <td id="T_%s_row0_col0" class="data">0.91</td>\n</table>\n'
)
"""As pandas' ``Styler`` writes it."""

HTML = (
    b'<table border="1" class="dataframe"><thead><tr><th></th><th>accuracy</th><th>fit_seconds</th></tr></thead>'
    b"<tbody><tr><th>0</th><td>0.75</td><td>%b</td></tr></tbody></table>"
)
NAMED_INDEX = (
    b"<table><thead><tr><th></th><th>accuracy</th><th>samples/s</th></tr><tr><th>epoch</th><th></th><th></th></tr></thead>"
    b"<tbody><tr><th>1</th><td>%b</td><td>%b</td></tr></tbody></table>"
)
TURNED = (
    b"<table><tbody><tr><th>folds.0.accuracy_score</th><td>0.75</td></tr>"
    b"<tr><th>%b</th><td>%b</td></tr></tbody></table>"
)
SAME = {
    "html with the index's name": (
        NAMED_INDEX % (b"0.5", b"12.5"),
        NAMED_INDEX % (b"0.5", b"13.5"),
        "table.tbody.tr.td.samples/s differs",
    ),
    "json times": (
        as_json(created_at="2026-11-21T08:00:00.25", elapsed=3.25, accuracy=0.91),
        as_json(created_at="2026-11-21T08:00:09.5", elapsed=4.5, accuracy=0.91),
        "created_at, elapsed differ",
    ),
    "json run id": (as_json(run_id="abc123ff", loss=1), as_json(run_id="0f9e8d7c", loss=1), "run_id differs"),
    "json epochs": (
        as_json(epoch_time=[1.5, 1.25], start_time=1795247763.5),
        as_json(epoch_time=[1.75, 2], start_time=1795247800.5),
        "epoch_time, start_time differ",
    ),
    "a column of pandas": (
        as_json(mean_fit_time={"0": 0.5, "1": 0.25}, score={"0": 0.5}),
        as_json(mean_fit_time={"0": 0.75, "1": 0.5}, score={"0": 0.5}),
        "mean_fit_time differs",
    ),
    "the host": (
        as_json(host="envbuild", host_name="envbuild", dir="runs/a_envbuild"),
        as_json(host="envbu002", host_name="envbu002", dir="runs/a_envbu002"),
        "only the container's bytes differ",
    ),
    "an environment": (
        as_json(
            run={"PATH": "/bin", "ENVBUILD_RUN_ID": "01M8HAWJ6TXY9A3ZXHPNS78DW6", "ENVBUILD_PROCESS": "2:::", "A": "1"}
        ),
        as_json(
            run={"A": "1", "ENVBUILD_PROCESS": "5:::", "ENVBUILD_RUN_ID": "01M8HAWK994DZ2YE5VQ58RBNQK", "PATH": "/bin"}
        ),
        "run.ENVBUILD_RUN_ID differs",
    ),
    "json lines": (
        b'{"step": 1, "fps": 120.5}\n{"step": 2}\n',
        b'{"step": 1, "fps": 119}\n{"step": 2}\n',
        "[1].fps differs",
    ),
    "gzip": (
        gzip.compress(b"a,b\n1,2\n", mtime=1),
        gzip.compress(b"a,b\n1,2\n", mtime=2),
        "the format keeps the time of writing",
    ),
    "bz2 level": (
        bz2.compress(b"\1" * 200_000, 1),
        bz2.compress(b"\1" * 200_000, 9),
        "only the container's bytes differ",
    ),
    "xz level": (
        lzma.compress(b"\1" * 90, preset=0),
        lzma.compress(b"\1" * 90, preset=6),
        "only the container's bytes differ",
    ),
    "zip dates": (as_zip({"w.bin": b"\0\1"}, 2), as_zip({"w.bin": b"\0\1"}, 4), "the format keeps the time of writing"),
    "stable-baselines3": (
        as_zip({"data": as_json(start_time=1795247763123456789, gamma=0.99), "policy.pth": b"\0\1"}),
        as_zip({"data": as_json(start_time=1795247799123456789, gamma=0.99), "policy.pth": b"\0\1"}),
        "data.start_time differs",
    ),
    "joblib": (as_joblib(), as_joblib(saved=9), "saved_at differs"),
    "keras' numbers of objects": (
        as_zip({"config.json": as_json(a={"shared_object_id": 140413304909136}, b={"shared_object_id": 9})}),
        as_zip({"config.json": as_json(a={"shared_object_id": 139908299846864}, b={"shared_object_id": 5})}),
        "config.json.a.shared_object_id, config.json.b.shared_object_id differ",
    ),
    "joblib in zlib": (zlib.compress(as_joblib(), 3), zlib.compress(as_joblib(saved=9), 3), "saved_at differs"),
    "joblib in lzma": (
        lzma.compress(as_joblib(), lzma.FORMAT_ALONE),
        lzma.compress(as_joblib(saved=9), lzma.FORMAT_ALONE),
        "saved_at differs",
    ),
    "zst": (
        zstd.compress(b'{"loss": 1, "time": 1795247763.5}'),
        zstd.compress(b'{"loss": 1, "time": 1795247769.5}'),
        "time differs",
    ),
    "zst level": (
        zstd.compress(NUMBERS, 1),
        zstd.compress(NUMBERS, 19),
        "only the container's bytes differ",
    ),
    "tar.xz": (
        lzma.compress(as_tar({"w": b"\0123"}, START)),
        lzma.compress(as_tar({"w": b"\0123"}, START + 9)),
        "the format keeps the time of writing",
    ),
    "pickle": (
        pickle.dumps({"acc": 0.5, "train_time": 1.5, "when": datetime.datetime(2026, 11, 21, 8)}),
        pickle.dumps({"acc": 0.5, "train_time": 2.5, "when": datetime.datetime(2026, 11, 21, 9)}),
        "train_time, when differ",
    ),
    "pickles in blocks, as dbm.dumb has them": (
        pickle.dumps({"at": MOMENT, "score": 1}).ljust(512, b"\0") + pickle.dumps({"at": MOMENT}),
        pickle.dumps({"at": LATER, "score": 1}).ljust(512, b"\0") + pickle.dumps({"at": LATER}),
        "at, [1].at differ",
    ),
    "pickles that were appended": (
        pickle.dumps({"step_time": 1.5}) + pickle.dumps({"step_time": 2.5}),
        pickle.dumps({"step_time": 1.25}) + pickle.dumps({"step_time": 2.25}),
        "step_time, [1].step_time differ",
    ),
    "monitor in base64": (
        as_json(buffer=base64.b64encode(pickle.dumps([{"r": 9.0, "l": 9, "t": 0.25}])).decode()),
        as_json(buffer=base64.b64encode(pickle.dumps([{"r": 9.0, "l": 9, "t": 0.75}])).decode()),
        "buffer[0].t differs",
    ),
    "jpeg": (as_jpeg(b"abc"), as_jpeg(b"abc", "2026:11:21 08:00:59"), "the format keeps the time of writing"),
    "the time as logging writes it": (
        as_json(asctime="2026-11-21 08:00:00,123"),
        as_json(asctime="2026-11-21 08:00:09,999"),
        "asctime differs",
    ),
    "a drawn name of the run": (
        as_json(run="800cc63372c74115b6832f653ba5b709", loss=0.25),
        as_json(run="509e2a7676904880919968907a922f9d", loss=0.25),
        "run differs",
    ),
    "png": (as_png(b"\0abc", 1), as_png(b"\0abc", 9, "2026-11-21T08:00:59+00:00"), "tEXt differs"),
    "png in a page": (
        as_page(as_png(b"\0abc", 1)),
        as_page(as_png(b"\0abc", 9, "2026-11-21T08:00:59+00:00")),
        "image 1 tEXt differs",
    ),
    "pdf": (
        PDF % (b"080000", b"loss", b"aa", b"aa"),
        PDF % (b"080059", b"loss", b"bb", b"bb"),
        "the format keeps the time of writing",
    ),
    "svg": (
        b"<svg><dc:date>2026-11-21T08:00:00</dc:date><g id='m1a2b3c4d5'/><use href='#m1a2b3c4d5'/></svg>",
        b"<svg><dc:date>2026-11-21T08:00:07</dc:date><g id='m0f9e8d7c6'/><use href='#m0f9e8d7c6'/></svg>",
        "line 1 differs",
    ),
    "svg of a scatter plot": (
        b"<svg><path id='C0_0_06de8f12c0'/><use href='#C0_0_06de8f12c0'/><path id='C0_1_1234567890'/></svg>",
        b"<svg><path id='C0_0_ff09331941'/><use href='#C0_0_ff09331941'/><path id='C0_1_0f9e8d7c6b'/></svg>",
        "only the container's bytes differ",
    ),
    "html": (
        b"<html><!-- 2026-11-21 08:00:00 --><p>0.91",
        b"<html><!-- 2026-11-21 08:00:03 --><p>0.91",
        "line 1 differs",
    ),
    "skorch's history": (
        SKORCH % b"3.32",
        SKORCH % b"2.24",
        "[0].dur differs",
    ),
    "pymoo's time of execution": (as_json(exec_time=0.99, f=1), as_json(exec_time=1.46, f=1), "exec_time differs"),
    "html with control characters, as plotly.js has them": (
        b"<!DOCTYPE html><html>\n<script>'\x01\x1a'</script>\n<div id=\"12345678-1234-4123-8123-123456789abc\">",
        b"<!DOCTYPE html><html>\n<script>'\x01\x1a'</script>\n<div id=\"87654321-1234-4123-8123-123456789abc\">",
        "line 3 differs",
    ),
    "a table of pandas' Styler": (STYLED % ((b"e27e4",) * 4), STYLED % ((b"a4dec",) * 4), "names of tables differs"),
    "a table of pandas' Styler in a notebook": (
        as_json(nbformat=4, cells=[{"outputs": [{"data": {"text/html": (STYLED % ((b"e27e4",) * 4)).decode()}}]}]),
        as_json(nbformat=4, cells=[{"outputs": [{"data": {"text/html": (STYLED % ((b"a4dec",) * 4)).decode()}}]}]),
        "names of tables differs",
    ),
    "notebook": (
        as_json(nbformat=4, cells=[{"id": "1a2b3c4d", "source": "1", "outputs": [{"text": ["took 1.5 s\n"]}]}]),
        as_json(nbformat=4, cells=[{"id": "deadbeef", "source": "1", "outputs": [{"text": ["took 2.5 s\n"]}]}]),
        "cells' ids, cells[0].outputs[0].text[0] differ",
    ),
    "notebook's streams in pieces": (
        as_json(nbformat=4, cells=[{"outputs": [stream("a\n", "\r10%"), note, stream("\r20%\nb\n")]}]),
        as_json(nbformat=4, cells=[{"outputs": [note, stream("a\n\r20%\nb\n")]}]),
        "only the container's bytes differ",
    ),
    "a table with a row for each value": (
        b"step,tag,value\n1,charts/SPS,812\n1,losses/td_loss,0.5\n",
        b"step,tag,value\n1,charts/SPS,790\n1,losses/td_loss,0.5\n",
        "charts/SPS differs",
    ),
    "a duration as ISO 8601 has it": (
        as_json(took="P0DT0H0M0.000137S", begun=1_795_248_000.123, w=1),
        as_json(took="P0DT0H1M2.5S", begun=1_795_248_009.25, w=1),
        "took, begun differ",
    ),
    "csv of a transposed frame": (
        b",ridge,net\nscore,0.5,0.25\nfit time,0.000123,0.5\nwall clock (s),1.5,3e-05\n",
        b",ridge,net\nscore,0.5,0.25\nfit time,0.125,0.75\nwall clock (s),2.5,1e-05\n",
        "fit time, wall clock (s) differ",
    ),
    "monitor.csv": (
        b'#{"t_start": 1795247763.5, "env_id": "CartPole"}\nr,l,t\n9.0,9,0.25\n',
        b'#{"t_start": 1795247769.5, "env_id": "CartPole"}\nr,l,t\n9.0,9,0.75\n',
        "t_start, t differ",
    ),
    "durations by name, pickled": (
        pickle.dumps({"time_elapsed": {"train": 1.5, "validate": 0.25}}),
        pickle.dumps({"time_elapsed": {"train": 2.5, "validate": 0.75}}),
        "time_elapsed differs",
    ),
    "a moment under at": (as_json(at=1_795_248_000_123), as_json(at=1_795_248_009_123), "at differs"),
    "the machine's memory and load": (
        as_json(memory={"MemFree": "7826160 kB", "Buffers": "12 kB"}, load_average=[0.5, 0.25, 0.125]),
        as_json(memory={"MemFree": "7776584 kB", "Buffers": "13 kB"}, load_average=[0.75, 0.25, 0.125]),
        "memory.MemFree, memory.Buffers, load_average differ",
    ),
    "the end of a run": (
        as_json(finished=1_795_248_000.5, completed=1_795_248_000),
        as_json(finished=1_795_248_009.5, completed=1_795_248_009),
        "finished, completed differ",
    ),
    "a thread as loguru has it": (
        as_json(record={"thread": {"id": 140_146_890_123_456, "name": "MainThread"}}, loss=0.25),
        as_json(record={"thread": {"id": 139_146_890_123_456, "name": "MainThread"}}, loss=0.25),
        "record.thread.id differs",
    ),
    "sktime's times to predict": (
        b"test_MAPE,fit_time,pred_time,len_train_window\n0.25,0.125,0.5,72\n",
        b"test_MAPE,fit_time,pred_time,len_train_window\n0.25,0.125,0.75,72\n",
        "pred_time differs",
    ),
    "csv with the process that wrote it": (
        b"loss,pid,hostname\n0.5,214,envbuild\n0.25,214,envbuild\n",
        b"loss,pid,hostname\n0.5,98,envbuild\n0.25,98,envbuild\n",
        "pid differs",
    ),
    "csv with quotes": (
        b'a,mean_fit_time,params\n1,0.25,"{\'C\': 1, \'k\': ""x""}"\n',
        b'a,mean_fit_time,params\n1,0.75,"{\'C\': 1, \'k\': ""x""}"\n',
        "mean_fit_time differs",
    ),
    "a table of pandas in html": (HTML % b"0.25", HTML % b"0.75", "table.tbody.tr.td.fit_seconds differs"),
    "milliseconds twice": (
        b"2026-11-21 08:00:01,250,250 [2] INFO loss 0.5\n",
        b"2026-11-21 08:00:02,750,750 [2] INFO loss 0.5\n",
        "line 1 differs",
    ),
    "a thread": (
        as_json(tid=140_146_890_123_456, loss=0.25),
        as_json(tid=139_146_890_123_456, loss=0.25),
        "tid differs",
    ),
    "log": (b"08:00:01 loss 0.5\n", b"08:00:02 loss 0.5\n", "line 1 differs"),
}


@pytest.mark.parametrize("case", SAME)
def test_equal_content_in_other_bytes(case: str) -> None:
    """Containers and measurements make no difference, and the reason is named."""
    one, other, why = SAME[case]
    assert one != other
    assert compared(one, other) == Difference(same=True, why=why, left_out=compared(one, other).left_out)


OTHER = {
    "a column of sums of squares": (b"epoch,rss\n1,0.5\n2,0.25\n", b"epoch,rss\n1,0.6\n2,0.35\n"),
    "an infinite sum of squares": (b'{"rss": 1e999, "loss": 1}', b'{"rss": 1e999, "loss": 2}'),
    "users under UUIDs without dashes": (
        b"user_uuid: 0123456789abcdef0123456789abcdef\nuser_uuid: fedcba9876543210fedcba9876543210\n",
        b"user_uuid: fedcba9876543210fedcba9876543210\nuser_uuid: 0123456789abcdef0123456789abcdef\n",
    ),
    "a residual sum of squares": (as_json(rss=137.92), as_json(rss=161.59)),
    "a score called memory": (as_json(memory=0.87), as_json(memory=0.66)),
    "rows called by their numbers": (
        b'<html><tr id="10034567"><td>10034567</td></tr></html>',
        b'<html><tr id="10099999"><td>10099999</td></tr></html>',
    ),
    "dur elsewhere": (as_json(dur=3.32, epoch=1), as_json(dur=2.24, epoch=1)),
    "predicted times": (
        b"test_MAPE,fit_time,pred_time\n0.25,0.125,0.5\n",
        b"test_MAPE,fit_time,pred_time\n0.25,0.125,0.75\n",
    ),
    "skorch's history, a loss": (
        SKORCH % b"3.32",
        (SKORCH % b"3.32").replace(b"0.5", b"0.4"),
    ),
    "html with control characters": (b"<html>\n'\x01'<p>0.91", b"<html>\n'\x01'<p>0.92"),
    "html with control characters, one of them": (b"<html>\n'\x01'<p>0.91", b"<html>\n'\x02'<p>0.91"),
    "a table of pandas' Styler, a cell": (
        STYLED % ((b"e27e4",) * 4),
        (STYLED % ((b"a4dec",) * 4)).replace(b"0.91", b"0.92"),
    ),
    "a table of pandas' Styler, what is marked": (
        STYLED % ((b"e27e4",) * 4),
        (STYLED % ((b"a4dec",) * 4)).replace(b"row1_col0 {", b"row0_col0 {"),
    ),
    "tables of pandas' Styler in another order": (
        STYLED % ((b"e27e4",) * 4) + STYLED % ((b"11111",) * 4) + b"#T_e27e4",
        STYLED % ((b"e27e4",) * 4) + STYLED % ((b"11111",) * 4) + b"#T_11111",
    ),
    "names like those of tables": (b"<table id='x'>T_e27e4", b"<table id='x'>T_a4dec"),
    "a duration as ISO 8601 has it, a result": (as_json(horizon="P0DT0H0M5S"), as_json(horizon="P0DT0H0M6S")),
    "a duration of days": (as_json(took="P3D"), as_json(took="P4D")),
    "a csv of a transposed frame, a result": (
        b",ridge,net\nscore,0.5,0.25\nfit time,0.000123,0.5\n",
        b",ridge,net\nscore,0.5,0.5\nfit time,0.125,0.75\n",
    ),
    "a csv of a transposed frame, another name": (
        b",ridge,net\nlap time,0.000123,0.5\n",
        b",ridge,net\nlap time,0.125,0.75\n",
    ),
    "a csv of a transposed frame, a text": (
        b",ridge,net\nfit time,0.000123,slow\n",
        b",ridge,net\nfit time,0.000123,fast\n",
    ),
    "a csv with a row that has a measurement's name, and a head": (
        b"kind,ridge,net\nfit time,0.000123,0.5\n",
        b"kind,ridge,net\nfit time,0.125,0.5\n",
    ),
    "a csv of patients": (b"loss,pid\n0.5,214\n0.25,214\n", b"loss,pid\n0.5,98\n0.25,98\n"),
    "a csv of processes": (b"loss,pid,hostname\n1,4,a\n2,5,a\n", b"loss,pid,hostname\n1,5,a\n2,4,a\n"),
    "a csv with quotes, a result": (
        b"a,mean_fit_time,params\n1,0.25,\"{'C': 1, 'k': 2}\"\n",
        b"a,mean_fit_time,params\n1,0.25,\"{'C': 1, 'k': 3}\"\n",
    ),
    "a csv with quotes, where they are": (
        b'a,mean_fit_time,params\n1,0.25,"x"\n',
        b"a,mean_fit_time,params\n1,0.75,x\n",
    ),
    "a csv with a measurement in quotes": (
        b'a,mean_fit_time,params\n1,0.25,"x"\n',
        b'a,mean_fit_time,params\n1,"0.75","x"\n',
    ),
    "a csv whose cell goes on in the next line": (
        b'a,mean_fit_time,params\n1,0.25,"x\ny"\n',
        b'a,mean_fit_time,params\n1,0.75,"x\ny"\n',
    ),
    "a table of pandas in html, another column": (
        (HTML % b"0.25"),
        (HTML % b"0.25").replace(b"0.75", b"0.76"),
    ),
    "a table of pandas in html, a column of one word": (
        (HTML % b"0.25").replace(b"fit_seconds", b"time"),
        (HTML % b"0.75").replace(b"fit_seconds", b"time"),
    ),
    "a table of pandas in html, another column of a named index": (
        NAMED_INDEX % (b"0.5", b"12.5"),
        NAMED_INDEX % (b"0.6", b"12.5"),
    ),
    "a table of pandas in html, a second row of names": (
        (NAMED_INDEX % (b"0.5", b"12.5")).replace(b"<th></th></tr></thead>", b"<th>b</th></tr></thead>"),
        (NAMED_INDEX % (b"0.5", b"13.5")).replace(b"<th></th></tr></thead>", b"<th>b</th></tr></thead>"),
    ),
    "a table with a row for each value, another value": (
        b"step,tag,value\n1,charts/SPS,812\n1,losses/td_loss,0.5\n",
        b"step,tag,value\n1,charts/SPS,812\n1,losses/td_loss,0.75\n",
    ),
    "a table with a row for each value, a name in doubt": (
        b"step,tag,value\n1,valve_throughput,812\n",
        b"step,tag,value\n1,valve_throughput,790\n",
    ),
    "a table with two columns of values": (
        b"tag,value,value2\nfit_time,812,0.5\n",
        b"tag,value,value2\nfit_time,812,0.75\n",
    ),
    "a table of pandas in html, another row": (
        TURNED % (b"folds.0.brier_score", b"0.25"),
        TURNED % (b"folds.0.brier_score", b"0.75"),
    ),
    "a table of pandas in html, a row of one word": (TURNED % (b"time", b"0.25"), TURNED % (b"time", b"0.75")),
    "a table of pandas in html, a row of coefficients": (
        TURNED % (b"wait_time", b"0.25"),
        TURNED % (b"wait_time", b"0.75"),
    ),
    "a table of pandas in html, no number": (HTML % b"fast", HTML % b"slow"),
    "a table of pandas in html, a cell over two columns": (
        (HTML % b"0.25").replace(b"<th>0</th>", b'<th colspan="2">0</th>'),
        (HTML % b"0.75").replace(b"<th>0</th>", b'<th colspan="2">0</th>'),
    ),
    "an id of a thread of posts": (as_json(thread={"id": 5}), as_json(thread={"id": 6})),
    "milliseconds that are not the same twice": (
        b"2026-11-21 08:00:01,250,250 [2] INFO loss 0.5\n",
        b"2026-11-21 08:00:01,250,251 [2] INFO loss 0.5\n",
    ),
    "a loss that looks like a time": (as_json(loss="12:00:01"), as_json(loss="12:00:02")),
    "rows of a column of pandas": (as_json(fit_time={"0": 0.5}), as_json(fit_time={"1": 0.5})),
    "a column of pandas' that is a result": (as_json(fit={"0": 0.5}), as_json(fit={"0": 0.25})),
    "negative numbers in a column": (as_json(fit_time={"0": -0.5}), as_json(fit_time={"0": -0.25})),
    "another host": (as_json(host="envbuild"), as_json(host="elsewhere")),
    "a loss in seconds": (b"loss 0.5 s\n", b"loss 0.6 s\n"),
    "an accuracy named rate": (as_json(rate=0.91), as_json(rate=0.92)),
    "a learning rate": (as_json(learning_rate=0.1), as_json(learning_rate=0.2)),
    "eta, xgboost's learning rate": (as_json(eta=0.1), as_json(eta=0.2)),
    "a weight in time_embedding": (as_json(time_embedding=[0.1]), as_json(time_embedding=[0.2])),
    "weights of a layer named time": (as_json(layer={"time": [0.1, 0.2]}), as_json(layer={"time": [0.1, 0.3]})),
    "a negative time": (as_json(time=-1.5), as_json(time=-2.5)),
    "a survival time": (as_json(survival_time=3.5), as_json(survival_time=4.5)),
    "a load": (as_json(load=[0.5]), as_json(load=[0.25])),
    "buffers of a model": (as_json(Buffers="12"), as_json(Buffers="13")),
    "memory in words": (as_json(memory="7 cells"), as_json(memory="8 cells")),
    "how much is completed": (as_json(completed=17), as_json(completed=18)),
    "a number under at": (as_json(at=1_200_000_000_123), as_json(at=1_200_000_009_123)),
    "the number of a thread": (as_json(thread=1), as_json(thread=2)),
    "a large number": (as_json(count=140_146_890_123_456), as_json(count=139_146_890_123_456)),
    "names of durations": (
        pickle.dumps({"time_elapsed": {"train": 1.5}}),
        pickle.dumps({"time_elapsed": {"test": 1.5}}),
    ),
    "steps in a table": (pickle.dumps({"steps_elapsed": {"a": 1}}), pickle.dumps({"steps_elapsed": {"a": 2}})),
    "a date in data": (as_json(date="2019-03-01"), as_json(date="2019-03-02")),
    "a column of dates": (b"date,sales\n2019-03-01,5\n", b"date,sales\n2019-03-02,5\n"),
    "a column of times in data": (b"time,event\n5.5,1\n2.5,0\n", b"time,event\n5.5,1\n2.75,0\n"),
    "a seed of the time": (as_json(seed=1795247763), as_json(seed=1795247799)),
    "the best trial": (as_json(trial_id=3), as_json(trial_id=4)),
    "a configuration of memory": (as_json(memory_size=1000), as_json(memory_size=2000)),
    "the last bit": (as_json(w=0.1), as_json(w=0.10000000000000002)),
    "a key": (as_json(a=1), as_json(b=1)),
    "the order of keys": (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}'),
    "a time that is not there": (as_json(time=1.5, a=1), as_json(a=1)),
    "gzip": (gzip.compress(b"loss 1", mtime=1), gzip.compress(b"loss 2", mtime=1)),
    "a token": (gzip.compress(b"token 1a2b3c4d"), gzip.compress(b"token 4d3c2b1a")),
    "a second member of gzip": (
        gzip.compress(b"a\0") + gzip.compress(b"b\0"),
        gzip.compress(b"a\0") + gzip.compress(b"c\0"),
    ),
    "behind the end of xz": (
        lzma.compress(b"a\0") + lzma.compress(b"b\0"),
        lzma.compress(b"a\0") + lzma.compress(b"c\0"),
    ),
    "joblib's values": (as_joblib(), as_joblib(w=1.0000000000000002)),
    "joblib's values in zlib": (zlib.compress(as_joblib()), zlib.compress(as_joblib(w=2))),
    "joblib's texts": (as_joblib(), as_joblib(name=b"c")),
    "joblib's objects": (as_joblib(), as_joblib(k=2)),
    "which of keras' objects": (
        as_json(a={"shared_object_id": 7}, b={"shared_object_id": 7}),
        as_json(a={"shared_object_id": 7}, b={"shared_object_id": 8}),
    ),
    "zst": (zstd.compress(b"loss 1"), zstd.compress(b"loss 2")),
    "a second frame of zst": (zstd.compress(b"a") + zstd.compress(b"b"), zstd.compress(b"a") + zstd.compress(b"c")),
    "a text like zlib": (b"x^2 + 1", b"x^2 + 2"),
    "zip": (as_zip({"w": b"\0\1"}), as_zip({"w": b"\0\2"})),
    "a member's name": (as_zip({"w": b"\0\1"}), as_zip({"v": b"\0\1"})),
    "members' order": (as_zip({"a": b"1", "b": b"2"}), as_zip({"b": b"2", "a": b"1"})),
    "tar": (as_tar({"w": b"\0\1"}, 1), as_tar({"w": b"\0\2"}, 1)),
    "pickle": (pickle.dumps({"loss": 0.5}), pickle.dumps({"loss": 0.25})),
    "a pickled list that begins with a name": (pickle.dumps(["time", 0.5]), pickle.dumps(["time", 0.25])),
    "a pickled date in data": (pickle.dumps(datetime.date(2019, 3, 1)), pickle.dumps(datetime.date(2019, 3, 2))),
    "t of no episode": (pickle.dumps({"t": 0.5, "x": 1}), pickle.dumps({"t": 0.25, "x": 1})),
    "a second pickle": (
        pickle.dumps({"step_time": 1.5}) + pickle.dumps({"loss": 2.5}),
        pickle.dumps({"step_time": 1.5}) + pickle.dumps({"loss": 2.25}),
    ),
    "a pickle in a later block": (
        pickle.dumps(1).ljust(512, b"\0") + pickle.dumps(2),
        pickle.dumps(1).ljust(1024, b"\0") + pickle.dumps(2),
    ),
    "what fills a block": (
        pickle.dumps(1).ljust(512, b"\0") + pickle.dumps(2),
        pickle.dumps(1).ljust(511, b"\0") + b"\1" + pickle.dumps(2),
    ),
    "a shared object": (pickle.dumps([(a := [1]), a]), pickle.dumps([[1], [1]])),
    "pixels": (as_png(b"\0abc"), as_png(b"\0abd")),
    "pixels in a page": (as_page(as_png(b"\0abc")), as_page(as_png(b"\0abd"))),
    "a text next to pixels in a page": (as_page(as_png(b"\0abc")), as_page(as_png(b"\0abc"), "0.26")),
    "a date long ago in a page": tuple(as_page(as_png(b"\0abc", date=f"2019-11-21T08:00:0{at}+00:00")) for at in "01"),
    "bits that no byte has": (page := as_page(as_png(b"\0abc")), page.replace(b'g==">', b'h==">')),
    "pixels of a jpeg": (as_jpeg(b"abc"), as_jpeg(b"abd")),
    "a comment in a jpeg": (as_jpeg(b"abc"), as_jpeg(b"abc", comment=b"plou")),
    "when a picture was taken": (as_jpeg(b"abc", "2019:11:21 08:00:00"), as_jpeg(b"abc", "2019:11:21 08:00:01")),
    "a digest under run": (as_json(run="80" * 16), as_json(run="81" * 16)),
    "a drawn name that is no run's": (
        as_json(best="800cc63372c74115b6832f653ba5b709"),
        as_json(best="509e2a7676904880919968907a922f9d"),
    ),
    "pdf": (PDF % (b"080000", b"loss 1", b"", b""), PDF % (b"080000", b"loss 2", b"", b"")),
    "which point of a scatter plot": (
        b"<svg><path id='C0_0_06de8f12c0'/><path id='C0_1_1234567890'/><use href='#C0_0_06de8f12c0'/></svg>",
        b"<svg><path id='C0_0_06de8f12c0'/><path id='C0_1_1234567890'/><use href='#C0_1_1234567890'/></svg>",
    ),
    "which element": (
        b"<svg><g id='m1a2b3c4d5'/><g id='m5d4c3b2a1'/><use href='#m1a2b3c4d5'/></svg>",
        b"<svg><g id='m1a2b3c4d5'/><g id='m5d4c3b2a1'/><use href='#m5d4c3b2a1'/></svg>",
    ),
    "what a notebook printed in pieces": (
        as_json(nbformat=4, cells=[{"outputs": [stream("a\n", "b\n"), note]}]),
        as_json(nbformat=4, cells=[{"outputs": [stream("b\n"), note, stream("a\n")]}]),
    ),
    "what a notebook printed": (
        as_json(nbformat=4, cells=[{"outputs": [{"text": ["loss 1\n"]}]}]),
        as_json(nbformat=4, cells=[{"outputs": [{"text": ["loss 2\n"]}]}]),
    ),
}


def as_zip_with(
    *, before: bytes = b"", behind: bytes = b"", note: bytes = b"", fields: bytes = b"", streamed: bool = False
) -> bytes:
    """An archive with something beside what its one member holds."""
    stream = Pipe() if streamed else io.BytesIO()
    stream.write(before)
    with zipfile.ZipFile(stream, "w" if streamed else "a") as archive:
        member = zipfile.ZipInfo("w", (2026, 11, 21, 8, 0, 2))
        member.comment, member.extra = note, fields
        archive.writestr(member, b"\0\1")
    return stream.getvalue() + behind


class Pipe(io.BytesIO):
    """Cannot be searched: sizes are written behind members."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: Any) -> int:
        raise OSError

    tell = seek


def as_zip_with_gap(gap: bytes) -> bytes:
    """An archive with bytes between its member and its directory."""
    data = as_zip({"w": b"\0\1"})
    at, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    place = struct.pack("<L", at + len(gap))
    return data[:at] + gap + data[at:end] + data[end : end + 16] + place + data[end + 20 :]


def as_gzip(name: bytes = b"", comment: bytes = b"", field: bytes = b"") -> bytes:
    flags = (4 if field else 0) | (8 if name else 0) | (16 if comment else 0)
    head = b"\x1f\x8b\x08" + bytes([flags]) + bytes(6)
    head += struct.pack("<H", len(field)) + field if field else b""
    return head + b"".join(each + b"\0" for each in (name, comment) if each) + gzip.compress(b"a\0", mtime=0)[10:]


UNIX = struct.pack("<HHBL", 0x5455, 5, 1, 1795247763)
"""The time of a member in seconds."""
OTHER |= {
    "behind an archive": (as_zip_with(), as_zip_with(behind=b"more")),
    "between members and their directory": (as_zip_with_gap(b"abc"), as_zip_with_gap(b"abd")),
    "a member's comment": (as_zip_with(note=b"1"), as_zip_with(note=b"2")),
    "a member's unknown field": (
        as_zip_with(fields=struct.pack("<HHL", 0x7777, 4, 1)),
        as_zip_with(fields=struct.pack("<HHL", 0x7777, 4, 2)),
    ),
    "behind a tar archive": (as_tar({"w": b"\0"}, 1), as_tar({"w": b"\0"}, 1) + b"more"),
    "behind a member of tar": (
        as_tar({"w": b"\0"}, 1),
        as_tar({"w": b"\0"}, 1)[:600] + b"x" + as_tar({"w": b"\0"}, 1)[601:],
    ),
    "a comment of gzip": (as_gzip(comment=b"1"), as_gzip(comment=b"2")),
    "a field of gzip": (as_gzip(field=b"1"), as_gzip(field=b"2")),
    "a text and a number": (as_json(a="1"), as_json(a=1)),
    "texts and numbers": (as_json(a=["1", "2"]), as_json(a=[1, 2])),
    "a text and nothing": (pickle.dumps(["None"]), pickle.dumps([None])),
    "a text and a number, pickled": (pickle.dumps({"a": "1"}), pickle.dumps({"a": 1})),
    "bytes that can change": (pickle.dumps([b"1"], 5), pickle.dumps([bytearray(b"1")], 5)),
    "how many times": (as_json(epoch_times=[1.5, 2.5]), as_json(epoch_times=[1.5, 2.5, 3.5])),
    "how many times, pickled": (pickle.dumps({"epoch_times": [1.5]}), pickle.dumps({"epoch_times": [1.5, 2.5]})),
}
SAME_ARCHIVES = {
    "times in seconds": (as_zip_with(fields=UNIX), as_zip_with(fields=UNIX[:-1] + b"\1")),
    "sizes behind a member": (as_zip_with(), as_zip_with(streamed=True)),
    "padding": (
        as_zip_with(fields=struct.pack("<HH", 0x4246, 3) + b"ZZZ"),
        as_zip_with(fields=struct.pack("<HH", 0x4246, 5) + b"ZZZZZ"),
    ),
    "the name of what is compressed": (as_gzip(name=b"tmp1"), as_gzip(name=b"tmp2")),
}


@pytest.mark.parametrize("case", SAME_ARCHIVES)
def test_how_an_archive_was_written_does_not_count(case: str) -> None:
    """Times of members, padding, and where their sizes stand are the container's."""
    one, other = SAME_ARCHIVES[case]
    assert one != other
    assert compared(one, other).same


@pytest.mark.parametrize("case", OTHER)
def test_a_result_is_never_left_out(case: str) -> None:
    """Whatever looks like a measurement and is a result makes a difference."""
    one, other = OTHER[case]
    assert not compared(one, other).same


def test_sqlite_is_compared_by_its_rows(tmp_path: Path) -> None:
    """Free pages and times do not count; values do, to the last bit."""
    rows = [(1, 0.5, "2026-11-21 08:00:01"), (2, 0.25, "2026-11-21 08:00:02")]
    later = [(1, 0.5, "2026-11-21 09:00:01"), (2, 0.25, "2026-11-21 09:00:02")]
    other = [(1, 0.5, "2026-11-21 08:00:01"), (2, 0.25000000000000006, "2026-11-21 08:00:02")]
    columns = "n integer, loss real, at text"
    first = as_database(tmp_path / "a", rows, columns)
    assert compared(first, as_database(tmp_path / "b", rows, columns, deleted=3)).same
    assert compared(first, as_database(tmp_path / "c", later, columns)).same
    found = compared(first, as_database(tmp_path / "d", other, columns))
    assert (found.same, found.why.partition(":")[0]) == (False, "t.loss")


CHECKED = "create table t (a integer check (a > 0), b text, constraint k primary key (a), {}, unique (b))"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("constraint x check (b <> ', ('), check (a < 9)", "check (a < 9), constraint x check (b <> ', (')", True),
        ("constraint x check (b <> ', ('), check (a < 9)", "check (a < 8), constraint x check (b <> ', (')", False),
        ("check (a < 9), check (a < 8)", "check (a < 8), check (a < 8)", False),
        ("check (a < 9), foreign key (b) references t (b)", "foreign key (b) references t (b), check (a < 9)", False),
        ("check (a < 9 /* , */), check (a < 8)", "check (a < 8), check (a < 9 /* , */)", False),
    ],
)
def test_the_order_of_checks_of_a_table_has_no_meaning(tmp_path: Path, one: str, other: str, *, same: bool) -> None:
    """SQLAlchemy keeps them in a set; all else in the text that makes a table counts as it is written."""
    found = []
    for name, checks in (("a", one), ("b", other)):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute(CHECKED.format(checks))
        connection.close()
        found.append((tmp_path / name).read_bytes())
    assert compared(found[0], found[1]).same is same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("pragma user_version = 1", "pragma user_version = 2"),
        ("pragma application_id = 1", "pragma application_id = 2"),
        ("insert into t (rowid, x) values (5, 1)", "insert into t (rowid, x) values (6, 1)"),
        ("insert into t values (1)", "insert into t values (1.0)"),
        ("insert into t values (1)", "insert into t values ('1')"),
        ("insert into t values (x'31')", "insert into t values ('1')"),
        ("insert into t values (null)", "insert into t values ('NULL')"),
    ],
)
def test_what_a_database_has_besides_values(tmp_path: Path, one: str, other: str) -> None:
    """Its own numbers, the numbers of rows, and what is a text, a number, bytes or nothing."""
    found = []
    for name, statement in (("a", one), ("b", other)):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute("create table t (x)")
            connection.execute("create table rowless (x primary key, rowid) without rowid")
            connection.execute("insert into rowless values (1, 2)")
            connection.execute(statement)
        connection.close()
        found.append((tmp_path / name).read_bytes())
    assert not compared(*found).same
    assert compared(found[0], found[0]).same


def test_a_julian_day_of_the_run_is_a_time(tmp_path: Path) -> None:
    """``julianday('now')`` is no result under the name of a date; under another name, or of another day, it is one."""

    def database(name: str, value: float) -> bytes:
        return as_database(tmp_path / f"{name}{value!r}", [(1, value)], f"n integer, {name} real")

    now = START / 86400 + 2440587.5
    assert compared(database("updated_at", now), database("updated_at", now + 0.001)).same
    assert not compared(database("depth", now), database("depth", now + 0.001)).same
    assert not compared(database("updated_at", now - 30), database("updated_at", now - 31)).same


@pytest.mark.parametrize(
    "form",
    [
        lambda name, value, _: as_json(n=1, **{name: value}),
        lambda name, value, folder: as_database(folder / f"{value!r}", [(1, value)], f'n integer, "{name}" real'),
    ],
    ids=["JSON", "SQLite"],
)
@pytest.mark.parametrize(
    ("name", "value", "later", "same"),
    [
        ("MJD-RED", START / 86400 + 40587, 0.0001, True),
        ("jd", START / 86400 + 2440587.5, 0.0001, True),
        ("julian_day", START / 86400 + 2440587.5, 0.0001, True),
        ("MJD", START / 86400 + 40587 - 30, 0.0001, False),
        ("jdoe", START / 86400 + 2440587.5, 0.0001, False),
        ("bjdisp", START / 86400 + 40587, 0.0001, False),
    ],
)
def test_a_julian_day_by_its_name(
    form: Callable[[str, float, Path], bytes], name: str, value: float, later: float, same: bool, tmp_path: Path
) -> None:
    """As astronomers write them, also modified ones; another day is a result, and so is another name."""
    assert compared(form(name, value, tmp_path), form(name, value + later, tmp_path)).same is same


@pytest.mark.parametrize(
    ("default", "value", "later", "same"),
    [
        ("(strftime('%s', 'now'))", int(START), int(START) + 9, True),
        ("(julianday('now'))", START / 86400 + 2440587.5, START / 86400 + 2440587.75, True),
        ("current_timestamp", "2026-11-21 08:00:00", "2026-11-21 08:00:09", True),
        ("(unixepoch())", 1795, 1796, False),
        ("(strftime('%s', 'now'))", int(START) - 90 * 86400, int(START) - 91 * 86400, False),
        ("0", int(START), int(START) + 9, False),
    ],
)
def test_a_column_whose_default_is_the_time(tmp_path: Path, default: str, value: Any, later: Any, same: bool) -> None:
    """Whatever its name; a value that is not about when the run was is a result."""
    one, other = (
        as_database(tmp_path / f"{each!r}".replace(" ", ""), [(1, each)], f"n integer, noted default {default}")
        for each in (value, later)
    )
    assert compared(one, other).same is same


def test_what_weights_and_biases_measure_of_the_machine() -> None:
    """Its own names, and how full the disk is; the same words elsewhere are results."""
    for mine, theirs, same in (
        ({"system.cpu": 10.7}, {"system.cpu": 5.3}, True),
        ({"system/disk_usage_percentage": 10.7}, {"system/disk_usage_percentage": 5.3}, True),
        ({"disk": {"/": {"used": "42691354624"}}}, {"disk": {"/": {"used": "42680258560"}}}, True),
        ({"disk": {"/": {"free": 42691354624}}}, {"disk": {"/": {"free": 42680258560}}}, True),
        ({"disk": {"/": {"total": "42691354624"}}}, {"disk": {"/": {"total": "42680258560"}}}, False),
        ({"features": {"used": 4}}, {"features": {"used": 5}}, False),
        ({"system.energy": 10.7}, {"system.energy": 5.3}, False),
    ):
        assert compared(as_json(**mine), as_json(**theirs)).same is same


def test_the_time_in_the_identity_of_a_mail_is_one() -> None:
    """As ``email.utils.make_msgid`` writes it; the number behind it is drawn, and counts."""
    mail = "Subject: Weekly fit\nMessage-ID: <%d.2.%d@example.org>\n\nThe slope is 0.5.\n"
    one, later = int(START * 100), int(START * 100) + 97

    def same(mine: tuple[int, int], theirs: tuple[int, int]) -> bool:
        return all(
            Masks(START).mask(a).text == Masks(START).mask(b).text
            for a, b in zip((mail % mine).splitlines(), (mail % theirs).splitlines(), strict=True)
        )

    assert same((one, 205369585435), (later, 205369585435))
    assert not same((one, 205369585435), (one, 205369585436))
    assert not same((one - 10**9, 205369585435), (one - 10**9 + 1, 205369585435))


def test_a_number_of_numpy_is_a_number() -> None:
    """A time in NumPy's own type is one; any other value in it counts to the last bit."""
    scalar = b"\x80\x04}\x8c%c%s\x8c\x15numpy.core.multiarray\x8c\x06scalar\x93\x8c\x02f8C\x08%s\x86Rs."

    def pickled(name: bytes, value: float) -> bytes:
        return scalar % (len(name), name, struct.pack("<d", value))

    assert compared(pickled(b"elapsed", 1.5), pickled(b"elapsed", 2.5)).why == "elapsed differs"
    assert not compared(pickled(b"loss", 1.5), pickled(b"loss", 2.5)).same


def as_array(name: str, *numbers: float, order: bytes = b"<") -> bytes:
    """A dictionary of one array as NumPy 2 pickles it, by protocol 4."""
    values = struct.pack(f"<{len(numbers)}d", *numbers)
    made = b"\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93\x8c\x05numpy\x8c\x07ndarray\x93K\0\x85C\x01b\x87R"
    dtype = b"\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02f8\x89\x88\x87R(K\x03\x8c\x01%sNNNK\0K\0K\0tb" % order
    state = b"(K\x01K%c\x85" % len(numbers) + dtype + b"\x89C%c" % len(values) + values + b"tb"
    return b"\x80\x04}\x8c%c%s" % (len(name), name.encode()) + made + state + b"s."


def test_arrays_of_durations_are_measurements() -> None:
    """A search of scikit-learn keeps an array of the times of its fits; scores and negative numbers count."""
    assert compared(as_array("mean_fit_time", 0.5, 0.25), as_array("mean_fit_time", 0.75, 0.5)).left_out
    for one, other in (
        (as_array("mean_test_score", 0.5), as_array("mean_test_score", 0.25)),
        (as_array("mean_fit_time", 0.5, 0.25), as_array("mean_fit_time", 0.5)),
        (as_array("mean_fit_time", 0.5), as_array("mean_fit_time", -0.5)),
        (as_array("mean_fit_time", 0.5), as_array("mean_fit_time", 0.5, order=b">")),
        (as_array("survival_time", 0.5), as_array("survival_time", 0.25)),
    ):
        assert not compared(one, other).same


def test_pickles_run_nothing(tmp_path: Path) -> None:
    """A pickle that would call a function is read as a structure, and the function is not called."""

    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "called",))

    assert read(pickle.dumps(Evil()), MASKS) is not None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b"\0" * (48 << 20)),
        bz2.compress(b"\0" * (48 << 20)),
        lzma.compress(b"\0" * (48 << 20)),
        zlib.compress(b"\0" * (48 << 20)),
        zstd.compress(b"\0" * (48 << 20)),
        as_zip({"a": b"\0" * (48 << 20)}, compression=zipfile.ZIP_DEFLATED),
        as_png(b"\0" * (48 << 20)),
    ],
    ids=["gz", "bz2", "xz", "zlib", "zst", "zip", "png"],
)
def test_bombs_are_not_unpacked(data: bytes) -> None:
    """What unpacks to more than the limit is not opened, and memory stays near the limit."""
    tracemalloc.start()
    found = read(data, MASKS, unpacked=4 << 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is None
    assert peak < 32 << 20


def _nested_zip(depth: int) -> bytes:
    data = b"\0"
    for _ in range(depth):
        data = as_zip({"a": data})
    return data


HOSTILE = {
    "zip in zip": _nested_zip(50),
    "gz in gz": reduce(lambda data, _: gzip.compress(data), range(50), b"\0"),
    "lists in lists": b"[" * 100_000 + b"]" * 100_000,
    "tuples in tuples": pickle.dumps(()).replace(b")", b")" + b"\x85" * 100_000),
    "an empty pickle": b"\x80\x04.",
    "a pickle of huge bytes": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00.",
    "a pickle's mark as a value": b"\x80\x04(\x85.",
    "a database of nothing": b"SQLite format 3\0" + b"\xff" * 2000,
    "a photograph that ends in a segment": as_jpeg(b"abc")[:21],
    "an image of nothing": b"\x89PNG\r\n\x1a\n" + b"\xff" * 100,
    "an image that others do not open": as_png(b"\0abc").replace(b"IEND\xae", b"IEND\xaf"),
    "an array of joblib's that is larger than the file": JOBLIB.replace(b"K\x02\x85", b"K\xff\x85"),
    "an array of joblib's without a shape": JOBLIB.replace(b"shape", b"shapf"),
    "a zip of nothing": b"PK\x05\x06" + b"\xff" * 100,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_count_by_their_bytes(case: str) -> None:
    """Endless nesting and damage end no verification: the file is not opened."""
    assert read(HOSTILE[case], MASKS) is None


def test_a_pickle_with_a_huge_memo_takes_no_memory() -> None:
    """Places in a pickle's memory are numbers: Python's own reader would make room for 4 billion."""
    assert read(b"\x80\x04Nr\xff\xff\xff\xff.", MASKS) is not None


@pytest.mark.parametrize(
    "case", ["gzip", "bz2 level", "xz level", "zip dates", "tar.xz", "pickle", "png", "joblib", "zst", "zst level"]
)
def test_truncated_files_count_by_their_bytes(case: str) -> None:
    """A file that ends too early is not opened."""
    data = SAME[case][0]
    assert read(data[: len(data) * 2 // 3], MASKS) is None


def test_laughs_by_the_billion_take_no_time() -> None:
    """A pickle whose parts refer to each other is counted once a part."""
    laugh: list[Any] = ["ha"]
    for _ in range(60):
        laugh = [laugh, laugh, laugh]
    assert read(pickle.dumps(laugh), MASKS) is not None


def test_a_database_runs_nothing_of_its_own(tmp_path: Path) -> None:
    """Functions in a schema are not called."""
    path = tmp_path / "a"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a integer, b blob generated always as (zeroblob(100000000)) virtual)")
        connection.execute("insert into t (a) values (1)")
    connection.close()
    assert read(path.read_bytes(), MASKS) is None


def test_generated_columns_are_not_much_larger_than_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they compute is read as long as the file could have it, or little more."""
    monkeypatch.setattr(database, "_SPARE", 0)
    path = tmp_path / "a"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a integer, b text generated always as (hex(zeroblob(a))) virtual)")
        connection.execute("insert into t (a) values (1000)")
    small = path.read_bytes()
    with connection:
        connection.executemany("insert into t (a) values (?)", [(1000,)] * 20)
    connection.close()
    assert read(small, MASKS) is not None
    large = path.read_bytes()
    assert len(large) == len(small)
    assert read(large, MASKS) is None
    monkeypatch.setattr(database, "_SPARE", 1 << 20)
    assert read(large, MASKS) is not None


def test_a_table_without_a_name_is_damage(tmp_path: Path) -> None:
    """SQLite gives bytes for a name whose type a damaged file has otherwise."""
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.executescript("create table t (a); insert into t values (1)")
    connection.close()
    data = (tmp_path / "t.db").read_bytes()
    head = data.index(b"tablett")  # behind the types of its five columns
    types = data[head - 5 : head]
    assert data[head - 4 : head - 2] == b"\x0f\x0f"
    assert read(data.replace(types, types[:1] + b"\x0e\x0e" + types[3:]), MASKS) is None


def test_links_and_pipes_are_not_opened(tmp_path: Path) -> None:
    """Only plain files are read."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert [read_file(tmp_path / name, MASKS) for name in ("link", "pipe", "nothing")] == [None, None, None]


NAMES = {
    "runs/20261121-101500_ab12cd34/w.npy": "runs/⟨date⟩_⟨name⟩/w.npy",
    "runs/20261121-101500_abcdefab/w.npy": "runs/⟨date⟩_⟨name⟩/w.npy",
    "outputs/2026-11-21/10-15-00/.hydra/config.yaml": "outputs/⟨date⟩/.hydra/config.yaml",
    "runs/Nov21_10-15-00_box/events": "runs/⟨date⟩_box/events",
    "logs/train_05h16m03.log": "logs/train_⟨time⟩.log",
    "oof_1121_0713.csv": "oof_⟨date⟩.csv",
    "oof_1121-071355.csv": "oof_⟨date⟩.csv",
    "oof_0321_0713.csv": "oof_0321_0713.csv",
    "oof_1121_2513.csv": "oof_1121_2513.csv",
    "logs/train_05h16m03x.log": "logs/train_05h16m03x.log",
    "runs/Nov21_10-15-00_envbu002/hparams.txt": "runs/⟨date⟩_envbuild/hparams.txt",
    "runs/CartPole-v1__ppo__1__1795247763/model.zip": "runs/CartPole-v1__ppo__1__⟨date⟩/model.zip",
    "wandb/run-20261121_101500-a1b2c3d4/files/x.json": "wandb/run-⟨date⟩-⟨name⟩/files/x.json",
    "mlruns/0/1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d/metrics/loss": "mlruns/0/⟨name⟩/metrics/loss",
    "1b4e28ba-2fa1-41d2-883f-0016d3cca427.pt": "⟨name⟩.pt",
    "/tmp/tb/events.out.tfevents.1795247763.envbu001.2.0": "/tmp/tb/events.out.tfevents.⟨date⟩.envbuild.2.0",
    "/tmp/tb/events.out.tfevents.1095247763.envbuild": "/tmp/tb/events.out.tfevents.1095247763.envbuild",
    "train_490c6_00001_1_lr=0.7_2026-11-21_10-15-00/x": "train_⟨name⟩_00001_1_lr=0.7_⟨date⟩/x",
    "train_490c6_00001_1_lr=0.7/x": "train_490c6_00001_1_lr=0.7/x",
    "best_00001000.pt": "best_00001000.pt",
    "data/20190301/x.csv": "data/20190301/x.csv",
    "seed1/w.npy": "seed1/w.npy",
    "20261121-101500_seed1/w.npy": "⟨date⟩_seed1/w.npy",
}


@pytest.mark.parametrize("path", NAMES)
def test_names_of_the_moment_are_masked(path: str) -> None:
    """Dates about when the run was and drawn names go, numbers that are results stay."""
    assert masked_path(path, MASKS) == NAMES[path]


def test_names_match_one_to_one() -> None:
    """Several files that would get one name keep their own if runs have other files."""
    one = ["runs/20261121-101500/w", "log"]
    other = ["runs/20261121-101509/w", "log"]
    assert common_names([(one, MASKS), (other, MASKS)]) == [
        {"runs/20261121-101500/w": "runs/⟨date⟩/w"},
        {"runs/20261121-101509/w": "runs/⟨date⟩/w"},
    ]
    with_both = ["runs/20261121-101509/w", "runs/20261121-101500/w", "log"]
    shifted = ["runs/20261121-101518/w", "runs/20261121-101509/w", "log"]
    first, second = "runs/⟨date⟩/w (1)", "runs/⟨date⟩/w (2)"
    assert common_names([(with_both, MASKS), (shifted, MASKS)]) == [
        {"runs/20261121-101500/w": first, "runs/20261121-101509/w": second},
        {"runs/20261121-101509/w": first, "runs/20261121-101518/w": second},
    ]
    assert common_names([(with_both, MASKS), ([*with_both], MASKS)]) == [{}, {}]
    mixed = ["runs/20261121-101500/a", "runs/20261121-101500/b", "runs/20261121-101509/b"]
    swapped = ["runs/20261121-101510/b", "runs/20261121-101519/a", "runs/20261121-101519/b"]
    assert common_names([(mixed, MASKS), (swapped, MASKS)]) == [{}, {}]
    uuids = [[f"runs/{number}a2b3c4d5/w" for number in numbers] for numbers in ("12", "34")]
    assert common_names([(paths, MASKS) for paths in uuids]) == [{}, {}]
    hydra = [
        [f"outputs/2026-11-21/{time}/{name}" for time in times for name in "ab"]
        for times in (("10-15-00", "10-15-09"), ("10-15-09", "10-15-18"))
    ]
    assert {*common_names([(paths, MASKS) for paths in hydra])[1].values()} == {
        f"outputs/⟨date⟩/{name} ({number})" for name in "ab" for number in (1, 2)
    }
    drawn = ["w-1a2b3c4d.pt", "20261121-101500.log"]
    assert common_names([(drawn, MASKS), ([drawn[0], "20261121-101501.log"], MASKS)])[0] == {drawn[1]: "⟨date⟩.log"}
    more = [*other, "runs/20261121-101510/w"]
    assert common_names([(one, MASKS), (more, MASKS)]) == [{}, {}]
    assert common_names([(one, MASKS), ([*other, "new"], MASKS)]) == [
        {"runs/20261121-101500/w": "runs/⟨date⟩/w"},
        {"runs/20261121-101509/w": "runs/⟨date⟩/w"},
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("charts/SPS", "rate"),
        ("cpu_percent", "rate"),
        ("gpuUtil", "rate"),
        ("mfu", "rate"),
        ("thread", "identity"),
        ("tid", "identity"),
        ("threads", None),
        ("message_thread", None),
        ("percent", None),
        ("cpu_count", None),
        ("time/fps", "rate"),
        ("train_samples_per_second", "rate"),
        ("it/s", "rate"),
        ("train_runtime", "time"),
        ("refit_time_", "time"),
        ("mean_fit_time", "time"),
        ("mean_test_score", None),
        ("latency_mean", "time"),
        ("fit_time_std", "time"),
        ("epochTime.p95", "time"),
        ("fps_max", "rate"),
        ("gpu_mem_max", "memory"),
        ("score_mean", None),
        ("time_embedding_mean", None),
        ("survival_time_median", None),
        ("steps_elapsed_mean", None),
        ("mean_std", None),
        ("startTime", "time"),
        ("time", "time"),
        ("epoch_time", "time"),
        ("elapsed", "time"),
        ("time_total_s", "time"),
        ("time/iter", None),
        ("gpu_mem_gb", "memory"),
        ("memory", "memory"),
        ("time_since_restore", "time"),
        ("ray/tune/time_since_restore", "time"),
        ("time/loss_since_start", None),
        ("time_since_diagnosis", None),
        ("steps_since_start", None),
        ("uptime", "time"),
        ("train_wall", "time"),
        ("wall", None),
        ("steps_elapsed", None),
        ("days_elapsed", None),
        ("follow_ups", None),
        ("ups", None),
        ("time_elapsed", "time"),
        ("run_id", "identity"),
        ("hostname", "identity"),
        ("speed/inference(ms)", "time"),
        ("val_min", None),
        ("batch_min", None),
        ("loss", None),
        ("rate", None),
        ("learning_rate", None),
        ("time_embedding", None),
        ("time_steps", None),
        ("memory_size", None),
        ("survival_time", None),
        ("speed", None),
        ("eta", None),
        ("predicted_duration", None),
        ("time/total_timesteps", None),
        ("val_acc", None),
        ("date", None),
        ("trip_duration", None),
        ("predicted_throughput", None),
        ("phone_memory", None),
        ("gpu_0_memory", "memory"),
        ("peak_gpu_mem", "memory"),
    ],
)
def test_names_of_measurements(name: str, kind: str | None) -> None:
    """Names decide what is a measurement; what may be a result is one."""
    assert kind_of(name) == kind


def test_places_of_a_table_do_not_depend_on_its_times() -> None:
    """A column ``time`` that never goes back is one of times; experiments have runs in which all are the same."""
    tables = (b"epoch,loss,time\n0,0.5,0.3\n1,0.25,0.2\n", b"epoch,loss,time\n0,0.5,0.5\n1,0.25,0.5\n")
    names = [[name for name, _ in leaves(each, MASKS)] for each in tables]
    assert names[0] == names[1]
    assert "line 2: time" in names[0]


def test_cells_of_html_are_named_by_their_rows() -> None:
    """Experiments prove what follows the clock under a name that may be a time's; the name alone proves nothing."""
    places = dict(leaves(TURNED % (b"folds.0.fit_time", b"0.25"), MASKS))
    assert places["table.tbody.tr.td.folds.0.accuracy_score"] == "0.75"
    assert places["table.tbody.tr.td.folds.0.fit_time"] == "0.25"


def test_cells_of_html_are_named_by_columns_of_times() -> None:
    """As pandas writes a table, alone or in a page, whose other lines have no names; a row of results stays one."""
    table = (
        b'<table border="1">\n  <thead>\n    <tr>\n      <th>%b</th>\n      <th>seconds</th>\n    </tr>\n'
        b"  </thead>\n  <tbody>\n    <tr>\n      <%b>%b</%b>\n      <td>0.25</td>\n    </tr>\n  </tbody>\n</table>"
    )
    rows = {
        "stage": (b"stage", b"td", b"fit", b"td"),
        "row": (b"", b"th", b"fit", b"th"),
        "loss": (b"", b"th", b"loss", b"th"),
    }
    alone = {name: dict(leaves(table % cells, MASKS)) for name, cells in rows.items()}
    assert alone["stage"]["table.tbody.tr.td.seconds"] == "0.25"
    assert alone["row"]["table.tbody.tr.td.seconds"] == "0.25"
    assert alone["loss"]["table.tbody.tr.td.loss"] == "0.25"
    page = dict(leaves(b"<html><body><h1>Of a run</h1>" + table % rows["stage"] + b"<p>Done</p></body></html>", MASKS))
    assert page["line 11: seconds"] == "      <td>0.25</td>"
    assert page["line 10"] == "      <td>fit</td>"


def test_numbers_of_a_column_are_kept_for_experiments() -> None:
    """All of them or none: one that is none leaves the digest of all."""
    content = read(b"epoch,loss,seconds\n1,0.5,0.25\n2,0.25,0.5\n", MASKS)
    assert content is not None
    assert content.series == {"seconds": "0.25 0.5"}
    mixed = read(b'{"a": {"seconds": 0.5, "fit_time": 0.25}, "b": {"seconds": 0.25, "fit_time": "0:00:01"}}', MASKS)
    assert mixed is not None
    assert mixed.series == {}


@pytest.mark.parametrize(
    ("key", "one", "other", "same"),
    [
        ("w@created_at", "1795247763.5", "1795247770.25", True),
        ("@written", "2026-11-21 07:56:09", "2026-11-21 07:57:41", True),
        ("@epoch_time", "12.5", "12.75", True),
        ("w@saved[1]", "on 2026-11-21", "on 2026-11-22", True),
        ("w@loss", "0.25", "0.5", False),
        ("w@seed", "1795247763", "1795247770", False),
        ("@recorded", "2019-11-21", "2019-11-22", False),
        ("w@names[0]", "3", "4", False),
        ("log/epoch_time[0]", "0.5", "0.75", True),
        ("log/fit_seconds", "0.5", "0.75", True),
        ("log/timestamps[0]", "1795247763.5", "1795247770.25", True),
        ("log/timestamps[0]", "3.5", "7.25", False),
        ("log/time[0]", "0.5", "0.75", False),
        ("log/survival_time[0]", "0.5", "0.75", False),
        ("log/epoch_time_loss[1]", "0.5", "0.75", False),
    ],
)
def test_notes_of_files_that_the_image_reads(key: str, one: str, other: str, same: bool) -> None:
    """Attributes of HDF5 count but for times of about when the run was; all else in the file always does."""
    mine, theirs, damaged = (
        read_noted(bare, {key: text}, MASKS) for bare, text in (("ab", one), ("ab", other), ("cd", one))
    )
    assert compare(mine, theirs).same is same
    assert same or compare(mine, theirs).why == f"{key}: {one} → {other}"
    assert not compare(mine, damaged).same


def test_a_number_that_no_process_has_is_a_result() -> None:
    """In files too, as a number and as a text; in a column all of them count."""
    masks = Masks(1_795_247_763.0).with_files((), dict, processes=range(1, 6))
    for text, same in (('{"pid": %d}', True), ('{"pid": "%d"}', True), ("pid,a\n%d,1\n", False)):
        found = [read((text % number).encode(), masks) for number in (2, 4, 1007)]
        digests = [each.digest for each in found if each is not None]
        assert (digests[0] == digests[1]) is same, text
        assert digests[0] != digests[2], text


def test_frames_that_decoders_of_zstandard_skip_count() -> None:
    """Whatever a program puts there is a result; what is behind them is opened."""
    data = zstd.compress(b"weights" * 20)

    def note(text: bytes) -> bytes:
        return struct.pack("<II", 0x184D2A5E, len(text)) + text

    assert compared(data + note(b"0.5"), data + note(b"0.5") + note(b"")).same is False
    assert not compared(data + note(b"0.5"), data + note(b"0.6")).same
    assert not compared(data + note(b"0.5") + data, data + note(b"0.5") + zstd.compress(b"w")).same
    assert read(data + note(b"0.5")[:-1], MASKS) is None


def test_a_million_frames_to_be_skipped_take_no_time_that_grows_with_their_square() -> None:
    """Ten minutes, if all that is behind each frame were copied."""
    data = zstd.compress(b"weights")
    begin = time.process_time()
    assert read(data + struct.pack("<II", 0x184D2A5E, 0) * (1 << 19), MASKS) is not None
    assert time.process_time() - begin < 60


@pytest.mark.parametrize(
    "pack", [lambda data: gzip.compress(data, mtime=0), bz2.compress, lzma.compress, zstd.compress]
)
def test_parts_of_compressed_data_are_one(pack: Callable[[bytes], bytes]) -> None:
    """However large they are, and however many of them hold nothing: none takes time by what is behind it."""
    large = random.Random(1).randbytes(3000) + b"a" * 3_000_000
    several = b"".join(map(pack, (b"", large, b"b", b"", large)))
    assert compared(pack(large + b"b" + large), several).same
    assert not compared(pack(large + b"c" + large), several).same
    assert read(several[:-1], MASKS) is None or read(several[:-1], MASKS) != read(several, MASKS)
    many = pack(b"") * 100_000
    assert compared(many + pack(b"1"), pack(b"1")).same


def test_what_is_next_to_an_entry_is_looked_up_and_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vocabulary has 50,000 entries: listed again for each of them, they would take minutes."""
    given: list[object] = []
    monkeypatch.setattr(documents, "is_time_of_iteration", lambda key, siblings: bool(given.append(siblings)))
    read(json.dumps({f"token {number}": number + 0.5 for number in range(3)}).encode(), MASKS)
    assert len(given) == 3
    assert all(isinstance(each, KeysView) for each in given)
