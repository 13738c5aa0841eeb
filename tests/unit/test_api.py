"""The verbs of ``import envbuild``: there, typed, documented, and free until they are used."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import envbuild
from envbuild import api
from envbuild.errors import LockError, UsageError

VERBS = [name for name in envbuild.__all__ if not name.startswith("_")]


def test_the_verbs_are_those_of_the_interface() -> None:
    """Every public function of ``envbuild.api`` is a verb of the package, and no package has the name of one."""
    public = {name for name, value in inspect.getmembers(api, inspect.isfunction) if value.__module__ == api.__name__}
    assert {name for name in public if not name.startswith("_")} == {*VERBS}
    assert [name for name in VERBS if (Path(str(api.__file__)).parent / name).exists()] == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    """A docstring names every argument and at least one error."""
    function = getattr(envbuild, verb)
    text = inspect.getdoc(function) or ""
    missing = [name for name in inspect.signature(function).parameters if not re.search(rf"\b{name}\b.*:", text)]
    assert missing == []
    assert "Raises:" in text


def test_a_verb_survives_the_import_of_every_module() -> None:
    """Importing a module never puts a package in a verb's place."""
    import envbuild.lockfile.model
    import envbuild.operations.run
    import envbuild.operations.verification.verify

    assert all(inspect.isfunction(getattr(envbuild, verb)) for verb in VERBS)


@pytest.mark.subprocess
def test_importing_envbuild_loads_nothing() -> None:
    """``import envbuild`` loads no module but its own; completion still knows the verbs."""
    code = "import sys; before = set(sys.modules); import envbuild; dir(envbuild)\n"
    code += "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
    code += "print(sorted(new - sys.stdlib_module_names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['envbuild']\n"
    assert {*VERBS} <= {*dir(envbuild)}


def test_what_cannot_be_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command as one text, an unknown name and a folder without a lock are refused with what to do."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        envbuild.run(typing.cast("list[str]", "train.py --epochs 3"))
    assert caught.value.hint == "write ['train.py', '--epochs', '3']"
    with pytest.raises(UsageError, match=r"expected a time such as 90s, 5m or 2h, found '0\.5'"):
        envbuild.run(["train.py"], timeout=0.5)
    with pytest.raises(UsageError, match="expected an absolute path in the container, found 'results'"):
        envbuild.verify(["train.py"], outputs=["results"])
    with pytest.raises(LockError):
        envbuild.open()
    with pytest.raises(AttributeError):
        envbuild.nothing  # noqa: B018
