"""Locks of pipelines: the digest of a file that is compared itself is no result of its own, any other one is."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from envbuild.verification.content import Content, compare, read_file
from envbuild.verification.masking.masks import Masks

_NOW = 1_795_784_283.0
_TIMES = 0.25, 0.31
_SPACY = """evaluate:
  cmd: python -m weasel run evaluate
  outs:
    - path: metrics/metrics.json
      md5: {md5}
"""
_DVC = """schema: '2.0'
stages:
  train:
    cmd: python train.py
    outs:
    - path: metrics/metrics.json
      hash: md5
      md5: {md5}
      size: {size}
"""


def _read(folder: Path, name: str, text: str, metrics: str, *, known: bool = True) -> Content | None:
    """Return what a lock is next to a file of metrics, which the run is known to have left."""
    (folder / "metrics").mkdir(parents=True)
    (folder / "metrics" / "metrics.json").write_text(metrics)
    digest = hashlib.sha256(metrics.encode()).hexdigest()
    files = {digest: "metrics/metrics.json"} if known else {}
    md5 = hashlib.md5(metrics.encode()).hexdigest()
    (folder / name).write_text(text.format(md5=md5, size=len(metrics)))
    return read_file(folder / name, Masks(_NOW).with_files((), lambda: files))


def _equal(one: Content | None, other: Content | None) -> bool:
    assert one is not None
    assert other is not None
    return compare(one, other).same


@pytest.mark.parametrize(("name", "text"), [("project.lock", _SPACY), ("dvc.lock", _DVC)])
def test_the_digest_of_a_file_that_the_run_left_is_its_name(tmp_path: Path, name: str, text: str) -> None:
    """The file has a time in it, and is compared without that: so is its digest, and its size."""
    metrics = [json.dumps({"loss": 0.5, "train_time": each * 10**at}) for at, each in enumerate(_TIMES)]
    one, other = (_read(tmp_path / str(at), name, text, each) for at, each in enumerate(metrics))
    assert _equal(one, other)
    assert one is not None
    assert list(one.left_out) == ["digest of metrics/metrics.json"]


@pytest.mark.parametrize(("name", "text"), [("project.lock", _SPACY), ("dvc.lock", _DVC)])
@pytest.mark.parametrize("change", ["of nothing", "unknown", "other size", "other name", "other path", "link"])
def test_any_other_digest_counts(tmp_path: Path, name: str, text: str, change: str) -> None:
    """That of an earlier state, of a file that is not compared, in another file, or of one elsewhere."""
    if change == "other size" and name == "project.lock":
        return
    found = []
    for at, time in enumerate(_TIMES):
        metrics, folder, known = json.dumps({"loss": 0.5, "train_time": time}), tmp_path / str(at), True
        written = text
        if change == "of nothing":
            written = text.replace("{md5}", hashlib.md5(str(time).encode()).hexdigest())
        elif change == "other size":
            written = text.replace("{size}", str(100 + at))
        elif change == "unknown":
            known = False
        elif change == "other path":
            (tmp_path / "metrics.json").write_text(metrics)
            written = text.replace("metrics/metrics.json", "../metrics.json")
        elif change == "link":
            written = text.replace("metrics/metrics.json", "linked.json")
            folder.mkdir(exist_ok=True)
            (folder / "linked.json").symlink_to("metrics/metrics.json")
        of_lock = "other.lock" if change == "other name" else name
        found.append(_read(folder, of_lock, written, metrics, known=known))
    assert not _equal(*found)


def test_which_file_a_digest_is_of_counts(tmp_path: Path) -> None:
    """A digest is replaced by the name of its file: another path next to it is another lock."""
    metrics = json.dumps({"train_time": 0.25})
    one = _read(tmp_path / "0", "dvc.lock", _DVC, metrics)
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "other.json").write_text(metrics)
    other = _read(tmp_path / "1", "dvc.lock", _DVC.replace("metrics/metrics.json", "other.json"), metrics)
    assert not _equal(one, other)
