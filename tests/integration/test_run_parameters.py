"""What a record states of a run's parameters and files, in a real image."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.support.cli import Project

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

TRAIN = """\
import argparse, json, signal, os
import lib.model
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--hub-token")
options = parser.parse_args()
json.load(open("conf.json"))
if options.epochs == 9:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def record_of(project: Project, *arguments: str) -> dict[str, Any]:
    """Run the script and return its record."""
    project("run", "-q", "train.py", *arguments)
    return dict(project.must("runs", "--json").json[0])


def values(record: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    (found,) = record["parameters"]
    return {name: (entry["value"], entry["source"]) for name, entry in found["values"].items()}


@pytest.fixture
def training(project: Project) -> Project:
    """A project with a script, a module and a configuration file."""
    project.write("train.py", TRAIN)
    project.write("lib/model.py", "SIZE = 3\n")
    project.write("conf.json", "{}")
    return project


def test_parameters_and_files_are_in_the_record(training: Project) -> None:
    """Two runs of one command between which a default changed: the records name it, and the file it is in."""
    first = record_of(training, "--epochs", "4", "--hub-token", "very-secret")
    training.write("train.py", TRAIN.replace("default=0.1", "default=0.01"))
    second = record_of(training, "--epochs", "4", "--hub-token", "very-secret")
    assert values(first) == {
        "lr": (0.1, "default"), "epochs": (4, "command line"), "hub_token": ("***", "command line")
    }  # fmt: skip
    assert values(second) == {**values(first), "lr": (0.01, "default")}
    assert first["configs"] == [{"path": "conf.json", "size": 2, "sha256": hashlib.sha256(b"{}").hexdigest()}]
    assert [file["path"] for file in first["modules"]] == ["train.py", "lib/model.py"]
    assert first["modules"][0]["sha256"] == first["script"]["sha256"] == hashlib.sha256(TRAIN.encode()).hexdigest()
    assert first["objects"] == []
    assert not any("very-secret" in path.read_text() for path in (training.folder / ".envbuild").rglob("*.json"))
    shown = training.must("show", second["id"]).out
    assert "parameter epochs     4     command line\n" in shown
    assert "parameter lr         0.01  default\n" in shown
    assert "config    conf.json  sha256:" in shown
    assert "modules   2 files  train.py, lib/model.py\n" in shown


def test_a_killed_program_leaves_its_parameters(training: Project) -> None:
    """The record of a program that was killed has all that was known by then."""
    record = record_of(training, "--epochs", "9")
    assert record["exit_code"] == 137
    assert values(record)["epochs"] == (9, "command line")
    assert [file["path"] for file in record["modules"]] == ["train.py", "lib/model.py"]
