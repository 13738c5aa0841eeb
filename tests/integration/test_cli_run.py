"""``envbuild run``, ``check``, ``runs`` and ``show`` as users run them, in a real image."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Done, Project, finish
from tests.support.wheels import make_wheel

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

DEADLINE = 300.0


def _record(project: Project) -> dict[str, Any]:
    """Return the newest record."""
    return dict(project.must("runs", "--json").json[0])


def _relock(project: Project, text: str) -> None:
    """Add to the spec and lock again."""
    with (project.folder / "spec.yaml").open("a") as stream:
        stream.write(text)
    project.must("lock")


def _untouched(project: Project) -> bool:
    """Whether the program that would have left a mark has not run."""
    return not (project.folder / "mark").exists()


_SIZES = """\
import json, pathlib, sysconfig
found = pathlib.Path(sysconfig.get_path("purelib")).glob("*_data/data.bin")
print(json.dumps({path.parent.name: path.stat().st_size for path in found}))
"""
MARK = "open('mark', 'w').close()\n"


def test_a_run_imports_nothing_that_it_needs_not(project: Project, tmp_path: Path) -> None:
    """What takes milliseconds of every run, and is for other commands or for what goes wrong, is not imported."""
    small = Project(folder=tmp_path / "small", store=project.store, environ=project.environ)
    small.write("spec.yaml", "name: small\nos: debian-12\nrequirements: []\n")
    small.write("t.py", "print('done')\n")
    small.must("lock")
    for _ in range(2):  # the first runs since locking compare the lock with its spec
        small.must("run", "t.py")
    done = small("run", "t.py", PYTHONPROFILEIMPORTTIME="1")
    assert done.code == 0
    found = {line.rpartition("|")[2].strip() for line in done.err.splitlines() if line.startswith("import time:")}
    assert "envbuild.operations.run" in found
    dear = {"typer", "rich", "jinja2", "yaml", "envbuild.operations.check", "envbuild.operations.events"}
    if os.environ["ENVBUILD_ENGINE"] == "local":  # the Docker library imports these by itself
        dear |= {"asyncio", "dataclasses", "inspect", "packaging"}
    assert found & dear == set()


def test_a_program_is_passed_through(project: Project) -> None:
    """Arguments, exit code and both streams are the program's; envbuild adds one line to standard error."""
    project.write("t.py", "import json, sys\nprint(json.dumps(sys.argv))\nprint('bad', file=sys.stderr)\nsys.exit(7)\n")
    arguments = ["--epochs", "3", "-q", "--", "a b", "$(id)", "*", "", "ü"]
    done = project("run", "t.py", *arguments)
    assert (done.code, done.json) == (7, ["t.py", *arguments])
    error, note = done.err.splitlines()
    assert error == "bad"
    record = _record(project)
    assert note.startswith(f"envbuild: run {record['id'][:10]} recorded · guard ")
    done = project("run", "--quiet", "t.py")
    assert (done.code, done.json, done.err) == (7, ["t.py"], "bad\n")


def test_modules_commands_and_code(project: Project) -> None:
    """``-m``, ``-c`` and any program of the image run too, their arguments untouched, from a folder below as well."""
    assert project.must("run", "-q", "-m", "tool", "-q", "--help").json[1:] == ["-q", "--help"]
    assert project.must("run", "-q", "tool", "-x").json == ["/opt/env/bin/tool", "-x"]
    assert project.must("run", "-q", "-c", "import sys; print(sys.argv)", "-v").out == "['-c', '-v']\n"
    assert project.must("run", "-q", "--", "sh", "-c", "echo $0 $1", "a", "-b").out == "a -b\n"
    project.write("below/t.py", "import os; print(os.getcwd())\n")
    below = Project(folder=project.folder / "below", store=project.store, environ=project.environ)
    assert below.must("run", "-q", "t.py").out == "/workspace/below\n"
    assert project.must("run", "-q", "below/t.py").out == "/workspace\n"


