"""Sentences about a lock that a person should read."""

from __future__ import annotations

import msgspec
import pytest

from envbuild.lockfile.model import Source, SourceArchive
from envbuild.operations.lock_notes import notes
from envbuild.spec.model import parse_spec
from tests.support.locks import small_lock

_NUMPY = "numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl"


def _notes(system: str) -> list[str]:
    return list(notes(parse_spec(f"name: x\nos: {system}\n"), small_lock()))


def test_testing_without_a_time_is_noted() -> None:
    """Its mirrors drop packages within days; a time, and any other release, needs no note."""
    (note,) = _notes("debian-testing")
    assert "os: {release: debian-testing, snapshot: YYYY-MM-DD}" in note
    assert "envbuild store push" in note
    assert _notes("{release: debian-testing, snapshot: 2026-10-30}") == []
    assert _notes("debian-13") == []


@pytest.mark.parametrize(
    ("packages", "named"),
    [
        ("[python3-numpy, git]", "python3-numpy; to import them, write  requirements: [numpy]"),
        (
            "[python3-numpy, python3-yaml]",
            "python3-numpy, python3-yaml; to import them, write  requirements: [numpy]  and the packages of Python "
            "that have the others",
        ),
        ("[python3-yaml]", "python3-yaml; to import them, name in requirements the packages of Python that have them"),
        ("[python3-dev, python3-venv, python3-tk]", ""),
    ],
)
def test_modules_that_the_environment_does_not_see_are_named(packages: str, named: str) -> None:
    """Debian's packages of modules are for Debian's own programs; parts of Python itself are meant as they are."""
    found = list(notes(parse_spec(f"name: x\npackages: {packages}\n"), small_lock()))
    assert [note for note in found if "does not see modules" in note] == found
    assert len(found) == bool(named)
    assert not named or found[0].endswith(f"modules of Debian packages: {named}")


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("postgresql-15", True),
        ("postgresql-client-15", False),
        ("mariadb-server", True),
        ("mariadb-common", False),
        ("rabbitmq-server", True),
        ("slapd", True),
        ("postfix", True),
        ("git", False),
    ],
)
def test_servers_that_do_not_reproduce_are_named(name: str, noted: bool) -> None:
    """Known when locking, from the names alone; clients and common files of the same source are not meant."""
    lock = small_lock({}, {f"{name}_1_amd64.deb": b"deb"})
    lock = msgspec.structs.replace(
        lock,
        os=msgspec.structs.replace(
            lock.os, packages=tuple(msgspec.structs.replace(p, name=name) for p in lock.os.packages)
        ),
    )
    found = [note for note in notes(parse_spec("name: x\n"), lock) if "differs in every build" in note]
    assert len(found) == noted
    assert all(f"({name}: " in note for note in found)


@pytest.mark.parametrize(
    ("wheels", "built", "noted"),
    [
        (["pandas-1.5.3-cp311-cp311-manylinux_2_17_x86_64.whl", _NUMPY], (), True),
        (["pandas-2.2.1-cp311-cp311-manylinux_2_17_x86_64.whl", _NUMPY], (), True),
        (["pandas-2.2.2-cp311-cp311-manylinux_2_17_x86_64.whl", _NUMPY], (), False),
        (["pandas-1.5.3-cp311-cp311-linux_x86_64.whl", _NUMPY], ("pandas",), False),
        (["pandas-1.5.3-cp311-cp311-manylinux_2_17_x86_64.whl", _NUMPY.replace("2.4.6", "1.26.4")], (), False),
        (["pandas-1.5.3-cp311-cp311-manylinux_2_17_x86_64.whl"], (), False),
        (["unheard_of-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", _NUMPY], (), False),
    ],
)
def test_a_release_that_was_compiled_for_numpy_1_is_named_when_locking(
    wheels: list[str], built: tuple[str, ...], noted: bool
) -> None:
    """``pandas<2`` with ``numpy>=2`` resolves, since the metadata of pandas 1.5.3 allow it; importing it fails."""
    lock = small_lock(dict.fromkeys(wheels, b"wheel"))
    digest = "0" * 64
    archive = SourceArchive(name="pandas-1.5.3.tar.gz", size=1, sha256=digest)
    sources = tuple(
        Source(name=name, archive=archive, requires=(), packages=(), builds=(digest, digest), recipe=digest)
        for name in built
    )
    found = list(notes(parse_spec("name: x\n"), msgspec.structs.replace(lock, sources=sources)))
    assert any("was compiled for NumPy 1" in note and "or pandas>=2.2.2" in note for note in found) == noted


@pytest.mark.parametrize(
    ("torch", "torchvision", "architecture", "noted"),
    [
        ("2.13.0+cpu", "0.28.0", "amd64", True),
        ("2.13.0+cpu", "0.28.0+cu130", "amd64", True),
        ("2.13.0+cpu", "0.28.0+cpu", "amd64", False),
        ("2.13.0", "0.28.0", "amd64", False),
        ("2.13.0+cpu", "0.28.0", "arm64", False),
    ],
)
def test_torchvision_for_cuda_next_to_torch_for_cpus_is_named(
    torch: str, torchvision: str, architecture: str, noted: bool
) -> None:
    """Its metadata fit any torch of that version; importing it: operator torchvision::nms does not exist."""
    names = [
        f"{name}-cp311-cp311-manylinux_2_28_x86_64.whl" for name in (f"torch-{torch}", f"torchvision-{torchvision}")
    ]
    lock = small_lock(dict.fromkeys(names, b"wheel"))
    lock = msgspec.structs.replace(lock, os=msgspec.structs.replace(lock.os, architecture=architecture))
    found = [note for note in notes(parse_spec("name: x\n"), lock) if "torchvision" in note]
    assert len(found) == noted
    assert all("torchvision==0.28.0+cpu, if the index of this torch has it" in note for note in found)
    label = torchvision.removeprefix("0.28.0")
    assert all(f"[torch==2.13.0{label}, torchvision==0.28.0{label}]" in note for note in found), "what is known to be"
