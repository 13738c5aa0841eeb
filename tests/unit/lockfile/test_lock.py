"""The lock: a PEP 751 file that round-trips, and refuses whatever was tampered with."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.pylock import Pylock

from envbuild.errors import LockError
from envbuild.lockfile import model as lock_module
from envbuild.lockfile.hardware import Cuda, Gpu, GpuDevice, Hardware
from envbuild.lockfile.model import (
    Determinism,
    FurtherArchive,
    Input,
    Lock,
    Origin,
    Os,
    OsPackage,
    Python,
    PythonPackage,
    RunOptions,
    Source,
    SourceArchive,
    Suite,
    Wheel,
    dumps,
    load,
    loads,
    lock_digest,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

A, B = "a" * 64, "b" * 64


def wheel(name: str, version: str = "1.0") -> PythonPackage:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    return PythonPackage(name=name, version=version, wheel=Wheel(name=file, size=10, sha256=A))


LOCK = Lock(
    name="digits",
    resolution={"spec": A, "requirements.txt": B},
    os=Os(
        release="debian-12",
        architecture="amd64",
        suites=(Suite(archive="debian", name="bookworm", date="Sat, 11 Jul 2026 09:00:00 UTC", sha256=A),),
        packages=(
            OsPackage(
                name="libc6",
                version="2.36-9+deb12u10",
                architecture="amd64",
                archive="debian",
                path="pool/main/g/glibc/libc6_2.36-9+deb12u10_amd64.deb",
                size=2758000,
                sha256=B,
            ),
        ),
    ),
    python=Python(version="3.11", executable="/usr/bin/python3.11", platform="manylinux_2_36_x86_64"),
    packages=(wheel("numpy", "2.4.6"), wheel("scikit-learn", "1.9.0")),
    frameworks={"numpy": "2.4.6"},
    cuda=Cuda(version="12.9", cudnn="9.10.2.21", cublas="12.9.1.4", nccl="2.27.3", driver="525.60.13"),
    hardware=Hardware(
        kernel=">=5.10,<7",
        cpu="x86-64-v3",
        cpu_flags=("avx2", "fma"),
        gpu=Gpu(
            driver="580.159.04",
            devices=(GpuDevice(model="NVIDIA H200", count=2, compute_capability="9.0", sms=132, mig="none", ecc=True),),
        ),
        policy={"gpu.driver": "same branch", "gpu.ecc": "any"},
    ),
    determinism=Determinism(seed=42, threads=2, level="ops"),
    environment={"PYTHONHASHSEED": "42", "LANG": "C.UTF-8"},
    added={"libstdc++6": "needed by numpy (libstdc++.so.6)"},
    inputs=(Input(path="data/größe 1", blake3=A, files=3, bytes=100),),
    run=RunOptions(network="none", workspace="rw"),
)


def document() -> dict[str, Any]:
    """Return the lock's file as plain values, to tamper with."""
    return tomllib.loads(dumps(LOCK).decode())


def refusal(value: dict[str, Any]) -> str:
    """Return the sentence that refuses a document."""
    with pytest.raises(LockError) as caught:
        loads(tomli_w.dumps(value).encode(), "pylock.x.toml")
    newer = "tool.envbuild.version:" in caught.value.message
    way = (
        "use the envbuild that wrote it, or" if newer else "restore the file as it was written, e.g. with git checkout;"
    )
    assert caught.value.hint.startswith(way)
    assert caught.value.hint.endswith(" resolve all anew: envbuild lock --upgrade")
    return caught.value.message.removeprefix("pylock.x.toml: ")


def test_a_lock_round_trips() -> None:
    """What is written is what is read."""
    assert loads(dumps(LOCK)) == LOCK


def test_equal_locks_have_equal_bytes() -> None:
    """The order in which tables were filled makes no difference."""
    other = msgspec.structs.replace(
        LOCK, environment=dict(reversed(LOCK.environment.items())), resolution=dict(reversed(LOCK.resolution.items()))
    )
    assert dumps(other) == dumps(LOCK)
    assert lock_digest(other) == lock_digest(LOCK)


