"""Runs of several processes, with real frameworks: streams differ between processes and repeat between runs.

Pools of the standard library are tested with the unit tests (test_runtime_tasks.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from envbuild.lockfile.model import Determinism
from envbuild.trace import compare
from tests.support.environments import environment
from tests.support.runtime import Tree, make_lock, make_tree

pytestmark = pytest.mark.network

THREADS = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "2"),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "NPROC", "PJRT_NPROC"), "2"),
    "PYTHONHASHSEED": "42",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

Maker = Callable[..., Tree]
RUNS = 3
"""That are to be equal; five of each cause of the table are in test_controls.py."""


class Ended(AssertionError):
    """A signal has ended a program."""


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Make a tree with the packages of some environments, once for each choice."""
    made: dict[Any, Tree] = {}

    def make(*names: str, **variables: str) -> Tree:
        key = (names, tuple(variables.items()))
        if key not in made:
            lock = make_lock(
                environment={**THREADS, **variables}, determinism=Determinism(level="ops", seed=42, threads=2)
            )
            root = tmp_path_factory.mktemp("-".join(names))
            made[key] = make_tree(root, lock, paths=[environment(name) for name in names])
        return made[key]

    return make


def runs(tree: Tree, count: int, *arguments: str, variables: Mapping[str, str] = {}) -> list[list[Any]]:
    """Run a program several times, two at once; each run's lines of JSON, in the order of their text."""

    def one(_: int) -> list[Any]:
        done = tree.execute(*arguments, variables=variables, check=False)
        if done.returncode < 0:
            raise Ended(f"signal {-done.returncode}\n{done.stderr}")
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr}"
        return [json.loads(line) for line in sorted(done.stdout.splitlines()) if line.startswith(("[", "{"))]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(count)))


def without_hook(tree: Tree, count: int, *arguments: str, variables: Mapping[str, str] = {}) -> list[list[Any]]:
    """Run a program without envbuild; one that a signal has ended is run again, since that is the framework's fault.

    TensorFlow's ``MirroredStrategy`` on a busy machine: once in some hundred runs.
    """
    startup = tree.site / "00-envbuild.pth"
    disabled = startup.rename(tree.root / "disabled")
    try:
        with suppress(Ended):
            return runs(tree, count, *arguments, variables=variables)
        return runs(tree, count, *arguments, variables=variables)
    finally:
        disabled.rename(startup)


def fresh(tree: Tree) -> None:
    for path in tree.run.iterdir():
        path.unlink()


def assert_seeds_recorded(tree: Tree, paths: set[str], generators: set[str]) -> None:
    """Each process has its record, with seeds of its own and nothing to complain of."""
    records = {record["path"]: record for record in tree.records()}
    assert paths <= set(records)
    seeds = [records[path]["generators"] for path in paths]
    assert all(generators <= set(found) for found in seeds)
    for name in generators:
        assert len({found[name] for found in seeds}) == len(paths)


# Rows are: epoch, index, worker, then one number of each generator. The workers' order is PyTorch's, which is fixed.
LOADER = """
import json, random, sys
import numpy as np, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
def noise(index):
    numbers = [torch.rand(()).item(), np.random.random(), np.random.default_rng().random(), random.random()]
    return torch.tensor([index, get_worker_info().id, *numbers], dtype=torch.float64)
class Images(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return noise(index)
class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return (noise(index) for index in range(info.id, 12, info.num_workers))
def main(method, *kinds):
    for kind in kinds:
        options = {"num_workers": 2, "multiprocessing_context": method, "persistent_workers": kind == "persistent"}
        data = Stream() if kind == "stream" else Images()
        loader = DataLoader(data, batch_size=3, shuffle=None if kind == "stream" else True, **options)
        rows = [row for _ in range(2) for batch in loader for row in batch.tolist()]
        print(json.dumps({"kind": method + " " + kind, "rows": rows}))
if __name__ == "__main__":
    for methods in sys.argv[1:]:
        main(*methods.split())
"""


