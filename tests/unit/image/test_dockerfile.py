"""The Dockerfile is a pure function of the lock, quoted, pinned, and its context is whole or absent."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.errors import IntegrityError, LockError, UsageError
from envbuild.image.dockerfile import Stored, render, write_context
from envbuild.lockfile import layout
from envbuild.lockfile.model import Hardware, Lock, Os
from tests.support.debs import deb_bytes, deb_control
from tests.support.locks import small_lock, standalone_lock
from tests.support.pythons import tiny_archive
from tests.support.wheels import wheel_bytes

GOLDEN = Path(__file__).parents[2] / "golden" / "Dockerfile"
DPKG = deb_bytes(deb_control("dpkg", fields={"Essential": "yes"}), {"/usr/bin/dpkg": "dpkg"})
WHEELS = {"one-1.0-py3-none-any.whl": b"one", "two-2.0-py3-none-any.whl": b"two"}


def lock(**fields: object) -> Lock:
    return msgspec.structs.replace(small_lock(WHEELS, {"dpkg_1.0_all.deb": DPKG}, "digits"), **fields)


def store_of(folder: Path, *contents: bytes) -> Callable[[str], Path]:
    for content in contents:
        (folder / sha256_bytes(content)).write_bytes(content)
    return lambda sha256: folder / sha256


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode & 0o777, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


def test_the_dockerfile_is_as_recorded() -> None:
    """The text is what tests/golden/Dockerfile holds; ENVBUILD_UPDATE_GOLDEN=1 records it anew.

    The lock's digest is left out: it changes with the lock's format, the Dockerfile need not.
    """
    found = lock(
        environment={"LANG": "C.UTF-8", "TRICKY": 'a "b" $HOME \\ c'},
        frameworks={"keras": "3.15.1", "tensorflow": "2.21.0"},
        hardware=Hardware(kernel=">=5.10,<7", cpu="x86-64-v3"),
    )
    identity = render(found).dockerfile.decode().split("sha256:", 1)[1][:64]
    text = render(found).dockerfile.replace(identity.encode(), b"0" * 64)
    if os.environ.get("ENVBUILD_UPDATE_GOLDEN"):
        GOLDEN.write_bytes(text)
    assert text.decode() == GOLDEN.read_text()


def test_the_dockerfile_needs_nothing_new_and_nothing_remote() -> None:
    """No frontend line, no BuildKit feature, no address, no package manager that downloads."""
    text = render(lock()).dockerfile.decode()
    for word in ("syntax=", "--mount", "--chmod", "--link", "<<EOF", "http:", "https:", "apt-get", "pip install"):
        assert word not in text
    assert [line for line in text.splitlines() if line.startswith("FROM ")] == [
        "FROM scratch AS os",
        "FROM os AS environment",
        "FROM scratch",
    ]


def test_a_base_image_comes_as_the_file_that_the_lock_names() -> None:
    """A lock over a base image brings its file system, not OS packages, and asks no registry: it may be gone."""
    name = "registry.example.invalid:5000/team/base:1"
    system = Os(
        release="debian-12",
        architecture="amd64",
        image=f"{name}@sha256:{'a' * 64}",
        image_rootfs="b" * 64,
        image_size=7,
    )
    context = render(lock(os=system))
    text = context.dockerfile.decode()
    assert "FROM scratch AS os\nADD base.tar /\n" in text
    assert f"#    {system.image}\n#    as locked, sha256:{'b' * 64}: no registry is asked" in text
    assert f'"org.opencontainers.image.base.name"="{name}"' in text
    assert f'"org.opencontainers.image.base.digest"="sha256:{"a" * 64}"' in text
    assert context.files["base.tar"] == Stored(sha256="b" * 64, size=7)
    assert not [path for path in context.files if path.startswith("os/")]


@pytest.mark.parametrize("image", ["base:latest", f"base@sha256:{'a' * 64}\nRUN x", f"-x@sha256:{'a' * 64}"])
def test_a_base_image_without_digest_is_refused(image: str) -> None:
    """What is not pinned, or is no image name, never reaches the Dockerfile."""
    with pytest.raises(LockError, match=r"os\.image"):
        render(lock(os=Os(release="debian-12", architecture="amd64", image=image)))


@pytest.mark.parametrize("value", ["a\nRUN touch /x", "a\rb", "a\0b"])
def test_values_that_end_a_line_are_refused(value: str) -> None:
    """A variable cannot smuggle an instruction into the Dockerfile."""
    with pytest.raises(LockError, match="environment"):
        render(lock(environment={"X": value}))


def test_values_that_cannot_be_seen_are_refused() -> None:
    """A sign that turns the text around is refused, named with its field."""
    with pytest.raises(LockError) as caught:
        render(lock(environment={"X": "a\u202eb"}))
    assert caught.value.message == (
        "pylock.digits.toml: environment.X: 'a\\u202eb' does not fit in a Dockerfile: expected printable characters"
    )


def test_files_are_named_by_digest() -> None:
    """Packages and wheels are references into the store; everything else is bytes."""
    files = render(lock()).files
    assert files["os/debs/dpkg_1.0_all.deb"] == Stored(sha256=sha256_bytes(DPKG), size=len(DPKG))
    assert files["wheels/one-1.0-py3-none-any.whl"] == Stored(sha256=sha256_bytes(b"one"), size=3)
    assert files["tools/SHA256SUMS"] == (
        f"{sha256_bytes(b'one')}  one-1.0-py3-none-any.whl\n{sha256_bytes(b'two')}  two-2.0-py3-none-any.whl\n".encode()
    )
    assert sorted(path for path, content in files.items() if isinstance(content, bytes)) == [
        "modules.tar",
        "os/SHA256SUMS",
        "os/install.sh",
        "runtime.tar",
        "tools/SHA256SUMS",
        "tools/compile.py",
        "tools/wheel.py",
    ]


def test_a_context_is_complete_with_fixed_modes(tmp_path: Path) -> None:
    """Everything the Dockerfile names is there, readable whatever the umask, and the same when written again."""
    store = store_of(tmp_path, DPKG, *WHEELS.values())
    old = os.umask(0o077)
    try:
        write_context(render(lock()), store, tmp_path / "one")
    finally:
        os.umask(old)
    write_context(render(lock()), store, tmp_path / "two")
    found = snapshot(tmp_path / "one")
    assert found == snapshot(tmp_path / "two")
    assert {mode for mode, _ in found.values()} == {0o755, 0o644}
    assert found["os/plan"][1] == b"bootstrap\nforce dpkg_1.0_all.deb\nconfigure\nconfigure\n"
    with tarfile.open(tmp_path / "one" / "seed.tar") as seed:
        assert "usr/bin/dpkg" in seed.getnames()
    with tarfile.open(tmp_path / "one" / "runtime.tar") as runtime:
        assert layout.LOCK_PATH.lstrip("/") in runtime.getnames()


def test_an_earlier_context_is_replaced(tmp_path: Path) -> None:
    """Writing again leaves no file of the context before."""
    store = store_of(tmp_path, DPKG, *WHEELS.values())
    write_context(render(lock()), store, tmp_path / "context")
    fewer = msgspec.structs.replace(lock(), packages=lock().packages[:1])
    write_context(render(fewer), store, tmp_path / "context")
    assert [path.name for path in (tmp_path / "context" / "wheels").iterdir()] == ["one-1.0-py3-none-any.whl"]


@pytest.mark.parametrize("name", ["notes.txt", "Dockerfile"])
def test_somebodys_files_are_never_replaced(tmp_path: Path, name: str) -> None:
    """A folder that holds anything else is refused and left alone."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("FROM scratch\n")
    with pytest.raises(UsageError) as caught:
        write_context(render(lock()), store_of(tmp_path, DPKG, *WHEELS.values()), folder)
    assert caught.value.message == f"{folder} holds files that are no context of envbuild"
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize("name", ["wheels/mine-1.0-py3-none-any.whl", "os/notes", "tools/wheel.py.orig"])
def test_files_added_to_a_context_are_not_removed(tmp_path: Path, name: str) -> None:
    """A context is replaced as long as it holds what was written; a file that somebody has added stops that."""
    store = store_of(tmp_path, DPKG, *WHEELS.values())
    folder = tmp_path / "context"
    write_context(render(lock()), store, folder)
    (folder / name).write_text("mine")
    with pytest.raises(UsageError) as caught:
        write_context(render(lock()), store, folder)
    assert caught.value.message == f"{folder} holds files that are no context of envbuild"
    assert (folder / name).read_text() == "mine"


