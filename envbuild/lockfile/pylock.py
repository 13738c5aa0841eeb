"""The shape of the lock file: from the tables of ``Lock`` to a PEP 751 document and back, and checks across fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Table = dict[str, Any]

BEFORE_THE_GUARD = frozenset({"LD_PRELOAD", "LD_AUDIT", "GCONV_PATH"})
"""Variables by which the dynamic loader or the C library runs other code in every program, the guard included."""

STANDALONE_PREFIX = "/opt/python"
"""Where a standalone build of CPython is in an image."""

LIBRARY_PATH = "LD_LIBRARY_PATH"
"""Leads to other libraries than the locked ones; some base images set it for the driver's."""

_PACKAGE = frozenset({"name", "version", "wheels"})
_WHEEL = frozenset({"name", "path", "size", "hashes"})


def document(table: Mapping[str, Any], version: int) -> Table:
    """Return the PEP 751 document of a lock.

    Args:
        table: the lock as plain values, in the shape of ``Lock``.
        version: format version of ``[tool.envbuild]``.
    """
    python = table["python"]
    machine = "aarch64" if python["platform"].endswith("aarch64") else "x86_64"
    marker = f"sys_platform == 'linux' and platform_machine == '{machine}'"
    return {
        "lock-version": "1.0",
        "environments": [f"python_version == '{python['version']}' and {marker}"],
        "requires-python": f"=={python['version']}.*",
        "created-by": "envbuild",
        "packages": [_package_table(entry) for entry in table["packages"]],
        "tool": {"envbuild": {"version": version, **{key: table[key] for key in table if key != "packages"}}},
    }


def package(entry: object, path: str) -> Table:
    """Turn one PEP 751 package table into the shape of ``PythonPackage``.

    Raises:
        ValueError: with the field path; a key that envbuild does not write could make installers disagree.
    """
    table = _keys(entry, _PACKAGE, path)
    wheels = as_list(table["wheels"], f"{path}.wheels")
    if len(wheels) != 1:
        raise ValueError(f"{path}.wheels: expected exactly one wheel, found {len(wheels)}")
    wheel = _keys(wheels[0], _WHEEL, f"{path}.wheels[0]")
    hashes = _keys(wheel["hashes"], frozenset({"sha256"}), f"{path}.wheels[0].hashes")
    name = wheel["name"]
    if wheel["path"] != f"wheels/{name}":
        raise ValueError(f"{path}.wheels[0].path: expected 'wheels/{name}', found {wheel['path']!r}")
    if isinstance(name, str) and isinstance(table["name"], str) and _distribution(name) != table["name"]:
        raise ValueError(f"{path}.wheels[0].name: expected a wheel of {table['name']}, found {name!r}")
    return {
        "name": table["name"],
        "version": table["version"],
        "wheel": {"name": name, "size": wheel["size"], "sha256": hashes["sha256"]},
    }


def as_list(value: object, path: str) -> Sequence[object]:
    """Return a list as it is; raises ``ValueError`` for anything else."""
    if not isinstance(value, list):
        raise ValueError(f"{path}: {'missing' if value is None else f'expected a list, found {value!r}'}")
    return value


def check_unique(table: Mapping[str, Any]) -> None:
    """Check what no single field shows.

    Raises:
        ValueError: a variant or platform that the name does not end in, a platform of another architecture,
            a standalone Python of another version or place,
            sources of a package that is not locked,
            a base image without its file system's digest,
            two packages of one name, two files of one name,
            a wheel of another version than its package, a .deb of another package than its name has, or a variable
            that contradicts the seed or runs code before the guard.
    """
    for index, entry in enumerate(table["packages"]):
        version, wheel = entry["version"], entry["wheel"]["name"]
        if not _is_version(wheel, version):
            path = f"packages[{index}].wheels[0].name"
            raise ValueError(f"{path}: expected a wheel of version {version}, found {wheel!r}")
    ends = "-".join(["", *filter(None, (table.get("variant", ""), table.get("platform", "")))])
    if not table["name"].endswith(ends):
        raise ValueError(f"tool.envbuild.name: expected NAME{ends}, found {table['name']!r}")
    if (platform := table.get("platform", "")) not in ("", table["os"]["architecture"]):
        raise ValueError(f"tool.envbuild.platform: expected {table['os']['architecture']!r}, found {platform!r}")
    _check_environment(table)
    _check_python(table["python"])
    names = [(f"packages[{i}].name", entry["name"]) for i, entry in enumerate(table["packages"])]
    built = [(f"tool.envbuild.sources[{i}].name", entry["name"]) for i, entry in enumerate(table.get("sources", ()))]
    for path, name in built:
        if name not in {locked for _, locked in names}:
            raise ValueError(f"{path}: no package {name!r} is locked")
    if table["os"].get("image", "") and not table["os"].get("image-rootfs", ""):
        raise ValueError("tool.envbuild.os.image-rootfs: missing: a base image needs the digest of its file system")
    system = table["os"].get("packages", ())
    debs = {"os.packages": system, "emulators": table.get("emulators", ())}
    files = []
    for place, entries in debs.items():
        for index, entry in enumerate(entries):
            path, file = f"tool.envbuild.{place}[{index}].path", entry["path"].rsplit("/", 1)[-1]
            if file != (wanted := _deb_file(entry)):
                raise ValueError(f"{path}: expected a file named {wanted}, found {file!r}")
            files.append((path, file))
    inputs = [(f"tool.envbuild.inputs[{i}].path", entry["path"]) for i, entry in enumerate(table.get("inputs", ()))]
    for group in (names, files, inputs, built):
        first: dict[str, str] = {}
        for path, value in group:
            if value in first:
                raise ValueError(f"{path}: {value!r} is at {first[value]} already")
            first[value] = path


