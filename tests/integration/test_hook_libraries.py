"""NVIDIA's libraries as loaded, with real shared objects: what stops a program, and when."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.hardware import Cuda
from envbuild.lockfile.model import Determinism
from tests.support.runtime import Tree, make_lock, make_tree

CUDA = Cuda(version="12.9", cudnn="8.9.7.29", nccl="2.27.3", driver="525.60.13")
SOURCES = {
    "libcudnn.so.8": "#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 8907; }",
    "libnccl.so.2": "int ncclGetVersion(int *found) { *found = 22703; return 0; }",
}
TORCH = (
    "import ctypes, os\n__version__ = '2.9'\n"
    "def load(path): return ctypes.CDLL(path)\n"
    "if 'EARLY' in os.environ: load(os.environ['EARLY'])\n"
    "def manual_seed(n): pass\ndef initial_seed(): return 42\n"
    "def set_num_threads(n): pass\ndef get_num_threads(): return 1\n"
    "def set_num_interop_threads(n): pass\ndef get_num_interop_threads(): return 1\n"
)
LATE = "import torch; print('started', flush=True); torch.load({path!r}); print('done')"
REFUSED = (
    "envbuild: a library of NVIDIA's is not the locked one — the program was stopped\n  {message}\nwhat to do:\n"
    "  start without what leads to another copy: LD_LIBRARY_PATH, LD_PRELOAD, mounts over /opt/env\n"
    "  set determinism.strict: false in spec.yaml to be warned only, then: envbuild lock spec.yaml && envbuild build\n"
)


def compile_library(folder: Path, name: str, source: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    compiler = shutil.which("cc")
    assert compiler is not None, "these tests need a C compiler (cc)"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / name), f"-Wl,-soname,{name}"]
    subprocess.run(command, input=source, text=True, check=True)
    return str(folder / name)


def tree_for(folder: Path, *, strict: bool = True, cuda: Cuda | None = CUDA) -> Tree:
    """An environment with cuDNN, NCCL and a PyTorch that loads what it is reported to."""
    determinism = Determinism(level="seeds", seed=42, threads=1, strict=strict)
    tree = make_tree(folder, make_lock(cuda=cuda, determinism=determinism))
    for name, source in SOURCES.items():
        compile_library(tree.site / "nvidia", name, source)
    (tree.site / "torch").mkdir()
    (tree.site / "torch" / "__init__.py").write_text(TORCH)
    return tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return tree_for(tmp_path_factory.mktemp("tree"))


@pytest.fixture(autouse=True)
def _fresh_records(tree: Tree) -> None:
    for path in tree.run.iterdir():
        path.unlink()


def recorded(tree: Tree) -> dict[str, dict[str, Any]]:
    (record,) = (json.loads(path.read_text()) for path in tree.run.glob("process-*.json"))
    return {entry["name"]: entry for entry in record["libraries"]}


def test_as_locked(tree: Tree) -> None:
    """The locked copies pass, early and late, and are recorded with the versions they report."""
    cudnn, nccl = (str(tree.site / "nvidia" / name) for name in SOURCES)
    done = tree.execute("-c", LATE.format(path=cudnn), variables={"EARLY": nccl})
    assert (done.stdout, done.stderr) == ("started\ndone\n", "")
    assert {name: (entry["version"], entry["locked"]) for name, entry in recorded(tree).items()} == {
        "libcudnn.so.8": ("8.9.7", "8.9.7.29"),
        "libnccl.so.2": ("2.27.3", "2.27.3"),
    }


def test_a_copy_loaded_with_the_framework(tree: Tree, tmp_path: Path) -> None:
    """A copy from elsewhere stops the program before it does anything with the framework."""
    copy = compile_library(tmp_path, "libcudnn.so.8", SOURCES["libcudnn.so.8"])
    done = tree.execute("-c", "import torch; print('ran')", variables={"EARLY": copy}, check=False)
    message = f"{copy}: is loaded from outside {tree.root}/opt/env, not from a locked wheel"
    assert (done.returncode, done.stdout, done.stderr) == (78, "", REFUSED.format(message=message))
    assert recorded(tree)["libcudnn.so.8"]["path"] == copy


def test_a_version_loaded_at_the_first_convolution(tree: Tree, tmp_path: Path) -> None:
    """Another version that is loaded late is found at the end: the program's code is 78, whatever it was."""
    wrong = SOURCES["libcudnn.so.8"].replace("8907", "8800")
    copy = compile_library(tree.site / "other", "libcudnn.so.8", wrong)
    done = tree.execute("-c", LATE.format(path=copy) + "; raise SystemExit(3)", check=False)
    message = f"{copy}: is version 8.8.0, locked is 8.9.7.29"
    assert (done.returncode, done.stdout) == (78, "started\ndone\n")
    assert done.stderr == REFUSED.format(message=message)


