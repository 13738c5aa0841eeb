"""Which packages a process is reported to have imported from outside the image, and how gradients are added up."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from envbuild.record.processes import ProcessRecord
from envbuild.runtime.hook import finder, foreign, installed
from envbuild.runtime.hook.frameworks import for_buckets
from tests.support.records import process


@pytest.fixture(autouse=True)
def _nothing_is_temporary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests write is in a temporary folder."""
    if "temporary" not in request.node.name:
        monkeypatch.setattr(foreign, "temporary", set)


def module(name: str, path: Path, **attributes: Any) -> ModuleType:
    """A module that came from a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(f"# {name}\n")
    found = ModuleType(name)
    found.__file__ = str(path)
    for key, value in attributes.items():
        setattr(found, key, value)
    return found


def listed(*modules: ModuleType, project: str = "/nowhere/") -> list[dict[str, Any]]:
    return foreign.packages(lambda path: path.startswith(project), {each.__name__: each for each in modules})


def test_a_package_from_elsewhere_has_version_place_and_digests(tmp_path: Path) -> None:
    """One entry for each, however many modules of it were imported; another file is another digest."""
    package = module("library", tmp_path / "library/__init__.py", __version__="1.0")
    below = module("library.part", tmp_path / "library/deep/part.py")
    (one,) = listed(package, below)
    assert {key: one[key] for key in ("name", "version", "path")} == {
        "name": "library",
        "version": "1.0",
        "path": str(tmp_path / "library"),
    }
    assert one["files"] == {
        "__init__.py": hashlib.sha256(b"# library\n").hexdigest(),
        "deep/part.py": hashlib.sha256(b"# library.part\n").hexdigest(),
    }
    (tmp_path / "library/deep/part.py").write_text("changed = 1\n")
    (other,) = listed(package, below)
    assert other == {**one, "files": {**one["files"], "deep/part.py": hashlib.sha256(b"changed = 1\n").hexdigest()}}


@pytest.mark.parametrize("kind", ["package", "namespace"])
def test_a_file_has_its_name_and_digest_whatever_else_was_imported(tmp_path: Path, kind: str) -> None:
    """A package without ``__init__`` has a folder too, though what was imported of it may be in one below."""
    top = ModuleType("library")
    if kind == "package":
        top = module("library", tmp_path / "library/__init__.py")
    top.__path__ = [str(tmp_path / "library")]
    one, other = (module(f"library.deep.{name}", tmp_path / f"library/deep/{name}.py") for name in "ab")
    both, alone = listed(top, one, other)[0], listed(top, other)[0]
    assert alone == {**both, "files": {name: both["files"][name] for name in alone["files"]}}
    assert "deep/b.py" in alone["files"]
    assert "deep/a.py" not in alone["files"]


def test_files_are_listed_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record holds no more than so many names."""
    monkeypatch.setattr(foreign, "FILES", 3)
    found = listed(*(module(f"{name}.part{n}", tmp_path / f"{name}/part{n}.py") for name in "ab" for n in range(2)))
    assert [len(each["files"]) for each in found] == [2, 1]


def test_a_package_has_its_digests_wherever_it_is(tmp_path: Path) -> None:
    """Names are those below its folder, so that a node that mounts it elsewhere has the same ones."""
    found = [listed(module("library", tmp_path / name / "library/__init__.py"))[0] for name in ("a", "b")]
    assert found[0]["files"] == found[1]["files"]
    assert found[0]["path"] != found[1]["path"]


def test_what_is_locked_or_the_projects_own_is_no_package_from_elsewhere(tmp_path: Path) -> None:
    """Nor a module without a file, nor one whose attributes misbehave."""

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("woken")

    own = module("train", tmp_path / "train.py")
    locked = ModuleType("numpy")
    locked.__file__ = f"{sys.prefix}/lib/python3/site-packages/numpy/__init__.py"
    assert foreign.packages(
        lambda path: path.startswith(str(tmp_path)),
        {"train": own, "numpy": locked, "lazy": Lazy("lazy"), "builtin": ModuleType("builtin")},
    ) == []  # fmt: skip


