"""The local engine as an ordinary user has it, and what it keeps a program from."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from envbuild.engine.local import self_check
from envbuild.engine.local.helper import starter
from envbuild.engine.local.ways import Way
from envbuild.lockfile.model import load
from tests.integration.test_namespaces import AS_NOBODY, NOBODY, OUTER, PYTHON
from tests.support.cli import ROOT, Done, Project, finish, until

pytestmark = [pytest.mark.network]

LOOK = """\
import ctypes, json, os, socket
def tried(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return error.errno
    return 0
def errno_of(number):
    ctypes.CDLL(None, use_errno=True).syscall(number, 0, 0, 0)
    return ctypes.get_errno()
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
    "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM).close()),
    "rename": tried(socket.sethostname, "other"),
    "newest": errno_of(1000),
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
        yield handed_over(made, Path(name))


def handed_over(made: Project, folder: Path) -> Project:
    """Copy the shared project into a folder for another user, with a store that holds its files only."""
    project = made.copy(folder, own_store=True)
    shutil.rmtree(project.store / "derived")
    shutil.rmtree(project.store / "leases", ignore_errors=True)
    folder.chmod(0o755)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(folder)], check=True)
    return project


STACKED = """\
set -e
store=$1 depth=$2 rest=$3
shift 3
below=$store
while [ "$depth" -gt 0 ]; do
    mkdir -p "$rest/upper$depth" "$rest/work$depth" "$rest/place$depth"
    chown --reference="$store" "$rest/upper$depth"
    layers="lowerdir=$below,upperdir=$rest/upper$depth,workdir=$rest/work$depth"
    mount -t overlay overlay -o "$layers" "$rest/place$depth"
    below=$rest/place$depth depth=$((depth - 1))
done
mount --bind "$below" "$store"
exec "$@"
"""
"""Puts a store on an overlay, which can be no overlay's upper layer, or on an overlay of one, which can be no lower."""
BARRED = """\
import ctypes, os, struct, sys
number = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x45, 0, 1, 1 << 28)]
code += [(6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
text = b"".join(struct.pack("=HBBI", *each) for each in code)
kept = ctypes.create_string_buffer(text, len(text))
assert ctypes.CDLL(None).prctl(22, 2, struct.pack("@HP", len(code), ctypes.addressof(kept)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Refuses unshare(CLONE_NEWUSER), which envbuild calls; bubblewrap calls clone, and is let through."""
OUTSIDE = """\
import json, os
def tried(path):
    try:
        open(path, "w").write("left")
    except OSError as error:
        return error.errno
    return 0
open("out.txt", "w").write("hello")
print(json.dumps({path: tried(path) for path in (
    "/etc/left", "/left", "/usr/local/left", "/usr/lib/left", "/usr/lib/x86_64-linux-gnu/place/left",
    "/var/tmp/left")}))
"""


def stacked(project: Project, depth: int) -> tuple[str, ...]:
    """The command that runs another one with the project's store on so many overlays."""
    rest = project.folder.parent / f"rest{depth}"
    return ("unshare", "--mount", "sh", "-c", STACKED, "sh", str(project.store), str(depth), str(rest))


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
def test_modules_are_compiled_in_the_layer_that_is_there(
    who: str, theirs: Project, made: Project, tmp_path: Path
) -> None:
    """Once the OS layer is made, its own interpreter compiles: to the same bytes, and no package is unpacked again."""
    project = theirs if who == "nobody" else made.copy(tmp_path, own_store=True)
    run = partial(as_nobody, project) if who == "nobody" else partial(project, ENVBUILD_ENGINE="local")
    assert run("build", "--offline").code == 0
    record = project.folder / "pylock.clitest.image.json"
    before = record.read_bytes()
    derived, bottom = project.store / "derived", json.loads(before)["layers"][0]
    for kind in ("bytecode", "compiled", "images"):
        shutil.rmtree(derived / kind, ignore_errors=True)
    for tree in (derived / "trees").iterdir():
        if tree.name != bottom:
            shutil.rmtree(tree)
    for layer in (derived / "layers").iterdir():
        if json.loads((layer / "layer.json").read_bytes())["diff_id"] != bottom:
            shutil.rmtree(layer)
    packages = [each for each in load(project.folder / "pylock.clitest.toml").os.packages if "python3" in each.name]
    kept = {project.store / "sha256" / each.sha256[:2] / each.sha256[2:]: each.size for each in packages}
    try:
        for path, size in kept.items():  # of the same size, since a build looks no closer at what it needs not open
            path.rename(path.with_suffix(".kept"))
            path.write_bytes(bytes(size))
        done = run("build", "--offline")
        assert done.code == 0, done.err
        assert "reproduces the recorded digest" in done.out
    finally:
        for path in kept:
            path.with_suffix(".kept").replace(path)
    assert record.read_bytes() == before
    assert list((derived / "steps").iterdir()) == []
    assert run("store", "verify").code == 0


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
    assert (found["name"], found["unshare"], found["vsock"], found["rename"]) == ("envbuild", 1, 1, 1)
    assert found["newest"] == 38


