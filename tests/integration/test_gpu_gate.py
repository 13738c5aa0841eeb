"""The guard on machines with GPUs, in a real container through the real binding; the machines are stand-ins.

One container serves all cases: its libraries, kernel module and expectations are mounted and changed between the
starts, and each start is the entry point's own command through ``docker exec``. The image holds nvidia-ml-py as a
wheel's installation would.
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.image.runtime import files
from envbuild.lockfile import layout
from envbuild.lockfile.hardware import Cuda, Hardware
from envbuild.lockfile.model import Lock
from envbuild.runtime import fastjson
from tests.support import gpus
from tests.support.gpu_cases import MATCHES, MISMATCHES, ONE, TWO, Case, gpu_of
from tests.support.guardbox import ENV_PYTHON, EXECUTABLE, Box, import_image, make_image_lock

pytestmark = pytest.mark.engine

BINDING = importlib.metadata.distribution("nvidia-ml-py")
OUT = "/out"
GUARD = (str(EXECUTABLE), "-I", "-S", "-B", files.ENTRY)


def image_lock(hardware: Hardware | None = None, cuda: Cuda | None = None) -> Lock:
    """The lock of the image: NumPy, and the binding at the version that this environment has."""
    packages = {"numpy": "2.4.6", "nvidia-ml-py": BINDING.version}
    return make_image_lock(packages=packages, hardware=hardware or Hardware(kernel=">=3.10"), cuda=cuda)


def binding_files() -> dict[str, Path]:
    """The binding's modules and its dist-info, by their path in the image."""
    site = files.site_packages(image_lock())
    found = {str(file): Path(str(BINDING.locate_file(file))) for file in BINDING.files or ()}
    return {
        f"{site}/{name}": path for name, path in found.items() if not name.startswith("..") and path.suffix != ".pyc"
    }


class Machine:
    """The container, and what it is on."""

    def __init__(self, box: Box, root: Path, libraries: Path) -> None:
        self.box, self.root, self.libraries = box, root, libraries

    def become(self, case: Case) -> None:
        """Make it another machine, with another lock."""
        shutil.rmtree(self.root / "next", ignore_errors=True)
        options = {"kernel": case.kernel, "libcuda": case.libcuda, "compat": case.compat}
        gpus.install(self.libraries, self.root / "next", case.machine, **options)
        if case.kernel == "none":
            shutil.rmtree(self.root / "next" / "lib")
        for name in ("lib", "module", "compat"):
            for entry in (self.root / name).iterdir():
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            if (self.root / "next" / name).is_dir():
                shutil.copytree(self.root / "next" / name, self.root / name, symlinks=True, dirs_exist_ok=True)
        self.expect(case)

    def expect(self, case: Case) -> None:
        """Put another lock's hardware into the expectations."""
        lock = image_lock()
        expect = files.expectations(lock, {name: file.data for name, file in files.runtime_files(lock).items()})
        expect["files"].pop(layout.EXPECT_PATH)
        wanted = files.expectations(image_lock(case.hardware, case.cuda))
        expect |= {name: wanted[name] for name in ("gpu", "cuda", "policy")}
        document = {"sha256": sha256_bytes(fastjson.dumps(expect).encode()), "expect": expect}
        (self.root / "expect.json").write_text(fastjson.dumps(document))

    def start(self, *command: str, guard: bool = True, **variables: str) -> tuple[int, str]:
        """Start a command through the entry point's guard, or as it is; what an earlier start left is gone."""
        self.clean()
        return self.box.execute(*(GUARD if guard else ()), *command, **variables)

    def clean(self) -> None:
        """Forget what an earlier start left."""
        for name in ("run", "out"):
            for path in (self.root / name).iterdir():
                path.unlink()

    def verdict(self) -> dict[str, Any]:
        """The first gate's verdict."""
        return dict(json.loads((self.root / "run" / "verdict.json").read_text()))

    @property
    def ran(self) -> bool:
        """Whether the user's script did anything."""
        return any((self.root / "out").iterdir())