def difference(found: object, expected: object, path: str = "") -> str:
    """Return the first difference of two documents as a sentence, or an empty string."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            here = f"{path}.{key}" if path else key
            if key not in found:
                return f"{here}: missing"
            if key not in expected:
                return f"{here}: unknown key"
            if sentence := difference(found[key], expected[key], here):
                return sentence
        return ""
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        return next(filter(None, (difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs)), "")
    return "" if found == expected else f"{path}: expected {expected!r}, found {found!r}"


def _package_table(entry: Mapping[str, Any]) -> Table:
    wheel = entry["wheel"]
    return {
        "name": entry["name"],
        "version": entry["version"],
        "wheels": [
            {
                "name": wheel["name"],
                "path": f"wheels/{wheel['name']}",
                "size": wheel["size"],
                "hashes": {"sha256": wheel["sha256"]},
            }
        ],
    }


def _keys(value: object, keys: frozenset[str], path: str) -> Table:
    """Return a table that has exactly these keys."""
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected a table, found {value!r}")
    if unknown := sorted(value.keys() - keys):
        raise ValueError(f"{path}.{unknown[0]}: unknown key")
    if missing := sorted(keys - value.keys()):
        raise ValueError(f"{path}.{missing[0]}: missing")
    return value


def _deb_file(entry: Mapping[str, Any]) -> str:
    """Return the name that a Debian archive gives a package's file; the version's epoch is no part of it."""
    return f"{entry['name']}_{entry['version'].split(':', 1)[-1]}_{entry['architecture']}.deb"


def _check_environment(table: Mapping[str, Any]) -> None:
    environment, path = table["environment"], "tool.envbuild.environment"
    reserved = BEFORE_THE_GUARD if table["os"].get("image", "") else BEFORE_THE_GUARD | {LIBRARY_PATH}
    if found := sorted(reserved & environment.keys()):
        raise ValueError(f"{path}.{found[0]}: a lock must not set it: it runs other code before the guard")
    seed, hash_seed = str(table["determinism"]["seed"]), environment.get("PYTHONHASHSEED")
    if hash_seed is not None and hash_seed != seed:
        raise ValueError(f"{path}.PYTHONHASHSEED: expected the seed, '{seed}', found {hash_seed!r}")


def _check_python(python: Mapping[str, Any]) -> None:
    """Refuse a standalone build that is not the interpreter which the rest of the lock names."""
    build, path = python.get("build"), "tool.envbuild.python"
    if not build:
        return
    version, release = build["version"], build["path"].split("/", 1)[0]
    if not version.startswith(f"{python['version']}."):
        raise ValueError(f"{path}.build.version: expected a release of {python['version']}, found {version!r}")
    if not build["path"].startswith(f"{release}/cpython-{version}+{release}-"):
        raise ValueError(
            f"{path}.build.path: expected {release}/cpython-{version}+{release}-…, found {build['path']!r}"
        )
    if python["executable"] != (wanted := f"{STANDALONE_PREFIX}/bin/python{python['version']}"):
        raise ValueError(f"{path}.executable: expected {wanted!r}, found {python['executable']!r}")


def _distribution(wheel: str) -> str:
    """Return the normalised distribution of a wheel's file name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", wheel.partition("-")[0]).lower()


def _is_version(wheel: str, version: str) -> bool:
    """Return whether a wheel's file name has this version, which may be spelled otherwise (PEP 440)."""
    written = wheel.partition("-")[2].partition("-")[0].replace("_", "-")
    if written == version:
        return True
    from packaging.version import InvalidVersion, Version

    try:
        return Version(written) == Version(version)
    except InvalidVersion:
        return False
