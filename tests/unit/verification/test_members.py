"""Names of members of archives: a moment of the run is left out of them, anything else counts."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import uuid
import zipfile
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.record.model import Output
from envbuild.verification.content import Content, compare, read
from envbuild.verification.content.canonical import Canonical, with_shared_names
from envbuild.verification.content.members import counted_name
from envbuild.verification.files import masks_of
from tests.support.records import record, sha

START = datetime(2026, 1, 2, 3, 4, 6, tzinfo=timezone.utc)
"""When the run of these tests began, which took a minute."""
NAMES = (
    "run_{:%Y%m%d-%H%M%S}/w", "{:%Y-%m-%d_%H-%M-%S}.txt", "{:%b%d_%H-%M-%S}_host/w", "{:%Y%m%d%H%M%S}", "m_{:%s}",
    "{:%Y-%m-%dT%H:%M:%S}", "{:%Y-%m-%d_%Hh%Mm%Ss}",
)  # fmt: skip


def _tar(name: str, data: bytes = b"w", target: str = "") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.mtime, member.size = int(START.timestamp()), len(data)
        if target:
            member.type, member.linkname, member.size = tarfile.SYMTYPE, target, 0
        archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def _zip(name: str, data: bytes = b"w") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name, START.timetuple()[:6]), data)
    return stream.getvalue()


def _opened(data: bytes, **facts: Any) -> Content:
    found = read(data, masks_of(record(**facts)))
    assert found is not None
    return found


def _same(one: bytes, other: bytes) -> bool:
    return compare(_opened(one), _opened(other)).same


def _named(pattern: str, seconds: float) -> str:
    moment = START + timedelta(seconds=seconds)
    return pattern.replace("{:%s}", str(int(moment.timestamp()))).format(moment)


@pytest.mark.parametrize("make", [_tar, _zip])
@pytest.mark.parametrize("pattern", NAMES)
def test_a_moment_of_the_run_is_left_out(make: Callable[..., bytes], pattern: str) -> None:
    """One of another time is a name that data may have, and so is what is next to it."""
    name = _named(pattern, 1)
    assert _same(make(name), make(_named(pattern, 30)))
    assert not _same(make(name), make(_named(pattern, 30), b"v"))
    assert not _same(make(name), make(_named(pattern, 3000)))
    assert not _same(make(name), make(_named(pattern, -500)))
    assert not _same(make(f"a_{name}"), make(f"b_{name}"))


@pytest.mark.parametrize("make", [_tar, _zip])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-01-02/w", "2026-01-03/w"),
        ("20260102_030407_123456.txt", "20260102_030407_923456.txt"),
        ("fold_1/w", "fold_2/w"),
        ("ab12cd34ef/w", "ab12cd35ef/w"),
        ("1767323047.25", "1767323048.75"),
        ("w_17673230471", "w_17673230472"),
    ],
)
def test_what_may_be_data_counts(make: Callable[..., bytes], one: str, other: str) -> None:
    """Days without a time, fractions, digits that were not drawn for a file of the run."""
    assert not _same(make(one), make(other))


@pytest.mark.parametrize("make", [_tar, _zip])
def test_a_minute_of_the_run_is_left_out(make: Callable[..., bytes]) -> None:
    """It began within one and ended within the next."""
    assert _same(make("run_20260102_0304"), make("run_20260102_0305"))
    assert not _same(make("run_20260102_0304"), make("run_20260102_0306"))
    assert not _same(make("run_20260102_0304"), make("run_20260102_0303"))


def test_a_name_of_a_file_of_the_run_is_left_out() -> None:
    """Under which it is compared itself; another name of that form is none."""

    def packed(name: str, member: str = "") -> str:
        output = Output(path=f"runs/{name}/w", change="created", size=1, sha256=sha("1"))
        return _opened(_tar(f"{member or name}/w"), outputs=(output,)).digest

    assert packed("ab12cd34ef56ab78") == packed("0912cd34ef56ab79")
    assert packed("20260102-030407_ab12cd34") == packed("20260102-030409_0912cd35")
    assert packed("ab12cd34ef56ab78", "ab12cd34ef56ab77") != packed("0912cd34ef56ab79", "ab12cd34ef56ab76")


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ("{}/w.npy", "runs/exp_⟨date⟩/w.npy"),
        ("runs/{}/w.npy", "runs/exp_⟨date⟩/w.npy"),
        ("./runs/{}/w.npy", "./runs/exp_⟨date⟩/w.npy"),
        ("more/{}/w.npy", "more/runs/exp_⟨date⟩/w.npy"),
        ("//{}/w.npy", "//runs/exp_⟨date⟩/w.npy"),
    ],
)
def test_a_name_of_a_file_of_the_run_has_its_path_once(member: str, place: str) -> None:
    """Also where the archive has the folders above it; one in another folder keeps another name."""
    name = "exp_20260102-030407"
    output = Output(path=f"runs/{name}/w.npy", change="created", size=1, sha256=sha("1"))
    masks = masks_of(record(outputs=(output,)))
    assert counted_name(Canonical(masks=masks), "", member.format(name)) == place


def test_targets_of_links_count() -> None:
    """But for moments, as names do."""
    assert _same(_tar("last", target="run_20260102-030407"), _tar("last", target="run_20260102-030409"))
    assert not _same(_tar("last", target="run_1"), _tar("last", target="run_2"))


def test_long_names_are_names_too() -> None:
    """Those of more than 100 letters are in extended headers, as these are written by default."""
    names = [f"{'long/' * 30}run_20260102-03040{each}/w" for each in (7, 9)]
    assert _same(*map(_tar, names))
    assert not _same(_tar(f"{names[0]}1"), _tar(f"{names[1]}2"))


def test_words_before_dates_are_known() -> None:
    """A program may put a clock's value there that something drawn has moved."""
    found = _opened(_zip("model_1767323047.txt"))
    assert found.dated == {"names of members": frozenset(["model_"])}
    assert "names of members" in found.left_out


