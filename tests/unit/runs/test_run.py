"""The run stage with an engine that only pretends."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.cluster.rank import Rank
from envbuild.engine.protocol import ContainerExit, ContainerRun, Gpus, GpuSupport, Mount
from envbuild.errors import EngineError, IntegrityError, UsageError
from envbuild.lockfile import model as locks
from envbuild.lockfile.hardware import Gpu, GpuDevice
from envbuild.record import history
from envbuild.record.model import Git, Tensor
from envbuild.record.printed import kept
from envbuild.record.processes import ProcessRecord
from envbuild.runs import container, gpus
from envbuild.runs.execute import caller_ids, command_line, run
from envbuild.runs.observations import FileDigests
from envbuild.runs.request import RunRequest
from envbuild.runs.workspace import scan
from envbuild.runtime.guard import gate
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import PrintedDigest
from tests.support.records import verdict as guard_verdict
from tests.support.ticks import next_tick

CONFIG = "ab" * 32


class Engine:
    """Records what it is asked to run, and does ``action`` in its place; ``reads`` is in the place of the reader."""

    says = complains = b""

    def __init__(
        self,
        action: Callable[[Path], ContainerExit | int] = lambda folder: 0,
        support: GpuSupport = "",
        local: bool = True,
    ) -> None:
        self.local = local
        self.action = action
        self.support = support
        self.reads: Callable[[Path], int] = lambda folder: 0
        self.asked: list[ContainerRun] = []

    def run_container(self, request: ContainerRun) -> ContainerExit:
        self.asked.append(request)
        folder = next(mount.source for mount in request.mounts if mount.target == "/run/envbuild")
        if request.ready:
            request.ready()
        if request.tap:
            request.tap(1, memoryview(self.says))
            request.tap(2, memoryview(self.complains))
        code = self.reads(folder) if request.entrypoint else self.action(folder)
        return code if isinstance(code, ContainerExit) else ContainerExit(code)

    def gpu_support(self) -> GpuSupport:
        return self.support

    def is_local(self) -> bool:
        return self.local

    def machine(self) -> str:
        return "x86_64"

    def describe(self) -> Mapping[str, str]:
        return {"name": "pretended"}


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is another process; its facts have their own test."""
    monkeypatch.setattr("envbuild.record.git.git_state", lambda project: None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a script and an input."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "train.py").write_text("print()")
    return tmp_path


def a_request(project: Path, *arguments: str, **changes: Any) -> RunRequest:
    """A request in a project whose lock is written if need be."""
    lock = locks.Lock(
        name="digits",
        resolution={},
        os=locks.Os(release="debian-12", architecture="amd64"),
        python=locks.Python(version="3.11", executable="/usr/bin/python3.11", platform="manylinux_2_36_x86_64"),
        packages=(),
        frameworks=changes.pop("frameworks", {}),
        hardware=changes.pop("hardware", locks.Hardware()),
        determinism=locks.Determinism(level="ops", seed=42, threads=2),
        environment={"PYTHONHASHSEED": "42"},
        inputs=(locks.Input(path="data", blake3=CONFIG, files=0, bytes=0),),
        run=changes.pop("run", locks.RunOptions()),
    )
    path = project / lock.file_name
    path.write_bytes(locks.dumps(lock))
    fields: dict[str, Any] = {"directory": project, "tty": False, **changes}
    return RunRequest(lock_path=path, lock=lock, image="t:1", config=CONFIG, arguments=arguments, **fields)


@pytest.mark.parametrize(
    ("arguments", "directory", "command"),
    [
        (("train.py", "--epochs", "3", "--", "-x"), ".", ("python", "train.py", "--epochs", "3", "--", "-x")),
        (("../train.py",), "sub", ("python", "../train.py")),
        (("-m", "pkg.mod", "-m"), ".", ("python", "-m", "pkg.mod", "-m")),
        (("-c", "print()"), ".", ("python", "-c", "print()")),
        (("ls", "train.py"), ".", ("ls", "train.py")),
        ((), ".", ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")),
    ],
)
def test_arguments_become_the_command(
    project: Path, arguments: tuple[str, ...], directory: str, command: tuple[str, ...]
) -> None:
    """Scripts and -m go to Python, everything else is a command; what follows is untouched."""
    assert command_line(a_request(project, *arguments, directory=project / directory))[0] == command


def test_a_script_named_from_outside_is_found_inside(project: Path) -> None:
    """With an absolute path, or from a folder outside the project, the script gets its path in the container."""
    absolute = str(project / "train.py")
    assert command_line(a_request(project, absolute))[0] == ("python", "/workspace/train.py")
    outside = a_request(project, f"{project.name}/train.py", directory=project.parent)
    assert command_line(outside)[0] == ("python", "/workspace/train.py")
    engine = Engine()
    run(outside, engine)
    assert engine.asked[0].workdir == "/workspace"


def test_git_is_asked_before_the_program_starts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long git takes, what it sees is the project that the program found, and not what that has made of it."""
    (project / ".git").mkdir()
    before = (project / "train.py").read_text()

    def look(folder: Path) -> Git:
        time.sleep(0.3)
        dirty = (folder / "train.py").read_text() != before
        return Git(commit="a" * 40, branch="main", diff_sha256="", untracked=0, dirty=dirty)

    def change(folder: Path) -> int:
        (project / "train.py").write_text("print('changed')")
        return 0

    monkeypatch.setattr("envbuild.record.git.git_state", look)
    record = run(a_request(project, "train.py"), Engine(change))
    assert (project / "train.py").read_text() != before
    assert record.git is not None
    assert not record.git.dirty


def test_what_git_answers_too_late_is_left_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be what the program has made of the project; the program waits for it no longer than is bearable."""
    (project / ".git").mkdir()
    started = threading.Event()

    def look(folder: Path) -> Git:
        started.wait(60)
        return Git(commit="a" * 40, branch="main", diff_sha256="", untracked=0, dirty=True)

    def work(folder: Path) -> int:
        started.set()
        return 0

    monkeypatch.setattr("envbuild.record.git.git_state", look)
    monkeypatch.setattr("envbuild.runs.facts._GIT_PATIENCE", 0.05)
    assert run(a_request(project, "train.py"), Engine(work)).git is None


@pytest.mark.parametrize("met", [MemoryError(), OSError(errno.EMFILE, "too many"), ImportError("too many")], ids=repr)
@pytest.mark.parametrize("place", ["envbuild.host.probe.host_facts", "envbuild.record.git.git_state"])
def test_facts_that_a_limit_forbids_are_left_out(
    place: str, met: Exception, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their threads print nothing, whichever limit is met: the end of the run needs as much, and reports it."""

    def fail(*given: object, **named: object) -> None:
        raise met

    unhandled: list[object] = []
    (project / ".git").mkdir()
    monkeypatch.setattr(place, fail)
    monkeypatch.setattr(threading, "excepthook", unhandled.append)
    record = run(a_request(project, "train.py"), Engine())
    assert (record.state, record.host is None, unhandled) == ("finished", "host" in place, [])


def test_what_the_caller_needs_at_the_end_is_imported_meanwhile(project: Path) -> None:
    """Once, and in another thread, so that nothing waits for it."""
    called: list[str] = []
    run(a_request(project, "train.py", meanwhile=lambda: called.append(threading.current_thread().name)), Engine())
    assert called == ["facts"]


def test_what_was_there_before_may_be_known_from_another_rank(project: Path) -> None:
    """A file that another rank has made before this one looks is an output all the same."""
    request = a_request(project, "train.py")
    before = scan(project)
    (project / "early").write_text("of rank 0")
    assert [each.path for each in run(request, Engine()).outputs] == []
    record = run(msgspec.structs.replace(request, before=before), Engine())
    assert [each.path for each in record.outputs] == ["early"]


def test_fifos_that_were_there_are_none_of_a_rank(project: Path) -> None:
    """Whatever is known of the state before from another rank."""
    os.mkfifo(project / "old")
    record = run(a_request(project, "train.py", before=scan(project)), Engine())
    assert not [each for each in record.outside_left_out if "old" in each]


def test_verbatim_keeps_a_script_a_command(project: Path) -> None:
    """After ``--`` nothing is guessed."""
    assert command_line(a_request(project, "train.py", verbatim=True))[0] == ("train.py",)


def test_a_missing_script_and_one_outside_are_refused(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither can run in the container; both are reported before anything starts and leave no record."""
    with pytest.raises(UsageError) as missing:
        run(a_request(project, "tain.py"), Engine())
    assert missing.value.message == f"the script tain.py does not exist in {project}"
    other = tmp_path_factory.mktemp("other") / "x.py"
    other.touch()
    with pytest.raises(UsageError) as outside:
        run(a_request(project, str(other)), Engine())
    assert outside.value.message == f"the script {other} is outside the project {project}"
    assert history.list_runs(project) == ()


def test_the_container_is_what_the_lock_and_the_caller_say(project: Path) -> None:
    """Mounts, working directory, user, network, limits and variables reach the engine as they should."""
    engine = Engine()
    extra = Mount(source=Path("/srv"), target="/srv", read_only=True)
    request = a_request(
        project, "train.py", directory=project, mounts=(extra,), environment={"A": "1"}, memory=8 << 30, cpus=1.5,
        run=locks.RunOptions(network="none", workspace="ro"), controls=False,
    )  # fmt: skip
    record = run(request, engine)
    asked = engine.asked[0]
    assert asked.image == "t:1"
    assert asked.mounts == (
        Mount(source=project, target="/workspace", read_only=True),
        Mount(source=project / "data", target="/workspace/data", read_only=True),
        Mount(source=project / ".envbuild/runs" / record.id / "process", target="/run/envbuild"),
        Mount(source=project / ".envbuild/empty", target="/workspace/.envbuild", read_only=True),
        extra,
    )
    assert asked.environment == {
        "HOME": "/tmp/home", "USER": "envbuild", "LOGNAME": "envbuild", "ENVBUILD_RUN_ID": record.id,
        "ENVBUILD_CONTROLS": "off", "A": "1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo",
        "TP_SOCKET_IFNAME": "lo", "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none", "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "SOURCE_DATE_EPOCH": "315532800",
    }  # fmt: skip
    assert (asked.user, asked.network, asked.workdir) == (f"{os.getuid()}:{os.getgid()}", "none", "/workspace")
    assert (asked.memory, asked.cpus, asked.interactive, asked.tty) == (8 << 30, 1.5, True, False)
    assert asked.scratch == ("/tmp/home",)
    assert run(a_request(project, "ls", network="bridge", directory=project / "sub"), engine).directory == (
        "/workspace/sub"
    )
    assert engine.asked[1].network == "bridge"
    assert "GLOO_SOCKET_IFNAME" not in engine.asked[1].environment


def nccl(folder: Path, environment: Mapping[str, str]) -> int:
    """Write what NCCL writes where it is asked to: the rank that is named does."""
    for name in ("NCCL_GRAPH_DUMP_FILE", "NCCL_TOPO_DUMP_FILE"):
        if environment.get(f"{name}_RANK", "0") == "1":
            (folder / Path(environment[name]).name).write_text(f"<{name}/>")
    return 0


def test_what_nccl_found_is_recorded(project: Path) -> None:
    """Its graph and topology as digests, of the rank itself; nothing is asked of NCCL if the lock has none."""
    engine = Engine(lambda folder: nccl(folder, engine.asked[0].environment))
    rank = Rank(launcher="Slurm", rank=1, world=2)
    record = run(a_request(project, "ls", frameworks={"nccl": "2.29.7"}, rank=rank), engine)
    assert record.nccl == {
        "graph": hashlib.sha256(b"<NCCL_GRAPH_DUMP_FILE/>").hexdigest(),
        "topology": hashlib.sha256(b"<NCCL_TOPO_DUMP_FILE/>").hexdigest(),
    }
    assert (history.process_folder(project, record.id) / "nccl-graph.xml").read_text() == "<NCCL_GRAPH_DUMP_FILE/>"
    other = Engine()
    assert run(a_request(project, "ls", rank=rank), other).nccl == {}
    assert not any("DUMP" in name for name in other.asked[0].environment)
    own = {"NCCL_GRAPH_DUMP_FILE": "/workspace/graph.xml"}
    assert run(a_request(project, "ls", frameworks={"nccl": "2.29.7"}, environment=own), other).nccl == {}
    assert other.asked[1].environment["NCCL_GRAPH_DUMP_FILE"] == "/workspace/graph.xml"


def test_a_link_in_place_of_nccls_graph_is_not_read(project: Path) -> None:
    """What it leads to may be anybody's."""

    def action(folder: Path) -> int:
        (folder / "nccl-graph.xml").symlink_to("/etc/hostname")
        os.mkfifo(folder / "nccl-topology.xml")
        return 0

    assert run(a_request(project, "ls", frameworks={"nccl": "2.29.7"}), Engine(action)).nccl == {}


def test_what_the_program_puts_in_place_of_the_verdict_is_no_verdict(project: Path) -> None:
    """A pipe, a link to a file of the host, or endless nesting where guard and hook write: nothing hangs or is read."""

    def forge(folder: Path) -> int:
        os.mkfifo(folder / "verdict.json")
        os.mkfifo(folder / "metrics-1.jsonl")
        (folder / "process-1.json").symlink_to("/dev/zero")
        (folder / "process-2.json").write_text('{"path": "own"}')
        (folder / "process-3.json").write_text("[" * 100_000)
        return 0

    record = run(a_request(project, "ls"), Engine(forge))
    assert (record.state, record.verified, record.verdict) == ("finished", "no", None)
    assert record.processes == (ProcessRecord(path="own"),)


def test_the_program_cannot_write_the_repository(project: Path) -> None:
    """``.git`` is read-only: its settings make git run programs on the host. Copies and the caller have their own."""
    engine = Engine()
    (project / ".git").mkdir()
    shown = Mount(source=project / ".git", target="/workspace/.git", read_only=True)
    run(a_request(project, "ls"), engine)
    assert shown in engine.asked[0].mounts
    mine = Mount(source=project / "sub", target="/workspace/.git/")
    run(a_request(project, "ls", mounts=(mine,)), engine)
    run(a_request(project, "ls", workspace=project / "sub"), engine)
    assert all(shown not in asked.mounts for asked in engine.asked[1:])


def test_the_record_is_there_before_the_program_starts(project: Path) -> None:
    """While the program runs its record reports it; afterwards it holds the result."""
    states = []

    def action(folder: Path) -> int:
        states.append(json.loads((folder.parent / "record.json").read_text())["state"])
        (project / "model.keras").write_bytes(b"model")
        (folder / "verdict.json").write_bytes(msgspec.json.encode(guard_verdict(duration_ms=3.0)))
        (folder / "process-7.json").write_text('{"seed": 42}')
        (folder / "process-8.json").write_text("damaged")
        return 3

    record = run(a_request(project, "train.py"), Engine(action))
    assert states == ["running"]
    assert history.list_runs(project) == (record,)
    assert (record.state, record.exit_code, record.script and record.script.path) == ("finished", 3, "train.py")
    assert [output.path for output in record.outputs] == ["model.keras"]
    assert record.processes == (ProcessRecord(seed=42),)
    assert record.engine == {"name": "pretended"}
    assert record.host is not None
    assert record.inputs == {"data": CONFIG}


def test_a_refusal_is_read_from_the_verdict(project: Path) -> None:
    """The guard's verdict decides, never a number: a program may exit 78 itself."""
    assert run(a_request(project, "train.py"), Engine(lambda folder: 78)).state == "finished"

    def refuse(folder: Path) -> int:
        (folder / "verdict.json").write_bytes(msgspec.json.encode(guard_verdict(ok=False, verified="no")))
        return 78

    record = run(a_request(project, "train.py"), Engine(refuse))
    assert (record.state, record.exit_code) == ("refused", 78)


@pytest.mark.parametrize(
    ("error", "state", "problem"),
    [
        (EngineError("cannot start the container: no"), "failed", "cannot start the container: no"),
        (KeyboardInterrupt(), "interrupted", "KeyboardInterrupt"),
    ],
)
def test_a_run_that_fails_is_recorded(project: Path, error: BaseException, state: str, problem: str) -> None:
    """Whatever ends a run, its record is completed and the error continues."""

    def action(folder: Path) -> int:
        raise error

    with pytest.raises(type(error)):
        run(a_request(project, "train.py"), Engine(action))
    (record,) = history.list_runs(project)
    assert (record.state, record.problem, record.exit_code) == (state, problem, None)
    assert record.end is not None


def test_equal_outputs_are_recognised(project: Path) -> None:
    """A second run with the same bits names the first; one with other bits names the file."""
    contents = iter([b"one", b"one", b"two"])

    def action(folder: Path) -> ContainerExit:
        if (project / "model").exists():
            next_tick(project / "model")
        (project / "model").write_bytes(next(contents))
        return ContainerExit(0)

    first, second, third = (run(a_request(project, "train.py"), Engine(action)) for _ in range(3))
    assert (first.same_bits_as, first.differs_from) == ("", "")
    assert second.same_bits_as == first.id
    assert (third.differs_from, third.differs_in) == (second.id, ("model",))


def test_want_of_memory_is_recorded(project: Path) -> None:
    """What the engine knows of the end is kept."""
    record = run(a_request(project, "train.py"), Engine(lambda folder: ContainerExit(137, out_of_memory=True)))
    assert (record.exit_code, record.out_of_memory) == (137, True)


@pytest.mark.parametrize(
    ("arguments", "environment", "place"),
    [
        (("train.py", "a\udcff"), {}, "argument 2: "),
        (("a\udcff.py",), {}, "argument 1: "),
        (("-c", "print('\udcff')"), {}, "argument 2: "),
        (("train.py",), {"A": "\udcff"}, "variable A: "),
        (("train.py",), {"A\udcff": ""}, "variable A\\udcff: "),
    ],
)
def test_what_is_no_text_is_refused(
    project: Path, arguments: tuple[str, ...], environment: dict[str, str], place: str
) -> None:
    """An engine would alter it without a word; nothing is started."""
    engine = Engine()
    with pytest.raises(UsageError, match=f"^{re.escape(place)}expected text in UTF-8, found"):
        run(a_request(project, *arguments, environment=environment), engine)
    assert not engine.asked


def test_a_missing_input_is_named(project: Path) -> None:
    """A declared input that is not there stops the run before it starts."""
    request = a_request(project, "train.py")
    (project / "data").rmdir()
    with pytest.raises(UsageError) as caught:
        run(request, Engine())
    assert caught.value.message == f"the input data of pylock.digits.toml does not exist in {project}"
    assert history.list_runs(project) == ()


def test_behind_sudo_files_belong_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root by sudo runs the program as the one who typed it; anybody else as themselves."""
    sudo = {"SUDO_UID": "1000", "SUDO_GID": "1001"}
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(os, "getgid", lambda: 0)
    assert caller_ids(sudo) == (1000, 1001)
    assert caller_ids({}) == (0, 0)
    monkeypatch.setattr(os, "getuid", lambda: 7)
    assert caller_ids(sudo) == (7, 0)


def gpu_hardware(policy: str = "exact") -> locks.Hardware:
    """Three GPUs of two kinds."""
    devices = (GpuDevice(model="NVIDIA H100", count=2), GpuDevice(model="NVIDIA T4"))
    return locks.Hardware(gpu=Gpu(devices=devices), policy={"gpu.count": policy})


@pytest.mark.parametrize(
    ("changes", "driver", "support", "asked", "text"),
    [
        ({}, True, "cdi", None, ""),
        ({"hardware": gpu_hardware()}, True, "cdi", Gpus(count=3), "3"),
        ({"hardware": gpu_hardware()}, True, "", Gpus(count=3), "3"),
        ({"hardware": gpu_hardware()}, False, "nvidia", Gpus(count=3), "3"),
        ({"hardware": gpu_hardware()}, False, "", None, ""),
        ({"hardware": gpu_hardware("exact, warn")}, True, "", Gpus(count=3), "3"),
        ({"hardware": gpu_hardware("at least")}, True, "cdi", Gpus(), "all"),
        ({"hardware": gpu_hardware("any")}, True, "cdi", Gpus(), "all"),
        ({"hardware": gpu_hardware(), "gpus": Gpus(devices=("GPU-a",))}, False, "", Gpus(devices=("GPU-a",)), "GPU-a"),
        ({"hardware": gpu_hardware(), "gpus": None}, True, "cdi", None, ""),
        ({"gpus": Gpus()}, True, "cdi", Gpus(), "all"),
    ],
)
def test_gpus_are_handed_over_as_locked(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    driver: bool,
    support: GpuSupport,
    asked: Gpus | None,
    text: str,
) -> None:
    """As many as locked, all if the lock sets no number, none if it wants none, and what the caller names instead.

    Where neither a driver nor an engine with GPUs is, none are asked for: the guard in the container then refuses.
    """
    monkeypatch.setattr(container, "lacks_gpu_driver", lambda: not driver)
    monkeypatch.setattr(gpus, "number_of_gpus", lambda root: 3)
    engine = Engine(support=support)
    record = run(a_request(project, "train.py", **changes), engine)
    assert engine.asked[0].gpus == asked
    assert record.gpus == text


def test_an_engine_elsewhere_is_asked_as_locked(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine has reports nothing of the one where the engine is."""
    monkeypatch.setattr(container, "lacks_gpu_driver", lambda: True)
    engine = Engine(local=False)
    run(a_request(project, "train.py", hardware=gpu_hardware()), engine)
    assert engine.asked[0].gpus == Gpus(count=3)


def test_a_choice_of_gpus_is_recorded(project: Path) -> None:
    """What the caller chose is among the options; what the lock has does not."""
    assert run(a_request(project, "train.py", gpus=None), Engine()).options.gpus == "none"
    assert run(a_request(project, "train.py", gpus=Gpus(count=2)), Engine(support="cdi")).options.gpus == "2"
    assert run(a_request(project, "train.py"), Engine()).options.gpus == ""


def test_overrides_reach_the_guard_and_the_record(project: Path) -> None:
    """Allowed fields and a guard that is off are variables of this run, in its record and part of its recipe."""
    engine = Engine()
    plain = run(a_request(project, "train.py"), engine)
    chosen = run(a_request(project, "train.py", allow=("gpu.driver", "gpu.sms"), guard=False), engine)
    before, after = (asked.environment for asked in engine.asked)
    assert {name for name in before if name.startswith("ENVBUILD_")} == {"ENVBUILD_RUN_ID"}
    assert (after["ENVBUILD_ALLOW"], after["ENVBUILD_GUARD"]) == ("gpu.driver,gpu.sms", "off")
    assert (chosen.options.allow, chosen.options.guard) == (("gpu.driver", "gpu.sms"), False)
    assert chosen.recipe != plain.recipe
    assert not any(name.startswith("ENVBUILD_") for name in chosen.environment)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (None, "no"),
        ({"ok": True, "verified": "yes"}, "yes"),
        ({"ok": True, "verified": "overridden"}, "overridden"),
        ({"ok": True, "verified": "no"}, "no"),
        ({"ok": False, "verified": "no"}, "refused"),
        ({"ok": "yes", "verified": "yes"}, "no"),  # not the guard's
        ({"checks": [{"field": "kernel"}]}, "no"),
    ],
)
def test_the_record_reports_whether_the_host_was_verified(
    project: Path, verdict: dict[str, Any] | None, text: str
) -> None:
    """A run past the guard is known by its record: not verified."""

    def action(folder: Path) -> int:
        if verdict:
            whole = json.loads(msgspec.json.encode(guard_verdict())) | verdict
            (folder / "verdict.json").write_text(json.dumps(whole))
        return 0

    assert run(a_request(project, "train.py"), Engine(action)).verified == text


def test_the_fingerprint_is_kept_and_handed_on(project: Path) -> None:
    """The first run whose every check held is recorded next to the lock, is no output, and the next run is given it."""
    parts = {"libm": {"digest": "1" * 64, "library": "glibc", "version": "2.36", "seconds": 0.01}}
    given = []

    def guard(verdict: dict[str, Any]) -> Callable[[Path], int]:
        def action(folder: Path) -> int:
            expected = folder / "expected-fingerprint.json"
            given.append(json.loads(expected.read_bytes())["parts"] if expected.exists() else None)
            (folder / "verdict.json").write_bytes(msgspec.json.encode(guard_verdict(**verdict)))
            (folder / "fingerprint.json").write_text(json.dumps({"parts": parts}))
            return 0

        return action

    request = a_request(project, "train.py", hardware=locks.Hardware(fingerprint=True))
    file = project / "pylock.digits.fingerprint.json"
    for verdict in ({"ok": False}, {"ok": True, "verified": "overridden"}):
        run(request, Engine(guard(verdict)))
        assert not file.exists()
    first = run(request, Engine(guard({"ok": True, "verified": "yes"})))
    assert (json.loads(file.read_bytes())["parts"], first.outputs) == (parts, ())
    second = run(request, Engine(guard({"ok": True, "verified": "yes"})))
    assert (given, second.outputs) == ([None, None, None, parts], ())
    run(a_request(project, "train.py"), Engine(guard({"ok": True, "verified": "yes"})))
    assert given[-1] is None


def saving(path: Path, data: bytes = b"model", code: int = 0) -> Callable[[Path], int]:
    """A program that saves one file."""

    def action(folder: Path) -> int:
        path.write_bytes(data)
        return code

    return action


TENSOR = {"dtype": "float32", "shape": [2, 3], "digest": "ab" * 16, "norm": 1.5}


def test_the_reader_has_libraries_that_the_program_had_from_a_mount(project: Path, tmp_path: Path) -> None:
    """h5py from a folder mounted read-only, as frameworks are on clusters; from one that a program may write: never."""

    def asked(*, read_only: bool) -> tuple[tuple[str, ...], list[str]]:
        save = saving(project / "m.keras")

        def action(folder: Path) -> int:
            package = {"name": "h5py", "path": "/frameworks/h5py"}
            (folder / "process-2.json").write_text(json.dumps({"pid": 2, "packages": [package]}))
            return save(folder)

        engine = Engine(action)
        mount = Mount(source=tmp_path, target="/frameworks", read_only=read_only)
        run(a_request(project, "train.py", mounts=(mount,)), engine)
        reader = engine.asked[-1]
        return reader.command, [each.target for each in reader.mounts if each.target == "/frameworks"]

    command, mounted = asked(read_only=True)
    assert (command[2], mounted) == ("/opt/env/lib/python3.11/site-packages:/frameworks", ["/frameworks"])
    command, mounted = asked(read_only=False)
    assert (command[2], mounted) == ("/opt/env/lib/python3.11/site-packages", [])


def test_saved_models_are_read_after_the_program(project: Path) -> None:
    """The reader gets the same image and user, the project read-only, no network; its answer is in the record."""
    engine = Engine(saving(project / "m.keras"))

    def reads(folder: Path) -> int:
        answer = {"m.keras": {"tensors": {"w": TENSOR}, "content": "cd" * 16, "count": 1}}
        (folder / "tensors.json").write_text(json.dumps(answer))
        return 0

    engine.reads = reads
    record = run(a_request(project, "train.py", memory=1 << 30, network="bridge"), engine)
    program, reader = engine.asked
    assert (reader.image, reader.user, reader.memory) == (program.image, program.user, program.memory)
    assert (reader.network, reader.interactive, reader.tty, reader.gpus, reader.tap) == (
        "none",
        False,
        False,
        None,
        None,
    )
    assert [(mount.source, mount.target, mount.read_only) for mount in reader.mounts] == [
        (project, "/workspace", True),
        (project / ".envbuild" / "runs" / record.id / "process", "/run/envbuild", False),
    ]
    assert reader.entrypoint is not None
    assert reader.entrypoint[:5] == ("/opt/env/bin/python", "-I", "-S", "-B", "-c")
    assert reader.command == (
        "/run/envbuild/tensors.json", "/workspace", "/opt/env/lib/python3.11/site-packages", "m.keras"
    )  # fmt: skip
    (output,) = record.outputs
    assert (output.content, output.unread) == ("cd" * 16, "")
    assert output.tensors["w"] == Tensor(dtype="float32", shape=(2, 3), digest="ab" * 16, norm=1.5)
    assert history.list_runs(project) == (record,)


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (None, 0, "its reader gave no answer"),
        ("{", 0, "its reader gave no answer"),
        ("[]", 0, "its reader gave no answer"),
        ('{"m.pt": {"tensors": {"w": {"dtype": 1}}}}', 0, "its reader gave no answer"),
        ('{"m.pt": {"unread": "a damaged header"}}', 0, "a damaged header"),
        ('{"m.pt": {"unread": "a damaged header"}}', 137, "its reader ended with exit code 137"),
    ],
)
def test_a_reader_without_an_answer(project: Path, answer: str | None, code: int, why: str) -> None:
    """Whatever becomes of the reader, the run is recorded, and the file states why its tensors are not."""
    engine = Engine(saving(project / "m.pt"))

    def reads(folder: Path) -> int:
        if answer is not None:
            (folder / "tensors.json").write_text(answer)
        return code

    engine.reads = reads
    record = run(a_request(project, "train.py"), engine)
    assert [(output.unread, output.tensors, output.content) for output in record.outputs] == [(why, {}, "")]
    assert (record.state, record.exit_code) == ("finished", 0)


