"""``envbuild verify`` in-process: what is typed, what the attestation reports later, and what switches cost."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild import cli
from envbuild.cli.commands import compare
from envbuild.cli.console import Console
from envbuild.cli.render.verify import checked, conclusion, rows, unchanged
from envbuild.core.digest import sha256_file
from envbuild.errors import IntegrityError, LockError, UsageError
from envbuild.lockfile import model as locks
from envbuild.operations.load_lock import LoadedLock
from envbuild.operations.run import RunOptions
from envbuild.operations.verification.attestation import attest, check_attestation, check_signature, sign, withdraw
from envbuild.operations.verification.attested_runs import has_own_mounts, shown_folders
from envbuild.operations.verification.verify import VerifyOptions
from envbuild.record import history
from envbuild.record.model import LockFacts, Options, Output, Script
from envbuild.runs.repeat import STRICT
from envbuild.runs.request import RunRequest
from envbuild.runs.workspace import names_in
from envbuild.verification import attestation, cost
from envbuild.verification.cost import Arm, Control, Unit
from envbuild.verification.judge import judge
from envbuild.verification.ran import Ran
from tests.support.image_records import image_record
from tests.support.records import A, B, record, sha
from tests.support.runtime import make_lock

# What is typed


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ({}, "envbuild run t.py 'a b'"),
        (
            {"env": ["A=1 2"], "mount": ["/data:/d:ro"], "lock": "x/pylock.a.toml", "no_controls": True},
            "envbuild run --env 'A=1 2' --mount /data:/d:ro --lock x/pylock.a.toml --no-controls t.py 'a b'",
        ),
    ],
)
def test_the_single_run_of_a_hint_has_the_same_options(typed: dict[str, Any], command: str) -> None:
    """What is printed can be typed: without its variables and mounts the program fails for another reason."""
    assert compare._single_run(("t.py", "a b"), **typed) == command


def test_a_secret_is_no_part_of_a_hint() -> None:
    """Its name alone takes the value of the environment."""
    assert compare._shown_variable("API_TOKEN=abcdefgh12345678") == "API_TOKEN"
    assert compare._shown_variable("EPOCHS=3") == "EPOCHS=3"


@pytest.mark.parametrize(
    ("typed", "reported"),
    [
        (["verify"], "nothing to run"),
        (["verify", "-n", "1", "t.py"], "-n 1: expected 2 to 1000 runs"),
        (["verify", "--jobs", "0", "t.py"], "--jobs 0: expected at least one run at once"),
        (["verify", "--in-place", "-j", "2", "t.py"], "--in-place runs one after another"),
        (["verify", "--sign", "nokey", "t.py"], "no key nokey here"),
        (["verify", "--cost", "-j", "2", "t.py"], "--cost runs one after another and proves nothing"),
        (["verify", "--check", "--cost", "t.py"], "--check looks at an attestation and runs nothing"),
        (["verify", "--signers", "f", "t.py"], "--signers goes with --check"),
    ],
)
def test_what_cannot_be_meant_is_exit_2(
    typed: list[str], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that exclude each other and numbers out of range are reported before anything is done."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(typed) == 2
    assert capsys.readouterr().err.startswith(f"envbuild: {reported}\n")


def test_the_programs_arguments_are_untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the program on, every word is the program's, also what looks like an option of ``verify``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    seen: list[tuple[RunOptions, VerifyOptions]] = []
    monkeypatch.setattr(compare, "_verify", lambda shared, options, *_: seen.append((shared, options)) or 0)
    assert cli.main(["verify", "-n", "5", "--ignore", "a", "--ignore", "b", "t.py", "-n", "2", "--check", "-q"]) == 0
    assert (seen[0][1].count, seen[0][1].ignore) == (5, ("a", "b"))
    assert seen[0][0].command == ("t.py", "-n", "2", "--check", "-q")


# What was proved, later


@pytest.fixture
def proved(tmp_path: Path) -> LoadedLock:
    """A project of which something was proved: a lock, a script, a module."""
    lock = make_lock()
    path = tmp_path / lock.file_name
    path.write_bytes(locks.dumps(lock))
    (tmp_path / "lib").mkdir()
    (tmp_path / "train.py").write_text("import lib.model")
    (tmp_path / "lib/model.py").write_text("x = 1")
    opened = LoadedLock(path=path, lock=lock)
    made = request(opened)
    runs = [run(opened), run(opened, B)]
    assert attest(made, runs, judge(runs, 2), None) == tmp_path / "pylock.digits.verified.json"
    return opened


def request(opened: LoadedLock) -> RunRequest:
    """What was run."""
    return RunRequest(lock_path=opened.path, lock=opened.lock, image="t", config=sha("2"), arguments=("train.py", "-x"))


def run(opened: LoadedLock, identity: str = A) -> Ran:
    """A run of it."""
    script, model = opened.folder / "train.py", opened.folder / "lib/model.py"
    modules = [
        attesting_file(path.relative_to(opened.folder).as_posix(), sha256_file(path)) for path in (script, model)
    ]
    return Ran(
        record=record(
            identity,
            lock=LockFacts(file=opened.path.name, sha256=sha256_file(opened.path)),
            script=Script(path="train.py", sha256=sha256_file(script)),
            modules=tuple(modules),
            configs=(),
            inputs={},
            command=("python", "train.py", "-x"),
        )
    )


def attesting_file(path: str, digest: str) -> Any:
    """A file as a process read it."""
    from envbuild.record.processes import ReadFile

    return ReadFile(path=path, size=1, sha256=digest)


def check(opened: LoadedLock, *arguments: str, signers: Path | None = None) -> int:
    """``envbuild verify --check``."""
    for label, *columns in checked(check_attestation(opened, arguments, signers)):
        Console().line(label, *columns)
    return 0


@pytest.mark.parametrize("name", ["/etc/hostname", "../outside", "lib/../../outside", "/proc/kmsg", "a\0b"])
def test_an_attestation_names_no_file_outside_the_project(proved: LoadedLock, name: str) -> None:
    """It may be anybody's: it does not find out what other files hold, nor is one read that never ends."""
    (proved.folder.parent / "outside").write_bytes(b"x")
    path = attestation.path_of(proved.path)
    statement = attestation.load(path)
    digest = sha256_file(proved.folder.parent / "outside")
    other = msgspec.structs.replace(statement.predicate, files={name: digest})
    path.write_bytes(attestation.dumps(msgspec.structs.replace(statement, predicate=other)))
    with pytest.raises(LockError, match="not a file of this project"):
        check_attestation(proved, (), None)


