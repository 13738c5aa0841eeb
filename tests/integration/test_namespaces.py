"""Build steps without a container engine: what the kernel's namespaces give is what Docker gives."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from envbuild.engine.docker.adapter import connect
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import Step, StepRunner, TreeStep
from envbuild.errors import BuildError, EngineError
from envbuild.image.os.normalise import normalise
from envbuild.image.tar.layer import Layer
from tests.support.cli import ROOT, Project
from tests.support.rootfs import PROGRAMS, write_rootfs

NOBODY = "65534"
AS_NOBODY = ("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups")
LENT = 'mount --bind "$0" /etc/subuid && mount --bind "$0" /etc/subgid && exec "$@"'
"""Lends identities in a mount namespace, so that the machine's own files stay as they are."""
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
"""An interpreter that another user may start; that of a virtual environment may be in root's home."""
ENVIRON = {"PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}", "PATH": "/bin"}
PING = "\x01\0\0\x02\0\x20" + 14 * "\0"
"""CAP_NET_RAW as an attribute of a file: struct vfs_cap_data of linux/capability.h, revision 2."""
PROGRAM = """\
import json, sys
from pathlib import Path
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import Step
from envbuild.errors import EnvbuildError
fields = json.loads(sys.argv[2])
step = Step(base=Path(fields.pop("base")), command=tuple(fields.pop("command")), **fields)
try:
    with NamespaceSteps(Path(sys.argv[1])).run_step(step) as stream:
        sys.stdout.buffer.write(stream.read())
except EnvbuildError as error:
    sys.exit(f"{error.message}\\n{error.hint}")
"""


TREE_PROGRAM = """\
import hashlib, json, os, shutil, sys
import msgspec
from pathlib import Path
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import TreeStep
scratch, base, shown, script = map(Path, sys.argv[1:])
def fill(output):
    with base.open("rb") as stream:
        shutil.copyfileobj(stream, output)
step = TreeStep(
    fill=fill, command=("/bin/sh", "-c", str(script)), environment={"PATH": "/bin"},
    files={"a.deb": shown}, folder="/tmp/shown",
)
moved = scratch.with_name(scratch.name + "-moved")
with NamespaceSteps(scratch).run_tree_step(step) as found:
    for entry in found.entries:
        if entry.path in ("dev", "proc"):
            continue
        fields = msgspec.structs.asdict(entry) | {"capability": entry.capability.hex()}
        if entry.kind == "file" and not entry.path.startswith("tmp/"):
            (found.root / entry.path).rename(moved)
            fields["content"] = hashlib.sha256(moved.read_bytes()).hexdigest()
            moved.unlink()
        print(json.dumps(fields, sort_keys=True))
"""


@pytest.fixture(scope="module", name="base")
def _base() -> Iterator[Path]:
    """A tiny root file system with owners, modes, links and attributes, in a folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "base.tar"
        _write_base(path)
        yield path


def _write_base(path: Path) -> None:
    write_rootfs(path, (*PROGRAMS, "chown", "chmod", "ln", "cp", "rm", "mv", "mkdir", "setpriv"))
    with tarfile.open(path, "a") as tar:
        for name, fields in {
            "etc/shadow": {"gid": 42, "mode": 0o640, "size": 3},
            "bin/su": {"mode": 0o4755, "size": 3, "pax_headers": {"SCHILY.xattr.security.capability": PING}},
            "etc/hard": {"type": tarfile.LNKTYPE, "linkname": "etc/shadow", "gid": 42, "mode": 0o640},
            "etc/soft": {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow", "mode": 0o777, "uid": 7, "gid": 8},
            "run/pipe": {"type": tarfile.FIFOTYPE},
            "etc/pipe": {"type": tarfile.FIFOTYPE, "uid": 1000},
        }.items():
            member = tarfile.TarInfo(name)
            for key, value in fields.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(b"abc") if member.isreg() else None)
    return path


def a_step(base: Path, script: str, result: str = "/") -> Step:
    """A shell script over the root file system."""
    command = ("/bin/sh", "-c", script)
    return Step(base=base, base_key=uuid.uuid4().hex, command=command, environment={"PATH": "/bin"}, result=result)


def layer_of(runner: StepRunner, step: Step, folder: Path) -> Layer:
    """The layer that a step's result makes."""
    with runner.run_step(step) as stream:
        return normalise(stream, folder / "layer.tar")


