"""Secrets never reach a record, and parameters are never mistaken for secrets."""

from __future__ import annotations

import re
import sys

import pytest

from envbuild.core import redact
from envbuild.core.redact import mask_arguments, mask_environment, mask_text


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "WANDB_API_KEY",
            "AWS_ACCESS_KEY_ID",
            "DB_PASSWORD",
            "PGPASS",
            "MYSQL_PWD",
            "MY_SECRET",
            "apikey",
        ),
        *("PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS", "BASIC_AUTH", "SESSION_COOKIE", "KEY"),
    ],
)
def test_secret_names_are_masked(name: str) -> None:
    """A variable named like a secret is recorded without its value."""
    assert mask_environment({name: "value"}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "KEYBOARD", "PATH", "TF_DETERMINISTIC_OPS", "AUTHOR", "MONKEY"]
)
def test_other_names_are_kept(name: str) -> None:
    """A name that merely contains such a word keeps its value."""
    assert mask_environment({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("ghp_" + "a" * 36, "***"),
        ("hf_" + "A" * 30, "***"),
        ("AKIA" + "A" * 16, "***"),
        ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc", "***"),
        ("postgres://user:pw@example.invalid/db", "postgres://***@example.invalid/db"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n", "***"),
        ("mail me@example.invalid", "mail me@example.invalid"),
        ("sk-learn", "sk-learn"),
    ],
)
def test_secret_values_are_masked(text: str, masked: str) -> None:
    """A value that looks like a secret is masked whatever its name; the rest of the text stays."""
    assert mask_text(text) == masked


def test_secret_options_are_masked_and_parameters_are_not() -> None:
    """Both forms of a secret option are masked, parameters about tokens and keys stay readable."""
    given = "train.py --api-key=abc --hub_token abc --max-tokens 5 --sort-key=x --token --flag y"
    masked = "train.py --api-key=*** --hub_token *** --max-tokens 5 --sort-key=x --token --flag y"
    assert mask_arguments(given.split()) == tuple(masked.split())


def test_secrets_among_overrides_and_behind_dots_are_masked() -> None:
    """Hydra's overrides have no dashes, and nested options are judged by their last word."""
    given = "train.py wandb.api_key=abc +hub.token=abc trainer.max_tokens=5 --logger.api_key abc --data.name=abc token"
    masked = "train.py wandb.api_key=*** +hub.token=*** trainer.max_tokens=5 --logger.api_key *** --data.name=abc token"
    assert mask_arguments(given.split()) == tuple(masked.split())


def test_no_secret_is_shorter_than_what_is_looked_at() -> None:
    """Shorter texts are not searched: one sign fewer than the shortest secret has."""
    compiled = re.compile(redact._SECRET_VALUE.pattern, re.VERBOSE | re.DOTALL)
    shortest = "xapp-" + "a" * 10
    assert len(shortest) == redact._SHORTEST
    assert compiled.search(shortest)
    assert not compiled.search(shortest[:-1])
    assert mask_text(shortest) == "***"
    if sys.version_info >= (3, 11):
        from re import _parser

        least, _ = _parser.parse(compiled.pattern, compiled.flags).getwidth()
        assert least == redact._SHORTEST


def test_the_user_of_a_short_address_is_masked() -> None:
    """It has no least length."""
    assert mask_text("a://b@c") == "a://***@c"
