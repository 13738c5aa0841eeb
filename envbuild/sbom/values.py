"""What a bill of materials is made from, and what it reports, whatever format it is written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Licence:
    """A declared licence.

    Attributes:
        expression: an SPDX licence expression; may name licences of ``texts``.
        texts: for each ``LicenseRef-…`` of the expression its name and its text as declared.
    """

    expression: str
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What one locked file reports about itself.

    Attributes:
        licence: None where it is not known.
        requires: a wheel's Requires-Dist lines.
        depends: a Debian package's Depends and Pre-Depends: names that are alternatives to each other.
        provides: names that a Debian package provides in addition to its own.
        source: name and version of a Debian package's source.
    """

    licence: Licence | None = None
    requires: tuple[str, ...] = ()
    depends: tuple[tuple[str, ...], ...] = ()
    provides: tuple[str, ...] = ()
    source: tuple[str, str] = ("", "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One layer of the image.

    Attributes:
        title: its line in the image's history.
        digest: SHA-256 of its uncompressed tar (the diff ID); empty as long as the image is not recorded.
        wheels: SHA-256 of the wheels installed in it, or of a standalone Python's archive.
        system: whether it is the operating system's: the Debian packages, or the base image's files.
    """

    title: str
    digest: str = ""
    wheels: tuple[str, ...] = ()
    system: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """The image of a lock: layers bottom first; the layout decides at which height the operating system's is.

    Attributes:
        tag: what it is called in an engine.
        config: its identity, SHA-256 of the configuration; empty as long as it is not recorded.
    """

    tag: str
    layers: tuple[Layer, ...]
    config: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Component:
    """One locked file as a document describes it.

    Attributes:
        ref: its name inside the document: the package URL without what may vary.
        purl: the package URL, https://github.com/package-url/purl-spec.
        layer: index of the image's layer that holds it.
    """

    kind: Literal["deb", "wheel", "base", "python"]
    ref: str
    name: str
    version: str
    purl: str
    sha256: str
    size: int
    file: str
    layer: int
    licence: Licence | None = None
    supplier: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bill:
    """A bill of materials.

    Attributes:
        system: name and version of the operating system; empty over a base image that does not report it.
        needs: for each component's ``ref`` those it needs; a component whose needs are unknown is absent.
        top: components that no other one needs, and one of each circle: all others are reached from these.
    """

    name: str
    version: str
    lock: str
    layout: int
    image: Image
    system: tuple[str, str]
    components: tuple[Component, ...]
    needs: Mapping[str, tuple[str, ...]]
    top: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A rendered bill: its bytes, its media type, and what its file is usually called."""

    data: bytes
    media_type: str
    file_name: str