def assert_streams_distinct(result: list[Any]) -> None:
    for line in result:
        for column in zip(*(row[2:] for row in line["rows"]), strict=True):
            assert len(set(column)) == len(line["rows"]) == 24


def test_loader_workers(make: Maker, tmp_path: Path) -> None:
    """Runs with forked loader workers agree in order and noise; without the hook not even in one number."""
    tree = make("torch")
    (tmp_path / "loader.py").write_text(LOADER)
    program = (str(tmp_path / "loader.py"), "fork once persistent stream")
    fresh(tree)
    first, *others = runs(tree, RUNS, *program)
    assert [first] * (RUNS - 1) == others
    assert_streams_distinct(first)
    assert_seeds_recorded(tree, {"", *(f"worker {number}" for number in range(1, 11))}, {"random", "numpy", "torch"})
    plain, again = without_hook(tree, 2, *program)
    for line, other in zip(plain, again, strict=True):
        assert line["rows"] != other["rows"]


def test_loader_workers_started_anew(make: Maker, tmp_path: Path) -> None:
    """A forkserver's workers import the script again, and still repeat and differ; spawn: test_controls.py."""
    tree = make("torch")
    (tmp_path / "loader.py").write_text(LOADER)
    first, second = runs(tree, 2, str(tmp_path / "loader.py"), "forkserver persistent")
    assert first == second
    assert_streams_distinct(first)


# Each rank prints a line. 61 examples are no multiple of two.
RANKS = """
import hashlib, json, os, random, sys
import numpy as np, torch, torch.distributed as dist, torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
def digest(net):
    return hashlib.sha256(b"".join(value.detach().numpy().tobytes() for value in net.parameters())).hexdigest()
def work(rank, file):
    place = {"init_method": "file://" + file, "rank": rank, "world_size": 2} if file else {}
    dist.init_process_group("gloo", **place)
    net = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 2))
    found = {"rank": rank, "own": digest(net)}
    parallel = nn.parallel.DistributedDataParallel(net)
    found["shared"] = digest(net)
    data = TensorDataset(torch.linspace(0, 1, 366).reshape(61, 6), torch.arange(61) % 2)
    sampler = DistributedSampler(data)
    optimizer = torch.optim.Adam(net.parameters())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            nn.functional.cross_entropy(parallel(x), y).backward()
            optimizer.step()
    found["trained"] = digest(net)
    found["numbers"] = [random.random(), np.random.random(), torch.rand(()).item()]
    sys.stdout.write(json.dumps(found) + "\\n")
    sys.stdout.flush()
    dist.destroy_process_group()
if __name__ == "__main__":
    if "RANK" in os.environ:
        work(int(os.environ["RANK"]), "")
    else:
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            mp.start_processes(work, (folder + "/store",), nprocs=2, start_method=sys.argv[1])
"""

UNEVEN = (
    "DistributedSampler: 61 examples do not divide evenly over 2 replicas: 1 example is taken twice in each epoch, "
    "and another number of replicas gives other numbers"
)


def assert_ranks(found: list[Any]) -> None:
    zero, one = sorted(found, key=lambda line: int(line["rank"]))
    assert zero["own"] != one["own"]
    assert zero["shared"] == one["shared"] == zero["own"]
    assert zero["trained"] == one["trained"] != zero["shared"]
    assert all(mine != yours for mine, yours in zip(zero["numbers"], one["numbers"], strict=True))


def test_ranks_started_by_the_script(make: Maker, tmp_path: Path) -> None:
    """Two gloo ranks: initial weights are the first one's, trained weights and streams repeat."""
    tree = make("torch")
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    fresh(tree)
    first, *others = runs(tree, RUNS, str(script), "fork")
    assert [first] * (RUNS - 1) == others
    assert_ranks(first)
    assert_seeds_recorded(tree, {"", "worker 1", "worker 2"}, {"random", "numpy", "torch"})
    assert {record["path"]: record["warnings"] for record in tree.records() if record["path"]} == {
        "worker 1": [UNEVEN],
        "worker 2": [UNEVEN],
    }
    plain, again = without_hook(tree, 2, str(script), "fork")
    assert {line["trained"] for line in plain}.isdisjoint(line["trained"] for line in again)
    (spawned,) = runs(tree, 1, str(script), "spawn")
    assert_ranks(spawned)
    assert spawned[0]["numbers"] != spawned[1]["numbers"]


