"""The OS layer, made for real: the same bytes every time, whoever makes it, and a clear word if a package fails."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

from envbuild.errors import BuildError
from envbuild.lockfile.model import Os
from tests.support.oslocks import build_with, real_os, shared_store

pytestmark = [pytest.mark.engine, pytest.mark.network]

ROOT = Path(__file__).parents[2]

# A process of its own: time zone, locale and umask belong to a process.
BUILDER = """
import sys, msgspec
from pathlib import Path
from envbuild.engine.docker.adapter import connect
from envbuild.image.os.rootfs import build_os_layer
from envbuild.lockfile.model import Os
from envbuild.core.progress import Silent
from envbuild.store.objects import Store
os = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Os)
print(build_os_layer(os, Store(Path(sys.argv[2])).path, connect(), Path(sys.argv[3]), Silent()).diff_id)
"""


@pytest.mark.parametrize(("release", "python"), [("debian-12", "python3.11"), ("debian-13", "python3.13")])
def test_two_builds_are_one_layer(tmp_path: Path, release: str, python: str) -> None:
    """Another time zone, locale, umask, home and order of packages give the same bytes."""
    system = real_os(release, python, "libstdc++6", "ca-certificates", "passwd")
    first = _build(system, tmp_path / "1", {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"}, 0o022)
    backwards = msgspec.structs.replace(system, packages=system.packages[::-1])
    changed = {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    assert _build(backwards, tmp_path / "2", changed, 0o077) == first
    assert hashlib.sha256((tmp_path / "1" / "os.tar").read_bytes()).hexdigest() == first
    _check_layer(tmp_path / "1" / "os.tar", python)


def test_two_builds_of_what_debian_11_locks_have_are_one_layer(tmp_path: Path) -> None:
    """Without its own Python, since such locks have a standalone one."""
    system = real_os("debian-11", "libstdc++6", "ca-certificates", "passwd")
    assert not any(package.name.startswith("python3") for package in system.packages)
    first = _build(system, tmp_path / "1", {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"}, 0o022)
    backwards = msgspec.structs.replace(system, packages=system.packages[::-1])
    changed = {"TZ": "America/St_Johns", "LC_ALL": "C.UTF-8", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"}
    assert _build(backwards, tmp_path / "2", changed, 0o077) == first


def test_a_failing_package_is_named(tmp_path: Path) -> None:
    """A maintainer script that fails is an error with its package and its output, and no layer."""
    with pytest.raises(BuildError) as caught:
        _broken(tmp_path, {"postinst": "#!/bin/sh\necho no licence for you\nexit 3\n"})
    assert caught.value.message.startswith("the OS package broken could not be installed: /bin/sh ")
    assert "no licence for you" in caught.value.message
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_scripts_see_no_network_no_service_and_a_fixed_world(tmp_path: Path) -> None:
    """No address, no start of services, no question, a fixed host name, time and hash order; what would hold the time
    or a random order all the same, as TeX's formats do, is gone at the end."""
    script = """#!/bin/sh
set -e
{ echo "$LC_ALL $TZ $SOURCE_DATE_EPOCH $DEBIAN_FRONTEND $PYTHONHASHSEED"; uname -n
sed 1,2d /proc/net/dev | cut -d: -f1
/usr/sbin/policy-rc.d || echo "services: $?"; } >/usr/share/seen
for name in pdftex/latex.fmt pdftex/latex.log luatex/luatex.fmt tex/tex.fmt metafont/mf.base; do
    mkdir -p "/var/lib/texmf/web2c/${name%/*}"
    date >"/var/lib/texmf/web2c/$name"
done
"""
    _broken(tmp_path, {"postinst": script})
    with tarfile.open(tmp_path / "out" / "os.tar") as layer:
        content = layer.extractfile("usr/share/seen")
        assert content is not None
        seen = content.read().decode().split("\n")
        formats = [name for name in layer.getnames() if name.startswith("var/lib/texmf/") and "." in name]
    assert formats == [f"var/lib/texmf/web2c/{name}" for name in ("metafont/mf.base", "pdftex/latex.fmt")]
    assert [line.strip() for line in seen] == [
        "C UTC 315532800 noninteractive 0",
        "envbuild",
        "lo",
        "services: 101",
        "",
    ]


def _broken(folder: Path, scripts: dict[str, str]) -> None:
    """Build Debian 12 with one more package."""
    build_with(folder, folder / "out" / "os.tar", "broken", {"/usr/share/broken": "x"}, scripts)


def _build(system: Os, folder: Path, environment: dict[str, str], mask: int) -> str:
    folder.mkdir()
    (folder / "os.json").write_bytes(msgspec.json.encode(system))
    command = [
        sys.executable, "-c", BUILDER, str(folder / "os.json"), str(shared_store().root), str(folder / "os.tar"),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, umask=mask, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _check_layer(path: Path, python: str) -> None:
    """What an image needs is there, what would vary is not."""
    with tarfile.open(path) as layer:
        names = set(layer.getnames())
        status = layer.extractfile("var/lib/dpkg/status")
        shadow = layer.extractfile("etc/shadow")
        assert status is not None
        assert shadow is not None
        assert b"Status: install ok installed" in (text := status.read())
        assert text.count(b"\nStatus: ") == text.count(b"\nStatus: install ok installed\n")
        assert {line.split(b":")[2] for line in shadow.read().splitlines()} == {b"3652"}
        assert layer.getmember(f"usr/bin/{python}").isreg()
        assert layer.getmember("bin").linkname == "usr/bin"
    library = f"usr/lib/{python}"
    assert f"{library}/__pycache__/os.cpython-{python.removeprefix('python').replace('.', '')}.pyc" in names
    assert not {
        "usr/sbin/policy-rc.d", "var/log/dpkg.log", "var/cache/ldconfig/aux-cache", "var/lib/dpkg/status-old",
        "tmp/envbuild-os", ".dockerenv", "etc/passwd-",
    } & names  # fmt: skip
    assert "var/lib/dpkg/updates" in names
    # update-alternatives fails without the folder, as Java's packages show in images that leave it out.
    assert "usr/share/man/man1" in names
    assert {name for name in names if name.startswith("usr/share/man/man1/")} <= {"usr/share/man/man1/sh.1.gz"}
    assert "usr/share/doc/libc6/copyright" in names
    assert json.dumps(sorted(name for name in names if name.startswith(("tmp/", "dev/", "proc/", "sys/")))) == "[]"