def test_an_answer_that_the_program_left_is_none(project: Path) -> None:
    """Only the reader's own file counts."""

    def action(folder: Path) -> int:
        (folder / "tensors.json").write_text('{"m.pt": {"content": "made up"}}')
        return saving(project / "m.pt")(folder)

    assert run(a_request(project, "train.py"), Engine(action)).outputs[0].unread == "its reader gave no answer"


def test_an_engine_that_refuses_the_reader(project: Path) -> None:
    """The program's result is kept."""
    engine = Engine(saving(project / "m.pt"))

    def reads(folder: Path) -> int:
        raise EngineError("no more containers")

    engine.reads = reads
    assert run(a_request(project, "train.py"), engine).outputs[0].unread == "no more containers"


@pytest.mark.parametrize(
    ("name", "data", "changes", "code", "why"),
    [
        ("m.txt", b"x", {}, 0, ""),
        ("data.bin", b"x", {}, 0, ""),
        ("m.pt", b"x", {"tensors": False}, 0, ""),
        ("m.pt", b"x", {}, 143, "the program was killed"),
    ],
)
def test_when_nothing_is_read(
    project: Path, name: str, data: bytes, changes: dict[str, Any], code: int, why: str
) -> None:
    """No second container for other files, on request, or when somebody is waiting for a killed program."""
    engine = Engine(saving(project / name, data, code))
    record = run(a_request(project, "train.py", **changes), engine)
    assert len(engine.asked) == 1
    assert record.outputs[0].unread == why


