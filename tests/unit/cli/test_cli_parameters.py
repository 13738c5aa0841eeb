"""What ``envbuild show`` states of parameters and files."""

from __future__ import annotations

from typing import Any

import pytest

from envbuild.cli.render import records
from envbuild.record.processes import Parameter, ParameterSet, ReadFile

SHA = "ab" * 32


def lines(sets: list[ParameterSet] | None = None, **files: Any) -> list[tuple[str, ...]]:
    empty: dict[str, Any] = {"configs": (), "modules": (), "objects": ()}
    return list(records.files(sets or [], **{**empty, **files}))


def a_set(**values: tuple[Any, str]) -> ParameterSet:
    table = {name: Parameter(value=value, source=source) for name, (value, source) in values.items()}
    return ParameterSet(parser="argparse", program="train.py", values=table)


def test_given_parameters_come_first() -> None:
    """What somebody chose is above the defaults, names and values in columns, on one line each."""
    found = lines(
        [a_set(epochs=(3, "default"), lr=(0.01, "command line"), name=("a\nb", "environment"), n=("", "default"))]
    )
    assert found == [
        ("parameter", "lr    ", "0.01", "command line"),
        ("parameter", "name  ", "a\\nb", "environment"),
        ("parameter", "epochs", "3   ", "default"),
        ("parameter", "n     ", '""  ', "default"),
    ]


def test_long_values_and_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen shows the beginning; the rest is in the record."""
    monkeypatch.setattr(records, "_LINES", 2)
    found = lines([a_set(a=("x" * 100, "default"), b=(1, "default"), c=([1, {"k": None}], "default"))])
    assert found[0] == ("parameter", "a", "x" * 59 + "…", "default")
    assert found[2:] == [("", "1 more: envbuild show RUN --json")]


def test_files() -> None:
    """Configurations and foreign objects by digest, modules by number and name."""
    configs = [ReadFile(path="conf/a.yaml", size=1, sha256=SHA), ReadFile(path="b.json", size=1, sha256=None)]
    modules = [ReadFile(path=f"{name}.py", size=1, sha256=SHA) for name in "abcdef"]
    objects = [ReadFile(path="/tmp/x.so", size=1, sha256=SHA)]
    assert lines(configs=configs, modules=modules, objects=objects) == [
        ("config", "conf/a.yaml", "sha256:abababababab…"),
        ("config", "b.json     ", "no digest"),
        ("modules", "6 files", "a.py, b.py, c.py, d.py, e.py, …"),
        ("object", "/tmp/x.so", "sha256:abababababab…"),
    ]
    assert lines() == []