def test_the_environment_is_as_locked(project: Project) -> None:
    """No network but the loopback, locked variables, one's own with ``-e``, and a network where one is asked for."""
    project.write(
        "t.py",
        "import json, os, socket\n"
        "print(json.dumps([sorted(n for _, n in socket.if_nameindex()), os.environ['PYTHONHASHSEED'],"
        " os.environ.get('MINE'), os.environ.get('PASSED'), os.environ.get('SECRET')]))\n",
    )
    done = project.must("run", "-e", "MINE=a b", "--env", "PASSED", "t.py", PASSED="on", SECRET="no")
    interfaces, seed, *others = done.json
    assert interfaces == ["lo"]
    assert (seed.isdecimal(), others) == (True, ["a b", "on", None])
    assert _record(project)["options"]["network"] == "none"
    project.must("run", "--network", "host", "t.py")
    assert _record(project)["options"]["network"] == "host"


def test_files_belong_to_the_caller(project: Project) -> None:
    """What the program writes belongs to who called, also behind sudo; the record belongs to them too."""
    project.folder.chmod(0o777)
    project.write("t.py", "import os\nos.makedirs('out')\nopen('out/file', 'w').write('x')\n")
    caller: dict[str, Any] = {"SUDO_UID": "12345", "SUDO_GID": "54321"} if os.geteuid() == 0 else {}
    expected = (12345, 54321) if caller else (os.getuid(), os.getgid())
    project.must("run", "t.py", **caller)
    for path in ("out", "out/file", ".envbuild/runs"):
        status = (project.folder / path).stat()
        assert (status.st_uid, status.st_gid) == expected, path


def test_the_program_reads_the_repository_and_cannot_write_it(project: Project) -> None:
    """Settings and hooks in ``.git`` would run on the host when git is called next; the commit can be read."""
    subprocess.run(["git", "init", "-q", "-b", "work", str(project.folder)], check=True)
    project.write(
        "t.py",
        "print(open('.git/HEAD').read().strip())\n"
        "for act in (lambda: open('.git/config', 'a'), lambda: open('.git/hooks/pre-commit', 'w'),\n"
        "            lambda: __import__('os').rename('.git', 'other')):\n"
        "    try:\n        act()\n        print('written')\n    except OSError as error:\n        print(error.errno)\n",
    )
    assert project.must("run", "-q", "t.py").out == "ref: refs/heads/work\n30\n30\n16\n"


def test_a_program_cannot_write_its_own_verdict_or_see_records(project: Project) -> None:
    """The verdict came over a pipe before the program was there. It has no capability but root's three for files."""
    project.write(
        "t.py",
        "import json, os\nprint(os.listdir('.envbuild'), 'verdict.pipe' in os.listdir('/run/envbuild'))\n"
        "status = dict(line.split(':\\t') for line in open('/proc/self/status') if ':\\t' in line)\n"
        "print(status['NoNewPrivs'].strip(), int(status['CapBnd'], 16) & ~0b1011)\n"
        "open('/run/envbuild/verdict.json', 'w').write(json.dumps({'ok': False}))\n"
        "try:\n    open('.envbuild/x', 'w')\nexcept OSError as error:\n    print(error.errno)\n",
    )
    caller: dict[str, Any] = {"SUDO_UID": "12345", "SUDO_GID": "54321"} if os.geteuid() == 0 else {}
    project.folder.chmod(0o777)
    for ids in ({}, caller):
        assert project.must("run", "-q", "t.py", **ids).out == "[] False\n1 0\n30\n"
        (newest, *_) = project.must("runs", "--json").json
        assert (newest["verified"], newest["verdict_source"]) == ("yes", "pipe")


def test_no_other_user_reads_what_a_run_reports(project: Project) -> None:
    """Arguments, parameters and printed lines of a run are its owner's to read, in every file that it leaves."""
    project.write("t.py", "print('a secret of a form that no pattern knows')\n")
    project.must("run", "-q", "t.py", "--key", "hunter2")
    (run,) = (project.folder / ".envbuild/runs").iterdir()
    files = [path for path in run.rglob("*") if path.is_file()]
    assert {"record.json", "stdout"} < {path.name for path in files}
    for path in files:
        ways = [path, *(each for each in path.parents if each.is_relative_to(run))]
        assert any(not way.stat().st_mode & 0o077 for way in ways), path


