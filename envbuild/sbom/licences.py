"""Declared licences as SPDX expressions; what is ambiguous keeps its own name, what is unknown stays unknown.

Sources: PEP 639 (License-Expression; its appendix on classifiers names those that must not be mapped); Debian's
machine-readable copyright format 1.0, https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/, section 7
(licence short names and their syntax).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.metadata import parse_email

from envbuild.core.digest import sha256_bytes
from envbuild.sbom.values import Licence

_CLASSIFIERS = {
    "License :: OSI Approved :: Boost Software License 1.0 (BSL-1.0)": "BSL-1.0",
    "License :: OSI Approved :: GNU General Public License v2 or later (GPLv2+)": "GPL-2.0-or-later",
    "License :: OSI Approved :: GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "License :: OSI Approved :: GNU Lesser General Public License v3 or later (LGPLv3+)": "LGPL-3.0-or-later",
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: MIT No Attribution License (MIT-0)": "MIT-0",
    "License :: OSI Approved :: Mozilla Public License 1.1 (MPL 1.1)": "MPL-1.1",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: The Unlicense (Unlicense)": "Unlicense",
}
"""Classifiers that name one licence in one version."""

_NAME_LIMIT = 100
_GNU = re.compile(r"(A?GPL|LGPL|GFDL|GFDL-NIV)-([0-9](?:\.[0-9])?)(?:\.0)?(\+?)")
_DEBIAN = {
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "bsd-4-clause-uc": "BSD-4-Clause-UC",
    "cc-by-3.0": "CC-BY-3.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-3.0": "CC-BY-SA-3.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "isc": "ISC",
    "mpl-1.1": "MPL-1.1",
    "mpl-2.0": "MPL-2.0",
    "zlib": "Zlib",
}
"""Short names of Debian's format that state what the SPDX list calls so; ``MIT`` is none, by the format's own words."""
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")


def wheel_licence(metadata: bytes) -> Licence | None:
    """Return the licence that a wheel's METADATA declares: License-Expression, else License, else classifiers."""
    fields, _ = parse_email(metadata)
    for text in (fields.get("license_expression"), fields.get("license")):
        if text and (expression := _expression(text.strip())):
            return Licence(expression=expression)
    classifiers = sorted(line for line in fields.get("classifiers", []) if line.startswith("License :: "))
    if len(classifiers) == 1 and classifiers[0] in _CLASSIFIERS:
        return Licence(expression=_CLASSIFIERS[classifiers[0]])
    text = (fields.get("license") or "").strip()
    if text and text.upper() != "UNKNOWN" and len(text) <= _NAME_LIMIT and "\n" not in text:
        return _named(text, text)
    names = [line.rpartition(" :: ")[2] for line in classifiers if line != "License :: OSI Approved"]
    return _named("; ".join(names), "\n".join(classifiers)) if names else None


def python_licence(text: str) -> Licence | None:
    """Return the licence of CPython as its own bill of materials names it, if the text that a build has is that one.

    What is linked into a build (OpenSSL, SQLite …) has licences of its own, which its archive does not state.
    """
    return Licence(expression="PSF-2.0") if "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in text else None


def debian_licence(copyright_file: str) -> Licence | None:
    """Return what a Debian copyright file declares for all files of the source, or None if it is not machine-readable.

    Every licence of a Files paragraph is a part of the whole: they are joined with AND.
    """
    paragraphs = [_paragraph(text) for text in re.split(r"\n(?:[ \t]*\n)+", copyright_file.strip())]
    if "/copyright-format/" not in paragraphs[0].get("format", "") and "dep5" not in paragraphs[0].get("format", ""):
        return None
    texts = {
        name: body
        for paragraph in paragraphs
        if "license" in paragraph
        for name, _, body in [paragraph["license"].partition("\n")]
        if body.strip()
    }
    synopses = {
        paragraph.get("license", "").partition("\n")[0].strip() for paragraph in paragraphs if "files" in paragraph
    }
    if not synopses or "" in synopses:
        return None
    named: dict[str, tuple[str, str]] = {}
    parts = sorted({part for synopsis in synopses for part in _debian_parts(synopsis, texts, named)})
    if expression := _expression(_joined(parts, " AND ")):
        return Licence(expression=expression, texts=dict(sorted(named.items())))
    return None


def _debian_parts(synopsis: str, texts: Mapping[str, str], named: dict[str, tuple[str, str]]) -> list[str]:
    """Translate a synopsis such as ``GPL-1+ or Artistic, and Expat`` into expressions that all apply.

    A comma before ``and`` binds less than ``or``; ``and`` alone binds more.
    """
    parts: list[str] = []
    for group in re.split(r",\s*and\s+", synopsis):
        choices = []
        for alternative in re.split(r",?\s+(?:and/or|or)\s+", group):
            choices.append([_debian_name(name.strip(), texts, named) for name in re.split(r"\s+and\s+", alternative)])
        if len(choices) == 1:
            parts += choices[0]
        else:
            parts.append(_joined((_joined(names, " AND ") for names in choices), " OR "))
    return parts


def _debian_name(name: str, texts: Mapping[str, str], named: dict[str, tuple[str, str]]) -> str:
    """Return the SPDX identifier of a short name, or a reference to the licence as the copyright file has it."""
    if known := _DEBIAN.get(name.lower()):
        return known
    if gnu := _GNU.fullmatch(name):
        family, version, later = gnu.groups()
        version = version if "." in version else f"{version}.{'' if family.startswith('GFDL') else '0'}".rstrip(".")
        family = {"GFDL-NIV": "GFDL"}.get(family, family)
        suffix = "-no-invariants" if "NIV" in name else ""
        candidate = f"{family}-{version}{suffix}-{'or-later' if later else 'only'}"
        if _expression(candidate):
            return candidate
    licence = _named(name, texts.get(name, name))
    named.update(licence.texts)
    return licence.expression


def _named(name: str, text: str) -> Licence:
    """Return a licence by the name it was given; equal names with other texts are distinguished."""
    label = _NOT_A_NAME.sub("-", name).strip("-.")[:60] or "unnamed"
    ref = f"LicenseRef-{label}-{sha256_bytes(text.encode())[:8]}"
    return Licence(expression=ref, texts={ref: (name, text)})


def _expression(text: str) -> str:
    """Return the canonical spelling of a valid SPDX expression, or an empty string."""
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        return ""


def _joined(parts: Iterable[str], word: str) -> str:
    """Join parts of an expression, each in parentheses if it is more than a name."""
    chosen = list(dict.fromkeys(parts))
    if len(chosen) == 1:
        return chosen[0]
    return word.join(f"({part})" if " " in part else part for part in chosen)


def _paragraph(text: str) -> dict[str, str]:
    """Parse a paragraph leniently: fields by lower-case name, continuation lines without their indent."""
    fields: dict[str, str] = {}
    name = ""
    for line in text.split("\n"):
        if line[:1] in (" ", "\t"):
            if name:
                fields[name] += "\n" + ("" if line.strip() == "." else line[1:].rstrip())
        elif ":" in line:
            name, _, value = line.partition(":")
            name = name.lower()
            fields[name] = value.strip()
    return fields
