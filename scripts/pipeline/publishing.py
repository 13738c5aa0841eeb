"""The steps that publish: push by digest, sign, attest, and receive as somebody else would."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envbuild.errors import NotReproducibleError, UsageError
from envbuild.image.record import write_image_record
from scripts.pipeline.console import envbuild_json, forget_image, report
from scripts.pipeline.signatures import use_cosign
from scripts.pipeline.subject import ROOT, Subject


@contextmanager
def a_registry(registry: str, work: Path) -> Iterator[str]:
    """Give where to push to: the registry that is named, else Debian's on loopback, with TLS and a password."""
    if registry:
        yield named(registry)
        return
    from tests.support.registry import running_registry

    with running_registry(work / "registry", secure=True) as running:
        os.environ["DOCKER_CONFIG"] = str(running.docker_config(work / "docker"))
        report("registry", f"docker-registry at {running.host}, with TLS and a password")
        yield f"{running.host}/images"


def named(registry: str) -> str:
    """Return where to push to, in small letters, as repositories are; raises ``UsageError`` if nowhere."""
    if not registry:
        raise UsageError("expected a registry", "set PIPELINE_REGISTRY, or --registry HOST/FOLDER")
    return registry.rstrip("/").lower()


def use_runner_folder() -> None:
    """Keep credentials for one job only, in GitHub Actions, unless DOCKER_CONFIG names another folder."""
    if os.environ.get("RUNNER_TEMP") and not os.environ.get("DOCKER_CONFIG"):
        os.environ["DOCKER_CONFIG"] = str(Path(os.environ["RUNNER_TEMP"]) / "docker")


def login(registry: str) -> None:
    """Write the docker configuration for a registry, readable by this user alone.

    User and password come from REGISTRY_USER and REGISTRY_PASSWORD; the file goes to DOCKER_CONFIG.
    """
    user, password = os.environ.get("REGISTRY_USER", ""), os.environ.get("REGISTRY_PASSWORD", "")
    folder = os.environ.get("DOCKER_CONFIG", "")
    if not (user and password and folder):
        raise UsageError("login: expected REGISTRY_USER, REGISTRY_PASSWORD and DOCKER_CONFIG", "set them")
    Path(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
    entry = {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}
    descriptor = os.open(Path(folder) / "config.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({"auths": {registry.partition("/")[0]: entry}}, file)
    report("login", f"{registry.partition('/')[0]} as {user}")


def push(subject: Subject, registry: str) -> str:
    """Push the image that ``here`` built, if it is the one that was compared; returns its reference by digest."""
    compared = subject.built("elsewhere")
    store = subject.note("here") / "store"
    environ = {**os.environ, "ENVBUILD_STORE": str(store), "PYTHONPATH": str(ROOT)}
    project = subject.note("pushed")
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    shutil.copy(subject.path, project)
    # Next to the record of the other builder: a push of anything else is refused.
    write_image_record(project / subject.path.name, compared)
    words = ("push", f"{registry}/{subject.name}", "--write", "--offline")
    pushed = envbuild_json(*words, cwd=project, environ=environ)
    if pushed["manifest"] != compared.manifest:
        raise NotReproducibleError(
            f"{subject.name}: pushed sha256:{pushed['manifest']}, compared sha256:{compared.manifest}"
        )
    subject.keep("published.json", pushed)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a") as file:
            file.write(f"- {subject.name}: `{pushed['reference']}`, config `sha256:{pushed['config']}`\n")
    blobs = ", ".join(f"{count} {what}" for what, count in pushed["blobs"].items())
    report("push", f"{subject.name}  {pushed['reference']}  {pushed['bytes'] / 1e6:.0f} MB, blobs: {blobs}")
    return str(pushed["reference"])


def receive(subject: Subject) -> None:
    """Do what somebody else would: inspect, pull by digest with an empty store, run; nothing is built."""
    reference = str(subject.kept("published.json", "push")["reference"])
    compared = subject.built("elsewhere")
    project = subject.note("received")
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir(parents=True)
    shutil.copy(subject.path, project)
    write_image_record(project / subject.path.name, compared)
    environ = {**os.environ, "ENVBUILD_STORE": str(project / "store"), "PYTHONPATH": str(ROOT)}
    seen = envbuild_json("inspect", reference, cwd=project, environ=environ)
    demand = _demanded(subject)
    report("inspect", f"{subject.name}  config sha256:{seen['config']}, attached: {_attached(seen)}")
    forget_image(compared.reference)
    pulled = envbuild_json("pull", reference, *demand, cwd=project, environ=environ)
    if not seen["config"] == pulled["config"] == compared.config:
        raise NotReproducibleError(f"{subject.name}: what was pulled is not what was compared")
    signed = ", signature checked" if demand else ""
    report("pull", f"{subject.name}  sha256:{pulled['config']}, on an empty store{signed}")


def _demanded(subject: Subject) -> tuple[str, ...]:
    """Return the option that demands the signature, if there is one."""
    if not subject.note("signed.json").exists():
        return ()
    use_cosign()
    return ("--require-signature", str(subject.kept("signed.json", "sign")["required"]))


def _attached(seen: dict[str, Any]) -> str:
    """Count what refers to an image, by kind."""
    kinds = [str(item["kind"]) for item in seen["attached"]]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or "nothing"


def forget(subject: Subject) -> None:
    """Take the image out of the engine again."""
    forget_image(subject.built("here").reference)


def tidy(subject: Subject) -> None:
    """Remove what takes much room."""
    for name in ("here", "elsewhere", "vendor", "received", "example"):
        shutil.rmtree(subject.note(name), ignore_errors=True)