def test_what_still_holds_is_reported(proved: LoadedLock, capsys: pytest.CaptureFixture[str]) -> None:
    """Unchanged files: exit 0, with what was proved, when, and where this machine is another one."""
    assert check(proved) == 0
    lines = capsys.readouterr().out.splitlines()
    date = attestation.load(attestation.path_of(proved.path)).predicate.date[:10]
    assert lines[0] == f"verified  bit-identical 2/2 on {date}: 1 file, 1 metric"
    assert lines[1] == "          lock, image and 2 files of code are as they were then; no inputs are declared"
    assert unchanged(0, inputs=True) == "lock, image and inputs are as they were then"
    assert any(line.strip().startswith("driver: ") for line in lines)  # the record's host has a GPU
    assert lines[-1] == "signed    not at all"
    assert check(proved, "train.py", "-x") == 0


def edited(proved: LoadedLock, **changes: Any) -> None:
    """Write another value into the attestation, as an editor does."""
    path = attestation.path_of(proved.path)
    statement = attestation.load(path)
    proof = msgspec.structs.replace(statement.predicate, **changes)
    path.write_bytes(attestation.dumps(msgspec.structs.replace(statement, predicate=proof)))


def recorded(proved: LoadedLock, identity: str = A, **changes: Any) -> None:
    """Keep the record of a run in the project; with changes made to it as an editor does."""
    history.save(proved.folder, msgspec.structs.replace(run(proved, identity).record, **changes))