def test_every_run_is_recorded(project: Project) -> None:
    """A record states what ran and its result; ``runs`` lists it, ``show`` prints it, an equal run is recognised."""
    project.write("t.py", "import random\nopen('o', 'w').write(str(random.random()))\n")
    project.must("run", "t.py")
    (first,) = project.must("runs", "--json").json
    assert (first["state"], first["exit_code"], first["command"]) == ("finished", 0, ["python", "t.py"])
    assert [(output["path"], output["change"]) for output in first["outputs"]] == [("o", "created")]
    assert first["verdict"]["ok"] is True
    assert first["script"]["path"] == "t.py"
    identity = json.loads((project.folder / "pylock.clitest.image.json").read_bytes())
    assert first["image"] == identity["config"]
    (project.folder / "o").unlink()
    done = project.must("run", "t.py")
    assert f"same bits as run {first['id'][:10]}" in done.err
    newest = _record(project)
    assert newest["same_bits_as"] == first["id"]
    _, *lines = project.must("runs").out.splitlines()
    assert [line[:10] for line in lines] == [newest["id"][:10], first["id"][:10]]
    assert f"  ok      same as {first['id'][:10]}  python " in lines[0]
    assert project.must("show", first["id"].lower(), "--json").json == first
    assert project("show", "0").code == 2


def test_controls_and_what_they_do(project: Project) -> None:
    """Unseeded random numbers repeat with envbuild's controls, and do not with ``--no-controls``."""
    project.write("t.py", "import random; print(random.random())\n")
    assert project.must("run", "t.py").out == project.must("run", "t.py").out
    assert project.must("run", "--no-controls", "t.py").out != project.must("run", "--no-controls", "t.py").out
    assert _record(project)["options"]["controls"] is False


def test_a_locked_variable_is_not_changed(project: Project) -> None:
    """Exit 78 before any line of the program: the table names the variable, what is locked and what was found."""
    project.write("t.py", MARK)
    done = project("run", "-e", "PYTHONHASHSEED=123", "t.py")
    assert (done.code, done.out) == (78, "")
    row = next(line for line in done.err.splitlines() if "PYTHONHASHSEED" in line)
    assert "123" in row
    assert _untouched(project)
    record = _record(project)
    assert (record["state"], record["exit_code"], record["verdict"]["ok"]) == ("refused", 78, False)


def test_a_kernel_that_does_not_match(project: Project) -> None:
    """``hardware.kernel`` out of range: exit 78 with a table, the same as a JSON verdict; ``check`` states the same."""
    _relock(project, "hardware: {kernel: '>=99'}\n")
    project.write("t.py", MARK)
    done = project("run", "t.py")
    assert (done.code, done.out) == (78, "")
    row = next(line for line in done.err.splitlines() if "kernel" in line)
    assert "≥ 99" in row
    assert os.uname().release.split("-")[0] in row
    assert _untouched(project)
    record = _record(project)
    (failed,) = [check for check in record["verdict"]["checks"] if not check["ok"]]
    assert (failed["field"], failed["locked"], failed["severity"]) == ("kernel", "≥ 99", "hard")
    (verdict,) = project.folder.glob(".envbuild/runs/*/process/verdict.json")
    assert json.loads(verdict.read_bytes()) == record["verdict"]
    checked = project("check")
    assert (checked.code, checked.out) == (78, "")
    assert next(line for line in checked.err.splitlines() if "kernel" in line) == row
    as_json = project("check", "--json")
    assert as_json.code == 78
    assert [check["field"] for check in as_json.json["checks"] if not check["ok"]] == ["kernel"]


