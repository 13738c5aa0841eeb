"""Names that were drawn for parts of a page and are glued to words: ``metric_250b64b9a57a47e1ac5b89540eec00d6``.

Pages that show plots, tables and maps (evidently, folium, Altair) name what is in them by UUIDs without dashes, and use
these names in keys, selectors and variables. A digest has the form of a UUID in one of 64 cases, so that what is
replaced here is known (``Canonical.note_glued``), and an experiment shows whether it was drawn.
"""

from __future__ import annotations

import re

from envbuild.core.patterns import lazy
from envbuild.record.measurements import names_result
from envbuild.verification.content.canonical import Canonical, below
from envbuild.verification.content.widgets import names_of_models
from envbuild.verification.masking.rules import RANDOM_ID
from envbuild.verification.masking.screen import LONGEST_LINE

_GLUED = lazy(
    r"(?:[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}|[0-9A-F]{12}4[0-9A-F]{3}[89AB][0-9A-F]{15})(?![0-9A-Za-z])"
)
"""As ``uuid4().hex`` gives it, or in capitals."""
_BEFORE = lazy(r"(?:(?:^|[^0-9A-Za-z.])[A-Za-z]{0,40}|\.[A-Za-z]{1,40})\Z")
"""Nothing but letters may be between it and the beginning of its word: it is no part of a longer number."""
_WITH_WORD = lazy(r"(?:[A-Za-z]|[0-9A-Za-z][_-])\Z")
_OF_DIGEST = lazy(
    r"(?:hash|digest|md5|sha\d*|checksum|crc|fingerprint|etag|signature)(?:[^0-9A-Za-z]|[A-Za-z_-])*\Z", re.IGNORECASE
)
_NEAR, _WORD = 40, 42
"""Characters before a name that may say what it is, and in which its word begins."""
_KEY = lazy(r'"([^"\\]{1,80})"\s*:\s*"[^"\\]{0,42}\Z')
"""A key of JSON, whose value the name is in."""
_FAR = 140
_DASHED = lazy(
    r"(?<![0-9A-Za-z])[0-9a-f]{8}-[0-9a-f]{4}-[12467][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9A-Za-z])"
)
_RANDOM = lazy(RANDOM_ID, re.IGNORECASE)


def without_names(out: Canonical, path: str, text: str) -> str:
    """Replace drawn names by their places among the names of a page, or of a text in JSON.

    Those with dashes are masked in lines (``printed``), but for lines of pages that are too long for that.
    """
    places = [(found.start(), found[0]) for found in _GLUED.finditer(text)]
    models = names_of_models(text) if places else ()
    glued = {*models, *(name for start, name in places if _is_glued(text, start))}
    names = {name: at for at, name in enumerate(models, 1)}

    def numbered(name: str) -> str:
        return f"⟨name {names.setdefault(name, len(names) + 1)}⟩"

    parts, end = [], 0
    for start, name in places if glued else ():
        if name in glued and _BEFORE.search(text[max(0, start - _WORD) : start]) is not None:
            parts += [text[end:start], numbered(name)]
            end = start + len(name)
    changed = "".join([*parts, text[end:]]) if parts else text
    if text.lstrip()[:1] == "<" and len(changed) >= LONGEST_LINE and _DASHED.search(changed) is not None:
        changed = "\n".join(
            _DASHED.sub(lambda found: numbered(found[0]), line) if len(line) >= LONGEST_LINE else line
            for line in changed.split("\n")
        )
    if len(changed) >= LONGEST_LINE:  # a text in JSON may be one line, too: the name alone says that this is no result
        changed = _RANDOM.sub(lambda found: found["keep"] + numbered(found[0][len(found["keep"]) :]), changed)
    # Those of other versions have the time in them: what is drawn does not show them.
    out.note_glued([name for name in names if name in glued or name[14] == "4"])
    if names:
        out.note_names([*names])
        out.leave_out(below(path, "names in it", " "), f"names {' '.join(names)}", "identity")
    return changed


def _is_glued(text: str, start: int) -> bool:
    """Whether a name is behind a word: alone it is a value; and whether no name before it says that it is a result."""
    before = text[max(0, start - _WORD) : start]
    if _BEFORE.search(before) is None or _WITH_WORD.search(before) is None:
        return False
    key = _KEY.search(text[max(0, start - _FAR) : start])
    return _OF_DIGEST.search(before[-_NEAR:]) is None and (key is None or not names_result(key[1]))