def test_nothing_that_others_can_write_becomes_code(tmp_path: Path) -> None:
    """The process that starts programs takes no module from its folder, from variables or from the user's packages."""
    planted = {"_signal", "_socket", "ctypes", "errno", "fcntl", "resource", "select", "struct", "warnings"}
    planted |= {"envbuild", "sitecustomize", "usercustomize", "encodings", "start"}
    for name in planted:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    place = str(tmp_path)
    environ = {f"PYTHON{name}": place for name in ("PATH", "HOME", "USERBASE", "PYCACHEPREFIX", "PLATLIBDIR")}
    environ |= {"PYTHONSTARTUP": f"{place}/start.py", "HOME": place, "PYTHONINSPECT": "1", "PYTHONVERBOSE": "1"}
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = starter((), theirs.fileno())
        with subprocess.Popen(
            command, env=environ, cwd=tmp_path, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        ) as process:
            theirs.close()
            ours.shutdown(socket.SHUT_WR)  # there is no request, for which it ends once everything is imported
            errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (1, b"")
    assert not (tmp_path / "ran").exists()


WATCHED = """\
import os, sys
log = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def watch(event, arguments):
    if event == "import" and not sys.meta_path:
        os.write(log, f"import {{arguments[0]}}\\n".encode())
    if event == "os.exec":
        os.get_exec_path({{"PATH": "/bin"}})  # as for a command without a slash
        os.write(log, f"start, modules can come from {{sys.meta_path}}\\n".encode())
sys.addaudithook(watch)
"""


@needs_root
def test_no_file_of_an_image_becomes_a_module_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the root has changed, nothing is imported any more: the paths of our modules are then the image's."""

    def watched(prefix: Sequence[str], descriptor: int) -> list[str]:
        command = starter(prefix, descriptor)
        at = command.index("-c") + 1
        command[at] = WATCHED.format(path=str(tmp_path / "log")) + command[at]
        return command

    monkeypatch.setattr(self_check, "starter", watched)
    found = self_check.find_way(tmp_path / "scratch", tmp_path, "")
    assert isinstance(found, Way), found
    assert (tmp_path / "log").read_text().splitlines()[-1:] == ["start, modules can come from []"]
    assert "import" not in (tmp_path / "log").read_text()


@needs_root
def test_a_stores_path_with_an_overlays_separators(tmp_path: Path) -> None:
    """A comma, a colon and a backslash are no reason to leave the store: options name open folders."""
    plain, odd = (self_check.find_way(tmp_path / name / "runs", tmp_path, "") for name in ("plain", "a:b,c\\d"))
    assert isinstance(plain, Way)
    assert isinstance(odd, Way)
    assert (odd.root, odd.why) == (plain.root, plain.why)


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
def test_stores_on_file_systems_that_are_mounted_with_less(made: Project, tmp_path: Path) -> None:
    """No privileges, no devices, as homes and clusters' disks often are: the same image. No programs: the reason.

    In a user namespace nobody may take such a restriction away, so that build steps have to keep it.
    """
    folder = tmp_path / "disk"
    folder.mkdir()
    project = made.copy(folder, own_store=True)
    shutil.rmtree(project.store / "derived")
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,nosuid,nodev,noatime", str(folder)], check=True)
        project.write("t.py", "print('here')\n")
        project.must("build", "--offline", ENVBUILD_ENGINE="local")
        assert project.must("run", "t.py", ENVBUILD_ENGINE="local").out == "here\n"
        subprocess.run(["mount", "-o", "remount,bind,noexec", str(folder)], check=True)
        shutil.rmtree(project.store / "derived")
        done = project("build", "--offline", ENVBUILD_ENGINE="local")
        assert (done.code, done.err.splitlines()[0]) == (
            15,
            "envbuild: cannot start programs in the store's folder, which is mounted noexec",
        )
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