def test_changed_input_data_is_refused(project: Project) -> None:
    """Declared data is read-only in the run; once it has changed, exit 78 names it and nothing runs."""
    project.write("data/train.csv", "1,2\n")
    _relock(project, "inputs: [data]\n")
    project.write("t.py", MARK + "print(open('data/train.csv').read(), end='')\nopen('data/train.csv', 'w')\n")
    done = project("run", "t.py")
    assert (done.code, done.out) == (1, "1,2\n")
    assert "Read-only file system: 'data/train.csv'" in done.err
    (project.folder / "mark").unlink()
    project.write("data/train.csv", "1,3\n")
    done = project("run", "t.py")
    assert (done.code, done.out) == (78, "")
    assert done.err == (
        "envbuild: input data is not as pylock.clitest.toml locked it — nothing was run\n"
        "  data: 1 file changed\n"
        "    changed  train.csv\n"
        "  → restore the data, or accept it: envbuild lock --update-inputs\n"
    )
    assert _untouched(project)


def test_check_of_a_good_host(project: Project) -> None:
    """``check`` compares this host with the lock: exit 0, a table or JSON, and no engine is asked."""
    done = project.must("check", DOCKER_HOST="unix:///nowhere")
    assert "kernel" in done.out
    assert done.err == ""
    assert project.must("check", "--quiet").out == ""
    assert project.must("check", "--json").json["ok"] is True


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["-e", "A B=1", "-c", "1"], "A B"),
        (["--mount", "nowhere:/data", "-c", "1"], "nowhere"),
        (["--memory", "lots", "-c", "1"], "lots"),
        (["--network", "a;b", "-c", "1"], "a;b"),
        (["../outside.py"], "outside"),
    ],
)
def test_options_that_cannot_be_meant(project: Project, arguments: list[str], reported: str) -> None:
    """Exit 2 names the word; nothing was run and nothing recorded."""
    (project.folder.parent / "outside.py").write_text("")
    extra = ["--lock", "pylock.clitest.toml"] if "outside" in reported else []
    done = project("run", *extra, *arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert reported in done.err
    assert project.must("runs", "--json").json == []


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 9), ("SIGINT", 9)])
def test_signals_reach_the_program(project: Project, name: str, code: int) -> None:
    """A signal to envbuild is the program's to handle; output comes line by line, and the exit code counts."""
    project.write(
        "t.py",
        "import signal, sys, time\n"
        f"signal.signal(signal.{name}, lambda *_: sys.exit(9))\n"
        "print('ready')\nwhile True:\n    time.sleep(0.05)\n",  # no long sleep, see below
    )
    process = project.start("run", "t.py")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(getattr(signal, name))
    done = finish(process, DEADLINE)
    assert done.code == code
    assert _record(project)["exit_code"] == code


def test_a_signal_to_every_process_is_the_programs_end(project: Project) -> None:
    """A launcher that ends a job signals all its processes, envbuild's own too: the program's end is what is told."""
    project.write("t.py", "import time\nprint('ready')\ntime.sleep(600)\n")
    process = project.start("run", "t.py")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    for number in [*_below(process.pid), process.pid]:  # the program, where it is among them, hears it from envbuild
        with suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended, as git does
            if number == process.pid or b"t.py" not in Path(f"/proc/{number}/cmdline").read_bytes():
                os.kill(number, signal.SIGTERM)
    assert finish(process, DEADLINE).code == 128 + signal.SIGTERM
    assert _record(project)["exit_code"] == 128 + signal.SIGTERM


def _below(process: int) -> list[int]:
    """Return the processes that a process started, and theirs."""
    started: list[int] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread or a process that has just ended
            started += map(int, file.read_text().split())
    return [*started, *(number for each in started for number in _below(each))]


