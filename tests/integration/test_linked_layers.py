"""Layers that delete files and replace folders, linked into one tree: what is seen is what an overlay shows."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_namespaces import AS_NOBODY, NOBODY, PYTHON
from tests.support.cli import ROOT

DESCRIBE = """\
import hashlib, json, os, stat, sys

def described(top):
    found = {}
    for folder, folders, files in os.walk(top):
        for path in [f"{folder}/{name}" for name in (*folders, *files)] + [folder]:
            status = os.lstat(path)
            content = ""
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = open(path).read()
            owner = [status.st_uid, status.st_gid] if sys.argv[2] == "root" else []
            found[path[len(top):] or "/"] = [status.st_mode, owner, status.st_mtime_ns, content]
    return found
"""
LAYERS = """
import shutil, subprocess
from pathlib import Path

top, options = sys.argv[1], "userxattr" if sys.argv[2] != "root" else "redirect_dir=off,metacopy=off,index=off"

def write(*paths):
    for path in map(Path, paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(os.getcwd() + str(path))

def first():
    write("a/gone", "a/kept", "b/inner/x", "b/y", "c", "d/file", "e/deep/deeper/old", "e/side", "g/all/of/it", "h/x")
    os.symlink("a/kept", "link")
    os.symlink("nowhere", "b/dangling")

def second():
    os.unlink("a/gone")
    os.chmod("a", 0o700)
    shutil.rmtree("b")
    write("b/new")
    os.unlink("c")
    write("c/inside")
    shutil.rmtree("d")
    write("d")
    os.unlink("link")
    write("link/entry")
    shutil.rmtree("h")

def third():
    write("a/gone/again", "h/back")
    os.unlink("b/new")
    write("b/inner/other")
    os.unlink("d")
    write("d/third")
    shutil.rmtree("e/deep")
    write("e/deep/deeper/new")
    shutil.rmtree("g")
    shutil.rmtree("link")

os.makedirs(f"{top}/1/tree")
os.chdir(f"{top}/1/tree")
first()
for number, change in ((2, second), (3, third)):
    for name in (f"{number}/tree", f"work{number}", f"place{number}"):
        os.makedirs(f"{top}/{name}")
    lower = ":".join(f"{top}/{each}/tree" for each in range(number - 1, 0, -1))
    mounted = f"lowerdir={lower},upperdir={top}/{number}/tree,workdir={top}/work{number},{options}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", mounted, f"{top}/place{number}"], check=True)
    os.chdir(f"{top}/place{number}")
    change()
marks = {"whiteouts": 0, "opaque": 0}
for folder, folders, files in os.walk(f"{top}/3/tree"):
    marks["whiteouts"] += sum(stat.S_ISCHR(os.lstat(f"{folder}/{name}").st_mode) for name in files)
    marks["opaque"] += any(name.endswith(".overlay.opaque") for name in os.listxattr(folder))
print(json.dumps([marks, described(f"{top}/place3")]))
"""
LINKED = """
from pathlib import Path
from envbuild.engine.local import linked
from envbuild.engine.local.trees import Tree

top = Path(sys.argv[1])
trees = [Tree(path=top / name / "tree") for name in "123"]
(top / "linked").mkdir()
made = linked.LinkedTrees(top / "linked", lambda image: None, "boot").make("f" * 64, ("1", "2", "3"), trees)
sources = [str(tree.path) for tree in reversed(trees)]
sound = [linked._is_merged(sources, str(made.path))]
(made.path / "b/y").write_text("what a layer had deleted")
sound.append(linked._is_merged(sources, str(made.path)))
(made.path / "b/y").unlink()
os.utime(made.path / "b", ns=(0, (top / "3/tree/b").stat().st_mtime_ns))
(top / "own").mkdir()
linked.prepare(made, top / "own")
print(json.dumps([sound, described(str(made.path)), described(str(top / "own"))]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="makes mounts, and starts programs as another user")
@pytest.mark.parametrize("who", ["root", "nobody"])
def test_what_is_seen_of_layers_that_delete_and_replace(who: str) -> None:
    """Whiteouts and opaque folders as the kernel makes them, as root and in a user's namespace, are read as it does."""
    user = AS_NOBODY if who == "nobody" else ()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        os.chown(name, *[int(NOBODY) if user else 0] * 2)

        def call(program: str, *prefix: str) -> Any:
            environment = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
            }
            command = [*user, *prefix, PYTHON, "-B", "-c", DESCRIBE + program, name, who]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        marks, expected = call(LAYERS, "unshare", *(("-Ur",) if user else ()), "-m")
        assert min(marks.values()) >= 2, marks
        sound, found, own = call(LINKED)
    assert found == expected
    assert own == expected
    assert sound == [True, False]