def test_the_file_is_a_valid_pep_751_lock() -> None:
    """Any installer that follows the standard can use the Python part."""
    pylock = Pylock.from_dict(document())
    pylock.validate()
    assert str(pylock.requires_python) == "==3.11.*"
    assert [(str(p.name), str(p.version)) for p in pylock.packages] == [("numpy", "2.4.6"), ("scikit-learn", "1.9.0")]
    assert pylock.packages[0].wheels is not None
    assert pylock.packages[0].wheels[0].hashes == {"sha256": A}
    assert [str(marker) for marker in pylock.environments or ()] == [
        'python_version == "3.11" and sys_platform == "linux" and platform_machine == "x86_64"'
    ]


def test_a_lock_for_arm_names_its_platform() -> None:
    """The environment marker names the machine of the platform tag."""
    python = Python(version="3.13", executable="/usr/bin/python3.13", platform="manylinux_2_41_aarch64")
    text = dumps(msgspec.structs.replace(LOCK, python=python)).decode()
    assert "python_version == '3.13' and sys_platform == 'linux' and platform_machine == 'aarch64'" in text


def test_emulators_are_in_the_lock_where_there_are_any() -> None:
    """They come back as they were, no two files have one name, and a lock without has no trace of them."""
    assert b"emulators" not in dumps(LOCK)
    path = "pool/qemu-user_1_amd64.deb"
    package = msgspec.structs.replace(LOCK.os.packages[0], name="qemu-user", version="1", path=path)
    made = msgspec.structs.replace(LOCK, emulators=(package,))
    assert loads(dumps(made)) == made
    assert lock_digest(made) != lock_digest(LOCK)
    with pytest.raises(LockError, match=r"emulators\[0\].path: expected a file named qemu-user_1_amd64.deb"):
        loads(dumps(made).replace(path.encode(), b"pool/other_1_amd64.deb"))
    with pytest.raises(LockError, match=r"libc6_2\.36-9"):
        loads(dumps(msgspec.structs.replace(LOCK, emulators=LOCK.os.packages[:1])))


def test_the_file_names_no_address() -> None:
    """Files are named by name, size and digest; where they come from is no part of a lock."""
    assert "://" not in dumps(LOCK).decode()
    assert LOCK.file_name == "pylock.digits.toml"
    assert LOCK.os.packages[0].file == "libc6_2.36-9+deb12u10_amd64.deb"


Tamper = Callable[[dict[str, Any]], object]


def put(path: str, value: object) -> Tamper:
    """Return what sets one value of a document, by dotted path."""

    def change(table: dict[str, Any]) -> None:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        here: Any = table
        for part in parents:
            here = here[part]
        if value is None:
            del here[last]
        else:
            here[last] = value

    return change


OS_PACKAGE = "tool.envbuild.os.packages.0"
DEB = "tool.envbuild.os.packages[0]"
POOL = "expected the path of a .deb below an archive's root"