@contextmanager
def _terminal(project: Project, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run envbuild with a separate terminal, as its foreground job."""
    master, slave = pty.openpty()

    def take() -> None:
        import fcntl
        import termios

        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "envbuild", "run", *arguments],
        cwd=project.folder,
        env=project.environ | {"TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=take,  # a controlling terminal can only be taken in the child
    )
    os.close(slave)
    try:
        yield process, master
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)


def _until(master: int, words: bytes) -> bytes:
    """Read a terminal until these words came."""
    seen, end = b"", time.monotonic() + DEADLINE
    while words not in seen:
        assert time.monotonic() < end, seen
        if select.select([master], [], [], 0.2)[0]:
            seen += os.read(master, 4096)
    return seen


def test_a_shell(project: Project) -> None:
    """``--shell`` opens a shell in the image, in the project's folder; its exit code is envbuild's."""
    with _terminal(project, "--shell") as (process, master):
        _until(master, b"$ ") if os.geteuid() else _until(master, b"# ")
        os.write(master, b"echo $((6*7)); pwd; python -c 'import tool; print(tool.__file__)'\r")
        seen = _until(master, b"tool.py\r\n")
        assert b"42\r\n/workspace\r\n/opt/env/lib/python3.11/site-packages/tool.py" in seen
        os.write(master, b"exit 5\r")
        assert process.wait(DEADLINE) == 5


def test_control_c_at_a_terminal(project: Project) -> None:
    """Ctrl-C is the program's: Python's own answer to it, a traceback and exit 130, comes through, and is recorded."""
    # A signal between Python's last look for one and the system call of a long sleep waits for the sleep's end: once in
    # 5,359 attempts with plain Python at a terminal, without envbuild.
    project.write("t.py", "import time\nprint('ready')\nwhile True:\n    time.sleep(0.05)\n")
    with _terminal(project, "t.py") as (process, master):
        _until(master, b"ready\r\n")
        os.write(master, b"\x03")
        _until(master, b"KeyboardInterrupt")
        assert process.wait(DEADLINE) == 130
    record = _record(project)
    assert (record["exit_code"], record["options"]["tty"]) == (130, True)


def test_a_run_without_its_lock(project: Project, tmp_path: Path) -> None:
    """Exit 11: a folder without a lock states how to get one."""
    empty = Project(folder=tmp_path / "empty", store=project.store, environ=project.environ)
    empty.write("t.py", "")
    done: Done = empty("run", "t.py")
    assert (done.code, done.out) == (11, "")
    assert done.err == (
        f"envbuild: no lock (pylock.NAME.toml) in {empty.folder} or any folder above it\n"
        "  → write a spec, then lock it: envbuild init\n"
    )


_ZONES = """\
import datetime, json, ssl, subprocess, zoneinfo
paths = ssl.get_default_verify_paths()
root = "/usr/share/ca-certificates/mozilla/ISRG_Root_X1.crt"
print(json.dumps({
    "offset": [datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo(zone)).utcoffset().total_seconds() / 3600
               for zone in ("Europe/Berlin", "US/Eastern")],
    "authorities": ssl.create_default_context().cert_store_stats()["x509_ca"] > 100,
    "verified": subprocess.run(["openssl", "verify", root], capture_output=True).returncode,
    "folder": paths.capath,
}))
"""


def test_time_zones_and_certificates_are_there(project: Project) -> None:
    """``zoneinfo`` knows zones, old names too, and ``ssl`` knows authorities, with no word in the spec."""
    project.write("t.py", _ZONES)
    assert project.must("run", "t.py").json == {
        "offset": [2.0, -4.0],
        "authorities": True,
        "verified": 0,
        "folder": "/usr/lib/ssl/certs",
    }


def test_an_image_with_one_layer_twice(project: Project) -> None:
    """Wheels of two sizes without modules (pyqt6 and its libraries) have two layers of bytecode, both empty."""
    sizes = {"one_data": (1 << 20) + 100_000, "two_data": (4 << 20) + 100_000}
    for name, size in sizes.items():
        make_wheel(project.folder / "wheels", name, files={f"{name}/data.bin": random.Random(size).randbytes(size)})
    spec = (project.folder / "spec.yaml").read_text()
    (project.folder / "spec.yaml").write_text(spec.replace("requirements: [", "requirements: [one-data, two-data, "))
    project.must("lock")
    layers = project.must("build", "--json").json["layers"]
    assert len(layers) == len(set(layers)) + 1
    project.write("sizes.py", _SIZES)
    assert project.must("run", "sizes.py").json == sizes
