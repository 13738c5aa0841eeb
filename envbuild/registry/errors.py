"""What a registry answered, as exceptions a person can act on."""

from __future__ import annotations

import json

from envbuild.core.foreign_json import parse_json
from envbuild.core.redact import mask_text
from envbuild.core.text import one_line
from envbuild.errors import RegistryError
from envbuild.net.http import HttpError

_LONGEST = 200


class AnswerError(HttpError):
    """An answer with an error status; ``codes`` are the registry's own, such as ``BLOB_UNKNOWN``."""

    def __init__(self, status: int, reason: str, codes: tuple[str, ...], *, delay: float = 0.0) -> None:
        self.full = status == 507 or "no space left" in reason.lower()
        """Whether the registry's disk is full."""
        # A registry may hear a moment later of a blob that it has taken, as when another push gives it the same one.
        late = "MANIFEST_BLOB_UNKNOWN" in codes
        transient = late or status in (408, 425, 429) or (status >= 500 and not self.full)
        super().__init__(reason, transient=transient, delay=delay)
        self.status = status
        self.codes = codes


def answer_error(status: int, phrase: str, body: bytes, retry_after: str) -> AnswerError:
    """Read an error answer (OCI distribution specification 1.1, "Error codes"); any other body is passed over."""
    codes, texts = [], []
    try:
        errors = parse_json(body).get("errors") or []
        for error in errors:
            codes.append(str(error.get("code") or ""))
            detail = error.get("detail")
            sentence = [error.get("message"), json.dumps(detail) if isinstance(detail, dict | list) else detail]
            texts.append(": ".join(str(text) for text in sentence if text))
    except (ValueError, AttributeError, TypeError):
        pass
    text = one_line(mask_text("; ".join(text for text in texts if text)))[:_LONGEST]
    delay = min(float(retry_after), 30.0) if retry_after.isascii() and retry_after.isdigit() else 0.0
    reason = f"{status} {phrase}".strip() + (f" ({text})" if text else "")
    return AnswerError(status, reason, tuple(codes), delay=delay)


def refused(doing: str, registry: str, error: AnswerError, *, known: bool) -> RegistryError:
    """Describe what could not be done and why.

    Args:
        doing: completes "cannot …".
        known: credentials for this registry are configured.
    """
    hint = "try again later, or ask who runs the registry"
    reason = f"{registry} answered {error.reason}"
    if error.status == 401 and known:
        reason = f"{registry} does not accept the configured user name and password"
        hint = f"log in again: docker login {registry}"
    elif error.status == 401:
        reason = f"{registry} asks for a user name and password, and none is configured"
        hint = f"log in: docker login {registry}"
    elif error.status == 403 or "DENIED" in error.codes:
        hint = f"ask for the right to do so, or log in as someone who has it: docker login {registry}"
    elif error.full:
        reason = f"the registry's disk is full: {registry} answered {error.reason}"
        hint = "make room there, then run the same command: what was uploaded whole is kept"
    elif error.status == 404:
        hint = "check the name"
    return RegistryError(f"cannot {doing}: {reason}", hint)