def as_nobody(scratch: Path, step: Step, *prefix: str) -> subprocess.CompletedProcess[bytes]:
    """Run a step as a user without rights, after a prefix."""
    scratch.mkdir(exist_ok=True)
    os.chown(scratch, int(NOBODY), int(NOBODY))
    fields: dict[str, Any] = {"base": str(step.base), "base_key": "x", "environment": dict(step.environment)}
    fields |= {"command": list(step.command), "result": step.result}
    command = [*prefix, *AS_NOBODY, PYTHON, "-B", "-c", PROGRAM, str(scratch), json.dumps(fields)]
    return subprocess.run(command, cwd="/", env=ENVIRON, capture_output=True)


SCRIPT = "cat /etc/shadow > /workspace/copy; touch /workspace/made; ls -l /proc/self/fd > /tmp/fds; id > /workspace/id"


@pytest.mark.engine
def test_the_result_is_dockers(base: Path, tmp_path: Path) -> None:
    """Owners, modes, links, attributes and what the command wrote: the same layer as Docker's, as root."""
    step, docker = a_step(base, SCRIPT), connect()
    try:
        expected = layer_of(docker, step, tmp_path)
    finally:
        with suppress(Exception):
            docker.remove_image(f"envbuild-step:{step.base_key}")
    assert layer_of(NamespaceSteps(tmp_path / "steps"), step, tmp_path) == expected
    assert list((tmp_path / "steps").iterdir()) == []


def test_a_user_with_lent_identities_makes_the_same(base: Path, tmp_path: Path) -> None:
    """Where /etc/subuid lends a user identities, that user's result is root's."""
    lent = base.with_name("lent")
    lent.write_text(f"nobody:100000:65536\n{NOBODY}:100000:65536\n")
    prefix = ("unshare", "--mount", "sh", "-c", LENT, str(lent))
    done = as_nobody(base.with_name("lent-steps"), a_step(base, SCRIPT), *prefix)
    assert done.returncode == 0, done.stderr.decode()
    found = normalise(io.BytesIO(done.stdout), tmp_path / "layer.tar")
    assert found == layer_of(NamespaceSteps(tmp_path / "steps"), a_step(base, SCRIPT), tmp_path)
    assert list(base.with_name("lent-steps").iterdir()) == []


GIVEN = """\
set -e; cd /workspace
touch a b c d; chown 33:42 a; chown 5 b; chown :7 b; ln -s /workspace/c soft; chown -h 9:9 soft; chown 10:11 soft
chmod 4755 d; chown 0:3 d; mkdir -p e/f; chown -R 12:13 e; (cd e/f; chown 14 .; touch g; chown 15 ./g)
touch gone; chown 16 gone; rm gone; touch new1 new2 new3; chown 17 new2; chown 0:0 new2
chown 0:0 /etc/shadow; ln a hard; mv b moved; chown 0:0 /workspace
chown 20 /etc/pipe; touch last; chown 21 nowhere 2>/dev/null && exit 3; chown 60000:65533 last
"""
"""Owners given in every way there is, taken back, and to files that are removed again."""


def test_a_user_without_any_makes_the_same(base: Path, tmp_path: Path) -> None:
    """What cannot be given is noted: the OS layer is root's, to the last bit; bytecode needs nothing."""
    scratch = base.with_name("plain-steps")
    done = as_nobody(scratch, a_step(base, "echo hello > /workspace/out", "/workspace"))
    assert done.returncode == 0, done.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        assert tar.getnames() == ["workspace", "workspace/out"]
    for script in (SCRIPT, GIVEN):
        done = as_nobody(scratch, a_step(base, script))
        assert done.returncode == 0, done.stderr.decode()
        found = normalise(io.BytesIO(done.stdout), tmp_path / "layer.tar")
        assert found == layer_of(NamespaceSteps(tmp_path / "steps"), a_step(base, script), tmp_path)
    assert list(scratch.iterdir()) == []