def test_a_library_replaced_in_use(tree: Tree) -> None:
    """A file that is not there any more cannot be the one that was locked."""
    copy = compile_library(tree.site / "gone", "libnccl.so.2", SOURCES["libnccl.so.2"])
    program = f"import os, torch; torch.load({copy!r}); os.unlink({copy!r})"
    done = tree.execute("-c", program, check=False)
    assert (done.returncode, done.stderr) == (
        78,
        REFUSED.format(message=f"{copy} (deleted): was replaced while it is in use"),
    )


def test_only_warned_of(tmp_path: Path) -> None:
    """Without strictness there is a warning, and the record has it."""
    lenient = tree_for(tmp_path / "tree", strict=False)
    copy = compile_library(tmp_path, "libcudnn.so.8", SOURCES["libcudnn.so.8"])
    done = lenient.execute("-c", LATE.format(path=copy))
    assert done.stdout == "started\ndone\n"
    message = f"{copy}: is loaded from outside {lenient.root}/opt/env, not from a locked wheel"
    assert done.stderr == f"envbuild: warning: {message}\n"
    assert recorded(lenient)["libcudnn.so.8"]["problem"] == message.removeprefix(f"{copy}: ")


def test_only_recorded(tmp_path: Path) -> None:
    """A lock that knows of no CUDA reports nothing about it; the record does."""
    plain = tree_for(tmp_path / "tree", cuda=None)
    copy = compile_library(tmp_path, "libcudnn.so.8", SOURCES["libcudnn.so.8"])
    done = plain.execute("-c", LATE.format(path=copy))
    assert (done.stdout, done.stderr) == ("started\ndone\n", "")
    assert recorded(plain)["libcudnn.so.8"]["version"] == "8.9.7"


def test_the_front_of_version_9_is_not_woken(tmp_path: Path) -> None:
    """cuDNN 9's front, which loads the rest when it is first called, is asked once the program has called it."""
    tree = tree_for(tmp_path / "tree", cuda=Cuda(version="12.9", cudnn="9.10.2.21", driver="525.60.13"))
    source = SOURCES["libcudnn.so.8"].replace("8907", "90800")
    front = compile_library(tree.site / "nine", "libcudnn.so.9", source)
    graph = compile_library(tree.site / "nine", "libcudnn_graph.so.9", "int unused;")
    assert tree.execute("-c", LATE.format(path=front)).stderr == ""
    assert recorded(tree)["libcudnn.so.9"]["version"] == ""
    next(tree.run.iterdir()).unlink()
    done = tree.execute("-c", LATE.format(path=graph), variables={"EARLY": front}, check=False)
    message = f"{front}: is version 9.8.0, locked is 9.10.2.21"
    assert (done.returncode, done.stdout, done.stderr) == (78, "started\ndone\n", REFUSED.format(message=message))


def test_cost(tree: Tree) -> None:
    """A process without NVIDIA's libraries pays less than a millisecond for the check, at best of 40."""
    program = (
        "from time import thread_time; from _envbuild.hook import libraries\n"
        "class P:\n    class config: CUDA = {}\n    modules = {}; libraries = []\n"
        "times = []\n"
        "for _ in range(40):\n"
        "    start = thread_time(); libraries.check(P); times.append(thread_time() - start)\n"
        "print(1000 * min(times))\n"
    )
    assert float(tree.execute("-c", program).stdout) < 1
