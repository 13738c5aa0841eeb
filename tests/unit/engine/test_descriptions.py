"""Descriptions of GPUs with odd content: refused with file and field, or applied as the specification has it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuild.engine.local import gpus
from envbuild.engine.local.descriptions import mount
from envbuild.engine.local.gpus import Handed
from envbuild.engine.local.images import FoundImage, StoredImage
from envbuild.engine.local.program_request import describe as describe_program
from envbuild.engine.protocol import ContainerRun, Gpus, GpusRefusedError

Describe = Callable[..., Path]
NVIDIA = "/usr/bin/nvidia-cdi-hook"


@pytest.fixture
def describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Write descriptions into two folders, of which the second comes first."""

    def describe(name: str = "first/nvidia.json", **table: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        whole = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", **table}
        path.write_text(json.dumps({key: value for key, value in whole.items() if value != ""}))
        return path

    monkeypatch.setenv("ENVBUILD_CDI_DIRS", f"{tmp_path}/first:{tmp_path}/second")
    monkeypatch.setattr(gpus, "_libraries", dict)
    return describe


def one(**edits: Any) -> list[dict[str, Any]]:
    """One GPU with these edits."""
    return [{"name": "0", "containerEdits": edits}]


def given(*names: str) -> Handed:
    """What a program gets for these GPUs, the first one if none is named."""
    return gpus.handed(Gpus(devices=names) if names else Gpus(count=1))


def hook(*words: str, path: str = NVIDIA) -> dict[str, Any]:
    """One hook, called as the toolkit writes it."""
    return {"hooks": [{"hookName": "createContainer", "path": path, "args": [path.rpartition("/")[2], *words]}]}


@pytest.mark.parametrize(
    ("edits", "field", "said"),
    [
        ({"mounts": 3}, "mounts", "expected a list of tables, found 3"),
        ({"mounts": [3]}, "mounts", "expected a list of tables, found [3]"),
        (
            {"mounts": [{"hostPath": "/etc", "containerPath": "/x", "options": "ro"}]},
            "mounts.options",
            "a list of texts",
        ),
        ({"mounts": [{"containerPath": "/x"}]}, "mounts.hostPath", "expected an absolute path, found None"),
        ({"mounts": [{"hostPath": "etc", "containerPath": "/x"}]}, "mounts.hostPath", "an absolute path"),
        ({"mounts": [{"hostPath": "/etc", "containerPath": "x"}]}, "mounts.containerPath", "an absolute path"),
        (
            {"mounts": [{"hostPath": "/etc", "containerPath": "/x/../opt/env"}]},
            "mounts.containerPath",
            "an absolute path",
        ),
        ({"mounts": [{"hostPath": "/e\0", "containerPath": "/x"}]}, "mounts.hostPath", "an absolute path"),
        ({"mounts": [{"hostPath": "tmpfs", "containerPath": "/x", "type": "tmpfs"}]}, "mounts.type", "expected bind"),
        ({"mounts": [{"hostPath": "/etc", "containerPath": "/"}]}, "mounts.containerPath", "envbuild's own"),
        ({"mounts": [{"hostPath": "/etc", "containerPath": "//opt//"}]}, "mounts.containerPath", "envbuild's own"),
        (
            {"mounts": [{"hostPath": "/etc", "containerPath": "/opt/env/lib/x"}]},
            "mounts.containerPath",
            "outside /opt/env",
        ),
        (
            {"mounts": [{"hostPath": "/etc", "containerPath": "/workspace"}]},
            "mounts.containerPath",
            "outside /workspace",
        ),
        ({"deviceNodes": [{"hostPath": "/dev/null"}]}, "deviceNodes.path", "an absolute path"),
        ({"deviceNodes": [{"path": "/dev"}]}, "deviceNodes.path", "outside /dev"),
        ({"env": "A=1"}, "env", "a list of texts"),
        ({"env": ["A"]}, "env", 'expected NAME=VALUE, found "A"'),
        ({"env": ["=1"]}, "env", "expected NAME=VALUE"),
        ({"env": ["A=\0"]}, "env", "a list of texts"),
        ({"env": ["ENVBUILD_GUARD=off"]}, "env", "no variable of envbuild's own"),
        ({"hooks": [{"path": NVIDIA, "args": "update-ldcache"}]}, "hooks.args", "a list of texts"),
        (hook("create-symlinks", "--link", "a::/opt/envbuild/guard.py"), "hooks.args", "outside /opt/envbuild"),
        ({"additionalGids": [-1]}, "additionalGids", "a list of numbers"),
    ],
)
def test_what_is_unsound_is_refused_by_its_field(
    edits: dict[str, Any], field: str, said: str, describe: Describe
) -> None:
    """The file, the field, what was expected and found; before anything is mounted."""
    path = describe(devices=one(**edits))
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message.startswith(f"{path}: containerEdits.{field}: expected ")
    assert said in caught.value.message
    assert caught.value.hint.startswith("describe the GPUs anew: ")


@pytest.mark.parametrize("edits", [3, ["env"], "x"])
def test_edits_that_are_no_table(edits: Any, describe: Describe) -> None:
    """Of all GPUs or of one."""
    of_one = {"devices": [{"name": "0", "containerEdits": edits}]}
    for table in ({"devices": [{"name": "0"}], "containerEdits": edits}, of_one):
        describe(**table)
        with pytest.raises(GpusRefusedError, match=r"containerEdits: expected a table, found"):
            given()


@pytest.mark.parametrize("empty", [None, [], {}])
def test_what_is_empty_says_nothing(empty: Any, describe: Describe) -> None:
    """YAML's ``env:`` with nothing behind it is null."""
    names = ("mounts", "deviceNodes", "env", "hooks", "additionalGids")
    describe(devices=one(**dict.fromkeys(names, empty if empty != {} else None)), containerEdits=empty or None)
    assert given() == Handed()
    describe(devices=one(mounts=[{"hostPath": "/etc", "containerPath": "/x", "options": None}]))
    assert [mount["read_only"] for mount in given().mounts] == [False]


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "0.5.0", "0.8.0", "1.0.0", "1.1.0", "v0.6.0"])
def test_versions_that_are_known(version: str, describe: Describe) -> None:
    """Those that were published; NVIDIA's toolkit writes the lowest one that has what it needs."""
    describe(cdiVersion=version, devices=one(env=["A=b=c"]))
    assert given().variables == {"A": "b=c"}