def test_records_that_are_here_bear_out_the_attestation(
    proved: LoadedLock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many of the runs have a record here is printed, and in the JSON."""
    reported = "none of its runs has one here: what they left is this file's word alone"
    for number, identity in enumerate(("", A, B)):
        if identity:
            recorded(proved, identity)
            reported = f"{'1 of those' if identity == A else 'those'} of its 2 runs are here and state the same"
        assert check(proved) == 0
        assert capsys.readouterr().out.splitlines()[-2] == f"records   {reported}"
        assert check_attestation(proved, (), None).records == number


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"runs": 1000}, "it states 1000 runs and names 2"),
        ({"ids": (A, A)}, "it states 2 runs and names 1"),
        ({"recipe": sha("0")}, f"run {A[:10]}: the record has another value of recipe"),
        ({"verified": "overridden"}, f"run {A[:10]}: the record has another value of verified"),
        ({"files": {}}, f"run {A[:10]}: the record has other files of code"),
        ({"outputs": ()}, f"run {A[:10]}: the attestation has no model.npz"),
        ({"outputs": (attestation.Result(path="x.npz", sha256=sha("9")),)}, f"run {A[:10]}: the record has no x.npz"),
        (
            {"outputs": (attestation.Result(path="model.npz", sha256=sha("0")),)},
            f"run {A[:10]}: the record has other bits of model.npz",
        ),
        (
            {"outputs": (attestation.Result(path="model.npz", content=sha("0")),)},
            f"run {B[:10]}: the record has other bits of model.npz",
        ),
    ],
)
def test_an_attestation_that_was_edited_is_refused(proved: LoadedLock, changes: Any, reported: str) -> None:
    """The records of its runs show it, and its own numbers do."""
    recorded(proved)
    recorded(proved, B)
    edited(proved, **changes)
    with pytest.raises(LockError) as error:
        check_attestation(proved, (), None)
    first, *lines = error.value.message.splitlines()
    assert first == "pylock.digits.verified.json, or a record of its runs, was edited"
    assert f"  {reported}" in lines
    assert error.value.hint == "verify again: envbuild verify train.py -x"


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"outputs": ()}, "the record has no model.npz"),
        ({"image": sha("0")}, "the record has another image"),
        ({"exit_code": 1}, "the record has no successful end"),
        ({"options": Options(network="host", workspace="rw")}, "its recipe is not that of its lock, image, script,"),
    ],
)
def test_a_record_that_was_edited_bears_out_nothing(proved: LoadedLock, changes: Any, reported: str) -> None:
    """Which of the two is the lie, nobody knows: both are named."""
    recorded(proved, **changes)
    with pytest.raises(LockError, match=f"run {A[:10]}: {reported}"):
        check_attestation(proved, (), None)


def test_a_strict_check_asks_for_a_strict_proof(proved: LoadedLock) -> None:
    """What was not varied between the runs is named; an attestation states what was."""
    with pytest.raises(LockError) as error:
        check_attestation(proved, (), None, strict=True)
    assert "not varied between its runs: process ids, memory that nothing wrote" in error.value.message
    assert error.value.hint == "verify again: envbuild verify --strict train.py -x"
    runs = [run(proved), run(proved, B)]
    attest(request(proved), runs, judge(runs, 2), None, ("start time", *STRICT))
    found = check_attestation(proved, (), None, strict=True)
    assert found.statement.predicate.varied == ("start time", *STRICT)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda folder: (folder / "lib/model.py").write_text("x = 2"), "code: lib/model.py has changed"),
        (lambda folder: (folder / "train.py").unlink(), "code: train.py is gone"),
        (
            lambda folder: (folder / "pylock.digits.toml").open("a").write("# \n"),
            "lock: pylock.digits.toml has changed",
        ),
    ],
)
def test_what_has_changed_makes_it_stale(proved: LoadedLock, change: Any, reported: str) -> None:
    """Exit 11, what has changed, and the command that proves it anew."""
    change(proved.folder)
    with pytest.raises(LockError) as error:
        check(proved)
    assert error.value.message == f"pylock.digits.verified.json is stale\n  {reported}"
    assert error.value.hint == "verify again: envbuild verify train.py -x"


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (("python", "train.py", "a b"), "train.py 'a b'"),
        (("python", "-m", "pkg.train"), "-m pkg.train"),
        (("make", "all"), "make all"),
    ],
)
def test_the_command_that_proves_it_anew(proved: LoadedLock, command: tuple[str, ...], typed: str) -> None:
    """As it was typed, ready to be pasted."""
    edited(proved, command=command, runs=3)
    with pytest.raises(LockError) as error:
        check_attestation(proved, (), None)
    assert error.value.hint == f"verify again: envbuild verify {typed}"


def test_data_that_was_read_and_not_declared_has_to_be_as_it_was(proved: LoadedLock) -> None:
    """A proof is about the data as well; what the program wrote itself, or read elsewhere, is none."""
    names = ("data.csv", "state.json", "gone.txt")
    for name in names:
        (proved.folder / name).write_text("1")
    reads = [attesting_file(name, sha256_file(proved.folder / name)) for name in names]
    reads += [attesting_file("/data/x", sha("1")), msgspec.structs.replace(reads[0], path="large.bin", sha256=None)]
    left = Output(path="state.json", change="changed", size=1, sha256=sha("2"))
    changes = {"reads": tuple(reads), "outputs": (left,), "deleted": ("gone.txt",)}
    runs = [
        replace(each, record=msgspec.structs.replace(each.record, **changes)) for each in map(run, [proved] * 2, [A, B])
    ]
    attest(request(proved), runs, judge(runs, 2), None)
    found = check_attestation(proved, (), None)
    assert [*found.statement.predicate.data] == ["data.csv"]
    assert [*checked(found)][1][1].startswith("lock, image, 2 files of code and 1 file that it read are as they were")
    for name in ("state.json", "gone.txt"):
        (proved.folder / name).unlink()
    check_attestation(proved, (), None)
    (proved.folder / "data.csv").write_text("2")
    with pytest.raises(LockError, match=r"data: data\.csv has changed"):
        check_attestation(proved, (), None)


def test_what_was_read_and_then_changed_has_to_be_as_it_was_before(proved: LoadedLock) -> None:
    """A program that goes on from a state, takes a task away or lists a folder is proved of what it was given."""
    for name in ("state.txt", "queue/1", "pool/a", "pool/b"):
        (proved.folder / name).parent.mkdir(exist_ok=True)
        (proved.folder / name).write_text("1")
    altered = [attesting_file(name, sha256_file(proved.folder / name)) for name in ("state.txt", "queue/1")]
    pool = names_in(["pool/a", "pool/b", "pool/made", "train.py"], ["pool"], ["pool/made"])
    changes = {
        "altered": tuple(altered),
        "deleted": ("queue/1",),
        "outputs": tuple(
            Output(path=name, change=change, size=1, sha256=sha("2"))  # type: ignore[arg-type]
            for name, change in (("state.txt", "changed"), ("pool/made", "created"))
        ),
        "listed": pool,
        "read_otherwise": (msgspec.structs.replace(altered[0], path="large.bin", sha256=None),),
        "reads_beyond": 7,
    }
    runs = [
        replace(each, record=msgspec.structs.replace(each.record, **changes)) for each in map(run, [proved] * 2, [A, B])
    ]
    attest(request(proved), runs, judge(runs, 2), None)
    lines = [columns[0] for _, *columns in checked(check_attestation(proved, (), None))]
    assert "not known: 8 files that it read and that were large, or too many (large.bin)" in lines
    (proved.folder / "pool/made").write_text("a result of the program in the project itself")
    check_attestation(proved, (), None)
    for name, reported in (("state.txt", "state.txt has changed"), ("queue/1", "queue/1 has changed")):
        (proved.folder / name).write_text("2")
        with pytest.raises(LockError, match=f"data: {reported}"):
            check_attestation(proved, (), None)
        (proved.folder / name).write_text("1")
    for name in ("pool/c", "pool/deep/x"):
        (proved.folder / name).parent.mkdir(exist_ok=True)
        (proved.folder / name).write_text("1")
        with pytest.raises(LockError, match="data: the names in pool/ have changed"):
            check_attestation(proved, (), None)
        (proved.folder / name).unlink()


@pytest.mark.parametrize(("target", "path"), [("/data", "/data/x.csv"), ("/workspace/data", "data/x.csv")])
def test_what_was_read_of_mounted_folders_has_to_be_as_it_was(
    proved: LoadedLock,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    target: str,
    path: str,
) -> None:
    """Where they are is in the records of the runs; without one here it is said that nothing of them was compared.

    The same where a folder of the project has something else in its place.
    """
    data = tmp_path_factory.mktemp("data")
    (data / "x.csv").write_text("1")
    given = record().options
    changes = {
        "reads": (attesting_file(path, sha256_file(data / "x.csv")),),
        "options": msgspec.structs.replace(given, mounts=(f"{data}:{target}:ro",)),
    }
    runs = [
        replace(each, record=msgspec.structs.replace(each.record, **changes)) for each in map(run, [proved] * 2, [A, B])
    ]
    attest(request(proved), runs, judge(runs, 2), None)
    assert check(proved) == 0
    unknown = f"not compared: 1 file of mounted folders ({target}/x.csv); no record here shows where they were"
    assert unknown in capsys.readouterr().out
    for each in runs:
        history.save(proved.folder, each.record)
    assert check(proved) == 0
    shown = capsys.readouterr().out
    assert "2 files of code and 1 file that it read are as they were then" in shown
    assert "not compared" not in shown
    assert "not known of mounted folders: large files, packages, which files there were, and what was read by" in shown
    assert shown_folders(("/p/.git:/workspace/.git:ro", "/p:/data:ro")) == [".git"]
    assert [has_own_mounts(each) for each in ((), ("/p/.git:/workspace/.git:ro",), ("/p:/data:ro",))] == [0, 0, 1]
    (data / "x.csv").write_text("2")
    with pytest.raises(LockError, match=rf"mounted: {target}/x\.csv has changed"):
        check(proved)
    (data / "x.csv").unlink()
    with pytest.raises(LockError, match=rf"mounted: {target}/x\.csv is gone"):
        check(proved)
    os.mkfifo(data / "x.csv")
    with pytest.raises(LockError, match=rf"mounted: {target}/x\.csv is gone"):
        check(proved)
    edited(proved, mounted={})
    with pytest.raises(LockError, match="the record has other files that were read"):
        check(proved)


def test_a_proof_of_runs_with_a_network_states_it(proved: LoadedLock, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody knows what they fetched."""
    assert check(proved) == 0
    assert "network" not in capsys.readouterr().out
    online = msgspec.structs.replace(record().options, network="host")
    runs = [
        replace(each, record=msgspec.structs.replace(each.record, options=online))
        for each in map(run, [proved] * 2, [A, B])
    ]
    attest(request(proved), runs, judge(runs, 2), None)
    assert check(proved) == 0
    assert "its runs had a network: host; what was fetched is in no record" in capsys.readouterr().out
    history.save(proved.folder, runs[0].record)
    edited(proved, network="")
    with pytest.raises(LockError, match="the record has another network"):
        check(proved)


def test_a_stale_proof_is_reported_in_json_too(
    proved: LoadedLock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``verify --check --json`` prints an object whatever the answer is; the exit code stays."""
    monkeypatch.chdir(proved.folder)
    command = ["verify", "--check", "--json", "--lock", proved.path.name]
    (proved.folder / "lib/model.py").write_text("x = 2")
    assert cli.main(command) == 11
    assert json.loads(capsys.readouterr().out) == {"fresh": False, "reasons": ["code: lib/model.py has changed"]}
    (proved.folder / "lib/model.py").write_text("x = 1")
    assert cli.main(command) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["fresh"], reported["reasons"], reported["attestation"]) == (
        True,
        [],
        "pylock.digits.verified.json",
    )
    attestation.path_of(proved.path).unlink()
    assert cli.main(command) == 11
    assert json.loads(capsys.readouterr().out)["fresh"] is False


def test_an_image_built_anew_and_another_program_are_stale(proved: LoadedLock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof is about one image and one command line."""
    monkeypatch.setattr(
        "envbuild.image.record.read_image_record", lambda path, lock: image_record(lock, config=sha("f"))
    )
    with pytest.raises(LockError) as error:
        check(proved, "train.py", "-y")
    assert error.value.message == (
        "pylock.digits.verified.json is stale\n"
        "  program: verified train.py -x, asked for train.py -y\n"
        "  image: it was built anew, with other bits"
    )


def test_a_proof_that_was_refuted_is_taken_away(proved: LoadedLock) -> None:
    """Runs of the same program that differ take it away with its signature; others, or without controls, do not."""
    path = attestation.path_of(proved.path)
    Path(f"{path}.sig").write_text("x")
    again = run(proved).record
    others: list[dict[str, Any]] = [
        {"command": ("python", "train.py", "-y")},
        {"script": Script(path="train.py", sha256=sha("0"))},
        {"lock": LockFacts(file=proved.path.name, sha256=sha("0"))},
        {"image": sha("0")},
        {"options": Options(network="none", workspace="rw", controls=False)},
    ]
    for changes in others:
        assert withdraw(request(proved), msgspec.structs.replace(again, **changes)) == []
    assert withdraw(request(proved), msgspec.structs.replace(again, recipe=sha("0"))) == [path.name, f"{path.name}.sig"]
    assert withdraw(request(proved), run(proved).record) == []


def test_a_new_proof_has_no_old_signature(proved: LoadedLock) -> None:
    """A signature belongs to the bytes it was made for."""
    path = attestation.path_of(proved.path)
    signature = Path(f"{path}.sig")
    signature.write_text("x")
    runs = [run(proved)]
    attest(request(proved), runs, judge(runs, 1), None)
    assert not signature.exists()


@pytest.mark.subprocess
def test_signatures_are_made_and_checked(
    proved: LoadedLock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An SSH key signs; a changed byte, a signature by nobody known, and none at all are exit 13."""
    import subprocess

    key, path = tmp_path / "key", attestation.path_of(proved.path)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me@example.invalid", "-f", key], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f"me@example.invalid {Path(f'{key}.pub').read_text()}")
    with pytest.raises(IntegrityError) as unsigned:
        check(proved, signers=signers)
    assert unsigned.value.message == f"{path.name} is not signed"
    sign(path, key)
    assert check(proved, signers=signers) == 0
    assert 'Good "envbuild" signature for me@example.invalid with ED25519 key' in capsys.readouterr().out
    data = path.read_bytes()
    assert check_signature(path, None, data).startswith('Good "envbuild" signature with ED25519 key SHA256:')
    with pytest.raises(IntegrityError):  # the file was another one when it was read
        check_signature(path, None, data + b" ")
    signers.write_text("")
    with pytest.raises(IntegrityError) as unknown:
        check(proved, signers=signers)
    assert unknown.value.message == f"{path.name}.sig is by nobody in {signers}"
    path.write_bytes(path.read_bytes().replace(b'"runs": 2', b'"runs": 9'))
    with pytest.raises(IntegrityError) as bad:
        check(proved)
    assert bad.value.message == f"{path.name}.sig is not a good signature of {path.name}"
    with pytest.raises(UsageError) as no_key:
        sign(path, tmp_path / "signers")
    assert no_key.value.message.startswith(f"{path.name} was written, but not signed with {signers}: ")


# What switches cost

TABLE = (
    Control(name="PYTHONHASHSEED", cause=4, level="seeds"),
    Control(name="OMP_NUM_THREADS", cause=5, level="seeds"),
    Control(name="TF_DETERMINISTIC_OPS", cause=6, level="ops"),
    Control(name="TF_CUDNN_USE_AUTOTUNE", cause=6, level="ops"),
    Control(name="torch.manual_seed", cause=1, level="seeds"),
    Control(name="torch.set_num_threads", cause=5, level="seeds"),
    Control(name="tf.config.experimental.enable_op_determinism", cause=6, level="ops"),
)


def test_what_belongs_together_is_left_out_together() -> None:
    """Seeds are never left out; thread counts are one unit, and so are the two names of one thing; absent ones none."""
    present = {row.name for row in TABLE} - {"TF_CUDNN_USE_AUTOTUNE"}
    assert cost.units(present, TABLE) == (
        Unit(name="thread counts", members=("OMP_NUM_THREADS", "torch.set_num_threads"), level="seeds"),
        Unit(
            name="TensorFlow's deterministic operations",
            members=("TF_DETERMINISTIC_OPS", "tf.config.experimental.enable_op_determinism"),
            level="ops",
        ),
    )
    assert [unit.name for unit in cost.units({"TF_CUDNN_USE_AUTOTUNE"}, TABLE)] == ["TF_CUDNN_USE_AUTOTUNE"]


def arm(name: str, *seconds: float, results: int = 1, failed: bool = False, without: tuple[str, ...] = ()) -> Arm:
    """One way to run."""
    return Arm(name=name, seconds=seconds, results=results, failed=failed, without=without)


def test_savers_are_quicker_than_chance_and_keep_runs_equal() -> None:
    """What is within the noise, differs or fails saves nothing; the quickest comes first."""
    base = arm("all on", 10.0, 10.1, 10.3)
    arms = {
        "a": arm("a", 9.0, 9.1, 9.2),
        "b": arm("b", 5.0, 5.0, 5.1),
        "noise": arm("noise", 9.9, 10.0, 10.0),
        "differs": arm("differs", 1.0, 1.0, 1.0, results=2),
        "fails": arm("fails", 1.0, 1.0, 1.0, failed=True),
    }
    chance = cost.noise([base, *arms.values()])
    assert 0.03 < chance < 0.04
    assert cost.savers(base, arms, chance) == ("b", "a")


def test_one_restless_arm_makes_all_times_doubtful() -> None:
    """On a busy machine times are not precise: what runs of one arm differ by counts for all."""
    base, restless, quick = arm("all on", 10.0, 10.0), arm("x", 5.0, 15.0), arm("y", 6.0, 6.0)
    chance = cost.noise([base, restless, quick])
    assert chance == pytest.approx(0.52)
    assert cost.savers(base, {"y": quick}, chance) == ()


def test_the_table_reports_time_difference_and_outcome() -> None:
    """Medians, signed percentages beyond the noise, and how many results there were."""
    base = arm("all on", 10.0, 10.1, 10.3)
    others = [arm("x", 5.0, 5.1, 5.2), arm("y", 10.2, 10.2, 10.2, results=3), arm("z", 20.0, failed=True)]
    assert list(rows(base, others, 0.03)) == [
        ("all on", "10.10 s", "", "3/3 equal"),
        ("x", "5.10 s", "−50 %", "3/3 equal"),
        ("y", "10.20 s", "within noise", "3 different"),
        ("z", "20.00 s", "+98 %", "fails"),
    ]


def test_the_cheapest_set_is_written_as_a_spec_if_it_can_be() -> None:
    """A level has a key; a single switch has none, and that is reported."""
    caution = "equal in a few runs on this machine is no proof: envbuild verify -n 10 is stronger evidence"
    nothing = "everything on: nothing that could be left out saves time here beyond chance"
    assert conclusion(None, ()) == (nothing,)
    best = arm("x", 5.0, 5.0, without=("A", "B"))
    assert conclusion(best, ("B", "A")) == (
        "without A, B: 5.00 s, measured twice, equal in 2 runs",
        "in spec.yaml: determinism: {level: seeds}",
        caution,
    )
    assert conclusion(best, ("A",))[1] == (
        "spec.yaml leaves out levels, not single switches: this is for your information"
    )