def test_a_script_that_becomes_another_user(base: Path) -> None:
    """Its files would be root's: refused, also where the script goes on, and with the ways out."""
    scratch = base.with_name("other-steps")
    done = as_nobody(scratch, a_step(base, "setpriv --reuid 33 --clear-groups true; true"))
    assert done.stderr.decode().splitlines() == [
        "a package's script becomes another user (setresuid 33), and this user has one identity only: "
        "/etc/subuid lends none, or newuidmap is missing",
        "lend some: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER (and install uidmap); "
        "or start Docker or podman; or bring in a store that holds the layers: envbuild store pull",
    ]
    assert list(scratch.iterdir()) == []


def test_a_step_is_shut_in(base: Path, tmp_path: Path) -> None:
    """No network, a constant name, no more processes than its own, no way to further namespaces, mounts or settings."""
    script = (
        "cd /workspace; cat /proc/sys/kernel/hostname > name; tail -n +3 /proc/net/dev > net; "
        "echo /proc/[0-9]* > pids; "
        "unshare --user true && exit 8; unshare --mount true && exit 7; mkdir m; mount -t cgroup2 none m && exit 6; "
        "echo core > /proc/sys/kernel/core_pattern && exit 9; env -u OLDPWD PWD=/ > env; ls /dev /sys > dev; true"
    )
    found = {}
    runner, step = NamespaceSteps(tmp_path), a_step(base, script, "/workspace")
    with runner.run_step(step) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isreg() else None
            found[member.name] = data.read().decode() if data else ""
    assert found["workspace/name"] == "envbuild\n"
    assert [line.partition(":")[0].strip() for line in found["workspace/net"].splitlines()] == ["lo"]
    assert found["workspace/pids"] == "/proc/1\n"
    assert sorted(line.partition("=")[0] for line in found["workspace/env"].splitlines()) == [
        "HOME",
        "HOSTNAME",
        "PATH",
        "PWD",
    ]
    assert {"null", "random", "shm"} <= set(found["workspace/dev"].split())
    assert {"sda", "vda", "mem", "kmsg"}.isdisjoint(found["workspace/dev"].split())


