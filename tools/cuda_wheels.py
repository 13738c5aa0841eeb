"""Derive ``data/cuda-wheels.toml`` from the package index: python -m tools.cuda_wheels [--check].

Which releases there are, the Pythons their wheels are for, and which of NVIDIA's wheels they ask for: all of it stands
in the index's pages and in the wheels' METADATA, of which only a few hundred kilobytes are read. The index is the one
that this machine's uv or pip is configured with; no address is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec
import tomli_w

from envbuild.core import package_data
from envbuild.errors import EnvbuildError
from envbuild.net.http import HttpError
from envbuild.resolve.cuda.table import Derived, Release, Toolkit, numbers, span
from envbuild.resolve.python.index_pages import File, Index
from tools.tables import refresh

if TYPE_CHECKING:
    from packaging.requirements import Requirement

FILE = "cuda-wheels.toml"
OLDEST = {"tensorflow": (2, 14), "torch": (2, 1), "jax": (0, 4, 30)}
"""Older releases have no wheels for the Pythons that images have."""
_PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
_HEAD = """\
# Which of NVIDIA's wheels the frameworks ask for, and which make up each CUDA toolkit. Derived from the metadata of the
# wheels on the package index; do not edit: python -m tools.cuda_wheels
"""


def derive(index: Index) -> Derived:
    """Read everything; a minute or two."""
    with ThreadPoolExecutor(4) as pool:
        frameworks = [rows for framework in OLDEST for rows in _rows(index, framework, pool)]
        toolkits = [*pool.map(lambda files: _toolkit(index, files), _by_feature(index.wheels("cuda-toolkit")).values())]
    found = sorted(
        (row for rows in frameworks for row in rows), key=lambda row: (row.framework, numbers(row.version), row.extra)
    )
    return Derived(release=tuple(found), toolkit=tuple(sorted(toolkits, key=lambda row: numbers(row.cuda))))


def render(derived: Derived) -> bytes:
    """Return the data file."""
    return (_HEAD + tomli_w.dumps(msgspec.to_builtins(derived))).encode()


def _rows(index: Index, framework: str, pool: ThreadPoolExecutor) -> Iterator[list[Release]]:
    """Yield the rows of each feature release."""
    features = _by_feature(index.wheels(framework))
    plugins = {major: index.wheels(f"jax-cuda{major}-plugin") for major in (12, 13)} if framework == "jax" else {}
    wanted = [
        files for key, files in features.items() if key >= OLDEST[framework][:2] and _newest(files, OLDEST[framework])
    ]
    yield from pool.map(lambda files: _feature(index, framework, files, plugins), wanted)


def _newest(files: list[File], oldest: tuple[int, ...]) -> bool:
    return numbers(files[-1].version) >= oldest


def _feature(index: Index, framework: str, files: list[File], plugins: Mapping[int, list[File]]) -> list[Release]:
    """Return the rows of one feature release: one, or one for each of JAX's CUDA majors."""
    last = files[-1].version
    rows = []
    sources = {"": files} if not plugins else {f"cuda{major}": found for major, found in plugins.items()}
    for extra, wheels in sources.items():
        same = [file for file in wheels if file.version == last]
        if not same:
            continue
        asked = index.requirements(same[0])
        if row := _row(framework, files, same, extra, asked, index):
            rows.append(row)
    return rows


def _row(
    framework: str, files: list[File], same: list[File], extra: str, asked: list[Requirement], index: Index
) -> Release | None:
    """Join what one wheel reports to a row; None if it asks for no CUDA runtime."""
    chosen = {"tensorflow": "and-cuda", "jax": "with-cuda", "torch": ""}[framework]
    specifiers = {r.name.lower().replace("_", "-"): str(r.specifier) for r in asked if _applies(r, chosen)}
    toolkit = specifiers.get("cuda-toolkit", "")
    if toolkit:
        runtime, cuda = "nvidia-cuda-runtime", _minor(toolkit)
    else:
        runtime = next((name for name in specifiers if name.startswith("nvidia-cuda-runtime")), "")
        cuda = _minor(specifiers.get(runtime, ""))
    if not runtime:
        return None
    suffix = runtime.removeprefix("nvidia-cuda-runtime") or f"-cu{numbers(cuda.lstrip('=<>'))[0]}"
    return Release(
        framework=framework,
        version=".".join(files[-1].version.split(".")[:2]),
        releases=tuple(dict.fromkeys(file.version for file in files)),
        python=_pythons(same),
        extra=extra or chosen,
        cuda=_bounded(cuda),
        cudnn=specifiers.get(f"nvidia-cudnn{suffix}", ""),
        nccl=specifiers.get(f"nvidia-nccl{suffix}", ""),
        runtime=runtime,
        metadata=f"{same[0].name.split('-')[0].replace('_', '-')} {files[-1].version}",
    )


