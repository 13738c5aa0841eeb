"""The local engine as an ordinary user has it, and what it keeps a program from."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_namespaces import AS_NOBODY, NOBODY, OUTER, PYTHON
from tests.support.cli import ROOT, Done, Project

pytestmark = [pytest.mark.network]

LOOK = """\
import json, os, socket
def tried(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0
status = {line.partition(":")[0]: line.partition(":")[2].strip() for line in open("/proc/self/status")}
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "rights": {name: status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")},
    "write": {path: tried(lambda: open(path, "w").close()) for path in (
        "/usr/x", "/opt/env/x", "/etc/x", "/tmp/x", "/var/tmp/x", "/dev/shm/x", "/workspace/x",
        "/proc/sys/kernel/hostname", "/sys/x", os.path.expanduser("~/x"))},
    "processes": sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()),
    "network": sorted(name for _, name in socket.if_nameindex()),
    "host": [os.path.exists(path) for path in HOST],
    "devices": sorted(os.listdir("/dev")),
    "core": tried(lambda: open("/proc/kcore", "rb").read(1)) or len(open("/proc/kcore", "rb").read(1)),
    "name": socket.gethostname(),
    "unshare": tried(os.unshare, os.CLONE_NEWUSER) if hasattr(os, "unshare") else 1,
}))
"""


def as_nobody(project: Project, *words: str, prefix: tuple[str, ...] = (), **environ: str) -> Done:
    """Run envbuild as a user without rights, with the interpreter that such a user may start."""
    packages = sysconfig.get_paths()["purelib"]
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(project.folder.parent),
        "ENVBUILD_STORE": str(project.store),
        "ENVBUILD_ENGINE": "local",
        "PYTHONPATH": f"{ROOT}:{packages}",
        "PIP_NO_INDEX": "1",
        **environ,
    }
    command = [*prefix, *AS_NOBODY, PYTHON, "-B", "-m", "envbuild", *words]
    done = subprocess.run(command, cwd=project.folder, env=variables, capture_output=True, text=True, check=False)
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture(scope="module", name="theirs")
def _theirs(made: Project) -> Iterator[Project]:
    """The shared project in a folder of another user, with a store that has its files but nothing that was made."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = made.copy(folder, own_store=True)
        shutil.rmtree(project.store / "derived")
        shutil.rmtree(project.store / "leases", ignore_errors=True)
        folder.chmod(0o755)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", name], check=True)
        yield project


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")


@needs_root
def test_a_user_builds_runs_and_verifies(theirs: Project) -> None:
    """Nothing is installed, nothing is lent: the digest is the recorded one, the program runs as this user."""
    record = theirs.folder / "pylock.clitest.image.json"
    expected = record.read_bytes()
    built = as_nobody(theirs, "build", "--offline")
    assert built.code == 0, built.err
    assert "reproduces the recorded digest" in built.out
    assert record.read_bytes() == expected
    theirs.write("t.py", "open('out.txt', 'w').write('hello')\nprint('here')\n")
    ran = as_nobody(theirs, "run", "t.py")
    assert (ran.code, ran.out) == (0, "here\n"), ran.err
    assert (theirs.folder / "out.txt").stat().st_uid == int(NOBODY)
    verified = as_nobody(theirs, "verify", "-n", "2", "t.py")
    assert verified.code == 0, verified.err
    assert "result    bit-identical 2/2: 1 file, 1 line of standard output\n" in verified.out
    newest = json.loads(as_nobody(theirs, "runs", "--json").out)[0]
    assert (newest["engine"]["name"], newest["verified"]) == ("local", "yes")
    assert as_nobody(theirs, "store", "verify").code == 0
    assert list((theirs.store / "derived/runs").iterdir()) == []
    assert list((theirs.store / "derived/steps").iterdir()) == []


@needs_root
@pytest.mark.parametrize("who", ["root", "nobody"])
def test_a_program_is_shut_in(who: str, theirs: Project, made: Project, tmp_path: Path) -> None:
    """No rights, no network, no other process, nothing of the host; it writes where its user may, and nowhere else."""
    if who == "nobody":
        project = theirs
        assert as_nobody(project, "build", "--offline").code == 0
    else:
        project = made.copy(tmp_path)
        project.must("build", ENVBUILD_ENGINE="local")
    hidden = [str(ROOT / "pyproject.toml"), str(Path.home() / ".cache"), str(project.store)]
    project.write("look.py", f"HOST = {hidden!r}\n{LOOK}")
    run = ("run", "--no-controls", "look.py")
    done = as_nobody(project, *run) if who == "nobody" else project(*run, ENVBUILD_ENGINE="local")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    refused = 30 if who == "nobody" else 0  # EROFS; root's own layer takes it, and goes with the run
    kept = "0000000000000000" if who == "nobody" else "000000000000000b"  # CHOWN, DAC_OVERRIDE, FOWNER
    assert found["user"] == ([int(NOBODY)] * 2 if who == "nobody" else [os.getuid(), os.getgid()])
    assert found["rights"] == {
        "CapPrm": kept, "CapEff": kept, "CapBnd": kept, "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
    }  # fmt: skip
    writes = found["write"]
    assert {writes[path] for path in ("/usr/x", "/opt/env/x", "/etc/x")} == {refused}
    assert {writes[path] for path in ("/tmp/x", "/var/tmp/x", "/dev/shm/x", "/workspace/x", "/tmp/home/x")} == {0}
    assert writes["/proc/sys/kernel/hostname"] == 30
    assert writes["/sys/x"] in (1, 13, 30)
    assert found["processes"] == [1, 2]
    assert found["network"] == ["lo"]
    assert found["host"] == [False, False, False]
    assert not {"vda", "sda", "kmsg", "mem", "fuse", "kvm"} & set(found["devices"])
    assert found["core"] in (0, 2, 13)  # empty, not there, or closed
    assert (found["name"], found["unshare"]) == ("envbuild", 1)


@needs_root
def test_limits_that_cannot_be_had_are_refused(theirs: Project) -> None:
    """A user without a delegated control group is refused, and the message states it."""
    theirs.write("t.py", "print('ran')\n")
    assert as_nobody(theirs, "build", "--offline").code == 0
    done = as_nobody(theirs, "run", "--memory", "1g", "t.py")
    assert (done.code, done.out) == (15, "")
    assert done.err.startswith("envbuild: --memory cannot be had here: ")
    assert "systemd-run --user --scope -p Delegate=yes" in done.err


@needs_root
def test_where_namespaces_are_forbidden(theirs: Project) -> None:
    """The reason and the administrator's line come before anything is fetched or built."""
    prefix = ("python3", "-c", OUTER, "70000", "0")
    done = as_nobody(theirs, "run", "t.py", prefix=prefix)
    assert done.code == 15
    assert done.err.startswith(
        "envbuild: the local engine does not work here: the kernel does not let this user make a user namespace: "
    )


def test_links_in_an_image_lead_into_it(made: Project, tmp_path: Path) -> None:
    """A mount's place is looked up in the image: /var/run is a link to /run there, whatever it is on the host."""
    project = made.copy(tmp_path)
    project.must("build", ENVBUILD_ENGINE="local")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("mounted")
    project.write("t.py", "print(open('/run/place/file').read(), open('/var/run/place/file').read())\n")
    mount = f"{tmp_path / 'data'}:/var/run/place:ro"
    assert project.must("run", "--mount", mount, "t.py", ENVBUILD_ENGINE="local").out == "mounted mounted\n"
    assert not Path("/run/place").exists()
