"""Derive ``data/pythons.toml`` from uv's own list: python -m tools.python_builds [--check] [--digests FILE].

Which standalone builds of CPython there are is what the installed uv lists, which it does without network. Its list has
no digests. They are in uv's source, ``crates/uv-python/download-metadata.json``, which ``--digests`` reads; those that
the table has already stay. A build without one is downloaded and hashed when it is first locked. No address is kept:
only what follows the mirror's root.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import tomli_w

from envbuild.core import package_data, types
from envbuild.core.digest import SHA256
from envbuild.errors import EnvbuildError
from envbuild.resolve.python import builds
from envbuild.resolve.python.uv import find_uv
from envbuild.spec.keys import STANDALONE
from tools.tables import refresh

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_STABLE = re.compile(r"3\.[0-9]+\.[0-9]+")
_HEAD = """\
# Standalone builds of CPython (python-build-standalone) for Linux with glibc, by architecture and release: path below a
# mirror's root, and SHA-256 where uv's metadata states it. Derived from the list of uv; do not edit: make pythontable
"""


def listed() -> list[dict[str, Any]]:
    """Return what the installed uv lists, for all platforms."""
    command = [find_uv(), "python", "list", "--all-versions", "--all-platforms", "--all-arches", "--show-urls"]
    command += ["--output-format", "json", "--python-preference", "only-managed", "--offline", "--no-config"]
    found = subprocess.run(command, check=True, capture_output=True).stdout
    return list(json.loads(found))


def rows(entries: Iterable[Mapping[str, Any]], digests: Mapping[str, str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return the table of each architecture from the entries of uv's list.

    Args:
        digests: SHA-256 by path below the mirror's root.
    """
    found: dict[str, dict[str, dict[str, str]]] = {name: {} for name in MACHINES.values()}
    for entry in entries:
        architecture = MACHINES.get(entry["arch"], "")
        feature = entry["version"].rpartition(".")[0]
        kind = (entry["implementation"], entry["variant"], entry["os"], entry["libc"])
        if kind != ("cpython", "default", "linux", "gnu") or not architecture or not entry["url"]:
            continue
        if _STABLE.fullmatch(entry["version"]) and feature in STANDALONE:
            path = path_of(entry["url"])
            if not types.matches(types.BuildPath, path):  # of 2021 some have other names and another form
                continue
            digest = digests.get(path, "")
            found[architecture].setdefault(entry["version"], {"path": path, **({"sha256": digest} if digest else {})})
    return {
        name: {version: table[version] for version in sorted(table, key=builds.numbers, reverse=True)}
        for name, table in found.items()
    }


def path_of(url: str) -> str:
    """Return what follows the mirror's root in a build's address: release and file name, decoded."""
    return unquote("/".join(urlsplit(url).path.split("/")[-2:]))


def digests_in(document: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return SHA-256 by path of uv's ``download-metadata.json``."""
    pairs = ((path_of(str(entry["url"])), entry.get("sha256") or "") for entry in document.values())
    return {path: sha256 for path, sha256 in pairs if SHA256.fullmatch(sha256)}


def render(tables: Mapping[str, Any], sources: Iterable[str]) -> bytes:
    """Return the data file."""
    return (_HEAD + tomli_w.dumps({"source": list(sources), **tables})).encode()


def _known() -> dict[str, str]:
    """Return the digests that the table has already."""
    if not package_data.data_path(builds.FILE).exists():
        return {}
    found = builds.table()
    return {row.path: row.sha256 for table in (found.amd64, found.arm64) for row in table.values()}


def _sources() -> Iterator[str]:
    version = subprocess.run([find_uv(), "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    yield f"builds: uv {version}, uv python list --all-versions --show-urls"
    yield "digests: crates/uv-python/download-metadata.json of uv's source"


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or with ``--check`` only compare; show what differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.python_builds", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file would change")
    parser.add_argument("--digests", type=Path, help="uv's download-metadata.json")
    options = parser.parse_args(arguments)
    path = package_data.data_path(builds.FILE)
    try:
        fresh = digests_in(json.loads(options.digests.read_bytes())) if options.digests else {}
        after = render(rows(listed(), {**_known(), **fresh}), _sources())
    except (EnvbuildError, OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 12
    return refresh(path, after, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
