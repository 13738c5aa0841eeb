"""The starter spec of ``envbuild init``: guessed from what a folder holds, and commented."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from envbuild.spec.detect import DetectedProject

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._<>=!~*+-]*(\[[A-Za-z0-9._-]+\][A-Za-z0-9._<>=!~*+-]*)?")


def starter_text(detected: DetectedProject) -> str:
    """Return the text of a spec for what was found in a project; ``parse_spec`` accepts it."""
    parts = [
        "# What this project needs. envbuild lock pins all of it to the byte; envbuild schema lists every key.",
        f"name: {detected.name}",
        "",
        _system(detected),
        "",
        _requirements(detected),
        "",
        *_packages(detected),
        *_built(detected),
        "",
        _inputs(detected.data),
        "",
        "# Seeds and deterministic operations are set for every run; these are the defaults.",
        "determinism:",
        "  seed: 42",
        "  threads: 2    # results depend on it; a host needs at least as many CPUs",
        "",
        "# NVIDIA's libraries for the framework: auto, or a version such as 12.6.",
        "# cuda: auto",
        "",
        "# Hosts that a run may start on. For this machine, with its GPUs and driver: hardware: detect",
        "# hardware:",
        '#   kernel: ">=5.10"',
        "#   cpu: x86-64-v3",
        "#   gpu: {model: NVIDIA H200, count: 1}",
        "",
        "# Environment variables of the image.",
        "# env:",
        "#   KERAS_BACKEND: tensorflow",
        "",
        "# A run has no network and may write to its folder, unless you specify otherwise.",
        "# run:",
        "#   network: bridge",
        "#   workspace: ro",
    ]
    return "\n".join(parts) + "\n"


def _system(detected: DetectedProject) -> str:
    lines = [f"os: {detected.release}"]
    comment = f"    # {detected.python_reason}" if detected.python_reason else ""
    lines.append(f'python: "{detected.python}"{comment}')
    return "\n".join(lines)


def _requirements(detected: DetectedProject) -> str:
    lines = [f"# {detected.requirements_reason}"]
    if detected.requirements:
        lines += ["requirements:", *(f"  - {_scalar(line)}" for line in detected.requirements)]
    else:
        lines += ["requirements: []"]
    if detected.unknown:
        lines.append("# Imported too; what are they called on the package index?")
        lines += [f"#  - {name}" for name in detected.unknown]
    lines += [f"# {note}" for note in detected.notes]
    return "\n".join(lines)


_NAMED = 3
"""Files that start programs, of those that are named."""


def _packages(detected: DetectedProject) -> tuple[str, str]:
    """Return the key of Debian's packages with its comment; both commented where nothing was found."""
    added = "libraries that wheels need are found and added."
    if not detected.packages:
        return f"# Debian packages that your code needs; {added}", "# packages: [git, ffmpeg]"
    files = [each for each in detected.started_by if each.isprintable()]
    names = (", ".join(files[:_NAMED]) + (" …" if len(files) > _NAMED else "")) or "your files"
    start = "starts" if len(files) == 1 else "start"
    return (
        f"# Debian packages with programs that {names} {start}; {added}",
        f"packages: [{', '.join(detected.packages)}]",
    )


def _built(detected: DetectedProject) -> tuple[str, ...]:
    if not detected.sources:
        return ()
    return (
        "",
        "# The package index has no wheel of it: built in a sandbox.",
        f"sources: [{', '.join(detected.sources)}]",
    )


def _inputs(data: Sequence[str]) -> str:
    shown = ", ".join(_scalar(path) for path in data) or "data"
    return f"# Data whose digest is locked with the environment.\n# inputs: [{shown}]"


def _scalar(text: str) -> str:
    """Write a text so that YAML reads it back as it is; a JSON string is a YAML string."""
    if _PLAIN.fullmatch(text) or (text.startswith("-r ") and _PLAIN.fullmatch(text[3:])):
        return text
    return json.dumps(text, ensure_ascii=False)
