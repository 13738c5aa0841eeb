"""What a pickle would build: containers and objects, which are made of others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, slots=True)
class Node:
    """A container or an object: ``kind`` names it, ``parts`` are in the order in which they were put in."""

    kind: str
    parts: list[Any] = field(default_factory=list)


def latin(data: Any) -> Any:
    """Return bytes as they are where they are written as a text: by protocols 0 to 2, which PyTorch uses."""
    match data:
        case Node(kind="object", parts=[Node(parts=["_codecs encode"]), Node(parts=[str(text), "latin1"])]):
            if max(text, default="") <= "\xff":
                return text.encode("latin1")
    return data
