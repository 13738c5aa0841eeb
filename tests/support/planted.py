"""What is planted, and what has to be named: rows for tests/integration/test_plants.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.support import plants
from tests.support.cli import Project
from tests.support.wheels import make_wheel

NOISE = "np.frombuffer(os.urandom(4), 'u4')[0] / 2**32"


@dataclass(frozen=True, kw_only=True)
class Plant:
    """Something that makes two runs of one program differ.

    Attributes:
        edits: what is planted.
        step: where the runs diverge; 0 for before the first step.
        tensor: the first that differs.
        cause: how the sentence about the likeliest cause begins.
        at: a text in the line that is named; empty if none is.
        also: beginnings of other causes that may be called likely.
        options: of ``envbuild verify``.
        thorough: with experiments it is run by ``make thorough``, without them by ``make integration``.
    """

    framework: str
    edits: tuple[tuple[str, str], ...] = ()
    step: int
    tensor: str
    cause: str
    at: str = ""
    also: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    thorough: bool = False


WITHOUT_EXPERIMENTS = ("--no-diagnose",)
"""Where two dozen runs would prove what is proven elsewhere.

A line that draws entropy: in test_cli_verify.py; in a training: by the package that draws. Programs of each framework
are run in experiments by other plants: TensorFlow's with the clock fixed, PyTorch's with memory filled, JAX's with
entropy fixed, in a package and in a pool's workers.
"""
KERAS = "sequential"
FOUND = {
    "keras: an unseeded operation at step 37": Plant(
        framework="tensorflow",
        edits=(
            (
                "#STEP",
                f"if self.step == 37:\n    out = model.get_layer('out').kernel\n    out.assign(out + {NOISE})",
            ),
        ),
        step=37,
        tensor=f"{KERAS}/out/kernel",
        cause="os.urandom() is reached by no seed",
        at="os.urandom",
        options=WITHOUT_EXPERIMENTS,
    ),
    "keras: the learning rate follows the clock": Plant(
        framework="tensorflow",
        edits=(("#BEGIN", "if self.step == 12:\n    model.optimizer.learning_rate = 0.05 + time.perf_counter() % 1"),),
        step=12,
        tensor=f"{KERAS}/hidden/kernel",
        cause="time.perf_counter() is another number in each run",
        at="perf_counter",
    ),
    "tf.data: one element's generator is seeded with the time": Plant(
        framework="tensorflow",
        edits=(
            (
                "#FUNCTION",
                "def noisy(number, a):\n    draws = np.random.default_rng(time.time_ns() if number == 50 else 1)\n"
                "    return a + draws.random(64, 'f4')",
            ),
            (
                "#MAP",
                "load = lambda n, a: tf.ensure_shape(tf.numpy_function(noisy, [n, a], tf.float32), [64])\n"
                "data = data.map(lambda n, a, b: (n, load(n, a), b), num_parallel_calls=2)",
            ),
        ),
        step=4,
        tensor=f"{KERAS}/hidden/kernel",
        cause="time.time_ns() is another number in each run, and becomes a seed",
        at="time_ns",
        thorough=True,
    ),
    "torch: an unseeded operation at step 37": Plant(
        framework="torch",
        edits=(("#STEP", f"if step == 37:\n    net.out.weight.grad += {NOISE}"),),
        step=37,
        tensor="out.weight",
        cause="os.urandom() is reached by no seed",
        at="os.urandom",
        options=WITHOUT_EXPERIMENTS,
    ),
    "torch: threads are summed as they finish": Plant(
        framework="torch",
        edits=(
            ("#HEAD", "from concurrent.futures import ThreadPoolExecutor, as_completed"),
            (
                "#FUNCTION",
                "parts = torch.randn(64, 8, 64, generator=torch.Generator().manual_seed(3)).exp()\n"
                "def part(number):\n    time.sleep(0.001)\n    return parts[number]\npool = ThreadPoolExecutor(32)",
            ),
            (
                "#STEP",
                "if step >= 37:\n    for done in as_completed([pool.submit(part, number) for number in range(64)]):\n"
                "        net.hidden.weight.grad += done.result() / 1000",
            ),
        ),
        step=37,
        tensor="hidden.weight",
        cause="concurrent.futures.as_completed() gives results in the order in which they are done",
        at="in as_completed(",
        also=("concurrent.futures.ThreadPoolExecutor()",),
        options=("--no-diagnose",),
    ),
    "torch: one loader worker seeds itself": Plant(
        framework="torch",
        edits=(
            ("#FUNCTION", "def begin(number):\n    if number == 1:\n        torch.seed()"),
            ("num_workers=0", "num_workers=2, worker_init_fn=begin"),
        ),
        step=2,
        tensor="hidden.weight",
        cause="torch.seed() seeds PyTorch from the system's entropy",
        at="torch.seed()",
        also=("torch.manual_seed (at exit) in process worker",),
        thorough=True,
    ),
    "torch: objects of a set by their address": Plant(
        framework="torch",
        edits=(
            (
                "#FUNCTION",
                "class Term:\n    def __init__(self, value):\n        self.value = value\n"
                # A tuple's hash is made of all bits of its element's address. Where objects themselves lie the low ones
                # decide: in a small set the same in each run, in a large one in one run of two thousand.
                "terms = {(Term(number % 97),) for number in range(2000)}\nlate = 0.0",
            ),
            (
                "#STEP",
                "if step == 9:\n    for (term,) in terms:\n        late = late * 0.9 + term.value\n"
                "    net.out.bias.grad += late / 1000",
            ),
        ),
        step=9,
        tensor="out.bias",
        cause="a loop over a set follows the hashes of its elements",
        at="in terms:",
        options=("--no-diagnose",),
    ),
    "torch: memory that nothing wrote": Plant(
        framework="torch",
        edits=(
            (
                "#STEP",
                "if step == 37:\n    net.out.bias.grad += torch.empty(4, dtype=torch.float64).frexp().mantissa.float()",
            ),
        ),
        step=37,
        tensor="out.bias",
        cause="memory that nothing wrote is read: filled with NaN, it shows in out.bias after step 37",
        at="torch.empty",
    ),
    "torch: the controls are off": Plant(
        framework="torch",
        step=0,
        tensor="hidden.weight",
        cause="the controls were off: no seeds, no deterministic operations",
        options=("--no-controls",),
    ),
    "jax: an unseeded operation at step 37": Plant(
        framework="jax",
        edits=(("#STEP", f"if step == 37:\n    params['out'] = params['out'].at[1, 2].add({NOISE})"),),
        step=37,
        tensor="out",
        cause="os.urandom() is reached by no seed",
        at="os.urandom",
        options=WITHOUT_EXPERIMENTS,
    ),
    "jax: the key is the time": Plant(
        framework="jax",
        edits=(("random.randrange(1 << 30)", "time.time_ns() % (1 << 30)"),),
        step=0,
        tensor="hidden",
        cause="time.time_ns() is another number in each run, and becomes a seed",
        at="time_ns",
        also=("a key made of the time",),
        thorough=True,
    ),
    "jax: one task of a pool seeds its worker anew": Plant(
        framework="jax",
        edits=(
            (
                "#HEAD",
                "import multiprocessing\ndef noisy(number):\n    if number == 50:\n        random.seed()\n"
                "    return [random.random() / 100 for _ in range(64)]",
            ),
            (
                "#DATA",
                "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
                "    x += np.array(pool.map(noisy, range(160), 10), 'f4')",
            ),
        ),
        step=4,
        tensor="hidden",
        cause="random.seed() without a seed seeds the generator from the system's entropy",
        at="random.seed()",
    ),
    "jax: an installed package draws at step 21": Plant(
        framework="jax",
        edits=(("#STEP", "if step == 21:\n    params['hidden'] = params['hidden'] + plants.jitter()"),),
        step=21,
        tensor="hidden",
        cause="os.urandom() draws from the system's entropy, which no seed reaches, and the package plants calls it",
        at="plants.py",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that was changed between two runs.

    Attributes:
        prepare: changes the project for the second run; called with the first one's too.
        edits: changes in the script.
        options: of ``envbuild run``.
        step, tensor: where the runs diverge.
        because: what ``diff`` names, all of it and in this order.
    """

    framework: str
    prepare: Callable[[Project, Project], None] = lambda mine, first: None
    edits: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    step: int
    tensor: str
    because: tuple[str, ...]