def _json(key: str, value: float = 0.25) -> bytes:
    return json.dumps({"best": {key: value, "b": 1}}).encode()


def _pickle(key: str, value: float = 0.25) -> bytes:
    return pickle.dumps({"best": {key: value, "b": 1}})


@pytest.mark.parametrize("make", [_json, _pickle])
def test_names_of_entries_are_compared_as_those_of_members(make: Callable[..., bytes]) -> None:
    """Lightning's checkpoints have the paths of the best ones as keys, and these the date of the run."""
    one, other = "/workspace/ckpt/20260102-030407/epoch=1.ckpt", "/workspace/ckpt/20260102-030409/epoch=1.ckpt"
    assert _same(make(one), make(other))
    assert not _same(make(one), make(other, 0.5))
    assert not _same(make(one), make(other.replace("epoch=1", "epoch=2")))
    assert not _same(make("20210304-050607"), make("20210304-050608"))
    assert not _same(make("fold_1"), make("fold_2"))
    assert "best: names of entries" in _opened(make(one)).left_out


@pytest.mark.parametrize("make", [_json, _pickle])
def test_drawn_names_of_entries_are_left_out(make: Callable[..., bytes]) -> None:
    """As in texts: what several runs have in common is data, and so is a digest, and what is kept under the name."""
    one, other = f"no-name-{uuid.UUID(int=3, version=4)}", f"no-name-{uuid.UUID(int=5, version=4)}"
    assert _same(make(one), make(other))
    assert not _same(make(one), make(other, 0.5))
    assert not _same(make(one), make(other.replace("no", "a")))
    assert not _same(make(f"{uuid.UUID(int=3, version=5)}"), make(f"{uuid.UUID(int=5, version=5)}"))
    names = [_opened(make(each)).names for each in (one, other)]
    assert names[0]
    assert names[0] != names[1]
    assert len(_opened(make(str(uuid.UUID(int=3, version=4)))).names) == 1
    assert not _same(_zip(f"{one}/w"), _zip(f"{other}/w"))


@pytest.mark.parametrize("write", [json.dumps, pickle.dumps])
def test_which_drawn_name_of_an_entry_is_named_again_counts(write: Callable[..., str | bytes]) -> None:
    """The best of several runs that are kept under drawn names."""

    def content(first: int, best: int) -> Content:
        names = [str(uuid.UUID(int=first + number, version=4)) for number in range(3)]
        text = write({"runs": dict.fromkeys(names, 0.25), "best": names[best]})
        return _opened(text.encode() if isinstance(text, str) else text)

    assert compare(*with_shared_names([content(10, 1), content(20, 1)])).same
    assert not compare(*with_shared_names([content(10, 1), content(20, 2)])).same


def _packed(kind: str, members: dict[str, bytes]) -> bytes:
    """Write an archive of several members, a tar one compressed."""
    stream = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            for name, data in members.items():
                archive.writestr(zipfile.ZipInfo(name, START.timetuple()[:6]), data)
        return stream.getvalue()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.mtime, member.size = int(START.timestamp()), len(data)
            packed.addfile(member, io.BytesIO(data))
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    "written", ["{digest}  m.json\n", '{{"m.json": "{digest}"}}', "sha256 of m.json: {digest:.16}\n"]
)
def test_digests_of_members_in_a_list_among_them(kind: str, written: str) -> None:
    """A member with another time has another digest in the list; one of another result, or of nothing, counts."""

    def made(seconds: float, loss: float = 0.5, of: bytes = b"") -> bytes:
        data = json.dumps({"loss": loss, "fit_time": seconds}).encode()
        listed = written.format(digest=sha256_bytes(of or data)).encode()
        return _packed(kind, {"MANIFEST": listed, "m.json": data, "v.bin": b"1"})

    assert _same(made(0.25), made(0.125))
    assert not _same(made(0.25), made(0.125, 0.75))
    assert not _same(made(0.25, of=b"x"), made(0.125, of=b"y"))
    assert not _same(made(0.25), made(0.125, of=b"1"))
