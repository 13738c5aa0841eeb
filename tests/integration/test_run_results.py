"""What a record states of saved models and metrics, in a real image: the reader's container, and what it costs."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

import pytest

from tests.support.cli import Project

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

# The image has neither NumPy nor any library for these formats: the bytes are made by hand.
SAVE = """\
import json, struct, sys, time, zipfile
values = struct.pack("<6f", *range(6))
header = json.dumps({"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}).encode()
open("m.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + values)
head = str({"descr": "<f4", "fortran_order": False, "shape": (2, 3)}).encode() + b"\\n"
array = b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head)) + head + values
with zipfile.ZipFile("m.npz", "w") as archive:
    member = zipfile.ZipInfo("w.npy")
    member.extra = struct.pack("<HHBL", 0x5455, 5, 1, time.time_ns() & 0xFFFFFFFF)  # when it was written
    archive.writestr(member, array)
open("bad.h5", "wb").write(b"\\x89HDF\\r\\n\\x1a\\n" + bytes(64))
print(json.dumps({"step": 1, "loss": 0.1 + 0.2}), flush=True)
print("not a metric")
"""


def record_of(project: Project) -> tuple[dict[str, Any], str]:
    """Run the script and return its record, and what it printed."""
    done = project.must("run", "train.py")
    return dict(project.must("runs", "--json").json[0]), done.out


def test_tensors_and_metrics_of_a_real_run(project: Project) -> None:
    """Tensors have one digest in every format, damage is named, lines are metrics, and nothing of it is printed."""
    project.write("train.py", SAVE)
    record, out = record_of(project)
    assert out == '{"step": 1, "loss": 0.30000000000000004}\nnot a metric\n'
    digest = hashlib.sha256(struct.pack("<6f", *range(6))).hexdigest()[:32]
    outputs = {output["path"]: output for output in record["outputs"]}
    for name in ("m.safetensors", "m.npz"):
        assert outputs[name]["tensors"] == {"w": {"dtype": "float32", "shape": [2, 3], "digest": digest}}
        assert len(outputs[name]["content"]) == 32
    assert outputs["bad.h5"]["unread"] == "the environment has no h5py, which reads HDF5"
    assert record["metrics"] == {"loss": [[1, 0.30000000000000004]]}
    assert record["metric_sources"] == {"loss": "standard output"}
    first = record["id"]
    record, _ = record_of(project)
    assert (record["same_bits_as"], record["same_tensors_in"]) == (first, ["m.npz"])
    shown = project.must("show", record["id"]).out
    assert "metric    loss  0.30000000000000004  step 1  1 value\n" in shown
    assert "          same tensors in other bytes: m.npz\n" in shown
    process = project.folder / ".envbuild" / "runs" / first / "process"
    assert set(json.loads((process / "tensors.json").read_text())) == set(outputs)


def test_other_weights_are_another_result(project: Project) -> None:
    """A weight that varies from run to run is found in every file that holds it."""
    project.write("train.py", SAVE.replace("*range(6))", "*range(5), time.time() % 1)"))
    first, _ = record_of(project)
    second, _ = record_of(project)
    assert (second["differs_from"], second["differs_in"]) == (first["id"], ["m.npz", "m.safetensors"])


def test_the_reader_costs_one_more_container(project: Project) -> None:
    """A saved model makes a run as much longer as another start of a container takes, and half a second at most.

    What others do on this machine only adds to a time: after three runs of each it is measured on, up to twelve.
    """
    times = {"m.data": 60.0, "m.safetensors": 60.0}
    for number in range(12):
        for name in times:
            text = SAVE.replace("m.safetensors", name).replace("bad.h5", "bad").replace("m.npz", "m")
            project.write("train.py", text)
            record, _ = record_of(project)
            times[name] = min(times[name], record["duration"])
        within = times["m.safetensors"] < 2 * times["m.data"] + 0.5
        if number >= 2 and within:
            break
    assert within, times