def test_an_archive_is_digested_as_one(tmp_path: Path) -> None:
    """Modules of a zip file have no file of their own."""
    archive = tmp_path / "library.zip"
    archive.write_bytes(b"content")
    packed = ModuleType("library")
    packed.__file__ = f"{archive}/library/__init__.py"
    (found,) = listed(packed)
    digest = hashlib.sha256(b"content").hexdigest()
    assert (found["path"], found["files"]) == (str(tmp_path), {"library.zip": digest})


def test_large_packages_have_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after the limit is named without one; the version is still there."""
    monkeypatch.setattr(foreign, "SIZE", 20)
    one, two = module("a", tmp_path / "a/__init__.py"), module("b", tmp_path / "b/__init__.py", __version__="2")
    (tmp_path / "b/__init__.py").write_text("x" * 100)
    assert [(each["name"], each["version"], each["files"]["__init__.py"] is None) for each in listed(one, two)] == [
        ("a", "", False),
        ("b", "2", True),
    ]


def install(folder: Path, name: str, **texts: str) -> list[ModuleType]:
    """Install a wheel as installers do, ``RECORD`` last; returns its modules."""
    package = folder / name
    modules, lines = [], ["'a quoted, name.py',sha256=AAAA,3", f"{name}-1.0.dist-info/RECORD,,"]
    for part, text in texts.items():
        file = package / f"{part}.py"
        modules.append(module(f"{name}.{part}" if part != "__init__" else name, file))
        file.write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        lines.append(f"{name}/{part}.py,sha256={digest},{len(text)}")
    record = folder / f"{name}-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("\n".join(lines))
    return modules


def test_an_installed_package_need_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its installer recorded is the digest of the files as they are; the limit on what is read does not count."""
    modules = install(tmp_path, "library", __init__="1", part="2", other="3")
    read = listed(*modules)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(foreign, "SIZE", -1)
    assert listed(*modules) == read
    assert all(read[0]["files"].values())


@pytest.mark.parametrize("change", ["longer", "of one length", "a folder", "gone", "no digest"])
def test_a_file_that_was_edited_after_its_installation_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Another size or a later time; what is in its place is digested, if it can be."""
    monkeypatch.setattr(sys, "path", ["", "/nowhere", str(tmp_path)])
    modules = install(tmp_path, "library", __init__="1", part="2")
    file, record = tmp_path / "library/part.py", tmp_path / "library-1.0.dist-info/RECORD"
    before = listed(*modules)
    assert set(installed.digests([str(file)])) == {str(file)}
    if change == "longer":
        file.write_text("22")
        os.utime(file, (1, 1))
    elif change == "of one length":
        file.write_text("3")
        os.utime(file, ns=(0, record.stat().st_mtime_ns + 1))
    elif change in ("a folder", "gone"):
        file.unlink()
        if change == "a folder":
            file.mkdir()
    else:
        record.write_text("library/part.py,sha256=*,1")
    assert installed.digests([str(file)]) == {}
    after = listed(*modules)
    assert (after == before) is (change == "no digest")


def test_what_a_program_made_in_a_temporary_folder_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generated code has a place, and often a name, of each run; so does a script that workers import once more."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "drawn"))
    made = module("made", tmp_path / "drawn/abc/made.py")
    assert listed(made) == []
    monkeypatch.setattr(foreign, "temporary", set)
    assert [each["name"] for each in listed(made, module("__mp_main__", tmp_path / "train.py"))] == ["made"]


class Reporting:
    """The part of a process that records are made with."""

    def __init__(self) -> None:
        self.parallel: list[dict[str, Any]] = []
        self.closing: list[Any] = []
        self.problems: list[str] = []

    def guarded(self, what: str, action: Any, *, vital: bool) -> None:
        assert not vital
        try:
            action()
        except Exception as error:
            self.problems.append(f"{what}: {error}")

    def write(self) -> None:
        pass


def wrapper(known: Any, free: Any = None) -> tuple[Any, Reporting]:
    """A class like PyTorch's that is watched; ``known`` is what its reducer reports, ``free`` its ``__del__``."""

    class DistributedDataParallel:
        def __init__(self, model: object) -> None:
            """Wrap a model."""
            self.model, self.logger = model, object()

        def _get_ddp_logging_data(self) -> Any:
            return known()

    if free is not None:
        DistributedDataParallel.__del__ = free  # type: ignore[attr-defined]
    process = Reporting()
    for_buckets.set_up(SimpleNamespace(DistributedDataParallel=DistributedDataParallel), process)  # type: ignore[arg-type]
    return DistributedDataParallel, process


