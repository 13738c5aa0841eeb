"""Guard and hook in real containers: entry point, ways around it, signals, and what is altered after the build.

The image holds the interpreter that runs the tests, its standard library and the runtime layer: no network needed.
"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuild.image.runtime import files
from envbuild.lockfile import layout
from tests.support.boxes import IS_LOCAL, AnyBox, Start, starter
from tests.support.guardbox import ENV_PYTHON, make_image_lock

pytestmark = [pytest.mark.engine, pytest.mark.both_engines]


@pytest.fixture(scope="module", name="box")
def _box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts containers of the image; all of it is removed afterwards."""
    with starter(tmp_path_factory.mktemp("image"), make_image_lock()) as start:
        yield start


def waiting(box: Start) -> AnyBox:
    """A container whose guard has let it start: what is altered from now on is not seen by its entry point."""
    running = box("sh", "-c", "echo started; exec sleep 600")
    running.says("started")
    return running


def write(*parts: str) -> str:
    """A program for ``python -c`` that prints its first random number."""
    return "; ".join((*parts, "import random", "print(random.random())"))


FIRST = f"{random.Random(42).random()}\n"
CHANGED = {"environment": {"OMP_NUM_THREADS": "8"}}
TABLE = (
    "envbuild: the environment does not match pylock.digits.toml — nothing was run\n"
    "  field                         locked   found   what it means\n"
    "  environment.OMP_NUM_THREADS   1        8       changed after the lock\n"
    "what to do:\n"
    "  start without changing OMP_NUM_THREADS, or set it under env or determinism in spec.yaml, then: "
    "envbuild lock spec.yaml && envbuild build\n"
)


def test_entry_point_passes(box: Start, tmp_path: Path) -> None:
    """A matching container runs the program: seeded, its exit code returned, verdict and record left behind."""
    tmp_path.chmod(0o777)
    binds = {str(tmp_path): {"bind": layout.RUN_DIR, "mode": "rw"}}
    done = box("python", "-c", write("import sys", "sys.stdout.flush()") + "; sys.exit(7)", binds=binds).wait()
    assert done == (7, FIRST, "")
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert (verdict["ok"], verdict["gate"], verdict["controls"]) == (True, "entrypoint", True)
    assert {check["field"] for check in verdict["checks"]} == {
        "kernel",
        "cpu",
        "cpus",
        "environment",
        "python",
        "packages",
        "runtime",
    }
    (record,) = [json.loads(path.read_text()) for path in tmp_path.glob("process-*.json")]
    assert record["generators"] == {"random": 42}


def test_entry_point_refuses(box: Start, tmp_path: Path) -> None:
    """A changed locked variable: exit 78, the table, the verdict, and nothing of the program."""
    tmp_path.chmod(0o777)
    binds = {str(tmp_path): {"bind": layout.RUN_DIR, "mode": "rw"}}
    assert box("sh", "-c", "echo ran", binds=binds, **CHANGED).wait() == (78, "", TABLE)
    verdict = json.loads((tmp_path / "verdict.json").read_text())
    assert verdict["ok"] is False
    assert [check["field"] for check in verdict["checks"] if not check["ok"]] == ["environment.OMP_NUM_THREADS"]


@pytest.mark.parametrize("flags", [[], ["-I"], ["-E"]])
def test_entry_point_replaced(box: Start, flags: list[str]) -> None:
    """With another entry point the second gate makes the same checks, also under -I and -E."""
    done = box(*flags, "-c", write(), entrypoint=[ENV_PYTHON]).wait()
    assert done[:2] == (0, FIRST)
    assert box(*flags, "-c", "print('ran')", entrypoint=[ENV_PYTHON], **CHANGED).wait() == (78, "", TABLE)


def test_marker_of_another_container(box: Start) -> None:
    """A marker copied into another container, as schedulers do with whole environments, is worth nothing."""
    _, marker, _ = box("python", "-c", "import os; print(os.environ['ENVBUILD_GUARD'])").wait()
    variables = {**CHANGED["environment"], "ENVBUILD_GUARD": marker.strip()}
    done = box("-c", "print('ran')", entrypoint=[ENV_PYTHON], environment=variables).wait()
    assert done == (78, "", TABLE)


