"""An image registry on a loopback port: Debian's docker-registry, with TLS and a password, or without either."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker

from envbuild.core.fs import locked
from tests.support.environments import CACHE
from tests.support.server import make_certificate

_PROGRAM = "docker-registry"

USER = "builder"
PASSWORD = "correct horse"
_HTPASSWD = f"{USER}:$2y$05$abcdefghijklmnopqrstuuHNbAKRhpaujgo33bRWs.NLUTJO3lOy2\n"
"""Made once by ``htpasswd -B``: the registry takes bcrypt only, which Python has not."""


class Registry:
    """A running registry: its host name with port, the folder of its blobs, and its certificate if it speaks TLS."""

    def __init__(self, host: str, folder: Path, certificate: Path | None = None) -> None:
        self.host = host
        self.folder = folder
        self.certificate = certificate

    @property
    def blob_bytes(self) -> int:
        """How many bytes all blobs take."""
        return sum(path.stat().st_size for path in self.folder.glob("docker/registry/v2/blobs/sha256/*/*/data"))

    def docker_config(self, folder: Path, password: str = PASSWORD, host: str = "") -> Path:
        """Write a docker configuration that knows user and password, and trusts the certificate; returns ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        entry = {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}
        (folder / "config.json").write_text(json.dumps({"auths": {host or self.host: entry}}))
        if self.certificate is not None:
            trusted = folder / "certs.d" / (host or self.host)
            trusted.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.certificate, trusted / "ca.crt")
        return folder

    def push(self, tar: Path, name: str, changes: list[str]) -> str:
        """Make an image of a root file system, push it, drop it from the engine; return it by digest."""
        client: Any = docker.from_env(timeout=600).api
        repository = f"{self.host}/{name}"
        try:
            with tar.open("rb") as stream:
                client.import_image(src=stream, repository=repository, tag="1", changes=changes)
            events = list(client.push(repository, tag="1", stream=True, decode=True))
            assert not [event for event in events if "error" in event], events
            digest = next(event["aux"]["Digest"] for event in events if "aux" in event)
        finally:
            forget(f"{repository}:1")
        return f"{repository}:1@{digest}"

    def layer_blob(self, reference: str) -> Path:
        """Return the file of an image's only layer."""
        manifest = json.loads(self.blob(reference.rpartition("@")[2]).read_bytes())
        return self.blob(manifest["layers"][0]["digest"])

    def blob(self, digest: str) -> Path:
        """Return the file of a blob, by its SHA-256."""
        name = digest.removeprefix("sha256:")
        return self.folder / "docker/registry/v2/blobs/sha256" / name[:2] / name / "data"


def forget(reference: str) -> None:
    """Remove an image from the engine, if it has it."""
    client: Any = docker.from_env().api
    for image in {image["Id"] for image in client.images() if _has(image, reference)}:
        client.remove_image(image, force=True)


def _has(image: dict[str, Any], reference: str) -> bool:
    name, _, digest = reference.partition("@")
    plain = f"{name.rpartition(':')[0]}@{digest}" if digest and ":" in name.rpartition("/")[2] else reference
    return bool({reference, plain} & {*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())})


@contextmanager
def running_registry(folder: Path, *, secure: bool = False, size: int = 0) -> Iterator[Registry]:
    """Run a registry that keeps its blobs below ``folder``, made if need be.

    Args:
        secure: with TLS and a password (``USER``, ``PASSWORD``).
        size: bytes of its disk, a file system in memory that nobody else sees; 0 for no limit.
    """
    _install()
    folder.mkdir(parents=True, exist_ok=True)
    disk = folder / "disk" if size else folder
    disk.mkdir(exist_ok=True)
    document: dict[str, Any] = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(disk)}}}
    document["log"] = {"level": "info"}  # which states the port
    document["http"] = {"addr": "127.0.0.1:0", "secret": "tests"}
    certificate = None
    if secure:
        make_certificate(folder)
        certificate = folder / "certificate.pem"
        (folder / "htpasswd").write_text(_HTPASSWD)
        document["http"]["tls"] = {"certificate": str(certificate), "key": str(folder / "key.pem")}
        document["auth"] = {"htpasswd": {"realm": "tests", "path": str(folder / "htpasswd")}}
    config = folder / "config.json"
    config.write_text(json.dumps(document))
    command = [_PROGRAM, "serve", str(config)]
    if size:
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        script = f'mount -t tmpfs -o size={size} tmpfs "$0" && exec "$@"'
        command = ["unshare", *user, "--mount", "sh", "-c", script, str(disk), *command]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield Registry(_listening(process, log), disk, certificate)
    finally:
        process.terminate()
        process.wait(60)


def _listening(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the registry takes connections, and return where, in its own words: the port is one it has bound."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"listening on (127\.0\.0\.1:[0-9]+)[\",]", log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the registry did not start: {log.read_text()[-2000:]}")


def _install() -> None:
    """Install what is missing, one test process after the other: apt refuses a second one at once."""
    with locked(CACHE / "apt.lock"):
        _install_missing()


def _install_missing() -> None:
    if shutil.which(_PROGRAM) and shutil.which("openssl"):
        return
    if os.geteuid() != 0:
        raise RuntimeError("these tests need a registry: apt-get install docker-registry openssl")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", _PROGRAM, "openssl"]):
        words = ["apt-get", "-o", "DPkg::Lock::Timeout=300", *command]
        subprocess.run(words, check=True, env=environment, capture_output=True)