def pixel(mine: Project, first: Project) -> None:
    """Change one pixel of the 24th image, which is in the second batch, and accept the data."""
    plants.change_pixel(mine.folder / "data" / "023.raw", 5)
    mine.must("lock", "--update-inputs")


def patch(mine: Project, first: Project) -> None:
    """Lock and build with the next patch version of a library."""
    (mine.folder / "wheels" / "plants-1.0-py3-none-any.whl").unlink()  # locking again keeps a version that is there
    make_wheel(mine.folder / "wheels", "plants", "1.0.1", plants.wheel(plants.PACKAGE.replace("1.0", "1.0625")))
    mine.must("lock")
    mine.must("build")


def threads(mine: Project, first: Project) -> None:
    """Lock and build for two threads."""
    mine.write("spec.yaml", (mine.folder / "spec.yaml").read_text().replace("threads: 1", "threads: 2"))
    mine.must("lock")
    mine.must("build")


def resumed(mine: Project, first: Project) -> None:
    """Leave the checkpoint of the first run where the second finds it."""
    shutil.copy(first.folder / "checkpoint.bin", mine.folder)


def setting(mine: Project, first: Project) -> None:
    """Change a configuration file."""
    mine.write("settings.json", plants.SETTINGS.replace("0.9", "0.8"))