@pytest.mark.parametrize("version", ["", "2.0.0", "0.5", 1, "0.6.0\n"])
def test_versions_that_are_not(version: Any, describe: Describe) -> None:
    """What a later one means is not known."""
    path = describe(cdiVersion=version, devices=one())
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message.startswith(f"{path}: cdiVersion: expected a version from 0.1.0 to 1.x, found ")


def test_two_descriptions_of_one_gpu(describe: Describe) -> None:
    """In one folder they are refused if they differ, and only for that GPU; a later folder's counts alone."""
    a = describe("first/a.json", devices=[*one(env=["A=1"]), {"name": "1", "containerEdits": {"env": ["C=1"]}}])
    b = describe("first/b.yaml", devices=one(env=["A=2"]))
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message == (
        f"the GPU nvidia.com/gpu=0 is described several times, and differently: {a}, {b}"
    )  # fmt: skip
    assert given("1").variables == {"C": "1"}
    describe("first/b.yaml", devices=one(env=["A=1"]))
    assert given().variables == {"A": "1"}
    describe("first/b.yaml", devices=one(env=["A=2"]))
    describe("second/c.json", devices=one(env=["A=3"]))
    assert given().variables == {"A": "3"}


def test_one_gpu_twice_in_one_file(describe: Describe) -> None:
    """Which of the two counts is not decided by their order."""
    path = describe(devices=[*one(env=["A=1"]), *one(env=["A=2"]), *one(env=["A=2"])])
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message.endswith(f"is described several times, and differently: {path}")
    describe(devices=[*one(env=["A=1"]), *one(env=["A=1"])])
    assert given().variables == {"A": "1"}


@pytest.mark.parametrize("name", ["netDevices", "intelRdt", "of a later version"])
def test_edits_that_cannot_be_done(name: str, describe: Describe) -> None:
    """They are not left out without a word; an empty one asks for nothing."""
    path = describe(devices=one(**{name: {"a": 1}}))
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message == f"{path}: containerEdits.{name}: the local engine cannot do this"
    describe(devices=one(**{name: None}))
    assert given() == Handed()


