"""Causes in docs/explanation/causes.md that no other file proves end to end; that page names the test of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from envbuild import cli
from envbuild.image.runtime import files
from tests.support.boxes import Start, starter
from tests.support.cli import Project
from tests.support.guardbox import make_image_lock

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.both_engines]

LIBM = """
import hashlib, math, struct
values = [math.exp(n / 7) * math.sin(n) + math.pow(n + 0.1, 1.7) for n in range(2000)]
print(hashlib.sha256(struct.pack("2000d", *(value % 1e6 for value in values))).hexdigest())
"""
OTHER_CPU = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"


@pytest.fixture(scope="module", name="box")
def _box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts containers of a small image with one locked distribution; all of it is removed afterwards."""
    with starter(tmp_path_factory.mktemp("image"), make_image_lock()) as start:
        yield start


def test_another_patch_version_of_a_library_is_refused(box: Start) -> None:
    """Cause 8: one patch version more or less than locked, put into the image after the build, and nothing runs."""
    running = box("sh", "-c", "echo started; exec sleep 600")
    running.says("started")
    assert running.execute("python", "-c", "print('ran')") == (0, "ran\n")
    site = files.site_packages(make_image_lock())
    other = f"import shutil; shutil.copytree('{site}/numpy-2.4.6.dist-info', '{site}/numpy-2.4.5.dist-info')"
    program = f"{other}; shutil.rmtree('{site}/numpy-2.4.6.dist-info')"
    assert running.execute("python", "-c", program) == (0, "")
    code, output = running.execute("python", "-c", "print('ran')")
    assert (code, "ran" in output.splitlines()) == (78, False)
    assert output == (
        "envbuild: this image does not match pylock.digits.toml — nothing was run\n"
        "  field            locked   found   what it means\n"
        "  packages.numpy   2.4.6    2.4.5   another version\n"
        "what to do:\n"
        "  run the image as it was built: envbuild build\n"
    )


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="glibc has these variants on x86-64 only")
def test_another_variant_of_the_maths_library_is_refused(box: Start) -> None:
    """Cause 9: what GLIBC_TUNABLES chooses, as another CPU would, gives other bits; a run with it does not start."""

    def computed(**variables: str) -> str:
        command = [sys.executable, "-c", LIBM]
        return subprocess.run(command, env=variables, check=True, capture_output=True, text=True).stdout

    assert computed() == computed() != computed(GLIBC_TUNABLES=OTHER_CPU)
    code, out, err = box("python", "-c", LIBM, environment={"GLIBC_TUNABLES": OTHER_CPU}).wait()
    assert (code, out) == (78, "")
    assert "environment.GLIBC_TUNABLES" in err
    assert box("python", "-c", LIBM).wait()[0] == 0


def test_a_changed_script_is_named(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Causes 16 and 17: a module that the script imports was changed; both runs wrote it down, diff names the line."""
    project.write("train.py", "import features\nopen('model.txt', 'w').write(repr(features.scaled(3)))\n")
    project.write("features.py", "FACTOR = 2\n\n\ndef scaled(value):\n    return value * FACTOR\n")
    project.must("run", "-q", "train.py")
    project.write("features.py", "FACTOR = 2.5\n\n\ndef scaled(value):\n    return value * FACTOR\n")
    project.must("run", "-q", "train.py")
    monkeypatch.setenv("ENVBUILD_STORE", str(project.store))
    monkeypatch.chdir(project.folder)
    assert cli.main(["diff"]) == 16
    shown = capsys.readouterr().out
    assert "because   features.py  1 line changed, line 1\n" in shown, shown
    assert "- FACTOR = 2\n" in shown
    assert "+ FACTOR = 2.5\n" in shown
    for record in project.must("runs", "--json").json:
        whole = json.loads((project.folder / ".envbuild" / "runs" / record["id"] / "record.json").read_text())
        assert whole["lock"]["sha256"]
        assert whole["processes"][0]["seed"] == 42