@pytest.mark.parametrize(
    ("tamper", "sentence"),
    [
        (put("packages.1.wheels.0.hashes", None), "packages[1].wheels[0].hashes: missing"),
        (put("packages.1.wheels.0.hashes", {}), "packages[1].wheels[0].hashes.sha256: missing"),
        (put("packages.1.wheels.0.hashes", {"md5": "x"}), "packages[1].wheels[0].hashes.md5: unknown key"),
        (
            put("packages.1.wheels.0.hashes.sha256", "A" * 64),
            f'packages[1].wheels[0].hashes.sha256: expected 64 lower-case hexadecimal digits, found "{"A" * 60}…"',
        ),
        (
            put("packages.0.wheels.0.size", -1),
            "packages[0].wheels[0].size: expected a whole number, 0 or more, found -1",
        ),
        (put("packages.0.wheels.0.size", "1"), "packages[0].wheels[0].size: expected int, got str"),
        (put("packages.0.wheels.0.url", "x"), "packages[0].wheels[0].url: unknown key"),
        (
            put("packages.0.wheels.0.path", "wheels/../numpy.whl"),
            "packages[0].wheels[0].path: expected 'wheels/numpy-2.4.6-py3-none-any.whl', found 'wheels/../numpy.whl'",
        ),
        (put("packages.0.wheels", []), "packages[0].wheels: expected exactly one wheel, found 0"),
        (put("packages.0.wheels", "x"), "packages[0].wheels: expected a list, found 'x'"),
        (put("packages.0.marker", "python_version < '3'"), "packages[0].marker: unknown key"),
        (put("packages.0.version", None), "packages[0].version: missing"),
        (put("packages.0.version", "1;id"), 'packages[0].version: expected a version, found "1;id"'),
        (
            put("packages.0.name", "evil"),
            "packages[0].wheels[0].name: expected a wheel of evil, found 'numpy-2.4.6-py3-none-any.whl'",
        ),
        (
            put("packages.0.version", "2.4.7"),
            "packages[0].wheels[0].name: expected a wheel of version 2.4.7, found 'numpy-2.4.6-py3-none-any.whl'",
        ),
        (put("packages.0", 3), "packages[0]: expected a table, found 3"),
        (put("packages", None), "packages: missing"),
        (put("requires-python", ">=3"), "requires-python: expected '==3.11.*', found '>=3'"),
        (put("extras", ["x"]), "extras: unknown key"),
        (put("lock-version", "1.1"), "lock-version: expected '1.0', found '1.1'"),
        (put("environments", None), "environments: missing"),
        (put("tool.envbuild", None), "tool.envbuild: missing; not a lock of envbuild"),
        (put("tool", 3), "tool.envbuild: missing; not a lock of envbuild"),
        (put("tool.envbuild.version", 2), "tool.envbuild.version: expected 1, found 2"),
        (put("tool.envbuild.packages", []), "tool.envbuild.packages: unknown key"),
        (put("tool.envbuild.surprise", 1), "tool.envbuild.surprise: unknown key"),
        (put("tool.envbuild.os.surprise", 1), "tool.envbuild.os.surprise: unknown key"),
        (put("tool.envbuild.determinism", None), "tool.envbuild.determinism: missing"),
        (put("tool.envbuild.name", "../x"), 'tool.envbuild.name: expected a lock\'s name, found "../x"'),
        (put("tool.envbuild.name", "x\n"), 'tool.envbuild.name: expected a lock\'s name, found "x\\n"'),
        (put(f"{OS_PACKAGE}.path", "../../etc/x.deb"), f'{DEB}.path: {POOL}, found "../../etc/x.deb"'),
        (put(f"{OS_PACKAGE}.path", "pool/./x.deb"), f'{DEB}.path: {POOL}, found "pool/./x.deb"'),
        (put(f"{OS_PACKAGE}.path", "/x.deb"), f'{DEB}.path: {POOL}, found "/x.deb"'),
        (put(f"{OS_PACKAGE}.path", "pool/-x.deb"), f'{DEB}.path: {POOL}, found "pool/-x.deb"'),
        (put(f"{OS_PACKAGE}.path", "pool/x.deb\n"), f'{DEB}.path: {POOL}, found "pool/x.deb\\n"'),
        (put(f"{OS_PACKAGE}.path", "pool/$(id).deb"), f'{DEB}.path: {POOL}, found "pool/$(id).deb"'),
        (put(f"{OS_PACKAGE}.name", "libc6;id"), f'{DEB}.name: expected a Debian package name, found "libc6;id"'),
        (put(f"{OS_PACKAGE}.name", "libc6\n"), f'{DEB}.name: expected a Debian package name, found "libc6\\n"'),
        (put(f"{OS_PACKAGE}.version", "1`id`"), f'{DEB}.version: expected a Debian version, found "1`id`"'),
        (put(f"{OS_PACKAGE}.archive", "a/b"), f'{DEB}.archive: expected an archive\'s name, found "a/b"'),
        (put(f"{OS_PACKAGE}.sha256", None), f"{DEB}.sha256: missing"),
        (
            put("tool.envbuild.os.suites.0.name", "a/../../b"),
            'tool.envbuild.os.suites[0].name: expected a suite\'s name, found "a/../../b"',
        ),
        (
            put("tool.envbuild.python.executable", "/usr/bin/../x"),
            'tool.envbuild.python.executable: expected an absolute path, found "/usr/bin/../x"',
        ),
        (
            put("tool.envbuild.environment.LANG", "C\nRUN id"),
            "tool.envbuild.environment: expected one line of text without control characters",
        ),
        (put("tool.envbuild.environment", {"A B": "1"}), "tool.envbuild.environment: expected a variable name as key"),
        (
            put("tool.envbuild.inputs.0.path", "a/../../b"),
            'tool.envbuild.inputs[0].path: expected a relative path without .. and :, found "a/../../b"',
        ),
        (
            put("tool.envbuild.inputs.0.path", "/etc"),
            'tool.envbuild.inputs[0].path: expected a relative path without .. and :, found "/etc"',
        ),
        (
            put("tool.envbuild.hardware.kernel", ">=5;id"),
            'tool.envbuild.hardware.kernel: expected a version range such as ">=5.10,<7", found ">=5;id"',
        ),
        (
            put("tool.envbuild.hardware.gpu.driver", "580;id"),
            'tool.envbuild.hardware.gpu.driver: expected a driver version such as 580.159.04, found "580;id"',
        ),
        (put("tool.envbuild.hardware.gpu.surprise", 1), "tool.envbuild.hardware.gpu.surprise: unknown key"),
        (
            put("tool.envbuild.hardware.gpu.devices", []),
            "tool.envbuild.hardware.gpu.devices: expected array of length >= 1",
        ),
        (
            put("tool.envbuild.hardware.gpu.devices.0.sms", "132"),
            "tool.envbuild.hardware.gpu.devices[0].sms: expected int, got str",
        ),
        (
            put("tool.envbuild.hardware.gpu.devices.0.model", "H200\nRUN id"),
            "tool.envbuild.hardware.gpu.devices[0].model: expected one line of text without control characters,"
            ' found "H200\\nRUN id"',
        ),
        (
            put("tool.envbuild.hardware.gpu.devices.0.mig", "half"),
            'tool.envbuild.hardware.gpu.devices[0].mig: expected none or a profile such as 3g.40gb, found "half"',
        ),
        (
            put("tool.envbuild.hardware.cpu-flags", ["AVX2"]),
            'tool.envbuild.hardware.cpu-flags[0]: expected a CPU flag as /proc/cpuinfo writes it, found "AVX2"',
        ),
        (
            put("tool.envbuild.hardware.host", "abc"),
            'tool.envbuild.hardware.host: expected 64 lower-case hexadecimal digits or none, found "abc"',
        ),
        (
            put("tool.envbuild.hardware.by-hand", ["gpus"]),
            'tool.envbuild.hardware.by-hand[0]: expected a field such as kernel or gpu.driver, found "gpus"',
        ),
        (put("tool.envbuild.cuda.driver", None), "tool.envbuild.cuda.driver: missing"),
        (
            put("tool.envbuild.cuda.version", "12"),
            'tool.envbuild.cuda.version: expected a CUDA version such as 12.9, found "12"',
        ),
        (
            put("tool.envbuild.cuda.cudnn", "9.x"),
            'tool.envbuild.cuda.cudnn: expected a version of a library, found "9.x"',
        ),
        (put("tool.envbuild.run.network", "x"), 'tool.envbuild.run.network: expected none, bridge or host, found "x"'),
        (
            put("tool.envbuild.determinism.threads", 0),
            "tool.envbuild.determinism.threads: expected a whole number, 1 or more, found 0",
        ),
    ],
)
def test_a_tampered_lock_is_refused(tamper: Tamper, sentence: str) -> None:
    """Whatever was altered by hand or by malice is refused with its field path."""
    value = document()
    tamper(value)
    assert refusal(value) == sentence


