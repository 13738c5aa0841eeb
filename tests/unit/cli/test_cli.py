"""The command line in-process: what is typed, what is printed where, and which exit code comes back."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import typer

from envbuild import __version__, cli, errors
from envbuild.cli import app, faults, interrupts
from envbuild.core import limits
from envbuild.errors import EnvbuildError, Problem, SpecError
from envbuild.operations.events import Events
from envbuild.operations.run import RunOptions, RunResult
from envbuild.spec.model import json_schema, load_spec
from tests.support.records import record

ARROW = "\n  → "
QUOTA = "no space left within the disk quota (quota -s)"
CHECK = "check what it is and who may write it"


def _commands() -> dict[str, typer.core.TyperCommand]:
    return dict(typer.main.get_command(app.whole()).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "kind", [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, EnvbuildError)]
)
def test_every_error_becomes_its_exit_code(
    kind: type[EnvbuildError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Message and next step go to standard error, nothing to standard output, and the class decides the code."""
    error = SpecError("s.yaml", [Problem(path="os", message="m")], "h") if kind is SpecError else kind("m", "h")

    def fail(arguments: Sequence[str]) -> int:
        raise error

    monkeypatch.setattr(app, "invoke", fail)
    assert cli.main(["lock"]) == kind.exit_code
    assert capsys.readouterr() == ("", f"envbuild: {error.message}{ARROW}h\n")


@pytest.mark.parametrize(
    ("fault", "code", "reported"),
    [
        (OSError(errno.ENOSPC, "x"), 14, f"envbuild: no space left on device{ARROW}free some, then rerun\n"),
        (OSError(errno.EDQUOT, "x", "f"), 14, f"envbuild: {QUOTA}: f{ARROW}free some, then rerun\n"),
        (
            OSError(errno.EACCES, "Permission denied", "lock.toml"),
            2,
            f"envbuild: cannot read or write lock.toml: Permission denied{ARROW}{CHECK}\n",
        ),
        (
            OSError(errno.EIO, "Input/output error"),
            14,
            f"envbuild: a disk does not answer as it should: Input/output error{ARROW}read what the kernel says: "
            "dmesg; or use another disk, for the store: export ENVBUILD_STORE=FOLDER\n",
        ),
        (
            OSError(errno.ESTALE, "Stale file handle", "a"),
            14,
            f"envbuild: a disk does not answer as it should, at a: Stale file handle{ARROW}read what the kernel says: "
            "dmesg; or use another disk, for the store: export ENVBUILD_STORE=FOLDER\n",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/store/derived/runs/run-1"),
            2,
            f"envbuild: the store /store cannot be written: Read-only file system{ARROW}mount it so that it can be "
            "written, or copy the store to another folder: cp -a STORE FOLDER; export ENVBUILD_STORE=FOLDER\n",
        ),
        (
            OSError(errno.EROFS, "Read-only file system", "/storefront"),
            2,
            f"envbuild: cannot read or write /storefront: Read-only file system{ARROW}{CHECK}\n",
        ),
        (
            OSError(errno.EISDIR, "Is a directory", ".Dockerfile.tmp", None, "Dockerfile"),
            2,
            f"envbuild: cannot read or write Dockerfile: Is a directory{ARROW}{CHECK}\n",
        ),
        (
            OSError(errno.EEXIST, "File exists", "a.py"),
            2,
            f"envbuild: cannot read or write a.py: File exists{ARROW}{CHECK}\n",
        ),
        (KeyboardInterrupt(), 130, "envbuild: interrupted; nothing half-written was kept\n"),
        (
            OSError(errno.ENOENT, "No such file or directory", "/store/sha256/ab"),
            14,
            f"envbuild: the store lost /store/sha256/ab during the command{ARROW}rerun; what is missing there is made "
            "again\n",
        ),
    ],
)
def test_what_the_system_refuses_is_no_bug(
    fault: BaseException,
    code: int,
    reported: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A full disk, a file that may not be written and Ctrl-C are reported in one sentence, without a traceback."""

    def fail(arguments: Sequence[str]) -> int:
        raise fault

    monkeypatch.setenv("ENVBUILD_STORE", "/store")
    monkeypatch.setattr(app, "invoke", fail)
    assert cli.main([]) == code
    assert capsys.readouterr().err == reported


def test_a_full_disk_without_a_name_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the folders that envbuild writes to, those are named whose disk is full; the store may not be there yet."""

    def fail(arguments: Sequence[str]) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(app, "invoke", fail)
    monkeypatch.setenv("ENVBUILD_STORE", str(tmp_path / "caches" / "store"))
    monkeypatch.setattr(faults, "is_full", lambda folder: folder == tmp_path)
    assert cli.main([]) == 14
    assert capsys.readouterr().err == f"envbuild: no space left on device: {tmp_path}{ARROW}free some, then rerun\n"


@pytest.mark.parametrize(("kind", "code"), [(errors.ResolveError, 14), (errors.EngineError, 15)])
def test_an_error_that_a_limit_brought_about_names_the_limit(
    kind: type[EnvbuildError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration that cannot be opened for want of descriptors needs no correction."""

    def fail(arguments: Sequence[str]) -> int:
        try:
            raise OSError(errno.EMFILE, "Too many open files", "pip.conf")
        except OSError as error:
            raise kind(f"cannot read pip.conf: {error}", "correct the file") from None

    monkeypatch.setattr(app, "invoke", fail)
    assert cli.main(["lock"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith("envbuild: too many open files")
    assert "pip.conf" not in printed


def test_a_machine_without_room_for_temporary_files_is_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``tempfile`` tries its folders and calls none of them usable, as if they did not exist."""
    limits = {resource.RLIMIT_FSIZE: (resource.RLIM_INFINITY,) * 2}
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits.get(which, (1024, 1024)))
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "none")])
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(app, "invoke", lambda arguments: tempfile.gettempdir())
    assert cli.main(["lock"]) == 14
    printed = capsys.readouterr().err
    assert (str(tmp_path / "none") in printed, "export TMPDIR=FOLDER" in printed) == (True, True)
    limits[resource.RLIMIT_FSIZE] = (0, 0)
    assert cli.main(["lock"]) == 14
    assert "ulimit -f unlimited" in capsys.readouterr().err