def test_metrics_are_in_the_record(project: Path) -> None:
    """Of the hook's files, event files and printed lines; the exact values come back from the file."""

    def action(folder: Path) -> int:
        line = {"process": "", "fit": 1, "epoch": 0, "values": {"loss": 0.1 + 0.2, "acc": "nan"}}
        (folder / "metrics-7.jsonl").write_text(json.dumps(line) + "\n{damaged\n")
        return 0

    engine = Engine(action)
    engine.says = b'hello\n{"step": 3, "loss": 1e-45}\n'
    record = run(a_request(project, "train.py"), engine)
    assert record.metrics == {
        "loss": ((0, 0.30000000000000004),),
        "acc": ((0, "nan"),),
        "standard output: loss": ((3, 1e-45),),
    }
    assert record.metric_sources == {
        "loss": "keras", "acc": "keras", "standard output: loss": "standard output"
    }  # fmt: skip
    assert history.list_runs(project) == (record,)


def test_checkpoints_that_nothing_here_reads(project: Path) -> None:
    """They report it, without a container; an index of something else is a file like any other."""

    def action(folder: Path) -> int:
        for name in ("c-1.index", "c-1.data-00000-of-00001", "book.index", "manifest.ocdbt"):
            (project / name).write_bytes(b"x")
        return 0

    engine = Engine(action)
    record = run(a_request(project, "train.py"), engine)
    assert len(engine.asked) == 1
    assert {output.path: output.unread for output in record.outputs} == {
        "book.index": "",
        "c-1.data-00000-of-00001": "",
        "c-1.index": "a checkpoint of TensorFlow, which only TensorFlow reads",
        "manifest.ocdbt": "a checkpoint of Orbax, which only Orbax reads",
    }