def test_an_edited_lock_is_refused() -> None:
    """Content that is valid in every field but not what envbuild lock wrote is refused, with the way to lock again."""
    digest = lock_digest(LOCK)
    text = dumps(LOCK).decode()
    assert tomllib.loads(text)["tool"]["envbuild"]["digest"] == digest
    assert text.replace(f'digest = "{digest}"\n', "") != text
    edits = [
        ("[[tool.envbuild.os.packages]]", "[[tool.envbuilt.os.packages]]"),
        ("seed = 42", "seed = 43"),
        ("pool/main/g/glibc/", "pool/main/e/evil/"),
        ('2758000\nsha256 = "b', '2758000\nsha256 = "c'),
        (f'digest = "{digest}"\n', ""),
        (f'digest = "{digest}"\n', f'digest = "{A}"\n'),
        (f'digest = "{digest}"\n', "digest = 3\n"),
        ('LANG = "C.UTF-8"', 'LANG = "C.UTF-8"\nMY = "1"'),
    ]
    for before, after in edits:
        edited = text.replace(before, after)
        if "seed" in before:
            edited = edited.replace('PYTHONHASHSEED = "42"', 'PYTHONHASHSEED = "43"')
        assert edited != text
        message = refusal(tomllib.loads(edited))
        assert message.startswith("tool.envbuild.digest: the file was edited after envbuild lock wrote it\n")
    assert loads(text.replace("\n", "\r\n").encode()) == LOCK  # git may do that