IN_GROUP = """\
import sys
from envbuild.engine.local.limits import Group
own = Group.doors
Group.doors = lambda group: [*own(group), {folder!r} + "/run/cgroup.procs"]
open({folder!r} + "/caller/cgroup.procs", "w").write("0")
from envbuild.cli import entry
sys.argv = ["envbuild", *sys.argv[4:]]  # without: python -m envbuild
entry()
"""


@pytest.fixture(name="delegating")
def _delegating(tmp_path: Path) -> Iterator[Path]:
    """A group of version 2 with two in it, mounted as systemd mounts it: a namespace of groups is then a border."""

    def mounted() -> tuple[str, list[str]]:
        lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        return next((place, options.split(",")) for _, place, kind, options, *_ in lines if kind == "cgroup2")

    place, options = mounted()
    remount = ["mount", "--options-mode", "ignore", "-o"]
    subprocess.run([*remount, "remount,nsdelegate", place], check=True)
    group = Path(place) / f"test-{os.getpid()}-{tmp_path.name}"
    for folder in (group, group / "caller", group / "run"):
        folder.mkdir()
    try:
        assert "nsdelegate" in mounted()[1]
        yield group
    finally:
        for folder in (group / "caller", group / "run", group):
            folder.rmdir()
        if "nsdelegate" not in options:
            subprocess.run([*remount, "remount", place], check=True)


@needs_root
def test_control_groups_as_systemd_has_them(made: Project, tmp_path: Path, delegating: Path) -> None:
    """A run enters its group, and sees nothing of the groups above, where namespaces of groups are borders.

    systemd starts each session in a group of its own: no envbuild is in the topmost one, as it is on machines of CI.
    """
    project = made.copy(tmp_path)
    project.must("build", ENVBUILD_ENGINE="local")
    project.write("t.py", "import sys\nprint(open('/proc/self/cgroup').read())\nsys.stdin.read()\n")
    driver = IN_GROUP.format(folder=str(delegating))
    done = project("run", "t.py", prefix=(sys.executable, "-c", driver), ENVBUILD_ENGINE="local")
    assert done.code == 0, done.err
    assert "0::/" in done.out.split()
    assert {line.rpartition(":")[2] for line in done.out.split()} == {"/"}


@needs_root
def test_where_namespaces_are_forbidden(theirs: Project) -> None:
    """The reason and the administrator's line come before anything is fetched or built."""
    prefix = ("python3", "-c", OUTER, "70000", "0")
    done = as_nobody(theirs, "run", "t.py", prefix=prefix)
    assert done.code == 15
    assert done.err.startswith(
        "envbuild: the local engine does not work here: the kernel does not let this user make a user namespace: "
    )


def test_a_launcher_that_ignores_its_children(made: Project, tmp_path: Path) -> None:
    """Some launchers leave SIGCHLD ignored to what they start: the kernel then keeps no status of a process's end."""
    ignoring = (
        "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nos.execvp(sys.argv[1], sys.argv[1:])"
    )
    project = made.copy(tmp_path)
    project.write("t.py", "print('here')\nraise SystemExit(7)\n")
    done = project("run", "t.py", prefix=(sys.executable, "-c", ignoring), ENVBUILD_ENGINE="local")
    assert (done.code, done.out) == (7, "here\n"), done.err


