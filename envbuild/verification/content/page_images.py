"""Images that are in a page itself, in base64: what they show counts, and when they were made does not."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from itertools import count

from envbuild.core.patterns import lazy
from envbuild.verification.content.canonical import Canonical, below

_IMAGE = lazy(r"(data:image/png;base64,)(iVBOR[A-Za-z0-9+/]{24,}={0,2})(?=[\"')])")
"""A PNG image in an attribute, or one that a style sheet names."""


def without_images(out: Canonical, path: str, text: str, nested: Callable[[Canonical, str, bytes], None]) -> str:
    """Read the images of a page as those in files are read, and leave their numbers in its text.

    One whose letters say more than its bytes, such as bits behind the last one, stays as it is.
    """
    numbers = count(1)

    def opened(found: re.Match[str]) -> str:
        try:
            data = base64.b64decode(found[2], validate=True)
        except (ValueError, binascii.Error):
            return found[0]
        if base64.b64encode(data).decode() != found[2]:
            return found[0]
        name = f"image {next(numbers)}"
        nested(out, below(path, name, ", "), data)
        return f"{found[1]}⟨{name}⟩"

    return _IMAGE.sub(opened, text)
