"""Descriptions of GPUs by the Container Device Interface: read and judged, before anything of them is applied.

A description that some other program may read differently is refused, with the file and the field: two for one GPU,
fields of another type than the specification has, hooks that nothing is known of, mounts over envbuild's own files.

Source: https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md (versions 0.1 to 1.1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from envbuild.core.foreign_json import parse_json
from envbuild.core.text import plain, quote
from envbuild.engine.cdi import KIND, SUFFIXES
from envbuild.engine.protocol import GpusRefusedError

GENERATE = "describe the GPUs anew: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
_WITHOUT = (
    "use an engine that does: ENVBUILD_ENGINE=docker; or describe the GPUs without it in a folder of your own: "
    "export ENVBUILD_CDI_DIRS=FOLDER"
)
_KNOWN = ("deviceNodes", "mounts", "env", "hooks", "additionalGids", "additionalGIDs")
_LIMIT = 4 << 20
_VERSION = re.compile(r"v?(?:0|1)\.\d+\.\d+")
_NVIDIAS = ("nvidia-cdi-hook", "nvidia-ctk")
"""Programs of NVIDIA's toolkit that are hooks."""
_NOT_NEEDED = (
    "chmod", "disable-device-node-modification", "enable-cuda-compat", "noop", "update-application-profile",
)  # fmt: skip
"""Its hooks for what images of envbuild do not have: folders of graphics, a writable ``/proc/driver/nvidia``, CUDA's
compatibility libraries, EGL and Vulkan (since version 1.20: which GPUs those see)."""
_OWN_PLACES = ("/opt/env", "/opt/envbuild", "/run/envbuild", "/workspace", "/proc", "/sys", "/dev")
"""What envbuild itself mounts or checks: nothing comes over these folders."""
_CLOSED_PLACES = ("/opt/env", "/opt/envbuild", "/run/envbuild")
"""Nothing comes into these either: the lock states what is in them."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What one file says of one GPU.

    Attributes:
        path: the file.
        version: ``cdiVersion``, as it is written there.
        edits: ``containerEdits`` of all its GPUs, then those of this one.
        rivals: other files of the same folder that describe the same GPU otherwise.
    """

    path: str
    version: str
    edits: tuple[Mapping[str, Any], ...]
    rivals: tuple[str, ...] = ()


class Edits(msgspec.Struct, kw_only=True):
    """What a program gets by descriptions.

    Attributes:
        mounts: as ``program_process.py`` takes them, by target.
        variables: environment.
        links: target by path.
        folders: folders with shared libraries, for the loader's cache.
        groups: additional groups of the program's process.
    """

    mounts: dict[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    links: dict[str, str] = msgspec.field(default_factory=dict)
    folders: list[str] = msgspec.field(default_factory=list)
    groups: list[int] = msgspec.field(default_factory=list)


def find_descriptions(folders: Sequence[str]) -> dict[str, Description]:
    """Return the description of each GPU by its name below ``nvidia.com/gpu``; later folders come first."""
    found: dict[str, Description] = {}
    for folder in folders:
        here: dict[str, Description] = {}
        with suppress(OSError):
            for path in sorted(path for path in Path(folder).iterdir() if path.suffix in SUFFIXES):
                for name, each in _devices(path).items():
                    rivals = each.rivals + (here[name].rivals if name in here else ())
                    if name in here and here[name].edits != each.edits:
                        rivals += (here[name].path,)
                    here[name] = msgspec.structs.replace(each, rivals=rivals)
        found |= here
    return found


def apply(names: Sequence[str], described: Mapping[str, Description]) -> Edits:
    """Return what a program gets with these GPUs; edits that several of them share count once.

    Raises:
        GpusRefusedError: a description is unsound, or asks for what cannot be done here.
    """
    made = Edits()
    done: list[Mapping[str, Any]] = []
    for name in names:
        description = described[name]
        _check(name, description)
        for edit in description.edits:
            if edit not in done:
                done.append(edit)
                _Reader(description.path, made).add(edit)
    return made


def _devices(path: Path) -> dict[str, Description]:
    table = _read(path)
    if table.get("kind") != KIND:
        return {}
    version, devices = table.get("cdiVersion"), table.get("devices")
    found: dict[str, Description] = {}
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str | int):
            name, parts = str(device["name"]), (table.get("containerEdits"), device.get("containerEdits"))
            edits = tuple(edit if isinstance(edit, dict) else {"": edit} for edit in parts if edit)
            twice = name in found and found[name].edits != edits
            found[name] = Description(
                path=str(path),
                version=version if isinstance(version, str) else "",
                edits=edits,
                rivals=(str(path),) if twice or (name in found and found[name].rivals) else (),
            )
    return found


