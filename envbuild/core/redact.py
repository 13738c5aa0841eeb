"""What must not be written into a record: values that look like secrets, by the name or by themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envbuild.core.patterns import lazy

MASK = "***"

_SECRET_WORD = lazy(
    r"password|passwd|passphrase|pgpass|sshpass|secret|apikey|credential|connection[_-]?string"
    r"|(?:^|[^a-z0-9])(?:key|auth|authorization|cookie|pass|pat|pwd)(?![a-z0-9])|token(?![a-z0-9])"
)
"""Within a lower-case variable name. Short words must be whole words: HF_TOKEN matches, TOKENIZERS_PARALLELISM not."""
_PARTS = ("pass", "secret", "key", "credential", "connection", "auth", "cookie", "pat", "pwd", "token")
"""Each name that has a word of ``_SECRET_WORD`` has one of these: to compile that takes 0.3 ms."""
_SECRET_OPTION = lazy(
    r"--?(?:[\w.-]*[-_.])?"
    r"(?:token|secret|passw(?:or)?d|passphrase|credentials?|(?:api|access|private|secret|auth)[-_]?key|apikey)"
)
"""An option is judged by its last word, also behind a dot: ``--max-tokens``, ``--sort-key`` are none."""

_SECRET_VALUE = lazy(
    r"""
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
    """,
    re.VERBOSE | re.DOTALL,
)
_SHORTEST = 15
"""Characters of the shortest value: to compile the expression takes longer than all else that a run masks."""
_ASSIGNMENT = lazy(r"""(?<![\w.-])([\w.-]+)["']?[ \t]*[:=]""")
"""A name that gets a value, in YAML, JSON, TOML and INI. Looked for where a word begins: a long one is read once."""
_USER_IN_URL = lazy(r"(?<=://)[^/@\s]+(?=@)")


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables sorted by name, secrets masked by name or by value."""
    return {name: MASK if _secret_name(name) else mask_text(environment[name]) for name in sorted(environment)}


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return an argument vector with the values of secret options and secret-looking values masked."""
    masked = []
    hide_next = False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        word = f"--{option.lstrip('+~-')}" if equals else option  # Hydra's overrides have no dashes
        secret = word.startswith("-") and _SECRET_OPTION.fullmatch(word.lower()) is not None
        if hide_next and not argument.startswith("-"):
            masked.append(MASK)
        elif secret and equals:
            masked.append(f"{option}={MASK}")
        else:
            masked.append(mask_text(argument))
        hide_next = secret and not equals
    return tuple(masked)


def holds_secret(text: str, *, names: bool = False) -> bool:
    """Return whether a file's text has anything that looks like a secret.

    Args:
        text: of a program or a configuration.
        names: it is a configuration: a line that gives a value to a name such as ``api_key`` counts too.
    """
    if mask_text(text) != text:
        return True
    return names and any(_secret_name(match[1]) for match in _ASSIGNMENT.finditer(text))


def mask_text(text: str) -> str:
    """Mask the parts of a text that look like secrets, among them the user part of an address."""
    if len(text) >= _SHORTEST:
        text = _SECRET_VALUE.sub(MASK, text)
    return _USER_IN_URL.sub(MASK, text) if "://" in text else text


def _secret_name(name: str) -> bool:
    """Judge a variable by its name."""
    name = name.lower()
    return any(part in name for part in _PARTS) and _SECRET_WORD.search(name) is not None
