"""The numeric fingerprint in real containers: recorded once, compared at each start, and what moved is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.lockfile import layout
from envbuild.lockfile.model import Lock, dumps
from envbuild.runs import fingerprint
from envbuild.runtime.guard import fingerprint_check
from tests.support.boxes import Start, starter
from tests.support.environments import environment
from tests.support.guardbox import ENV_PYTHON, make_image_lock
from tests.support.runtime import make_lock, make_tree

OTHER_LIBM = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-AVX2"}
"""Makes the C library choose other functions, as another CPU would (docs/reference/determinism.md)."""


def locked() -> Lock:
    lock = make_image_lock()
    return msgspec.structs.replace(lock, hardware=msgspec.structs.replace(lock.hardware, fingerprint=True))


@pytest.fixture(scope="module", name="box")
def _box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts containers of an image whose lock asks for the fingerprint; all of it is removed afterwards."""
    with starter(tmp_path_factory.mktemp("image"), locked()) as start:
        yield start


@pytest.fixture
def start(box: Start) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in the image over a run's folder, with more variables."""

    def run(folder: Path, *command: str, **options: Any) -> tuple[int, str, str]:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
        return box(*command, binds={str(folder): {"bind": layout.RUN_DIR, "mode": "rw"}}, **options).wait()

    return run


def verdict(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "verdict.json").read_text()))


def failed(folder: Path) -> dict[str, str]:
    """Meaning of each check that does not hold, by field."""
    return {check["field"]: check["meaning"] for check in verdict(folder)["checks"] if not check["ok"]}


@pytest.mark.engine
@pytest.mark.both_engines
def test_recorded_then_compared(start: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """The first run records; the second agrees; on a CPU with another libm nothing runs, unless that is allowed."""
    lock, path = locked(), tmp_path / "pylock.digits.toml"
    path.write_bytes(dumps(lock))
    first, second, other, allowed = (tmp_path / name for name in ("first", "second", "other", "allowed"))
    assert start(first, "sh", "-c", "echo ran") == (0, "ran\n", "")
    assert verdict(first)["verified"] == "yes"
    assert failed(first) == {
        "fingerprint": "nothing recorded to compare with: the first accepted envbuild run records it next to the lock"
    }
    found = fingerprint.found_in(first)
    assert found is not None
    assert sorted(found["parts"]) == ["libm", "python.random"]
    seconds = [found["seconds"]["numbers"]]
    while min(seconds) >= 1 and len(seconds) < 10:  # a busy machine only adds to it
        again = tmp_path / f"again{len(seconds)}"
        assert start(again, "true")[0] == 0
        seconds.append((fingerprint.found_in(again) or {})["seconds"]["numbers"])
    assert min(seconds) < 1
    assert fingerprint.record_first(path, lock, found, "run-1") == ()

    second.mkdir()
    assert fingerprint.pass_to_container(path, lock, second)
    assert start(second, "sh", "-c", "echo ran") == (0, "ran\n", "")
    (check,) = (check for check in verdict(second)["checks"] if check["field"].startswith("fingerprint"))
    assert (check["locked"], check["found"], check["ok"]) == ("2 parts", "as recorded", True)
    assert list(second.glob("process-*.json")) == []

    other.mkdir()
    fingerprint.pass_to_container(path, lock, other)
    variables = {**OTHER_LIBM, "ENVBUILD_ALLOW": "environment.GLIBC_TUNABLES"}
    code, out, err = start(other, "sh", "-c", "echo ran", environment=variables)
    assert (code, out) == (78, "")
    meaning = "glibc's maths library computes other bits here (CPU dispatch or GLIBC_TUNABLES)"
    assert failed(other)["fingerprint.libm"] == meaning
    assert "fingerprint.python.random" not in failed(other)
    assert meaning in err
    assert "delete pylock.digits.fingerprint.json and run again" in err

    allowed.mkdir()
    fingerprint.pass_to_container(path, lock, allowed)
    variables["ENVBUILD_ALLOW"] += ",fingerprint.libm"
    code, out, err = start(allowed, "sh", "-c", "echo ran", environment=variables)
    assert (code, out, verdict(allowed)["verified"]) == (0, "ran\n", "overridden")


@pytest.mark.engine
@pytest.mark.both_engines
def test_only_the_entry_point_computes(start: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """The second gate, which every process may meet, does without; a damaged expectation is refused."""
    assert start(tmp_path / "a", "-c", "print('ran')", entrypoint=[ENV_PYTHON])[:2] == (0, "ran\n")
    assert not (tmp_path / "a" / fingerprint.FOUND).exists()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / fingerprint.EXPECTED).write_text("{")
    code, out, err = start(tmp_path / "b", "sh", "-c", "echo ran")
    assert (code, out) == (78, "")
    assert "/run/envbuild/expected-fingerprint.json cannot be read: Expecting property name" in err


@pytest.mark.network
def test_a_framework(tmp_path: Path) -> None:
    """TensorFlow in an environment with the hook: the hook stays out, and other kernels count as TensorFlow's."""
    lock = make_lock(environment={"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"})
    tree = make_tree(tmp_path, lock, paths=[environment("tensorflow")])
    library = str(tree.root / "opt/envbuild/lib")

    def compute(onednn: str) -> dict[str, Any]:
        variables = {**lock.environment, "PATH": "/usr/bin:/bin", "TF_ENABLE_ONEDNN_OPTS": onednn}
        return fingerprint_check.compute(tree.python, ["numbers", "tensorflow"], variables, library=library)

    parts = compute("1")
    names = ("convolution", "functions", "matmul", "random", "scatter")
    assert sorted(part for part in parts if part.startswith("tensorflow")) == [f"tensorflow.cpu.{n}" for n in names]
    assert {"libm", "numpy.matmul", "python.random"} <= set(parts)
    assert list(tree.run.iterdir()) == []
    moved = fingerprint_check.compare(parts, compute("0"), "pylock.digits.toml")
    assert {check.field.rpartition(".")[2] for check in moved} == {"convolution", "functions", "matmul"}
    assert moved[-1].meaning == "TensorFlow (oneDNN or Eigen) computes other matrix products on this CPU"
