"""host.toml: readable, whole, and read with clear refusals."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.errors import SpecError
from envbuild.host import file
from envbuild.host.facts import Containers, Cpu, GpuFacts, GpuProcess, HostFacts, Libcuda, Problem
from tests.support.hosts import gpu, host

BUSY = host(
    [
        gpu(free=100, processes=(GpuProcess(pid=7, name="python3", memory=900), GpuProcess(pid=8))),
        gpu(mig="3g.40gb", ecc=None, persistence=False, visible=None),
        gpu("NVIDIA\u2028\x85\x1c\x1b[31m 超"),
        gpu("", uuid="", problem=Problem(code=15, name="NVML_ERROR_GPU_IS_LOST", message='lost "it"\nall = 1')),
    ]
)
TEXT = """\
# A host as `envbuild probe` found it. Lock for it anywhere: envbuild lock --host FILE
format = 1
kernel = "6.8.0-45-generic"
machine = "x86_64"
libc = "glibc 2.39"
memory = 34359738368  # bytes (32.0 GiB)

[cpu]
model = "A CPU"
level = "x86-64-v3"
flags = [
    "avx2",
    "fma",
]
visible = 4
total = 8

[gpu]
driver = "580.159.04"
nvml = "580.159.04"

[[gpu.devices]]
name = "Tesla T4"
compute-capability = "7.5"
sms = 40
memory = 15360  # MiB (15.0 GiB)
free = 15000  # MiB (14.6 GiB)
ecc = false
"""


def refusal(text: str) -> list[str]:
    """Return what is wrong with a description, each as ``path: message``."""
    with pytest.raises(SpecError) as caught:
        file.loads(text)
    assert caught.value.source == "host.toml"
    assert caught.value.hint == "describe the host anew, on it: envbuild probe -o host.toml"
    return [f"{problem.path}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize("facts", [BUSY, host(), HostFacts(kernel="", machine="")])
def test_a_description_round_trips(facts: HostFacts) -> None:
    """What is written is what is read, quotes and line breaks in a driver's sentence included."""
    assert file.loads(file.dumps(facts)) == facts


def test_the_file_is_for_people() -> None:
    """Unknown facts are left out, sizes have their unit, and the first line states what the file is for."""
    facts = file.loads(TEXT)
    assert (facts.cpu.total, facts.gpu.devices[0].ecc, facts.gpu.devices[0].persistence) == (8, False, None)
    assert file.dumps(facts) == TEXT


def test_a_later_version_s_keys_are_ignored() -> None:
    """A description taken with a newer envbuild can be locked for with this one."""
    text = TEXT.replace("[cpu]", 'weather = "dry"\n\n[cpu]\nsockets = 2').replace(
        'name = "Tesla T4"', 'name = "Tesla T4"\nnew = 1'
    )
    assert file.loads(text) == file.loads(TEXT)


def replaced(old: str, new: str) -> str:
    """Return the description with one text replaced."""
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (replaced("format = 1", "format = 2"), "format: expected 1, found 2"),
        (replaced("format = 1", 'format = "1"'), 'format: expected 1, found "1"'),
        (replaced("format = 1\n", ""), "format: missing; this is not a host description"),
        ("", "format: missing; this is not a host description"),
        (replaced('kernel = "6.8.0-45-generic"\n', ""), "kernel: missing"),
        (replaced('level = "x86-64-v3"', "level = 3"), "cpu.level: expected a text, found 3"),
        (replaced("visible = 4", 'visible = "4"'), 'cpu.visible: expected a whole number, found "4"'),
        (replaced('    "fma",', "    1,"), "cpu.flags[1]: expected a text, found 1"),
        (replaced("sms = 40", "sms = true"), "gpu.devices[0].sms: expected a whole number, found true"),
        (replaced("sms = 40", "sms = 4.5"), "gpu.devices[0].sms: expected a whole number, found 4.5"),
        (replaced("ecc = false", 'ecc = "off"'), 'gpu.devices[0].ecc: expected true or false, found "off"'),
        (replaced("[[gpu.devices]]", "[gpu.devices]"), "gpu.devices: expected a list, found a table"),
        (replaced("[cpu]", "[[cpu]]"), "cpu: expected a table, found a list"),
    ],
)
def test_a_wrong_fact_is_refused(text: str, expected: str) -> None:
    """The sentence names the field, what was expected and what is there."""
    assert refusal(text) == [expected]


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    """Another file, a broken one and a missing one are distinguished."""
    assert refusal("a = ")[0].startswith(": not a TOML file: ")
    path = tmp_path / "host.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match=r"not UTF-8 text: byte 0$"):
        file.load(path)
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    assert file.load(path) == file.loads(TEXT)
    with pytest.raises(SpecError) as caught:
        file.load(tmp_path / "gone.toml")
    assert caught.value.message == f"{tmp_path}/gone.toml has 1 problem\n  cannot be read: No such file or directory"