BLOCKING = """\
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
os.umask(0o777)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("command", ["run", "build"])
def test_a_launcher_that_blocks_signals(command: str, made: Project, tmp_path: Path) -> None:
    """A thread that blocks signals hands that on: runs hung for ever, since no end of a child was heard of.

    Nor does the program see it, or anything of the launcher's umask.
    """
    project = made.copy(tmp_path, own_store=command == "build")
    project.write("t.py", "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n")
    words = ("run", "-q", "t.py")
    if command == "build":
        shutil.rmtree(project.store / "derived")
        words = ("build", "--offline")
    prefix = (sys.executable, "-c", BLOCKING)
    done = finish(project.start(*words, prefix=prefix, ENVBUILD_ENGINE="local"), timeout=120)
    assert done.code == 0, done.err
    if command == "run":
        assert done.out == "set()\n"


@needs_root
@pytest.mark.parametrize("lacks", ["-chown,-fowner", "-mknod,-net_raw,-kill,-sys_chroot,-audit_write"])
def test_root_that_lacks_capabilities(lacks: str, made: Project, tmp_path: Path) -> None:
    """As in a container that has ``CAP_SYS_ADMIN`` and others less: the program has fewer, and starts."""
    project = made.copy(tmp_path, own_store=True)
    project.write("t.py", "print([line.split()[1] for line in open('/proc/self/status') if 'CapEff' in line])\n")
    prefix = ("setpriv", "--bounding-set", lacks, "--inh-caps", "-all")
    done = project("run", "-q", "t.py", prefix=prefix, ENVBUILD_ENGINE="local")
    assert done.code == 0, done.err
    assert int(eval(done.out)[0], 16) & (1 << {"-chown": 0, "-mknod": 27}[lacks.partition(",")[0]]) == 0


@needs_root
@pytest.mark.parametrize("lacks", ["-chown", "-setuid,-setgid", "-all,+sys_admin"])
def test_root_that_lacks_capabilities_builds(lacks: str, made: Project, tmp_path: Path) -> None:
    """Who may give no file away, or map no identities, makes the same image; owners are noted where it must be."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived")
    prefix = ("setpriv", "--bounding-set", lacks, "--inh-caps", "-all")
    built = project.must("build", "--offline", prefix=prefix, ENVBUILD_ENGINE="local")
    assert "reproduces the recorded digest" in built.out


def test_an_upgrade_while_a_verification_waits(made: Project, tmp_path: Path) -> None:
    """What it imports after its runs is loaded by then: minutes are not lost to an ``ImportError``."""
    project, own = made.copy(tmp_path), tmp_path / "own"
    shutil.copytree(ROOT / "envbuild", own / "envbuild")
    project.write("t.py", "import time; print(time.sleep(4))\n")
    running = project.start("verify", "t.py", ENVBUILD_ENGINE="local", PYTHONPATH=str(own), PYTHONDONTWRITEBYTECODE="1")
    until(lambda: list(project.folder.glob(".envbuild/runs/*/record.json")) or running.poll() is not None)
    time.sleep(3)
    for name in ("cli", "difference", "operations", "record", "trace", "verification"):
        shutil.rmtree(own / "envbuild" / name)
    done = finish(running, timeout=120)
    assert done.code == 0, done.err
    assert "bit-identical 3/3" in done.out


def test_an_upgrade_while_a_program_runs(made: Project, tmp_path: Path) -> None:
    """The end of a run looks at the image's files and says what a failed program lacks; both are loaded by then."""
    project, own = made.copy(tmp_path), tmp_path / "own"
    shutil.copytree(ROOT / "envbuild", own / "envbuild")
    wait = "while not os.path.exists('go'): time.sleep(0.1)"
    project.write("t.py", f"import os, time\nprint(1, flush=True)\n{wait}\nimport lacking_module\n")
    running = project.start("run", "t.py", ENVBUILD_ENGINE="local", PYTHONPATH=str(own), PYTHONDONTWRITEBYTECODE="1")
    until(lambda: list(project.folder.glob(".envbuild/runs/*/record.json")) or running.poll() is not None)
    time.sleep(3)
    shutil.rmtree(own)
    project.write("go", "")
    done = finish(running, timeout=120)
    assert done.code == 1, done.err
    assert "recorded" in done.err
    assert "no module named lacking_module in the image" in done.err


