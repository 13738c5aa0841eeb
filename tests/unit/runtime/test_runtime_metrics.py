"""Keras' metrics as the hook writes them, with a Keras that only pretends."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.runs.results.metrics import of_keras
from envbuild.runtime.hook.frameworks import metrics_keras


class Process:
    """As much of the hook's process as the watcher needs."""

    def __init__(self, folder: Path, recorded: bool = True) -> None:
        self.folder, self.recorded, self.path = str(folder), recorded, ""
        self.failed: list[str] = []

    def guarded(self, what: str, action: Any, *, vital: bool = True) -> None:
        try:
            action()
        except Exception as error:
            self.failed.append(f"{what}, vital {vital}: {error}")


def keras() -> Any:
    class History:
        def on_epoch_end(self, epoch: int, logs: Any = None) -> str:
            """Keras' own words."""
            return f"epoch {epoch}"

    return SimpleNamespace(callbacks=SimpleNamespace(History=History))


def test_each_epoch_is_a_line(tmp_path: Path) -> None:
    """A training that continues another is the same one; what is no number is left out; Keras sees no change."""
    process, module = Process(tmp_path), keras()
    metrics_keras.set_up(module, process)
    metrics_keras.set_up(module, process)
    end = module.callbacks.History().on_epoch_end
    assert [end(0, {"loss": 0.5, "name": "x"}), end(1, {"loss": float("nan")}), end(2)] == [
        "epoch 0", "epoch 1", "epoch 2"
    ]  # fmt: skip
    end(0, {"loss": 0.25})
    assert end.__doc__ == "Keras' own words."
    assert process.failed == []
    assert (tmp_path / f"metrics-{os.getpid()}.jsonl").read_text().count("\n") == 4
    assert of_keras(tmp_path) == [("loss", "keras", ((0, 0.5), (1, "nan"))), ("loss (fit 2)", "keras", ((0, 0.25),))]


def test_nothing_of_it_reaches_the_program(tmp_path: Path) -> None:
    """Where the folder is gone the epoch ends as ever; without a folder, or in another Keras, nothing is watched."""
    process, module = Process(tmp_path / "gone"), keras()
    metrics_keras.set_up(module, process)
    assert module.callbacks.History().on_epoch_end(0, {"loss": 1}) == "epoch 0"
    path = tmp_path / "gone" / f"metrics-{os.getpid()}.jsonl"
    assert process.failed == [f"metrics, vital False: [Errno 2] No such file or directory: '{path}'"]
    plain = keras()
    metrics_keras.set_up(plain, Process(tmp_path, recorded=False))
    assert not hasattr(plain.callbacks.History.on_epoch_end, "envbuild_metrics")
    metrics_keras.set_up(SimpleNamespace(), process)


def test_a_forked_child_has_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes never write into one file, and each counts its own trainings."""
    metrics = metrics_keras.Metrics(Process(tmp_path))  # type: ignore[arg-type]
    metrics.add(0, {"loss": 1})
    monkeypatch.setattr(os, "getpid", lambda: 7)
    metrics.process.path = "fork 1"
    metrics.add(0, {"loss": 2})
    assert (tmp_path / "metrics-7.jsonl").read_text() == (
        '{"process": "fork 1", "fit": 1, "epoch": 0, "values": {"loss": 2.0}}\n'
    )
