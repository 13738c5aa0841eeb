"""Options of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuild.engine.protocol import Mount
from envbuild.errors import UsageError
from envbuild.run_options import check_network, parse_environment, parse_memory, parse_mount


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