def test_files_of_other_names_are_read_by_how_they_begin(project: Path) -> None:
    """NetCDF 4 is HDF5, version 3 is not; PyTorch's archives are called .bin by some."""

    def action(folder: Path) -> int:
        (project / "x.nc").write_bytes(b"\x89HDF\r\n\x1a\n...")
        (project / "y.nc").write_bytes(b"CDF\x01...")
        (project / "z.mat").write_bytes(b"\x89HDF\r\n\x1a\n...")
        (project / "model.bin").write_bytes(b"PK\x03\x04...")
        (project / "other.bin").write_bytes(b"x")
        return 0

    engine = Engine(action)
    run(a_request(project, "train.py"), engine)
    assert len(engine.asked) == 2
    assert [*engine.asked[1].command[3:]] == ["model.bin", "x.nc", "z.mat"]


def test_the_program_does_not_see_records_but_of_a_copy_or_where_the_caller_mounts(project: Path) -> None:
    """An empty folder is in the place of .envbuild; a copy has none, and a mount of the caller's own is left alone."""
    own = Mount(source=project / "sub", target="/workspace/.envbuild/")
    for changes in ({"workspace": project / "sub"}, {"mounts": (own,)}):
        engine = Engine()
        run(a_request(project, "train.py", **changes), engine)
        assert not any(mount.source == project / ".envbuild/empty" for mount in engine.asked[0].mounts)
    assert list((project / ".envbuild/empty").iterdir()) == []


