"""Records of runs for tests: a whole one, of which each test changes what it is about."""

from __future__ import annotations

from typing import Any

import msgspec

from envbuild.record.model import (
    Git,
    GuardVerdict,
    LockFacts,
    Options,
    Output,
    Record,
    Script,
    StandardInput,
    Tensor,
    recipe,
)
from envbuild.record.processes import Parameter, ParameterSet, ProcessRecord, ReadFile
from tests.support.hosts import gpu, host

A, B = "01JC" + "0" * 22, "01JD" + "0" * 22


def sha(sign: str) -> str:
    """A digest of one sign."""
    return sign * 64


def parameters(source: str = "default", **values: Any) -> tuple[ParameterSet, ...]:
    """What one parser gave."""
    table = {name: Parameter(value=value, source=source) for name, value in values.items()}
    return (ParameterSet(parser="argparse", program="train.py", values=table),)


def process(**facts: Any) -> ProcessRecord:
    """What the hook recorded of a process."""
    whole = {
        "format": 1, "pid": 8, "parent": 1, "path": "", "seed": 42, "level": "ops", "python": "3.11.2",
        "arguments": ["python", "train.py"], "frameworks": {"numpy": "2.4.6", "torch": "2.13.0"},
        "generators": {"numpy": 42, "torch": 42},
        "switches": [
            {"name": "torch.use_deterministic_algorithms", "wanted": True, "found": True, "ok": True},
            {"name": "torch.set_num_threads", "wanted": 2, "found": 2, "ok": True},
        ],
        "libraries": [
            {"name": "libcudnn", "path": "/opt/env/libcudnn.so.9", "version": "9.3", "locked": "9.3", "problem": ""}
        ],
        "environment_changed": {}, "warnings": [], "left_out": 0, **facts,
    }  # fmt: skip
    return msgspec.convert(whole, ProcessRecord)


def verdict(*checks: dict[str, Any], **facts: Any) -> GuardVerdict:
    """What the guard writes; of each check what a test is about."""
    check = {"locked": "", "found": "", "ok": True, "severity": "hard", "meaning": "", "fix": ""}
    whole = {
        "format": 1, "ok": True, "verified": "yes", "gate": "entrypoint", "lock": "pylock.digits.toml",
        "controls": True, "duration_ms": 40.0, "checks": [{**check, **each} for each in checks], **facts,
    }  # fmt: skip
    return msgspec.convert(whole, GuardVerdict)


def record(identity: str = A, **changes: Any) -> Record:
    """A finished run of which everything is recorded."""
    whole = Record(
        id=identity, state="finished", start="2026-01-02T03:04:05.678Z", end="2026-01-02T03:05:05.678Z", duration=60.0,
        exit_code=0, lock=LockFacts(file="pylock.digits.toml", sha256=sha("1")), image=sha("2"),
        engine={"name": "Docker", "version": "28.5.1"}, command=("python", "train.py"), directory="/workspace",
        script=Script(path="train.py", sha256=sha("3")), standard_input=StandardInput(kind="none"),
        environment={"OMP_NUM_THREADS": "2", "HF_TOKEN": "***"},
        options=Options(network="none", workspace="rw", user="0:0"), inputs={"data": sha("4")},
        git=Git(commit="e" * 40, branch="main", dirty=False, diff_sha256="", untracked=0), gpus="1",
        host=host([gpu()]), verified="yes", verdict=verdict(),
        processes=(process(),), parameters=parameters(learning_rate=0.1, epochs=3),
        configs=(ReadFile(path="conf.json", size=2, sha256=sha("6")),),
        modules=(
            ReadFile(path="train.py", size=9, sha256=sha("3")), ReadFile(path="lib/model.py", size=9, sha256=sha("7")),
        ),
        objects=(ReadFile(path="/tmp/ext.so", size=9, sha256=sha("8")),),
        outputs=(
            Output(
                path="model.npz", change="created", size=9, sha256=sha("9"), content=sha("a"),
                tensors={"kernel": Tensor(dtype="float32", shape=(3,), digest="b" * 32)},
            ),
        ),
        metrics={"val_accuracy": ((0, 0.9), (1, 0.9697))},
    )  # fmt: skip
    made = msgspec.structs.replace(whole, **changes)
    return made if "recipe" in changes else msgspec.structs.replace(made, recipe=recipe(made))


def other_results(**changes: Any) -> Record:
    """The second run, whose model and metric are other ones."""
    tensors = {"kernel": Tensor(dtype="float32", shape=(3,), digest="c" * 32)}
    output = Output(path="model.npz", change="created", size=9, sha256=sha("b"), content=sha("c"), tensors=tensors)
    results = {"outputs": (output,), "metrics": {"val_accuracy": ((0, 0.9), (1, 0.9471))}}
    return record(B, **{**results, **changes})