CHANGED = {
    "keras: one pixel": Change(
        framework="tensorflow", prepare=pixel, step=2, tensor=f"{KERAS}/hidden/kernel",
        because=("data/: 1 file changed since A; first: 023.raw",),
    ),
    "keras: the default of a hyperparameter": Change(
        framework="tensorflow", edits=(("default=0.05", "default=0.01"),), step=1, tensor=f"{KERAS}/hidden/kernel",
        because=("learning_rate: 0.05 (default) → 0.01 (default)", "train.py: 1 line changed, line 6"),
    ),
    "keras: controls off": Change(
        framework="tensorflow", options=("--no-controls",), step=0, tensor=f"{KERAS}/hidden/kernel",
        because=("option controls: on → off (seeds and deterministic operations, on or off)",),
    ),
    "torch: a library's patch version": Change(
        framework="torch", prepare=patch, step=1, tensor="hidden.weight", because=("plants: 1.0 → 1.0.1",)
    ),
    "torch: a configuration file": Change(
        framework="torch", prepare=setting, step=2, tensor="hidden.weight",
        because=("settings.json: 1 line changed, line 1",),
    ),
    "torch: the order of sets": Change(
        framework="torch", options=("-e", "PYTHONHASHSEED=7", "--allow", "environment.PYTHONHASHSEED"), step=1,
        tensor="hidden.weight", because=("PYTHONHASHSEED: 42 → 7 (changes the order of sets)",),
    ),
    "torch: the number of threads": Change(
        framework="torch", prepare=threads, step=0, tensor="hidden.weight",
        because=(
            "torch.set_num_threads: 1 → 2",
            "torch.set_num_interop_threads: 1 → 2",
            "determinism.threads: 1 → 2 (changes how work is split: other bits)",
            "OMP_NUM_THREADS: 1 → 2 (changes how work is split: other bits)",
        ),
    ),
    "jax: the script": Change(
        framework="jax", edits=(("jnp.tanh(", "jax.nn.relu("),), step=1, tensor="hidden",
        because=("train.py: 1 line changed, line 22",),
    ),
    "jax: a variable": Change(
        framework="jax", options=("-e", "SCALE=1.5"), step=1, tensor="hidden",
        because=("SCALE: (not there) → 1.5",),
    ),
    "jax: a checkpoint is found": Change(
        framework="jax", prepare=resumed, step=0, tensor="out",
        because=(
            "checkpoint.bin at the start: (not there) → there before (an earlier run left it, and the program read it: "
            "it may have gone on from there)",
        ),
    ),
}  # fmt: skip