def test_what_envbuild_keeps_in_the_project_is_nothing_that_a_program_left(project: Path) -> None:
    """What ranks exchange comes while one of them runs; thousands of records are not looked at."""

    def action(folder: Path) -> int:
        meeting = project / ".envbuild/ranks/1"
        meeting.mkdir(parents=True)
        (meeting / "answer-1.json").write_text("{}")
        for number in range(6000):
            (project / ".envbuild/runs" / f"{number}.json").touch()
        (project / ".venv").mkdir()
        (project / ".venv/w.npy").touch()
        return 0

    record = run(a_request(project, "train.py"), Engine(action))
    assert [each for each in record.outside_left_out if ".envbuild" in each] == []
    assert [each for each in record.outside_left_out if ".venv/w.npy" in each] != []


@pytest.mark.parametrize("name", [".envbuild", ".envbuild/runs", ".envbuild/empty"])
def test_a_state_folder_that_is_a_link_is_refused(
    project: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A program, or the sender of the project, may have made it: nothing is written where it leads."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    request = a_request(project, "train.py")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).symlink_to(elsewhere)
    engine = Engine()
    with pytest.raises((UsageError, OSError)):
        run(request, engine)
    assert not engine.asked
    assert list(elsewhere.iterdir()) == []


def test_a_file_named_by_the_program_is_digested_only_if_it_is_one(project: Path) -> None:
    """A FIFO would never end; a link that leads out of the project is none of the project's files."""
    digests = FileDigests(project)
    os.mkfifo(project / "fifo")
    (project / "link").symlink_to("/etc/hostname")
    for name in ("fifo", "link"):
        status = (project / name).stat()
        assert digests(name, status.st_size, status.st_mtime_ns) is None
    status = (project / "train.py").stat()
    assert digests("train.py", status.st_size, status.st_mtime_ns) is not None


def test_the_verdict_is_the_guards_before_the_program_started(project: Path) -> None:
    """The program can write files as the guard does, and what it finds of the pipe leads nowhere."""
    other = guard_verdict(ok=False, verified="no", duration_ms=1.0)

    def guard_then_program(folder: Path) -> int:
        said = gate.Verdict([], ok=True, gate="entrypoint", lock="pylock.digits.toml", duration_ms=2.0)
        said.fingerprint = '{"parts": {"libm": {"digest": "aa"}}}\n'
        assert gate.send_verdict(said, str(folder))
        assert gate.send_verdict(said, str(folder)) is False
        assert list(folder.iterdir()) == []
        (folder / "verdict.json").write_bytes(msgspec.json.encode(other))
        (folder / "fingerprint.json").symlink_to("/etc/passwd")
        return 0

    request = a_request(project, "train.py", hardware=locks.Hardware(fingerprint=True))
    record = run(request, Engine(guard_then_program))
    assert (record.verified, record.verdict_source) == ("yes", "pipe")
    assert record.verdict is not None
    assert record.verdict.duration_ms == 2.0
    folder = history.process_folder(project, record.id)
    assert json.loads((folder / "verdict.json").read_bytes())["ok"] is True
    kept = json.loads((project / "pylock.digits.fingerprint.json").read_bytes())
    assert kept["parts"]["libm"]["digest"] == "aa"


def test_a_verdict_that_came_as_a_file_is_labelled(project: Path) -> None:
    """An engine in a virtual machine hands no pipe through: the program could have written the file."""

    def program(folder: Path) -> int:
        (folder / "verdict.json").write_bytes(msgspec.json.encode(guard_verdict()))
        return 0

    assert run(a_request(project, "train.py"), Engine(program)).verdict_source == "file"
    assert run(a_request(project, "train.py"), Engine()).verdict_source == ""


def test_what_is_printed_is_recorded(project: Path) -> None:
    """Both streams are digested as they come and kept in part; without a reader nothing is."""
    engine = Engine()
    engine.says, engine.complains = b"accuracy 0.5\n", b"warning\nwarning\n"
    record = run(a_request(project, "train.py", printed=lambda stream: PrintedDigest(Masks(0.0))), engine)
    assert {stream: each.lines for stream, each in (record.printed or {}).items()} == {"stdout": 1, "stderr": 2}
    assert kept(project, record.id, "stdout") == b"accuracy 0.5\n"
    again = run(a_request(project, "train.py", printed=lambda stream: PrintedDigest(Masks(0.0))), engine)
    assert again.same_bits_as == record.id
    engine.says = b"accuracy 0.6\n"
    third = run(a_request(project, "train.py", printed=lambda stream: PrintedDigest(Masks(0.0))), engine)
    assert (third.differs_from, third.differs_in) == (again.id, ("standard output",))
    without = run(a_request(project, "train.py"), engine)
    assert (without.printed, kept(project, without.id, "stdout")) == (None, None)


def test_a_run_whose_image_was_changed(project: Path) -> None:
    """Its record does not say that it was as locked; of a verification nothing else is made of it."""
    engine = Engine(lambda folder: ContainerExit(0, layers="changed"))
    record = run(a_request(project, "train.py"), engine)
    assert (record.state, record.layers, record.verified, record.same_bits_as) == ("finished", "changed", "no", "")
    assert not engine.asked[0].compared
    with pytest.raises(IntegrityError, match="changed in the store"):
        run(a_request(project, "train.py", verification=record.id), engine)
    assert engine.asked[1].compared
    assert [each.layers for each in history.list_runs(project)] == ["changed", "changed"]
    assert run(a_request(project, "train.py"), Engine(lambda folder: ContainerExit(0, layers="unchanged"))).verified


def test_a_run_whose_end_cannot_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk takes no other record: the one that is there no longer states that the program is running."""
    real = history.save

    def save(folder: Path, record: Any) -> None:
        if record.state != "running":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, record)

    monkeypatch.setattr(history, "save", save)
    with pytest.raises(OSError, match="No space left"):
        run(a_request(project, "train.py"), Engine())
    assert [each.state for each in history.list_runs(project)] == ["failed"]