def test_buckets_are_recorded_when_a_model_is_wrapped_and_at_the_end() -> None:
    """Rebuilt ones are known after the first step only; what is not about sums is left out."""
    known: dict[str, Any] = {"bucket_cap_bytes": 1024, "bucket_sizes": "8, 16", "rank": 3, "comm_hook": ""}
    kind, process = wrapper(lambda: known)
    model = kind("net")
    assert (model.model, kind.__init__.__doc__) == ("net", "Wrap a model.")
    assert process.parallel == [
        {"kind": "DistributedDataParallel", "settings": {"bucket_cap_bytes": 1024, "bucket_sizes": "8, 16"}}
    ]
    known["rebuilt_bucket_sizes"] = "16, 8"
    process.closing[0]()
    assert process.parallel[0]["settings"]["rebuilt_bucket_sizes"] == "16, 8"
    known["rebuilt_bucket_sizes"] = "24"
    del model
    assert process.parallel[0]["settings"]["rebuilt_bucket_sizes"] == "16, 8"


def test_buckets_of_a_wrapper_that_goes_are_recorded() -> None:
    """A model in a function is gone at the end of the process; one of a class with a ``__del__`` calls that too."""
    known: dict[str, Any] = {"bucket_cap_bytes": 1024}
    gone: list[str] = []
    kind, process = wrapper(lambda: known, free=lambda model: gone.append(model.model))
    first, second = kind("a"), kind("b")
    known["rebuilt_bucket_sizes"] = "1, " * 999
    del first
    known["rebuilt_bucket_sizes"] = "1, " * 998 + "2, "
    del second
    process.closing[0]()
    found = [each["settings"]["rebuilt_bucket_sizes"] for each in process.parallel]
    assert gone == ["a", "b"]
    assert found[0][:1000] == found[1][:1000]
    assert found[0] != found[1]
    assert max(map(len, found)) < 1020


def test_a_wrapper_that_reports_nothing_loses_the_record_alone() -> None:
    """A release without this method, say: the program goes on."""
    kind, process = wrapper(lambda: 1 / 0)
    assert kind("net").model == "net"
    assert (process.parallel, process.problems) == ([], ["DistributedDataParallel: division by zero"])


def test_many_models_are_recorded_up_to_a_limit() -> None:
    """A program may wrap one after the other."""
    kind, process = wrapper(lambda: {"bucket_cap_bytes": 1})
    for _ in range(50):
        kind("net")
    assert len(process.parallel) == 20


def test_the_hook_waits_for_the_module_that_has_the_wrapper() -> None:
    """By PyTorch's name for it; what a process reports is a record."""
    assert finder.PARALLEL["torch.nn.parallel.distributed"] == "for_buckets.set_up"
    found = process(
        packages=[{"name": "library", "version": "1.0", "path": "/extra", "files": {"a.py": "0" * 64}}],
        parallel=[{"kind": "DistributedDataParallel", "settings": {"bucket_cap_bytes": 1, "static_graph": False}}],
    )
    assert isinstance(found, ProcessRecord)
    assert found.parallel[0].settings == {"bucket_cap_bytes": 1, "static_graph": False}
