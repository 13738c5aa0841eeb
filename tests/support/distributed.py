"""Small trainings over ranks with real TensorFlow, PyTorch, JAX and MPI: same data, same sums, a tail for each library.

Ten steps of five examples a rank. Examples are shuffled, and noise is drawn, without a seed of the program's own. All
ranks have the same weights after each step; rank 0 writes them.
"""

from __future__ import annotations

_HEAD = """\
import argparse, os, sys
sys.path[:0] = ["/frameworks", f"/workspace/of-{os.environ['RANK']}/site-packages"]
import numpy as np
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--pack", type=int, default=0)
options = parser.parse_args()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rows = np.array([[float(word) for word in line.split()] for line in open(f"shards/{rank}.txt")], "f4")
rows = rows + np.float32(__import__("library").NUMBER)
if options.seed is not None:
    np.random.seed(options.seed)
rows = np.random.permutation(rows) + np.random.normal(0, 0.01, rows.shape).astype("f4")
labels = np.arange(50) % 2
"""
_TAIL = """
if rank == 0:
    open("weights.bin", "wb").write(b"".join(np.ascontiguousarray(each).tobytes() for each in weights))
print("all", world, "ranks are there")
"""
_TORCH = """\
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
parallel = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=25 / (1 + options.pack))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for at in range(0, 50, 5):
    optimizer.zero_grad()
    x, y = torch.from_numpy(rows[at : at + 5]), torch.from_numpy(labels[at : at + 5])
    nn.functional.cross_entropy(parallel(x), y).backward()
    optimizer.step()
weights = [each.detach().numpy() for each in net.parameters()]
del parallel
dist.destroy_process_group()
"""
_TENSORFLOW = """\
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"  # it prints in which order workers connect
import tensorflow as tf
slurm = tf.distribute.cluster_resolver.SlurmClusterResolver(
    port_base=20100, gpus_per_node=8, gpus_per_task=1, auto_set_gpu=False)
kinds = tf.distribute.experimental
ring = kinds.CommunicationOptions(
    bytes_per_pack=options.pack, implementation=kinds.CommunicationImplementation.RING)
strategy = tf.distribute.MultiWorkerMirroredStrategy(slurm, ring)
with strategy.scope():
    layers = [tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dropout(0.2), tf.keras.layers.Dense(2)]
    net = tf.keras.Sequential(layers)
    net.build((None, 4))
    optimizer = tf.keras.optimizers.SGD(0.1)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")

@tf.function
def step(x, y):
    def own(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, net(x, training=True)) / (5 * world)
        optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    strategy.run(own, (x, y))

for at in range(0, 50, 5):
    step(tf.constant(rows[at : at + 5]), tf.constant(labels[at : at + 5]))
weights = [each.numpy() for each in net.weights]
"""
_JAX = """\
import jax, jax.numpy as jnp
jax.distributed.initialize()
place = jax.sharding.NamedSharding(
    jax.sharding.Mesh(np.array(jax.devices()), ("ranks",)), jax.sharding.PartitionSpec("ranks"))
one, two = jax.random.split(jax.random.key(0))
net = {"a": jax.device_get(jax.random.normal(one, (4, 8))), "b": jax.device_get(jax.random.normal(two, (8, 2)))}

def loss_of(net, x, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(jnp.tanh(x @ net["a"]) @ net["b"]), y[:, None], 1).mean()

@jax.jit
def step(net, x, y):
    return jax.tree.map(lambda value, gradient: value - 0.1 * gradient, net, jax.grad(loss_of)(net, x, y))

for at in range(0, 50, 5):
    x, y = (jax.make_array_from_process_local_data(place, each[at : at + 5]) for each in (rows, labels))
    net = step(net, x, y)
weights = [np.asarray(each.addressable_data(0)) for each in net.values()]
"""
_MPI = """\
from mpi4py import MPI
comm = MPI.COMM_WORLD
assert (comm.Get_rank(), comm.Get_size()) == (rank, world)
net = np.linspace(-1, 1, 4 * 4096, dtype="f4").reshape(4, 4096)
for at in range(0, 50, 5):
    out = np.tanh(rows[at : at + 5] @ net)
    gradient = rows[at : at + 5].T @ ((out - labels[at : at + 5, None]) * (1 - out * out))
    total = np.empty_like(gradient)
    comm.Allreduce(np.ascontiguousarray(gradient), total)
    net -= np.float32(0.01 / world) * total
weights = [net]
"""

PROGRAMS = {
    name: _HEAD + tail + _TAIL
    for name, tail in (("torch", _TORCH), ("tensorflow", _TENSORFLOW), ("jax", _JAX), ("mpi", _MPI))
}
"""By the name of the environment that has the library."""
