"""The option that a hint names leaves out what the hint is about, and nothing else of the same folder."""

from __future__ import annotations

import shlex

import pytest

from envbuild.verification.channels import is_ignored
from envbuild.verification.masking.ignoring import ignoring


@pytest.mark.parametrize(
    ("name", "path", "other"),
    [
        ("a.log", "a.log", "b.log"),
        ("my run/a.log", "my run/a.log", "my run/b.log"),
        ("a[1].txt", "a[1].txt", "a1.txt"),
        ("what?.txt", "what?.txt", "whats.txt"),
        ("runs/exp_⟨date⟩/w.npy", "runs/exp_20261128-091500/w.npy", "runs/exp_20261128-091500/v.npy"),
        ("artifacts_⟨date⟩.zip", "artifacts_20261128.zip", "weights_20261128.zip"),
        ("/tmp/tmp⟨name⟩/w*.npy", "/tmp/tmpab3_x9/w*.npy", "/tmp/tmpab3_x9/w1.npy"),
    ],
)
def test_the_option_works_as_it_is_written(name: str, path: str, other: str) -> None:
    """A shell takes it apart; names that each run has another one of are matched by what they have in common."""
    option, pattern = shlex.split(ignoring(name))
    assert option == "--ignore"
    assert is_ignored(path, [pattern])
    assert not is_ignored(other, [pattern])


def test_metrics_are_named_as_such() -> None:
    """A file may have the same name."""
    assert ignoring("charts/SPS", metric=True) == "--ignore metric:charts/SPS"