def _read(path: Path) -> Mapping[str, Any]:
    """Read a description; one that cannot be read describes nothing."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LIMIT)
        if path.suffix == ".json":
            table = parse_json(data)
        else:
            import yaml

            table = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - it is safe
    except (OSError, ValueError, RecursionError):
        return {}
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "yaml":
            return {}
        raise
    return table if isinstance(table, dict) else {}


def _check(name: str, description: Description) -> None:
    if description.rivals:
        files = ", ".join(map(plain, dict.fromkeys((*description.rivals, description.path))))
        raise GpusRefusedError(
            f"the GPU {KIND}={plain(name)} is described several times, and differently: {files}",
            "keep one of them; list what they describe: nvidia-ctk cdi list",
        )
    if not _VERSION.fullmatch(description.version):
        raise _unsound(description.path, "cdiVersion", "a version from 0.1.0 to 1.x", description.version)


def _unsound(path: str, field: str, expected: str, found: object) -> GpusRefusedError:
    shown = quote(found) if isinstance(found, str) else quote(repr(found)).strip('"')
    return GpusRefusedError(f"{plain(path)}: {field}: expected {expected}, found {shown}", GENERATE)


class _Reader:
    """Adds the edits of one file to what a program gets.

    Args:
        path: the file, for messages.
        made: what it gets.
    """

    def __init__(self, path: str, made: Edits) -> None:
        self._path, self._made = path, made

    def add(self, edit: Mapping[str, Any]) -> None:
        """Add ``containerEdits``."""
        if "" in edit:
            raise self._unsound("containerEdits", "a table", edit[""])
        for name in sorted(str(name) for name, value in edit.items() if value and name not in _KNOWN):
            raise GpusRefusedError(
                f"{plain(self._path)}: containerEdits.{plain(name)}: the local engine cannot do this", _WITHOUT
            )
        for node in self._tables(edit, "deviceNodes"):
            target = self._path_of(node, "deviceNodes", "path")
            source = self._path_of(node, "deviceNodes", "hostPath") if node.get("hostPath") else target
            self._mount("deviceNodes", source, target, devices=True)
        for mount in self._tables(edit, "mounts"):
            options = self._texts(mount, "mounts", "options")
            target = self._path_of(mount, "mounts", "containerPath")
            kind = mount.get("type") or "bind"
            if kind not in ("bind", "rbind"):
                raise self._unsound("containerEdits.mounts.type", "bind", kind)
            self._mount("mounts", self._path_of(mount, "mounts", "hostPath"), target, read_only="ro" in options)
        for text in self._texts(edit, "", "env"):
            self._variable(text)
        for hook in self._tables(edit, "hooks"):
            self._hook(hook)
        self._groups(edit)

    def _unsound(self, field: str, expected: str, found: object) -> GpusRefusedError:
        return _unsound(self._path, field, expected, found)

    def _tables(self, table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        found = table.get(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise self._unsound(f"containerEdits.{name}", "a list of tables", found)
        return found

    def _texts(self, table: Mapping[str, Any], above: str, name: str) -> list[str]:
        found = table.get(name)
        if found is None:
            return []
        if not isinstance(found, list) or not all(isinstance(each, str) and "\0" not in each for each in found):
            raise self._unsound(".".join(filter(None, ("containerEdits", above, name))), "a list of texts", found)
        return found

    def _path_of(self, table: Mapping[str, Any], above: str, name: str) -> str:
        found = table.get(name)
        if not isinstance(found, str) or not found.startswith("/") or "\0" in found or ".." in found.split("/"):
            raise self._unsound(f"containerEdits.{above}.{name}", "an absolute path", found)
        return found

    def _target(self, field: str, target: str) -> None:
        """Refuse what would come over, or into, envbuild's own folders."""
        place = os.path.normpath(f"/{target.lstrip('/')}")
        above = [own for own in _OWN_PLACES if f"{own}/".startswith(f"{place.rstrip('/')}/")]
        inside = [own for own in _CLOSED_PLACES if place.startswith(f"{own}/")]
        for own in above + inside:
            raise self._unsound(f"containerEdits.{field}", f"a path outside {own}, which is envbuild's own", target)

    def _mount(self, field: str, source: str, target: str, *, devices: bool = False, read_only: bool = False) -> None:
        self._target(f"{field}.{'path' if devices else 'containerPath'}", target)
        self._made.mounts[target] = mount(source, target, devices=devices, read_only=read_only)

    def _variable(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise self._unsound("containerEdits.env", "NAME=VALUE", text)
        if name.startswith("ENVBUILD_"):
            raise self._unsound("containerEdits.env", "no variable of envbuild's own", name)
        self._made.variables[name] = value

    def _hook(self, hook: Mapping[str, Any]) -> None:
        """Do what a hook of NVIDIA's toolkit would; of others nothing is known."""
        words = self._texts(hook, "hooks", "args")
        program = hook.get("path")
        names = [word.rpartition("/")[2] for word in (*([program] if isinstance(program, str) else []), *words[:1])]
        options = list(_options(words))
        if not any(name.startswith(_NVIDIAS) for name in names):
            raise self._unknown(names[:1])
        if "create-symlinks" in words:
            for name, value in options:
                target, both, path = value.partition("::")
                if name == "link" and both:
                    self._target("hooks.args", path)
                    self._made.links[path] = target
        elif "update-ldcache" in words or "create-soname-symlinks" in words:  # the loader's program makes both
            self._made.folders += [
                value
                for name, value in options
                if name == "folder" and value.startswith("/") and value not in self._made.folders
            ]
        elif not any(word in _NOT_NEEDED for word in words):  # a program of NVIDIA's may ignore it; to us it is unknown
            raise self._unknown(words[:3])

    def _unknown(self, words: Sequence[str]) -> GpusRefusedError:
        named = plain(" ".join(words)) or "without a name"
        return GpusRefusedError(
            f"{plain(self._path)}: containerEdits.hooks: the local engine does not know the hook {named}", _WITHOUT
        )

    def _groups(self, edit: Mapping[str, Any]) -> None:
        found = edit.get("additionalGids") or edit.get("additionalGIDs") or []
        if not isinstance(found, list) or not all(type(each) is int and 0 <= each < 1 << 32 for each in found):
            raise self._unsound("containerEdits.additionalGids", "a list of numbers", found)
        self._made.groups = sorted({*self._made.groups, *found} - {0})


def mount(source: str, target: str, *, devices: bool = False, read_only: bool = False) -> Mapping[str, Any]:
    """Describe a mount as ``program_process.py`` takes it.

    Raises:
        GpusRefusedError: there is nothing to mount, or nothing that this user may see.
    """
    if not os.path.exists(source):  # noqa: PTH110 - False for what this user may not see, too
        hint = f"load the driver's modules: sudo nvidia-modprobe -u -c=0; or {GENERATE}" if devices else GENERATE
        raise GpusRefusedError(
            f"the description of the GPUs names {plain(source)}, which this machine does not have", hint
        )
    file = not Path(source).is_dir()
    return {"source": source, "target": target, "read_only": read_only, "file": file, "devices": devices}


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield ``--name value`` and ``--name=value``."""
    for index, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            yield name, value if equals else "".join(words[index + 1 : index + 2])
