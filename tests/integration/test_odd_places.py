"""Projects, stores and clocks as nobody wants them: every command works there, or ends with a sentence."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.support.cli import Done, Project
from tests.support.clock import YEAR, moved_clock

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

ODD = "a\nb \"c\" 'd' $(touch e) \\ *;&\t%s {f} ü\u202e"
_READ_ONLY = (
    "unshare", "--mount", "sh", "-c",
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd . && cd "$PWD" && exec "$@"',
)  # fmt: skip


def test_a_projects_path_of_newlines_quotes_and_commands(project: Project, tmp_path: Path) -> None:
    """Locks, builds, runs and is described there; nothing of the path is read as anything else."""
    odd = project.copy(tmp_path / ODD)
    odd.write("t.py", "import pathlib; pathlib.Path('out.txt').write_text('1'); print(pathlib.Path.cwd())\n")
    odd.must("lock")
    odd.must("check")
    odd.must("build", "--output", "oci:out.tar")
    assert odd.must("run", "-q", "t.py").out == "/workspace\n"
    (record,) = odd.must("runs", "--json").json
    assert [output["path"] for output in record["outputs"]] == ["out.txt"]
    shown = odd.must("show", record["id"])
    assert "\u202e" not in shown.out + shown.err
    odd.must("run", "-q", "t.py")
    odd.must("diff", *(record["id"] for record in odd.must("runs", "--json").json))
    assert not list(tmp_path.rglob("e"))


def _sentence(done: Done, *words: str) -> None:
    assert done.code not in (0, 1), done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err, done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting read-only needs root")
def test_a_project_that_may_not_be_written(project: Project) -> None:
    """What only reads works; what must write names the folder."""
    prefix = (*_READ_ONLY, str(project.folder))
    project.must("check", prefix=prefix)
    project.must("runs", prefix=prefix)
    for words in (("run", "-c", "print(1)"), ("build", "--output", "oci:out.tar")):
        _sentence(project(*words, prefix=prefix), "ead-only file system")


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting read-only needs root")
def test_a_store_that_may_not_be_written(project: Project, tmp_path: Path) -> None:
    """A command that needs to write there names the store and the way out; nothing is a fault of envbuild."""
    alone = project.copy(tmp_path / "alone", own_store=True)
    prefix = (*_READ_ONLY, str(alone.store))
    for words in (("lock", "--upgrade"), ("fetch",), ("build", "--output", "oci:out.tar"), ("store", "gc")):
        done = alone(*words, prefix=prefix)
        if done.code:
            _sentence(done, str(alone.store))
    assert alone.must("store", "verify", "--json").json["damaged"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting read-only needs root")
def test_caches_that_may_not_be_written(project: Project, tmp_path: Path) -> None:
    """Neither the home folder nor the one for temporary files is needed; what uv cannot write is named."""
    closed = tmp_path / "closed"
    closed.mkdir()
    prefix = (*_READ_ONLY, str(closed))
    done = project("lock", "--upgrade", prefix=prefix, UV_CACHE_DIR=str(closed / "uv"))
    _sentence(done, str(closed / "uv"), "ead-only file system", "UV_CACHE_DIR")
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME"):
        assert project.must("run", "-q", "-c", "print(1)", prefix=prefix, **{name: str(closed)}).out == "1\n"


def test_a_clock_set_back_by_ten_years(project: Project, tmp_path: Path) -> None:
    """What was made before is neither lost nor made anew; signatures of today are refused; later all is as it was."""
    back = moved_clock(tmp_path, -10 * YEAR)
    then = f"{datetime.now(timezone.utc) - timedelta(seconds=10 * YEAR):%Y-%m-%d}"
    lock = {path.name: path.read_bytes() for path in project.folder.glob("pylock.*")}
    first = project.must("run", "-q", "-c", "print(1)")
    refused = ("InRelease: signature: expected one made before", then, "this machine's clock", "date -u")
    _sentence(project("lock", **back), *refused)
    for words in (("check",), ("fetch",), ("build",), ("store", "gc", "--dry-run")):
        project.must(*words, **back)
    assert project.must("run", "-q", "-c", "print(1)", **back).out == first.out
    assert {path.name: path.read_bytes() for path in project.folder.glob("pylock.*")} == lock
    times = sorted(record["start"][:4] for record in project.must("runs", "--json").json)
    assert int(times[-1]) - int(times[0]) == 10
    project.must("check")
    assert project.must("store", "verify", "--json").json["damaged"] == []
