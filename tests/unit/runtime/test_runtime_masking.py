"""The runtime's own masking: the host's patterns, and what they mean for parameters."""

from __future__ import annotations

import pytest

from envbuild.core import redact as host
from envbuild.runtime import masking

HF = "hf_" + "a1B2" * 6


def test_the_patterns_are_the_hosts() -> None:
    """Both sides hide the same things: whoever changes one pattern changes the other."""
    assert masking.MASK == host.MASK
    assert host._SECRET_OPTION.pattern == masking.OPTION
    assert host._SECRET_WORD.pattern == masking.WORD
    assert host._SECRET_VALUE.pattern == masking.VALUE
    assert host._USER_IN_URL.pattern == masking.USER_IN_URL


@pytest.mark.parametrize(
    "arguments",
    [
        ["train.py", "--hub-token", "x", "--lr", "0.1"],
        ["--api-key=x", "--max-tokens", "5", "--sort-key=name"],
        ["--password", "--next", "http://me:pw@example.invalid/x", HF],
        ["AKIA" + "A" * 16, "-----BEGIN RSA PRIVATE KEY-----\nabc", "plain"],
        ["-token", "a", "token", "b", "token=c", "--Secret", "d"],
        ["wandb.api_key=x", "+hub.token=x", "++db.password=x", "~a.secret=x", "trainer.max_tokens=5", "lr=0.1", "=x"],
        ["--wandb.api_key", "x", "--logger.api-key=x", "--tokenizer.name=x"],
    ],
)
def test_arguments_are_masked_as_on_the_host(arguments: list[str]) -> None:
    """An argument vector looks the same in a process's file and in the record."""
    assert tuple(masking.mask_arguments(arguments)) == host.mask_arguments(arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [("HF_TOKEN", "x"), ("TOKENIZERS_PARALLELISM", "false"), ("PATH", "/bin"), ("URL", "ftp://a:b@example.invalid")],
)
def test_variables_are_masked_as_on_the_host(name: str, value: str) -> None:
    """So does a variable."""
    assert masking.mask_variable(name, value) == host.mask_environment({name: value})[name]


def test_a_variable_that_is_gone_stays_so() -> None:
    """No value is no secret."""
    assert masking.mask_variable("HF_TOKEN", None) is None


@pytest.mark.parametrize(
    "secret",
    [
        "AIza" + "Sy" * 17 + "x",
        "sk_live_" + "a1" * 12,
        "rk_live_" + "a1" * 12,
        "npm_" + "aB" * 18,
        "dckr_pat_" + "a_-" * 9,
        "AccountKey=" + "ab/+" * 10 + "==",
        "gldt-" + "a1_-" * 6,
        "gsk_" + "a1B2" * 8,
        "r8_" + "a1B2" * 9,
        "xapp-1-" + "A1" * 12,
        "https://hooks.slack.com/services/T0/B0/" + "aB1" * 8,
        "ya29." + "a1_-" * 8,
        "sk_test_" + "a1" * 12,
        "SG." + "a1_-" * 5 + "." + "b2_-" * 8,
        "hvs." + "a1_-" * 8,
        "dapi" + "0a1b" * 8,
        "dop_v1_" + "0a1b" * 16,
        "Authorization: Bearer " + "a1.b2-" * 6,
        "https://x.example.invalid/b?se=2030&sig=" + "a%2F" * 8,
        "https://x.example.invalid/b?X-Amz-Signature=" + "ab" * 32,
    ],
)
def test_tokens_of_further_services_are_masked_on_both_sides(secret: str) -> None:
    """By their form, wherever they stand."""
    for masked in (masking.mask_text(f"key {secret} end"), host.mask_text(f"key {secret} end")):
        assert "***" in masked
        assert secret[-12:] not in masked


@pytest.mark.parametrize(
    "name", ["SSHPASS", "AZURE_STORAGE_CONNECTION_STRING", "DB_CONNECTIONSTRING", "GHTOKEN", "accessToken"]
)
def test_variables_whose_names_say_it_are_masked_on_both_sides(name: str) -> None:
    """These names hold secrets though they contain no short word by itself."""
    assert masking.mask_variable(name, "x") == host.mask_environment({name: "x"})[name] == "***"