Change = Callable[[HostFacts], HostFacts]


def put(**facts: Any) -> Change:
    """Return what replaces facts of a host."""
    return lambda found: msgspec.structs.replace(found, **facts)


def device(**facts: Any) -> Change:
    """Return what replaces facts of a host's first GPU."""

    def change(found: HostFacts) -> HostFacts:
        first, *others = found.gpu.devices
        devices = (msgspec.structs.replace(first, **facts), *others)
        return msgspec.structs.replace(found, gpu=msgspec.structs.replace(found.gpu, devices=devices))

    return change


HOST = host([gpu(), gpu("Tesla T4", sms=40)])


@pytest.mark.parametrize(
    "change",
    [
        put(memory=5, libc="musl", containers=Containers(), kernel="6.8.99-other"),
        put(cpu=Cpu(model="Another", level="x86-64-v4", flags=("fma", "avx512f", "avx2"), visible=1, total=1)),
        put(gpu=GpuFacts(driver=HOST.gpu.driver, devices=HOST.gpu.devices[::-1], libcuda=Libcuda(path="/other"))),
        device(uuid="GPU-9", free=0, processes=(GpuProcess(pid=1),), visible=False, persistence=None),
    ],
)
def test_what_cannot_be_locked_does_not_count(change: Change) -> None:
    """A second probe of the same machine, or of an equal one, has the same digest."""
    assert change(HOST) != HOST
    assert file.digest(change(HOST)) == file.digest(HOST)


@pytest.mark.parametrize(
    "change",
    [
        put(kernel="6.9.0"),
        put(machine="aarch64"),
        put(cpu=Cpu(level="x86-64-v3", flags=HOST.cpu.flags)),
        put(cpu=Cpu(level="x86-64-v4", flags=("avx2",))),
        put(gpu=msgspec.structs.replace(HOST.gpu, driver="580.1")),
        put(gpu=msgspec.structs.replace(HOST.gpu, devices=HOST.gpu.devices[:1])),
        *(
            device(**{name: value})
            for name, value in (("name", "X"), ("sms", 1), ("mig", ""), ("ecc", None), ("memory", 1))
        ),
        *(device(**{name: "1.0"}) for name in ("vbios", "board", "compute_capability")),
        device(problem=Problem(code=1)),
    ],
)
def test_whatever_can_be_locked_counts(change: Change) -> None:
    """Each fact that a lock can hold makes another digest."""
    assert file.digest(change(HOST)) != file.digest(HOST)


def test_the_digest_is_fixed() -> None:
    """Locks hold it: the digest of a host may only change on purpose."""
    assert file.digest(HOST) == "1b8bd4c878b0eae0bc1ac58878b645b871bd06c254b0aa2fc230c6a9d8e67218"


_junk = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.text(max_size=3), max_size=2)
)


@given(st.dictionaries(st.sampled_from(["format", "kernel", "machine", "cpu", "gpu", "memory"]), _junk), _junk)
@settings(max_examples=100, deadline=None)
def test_any_facts_give_a_description_or_a_spec_error(table: dict[str, Any], devices: object) -> None:
    """No value anywhere makes reading fail in any other way."""
    import tomli_w

    plain = {key: value for key, value in {"format": 1, **table}.items() if value is not None}
    if devices is not None:
        plain["gpu"] = {"devices": devices}
    text = tomli_w.dumps(plain)
    with contextlib.suppress(SpecError):
        found = file.loads(text)
        assert file.loads(file.dumps(found)) == found


def test_a_pipe_and_a_huge_file_are_no_description(tmp_path: Path) -> None:
    """Neither is waited for, or read."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    for name, why in (("pipe", "not a regular file"), ("huge", "more than 1048576 bytes")):
        with pytest.raises(SpecError) as caught:
            file.load(tmp_path / name)
        assert why in str(caught.value)