def test_a_lock_that_contradicts_itself_is_refused_at_writing_too() -> None:
    """Seed and hash seed agree, a .deb is named after its package, and no variable runs code before the guard."""

    def sentence(**changes: Any) -> str:
        with pytest.raises(LockError) as caught:
            dumps(msgspec.structs.replace(LOCK, **changes))
        return caught.value.message.removeprefix("pylock.digits.toml: ")

    before = "tool.envbuild.environment"
    assert sentence(environment={"PYTHONHASHSEED": "43"}) == (
        f"{before}.PYTHONHASHSEED: expected the seed, '42', found '43'"
    )
    for name in ("LD_PRELOAD", "LD_AUDIT", "GCONV_PATH", "LD_LIBRARY_PATH"):
        assert sentence(environment={name: "/x"}) == (
            f"{before}.{name}: a lock must not set it: it runs other code before the guard"
        )
    package = msgspec.structs.replace(LOCK.os.packages[0], path="pool/main/e/evil/evil_1_amd64.deb")
    assert sentence(os=msgspec.structs.replace(LOCK.os, packages=(package,))) == (
        f"{DEB}.path: expected a file named libc6_2.36-9+deb12u10_amd64.deb, found 'evil_1_amd64.deb'"
    )


def test_a_lock_that_is_no_lock_is_refused_in_time(tmp_path: Path) -> None:
    """Numbers that Python does not read, sizes that no file has, megabytes of comments and a FIFO are invalid locks."""
    text = dumps(LOCK).decode()
    with pytest.raises(LockError, match=r"^lock is not a TOML file: "):
        loads(text.replace("seed = 42", f"seed = {'4' * 6000}").encode())
    with pytest.raises(LockError, match=r"size: expected a whole number, 17179869184 or less, found 10000000000000"):
        loads(text.replace("size = 2758000", "size = 10000000000000").encode())
    with pytest.raises(LockError, match=r"^lock: 20\d{6} bytes; a lock has no more than 4194304$"):
        loads(text.encode() + b"# comment\n" * 2_000_000)
    path = tmp_path / "pylock.t.toml"
    os.mkfifo(path)
    with pytest.raises(LockError) as caught:
        load(path)
    assert caught.value.message == f"cannot read the lock {path}: not a regular file"
    path.unlink()
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(LockError) as caught:
        load(path)
    assert caught.value.message == f"cannot read the lock {path}: more than 4194304 bytes"


def test_two_of_one_name_are_refused() -> None:
    """A name represents one package and one file."""
    value = document()
    value["packages"].append(value["packages"][0])
    assert refusal(value) == "packages[2].name: 'numpy' is at packages[0].name already"
    value = document()
    packages = value["tool"]["envbuild"]["os"]["packages"]
    packages.append({**packages[0], "path": "other/libc6_2.36-9+deb12u10_amd64.deb"})
    assert refusal(value) == f"{DEB.replace('0', '1')}.path: 'libc6_2.36-9+deb12u10_amd64.deb' is at {DEB}.path already"


def test_a_policy_that_means_nothing_is_refused() -> None:
    """A word that no check knows would silently compare nothing."""
    text = dumps(LOCK).decode().replace('"same branch"', '"roughly"')
    with pytest.raises(LockError, match=r"^lock: tool\.envbuild\.hardware\.policy: expected exact, same branch, "):
        loads(text.encode())


