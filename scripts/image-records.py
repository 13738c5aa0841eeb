#!/usr/bin/env python3
"""Build the images of the reference locks whose digests are not recorded, and write the table of lockfiles/README.md.

    scripts/image-records.py [NAME…]    build what lacks a record, several GB for those with CUDA; then the table
    scripts/image-records.py --table    the table alone; asks no index, needs no envbuild and no engine

A record of an earlier state of its lock reports nothing about this one: it is removed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "lockfiles" / "README.md"
TITLES = {"tensorflow": "TensorFlow", "torch": "PyTorch", "jax": "JAX", "scikit-learn": "scikit-learn"}
ROW = re.compile(r"^\| \[`([a-z0-9-]+)`\]\(\1/spec\.yaml\).*$", re.M)
OF_THIS_MACHINE = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_EXTRA_INDEX_URL")


def lock_table(name: str) -> dict[str, Any]:
    """Return envbuild's part of a reference lock."""
    table = tomllib.loads((ROOT / "lockfiles" / name / f"pylock.{name}.toml").read_text(encoding="utf-8"))
    return dict(table["tool"]["envbuild"])


def image_record(name: str) -> dict[str, Any] | None:
    """Return what is recorded of a lock's image; None if nothing is, or if it is of another state of the lock."""
    path = ROOT / "lockfiles" / name / f"pylock.{name}.image.json"
    if not path.exists():
        return None
    record = dict(json.loads(path.read_bytes()))
    return record if record["lock"] == lock_table(name)["digest"] else None


def row(name: str) -> str:
    """Return a lock's row of the table."""
    table, record = lock_table(name), image_record(name)
    framework = ", ".join(
        f"{title} {table['frameworks'][key]}" for key, title in TITLES.items() if key in table["frameworks"]
    )
    system = f"{table['os']['release'].replace('-', ' ').title()}, {table['python']['version']}"
    cuda = table.get("cuda")
    versions = (f"{cuda['version']}, {cuda['cudnn']}", cuda["driver"]) if cuda else ("–", "–")
    size, digest = "not recorded", ""
    if record is not None:
        size, digest = f"{sum(record['sizes']) / 1e9:.1f} GB", f"`{record['config'][:12]}…`"
    cells = [f"[`{name}`]({name}/spec.yaml)", framework, system, *versions, size, digest]
    return f"| {' | '.join(cells)} |"


def build(name: str) -> None:
    """Build a lock's image into a folder that is thrown away; the record stays next to the lock."""
    folder = ROOT / "lockfiles" / name
    environment = dict(os.environ)
    if "+cpu" not in (folder / "spec.yaml").read_text(encoding="utf-8"):  # as in lockfiles.sh
        environment = {key: value for key, value in environment.items() if key not in OF_THIS_MACHINE}
        environment["PIP_CONFIG_FILE"] = "/dev/null"
    with tempfile.TemporaryDirectory(dir=environment.get("TMPDIR")) as out:
        command = [sys.executable, "-m", "envbuild", "build", "--output", f"oci:{Path(out) / 'image'}"]
        subprocess.run(command, cwd=folder, env={**environment, "PYTHONPATH": str(ROOT)}, check=True)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--table", action="store_true", help="write the table, build nothing")
    options = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    known = ROW.findall(text)
    for name in options.names or known:
        if name not in known:
            parser.error(f"{name}: not in the table of lockfiles/README.md: {', '.join(known)}")
        if image_record(name) is None:
            (ROOT / "lockfiles" / name / f"pylock.{name}.image.json").unlink(missing_ok=True)
            if not options.table:
                print(f"== {name}", flush=True)
                build(name)
    README.write_text(ROW.sub(lambda found: row(found[1]), text), encoding="utf-8")


main()