def _status(base: Path, scratch: Path, *prefix: str) -> dict[str, str]:
    """What a step of this machine's root sees of its user namespace; ``prefix`` starts it elsewhere."""
    script = "cat /proc/self/uid_map > /workspace/map; cat /proc/sys/user/max_user_namespaces > /workspace/limit"
    step = a_step(base, script, "/workspace")
    fields = {"base": str(base), "base_key": "x", "environment": dict(step.environment)}
    fields |= {"command": list(step.command), "result": step.result}
    command = [*prefix, sys.executable, "-c", PROGRAM, str(scratch), json.dumps(fields)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        return {member.name: tar.extractfile(member).read().decode().strip() for member in tar if member.isreg()}


OUTER = """\
import ctypes, os, sys
ready, go = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    assert ctypes.CDLL(None).unshare(0x10000000) == 0
    os.write(ready[1], b".")
    os.read(go[0], 1)
    with open("/proc/sys/user/max_user_namespaces", "w") as limit:
        limit.write(sys.argv[2])
    os.execvp(sys.argv[3], sys.argv[3:])
os.read(ready[0], 1)
for name in ("uid_map", "gid_map"):
    with open(f"/proc/{child}/{name}", "w") as table:
        table.write(f"0 0 {sys.argv[1]}")
os.write(go[1], b".")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""Runs a command in a user namespace with as many identities, in which so many further ones may be made."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="what root's steps are")


@needs_root
def test_root_inside_is_nobody_on_the_host(base: Path, tmp_path: Path) -> None:
    """Root's step has a range of identities that the host gives nobody, and no way to a further user namespace."""
    before = Path("/proc/sys/user/max_user_namespaces").read_text()
    found = _status(base, tmp_path / "steps")
    inside, outside, count = map(int, found["workspace/map"].split())
    assert (inside, count) == (0, 65_536)
    assert outside >= 65_536
    assert found["workspace/limit"] == "0"
    assert Path("/proc/sys/user/max_user_namespaces").read_text() == before
    assert list((tmp_path / "steps").iterdir()) == []


@needs_root
def test_root_uses_the_range_that_is_lent_to_it(base: Path, tmp_path: Path) -> None:
    """A range for root in /etc/subuid is the one that the administrator wants."""
    lent = base.with_name("lent-to-root")
    lent.write_text("root:300000:65536\n")
    found = _status(base, tmp_path / "steps", "unshare", "--mount", "sh", "-c", LENT, str(lent))
    assert found["workspace/map"].split() == ["0", "300000", "65536"]


@needs_root
@pytest.mark.parametrize("forbidden", ["no identities", "no namespaces"])
def test_root_where_there_is_no_user_namespace_to_have(forbidden: str, base: Path, tmp_path: Path) -> None:
    """In a rootless container, or where the kernel makes no user namespaces, root's step runs without one."""
    limit, mapped = ("0", "4294967295") if forbidden == "no namespaces" else ("9", "65536")
    found = _status(base, tmp_path / "steps", sys.executable, "-c", OUTER, mapped, limit)
    assert found["workspace/map"].split() == ["0", "0", mapped]


def test_a_failing_step(base: Path, tmp_path: Path) -> None:
    """The message is that of any engine: exit code and the end of the output, or the result that is missing."""
    runner = NamespaceSteps(tmp_path)
    with pytest.raises(BuildError) as caught, runner.run_step(a_step(base, "exec >&2; echo one; echo two; exit 3")):
        raise AssertionError("unreachable")
    assert caught.value.message == (
        "/bin/sh -c exec >&2; echo one; echo two; exit 3 failed with exit code 3; the end of its output:\n  one\n  two"
    )
    with pytest.raises(BuildError) as caught, runner.run_step(a_step(base, "true", "/nothing")):
        raise AssertionError("unreachable")
    assert caught.value.message == "/bin/sh -c true left no /nothing"
    absent = Step(base=base, base_key="x", command=("/bin/absent",), environment={})
    with pytest.raises(EngineError) as refused, runner.run_step(absent):
        raise AssertionError("unreachable")
    assert refused.value.message == (
        "cannot run a build step without a container engine: cannot start /bin/absent: No such file or directory"
    )
    assert list(tmp_path.iterdir()) == []


def kill_with_its_step(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill envbuild once its step runs, and wait until nothing of that is left."""
    try:
        wait_for(lambda: len(marked(mark)) == 1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(lambda: marked(mark) == [])
    finally:
        process.kill()
        process.wait()


@needs_root
def test_a_killed_step_of_a_user_without_lent_identities(base: Path) -> None:
    """The process that notes owners in the place of the command ends with envbuild too, and the command with it."""
    scratch = base.with_name("killed-steps")
    scratch.mkdir()
    os.chown(scratch, int(NOBODY), int(NOBODY))
    mark = uuid.uuid4().hex
    fields = {"base": str(base), "base_key": "x", "environment": {"PATH": "/bin", "MARK": mark}}
    fields["command"] = ["/bin/sleep", "600"]
    command = [*AS_NOBODY, PYTHON, "-B", "-c", PROGRAM, str(scratch), json.dumps(fields)]
    process = subprocess.Popen(command, cwd="/", env=ENVIRON)
    kill_with_its_step(process, mark)


def test_a_killed_step(base: Path, tmp_path: Path) -> None:
    """kill -9 of envbuild ends the step's processes too; the next step sweeps its files up."""
    mark = uuid.uuid4().hex
    fields = {"base": str(base), "base_key": "x", "environment": {"PATH": "/bin", "MARK": mark}}
    fields["command"] = ["/bin/sleep", "600"]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), json.dumps(fields)], cwd=ROOT)
    kill_with_its_step(process, mark)
    assert len(list(tmp_path.glob("step-*"))) == 1
    with NamespaceSteps(tmp_path).run_step(a_step(base, "true", "/workspace")) as stream:
        stream.read()
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_has_just_begun_is_not_swept(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another command that starts a step at that moment does not take its folder for that of a killed one."""
    step, original = a_step(base, "echo done > /workspace/out", "/workspace"), os.open

    def run() -> None:
        with NamespaceSteps(tmp_path).run_step(step) as stream:
            ends.append(len(stream.read()))

    ends: list[int] = []
    others = [threading.Thread(target=run)]

    def late(path: Any, *arguments: Any, **options: Any) -> int:
        if str(path).endswith("/lock") and others[0].ident is None:
            others[0].start()
            others[0].join(2)  # it waits; or it ends, and has swept
        return original(path, *arguments, **options)

    monkeypatch.setattr(os, "open", late)
    run()
    others[0].join()
    assert len(ends) == 2
    assert list(tmp_path.iterdir()) == []


def marked(mark: str) -> list[int]:
    """Processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"MARK={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def wait_for(condition: Any) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.engine
@pytest.mark.network
def test_a_build_without_engine(made: Project, tmp_path: Path) -> None:
    """Bootstrapped, compiled and written without any engine, the image has the digest that Docker's has."""
    project = made.copy(tmp_path, own_store=True)
    shutil.rmtree(project.store / "derived")
    record = project.folder / "pylock.clitest.image.json"
    expected = record.read_bytes()
    record.unlink()
    project.must("build", "--output", "oci:image.tar", "--offline", ENVBUILD_ENGINE="local")
    assert record.read_bytes() == expected
    assert list((project.store / "derived/steps").iterdir()) == []


SHOWN = """\
set -e; cat /tmp/shown/a.deb > /workspace/read
cd /tmp/shown
for change in 'echo x > a.deb' 'rm a.deb' 'chmod 600 a.deb' 'ln a.deb /b'; do
  if sh -c "$change" 2> /dev/null; then echo "$change" >> /workspace/possible; fi
done
mkdir -m 500 /workspace/closed; echo in > /workspace/closed/file; chmod 000 /workspace/closed/file
ln /workspace/closed/file /workspace/other; cp /etc/shadow /etc/copy; chown 1:42 /etc/copy; chmod 4711 /etc/copy
"""


def test_a_result_in_place_is_the_same_for_everybody(base: Path) -> None:
    """Root, a user with lent identities and one with a single one list the same, and can move every file of it.

    What the step is shown it can read and not change, whoever it belongs to.
    """
    shown = base.with_name("shown.deb")
    shown.write_bytes(b"package")
    lent = base.with_name("lent-ranges")
    lent.write_text(f"nobody:100000:65536\n{NOBODY}:100000:65536\n")
    ways = {
        "root": (),
        "one": AS_NOBODY,
        "lent": ("unshare", "--mount", "sh", "-c", LENT, str(lent), *AS_NOBODY),
    }
    found = {}
    for way, prefix in ways.items():
        scratch = base.with_name(f"tree-{way}") / "steps"
        scratch.mkdir(parents=True)
        owner = 0 if way == "root" else int(NOBODY)
        for folder in (scratch, scratch.parent):
            os.chown(folder, owner, owner)
        os.chown(shown, owner, owner)
        command = [*prefix, PYTHON, "-B", "-c", TREE_PROGRAM, str(scratch), str(base), str(shown), SHOWN]
        done = subprocess.run(command, cwd="/", env=ENVIRON, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        found[way] = [json.loads(line) for line in done.stdout.splitlines()]
        assert list(scratch.iterdir()) == []
        assert shown.read_bytes() == b"package"
        assert shown.stat().st_nlink == 1
    by_path = {entry["path"]: entry for entry in found["root"]}
    assert "workspace/possible" not in by_path
    assert by_path["workspace/read"]["size"] == len(b"package")
    assert (by_path["workspace/closed"]["mode"], by_path["workspace/closed/file"]["mode"]) == (0o500, 0)
    assert by_path["workspace/other"]["target"] == "workspace/closed/file"
    assert [by_path["etc/copy"][key] for key in ("uid", "gid", "mode")] == [1, 42, 0o4711]
    assert by_path["bin/su"]["capability"] == PING.encode("utf-8", "surrogateescape").hex()
    assert found["one"] == found["root"]
    assert found["lent"] == found["root"]


MEMORY_PROGRAM = """\
import json, sys
from pathlib import Path
from envbuild.engine.local.namespaces import NamespaceSteps
from envbuild.engine.protocol import TreeStep
scratch, base, memory, script = *map(Path, sys.argv[1:3]), int(sys.argv[3]), sys.argv[4]
step = TreeStep(
    fill=lambda output: output.write(base.read_bytes()), command=("/bin/sh", "-c", script),
    environment={"PATH": "/bin"}, result="/build/out", memory=memory, removed_later=True,
)
with NamespaceSteps(scratch).run_tree_step(step) as found:
    entries = [(entry.path, entry.kind, entry.mode, entry.size) for entry in found.entries]
    (file,) = (entry for entry in entries if entry[1] == "file")
    print(json.dumps([entries, (found.root / file[0]).read_text(), (found.root / "etc").exists()]))
"""
KIND = """\
mkdir -p /build/out
while read -r _ place kind _; do [ "$place" != / ] || last=$kind; done < /proc/mounts
echo $last > /build/out/kind
"""


@pytest.mark.parametrize("prefix", [(), AS_NOBODY], ids=["root", "user"])
def test_a_root_file_system_in_memory_leaves_its_result_on_the_disk(base: Path, prefix: tuple[str, ...]) -> None:
    """The result is where that of another step is, and nothing else; without enough memory the disk takes it all.

    What is removed later is gone when the process has ended.
    """
    found = []
    for memory in (1, 1 << 60):
        scratch = base.with_name(f"memory-{memory}-{len(prefix)}") / "steps"
        scratch.mkdir(parents=True)
        for folder in (scratch, scratch.parent):
            os.chown(folder, *([int(NOBODY)] * 2 if prefix else [0, 0]))
        command = [*prefix, PYTHON, "-B", "-c", MEMORY_PROGRAM, str(scratch), str(base), str(memory), KIND]
        done = subprocess.run(command, cwd="/", env=ENVIRON, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        found.append(json.loads(done.stdout))
        assert list(scratch.iterdir()) == []
    (entries, kind, rest), (other, on_disk, all_of_it) = found
    assert (kind, rest, all_of_it) == ("tmpfs\n", False, True)
    assert on_disk != kind
    assert [entry[:3] for entry in entries] == [entry[:3] for entry in other]


@pytest.mark.parametrize("alone", [False, True])
def test_processes_stay_on_one_processor(base: Path, tmp_path: Path, alone: bool) -> None:
    """Where a step asks for it, and only there; what fills its file system has all processors."""
    script = "while read -r name value; do [ $name != Cpus_allowed_list: ] || echo $value; done < /proc/self/status"
    step = TreeStep(
        fill=lambda output: output.write(base.read_bytes()) and None,
        command=("/bin/sh", "-c", f"{script} > /found"),
        environment={"PATH": "/bin"},
        one_processor=alone,
    )
    mine = Path("/proc/self/status").read_text().partition("Cpus_allowed_list:")[2].split()[0]
    with NamespaceSteps(tmp_path).run_tree_step(step) as found:
        allowed = (found.root / "found").read_text().strip()
    assert allowed == mine if not alone else int(allowed) in os.sched_getaffinity(0)


def test_a_root_file_system_that_is_not_whole_runs_nothing(base: Path, tmp_path: Path) -> None:
    """What fails while it is written ends the step before its command, and leaves nothing."""
    ran = tmp_path / "ran"

    def fill(output: BinaryIO) -> None:
        output.write(base.read_bytes())
        raise BuildError("an unsound package")

    step = TreeStep(fill=fill, command=("/bin/sh", "-c", "echo"), environment={"PATH": "/bin"})
    with pytest.raises(BuildError, match="an unsound package"), NamespaceSteps(tmp_path).run_tree_step(step):
        ran.touch()
    assert list(tmp_path.iterdir()) == []