def test_root_who_is_alone_in_its_namespace(made: Project, tmp_path: Path) -> None:
    """As Charliecloud, enroot and ``unshare -r`` have it: owners are noted, the digest is the recorded one."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived")
    prefix = ("unshare", "--map-root-user")
    built = project.must("build", "--offline", prefix=prefix, ENVBUILD_ENGINE="local")
    assert "reproduces the recorded digest" in built.out
    assert project.must("run", "-q", "-c", "print(1)", prefix=prefix, ENVBUILD_ENGINE="local").out == "1\n"
    assert project.must("store", "verify", "--json", prefix=prefix).json["damaged"] == []
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    group = project.must("run", "-q", "-c", "import os; print(os.stat('/var/mail').st_gid)", ENVBUILD_ENGINE="local")
    assert group.out == "8\n", "root itself makes layers anew that have no owners"


FORBIDDING = """\
import ctypes, os, struct, sys
table = {"unshare": (272, 97), "utimensat": (280, 88), "ioctl": (16, 29)}
number = table[sys.argv.pop(1)][("x86_64", "aarch64").index(os.uname().machine)]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
text = b"".join(struct.pack("=HBBI", *each) for each in code)
kept = ctypes.create_string_buffer(text, len(text))
assert ctypes.CDLL(None).prctl(22, 2, struct.pack("@HP", len(code), ctypes.addressof(kept)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Refuses one call altogether, as engines' filters refuse unshare(2) in containers."""


@needs_root
def test_a_refusal_is_not_remembered(made: Project, tmp_path: Path) -> None:
    """A container's filter shows nowhere, and its store may be used on the machine too, where nothing is forbidden."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived/self-checks", ignore_errors=True)
    words = ("run", "-q", "-c", "print(1)")
    done = project(*words, prefix=(sys.executable, "-c", FORBIDDING, "unshare"), ENVBUILD_ENGINE="local")
    assert done.code == 15
    assert "the kernel does not let this user make namespaces: Operation not permitted" in done.err
    assert project.must(*words, ENVBUILD_ENGINE="local").out == "1\n"


@needs_root
@pytest.mark.parametrize(("call", "said"), [("utimensat", "cannot use"), ("ioctl", "refuses a call that envbuild")])
def test_a_filter_that_forbids_what_is_needed(call: str, said: str, made: Project, tmp_path: Path) -> None:
    """A sentence says that it is a filter's doing; what needs the call for nothing but hints does without."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived")
    prefix = (sys.executable, "-c", FORBIDDING, call)
    done = project("build", "--offline", prefix=prefix, ENVBUILD_ENGINE="local")
    assert done.code in (14, 15), done.err
    assert said in done.err
    assert "a filter of system calls (seccomp) is around it" in done.err
    if call == "utimensat":
        project.must("lock", prefix=prefix)


@needs_root
@pytest.mark.parametrize("command", [("verify", "-n", "2", "t.py"), ("build",)])
def test_an_image_whose_files_somebody_changed(command: tuple[str, ...], made: Project, tmp_path: Path) -> None:
    """``verify`` proves nothing of other files than the image's: the layer is made again, as by ``build``."""
    project = made.copy(tmp_path, own_store=True)
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    project.write("t.py", "import bisect\nprint(bisect.bisect([1, 2], 1))\n")
    for file in (project.store / "derived/trees").glob("*/tree/usr/lib/python3.*/bisect.py"):
        known = file.stat()
        text = file.read_text()
        assert "lo = mid + 1" in text
        file.write_text(text.replace("lo = mid + 1", "lo = mid + 2"))
        os.utime(file, ns=(known.st_atime_ns, known.st_mtime_ns))
    done = project.must(*command, ENVBUILD_ENGINE="local")
    assert "in the store was changed after it was made; it is made again" in done.out + done.err
    again = project.must(*command, ENVBUILD_ENGINE="local")
    assert "was changed" not in again.out + again.err
    project.must("store", "verify")


@needs_root
def test_a_run_of_an_image_whose_files_somebody_changed(made: Project, tmp_path: Path) -> None:
    """Its record and exit code say so, whether that was before or while the program ran; nothing is said needlessly."""
    project = made.copy(tmp_path, own_store=True)
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    project.write("t.py", "import time\nprint(1, flush=True)\ntime.sleep(0.6)\n")
    assert project.must("run", "t.py", ENVBUILD_ENGINE="local").out == "1\n"
    assert _layers(project) == ("unchanged", "yes")
    (file,) = (project.store / "derived/trees").glob("*/tree/usr/lib/python3.*/bisect.py")
    file.write_text(f"{file.read_text()}# changed\n")
    done = project("run", "t.py", ENVBUILD_ENGINE="local")
    assert (done.code, done.out) == (13, "1\n")
    assert "files of the image were changed in the store" in done.err
    assert _layers(project) == ("changed", "no")
    assert project.must("run", "-c", "print(1)", ENVBUILD_ENGINE="local").out == "1\n"
    assert _layers(project) == ("not compared", "yes")
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    project.must("run", "t.py", ENVBUILD_ENGINE="local")
    assert _layers(project) == ("unchanged", "yes")


def _layers(project: Project) -> tuple[str, str]:
    record = json.loads(project.must("show", "--json").out)
    return record["layers"], record["verified"]


def test_an_image_whose_files_somebody_removed(made: Project, tmp_path: Path) -> None:
    """Nothing is made anew where a note says that all is there: the sentence names the command that looks."""
    project = made.copy(tmp_path, own_store=True)
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    for folder in (project.store / "derived/trees").glob("*/tree/usr/bin"):
        shutil.rmtree(folder)
    done = project("run", "-q", "-c", "print(1)", ENVBUILD_ENGINE="local")
    assert (done.code, "No such file or directory" in done.err) == (15, True)
    assert done.err.endswith("envbuild store verify\n")
    project("store", "verify")
    assert project.must("run", "-q", "-c", "print(1)", ENVBUILD_ENGINE="local").out == "1\n"


@needs_root
@pytest.mark.parametrize("program", ["bindfs", "mergerfs -o allow_other,use_ino"])
def test_a_store_on_fuse(program: str, made: Project, tmp_path: Path) -> None:
    """A file that is removed while it is open gets another name there: 100,000 times, before, and folders stayed.

    mergerfs does what it is asked for with the rights of who asks, and knows nothing of user namespaces.
    """
    if shutil.which(program.split()[0]) is None:
        pytest.skip("FUSE IS NOT TESTED HERE: scripts/ensure-image-tools.sh")
    project = made.copy(tmp_path / "below", own_store=True)
    shutil.rmtree(project.store / "derived/layers", ignore_errors=True)
    shutil.rmtree(project.store / "derived/trees", ignore_errors=True)
    place = tmp_path / "place"
    place.mkdir()
    subprocess.run([*program.split(), str(project.folder.parent), str(place)], check=True)
    try:
        there = project.copy(place / "p")
        variables = {"ENVBUILD_STORE": str(place / project.store.name), "ENVBUILD_ENGINE": "local"}
        there.must("build", "--offline", **variables)
        began = time.monotonic()
        assert there.must("run", "-q", "-c", "print(1)", **variables).out == "1\n"
        assert time.monotonic() - began < 60
        assert [path.name for path in (place / project.store.name / "derived/runs").iterdir()] == []
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@needs_root
@pytest.mark.parametrize("mounted", ["", "/dev", "/dev /proc"])
def test_a_root_that_somebody_made(mounted: str, made: Project, tmp_path: Path) -> None:
    """Without ``/dev`` or ``/proc`` a sentence says what to mount, and nothing is left; with both programs run."""
    project = made.copy(tmp_path, own_store=True)
    project.must("build", "--offline", ENVBUILD_ENGINE="local")
    root = tmp_path / "root"
    root.mkdir()
    steps = [f"mount --bind / {root}", *(f"mount --rbind {each} {root}{each}" for each in mounted.split())]
    script = " && ".join([*steps, f'exec chroot {root} sh -c \'cd "$0" && exec "$@"\' {project.folder} "$@"'])
    prefix = ("unshare", "--mount", "sh", "-c", script, "sh")
    done = project("run", "-q", "-c", "print(1)", prefix=prefix, ENVBUILD_ENGINE="local")
    assert list((project.store / "derived/runs").iterdir()) == []
    if "/proc" in mounted:
        assert (done.code, done.out) == (0, "1\n"), done.err
        return
    missing = "/proc/self/mountinfo" if mounted else "/dev/null"
    assert done.code == 15
    assert done.err.startswith(f"envbuild: the local engine does not work here: cannot use {missing}: No such file")
    assert "mount --rbind /dev ROOT/dev; mount -t proc proc ROOT/proc" in done.err


@pytest.mark.parametrize("most", [6, 14, 18, 20])
def test_a_limit_of_open_files_is_named(most: int, made: Project, tmp_path: Path) -> None:
    """At whichever place it is met, in envbuild or in the process that makes namespaces; enough is little."""
    project = made.copy(tmp_path)
    prefix = ("prlimit", f"--nofile={most}")
    done = project("run", "-q", "-c", "print(1)", prefix=prefix, ENVBUILD_ENGINE="local", PYTHONDONTWRITEBYTECODE="1")
    if done.code == 0 and most == 20:
        return
    assert (done.code in (14, 15), done.out) == (True, ""), done.err
    assert done.err == (
        f"envbuild: too many open files: the limit is {most}\n  → raise the limit, then rerun: ulimit -n 1024\n"
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


@needs_root
@pytest.mark.parametrize("who", ["root", "nobody"])
def test_where_the_store_cannot_be_below_an_overlay(who: str, theirs: Project, made: Project, tmp_path: Path) -> None:
    """The layers are linked into one folder: same bits; a user sees no difference, root cannot write to large folders.

    What is written outside the project is found all the same, and the store stays as it was.
    """
    project = theirs if who == "nobody" else made.copy(tmp_path)

    def call(*words: str, depth: int) -> Done:
        prefix = stacked(project, depth) if depth else ()
        if who == "nobody":
            return as_nobody(project, *words, prefix=prefix)
        return project(*words, prefix=prefix, ENVBUILD_ENGINE="local")

    data = project.folder.parent / "data"  # pytest's own folders are root's alone
    data.mkdir(mode=0o755)
    project.write("outside.py", f"import time\ntime.sleep(1)  # so that its layers are looked at afterwards\n{OUTSIDE}")
    run = ("run", "--mount", f"{data}:/usr/lib/x86_64-linux-gnu/place:ro", "outside.py")
    assert call("build", "--offline", depth=0).code == 0
    usual, linked = call(*run, depth=0), call(*run, depth=2)
    assert (usual.code, linked.code) == (0, 0), linked.err
    assert (
        "no overlay over this store (Invalid argument): the image's files are linked into one read-only" in linked.err
    )
    assert "note" not in usual.err
    before, found = json.loads(usual.out), json.loads(linked.out)
    assert found == (before if who == "nobody" else before | {"/usr/lib/left": 30})
    assert found["/usr/lib/x86_64-linux-gnu/place/left"] == 30
    records = json.loads(call("runs", "--json", depth=0).out)
    newest, older = (json.loads(call("show", "--json", each["id"], depth=0).out) for each in records[:2])
    assert (newest["engine"]["storage"], older["engine"]["storage"]) == ("linked", "overlay")
    assert newest["verdict"]["checks"] == older["verdict"]["checks"]
    assert (newest["layers"], older["layers"]) == ("unchanged", "unchanged")
    content = [[(each["path"], each["mode"], each["sha256"]) for each in one["outputs"]] for one in (newest, older)]
    assert content[0] == content[1]
    written = {path for path, error in found.items() if error == 0}
    assert {each["path"] for each in newest["outside"]} == written
    project.write("differs.py", "import os\nopen('/var/tmp/differs', 'wb').write(os.urandom(64))\n")
    assert call("verify", "-n", "2", "differs.py", depth=2).code == 16
    assert call("store", "verify", "--offline", depth=2).code == 0


@needs_root
def test_where_the_store_cannot_be_the_upper_layer(theirs: Project) -> None:
    """What programs write goes to another disk, and nothing stays there."""
    assert as_nobody(theirs, "build", "--offline").code == 0
    theirs.write("outside.py", OUTSIDE)
    done = as_nobody(theirs, "build", "--offline", prefix=stacked(theirs, 1))
    assert done.code == 0, done.err
    assert "no overlay in this store (Invalid argument): what programs write outside the project is in /" in done.out
    folder = Path(done.out.split(" is in ")[1].split()[0])
    done = as_nobody(theirs, "run", "outside.py", prefix=stacked(theirs, 1))
    assert (done.code, json.loads(done.out)["/var/tmp/left"]) == (0, 0), done.err
    assert "note" not in done.err
    assert list(folder.iterdir()) == []


CLOSED = """\
import os
def leave(top):
    os.makedirs(f"{top}/closed")
    for name in ("closed/never-seen", "a", "file", "z"):
        with open(f"{top}/{name}", "w") as file:
            file.write(str(os.urandom(8)) if name == "closed/never-seen" else name)
    os.chmod(f"{top}/closed", 0)
    os.chmod(f"{top}/file", 0)
leave("out")
leave("/var/tmp/out")
"""


@needs_root
def test_what_a_program_closes_is_named_and_hides_nothing_else(theirs: Project) -> None:
    """A user can list no folder of mode 0: such folders and files are named, and nobody calls them equal."""
    assert as_nobody(theirs, "build", "--offline").code == 0
    theirs.write("closed.py", CLOSED)
    try:
        done = as_nobody(theirs, "run", "closed.py")
        assert done.code == 0, done.err
        subprocess.run(["rm", "-rf", theirs.folder / "out"], check=True)
        again = as_nobody(theirs, "run", "closed.py")
        assert again.code == 0, again.err
        assert "same bits" not in again.err
        found = as_nobody(theirs, "diff")
        assert "not known: out/closed, out/file, /var/tmp/out/closed … could not be read in either run" in found.out
        newest = json.loads(as_nobody(theirs, "runs", "--json").out)[0]["id"]
        shown = json.loads(as_nobody(theirs, "show", "--json", newest).out)
        digests = {each["path"]: each["sha256"] for each in shown["outputs"]}
        assert [path for path, digest in digests.items() if digest is None] == ["out/closed", "out/file"]
        assert {"out/a", "out/z"} < digests.keys()
        outside = {each["path"]: each["sha256"] for each in shown["outside"]}
        assert list(outside) == [f"/var/tmp/out/{name}" for name in ("a", "closed", "file", "z")]
        assert [path for path, digest in outside.items() if digest is None] == [
            "/var/tmp/out/closed",
            "/var/tmp/out/file",
        ]
        assert shown["outside_left_out"] == [
            "/var/tmp/out/closed was not looked at: it could not be read",
            "/var/tmp/out/file was not looked at: it could not be read",
        ]
    finally:
        subprocess.run(["rm", "-rf", theirs.folder / "out"], check=True)
    done = as_nobody(theirs, "verify", "-n", "2", "closed.py")
    assert done.code == 0, done.err
    assert "not compared: out/closed, out/file could not be read; /var/tmp/out/closed was not" in done.out + done.err
    assert not (theirs.folder / "out").exists()
    assert not [*(theirs.folder / ".envbuild").glob("verify/*")]


@needs_root
def test_bubblewrap_makes_the_namespace_that_the_user_may_not(made: Project) -> None:
    """Package scripts, bytecode and program run with it alone: same digest, same isolation, exit code, signals."""
    with tempfile.TemporaryDirectory() as name:
        project = handed_over(made, Path(name))
        prefix = ("python3", "-c", BARRED)
        done = as_nobody(project, "build", "--offline", prefix=prefix)
        assert done.code == 0, done.err
        assert "reproduces the recorded digest" in done.out
        project.write("look.py", f"HOST = {[str(ROOT / 'pyproject.toml')]!r}\n{LOOK}")
        found = json.loads(as_nobody(project, "run", "--no-controls", "look.py", prefix=prefix).out)
        assert (found["user"], found["processes"], found["network"]) == ([int(NOBODY)] * 2, [1, 2], ["lo"])
        assert {value.strip("0") for key, value in found["rights"].items() if key.startswith("Cap")} == {""}
        assert (found["rights"]["NoNewPrivs"], found["rights"]["Seccomp"]) == ("1", "2")
        assert (found["write"]["/usr/x"], found["write"]["/tmp/x"], found["host"]) == (30, 0, [False])
        project.write("t.py", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
        assert as_nobody(project, "run", "t.py", prefix=prefix).code == 143
        assert list((project.store / "derived/runs").iterdir()) == []
        assert list((project.store / "derived/steps").iterdir()) == []
