"""Names that look drawn: those that a program was given, or that it writes alike in all runs, are results."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.operations.verification.given_names import GivenNames
from envbuild.operations.verification.verify import Verification
from envbuild.record.model import Output
from envbuild.record.processes import ReadFile
from envbuild.record.shared_names import names_in, shortened
from tests.support.records import record
from tests.unit.operations.test_verify_channels import Container, verified

USERS = ("9f8e7d6c-5b4a-4938-8716-0504f3e2d1c0", "0a1b2c3d-4e5f-4a6b-8c7d-9e8f7a6b5c4d")
RUNS = ("3c2b1a09-8f7e-4d6c-9b5a-4938271605f4", "d4c3b2a1-0f9e-4e8d-8c7b-6a5948372615")


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is another process; its facts have their own test."""
    monkeypatch.setattr("envbuild.record.git.git_state", lambda project: None)


def outcome(project: Path, *, written: str = "", stdout: str = "", stderr: str = "", file: str = "") -> Verification:
    """Verify a program that prints or writes ``USER``, another one of the two in each run, and ``OTHER``."""

    def program(run: Container, number: int) -> int:
        def filled(text: str) -> str:
            user, other = USERS[number % 2], USERS[1 - number % 2]
            return text.replace("USER", user).replace("OTHER", other).replace("RUN", RUNS[number % 2])

        if written:
            (run.project / "users.txt").write_text(written)
        if file:
            (run.project / "best.json").write_text(filled(file))
        for number_of, text in ((1, stdout), (2, stderr)):
            if text:
                run.say(filled(text), number_of)
        return 0

    return verified(project, program)


def test_a_name_of_a_list_that_all_runs_write(tmp_path: Path) -> None:
    """The file is the same in all runs, and has both; a name that is in no file is the run's own."""
    written = "\n".join(USERS)
    for number, (texts, same) in enumerate(
        (
            ({"file": '{"user": "USER"}'}, False),
            ({"stdout": "best USER\n"}, False),
            ({"stderr": "best USER\n"}, False),
            ({"stdout": "run RUN\n", "file": '{"run": "RUN"}'}, True),
        )
    ):
        project = tmp_path / str(number)
        project.mkdir()
        found = outcome(project, written=written, **texts)
        assert (found.verdict.outcome == "identical") is same, texts


def test_without_the_list_a_name_is_the_runs_own(tmp_path: Path) -> None:
    """Nothing else shows where it is from."""
    assert outcome(tmp_path, stdout="best USER\n").verdict.outcome == "identical"


def test_a_name_on_one_stream_and_in_the_other_runs_other_stream(tmp_path: Path) -> None:
    """Two runs have it, so neither drew it; the line is quoted with it."""
    found = outcome(tmp_path, stdout="best USER\n", stderr="second OTHER\n")
    assert found.verdict.differs == ("standard output", "standard error")
    assert (found.printed[0].before, found.printed[0].after) == (f"best {USERS[0]}", f"best {USERS[1]}")


def test_a_name_in_a_file_and_on_the_other_runs_stream(tmp_path: Path) -> None:
    """Files and streams are looked at together."""
    found = outcome(tmp_path, stdout="second OTHER\n", file=json.dumps({"user": "USER"}))
    assert [phrase.partition(" (")[0] for phrase in found.verdict.differs] == ["best.json", "standard output"]


def test_files_named_for_one_of_a_list(tmp_path: Path) -> None:
    """A name in the path of a file is one too."""

    def program(run: Container, number: int) -> int:
        (run.project / "users.txt").write_text("\n".join(USERS))
        (run.project / f"{USERS[number]}.json").write_text("{}")
        return 0

    found = verified(tmp_path, program)
    assert found.verdict.differs == (f"names of files: {USERS[1]}.json, {USERS[0]}.json",)


@pytest.mark.parametrize("form", ["text", "upper case", "gz", "database", "hex"])
def test_names_are_found_in_files_that_a_program_read(form: str, tmp_path: Path) -> None:
    """As they are written, and in what is packed."""
    text = f"user,age\n{USERS[0]},31\n".encode()
    if form == "gz":
        text = gzip.compress(text)
    elif form == "upper case":
        text = text.upper()
    elif form == "hex":
        text = text.replace(b"-", b"")
    place = tmp_path / "users.csv"
    if form == "database":
        connection = sqlite3.connect(place)
        connection.execute("CREATE TABLE users (id TEXT)")
        connection.execute("INSERT INTO users VALUES (?)", [USERS[0]])
        connection.commit()
        connection.close()
        text = place.read_bytes()
    place.write_bytes(text)
    wanted = {shortened(USERS[0]), shortened(USERS[1])}
    read = ReadFile(path="users.csv", size=len(text), sha256=sha256_bytes(text))
    assert GivenNames(project=tmp_path).among(wanted, record(reads=(read,)), ()) == {shortened(USERS[0])}


def test_what_a_run_wrote_and_what_is_hidden_gives_no_names(tmp_path: Path) -> None:
    """Who appends names of runs to a file has drawn them; libraries read files that nobody notes."""
    wanted = {shortened(RUNS[0])}
    for name, outputs, given in (
        ("runs.txt", (), True),
        ("runs.txt", (Output(path="runs.txt", change="changed", size=1, sha256="ab" * 32),), False),
        (".envbuild/runs.txt", (), False),
        ("data/deep/runs.txt", (), True),
    ):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(RUNS[0])
        assert bool(GivenNames(project=tmp_path).among(wanted, record(outputs=outputs), ())) is given, name
        place.unlink()


def test_a_file_that_is_another_one_by_now_gives_no_names(tmp_path: Path) -> None:
    """What the program read then is not known any more."""
    (tmp_path / "runs.txt").write_text(RUNS[0])
    read = ReadFile(path="runs.txt", size=0, sha256=sha256_bytes(b""))
    assert not GivenNames(project=tmp_path).among({shortened(RUNS[0])}, record(reads=(read,)), ())


def test_what_looks_like_a_name() -> None:
    """UUIDs, words of letters and digits, words with a number; no plain words and numbers."""
    text = f"{USERS[0].upper()} abc12345 bold-fox-17 hello 12345678 short1 x".encode()
    assert {*names_in(text)} == {*map(shortened, (USERS[0], "abc12345", "bold-fox-17"))}
