"""Signing in the pipeline: with a key, as the workflow that runs, or with a pair made for the occasion."""

from __future__ import annotations

import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from envbuild.errors import UsageError
from scripts.pipeline.console import envbuild_json, report
from scripts.pipeline.subject import ROOT, Subject

_ISSUER = "https://token.actions.githubusercontent.com"
"""Of GitHub's tokens: https://docs.github.com/en/actions/concepts/security/openid-connect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signer:
    """Who signs: ``words`` for ``envbuild sign``, and who must have signed, for ``--require-signature``."""

    words: tuple[str, ...]
    required: str


def key_signer(key: str, public: str) -> Signer:
    """Sign with a key; its password is in COSIGN_PASSWORD."""
    return Signer(words=("--key", key), required=public)


def keyless_signer() -> Signer:
    """Sign as the workflow that runs; raises ``UsageError`` outside GitHub Actions."""
    server, workflow = os.environ.get("GITHUB_SERVER_URL", ""), os.environ.get("GITHUB_WORKFLOW_REF", "")
    if not (server and workflow):
        raise UsageError("sign --keyless: not in a workflow of GitHub Actions", "name a key: --key FILE --public FILE")
    return Signer(words=("--keyless",), required=f"{server}/{workflow}@{_ISSUER}")


def own_signer(folder: Path) -> Signer:
    """Make a key pair that lasts as long as the folder; its password stays in this process' environment."""
    use_cosign()
    os.environ["COSIGN_PASSWORD"] = secrets.token_hex(16)
    folder.mkdir(parents=True, exist_ok=True)
    command = [os.environ["ENVBUILD_COSIGN"], "generate-key-pair", "--output-key-prefix", "pipeline"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return key_signer(str(folder / "pipeline.key"), str(folder / "pipeline.pub"))


def use_cosign() -> None:
    """Find cosign, or fetch Debian's."""
    if os.environ.get("ENVBUILD_COSIGN"):
        return
    command = [ROOT / "scripts" / "ensure-cosign.sh"]
    os.environ["ENVBUILD_COSIGN"] = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def sign(subject: Subject, signer: Signer) -> None:
    """Sign the digest that was pushed; attach provenance and bills; note who must have signed it."""
    use_cosign()
    reference = str(subject.kept("published.json", "push")["reference"])
    environ = {**os.environ, "ENVBUILD_STORE": str(subject.note("here") / "store"), "PYTHONPATH": str(ROOT)}
    envbuild_json("sign", reference, *signer.words, cwd=subject.note("pushed"), environ=environ)
    subject.keep("signed.json", {"required": signer.required, "reference": reference})
    report("sign", f"{subject.name}  {reference.rpartition('@')[2]}, with provenance and bills")