def test_a_working_directory_that_is_gone_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Relative paths mean nothing there; a file that is missing elsewhere stays a bug."""

    def fail(arguments: Sequence[str]) -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(app, "invoke", fail)
    assert cli.main([]) == 1
    capsys.readouterr()
    monkeypatch.setattr(os, "getcwd", lambda: fail([]))
    assert cli.main([]) == 2
    assert capsys.readouterr().err == (
        f"envbuild: the current folder does not exist any more{ARROW}cd into one that does\n"
    )


@pytest.mark.parametrize("fault", [ValueError("boom"), OSError(errno.EBADF, "boom"), OSError(errno.EACCES, "boom")])
def test_an_unexpected_fault_asks_for_a_report(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug shows its traceback, states that it is one, and which versions to report."""

    def fail(arguments: Sequence[str]) -> int:
        raise fault

    monkeypatch.setattr(app, "invoke", fail)
    assert cli.main([]) == 1
    reported = capsys.readouterr().err
    assert reported.startswith("Traceback (most recent call last):\n")
    assert f"\nenvbuild: unexpected fault: {type(fault).__name__}: {fault}\n" in reported
    assert f"  This is a bug in envbuild {__version__} (Python 3." in reported
    assert reported.endswith("  → report it with the lines above and the command you typed\n")