@pytest.mark.parametrize("content", [None, b"altered"])
def test_a_missing_or_altered_file_leaves_no_context(tmp_path: Path, content: bytes | None) -> None:
    """The store is not trusted: every copy is checked, and a failure leaves nothing behind."""
    (tmp_path / "store").mkdir()
    store = store_of(tmp_path / "store", DPKG, *WHEELS.values())
    path = store(sha256_bytes(b"two"))
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IntegrityError, match=r"^two-2\.0-py3-none-any\.whl .* \(?sha256|altered"):
        write_context(render(lock()), store, tmp_path / "context")
    assert [entry.name for entry in tmp_path.iterdir()] == ["store"]


def test_wheels_are_installed_in_the_order_of_the_plan() -> None:
    """Where two wheels ship one path the later one wins, so the order must be that of the assembled image."""
    large = wheel_bytes("zz", "1.0", {"zz.bin": os.urandom(8)})
    found = small_lock({"aa-1.0-py3-none-any.whl": b"a", "zz-1.0-py3-none-any.whl": large}, {"dpkg_1.0_all.deb": DPKG})
    first = found.packages[1]
    sized = msgspec.structs.replace(first, wheel=msgspec.structs.replace(first.wheel, size=layout.LARGE_WHEEL))
    text = render(msgspec.structs.replace(found, packages=(found.packages[0], sized))).dockerfile.decode()
    assert text.index("zz-1.0-py3-none-any.whl") < text.index("aa-1.0-py3-none-any.whl")


def test_a_standalone_python_is_in_the_context(tmp_path: Path) -> None:
    """The context holds what the image holds of it, and its modules once more, to be compiled."""
    archive = tiny_archive(tmp_path / "a.tar.gz")
    made = standalone_lock(lock(), archive)
    text = render(made).dockerfile.decode()
    assert "\nADD python.tar /\n" in text
    assert 'RUN ["/opt/python/bin/python3.12", ' in text
    store = store_of(tmp_path, DPKG, *WHEELS.values(), archive.read_bytes())
    write_context(render(made), store, tmp_path / "context")
    write_context(render(made), store, tmp_path / "context")  # an earlier context is known by its files
    with tarfile.open(tmp_path / "context" / "python.tar") as tar:
        assert "opt/python/bin/python3.12" in tar.getnames()
    with tarfile.open(tmp_path / "context" / "python-modules.tar") as tar:
        assert [name for name in tar.getnames() if name.endswith(".py")] == ["opt/python/lib/python3.12/os.py"]
    assert b"ADD python" not in render(lock()).dockerfile
