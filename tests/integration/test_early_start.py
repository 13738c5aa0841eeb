"""A run that begins as the last one of its command line did: the program gets what lock and files are by now."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from envbuild.engine.local import early
from tests.support.cli import Project

pytestmark = [pytest.mark.network]

SHOWN = """\
import json, os, socket, sys
print(json.dumps([os.environ["PYTHONHASHSEED"], socket.gethostname(), sys.argv[1:], sorted(os.listdir("/workspace")),
                  [name for name in os.environ if name.startswith("ENVBUILD_H")], sorted(os.listdir("/proc/self/fd"))]))
"""


@pytest.fixture(name="project")
def _project(made: Project, tmp_path: Path) -> Project:
    """A copy of the shared project with one run of ``t.py``."""
    project = made.copy(tmp_path)
    project.environ["ENVBUILD_ENGINE"] = "local"
    project.write("t.py", SHOWN)
    project.must("run", "t.py", "x")
    return project


def starts(project: Project) -> list[Path]:
    """The starts that are kept of a project's command lines; the store has others' too."""
    found = (project.store / "derived" / early.FOLDER).iterdir()
    return [path for path in found if os.fsencode(project.folder) in path.read_bytes()]


def start_of(project: Project) -> Path:
    """The start of ``t.py x``."""
    (found,) = [path for path in starts(project) if b'"t.py", "x"' in path.read_bytes()]
    return found


def nothing_is_left(project: Project) -> bool:
    """Whether each run that has a folder in the project has a record too."""
    return all((path / "record.json").is_file() for path in (project.folder / ".envbuild/runs").iterdir())


def records(project: Project) -> list[dict[str, object]]:
    """The records of a project's runs, oldest first, without what differs from run to run.

    Layers are compared after a run that took half a second, as on a busy machine.
    """
    found = []
    for path in sorted((project.folder / ".envbuild/runs").glob("*/record.json")):
        record = json.loads(path.read_bytes())
        record["verdict"].pop("duration_ms")
        for key in ("id", "start", "end", "duration", "layers"):
            del record[key]
        found.append(record)
    return found


def test_the_program_and_the_record_are_the_same(project: Project) -> None:
    """What is kept is for this user alone; the program sees nothing of it, and the guard's verdict is the guard's."""
    file = start_of(project)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    before = file.stat()
    second, third = project.must("run", "t.py", "x"), project.must("run", "t.py", "x")
    assert second.out == third.out
    assert file.stat().st_ino == before.st_ino, "the start did not fit"
    first, *others = records(project)
    assert [record["printed"] for record in others] == [first["printed"]] * 2
    for record in others:
        assert {**record, "same_bits_as": None, "same_tensors_in": None, "not_compared": None} == {
            **first, "same_bits_as": None, "same_tensors_in": None, "not_compared": None,
        }  # fmt: skip
        assert record["verified"] == "yes"
        assert record["verdict_source"] == "pipe"
    assert nothing_is_left(project)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"HOSTNAME": "envbuild"', b'"HOSTNAME": "elsewhere"'),
        (b'"network": false', b'"network": true'),
        (b'"hostname": "envbuild"', b'"hostname": "elsewhere"'),
        (b'"/workspace/.envbuild", "read_only": true', b'"/workspace/.envbuild", "read_only": false'),
        (b'"t.py"', b'"other.py"'),
        (b'"filter": "', b'"filter": "00'),
        (b'"layers": ["', b'"layers": ["/nowhere'),
    ],
    ids=["variable", "network", "name", "protection", "command", "filter", "layer"],
)
def test_a_start_that_is_out_of_date_costs_time_alone(project: Project, old: bytes, new: bytes) -> None:
    """All that the kernel was asked for is compared with what the run is by now, and is asked for anew."""
    expected = project.must("run", "t.py", "x").out
    project.write("other.py", "open('ran', 'w')\n")
    listed = expected.replace('"t.py"', '"other.py", "t.py"') if '"other.py"' not in expected else expected
    file = start_of(project)
    data = file.read_bytes()
    assert data.count(old) == 1
    file.write_bytes(data.replace(old, new))
    done = project.must("run", "t.py", "x")
    assert json.loads(done.out)[:3] == json.loads(listed)[:3]
    assert not (project.folder / "ran").exists()
    assert file.read_bytes() == data, "the start was not made anew"
    assert nothing_is_left(project)


def test_what_is_mounted_has_to_be_the_same_files(project: Project, tmp_path: Path) -> None:
    """A folder of the same name in the place of the one that was mounted is another one: seen by its number."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("old")
    project.write("m.py", "print(open('/data/file').read())\n")
    words = ("run", "--mount", f"{tmp_path / 'data'}:/data:ro", "m.py")
    assert project.must(*words).out == "old\n"
    (tmp_path / "data").rename(tmp_path / "before")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("new")
    assert project.must(*words).out == "new\n"


@pytest.mark.parametrize("how", ["stale", "no script"])
def test_where_nothing_is_run_after_all(project: Project, how: str) -> None:
    """The guard waits; the program never starts, and what was begun is removed."""
    project.write("t.py", "open('ran', 'w')\n")
    if how == "stale":
        (spec,) = project.folder.glob("*.yaml")
        spec.write_text(spec.read_text() + "\nenv: {A: b}\n")
    else:
        (project.folder / "t.py").unlink()
    done = project("run", "t.py", "x")
    assert done.code in (2, 11), done.err
    assert not (project.folder / "ran").exists()
    assert nothing_is_left(project)


def test_starts_that_others_could_have_written_are_not_read(project: Project) -> None:
    """Whoever writes one names what is mounted, and how."""
    file = start_of(project)
    data = file.read_bytes()
    file.chmod(0o666)
    project.must("run", "t.py", "x")
    assert start_of(project).stat().st_mode & 0o777 == 0o600
    assert start_of(project).read_bytes() == data


def test_secrets_are_not_kept(project: Project) -> None:
    """The record masks them too."""
    before = start_of(project).read_bytes()
    project.must("run", "--env", "API_TOKEN=s3cr3t", "t.py", "x")
    project.must("run", "t.py", "--password", "s3cr3t")
    assert start_of(project).read_bytes() == before
    assert not [path for path in starts(project) if b"s3cr3t" in path.read_bytes()]


def test_signals_reach_a_program_that_began_early(project: Project) -> None:
    """As ever: those that come before it runs too."""
    project.write("t.py", "import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    for _ in range(2):
        process = project.start("run", "t.py", "y")
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    for wait in (0.02, 0.06):
        process = project.start("run", "t.py", "y")
        time.sleep(wait)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (128 + signal.SIGTERM, -signal.SIGTERM)
    project.must("run", "-c", "pass")