@pytest.mark.parametrize(("most", "written"), [(resource.RLIM_INFINITY, True), (1 << 14, False)])
def test_no_bytecode_is_written_that_may_be_cut_off(most: int, written: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """``ulimit -f``: Python writes what fits, and no command would start again before that is deleted."""
    monkeypatch.setattr(resource, "getrlimit", lambda which: (most, most))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    cli._write_whole_bytecode()
    assert sys.dont_write_bytecode is not written


def test_a_filter_that_forbids_limits_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some sandboxes refuse prlimit(2): a command begins as if there were no limits, and met none so far."""

    def refuse(which: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(resource, "getrlimit", refuse)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    cli._write_whole_bytecode()
    cli._require_memory()
    assert interrupts._signals_of_processor_time() == []
    assert sys.dont_write_bytecode is False
    assert limits.explained(OSError(errno.EMFILE, "too many")) is not None


@pytest.mark.subprocess
@pytest.mark.parametrize("command", [["runs"], ["schema"], ["--help"]])
def test_a_reader_that_goes_away_is_no_fault(command: list[str], tmp_path: Path) -> None:
    """``envbuild … | true`` ends as tools do whose pipe breaks (128 + SIGPIPE), without a word."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"input(); from envbuild.cli import main; raise SystemExit(main({command!r}))"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, reported = process.communicate(b"\n", timeout=300)
    assert (process.returncode, reported) == (141, b"")


@pytest.mark.subprocess
def test_a_full_standard_output_is_reported(tmp_path: Path) -> None:
    """Output that could not be written is a failure, even when all of it waits in a buffer until the end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "envbuild", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
            env={"PATH": "/usr/bin", "PYTHONPATH": str(Path(cli.__file__).parents[2])},
        )
    assert done.returncode == 14
    assert done.stderr.decode().startswith("envbuild: no space left on device: standard output\n")


# What is typed


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` prints name and version."""
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr() == (f"envbuild {__version__}\n", "")


@pytest.mark.parametrize("name", _commands())
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` of each command shows its first sentence, and every option and argument states what it is for."""
    assert cli.main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    command = _commands()[name]
    assert err == ""
    assert out.startswith(f"Usage: envbuild {name} ")
    first = (command.help or "").split("\n")[0]
    assert first.endswith(".")
    assert first in re.sub(r"\s+", " ", out)
    undescribed = [parameter.name for parameter in command.params if not (getattr(parameter, "help", "") or "").strip()]
    assert undescribed == []


def test_the_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """``envbuild --help`` lists all commands and how to start."""
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    listed = re.findall(r"^  (\w+) {2,}\S", out.partition("Commands:")[2], re.M)
    assert listed == [
        "init",
        "schema",
        "lock",
        "fetch",
        "build",
        "context",
        "image",
        "push",
        "pull",
        "inspect",
        "run",
        "submit",
        "manifest",
        "verify",
        "check",
        "probe",
        "runs",
        "show",
        "diff",
        "report",
        "sbom",
        "sign",
        "ci",
        "store",
    ]
    assert "envbuild init  ·  envbuild lock spec.yaml  ·  envbuild run train.py" in re.sub(r"\n\s*", " ", out)


@pytest.mark.parametrize(
    ("typed", "reported"),
    [
        (["--nope"], "Error: No such option: --nope"),
        (["lokc"], "Error: No such command 'lokc'."),
        (["lock", "--chekc"], "Error: No such option: --chekc"),
        (["lock", "--resolver", "conda"], "Error: Invalid value for '--resolver': 'conda' is not one of"),
        (["inspect"], "Error: Missing argument 'REFERENCE'."),
        (
            ["run", "--cpu", "2", "t.py"],
            "envbuild: run has no option --cpu — perhaps you meant --cpus\n"
            "  → see them all: envbuild run --help; if it is an option of t.py: envbuild run t.py --cpu 2\n",
        ),
        (["run", "--cpu", "2"], "perhaps you meant --cpus\n  → see them all: envbuild run --help\n"),
        (["run", "--cpus", "two", "t.py"], "Error: Invalid value for '--cpus': 'two' is not a valid float."),
        (["run", "-m"], "envbuild: nothing to run after -m\n  → name a module: envbuild run -m MODULE\n"),
        (
            ["run"],
            "envbuild: nothing to run\n"
            "  → name a script: envbuild run train.py; or open a shell: envbuild run --shell\n",
        ),
        (
            ["run", "--shell", "t.py"],
            "envbuild: --shell runs no program\n  → leave out either --shell or the program\n",
        ),
        (
            ["run", "nope.py"],
            "envbuild: no script nope.py here\n  → name a file; for another program: envbuild run -- PROGRAM\n",
        ),
        (
            ["build", "--output", "image.tar"],
            "envbuild: --output image.tar: expected oci:DIR, oci:FILE.tar, oci-archive:FILE, docker-archive:FILE, "
            "sqsh:FILE or dir:DIR\n"
            "  → e.g. --output oci:image.tar\n",
        ),
    ],
)
def test_what_cannot_be_meant_is_exit_2(
    typed: list[str], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip on the command line is exit 2 and states which word it is; nothing else happens."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(typed) == 2
    out, err = capsys.readouterr()
    assert (out, reported in err) == ("", True), err


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        (["t.py", "--quiet", "-q", "-e", "A"], ("t.py", "--quiet", "-q", "-e", "A")),
        (["-m", "pkg", "-q", "--help"], ("-m", "pkg", "-q", "--help")),
        (["-q", "-c", "print(1)", "-v"], ("-c", "print(1)", "-v")),
        (["--", "ls", "-l"], ("ls", "-l")),
        (["t.py", "--", "--x"], ("t.py", "--", "--x")),
    ],
)
def test_the_programs_arguments_are_untouched(
    typed: list[str], arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the program on, every word is the program's, also what looks like an option of envbuild."""
    seen: list[RunOptions] = []

    def run(options: RunOptions, events: Events, meanwhile: Callable[[], None], later: Callable[[], None]) -> RunResult:
        meanwhile()
        later()
        seen.append(options)
        return RunResult(record=record(exit_code=5), project=tmp_path)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.py").touch()
    monkeypatch.setattr("envbuild.operations.run.run", run)
    assert cli.main(["run", *typed]) == 5
    assert seen[0].command == arguments


def test_init_writes_a_spec_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``init`` writes a valid spec and states what comes next; a spec that is there is replaced by ``--force`` only."""
    target = tmp_path / "spec.yaml"
    assert cli.main(["init", str(tmp_path)]) == 0
    load_spec(target)
    assert capsys.readouterr() == (
        f"wrote     {target}\nnext      read it, then: envbuild lock spec.yaml\n",
        "",
    )
    target.write_text("mine\n")
    assert cli.main(["init", str(tmp_path)]) == 2
    assert capsys.readouterr() == (
        "",
        f"envbuild: {target} exists already\n  → edit it, or replace it: envbuild init --force\n",
    )
    assert target.read_text() == "mine\n"
    assert cli.main(["init", str(tmp_path), "--force", "--quiet"]) == 0
    load_spec(target)
    assert capsys.readouterr() == ("", "")
    assert cli.main(["init", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == (
        f"envbuild: {tmp_path}/nowhere does not exist\n  → make it first: mkdir {tmp_path}/nowhere\n"
    )
    assert cli.main(["init", str(target)]) == 2
    assert capsys.readouterr().err == f"envbuild: {target} is not a folder\n  → name the folder of your project\n"


def test_init_reports_what_is_only_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of data, and imports of unknown packages, are comments in the spec: the reader learns what to do."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("x")
    (tmp_path / "train.py").write_text("import numpy, one_tool, two_tool\n")
    assert cli.main(["init", str(tmp_path)]) == 0
    reported = "next      your code also imports one_tool, two_tool: add their packages to requirements\n"
    reported += "next      data is not pinned: uncomment inputs\nnext      read it, then: envbuild lock spec.yaml\n"
    assert capsys.readouterr().out.endswith(reported)


def test_schema_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    """``schema`` prints the JSON Schema and nothing else."""
    assert cli.main(["schema"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == (json_schema(), "")


def test_no_runs_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list states how to start one; as JSON it is an empty list; an unknown run is exit 2."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(["runs"]) == 0
    assert capsys.readouterr().out == "runs      none yet  start one: envbuild run train.py\n"
    assert cli.main(["runs", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert cli.main(["show", "01"]) == 2
    assert capsys.readouterr() == (
        "",
        f"envbuild: no runs begin with '01' in {tmp_path}{ARROW}list them: envbuild runs\n",
    )


def test_sigterm_unwinds_like_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that gets SIGTERM cleans up, reports it, and exits with 143; the previous handler is restored."""
    cleaned = []

    def work(arguments: Sequence[str]) -> int:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        finally:
            cleaned.append(True)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(interrupts, "GRACE", 600.0)  # after it this process would end, however busy the machine is
    monkeypatch.setattr(app, "invoke", work)
    assert cli.main(["build"]) == 143
    assert cleaned == [True]
    assert capsys.readouterr() == ("", "envbuild: interrupted; nothing half-written was kept\n")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_reports_it(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library that parses the command line swallows no interrupt: the code is the signal's, and it is reported."""

    def work(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(5)

    monkeypatch.setattr(interrupts, "GRACE", 600.0)  # after it this process would end, however busy the machine is
    monkeypatch.setattr("envbuild.operations.init.init", work)
    assert cli.main(["init"]) == 128 + number
    assert capsys.readouterr() == ("", "envbuild: interrupted; nothing half-written was kept\n")


def test_each_command_is_found_alone() -> None:
    """A command line imports the module of its command: each one is in the module that the table names."""
    known = {
        command.name or command.callback.__name__ for command in app.whole().registered_commands if command.callback
    }
    assert known == set(app._COMMANDS)
    for name, module in app._COMMANDS.items():
        (command,) = app._program_for([name, "--help"]).registered_commands
        assert command.callback is not None
        assert command.callback.__module__ == f"envbuild.cli.commands.{module}"


@pytest.mark.subprocess
def test_a_terminal_that_is_closed_is_known() -> None:
    """It answers ``EIO`` to everything, as a failing disk does."""
    master, slave = os.openpty()
    script = "import os, sys; sys.stdin.read(1); from envbuild import cli; os._exit(cli._terminal_is_closed())"
    for closed in (False, True):
        process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=slave, stderr=subprocess.DEVNULL
        )
        if closed:
            os.close(slave)
            os.close(master)
        process.communicate(b"x", timeout=300)
        assert process.returncode == int(closed)