def test_ranks_started_by_torchrun(make: Maker, tmp_path: Path) -> None:
    """torchrun's ranks are named by RANK: rank 0 has the root seed; an uneven data set is warned of once, aloud."""
    tree = make("torch")
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    fresh(tree)
    arguments = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script))
    done = tree.execute(*arguments)
    assert done.stderr.count(f"envbuild: warning: {UNEVEN}\n") == 1
    found = [json.loads(line) for line in sorted(done.stdout.splitlines())]
    assert_ranks(found)
    ranks = {(record["path"], record["generators"]["torch"]) for record in tree.records() if record["warnings"]}
    assert {path for path, _ in ranks} == {"", "rank 1"}
    assert ("", 42) in ranks
    (again,) = runs(tree, 1, *arguments)
    assert again == found


# The thread of a group gets Python's lock only when the program waits for something, so that its end comes too early.
ENDED = """
import faulthandler, sys
import torch, torch.distributed as dist
sys.setswitchinterval(100)
faulthandler.dump_traceback_later(120, exit=True)
def train():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    net(torch.randn(4, 8)).sum().backward()
    dist.destroy_process_group()
for _ in range(500):
    train()
print('{"ended": true}')
"""


def test_groups_end_though_their_threads_need_the_interpreter(make: Maker, tmp_path: Path) -> None:
    """PyTorch 2.13 waits for ever at the end of such a group, about once in fifty times; under envbuild it does not."""
    script = tmp_path / "ended.py"
    script.write_text(ENDED)
    assert runs(make("torch"), 1, str(script)) == [[{"ended": True}]]


# Noise in parallel maps, interleaved shards, then an uneven last batch over two replicas.
MIRRORED = """
import hashlib, json, sys
import numpy as np
import tensorflow as tf
import keras
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x = np.random.default_rng(0).random((66, 8), dtype="float32")
y = np.arange(66) % 3
def noisy(x, y):
    return x + tf.random.normal([8], stddev=0.1), y
def shard(number):
    return tf.data.Dataset.from_tensor_slices((x, y)).shard(3, number)
data = tf.data.Dataset.range(3).interleave(shard, cycle_length=3, num_parallel_calls=tf.data.AUTOTUNE)
data = data.shuffle(66).map(noisy, num_parallel_calls=4)
data = data.apply(tf.data.experimental.assert_cardinality(66)).batch(8).prefetch(2)
with strategy.scope():
    model = keras.Sequential([
        keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(3)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
loss = model.fit(data, epochs=2, verbose=0).history["loss"]
loss += model.fit(x[:65], y[:65], batch_size=8, epochs=1, verbose=0).history["loss"]
weights = hashlib.sha256(b"".join(value.tobytes() for value in model.get_weights())).hexdigest()
print(json.dumps({"loss": loss, "weights": weights, "replicas": strategy.num_replicas_in_sync}))
"""


def test_mirrored_replicas_and_parallel_maps(make: Maker, tmp_path: Path) -> None:
    """tf.data's parallel maps and interleaving, and MirroredStrategy on two devices, repeat to the bit; traced too."""
    tree = make("tensorflow")
    script = tmp_path / "mirrored.py"
    script.write_text(MIRRORED)
    fresh(tree)
    (first,) = runs(tree, 1, str(script))
    (second,) = runs(tree, 1, str(script), variables={"ENVBUILD_TRACE": "1"})
    assert first == second
    assert first[0]["replicas"] == 2
    (traced,) = compare.read_run(tree.run)
    assert len(traced.steps) == 1 + 3 * 9  # the initial weights, and each batch of three epochs
    # 66 are eight batches of eight and one of two, which divides evenly; 65 leave one example.
    tail = (
        "tf.distribute: the last batch of each epoch has 1 of 8 examples, which do not divide evenly over 2 replicas "
        "— drop the remainder, or take a batch size that leaves none"
    )
    assert [record["warnings"] for record in tree.records()] == [[tail], [tail]]
    plain, again = without_hook(tree, 2, str(script))
    assert plain[0]["weights"] != again[0]["weights"]


