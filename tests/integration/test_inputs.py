"""Declared data in real runs: read-only, refused once changed, accepted on request, watched while the run lasts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Project, finish

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

MARK = "open('mark', 'w').close()\n"


@pytest.fixture(name="trained")
def _trained(project: Project) -> Project:
    """The project with a folder of images and labels, locked."""
    for number in range(12):
        project.write(f"data/images/{number:02}.png", f"image {number}\n")
    project.write("data/labels.csv", "1,2\n")
    with (project.folder / "spec.yaml").open("a") as stream:
        stream.write("inputs: [data]\n")
    project.must("lock")
    return project


def _record(project: Project) -> dict[str, Any]:
    return dict(project.must("runs", "--json").json[0])


def _locked(project: Project) -> str:
    return (project.folder / "pylock.clitest.toml").read_text()


def test_added_images_are_named_refused_and_accepted(trained: Project) -> None:
    """The classic story: a run after images were added is refused by name; accepted, it runs without any index."""
    trained.write("t.py", MARK + "import os\nprint(len(os.listdir('data/images')))\n")
    assert trained.must("run", "-q", "t.py").out == "12\n"
    first = _record(trained)
    (trained.folder / "mark").unlink()
    for number in range(12, 20):
        trained.write(f"data/images/{number}.png", "another\n")
    trained.write("data/labels.csv", "1,3\n")
    done = trained("run", "t.py")
    assert (done.code, done.out) == (78, "")
    assert done.err == (
        "envbuild: input data is not as pylock.clitest.toml locked it — nothing was run\n"
        "  data: 8 files added (64 bytes), 1 file changed\n"
        "    added    images/12.png\n"
        "             images/13.png\n"
        "             images/14.png\n"
        "             images/15.png\n"
        "             images/16.png\n"
        "             and 3 more\n"
        "    changed  labels.csv\n"
        "  → restore the data, or accept it: envbuild lock --update-inputs\n"
    )
    assert not (trained.folder / "mark").exists()
    assert trained("check", "-q").code == 78
    before = _locked(trained)
    unreachable = {"UV_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = trained.must("lock", "--update-inputs", **unreachable)
    assert "data: 8 files added (64 bytes), 1 file changed" in done.out
    changed = [line for line in _locked(trained).splitlines() if line not in before.splitlines()]
    assert sorted(line.split(" = ")[0] for line in changed) == ["blake3", "bytes", "digest", "files"]
    trained.must("lock", "--check")
    assert trained.must("run", "-q", "t.py").out == "20\n"
    second = _record(trained)
    assert first["inputs"] != second["inputs"]
    for record in (first, second):
        assert (trained.folder / ".envbuild" / "inputs" / record["inputs"]["data"]).is_file()
        assert record["input_changes"] == []


def test_a_program_cannot_change_its_inputs(trained: Project) -> None:
    """Writing, adding, removing and renaming below a declared path all fail inside the run."""
    trained.write(
        "t.py",
        "import os\nfor act in (lambda: open('data/labels.csv', 'a'), lambda: open('data/new', 'w'),\n"
        "            lambda: os.remove('data/images/00.png'), lambda: os.rename('data/images', 'data/x'),\n"
        "            lambda: os.mkdir('data/y'), lambda: os.chmod('data/labels.csv', 0o777)):\n"
        "    try:\n        act()\n        print('done')\n    except OSError as error:\n        print(error.strerror)\n",
    )
    assert trained.must("run", "-q", "t.py").out == "Read-only file system\n" * 6
    assert _record(trained)["input_changes"] == []


def test_data_changed_under_a_run_is_recorded(trained: Project) -> None:
    """The program cannot change its inputs, but others can: the record states what happened to them meanwhile."""
    trained.write(
        "t.py", "import os, time\nopen('up', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
    )
    process = trained.start("run", "t.py")
    _wait(trained.folder / "up")
    trained.write("data/labels.csv", "9,9\n")
    trained.write("go", "")
    done = finish(process)
    assert (done.code, done.out) == (0, "")
    assert "input data changed meanwhile" in done.err
    record = _record(trained)
    assert record["input_changes"] == ["data: 1 file changed"]
    assert json.dumps(record["input_changes"][0]).strip('"') in trained.must("show", record["id"]).out


def _wait(path: Path) -> None:
    """Wait until a program has made a file."""
    deadline = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)