HARDWARE = """\
[tool.envbuild.hardware]
kernel = ">=5.10,<7"
cpu = "x86-64-v3"
cpu-flags = [
    "avx2",
    "fma",
]

[tool.envbuild.hardware.gpu]
driver = "580.159.04"

[[tool.envbuild.hardware.gpu.devices]]
count = 2
model = "NVIDIA H200"
compute-capability = "9.0"
sms = 132
mig = "none"
ecc = true

[tool.envbuild.hardware.policy]
"gpu.driver" = "same branch"
"gpu.ecc" = "any"

"""
CUDA = """\
[tool.envbuild.cuda]
version = "12.9"
cudnn = "9.10.2.21"
cublas = "12.9.1.4"
nccl = "2.27.3"
driver = "525.60.13"

"""


def test_hardware_and_cuda_read_like_a_list() -> None:
    """One fact a line, so that a diff of two locks shows what moved; without CUDA there is no table."""
    text = dumps(LOCK).decode()
    assert HARDWARE in text
    assert CUDA in text
    plain = dumps(msgspec.structs.replace(LOCK, cuda=None, hardware=Hardware())).decode()
    assert "cuda" not in plain
    assert "\n[tool.envbuild.hardware]\n\n" in plain
    assert loads(plain.encode()).cuda is None


def test_accepted_libraries_round_trip_and_cost_nothing_if_there_are_none() -> None:
    """A lock without accepted libraries has the bytes it had before there were any."""
    lock = msgspec.structs.replace(LOCK, missing_libraries=("open3d:libtorch*", "libpulse.so.0"))
    data = dumps(lock)
    assert loads(data) == lock
    assert b'missing-libraries = [\n    "open3d:libtorch*",\n    "libpulse.so.0",\n]' in data
    assert b"missing-libraries" not in dumps(LOCK)


def test_a_limit_in_time_is_recorded_and_costs_nothing_if_there_is_none() -> None:
    """A lock without a limit has the bytes it had before there was one."""
    lock = msgspec.structs.replace(LOCK, exclude_newer="20260711T000000Z")
    assert loads(dumps(lock)) == lock
    assert b'exclude-newer = "20260711T000000Z"' in dumps(lock)
    assert b"exclude-newer" not in dumps(LOCK)


def test_sources_of_built_wheels_are_recorded_and_cost_nothing_if_there_are_none() -> None:
    """What a wheel was built from and with is read as it was written; it belongs to a package of the lock."""
    source = Source(
        name=LOCK.packages[0].name,
        archive=SourceArchive(name="some-1.0.tar.gz", size=7, sha256="a" * 64),
        requires=("setuptools>=40.8.0",),
        packages=LOCK.packages[:1],
        builds=("b" * 64, "c" * 64),
        normalised=("times of files",),
        recipe="d" * 64,
        added=("torch==2.14.1",),
        env={"TORCH_CUDA_ARCH_LIST": "9.0"},
    )
    lock = msgspec.structs.replace(LOCK, sources=(source,), build_packages=LOCK.os.packages)
    assert loads(dumps(lock)) == lock
    assert b"sources" not in dumps(LOCK)
    assert b"build-packages" not in dumps(LOCK)
    stranger = msgspec.structs.replace(source, name="nobody")
    with pytest.raises(LockError, match=r"tool\.envbuild\.sources\[0\]\.name: no package 'nobody' is locked"):
        dumps(msgspec.structs.replace(LOCK, sources=(stranger,)))
    with pytest.raises(LockError, match="is at tool"):
        dumps(msgspec.structs.replace(LOCK, sources=(source, source)))


def test_several_kinds_of_gpu_round_trip() -> None:
    """Everything that a GPU can have is written and read again, whatever is unknown is left out."""
    full = GpuDevice(
        count=3,
        model="NVIDIA A100-SXM4-80GB",
        compute_capability="8.0",
        sms=42,
        mig="3g.40gb",
        memory=40192,
        ecc=False,
        vbios="92.00.36.00.02",
        board="692-2G506-0210-002",
    )
    hardware = Hardware(
        fingerprint=True,
        host=A,
        by_hand=("gpu.driver", "kernel"),
        gpu=Gpu(driver="580.10", exclusive=True, devices=(full, GpuDevice(model="Tesla T4"))),
        policy={"cpu.flags": "exact, warn", "gpu.count": "at least"},
    )
    lock = msgspec.structs.replace(LOCK, hardware=hardware)
    assert loads(dumps(lock)) == lock
    assert b'[[tool.envbuild.hardware.gpu.devices]]\nmodel = "Tesla T4"\n\n' in dumps(lock)