SCRIPT = "open('/out/ran', 'w').write('ran')"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The container; compiled modules are in it as they do in an image that envbuild built."""
    from envbuild.engine.docker.adapter import connect

    client = connect()._sdk_client()
    root = tmp_path_factory.mktemp("machine")
    tag = import_image(client, tmp_path_factory.mktemp("image"), image_lock(), binding_files())
    binds = {str(root / "expect.json"): {"bind": layout.EXPECT_PATH, "mode": "rw"}}
    for name, target in {
        "lib": gpus.HWCAPS,
        "module": "/sys/module",
        "compat": gpus.COMPAT,
        "run": layout.RUN_DIR,
        "out": OUT,
    }.items():
        (root / name).mkdir()
        binds[str(root / name)] = {"bind": target, "mode": "rw"}
    (root / "expect.json").touch()
    box = Box(client, tag, ["sleep", "3600"], entrypoint=[], binds=binds, init=True)
    made = Machine(box, root, gpus.build_standin(tmp_path_factory.mktemp("standin")))
    folders = [files.LIBRARY, files.site_packages(image_lock()), f"{Path(json.__file__).parents[1]}/ctypes"]
    code, sentence = box.execute(str(EXECUTABLE), "-S", "-m", "compileall", "-q", *folders)
    assert code == 0, sentence
    yield made
    client.remove_container(box.identity, force=True)
    client.remove_image(tag, force=True)


@pytest.mark.parametrize("case", MISMATCHES.values(), ids=MISMATCHES)
def test_mismatch_is_refused(machine: Machine, case: Case) -> None:
    """Exit 78, the fields in the verdict, the field and its meaning on the terminal, nothing of the script run."""
    machine.become(case)
    code, sentence = machine.start("python", "-c", SCRIPT, **case.variables)
    verdict = machine.verdict()
    failed = [check for check in verdict["checks"] if not check["ok"] and check["severity"] == "hard"]
    assert (code, machine.ran, verdict["ok"], verdict["verified"]) == (78, False, False, "no"), sentence
    assert tuple(check["field"] for check in failed) == case.fields
    assert "Error" not in sentence.replace("Unknown Error", "")
    assert sentence.startswith("envbuild: this host does not match pylock.digits.toml — nothing was run\n")
    lead = next(check for check in failed if "because" not in check)
    assert f"  {lead['field']}   " in sentence
    assert case.says in f"{failed[0]['found']} {failed[0]['meaning']}"
    assert "envbuild run --allow" in sentence.splitlines()[-1]


@pytest.mark.parametrize("case", MATCHES.values(), ids=MATCHES)
def test_match_is_accepted(machine: Machine, case: Case) -> None:
    """The script runs, and the verdict holds what the probe found."""
    machine.become(case)
    code, sentence = machine.start("python", "-c", SCRIPT, **case.variables)
    assert (code, machine.ran) == (0, True), sentence
    verdict = machine.verdict()
    assert (verdict["ok"], verdict["verified"]) == (True, "yes")
    assert verdict["gpu"]["driver"] == case.machine.driver


@pytest.mark.parametrize("flags", [(), ("-I",), ("-E",)])
def test_second_gate(machine: Machine, flags: tuple[str, ...]) -> None:
    """Without the entry point (``docker exec``, Kubernetes ``command:``) each Python makes the same checks itself."""
    machine.become(MISMATCHES["older driver"])
    code, sentence = machine.start(ENV_PYTHON, *flags, "-c", SCRIPT, guard=False)
    assert (code, machine.ran, machine.verdict()["gate"]) == (78, False, "startup"), sentence
    assert "gpu.driver" in sentence
    machine.become(MATCHES["h200"])
    code, sentence = machine.start(ENV_PYTHON, *flags, "-c", SCRIPT, guard=False)
    assert (code, machine.ran) == (0, True), sentence


def test_replaced_entry_point(machine: Machine) -> None:
    """``--entrypoint`` as process 1 meets the second gate too."""
    machine.become(MISMATCHES["fewer SMs"])
    machine.clean()
    client, info = machine.box.client, machine.box.client.inspect_container(machine.box.identity)
    binds = {text.split(":")[0]: {"bind": text.split(":")[1], "mode": "rw"} for text in info["HostConfig"]["Binds"]}
    box = Box(client, info["Image"], ["-c", SCRIPT], entrypoint=[ENV_PYTHON], binds=binds)
    try:
        code, out, err = box.wait()
    finally:
        client.remove_container(box.identity, force=True)
    assert (code, out, machine.ran) == (78, "", False)
    assert "gpu.sms" in err


FAMILY = """
import multiprocessing, os, subprocess, sys
def work(_):
    return os.environ["ENVBUILD_GUARD"]
if __name__ == "__main__":
    found = {work(0)}
    for method in ("fork", "spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            found.update(pool.map(work, [0, 1]))
    for flags in ([], ["-I"], ["-E"]):
        code = "import os; print(os.environ['ENVBUILD_GUARD'])"
        found.add(subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True).stdout.strip())
    assert len(found) == 1, found
    print("done")
