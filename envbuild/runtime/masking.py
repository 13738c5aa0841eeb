"""Masks what looks like a secret before a process of the run writes it to disk.

The patterns are those of ``envbuild/core/redact.py`` (a test compares them): the runtime imports nothing of the host's
side. They are compiled at first use only, since ``re`` costs milliseconds: a text without any hint needs none.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MASK = "***"

OPTION = (
    r"--?(?:[\w.-]*[-_.])?"
    r"(?:token|secret|passw(?:or)?d|passphrase|credentials?|(?:api|access|private|secret|auth)[-_]?key|apikey)"
)
WORD = (
    r"password|passwd|passphrase|pgpass|sshpass|secret|apikey|credential|connection[_-]?string"
    r"|(?:^|[^a-z0-9])(?:key|auth|authorization|cookie|pass|pat|pwd)(?![a-z0-9])|token(?![a-z0-9])"
)
VALUE = r"""
      \bgh[pousr]_\w{20,}            # GitHub
    | \bgithub_pat_\w{20,}
    | \bgl(?:pat|ptt|dt|rt|cbt)-[\w-]{16,}      # GitLab
    | \bhf_[A-Za-z0-9]{20,}          # Hugging Face
    | \bsk-[\w-]{20,}                # several model services
    | \bgsk_\w{20,}                  # Groq
    | \br8_\w{30,}                   # Replicate
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b  # AWS
    | \bx(?:ox[abeoprs]|app)-[\w-]{10,}      # Slack
    | \bhooks\.slack\.com/services/[\w/]{20,}
    | \bpypi-[\w-]{30,}
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*      # JSON Web Token
    | \bAIza[\w-]{35}               # Google
    | \bya29\.[\w-]{20,}
    | \b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}  # Stripe
    | \bSG\.[\w-]{16,}\.[\w-]{16,}   # SendGrid
    | \bnpm_[A-Za-z0-9]{36}
    | \bdckr_(?:pat|oat)_[\w-]{20,}  # Docker Hub
    | \bhvs\.[\w-]{20,}              # Vault
    | \bdapi[0-9a-f]{32}             # Databricks
    | \bdop_v1_[0-9a-f]{32,}         # DigitalOcean
    | \bAccountKey=[\w+/]{20,}=*    # Azure storage
    | \b[Bb]earer\ [\w.~+/-]{16,}=*  # a header
    | [?&](?:sig|X-Amz-Signature|X-Goog-Signature)=[\w%+/.~-]{16,}=*  # signed addresses
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*    # PEM
    """
USER_IN_URL = r"(?<=://)[^/@\s]+(?=@)"

_NAME_HINTS = ("token", "secret", "pass", "cred", "key", "auth", "cookie", "pat", "pwd", "connection")
_VALUE_HINTS = (
    "gh", "glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "hf_", "sk-", "gsk_", "r8_", "AKIA", "ASIA", "xox", "xapp-",
    "hooks.slack", "pypi-", "eyJ", "AIza", "ya29.", "k_live_", "k_test_", "SG.", "npm_", "dckr_", "hvs.", "dapi",
    "dop_v1_", "AccountKey=", "earer ", "PRIVATE KEY", "://", "sig=", "-Signature=",
)  # fmt: skip
_compiled: dict[str, Any] = {}


def mask_text(text: str) -> str:
    """Mask the parts of a text that look like secrets, among them the user part of an address."""
    if not any(hint in text for hint in _VALUE_HINTS):
        return text
    masked = _pattern(VALUE).sub(MASK, text)
    return str(_pattern(USER_IN_URL).sub(MASK, masked))


def secret_parameter(name: str) -> bool:
    """Judge a parameter by its name as an option: ``hub_token``, not ``max_tokens`` or ``sort_key``."""
    lower = name.lower()
    if not any(hint in lower for hint in _NAME_HINTS):
        return False
    return _pattern(OPTION).fullmatch("--" + lower) is not None


def mask_variable(name: str, value: str | None) -> str | None:
    """Return the value of an environment variable, masked by its name or by itself."""
    if value is None:
        return None
    lower = name.lower()
    if any(hint in lower for hint in _NAME_HINTS) and _pattern(WORD).search(lower):
        return MASK
    return mask_text(value)


def mask_arguments(arguments: Sequence[str]) -> list[str]:
    """Return an argument vector with the values of secret options and secret-looking values masked."""
    masked = []
    hide_next = False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        secret = (bool(equals) or option.startswith("-")) and secret_parameter(option.lstrip("+~-"))
        if hide_next and not argument.startswith("-"):
            masked.append(MASK)
        elif secret and equals:
            masked.append(f"{option}={MASK}")
        else:
            masked.append(mask_text(argument))
        hide_next = secret and not equals
    return masked


def _pattern(text: str) -> Any:
    """Compile a pattern at first use."""
    if text not in _compiled:
        import re

        flags = re.VERBOSE | re.DOTALL if text is VALUE else 0
        _compiled[text] = re.compile(text, flags)
    return _compiled[text]