@pytest.mark.parametrize("data", [b"\xff", b"a = ", b"a = " + b"[" * 5000])
def test_what_is_not_toml_is_refused(data: bytes) -> None:
    """Broken bytes are an invalid lock, not a fault of the program."""
    with pytest.raises(LockError, match=r"^lock is not a TOML file: "):
        loads(data)


def test_another_tool_s_table_is_left_alone() -> None:
    """PEP 751 lets other tools keep tables of their own."""
    value = document()
    value["tool"]["other"] = {"x": 1}
    assert loads(tomli_w.dumps(value).encode()) == LOCK


def test_nothing_unsafe_is_written() -> None:
    """A value that reading would refuse is refused at writing too."""
    with pytest.raises(LockError) as caught:
        dumps(msgspec.structs.replace(LOCK, environment={"A": "1\nRUN id"}))
    assert caught.value.message == (
        "pylock.digits.toml: tool.envbuild.environment: expected one line of text without control characters"
    )


def test_load_reads_the_file(tmp_path: Path) -> None:
    """A lock on disk is the lock; a missing one states how to write it."""
    path = tmp_path / LOCK.file_name
    path.write_bytes(dumps(LOCK))
    assert load(path) == LOCK
    with pytest.raises(LockError) as caught:
        load(tmp_path / "gone")
    assert caught.value.message == f"cannot read the lock {tmp_path}/gone: No such file or directory"
    assert caught.value.hint == "write it: envbuild lock spec.yaml"


@pytest.mark.parametrize("folder", ["..", "../x", "a/../../b", "/etc", "a//b", "a\\b", "a:b", "a\nb", "x" * 4097])
def test_a_project_in_a_repository_is_in_it(folder: str) -> None:
    """The folder of a project that comes from git leads nowhere else."""
    good = Origin(git="https://git.example/lib.git", commit="1" * 40, subdirectory="python/lib")
    assert msgspec.convert(msgspec.to_builtins(good), Origin) == good
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**msgspec.to_builtins(good), "subdirectory": folder}, Origin)


def test_the_format_version_is_1() -> None:
    """The file's format is pinned: raise it on purpose only."""
    assert lock_module.FORMAT == 1
    assert document()["tool"]["envbuild"]["version"] == 1


_junk = st.recursive(
    st.integers(-5, 5) | st.booleans() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def _paths(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in children for found in _paths(child, (*path, key)))]


_PATHS = [path for path in _paths(document()) if path]


@given(st.sampled_from(_PATHS), _junk)
@settings(max_examples=200, deadline=None)
def test_any_value_anywhere_gives_a_lock_or_a_lock_error(path: tuple[Any, ...], value: object) -> None:
    """No replaced value makes reading fail in any other way, and what is read can be written again unchanged."""
    table = document()
    here: Any = table
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    data = tomli_w.dumps(table).encode()
    found = None
    try:
        found = loads(data)
    except LockError as error:
        message = error.message
    if found is None:
        assert message.startswith("lock: ")
    else:
        assert loads(dumps(found)) == found


def test_equal_locks_give_equal_bytes_wherever_their_values_come_from() -> None:
    """A default that was read or computed is left out like one that was never given."""
    lock = msgspec.structs.replace(LOCK, hardware=Hardware())
    computed = msgspec.structs.replace(lock, hardware=Hardware(cpu="".join(("a", "ny")), kernel="".join(())))
    assert computed == lock
    assert dumps(computed) == dumps(lock) == dumps(loads(dumps(lock)))


def test_further_archives_are_kept() -> None:
    """Suite, key and replaced names round-trip; a lock without them has no trace of the key."""
    assert b"os.archives" not in dumps(LOCK)
    archive = FurtherArchive(name="vendor", suite="/", replaces=("a1",), keys=("A" * 40,), key_sha256="0" * 64)
    lock = msgspec.structs.replace(LOCK, os=msgspec.structs.replace(LOCK.os, archives=(archive,)))
    assert loads(dumps(lock)) == lock
