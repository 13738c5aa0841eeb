"""The plan: order, cache keys and configuration, as a function of the lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from envbuild.errors import BuildError, LockError
from envbuild.image.plan.model import CREATED, Plan, plan
from envbuild.image.runtime.files import entrypoint
from envbuild.lockfile import layout
from envbuild.lockfile.model import Hardware, Lock, Os, OsPackage, PythonPackage, Wheel, lock_digest
from tests.support.locks import small_lock, standalone_lock
from tests.support.pythons import RELEASE, tiny_archive


def package(name: str, size: int, sha256: str = "") -> PythonPackage:
    """One locked package."""
    wheel = Wheel(name=f"{name}-1.0-py3-none-any.whl", size=size, sha256=sha256 or f"{size:064x}")
    return PythonPackage(name=name, version="1.0", wheel=wheel)


def deb(name: str, sha256: str = "0" * 64, version: str = "3.11.2-6") -> OsPackage:
    """One locked Debian package."""
    path = f"pool/main/p/{name}/{name}_{version}_amd64.deb"
    return OsPackage(
        name=name, version=version, architecture="amd64", archive="debian", path=path, size=1, sha256=sha256
    )


LARGE = layout.LARGE_WHEEL
PACKAGES = (package("b", 5), package("big", LARGE), package("bigger", LARGE + 1), package("a", 9))


def lock(**changes: Any) -> Lock:
    """A lock with four packages and two Debian packages."""
    os = Os(release="debian-12", architecture="amd64", packages=(deb("libc6"), deb("python3.11")))
    return msgspec.structs.replace(small_lock(name="digits"), **{"packages": PACKAGES, "os": os, **changes})


def keys(made: Plan) -> dict[str, str]:
    """Cache keys by title."""
    return {layer.title.split(",")[0]: layer.key for layer in made.layers}


def test_layers_of_layout_1_are_in_order_of_stability() -> None:
    """The OS is at the bottom, then large wheels by size, then the small ones, then what every lock changes."""
    assert [
        (layer.kind, layer.title, [wheel.name[0] for wheel in layer.wheels]) for layer in plan(lock(layout=1)).layers
    ] == [
        ("os", "debian-12, 2 packages", []),
        ("wheel", "bigger 1.0", ["b"]),
        ("wheel", "big 1.0", ["b"]),
        ("bytecode", "bytecode of large wheels", ["b", "b"]),
        ("environment", "Python 3.11 environment, 2 small wheels", ["a", "b"]),
        ("bytecode", "bytecode of small wheels", ["a", "b"]),
        ("runtime", "guard and lock", []),
    ]


def test_layers_of_layout_2_are_in_order_of_size_class() -> None:
    """Wheels are lowest, class by class with their bytecode; the OS and what is small and changes are above."""
    packages = (
        package("small", (1 << 20) - 1),
        package("medium2", 1 << 20),
        package("medium1", LARGE - 1),
        package("large", 4 * LARGE - 1),
        package("zhuge", 64 << 20),
        package("ahuge", (256 << 20) - 1),
    )
    assert [
        (layer.kind, layer.title, [wheel.name.split("-")[0] for wheel in layer.wheels])
        for layer in plan(lock(layout=2, packages=packages)).layers
    ] == [
        ("wheel", "ahuge 1.0", ["ahuge"]),
        ("wheel", "zhuge 1.0", ["zhuge"]),
        ("bytecode", "bytecode of wheels from 64 MiB", ["ahuge", "zhuge"]),
        ("wheel", "large 1.0", ["large"]),
        ("bytecode", "bytecode of wheels from 4 MiB", ["large"]),
        ("wheel", "wheels from 1 MiB", ["medium1", "medium2"]),
        ("bytecode", "bytecode of wheels from 1 MiB", ["medium1", "medium2"]),
        ("os", "debian-12, 2 packages", []),
        ("environment", "Python 3.11 environment, 1 small wheels", ["small"]),
        ("bytecode", "bytecode of small wheels", ["small"]),
        ("runtime", "guard and lock", []),
    ]


def test_projects_share_layers_from_the_bottom_up() -> None:
    """Other OS packages and other smaller wheels leave every layer of the framework where it is."""
    framework = (package("framework", 300 << 20), package("library", 70 << 20))
    other = Os(release="debian-12", architecture="amd64", packages=(deb("curl"), deb("libc6"), deb("python3.11")))
    one = plan(lock(packages=(*framework, package("a", 20 << 20), package("b", 5)))).layers
    two = plan(lock(name="two", os=other, packages=(*framework, package("c", 5 << 20), package("d", 7)))).layers
    shared = [layer for layer in one if layer in two]
    assert [layer.title for layer in shared] == [
        "framework 1.0",
        "bytecode of wheels from 256 MiB",
        "library 1.0",
        "bytecode of wheels from 64 MiB",
    ]
    assert two[: len(shared)] == one[: len(shared)]


def test_a_base_image_is_the_lowest_layer() -> None:
    """A foreign file system may hold anything anywhere; what envbuild installs wins."""
    base = Os(
        release="debian-12",
        architecture="amd64",
        packages=(),
        image=f"debian@sha256:{'1' * 64}",
        image_rootfs="2" * 64,
        image_size=1,
    )
    assert plan(lock(os=base)).layers[0].kind == "os"


def test_an_environment_without_wheels() -> None:
    """Even without a wheel there is an environment to run in."""
    assert [layer.kind for layer in plan(lock(packages=())).layers] == ["os", "environment", "runtime"]


def test_a_plan_is_a_function_of_the_lock() -> None:
    """Equal locks give equal plans, whatever the order of their packages."""
    assert plan(lock()) == plan(lock())
    assert keys(plan(lock(packages=PACKAGES[::-1]))).items() >= {
        (title, key) for title, key in keys(plan(lock())).items() if title != "guard and lock"
    }


@pytest.mark.parametrize(
    ("changes", "changed"),
    [
        ({}, set()),
        ({"environment": {"A": "1"}}, {"guard and lock"}),
        (
            {"packages": (*PACKAGES[:3], package("a", 10))},
            {"Python 3.11 environment", "bytecode of small wheels", "guard and lock"},
        ),
        (
            {"packages": (PACKAGES[0], package("big", LARGE, "f" * 64), *PACKAGES[2:])},
            {"big 1.0", "bytecode of wheels from 4 MiB", "guard and lock"},
        ),
        (
            {"os": Os(release="debian-12", architecture="amd64", packages=(deb("libc6", "1" * 64), deb("python3.11")))},
            {"debian-12", "guard and lock"},
        ),
        (
            {"os": Os(release="debian-12", architecture="amd64", packages=(deb("libc6"), deb("python3.11", "1" * 64)))},
            {
                "debian-12",
                "bytecode of wheels from 4 MiB",
                "bytecode of small wheels",
                "guard and lock",
            },
        ),
    ],
)
def test_a_change_rebuilds_what_depends_on_it(changes: dict[str, Any], changed: set[str]) -> None:
    """Gigabytes of wheels outlive every change that is not theirs, an interpreter update among them."""
    before, after = keys(plan(lock())), keys(plan(lock(**changes)))
    assert {title for title in before if before[title] != after[title]} == changed


def test_configuration() -> None:
    """What an engine reads: guard as entry point, locked environment, path, folder."""
    made = plan(lock(environment={"TZ": "UTC", "LANG": "C.UTF-8"}))
    assert made.config["Env"] == [
        "LANG=C.UTF-8",
        "PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TZ=UTC",
        "VIRTUAL_ENV=/opt/env",
    ]
    assert made.config["Entrypoint"] == list(entrypoint(lock()))
    assert made.config["Cmd"] == ["/opt/env/bin/python"]
    assert made.config["WorkingDir"] == "/workspace"
    assert made.platform == {"os": "linux", "architecture": "amd64"}


def test_labels() -> None:
    """An image states what it is made of without being started."""
    made = plan(lock(frameworks={"tensorflow": "2.21.0"}, hardware=Hardware(kernel=">=5.10", cpu="x86-64-v3")))
    assert made.labels == {
        "envbuild.cpu": "x86-64-v3",
        "envbuild.cuda": "none",
        "envbuild.framework.tensorflow": "2.21.0",
        "envbuild.kernel": ">=5.10",
        "envbuild.layout": str(layout.VERSION),
        "envbuild.lock": f"sha256:{made.lock}",
        "envbuild.os": "debian-12",
        "envbuild.python": "3.11.2-6",
        "org.opencontainers.image.created": CREATED,
        "org.opencontainers.image.title": "digits",
    }
    assert made.config["Labels"] == made.labels
    assert made.lock == lock_digest(
        lock(frameworks={"tensorflow": "2.21.0"}, hardware=Hardware(kernel=">=5.10", cpu="x86-64-v3"))
    )


def test_installation_order_ends_with_small_wheels() -> None:
    """Where two wheels ship one path, the order decides which wins: as the layers are."""
    assert [wheel.name.split("-")[0] for wheel in plan(lock()).wheels] == ["big", "bigger", "a", "b"]


def test_newer_layouts_are_refused() -> None:
    """A lock of a layout version that this envbuild does not know is not built as if it were another."""
    with pytest.raises(LockError) as caught:
        plan(lock(layout=99))
    known = "layout 1" if layout.VERSION == 1 else f"layouts 1 to {layout.VERSION}"
    assert caught.value.message == f"pylock.digits.toml is of image layout 99; this envbuild makes {known}"
    assert caught.value.hint == (
        "use the envbuild that wrote it or a newer one, or "
        f"move the lock to layout {layout.VERSION}: envbuild lock --upgrade"
    )


@pytest.mark.parametrize("version", range(layout.OLDEST, layout.VERSION + 1))
def test_every_layout_is_made_as_its_lock_states(version: int) -> None:
    """An older lock keeps its layout: the image reports it, and every wheel is in it once."""
    made = plan(lock(layout=version))
    assert made.labels["envbuild.layout"] == str(version)
    assert sorted(wheel.name for wheel in made.wheels) == sorted(item.wheel.name for item in PACKAGES)


def test_unknown_architectures_are_refused() -> None:
    """An architecture that images have no word for is named."""
    with pytest.raises(BuildError, match=r"os\.architecture: expected one of amd64, .*, found hppa"):
        plan(lock(os=Os(release="debian-12", architecture="hppa")))


def test_arm64_is_plannable() -> None:
    """Names of architectures are those of the OCI specification."""
    assert plan(lock(os=Os(release="debian-12", architecture="arm64"))).platform == {
        "os": "linux",
        "architecture": "arm64",
        "variant": "v8",
    }


@pytest.mark.parametrize(("version", "system"), [(1, 0), (2, 3)])
def test_a_standalone_python_is_a_layer_of_its_own(tmp_path: Path, version: int, system: int) -> None:
    """It is above the OS with the bytecode of its modules; another archive changes both, and the bytecode of wheels."""
    one = standalone_lock(lock(layout=version), tiny_archive(tmp_path / "a"))
    two = standalone_lock(lock(layout=version), tiny_archive(tmp_path / "b", **{"lib/python3.12/new.py": b""}))
    layers = plan(one).layers
    assert [(layer.kind, layer.title) for layer in layers[system : system + 3]] == [
        ("os", "debian-12, 2 packages"),
        ("python", f"Python 3.12.7 ({RELEASE})"),
        ("bytecode", f"bytecode of Python 3.12.7 ({RELEASE})"),
    ]
    other = {layer.title: layer for layer in plan(two).layers}
    same = [layer.kind for layer in layers if other[layer.title].key == layer.key]
    assert sorted(set(same)) == ["environment", "os", "wheel"]
    assert plan(one).labels["envbuild.python"] == "3.12.7"
    assert entrypoint(one)[0] == "/opt/python/bin/python3.12"