def test_several_gpus_share_what_is_equal(describe: Describe) -> None:
    """Edits of all count once; a node or a variable that two of them name is there once; numbers are names too."""
    null = {"path": "/dev/nvidiactl", "hostPath": "/dev/null"}
    nodes = [{"path": f"/dev/nvidia{number}", "hostPath": "/dev/null"} for number in (0, 1)]
    devices = [{"name": number, "containerEdits": {"deviceNodes": [null, nodes[number]]}} for number in (0, 1)]
    describe(devices=devices, containerEdits={**hook("update-ldcache", "--folder", "/a"), "env": ["A=1"]})
    handed = gpus.handed(Gpus(count=2))
    assert sorted(mount["target"] for mount in handed.mounts) == ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"]
    assert (handed.variables, handed.folders) == ({"A": "1"}, ("/a",))
    assert gpus.handed(Gpus()) == handed, "no device is called all: those with numbers are all"


@pytest.mark.parametrize(
    "words",
    [
        ("chmod", "--mode", "755"),
        ("enable-cuda-compat", "--host-driver-version=570"),
        ("disable-device-node-modification",),
        ("update-application-profile",),
        ("noop",),
    ],
)
def test_hooks_that_have_nothing_to_do_here(words: tuple[str, ...], describe: Describe) -> None:
    """The toolkit's, for what no image of envbuild has."""
    describe(devices=one(**hook(*words)))
    assert given() == Handed()
    describe(devices=one(**hook("hook", *words, path="/usr/bin/nvidia-ctk")))
    assert given() == Handed()


@pytest.mark.parametrize(
    ("edits", "named"),
    [
        (hook("--license", path="/usr/bin/vendor-hook"), "vendor-hook"),
        (hook("create-symlinks", "--link=a::/b", path="/opt/other/hook"), "hook"),
        (hook("a-later-one"), "nvidia-cdi-hook a-later-one"),
        ({"hooks": [{"hookName": "createRuntime"}]}, "without a name"),
        ({"hooks": [{"hookName": "createRuntime", "path": 5}]}, "without a name"),
    ],
)
def test_hooks_of_which_nothing_is_known(edits: dict[str, Any], named: str, describe: Describe) -> None:
    """What they would do is not guessed: the ways out are named."""
    path = describe(devices=one(**edits))
    with pytest.raises(GpusRefusedError) as caught:
        given()
    assert caught.value.message == f"{path}: containerEdits.hooks: the local engine does not know the hook {named}"
    assert "ENVBUILD_ENGINE=docker" in caught.value.hint
    assert "ENVBUILD_CDI_DIRS" in caught.value.hint


def test_links_of_libraries_and_groups(describe: Describe) -> None:
    """The loader's program makes the links of libraries' own names, as it makes its cache; root is in no group."""
    edits = hook("create-soname-symlinks", "--folder=/usr/lib64", "--folder", "relative")
    describe(devices=one(**edits, additionalGids=[44, 0, 44, 105]))
    handed = given()
    assert (handed.folders, handed.groups) == (("/usr/lib64",), (44, 105))


def test_a_file_that_this_user_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as one that is not there, and no fault of envbuild."""
    stat = os.stat

    def refuse(path: Any, **options: Any) -> os.stat_result:
        if str(path) == "/root/x":
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **options)

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(GpusRefusedError, match=r"names /root/x, which this machine does not have"):
        mount("/root/x", "/x")


def test_the_locks_variables_come_before_those_of_a_description(tmp_path: Path) -> None:
    """The guard expects them; what a person sets for one run comes before both."""
    stored = StoredImage(config="", manifest="", tag="", layers=(), environment={"A": "lock", "PATH": "/opt/env/bin"})
    request = ContainerRun(image="x", command=("true",), environment={"C": "person"})
    variables = {"A": "description", "B": "description", "C": "description", "PATH": "/usr/bin"}
    handed = Handed(variables=variables, groups=(44,))
    words = describe_program(request, FoundImage(image=stored, trees=()), tmp_path, handed)
    found = {name: words["environment"][name] for name in variables}
    assert found == {"A": "lock", "B": "description", "C": "person", "PATH": "/opt/env/bin"}
    assert words["additional"] == [44]
