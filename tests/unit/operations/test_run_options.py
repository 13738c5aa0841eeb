"""Options of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.protocol import Gpus, Mount
from envbuild.errors import UsageError
from envbuild.operations.run_options import (
    check_cpus,
    check_network,
    parse_allow,
    parse_environment,
    parse_gpus,
    parse_memory,
    parse_mount,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8g", 8 << 30),
        ("512m", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("10MB", 10 << 20),
        ("8388608", 8 << 20),
        ("7 m", 7 << 20),
    ],
)
def test_sizes_are_read_as_docker_reads_them(text: str, size: int) -> None:
    """Units are powers of 1024, in either case, with or without B."""
    assert parse_memory(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lots", "--memory: expected a size such as 8g or 512m, found 'lots'"),
        ("-1g", "--memory: expected a size such as 8g or 512m, found '-1g'"),
        ("8", "--memory: expected at least 6m, found '8'"),
    ],
)
def test_wrong_sizes_are_refused(text: str, message: str) -> None:
    """What is not a size, or is surely a forgotten unit, is refused."""
    with pytest.raises(UsageError) as caught:
        parse_memory(text)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize("count", [-1.0, 0.0, 0.001, float("nan"), float("inf")])
def test_cpus_are_a_number_above_zero(count: float) -> None:
    """What no engine takes is reported before anything is built, with the way out."""
    assert check_cpus(0.5) == 0.5
    with pytest.raises(UsageError) as caught:
        check_cpus(count)
    assert caught.value.message == f"--cpus: expected a number above 0, such as 2 or 0.5, found {count:g}"
    assert caught.value.hint == "all: leave it out"


def test_variables_are_set_or_passed_on() -> None:
    """NAME=VALUE sets, NAME passes the caller's on, and a NAME the caller lacks is left out."""
    given = parse_environment(["A=1=2", "B", "C", "D="], {"B": "b"})
    assert given == {"A": "1=2", "B": "b", "D": ""}
    with pytest.raises(UsageError) as caught:
        parse_environment(["a-b=1"], {})
    assert caught.value.message == "--env: expected NAME or NAME=VALUE, found 'a-b=1'"


@pytest.mark.parametrize(
    ("text", "target", "read_only"),
    [
        ("data:/data", "/data", False),
        ("data:/data:ro", "/data", True),
        ("./data/:/data:rw", "/data", False),
        ("type=bind,source=data,target=/data", "/data", False),
        ("type=bind,src=data,dst=/a=b,readonly", "/a=b", True),
        ("source=data,destination=/data,ro=true", "/data", True),
        ("type=bind,source=data,target=/data,readonly=false", "/data", False),
    ],
)
def test_both_forms_of_a_mount_are_understood(tmp_path: Path, text: str, target: str, read_only: bool) -> None:
    """The short and the long form of docker mean the same; sources are relative to the caller."""
    (tmp_path / "data").mkdir()
    assert parse_mount(text, tmp_path) == Mount(source=tmp_path / "data", target=target, read_only=read_only)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data", "--mount: expected SRC:DST[:ro] or type=bind,source=SRC,target=DST, found 'data'"),
        ("data:/x:rx", "--mount: expected SRC:DST[:ro] or type=bind,source=SRC,target=DST, found 'data:/x:rx'"),
        ("data:x", "--mount data:x: expected an absolute path in the container, found 'x'"),
        ("data:/a/../b", "--mount data:/a/../b: expected an absolute path in the container, found '/a/../b'"),
        ("data:/", "--mount data:/: expected an absolute path in the container, found '/'"),
        ("type=volume,source=data,target=/x",
         "--mount type=volume,source=data,target=/x: expected type=bind with source and target"),
        ("type=bind,source=data,targt=/x",
         "--mount type=bind,source=data,targt=/x: unknown key 'targt'; known are type, source, target, readonly"),
    ],
)  # fmt: skip
def test_wrong_mounts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    """Each mistake in a mount is named before anything starts."""
    (tmp_path / "data").mkdir()
    with pytest.raises(UsageError) as caught:
        parse_mount(text, tmp_path)
    assert caught.value.message == message


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    """The engine would make an empty folder or complain late; envbuild names the path."""
    with pytest.raises(UsageError) as caught:
        parse_mount("nothing:/x", tmp_path)
    assert caught.value.message == f"--mount nothing:/x: {tmp_path}/nothing does not exist"


