"""Lines that take all variables of the environment (envbuild/verification/causes/environments.py)."""

from __future__ import annotations

import pytest

from envbuild.verification.causes.environments import lines_with_all_variables


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("for name in os.environ: pass", True),
        ("for name, value in os.environ.items(): pass", True),
        ("names = [n for n in environ if n]", True),
        ("names = list(os.environ)", True),
        ("text = json.dumps(dict(os.environ))", True),
        ("def features(env): pass\nfeatures(os.environ)", True),
        ("kept = {**os.environ}", True),
        ("kept = os.environ.copy()", True),
        ("home = os.environ['HOME']", False),
        ("home = os.environ.get('HOME')", False),
        ("os.environ.update(A='1')", False),
        ("found = 'HOME' in os.environ", False),
        ("for name in sorted(os.environ): pass", False),
        ("for name, value in sorted(os.environ.items()): pass", False),
        ("subprocess.run(['env'], env={**os.environ, 'A': '1'})", False),
        ("subprocess.run(['env'], env=os.environ.copy())", False),
        ("from os import environ", False),
        ("for name in (", False),
    ],
)
def test_lines_with_all_variables(source: str, *, found: bool) -> None:
    assert lines_with_all_variables(source) == ((source.count("\n") + 1,) if found else ())