def _applies(requirement: Requirement, extra: str) -> bool:
    """Return whether a requirement counts on x86-64 Linux with an extra."""
    environment = {
        "platform_system": "Linux",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
        "python_version": "3.13",
        "python_full_version": "3.13.0",
    }
    # Before PEP 685 an extra could be written with an underscore.
    spellings = (extra, extra.replace("-", "_"))
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**environment, "extra": name}) for name in spellings)


def _minor(specifier: str) -> str:
    """Cut the versions of a specifier after the minor: what counts for choosing a toolkit."""
    parts = []
    for part in sorted(specifier.replace(" ", "").split(","), reverse=True):
        operator = part[: len(part) - len(part.lstrip("=<>~!"))]
        version = part[len(operator) :].removesuffix(".*")
        parts.append(f"{operator}{'.'.join(version.split('.')[:2])}" + (".*" if operator == "==" else ""))
    return ",".join(filter(None, parts))


def _bounded(specifier: str) -> str:
    """Close an open range at the next major: no wheel is built for more than one."""
    if "==" in specifier or "<" in specifier:
        return specifier
    return f"{specifier},<{numbers(specifier.lstrip('>='))[0] + 1}"


def _toolkit(index: Index, files: list[File]) -> Toolkit:
    """Return the wheels of a toolkit: names as in its last update, versions as in its first release."""
    first, last = _pins(index, files[0]), _pins(index, files[-1])
    wheels = {name: _first(first.get(name, specifier)) for name, specifier in sorted(last.items())}
    feature = ".".join(files[-1].version.split(".")[:2])
    names = " and ".join(dict.fromkeys((files[0].version, files[-1].version)))
    return Toolkit(cuda=feature, wheels=wheels, metadata=f"cuda-toolkit {names}")


def _first(specifier: str) -> str:
    """Return the least version that a specifier admits."""
    return ".".join(map(str, span(specifier)[0]))


def _pins(index: Index, file: File) -> dict[str, str]:
    return {r.name: str(r.specifier) for r in index.requirements(file) if _applies(r, "all")}


def _pythons(files: list[File]) -> tuple[str, ...]:
    """Return the Pythons that a release's wheels are for."""
    from packaging.utils import parse_wheel_filename

    found = set()
    for file in files:
        for tag in parse_wheel_filename(file.name)[3]:
            if tag.abi == tag.interpreter and tag.interpreter.startswith("cp3"):
                found.add(f"3.{tag.interpreter[3:]}")
            elif tag.interpreter in {"py3", "py2.py3"}:
                found.update(_PYTHONS)
    return tuple(sorted(found, key=numbers))


def _by_feature(files: list[File]) -> dict[tuple[int, ...], list[File]]:
    """Group wheels by feature release, oldest first."""
    grouped: dict[tuple[int, ...], list[File]] = {}
    for file in sorted(files, key=lambda file: (numbers(file.version), file.name)):
        grouped.setdefault(numbers(file.version)[:2], []).append(file)
    return grouped


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or with ``--check`` only compare; show what differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.cuda_wheels", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file would change")
    options = parser.parse_args(arguments)
    path = package_data.data_path(FILE)
    try:
        after = render(derive(Index(os.environ, "cuda-toolkit")))
    except (EnvbuildError, HttpError) as error:
        sys.stderr.write(f"{error}\n")
        return 12
    return refresh(path, after, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