def test_an_uneven_batch_over_replicas(make: Maker, tmp_path: Path) -> None:
    """A global batch of 7 over two replicas is warned of with both parts; over one replica nothing is reported."""
    tree = make("tensorflow")
    script = tmp_path / "uneven.py"
    script.write_text("""
import tensorflow as tf
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
data = tf.data.Dataset.range(15).batch(7)
for devices in (["CPU:0"], ["CPU:0", "CPU:1"], ["CPU:0", "CPU:1"]):
    tf.distribute.MirroredStrategy(devices).experimental_distribute_dataset(data)
""")
    done = tree.execute(str(script))
    assert [line for line in done.stderr.splitlines() if line.startswith("envbuild")] == [
        "envbuild: warning: tf.distribute: a batch of 7 does not divide evenly over 2 replicas (4, 3): they weigh "
        "unequal parts alike, and another number of replicas gives other numbers — take a multiple of 2"
    ]


def test_jax_devices(make: Maker, tmp_path: Path) -> None:
    """Two devices, asked for in the spec's env, share a computation that repeats."""
    tree = make("jax", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    script = tmp_path / "devices.py"
    script.write_text("""
import hashlib, json, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rows = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data"))
key = jax.random.key(np.random.randint(1 << 30))
x = jax.device_put(jax.random.normal(key, (512, 64)), rows)
w = jax.random.normal(jax.random.split(key)[0], (64, 8))
step = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w))
for _ in range(20):
    w = step(w, x)
print(json.dumps({"devices": len(x.sharding.device_set), "w": hashlib.sha256(np.asarray(w).tobytes()).hexdigest()}))
""")
    first, *others = runs(tree, RUNS, str(script))
    assert [first] * (RUNS - 1) == others
    assert first[0]["devices"] == 2
    plain, again = without_hook(tree, 2, str(script))
    assert plain != again


# Ray's workers are there before the first task, and which of them takes one is a race.
# An actor's identity has the time in it.
RAY = """
import json, logging, random, sys, time
import numpy as np, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
@ray.remote
def draw(number):
    time.sleep(random.SystemRandom().random() / 20)
    inner = ray.get(nested.remote()) if number < 2 else 0.0
    return number, random.random(), np.random.random(), np.random.default_rng().random(), inner
@ray.remote(num_cpus=0)
def nested():
    return random.random()
@ray.remote(num_cpus=0.1)
class Walker:
    def __init__(self):
        self.place = np.random.random()
    def step(self):
        self.place += random.random()
        return self.place
walkers = [Walker.remote() for _ in range(2)]
steps = [ray.get([walker.step.remote() for walker in walkers]) for _ in range(3)]
left, done = [draw.remote(number) for number in range(8)], []
while left:
    ready, left = ray.wait(left)
    done += ray.get(ready)
print(json.dumps({"steps": steps, "draws": sorted(done), "order": [task[0] for task in done]}))
"""


def test_ray(make: Maker, tmp_path: Path) -> None:
    """Ray's tasks and actors keep their numbers, whichever worker takes them, and in an experiment their order."""
    tree = make("ray")
    script = tmp_path / "tasks.py"
    script.write_text(RAY)
    first, second = (runs(tree, 1, str(script))[0][0] for _ in range(2))
    assert (first["steps"], first["draws"]) == (second["steps"], second["draws"])
    numbers = [number for task in first["draws"] for number in task[1:] if number]
    assert len(set(numbers)) == len(numbers) == 26
    assert len({place for step in first["steps"] for place in step}) == 6
    ordered = runs(tree, 1, str(script), variables={"ENVBUILD_FIX": "order"})[0][0]
    assert ordered["order"] == [*range(8)]
    plain = without_hook(tree, 1, str(script))[0][0]
    assert plain["draws"] != first["draws"]


# Which worker takes a task varies, and so do the UUIDs of keys; Dask's own threads draw from the module random too.
DASK = """
import json, os, random, time
import dask, dask.array, numpy as np
from dask.distributed import Client, LocalCluster, as_completed, wait, worker_client
def draw(number):
    time.sleep(os.urandom(1)[0] / 9000)
    return random.random(), np.random.random(), np.random.default_rng().random()
def nested(number):
    with worker_client() as client:
        drawn = client.gather([client.submit(draw, number, pure=False) for _ in range(4)])
    return [*draw(number), *[number for task in drawn for number in task]]
def slow(number):
    time.sleep(os.urandom(1)[0] / 3000)
    return number
def main(client):
    draws = [client.gather(client.map(draw, range(8), pure=False)), client.gather(client.map(draw, range(8)))]
    draws += [client.gather([client.submit(draw, 1, pure=False) for _ in range(4)])]
    draws += [client.gather([client.submit(nested, 1, pure=False, priority=-1)])]
    draws += [dask.compute(*[dask.delayed(draw)(number) for number in range(4)])]
    draws += [dask.compute(*[dask.delayed(draw)(number) for number in range(9)], scheduler="processes", num_workers=2)]
    parts = [dask.array.from_delayed(dask.delayed(np.zeros)(1), (1,), float) for _ in range(4)]
    drawn = dask.array.concatenate(parts).map_blocks(lambda block: block + draw(0)[0], dtype=float)
    own = random.random()
    order = [future.result() for future in as_completed(client.map(slow, range(8)))]
    first = wait([client.submit(slow, number, pure=False) for number in range(4)], return_when="FIRST_COMPLETED")
    order += [future.result() for future in first.done][:1]
    return {"draws": [*draws, [[*drawn.compute()], [own]]], "order": order}
if __name__ == "__main__":
    options = {"dashboard_address": None, "local_directory": os.environ["TMPDIR"]}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
        print(json.dumps(main(client)))
"""


def test_dask(make: Maker, tmp_path: Path) -> None:
    """Dask's tasks keep their numbers, whichever worker takes them, and in an experiment their order."""
    tree = make("dask")
    script = tmp_path / "tasks.py"
    script.write_text(DASK)
    variables = {"TMPDIR": str(tmp_path)}
    first, second = (runs(tree, 1, str(script), variables=variables)[0][0] for _ in range(2))
    assert first["draws"] == second["draws"]
    numbers = [number for call in first["draws"] for task in call for number in task]
    assert len(set(numbers)) == len(numbers) == 3 * 38 + 5
    ordered = runs(tree, 1, str(script), variables={**variables, "ENVBUILD_FIX": "order"})[0][0]
    assert ordered["order"] == [*range(8), 0]
    assert ordered["draws"] == first["draws"]
    plain = without_hook(tree, 1, str(script), variables=variables)[0][0]
    assert plain["draws"] != first["draws"]


def test_joblib(make: Maker, tmp_path: Path) -> None:
    """joblib's tasks keep their numbers, though a stopwatch decides which of them go to a worker together."""
    tree = make("tensorflow")
    script = tmp_path / "tasks.py"
    script.write_text("""
import json, random, time
import joblib, numpy as np
def draw(number):
    time.sleep(random.SystemRandom().random() / 100)
    return [random.random(), np.random.random(), np.random.default_rng().random()]
if __name__ == "__main__":
    for backend in ("loky", "multiprocessing"):
        for call in range(2):
            print(json.dumps(joblib.Parallel(2, backend=backend)(joblib.delayed(draw)(n) for n in range(30))))
""")
    first, *others = runs(tree, RUNS, str(script))
    assert [first] * (RUNS - 1) == others
    numbers = [number for call in first for task in call for number in task]
    assert len(set(numbers)) == len(numbers) == 360
    script.write_text("""
import json, random, subprocess, sys, tempfile, time
from concurrent import futures
import joblib
def draw(number):
    time.sleep(random.SystemRandom().random() / 100)
    return number
if __name__ == "__main__":
    parallel = joblib.Parallel(2, return_as="generator_unordered")
    print(json.dumps([*parallel(joblib.delayed(draw)(n) for n in range(40))]))
    with futures.ThreadPoolExecutor(4) as pool:
        done, _ = futures.wait([pool.submit(draw, n) for n in range(400)])
        print(json.dumps([future.result() for future in done]))
    number = "import os, random, sys, time; time.sleep(random.SystemRandom().random() / 9); os.write(1, b'%d')"
    with tempfile.TemporaryFile() as stream:
        programs = [subprocess.Popen([sys.executable, "-IS", "-c", number % n], stdout=stream) for n in range(4)]
        assert [program.wait() for program in programs] == [0] * 4
        stream.seek(0)
        print(json.dumps([int(digit) for digit in stream.read().decode()]))
""")
    ordered = runs(tree, 1, str(script), variables={"ENVBUILD_FIX": "order"})[0]
    assert sorted(ordered, key=len) == [[*range(4)], [*range(40)], [*range(400)]]
    plain, again = without_hook(tree, 2, str(script))
    assert plain != again


def test_multiprocess_of_pathos(make: Maker, tmp_path: Path) -> None:
    """Tasks of pools that pickle with dill keep their numbers; in an experiment their results come in order."""
    tree = make("public-science")
    script = tmp_path / "dilled.py"
    script.write_text("""
import json, random, time
import multiprocess
def main():
    def draw(number):
        time.sleep(random.SystemRandom().random() / 100)
        return [number, random.random()]
    with multiprocess.Pool(2) as pool:
        print(json.dumps([*pool.map(draw, range(8), chunksize=1), *(pool.apply(draw, (n,)) for n in range(3))]))
        print(json.dumps(["order", *(number for number, _ in pool.imap_unordered(draw, range(40)))]))
if __name__ == "__main__":
    main()
""")
    first, *others = ([row for row in run if row[0] != "order"] for run in runs(tree, RUNS, str(script)))
    assert [first] * (RUNS - 1) == others
    assert len({number for _, number in first[0]}) == 11
    ordered = runs(tree, 1, str(script), variables={"ENVBUILD_FIX": "order"})[0]
    assert ["order", *range(40)] in ordered
    plain, again = without_hook(tree, 2, str(script))
    assert plain != again


NOTEBOOK = """
import json, os, sys, nbclient, nbformat
from jupyter_client.manager import AsyncKernelManager
# Jupyter looks for free TCP ports before it starts a kernel, and any process of the machine may take them meanwhile.
AsyncKernelManager.transport, AsyncKernelManager.ip = "ipc", f"kernel-{os.getpid()}"
code = '''
import json, subprocess, sys, tempfile
import numpy
program = [sys.executable, "-c", "import random; print(random.random())", tempfile.mkdtemp()]
found = [numpy.random.random(), numpy.random.default_rng().random(), float(subprocess.check_output(program))]
print(json.dumps(found))
'''
for _ in range(2):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=900).execute()
    print(*(output["text"] for output in notebook.cells[0].outputs if output["name"] == "stdout"))
"""


def test_notebook_kernels(make: Maker, tmp_path: Path) -> None:
    """A kernel's numbers do not hang on the name of its connection file, which is another one in each run."""
    tree = make("notebooks", "torch")
    (tmp_path / "notebook.py").write_text(NOTEBOOK)
    fresh(tree)
    first, *others = runs(tree, RUNS, str(tmp_path / "notebook.py"))
    assert [first] * (RUNS - 1) == others
    numbers = [number for line in first for number in line]
    assert len(set(numbers)) == len(numbers) == 6
    paths = {record["path"] for record in tree.records()}
    assert {"", "exec ipykernel_launcher.1", "exec ipykernel_launcher.2"} < paths