def test_exec_and_alterations(box: Start) -> None:
    """``docker exec`` passes the second gate by itself; what is altered after the build is refused from then on."""
    running = waiting(box)
    assert running.execute("python", "-c", write()) == (0, FIRST)
    assert running.execute("python", "-c", "print('ran')", OMP_NUM_THREADS="8") == (78, TABLE)
    site = files.site_packages(make_image_lock())
    extra = f"{site}/sneaky-1.0.dist-info"
    assert running.execute("sh", "-c", f"mkdir {extra}; touch {extra}/METADATA {extra}/RECORD")[0] == 0
    code, output = running.execute("python", "-c", "print('ran')")
    assert code == 78
    assert output == (
        "envbuild: this image does not match pylock.digits.toml — nothing was run\n"
        "  field             locked         found   what it means\n"
        "  packages.sneaky   (not locked)   1.0     installed after the build\n"
        "what to do:\n"
        "  add what you need to requirements in spec.yaml, then: envbuild lock spec.yaml && envbuild build\n"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("lib/_envbuild/hook/lineage.py", "altered after the build"),
        ("pylock.toml", "altered after the build"),
        ("expect.json", "expect.json cannot be read: text after the JSON value"),
    ],
)
def test_runtime_files_altered(box: Start, path: str, words: str) -> None:
    """An altered guard, hook, lock or expectation is refused."""
    running = waiting(box)
    assert running.execute("sh", "-c", f"echo '# x' >> {layout.RUNTIME_PREFIX}/{path}")[0] == 0
    code, output = running.execute("python", "-c", "print('ran')")
    assert code == 78
    assert words in output


def test_children_are_not_checked_again(box: Start) -> None:
    """Spawned workers inherit the marker, and draw numbers of their own."""
    script = """
import multiprocessing, os, random
def draw(_):
    return os.environ["ENVBUILD_GUARD"], random.random()
if __name__ == "__main__":
    found = [draw(0)]
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            found += pool.map(draw, [0])
    assert len({marker for marker, _ in found}) == 1 and len({number for _, number in found}) == 3, found
    print("done")
"""
    program = (
        f"open('/tmp/s.py', 'w').write({script!r}); import runpy; runpy.run_path('/tmp/s.py', run_name='__main__')"
    )
    shell = f"python - <<'E'\n{program}\nE\npython /tmp/s.py"
    code, out, err = box("sh", "-c", shell).wait()
    assert (code, out.splitlines()[-1:]) == (0, ["done"]), err


# No long sleep: a signal that comes just before its system call is heard by Python after it.
SLEEP = "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(0.05)"
HANDLER = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: (print('asked to stop'), sys.exit(5)))\n"
    "print('ready', flush=True)\nwhile True:\n    time.sleep(0.05)"
)


@pytest.mark.parametrize("init", [True] if IS_LOCAL else [True, False])
@pytest.mark.parametrize(
    ("program", "number", "code", "words"),
    [
        (SLEEP, "SIGTERM", 143, ""),
        (SLEEP, "SIGINT", 130, "KeyboardInterrupt"),
        (HANDLER, "SIGTERM", 5, "asked to stop"),
    ],
)
def test_signals(box: Start, program: str, number: str, code: int, words: str, init: bool) -> None:
    """Signals reach the program as if it had been started without a container, with the engine's init or without."""
    running = box("python", "-c", program, init=init)
    running.says("ready")
    running.send(number)
    found, out, err = running.wait()
    assert found == code
    assert words in out + err


def test_orphans_are_reaped(box: Start) -> None:
    """What the program's children leave behind is reaped: by the guard without the engine's init, else by that."""
    # The orphan's folder is there until somebody has waited for it.
    shell = (
        "cat /proc/1/stat; orphan=$(true >/dev/null & echo $!); n=0; "
        "while [ -d /proc/$orphan ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n + 1)); done; [ ! -d /proc/$orphan ]"
    )
    code, out, _ = box("sh", "-c", shell, init=False).wait()
    assert (code, out[:9]) == (0, "1 (python")


def test_the_guard_becomes_the_program(box: Start) -> None:
    """Under the engine's init nothing of the guard stays behind; the local engine's is a Python program itself."""
    _, out, _ = box("sh", "-c", "for f in /proc/[0-9]*/stat; do cat $f; done", init=True).wait()
    others = out.splitlines()[IS_LOCAL:]
    assert others
    assert "python" not in "".join(others)


def test_command_that_cannot_start(box: Start) -> None:
    """The shell's codes and a word of help."""
    assert box("train.py").wait() == (127, "", "envbuild: train.py: command not found — perhaps: python train.py\n")
    assert box("/etc").wait() == (126, "", "envbuild: /etc: Permission denied\n")


def test_signals_that_python_ignores(box: Start) -> None:
    """The program does not inherit the signals that the guard's interpreter ignores (SIGPIPE, SIGXFSZ)."""
    _, out, _ = box(
        "sh", "-c", "while read name value; do case $name in SigIgn:) echo $value; esac; done </proc/self/status"
    ).wait()
    # An engine may pass on others that it was started with, such as signal 32 of its own C library.
    assert [name for name in (signal.SIGPIPE, signal.SIGXFSZ) if int(out, 16) >> (name - 1) & 1] == []


def test_no_shell_quotes_or_root_needed(box: Start) -> None:
    """Arguments arrive untouched and an arbitrary user id will do."""
    arguments = ["a b", "", "$HOME", "ü", "--", "-x"]
    program = "import os, sys; print(sys.argv[1:] == eval(os.environ['WANT']), os.getuid())"
    done = box("python", "-c", program, *arguments, user="12345:12345", environment={"WANT": repr(arguments)}).wait()
    assert done == (0, "True 12345\n", "")