def test_network_names_are_checked() -> None:
    """A network is one word, so that it cannot join another container's network by accident."""
    assert check_network("bridge") == "bridge"
    with pytest.raises(UsageError) as caught:
        check_network("container:other")
    assert caught.value.message == (
        "--network: expected none, bridge, host or the name of a network, found 'container:other'"
    )
    assert caught.value.hint == "list those of the engine: docker network ls"


@pytest.mark.parametrize("name", ["ENVBUILD_GUARD", "ENVBUILD_ALLOW", "ENVBUILD_CONTROLS", "ENVBUILD_RUN_ID"])
def test_envbuilds_own_variables_have_options(name: str) -> None:
    """What switches checks off goes through options, which the record holds, never past them."""
    with pytest.raises(UsageError) as caught:
        parse_environment([f"{name}=off"], {})
    assert caught.value.message == f"--env: {name} is envbuild's own and cannot be set"
    assert caught.value.hint == (
        "use its option: --allow for ENVBUILD_ALLOW, --no-guard for ENVBUILD_GUARD, --no-controls for ENVBUILD_CONTROLS"
    )


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("all", Gpus()),
        ("none", None),
        ("0", None),
        ("2", Gpus(count=2, exact=True)),
        ("device=2", Gpus(devices=("2",))),
        ("device=0,0:1", Gpus(devices=("0", "0:1"))),
        ("GPU-8f3c2f7d-0000-4000-8000-0123456789ab", Gpus(devices=("GPU-8f3c2f7d-0000-4000-8000-0123456789ab",))),
        ("MIG-1a,GPU-2b", Gpus(devices=("MIG-1a", "GPU-2b"))),
        ("MIG-GPU-8f3c/1/0", Gpus(devices=("MIG-GPU-8f3c/1/0",))),
    ],
)
def test_gpus_are_chosen_as_docker_has_it(text: str, gpus: Gpus | None) -> None:
    """A number is a count; identities and indexes name GPUs."""
    assert parse_gpus(text) == gpus


@pytest.mark.parametrize(
    "text", ["", "some", "-1", "GPU-a,", "GPU-a b", "device=", "GPU-a;id", "nvidia.com/gpu=0", "12345"]
)
def test_other_gpus_are_refused(text: str) -> None:
    """What is no GPU is named, with where to find their names."""
    with pytest.raises(UsageError) as caught:
        parse_gpus(text)
    assert caught.value.message == f"--gpus: expected all, none, a count, UUIDs or device=INDEX, found {text!r}"
    assert caught.value.hint == "list the GPUs of this machine: envbuild probe"


def test_a_gpu_named_twice_is_refused() -> None:
    """Twice the same GPU would be counted as two."""
    with pytest.raises(UsageError) as caught:
        parse_gpus("GPU-a,GPU-a")
    assert caught.value.message == "--gpus: a GPU is named twice in 'GPU-a,GPU-a'"


def test_allowed_fields_are_sorted_and_checked() -> None:
    """The order they are typed in is no choice; what cannot be a field would reach the guard as something else."""
    assert parse_allow(["gpu.sms", "environment.TZ", "gpu.sms"]) == ("environment.TZ", "gpu.sms")
    with pytest.raises(UsageError) as caught:
        parse_allow(["gpu.driver,gpu.sms"])
    assert caught.value.message == "--allow: expected a field such as gpu.driver, found 'gpu.driver,gpu.sms'"
