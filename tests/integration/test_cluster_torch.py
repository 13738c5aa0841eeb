"""Data-parallel training over two real ranks: equal bits, and a planted difference named with rank, step and cause."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.integration.test_cluster import records, slurm
from tests.support.cli import Project, finish
from tests.support.environments import environment

pytestmark = [pytest.mark.engine, pytest.mark.network]

# Ten steps of five examples a rank. Gradients are added up, so both ranks have the same weights after each step.
TRAINING = """\
import argparse, os, sys
sys.path.insert(0, "/frameworks")
import torch, torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--bucket", type=float, default=25.0)
options = parser.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
rows = [[float(word) for word in line.split()] for line in open(f"shards/{rank}.txt")]
data = TensorDataset(torch.tensor(rows), torch.arange(len(rows)) % 2)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
parallel = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=options.bucket)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in DataLoader(data, batch_size=5):
    optimizer.zero_grad()
    nn.functional.cross_entropy(parallel(x), y).backward()
    optimizer.step()
if rank == 0:
    open("weights.bin", "wb").write(b"".join(each.detach().numpy().tobytes() for each in net.parameters()))
del parallel
dist.destroy_process_group()
"""


def shard(rank: int, *, changed: int = 0) -> str:
    """Fifty examples of four numbers; one number of the examples from a step on is another one."""
    rows = [[(7 * number + rank + column) % 11 / 10 for column in range(4)] for number in range(50)]
    for number in range(5 * (changed - 1), 50) if changed else ():
        rows[number][0] += 0.5
    return "\n".join(" ".join(map(str, row)) for row in rows)


def job(project: Project, *arguments: str) -> str:
    """Train on two ranks, and return the job's identity."""
    number = str(uuid.uuid4().int % 10**9)
    mounted = ("--mount", f"{environment('torch', '3.11')}:/frameworks:ro")
    words = ("run", "--trace", "--network", "host", *mounted, "t.py", *arguments)
    ended = [finish(process) for process in [project.start(*words, **slurm(rank, 2, number)) for rank in range(2)]]
    assert [each.code for each in ended] == [0, 0], ended
    return str(records(project, 2)[0]["id"])


def test_a_shard_of_one_rank_is_named_with_its_step(project: Project) -> None:
    """Three equal jobs; with one rank's data changed from step 4 on that rank, that step and that file are named."""
    project.write("t.py", TRAINING)
    for rank in range(2):
        project.write(f"shards/{rank}.txt", shard(rank))
    first, *others = [job(project) for _ in range(3)]
    for other in others:
        done = project("diff", "--json", first, other)
        assert (done.code, done.json["outcome"], done.json["first"]) == (0, "equal", None), done
    assert "same as" in project.must("runs").out.splitlines()[1]
    # Two ranks' sums have one order, so that other buckets leave equal weights here; they are named all the same.
    done = project("diff", "--json", first, job(project, "--bucket", "0.0001"))
    assert re.match(
        r"DistributedDataParallel: bucket_cap_bytes: 26214400 → 104 \(gradients are summed in other pieces",
        done.json["causes"][0]["sentence"],
    ), done.json["causes"]
    divided = [each["change"] for each in done.json["others"] if "rebuilt_bucket_sizes" in each["what"]]
    assert [each.partition(" (")[0] for each in divided] == ["232 → 104, 128"], done.json["others"]
    assert done.json["outcome"] == "equal"
    project.write("shards/1.txt", shard(1, changed=4))
    done = project("diff", "--json", first, job(project))
    found = done.json["first"]
    assert (found["process"], found["kind"], found["step"]) == ("rank 1", "step", 4), done
    assert found["batch"] is True
    assert found["sentence"].endswith("rank 0 at the same step, where the data was equal")
    assert (done.json["causes"][0]["what"], done.json["causes"][0]["ranks"]) == ("shards/1.txt", [1]), done
    assert "first     rank 1: " in project("diff", first, str(records(project, 2)[1]["id"])).out
