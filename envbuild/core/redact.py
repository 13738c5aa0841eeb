"""What must not be written into a record: values that look like secrets, by the name or by themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

MASK = "***"

_SECRET_WORD = re.compile(
    r"password|passwd|passphrase|pgpass|sshpass|secret|apikey|credential|connection[_-]?string"
    r"|(?:^|[^a-z0-9])(?:key|auth|authorization|cookie|pass|pat|pwd|token)(?![a-z0-9])"
)
"""Within a lower-case variable name. Short words must be whole words: HF_TOKEN matches, TOKENIZERS_PARALLELISM not."""
_SECRET_OPTION = re.compile(
    r"--?(?:[\w-]*[-_])?(?:token|secret|passw(?:or)?d|passphrase|credentials?|(?:api|access|private|secret|auth)[-_]?key|apikey)"
)
"""An option is judged by its last word: ``--max-tokens``, ``--tokenizer`` and ``--sort-key`` are parameters."""

_SECRET_VALUE = re.compile(
    r"""
      \bgh[pousr]_\w{20,}            # GitHub
    | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,}             # GitLab
    | \bhf_[A-Za-z0-9]{20,}          # Hugging Face
    | \bsk-[\w-]{20,}                # several model services
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b  # AWS
    | \bxox[abeoprs]-[\w-]{10,}      # Slack
    | \bpypi-[\w-]{30,}
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*      # JSON Web Token
    | \bAIza[\w-]{35}               # Google
    | \b[rs]k_live_[A-Za-z0-9]{16,}  # Stripe
    | \bnpm_[A-Za-z0-9]{36}
    | \bdckr_(?:pat|oat)_[\w-]{20,}  # Docker Hub
    | \bAccountKey=[\w+/]{20,}=*    # Azure storage
    | [?&](?:sig|X-Amz-Signature|X-Goog-Signature)=[\w%+/.~-]{16,}=*  # signed addresses
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*    # PEM
    """,
    re.VERBOSE | re.DOTALL,
)
_ASSIGNMENT = re.compile(r"""(?<![\w.-])([\w.-]+)["']?[ \t]*[:=]""")
"""A name that gets a value, in YAML, JSON, TOML and INI. Looked for where a word begins: a long one is read once."""
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables sorted by name, secrets masked by name or by value."""
    return {name: MASK if _secret_name(name) else mask_text(environment[name]) for name in sorted(environment)}


def mask_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return an argument vector with the values of secret options and secret-looking values masked."""
    masked = []
    hide_next = False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        secret = _SECRET_OPTION.fullmatch(option.lower()) is not None
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
    return _USER_IN_URL.sub(MASK, _SECRET_VALUE.sub(MASK, text))


def _secret_name(name: str) -> bool:
    """Judge a variable by its name."""
    return _SECRET_WORD.search(name.lower()) is not None
