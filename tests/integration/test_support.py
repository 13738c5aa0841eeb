"""The makers of test files make what real tools accept."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.support import environments
from tests.support.debs import make_deb
from tests.support.environments import UV_INSTALL
from tests.support.indexes import make_index
from tests.support.server import FileServer
from tests.support.wheels import make_wheel


def test_uv_installs_from_a_made_index(tmp_path: Path) -> None:
    """A made wheel with dependencies, scripts and data installs from a made index over HTTP."""
    made = [
        make_wheel(
            tmp_path / "wheels",
            "top-pkg",
            "2.0",
            requires=["low_pkg>=1"],
            entry_points={"console_scripts": {"top": "top_pkg:main"}},
            data={"scripts/old": "#!python\n", "data/share/top": "x"},
        ),
        make_wheel(tmp_path / "wheels", "low_pkg", "1.5"),
    ]
    assert (
        made[0].read_bytes()
        == make_wheel(
            tmp_path / "again",
            "top-pkg",
            "2.0",
            requires=["low_pkg>=1"],
            entry_points={"console_scripts": {"top": "top_pkg:main"}},
            data={"scripts/old": "#!python\n", "data/share/top": "x"},
        ).read_bytes()
    )
    make_index(tmp_path / "index", made)
    with FileServer() as server:
        server.add_tree(tmp_path / "index")
        options = ["--no-config", "--no-cache", "--default-index", f"{server.url}/simple/"]
        command = [*UV_INSTALL, *options, "--target", str(tmp_path / "target"), "top-pkg"]
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        subprocess.run(command, check=True, env=environ, cwd=tmp_path, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "target").glob("*.py")) == ["low_pkg.py", "top_pkg.py"]
    assert (tmp_path / "target/share/top").read_text() == "x"


def test_dpkg_reads_a_made_package(tmp_path: Path) -> None:
    """dpkg-deb understands a made package: control fields, scripts and files."""
    for compression in ("xz", "gz", "none"):
        deb = make_deb(
            tmp_path,
            "made-pkg",
            "1:2.0-1",
            {"/usr/bin/made": "#!/bin/sh\n"},
            depends="libc6",
            scripts={"postinst": "#!/bin/sh\n"},
            compression=compression,
        )
        assert deb.name == "made-pkg_2.0-1_all.deb"
        fields = subprocess.run(
            ["dpkg-deb", "-f", deb, "Version", "Depends"], capture_output=True, text=True, check=True
        )
        assert fields.stdout == "Version: 1:2.0-1\nDepends: libc6\n"
        listing = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
        assert "-rwxr-xr-x 0/0" in listing
        assert listing.rstrip().endswith("./usr/bin/made")


def test_what_is_mounted_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a Python that is named, an environment's modules are compiled, though some are none; else once used."""
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    version = sysconfig.get_python_version()
    folder = tmp_path / environments.environment_name("jax", version)
    (folder / "package").mkdir(parents=True)
    (folder / ".complete").touch()
    (folder / "package/module.py").write_text("NUMBER = 1\n")
    (folder / "package/template.py").write_text("{{ name }} = \n")
    assert environments.environment("jax") == folder
    assert not (folder / "package/__pycache__").exists()
    assert environments.environment("jax", version) == folder
    (compiled,) = (folder / "package/__pycache__").iterdir()
    assert compiled.name.startswith("module.")
    compiled.unlink()
    assert environments.environment("jax", version) == folder
    assert not compiled.exists()