"""


@pytest.mark.parametrize("guard", [True, False])
def test_children_are_not_probed_again(machine: Machine, guard: bool) -> None:
    """fork, spawn, forkserver, subprocess, -I and -E: one probe for the whole process tree, whichever gate made it."""
    machine.become(Case(machine=ONE))
    (machine.root / "lib" / "family.py").write_text(FAMILY)
    code, sentence = machine.start(ENV_PYTHON, f"{gpus.HWCAPS}/family.py", guard=guard)
    assert (code, sentence.splitlines()[-1:]) == (0, ["done"]), sentence
    gates = [json.loads(path.read_text())["gate"] for path in (machine.root / "run").glob("verdict*.json")]
    assert gates == ["entrypoint" if guard else "startup"]


def test_nothing_of_nvidia_stays_in_the_program(machine: Machine) -> None:
    """CUDA is never initialised in the user's process: neither gate leaves NVIDIA's libraries or modules in it."""
    machine.become(Case(machine=ONE))
    program = (
        "import sys; maps = open('/proc/self/maps').read(); "
        "print([name for name in ('libcuda', 'libnvidia-ml', '/dev/nvidia') if name in maps], "
        "[name for name in ('ctypes', 'pynvml') if name in sys.modules])"
    )
    for guard in (True, False):
        assert machine.start(ENV_PYTHON, "-c", program, guard=guard) == (0, "[] []\n")


def test_lock_without_gpu_does_not_probe(machine: Machine) -> None:
    """A CPU lock on a machine whose driver is broken starts without a word from it, and its verdict has no GPU."""
    hung = ONE.but(init_delay=50_000_000)  # less than a probe waits
    machine.become(Case(machine=hung))
    lock = image_lock()
    expect = files.runtime_files(lock)[layout.EXPECT_PATH].data
    (machine.root / "expect.json").write_bytes(expect)
    began = time.monotonic()
    assert machine.start("python", "-c", SCRIPT)[0] == 0
    assert time.monotonic() - began < 45
    assert "gpu" not in machine.verdict()
    assert not [check for check in machine.verdict()["checks"] if check["field"].startswith("gpu")]


def test_gpu_that_vanishes_between_gates(machine: Machine) -> None:
    """Two GPUs at the entry point, one at a later ``docker exec``: that one is refused, the first verdict stays."""
    machine.become(Case(machine=TWO))
    assert machine.start("python", "-c", SCRIPT)[0] == 0
    (machine.root / "lib" / "standin.conf").write_text(ONE.text())
    code, sentence = machine.box.execute(ENV_PYTHON, "-c", SCRIPT)
    assert code == 78
    assert "gpu.count" in sentence
    verdicts = {path.name: json.loads(path.read_text()) for path in (machine.root / "run").glob("verdict*.json")}
    assert verdicts.pop("verdict.json")["ok"] is True
    assert [verdict["ok"] for verdict in verdicts.values()] == [False]


def allowed(verdict: Mapping[str, Any]) -> list[str]:
    return [check["field"] for check in verdict["checks"] if check.get("allowed")]


def test_override(machine: Machine) -> None:
    """Named fields are accepted and reported, in the verdict too; the process tree of the run is not refused again."""
    machine.become(MISMATCHES["a100 for h200"])
    fields = "gpu.model,gpu.compute-capability,gpu.sms"
    code, sentence = machine.start(
        "sh", "-c", f'python -c "{SCRIPT}" && python -I -c "print(1)"', ENVBUILD_ALLOW=fields
    )
    assert (code, machine.ran) == (0, True), sentence
    assert "envbuild: ALLOWED by this run: gpu.model: locked NVIDIA H200, found NVIDIA A100-SXM4-40GB: " in sentence
    assert sentence.count("ALLOWED") == 3
    verdict = machine.verdict()
    assert (verdict["ok"], verdict["verified"], allowed(verdict)) == (True, "overridden", fields.split(","))


def test_override_of_too_little_or_of_nothing(machine: Machine) -> None:
    """Other fields still refuse; a name that is no field, or the runtime's, refuses too."""
    machine.become(MISMATCHES["a100 for h200"])
    code, sentence = machine.start("python", "-c", SCRIPT, ENVBUILD_ALLOW="gpu.model")
    assert (code, machine.ran, allowed(machine.verdict())) == (78, False, ["gpu.model"])
    assert sentence.splitlines()[-1].endswith("envbuild run --allow gpu.compute-capability --allow gpu.sms")
    machine.become(MISMATCHES["older driver"])
    for name, words in {
        "gpu.drivr": "there is no field gpu.drivr — perhaps you meant gpu.driver",
        "runtime": "runtime cannot be allowed: an altered guard proves nothing",
    }.items():
        code, sentence = machine.start("python", "-c", SCRIPT, ENVBUILD_ALLOW=f"gpu.driver,{name}")
        assert (code, machine.ran) == (78, False)
        assert words in sentence


