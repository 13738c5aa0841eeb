"""A Sigstore of our own, for tests of keyless signatures: authority, certificate log, transparency log; no servers.

What Fulcio would issue and Rekor would record is made here with OpenSSL, and variables make cosign trust it
(https://docs.sigstore.dev/cosign/system_config/custom_components). Formats: RFC 6962 (certificate log), cosign's
specs/SIGNATURE_SPEC.md (annotations), Rekor's ``hashedrekord`` 0.0.1.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from envbuild.core.blob import blob_of
from envbuild.core.digest import canonical_json
from envbuild.core.progress import Silent
from envbuild.registry.repository import OCI_MANIFEST, Manifest, Repository
from envbuild.registry.upload import push

_AUTHORITY = """\
[req]
distinguished_name = name
x509_extensions = own
prompt = no
[name]
O = tests
[own]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
extendedKeyUsage = codeSigning
subjectKeyIdentifier = hash
[ca]
default_ca = here
[here]
database = index.txt
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
unique_subject = no
copy_extensions = none
[any]
organizationName = optional
"""


class Sigstore:
    """An authority and two logs in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        (folder / "config").write_text(_AUTHORITY)
        for name in ("root", "ct", "rekor", "leaf"):
            self._openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", f"{name}.key")
            self._openssl("pkey", "-in", f"{name}.key", "-pubout", "-out", f"{name}.pub")
        self._openssl("req", "-x509", "-new", "-key", "root.key", "-config", "config", "-days", "1", "-out", "root.pem")
        self._openssl("req", "-new", "-key", "leaf.key", "-config", "config", "-out", "leaf.csr")

    @property
    def environ(self) -> dict[str, str]:
        """What makes cosign trust it."""
        files = {
            "SIGSTORE_ROOT_FILE": "root.pem",
            "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE": "ct.pub",
            "SIGSTORE_REKOR_PUBLIC_KEY": "rekor.pub",
        }
        return {name: str(self._folder / file) for name, file in files.items()}

    def sign(self, repository: Repository, digest: str, identity: str, issuer: str, *, recorded: bool = True) -> None:
        """Attach a keyless signature of a manifest (hexadecimal digest), as cosign 2 stores it.

        Args:
            recorded: with the transparency log's word that it has the signature.
        """
        claim = {
            "identity": {"docker-reference": repository.reference.name},
            "type": "cosign container image signature",
        }
        payload = canonical_json({"critical": {**claim, "image": {"docker-manifest-digest": f"sha256:{digest}"}}})
        certificate = self._certificate(identity, issuer)
        signature = base64.b64encode(self._signature("leaf", payload)).decode()
        notes = {
            "dev.cosignproject.cosign/signature": signature,
            "dev.sigstore.cosign/certificate": certificate,
            "dev.sigstore.cosign/chain": (self._folder / "root.pem").read_text(),
        }
        if recorded:
            notes["dev.sigstore.cosign/bundle"] = self._recorded(payload, signature, certificate)
        config, blob = (
            blob_of(b'{"architecture":"","os":"","rootfs":{"type":"layers","diff_ids":[]}}'),
            blob_of(payload),
        )
        kind = "application/vnd.dev.cosign.simplesigning.v1+json"
        layer = {"mediaType": kind, "digest": f"sha256:{blob.digest}", "size": blob.size, "annotations": notes}
        above = {"mediaType": "application/vnd.oci.image.config.v1+json", "size": config.size}
        document = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": {**above, "digest": f"sha256:{config.digest}"},
            "layers": [layer],
        }
        manifest = Manifest(canonical_json(document), OCI_MANIFEST)
        push(repository, [config, blob], manifest, Silent(), tag=f"sha256-{digest}.sig")

    def _certificate(self, identity: str, issuer: str) -> str:
        """Issue a certificate for an identity, with the certificate log's promise in it; returns PEM."""
        text = issuer.encode()
        extensions = [
            "keyUsage = critical,digitalSignature",
            "extendedKeyUsage = codeSigning",
            "authorityKeyIdentifier = keyid",
            f"subjectAltName = critical,URI:{identity}",
            f"1.3.6.1.4.1.57264.1.1 = DER:{_hex(text)}",
        ]
        now = int(time.time())
        bare = self._issue(extensions, now)
        promise = self._promise(_signed_part(bare), now * 1000)
        self._issue([*extensions, f"1.3.6.1.4.1.11129.2.4.2 = DER:{_hex(_der(4, promise))}"], now)
        return (self._folder / "leaf.pem").read_text()

    def _issue(self, extensions: list[str], now: int) -> bytes:
        """Issue a certificate that differs in its extensions only; returns DER."""
        (self._folder / "extensions").write_text("\n".join(extensions) + "\n")
        (self._folder / "index.txt").write_text("")
        (self._folder / "serial").write_text("01\n")
        first, last = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(now + seconds)) for seconds in (0, 600))
        command = ["ca", "-batch", "-notext", "-config", "config", "-in", "leaf.csr", "-cert", "root.pem"]
        command += ["-keyfile", "root.key", "-extfile", "extensions", "-out", "leaf.pem"]
        self._openssl(*command, "-startdate", first, "-enddate", last)
        return self._openssl("x509", "-in", "leaf.pem", "-outform", "DER")

    def _promise(self, signed_part: bytes, milliseconds: int) -> bytes:
        """Return the list of the log's one promise (RFC 6962, 3.2 and 3.3) for a certificate without it."""
        issuer = hashlib.sha256(self._public("root")).digest()
        stamp = milliseconds.to_bytes(8, "big")
        entry = b"\0\1" + issuer + len(signed_part).to_bytes(3, "big") + signed_part + b"\0\0"
        signature = self._signature("ct", b"\0\0" + stamp + entry)
        log = hashlib.sha256(self._public("ct")).digest()
        promise = b"\0" + log + stamp + b"\0\0" + b"\4\3" + len(signature).to_bytes(2, "big") + signature
        listed = len(promise).to_bytes(2, "big") + promise
        return len(listed).to_bytes(2, "big") + listed

    def _recorded(self, payload: bytes, signature: str, certificate: str) -> str:
        """Return the transparency log's word that it has the signature."""
        spec = {
            "data": {"hash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}},
            "signature": {"content": signature, "publicKey": {"content": _text(certificate.encode())}},
        }
        body = canonical_json({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec})
        log = hashlib.sha256(self._public("rekor")).hexdigest()
        entry: dict[str, Any] = {"body": _text(body), "integratedTime": int(time.time()), "logID": log, "logIndex": 1}
        signed = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
        return json.dumps({"SignedEntryTimestamp": _text(self._signature("rekor", signed)), "Payload": entry})

    def _public(self, name: str) -> bytes:
        return self._openssl("pkey", "-pubin", "-in", f"{name}.pub", "-pubout", "-outform", "DER")

    def _signature(self, name: str, data: bytes) -> bytes:
        return self._openssl("dgst", "-sha256", "-sign", f"{name}.key", stdin=data)

    def _openssl(self, *arguments: str, stdin: bytes = b"") -> bytes:
        command = ["openssl", *arguments]
        return subprocess.run(command, cwd=self._folder, input=stdin, capture_output=True, check=True).stdout


def _signed_part(certificate: bytes) -> bytes:
    """Return the first element of a certificate (DER): what its issuer signs."""
    start = _header(certificate, 0)
    size, length = _header(certificate, start) - start, _length(certificate, start)
    return certificate[start : start + size + length]


def _header(data: bytes, start: int) -> int:
    """Return where an element's content begins."""
    return start + 2 + (data[start + 1] & 0x7F if data[start + 1] & 0x80 else 0)


def _length(data: bytes, start: int) -> int:
    return int.from_bytes(data[start + 2 : _header(data, start)], "big") if data[start + 1] & 0x80 else data[start + 1]


def _der(tag: int, content: bytes) -> bytes:
    """Wrap fewer than 256 bytes."""
    size = bytes([len(content)]) if len(content) < 128 else bytes([0x81, len(content)])
    return bytes([tag]) + size + content


def _hex(data: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in data)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