def test_marker_of_an_overridden_run(machine: Machine) -> None:
    """Its marker is worth nothing elsewhere: another container, whose gate was not asked to allow anything, refuses."""
    machine.become(MISMATCHES["older driver"])
    code, sentence = machine.start(
        "python", "-c", "import os; print(os.environ['ENVBUILD_GUARD'])", ENVBUILD_ALLOW="gpu.driver"
    )
    assert code == 0
    marker = sentence.splitlines()[-1]
    assert machine.start(ENV_PYTHON, "-c", SCRIPT, guard=False, ENVBUILD_GUARD=marker)[0] == 0
    moved = marker.rpartition("/")[0] + "/1"
    assert machine.start(ENV_PYTHON, "-c", SCRIPT, guard=False, ENVBUILD_GUARD=moved)[0] == 78
    assert not machine.ran


@pytest.mark.parametrize("guard", [True, False])
def test_deliberate_bypass(machine: Machine, guard: bool) -> None:
    """``ENVBUILD_GUARD=off``: the program starts, one loud line for the whole tree, and a verdict that states no."""
    machine.become(MISMATCHES["NVML 18"])
    program = f"import subprocess, sys; {SCRIPT}; subprocess.run([sys.executable, '-c', 'pass'])"
    code, sentence = machine.start(ENV_PYTHON, "-c", program, guard=guard, ENVBUILD_GUARD="off")
    assert (code, machine.ran) == (0, True)
    assert sentence == (
        "envbuild: the guard is OFF (ENVBUILD_GUARD=off): nothing was compared with pylock.digits.toml; not verified\n"
    )
    verdict = machine.verdict()
    assert (verdict["ok"], verdict["verified"], verdict["checks"]) == (True, "no", [])


def test_damaged_expectations(machine: Machine) -> None:
    """Neither an override nor the bypass helps against expectations that were altered."""
    machine.become(Case(machine=ONE))
    path = machine.root / "expect.json"
    path.write_text(path.read_text().replace('"sms": 132', '"sms": 131'))
    for variables in ({}, {"ENVBUILD_ALLOW": "gpu.sms"}, {"ENVBUILD_GUARD": "off"}):
        code, sentence = machine.start("python", "-c", SCRIPT, **variables)
        assert (code, machine.ran) == (78, False)
        assert "expect.json was altered after the build" in sentence


def test_variables_of_nvidia(machine: Machine) -> None:
    """A variable by which the driver compiles kernels anew is refused, one that serialises them warns."""
    machine.become(Case(machine=ONE, gpu=gpu_of(ONE)))
    code, sentence = machine.start("python", "-c", SCRIPT, CUDA_FORCE_PTX_JIT="1")
    assert (code, machine.ran) == (78, False)
    assert "environment.CUDA_FORCE_PTX_JIT" in sentence
    code, sentence = machine.start("python", "-c", SCRIPT, CUDA_LAUNCH_BLOCKING="1")
    assert (code, machine.ran) == (0, True)
    assert sentence.startswith(
        "envbuild: warning: environment.CUDA_LAUNCH_BLOCKING: locked (not set), found 1: one kernel"
    )


TIMES = """
import os, sys
def least(command):
    times = []
    for _ in range(21):
        pid = os.posix_spawn(command[0], command, os.environ)
        used = os.wait4(pid, 0)[2]  # with what it waited for, such as the probe
        times.append(used.ru_utime + used.ru_stime)
    return 1000 * min(times)
bare = [sys.argv[1], "-I", "-S", "-B", "-c", "pass"]
guard = [sys.argv[1], "-I", "-S", "-B", sys.argv[2], "/bin/true"]
print(least(guard) - least(["/bin/true"]) - least(bare))
"""


def test_cost(machine: Machine) -> None:
    """The guard's processor time over a bare start of Python: 100 ms at most with eight GPUs, 60 ms without.

    Time on the clock would be that of whatever else the machine does, of which the least count has the least.
    """
    machine.become(MATCHES["8xh200"])
    command = (ENV_PYTHON, "-c", TIMES, str(EXECUTABLE), files.ENTRY)
    code, sentence = machine.start(*command)
    assert code == 0, sentence
    machine_with_eight = float(sentence)
    (machine.root / "expect.json").write_bytes(files.runtime_files(image_lock())[layout.EXPECT_PATH].data)
    code, sentence = machine.start(*command)
    assert code == 0, sentence
    print(f"guard: {machine_with_eight:.1f} ms with 8 GPUs, {float(sentence):.1f} ms without")
    assert machine_with_eight < 100
    assert float(sentence) < 60
