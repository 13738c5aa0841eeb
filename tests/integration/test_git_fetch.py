"""What git reads when a commit is fetched: the address in the requirement, no configuration around it, and no bomb."""

from __future__ import annotations

import gzip
import resource
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from envbuild.errors import ResolveError
from envbuild.sources.git import _Git, fetch_commit
from tests.support.server import FileServer


@pytest.fixture(name="server")
def _server() -> Iterator[FileServer]:
    with FileServer() as server:
        yield server


def git(folder: Path, *arguments: str, data: str = "") -> str:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{who}_NAME": "t", f"GIT_{who}_EMAIL": "t@example.invalid"}
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environ, check=True, capture_output=True, text=True, input=data
    ).stdout.strip()


def serve(server: FileServer, folder: Path, tree: str) -> str:
    """Commit a tree as ``main`` of a bare repository and serve it; returns its address."""
    commit = git(folder, "commit-tree", "-m", "x", tree)
    git(folder, "update-ref", "refs/heads/main", commit)
    git(folder, "update-server-info")
    server.add_tree(folder, f"{folder.name}")
    return f"{server.url}/{folder.name}"


@pytest.fixture(name="bare")
def _bare(tmp_path: Path) -> Path:
    folder = tmp_path / "bare.git"
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main")
    return folder


def test_a_repository_around_the_temporary_folder_configures_nothing(
    server: FileServer, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may be inside a project, whose ``.git/config`` could send git elsewhere or name a helper to run."""
    blob = git(bare, "hash-object", "-w", "--stdin", data="hello")
    url = serve(server, bare, git(bare, "mktree", data=f"100644 blob {blob}\tx.py\n"))
    outer = tmp_path / "outer"
    (outer / "tmp").mkdir(parents=True)
    git(outer, "init", "-q")
    git(outer, "config", f"url.{server.url}/nowhere/.insteadOf", f"{server.url}/")
    monkeypatch.setattr(tempfile, "tempdir", str(outer / "tmp"))
    assert [(file.path, file.data) for file in fetch_commit(url, "main").files] == [("x.py", b"hello")]


@pytest.mark.parametrize("leaf", ["file", "nothing"])
def test_a_tree_of_trees_without_end_is_refused(
    server: FileServer, bare: Path, leaf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten trees that each name the one below ten times are 10¹⁰ files, or as many empty folders."""
    blob = git(bare, "hash-object", "-w", "--stdin", data="x")
    tree = git(bare, "mktree", data=f"100644 blob {blob}\tx\n" if leaf == "file" else "")
    for _ in range(10):
        tree = git(bare, "mktree", data="".join(f"040000 tree {tree}\t{name}\n" for name in "abcdefghij"))
    url = serve(server, bare, tree)
    monkeypatch.setattr("envbuild.sources.git._ENTRIES", 2000)  # 200,000 take half a minute on a busy machine
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ResolveError, match="has more than 2000 files and folders"):
        fetch_commit(url, "main")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


class _Smart(BaseHTTPRequestHandler):
    """Git's own server of one repository, over HTTP (gitprotocol-http(5))."""

    folder: Path

    def do_GET(self) -> None:
        """List references."""
        head = b"# service=git-upload-pack\n"
        self._answer("advertisement", f"{len(head) + 4:04x}".encode() + head + b"0000", b"", "--advertise-refs")

    def do_POST(self) -> None:
        """Send a pack."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        gzipped = self.headers.get("Content-Encoding") == "gzip"
        self._answer("result", b"", gzip.decompress(body) if gzipped else body)

    def _answer(self, kind: str, head: bytes, body: bytes, *options: str) -> None:
        words = ["git", "-c", "uploadpack.allowAnySHA1InWant=true", "upload-pack", "--stateless-rpc", *options, "."]
        done = subprocess.run(words, cwd=self.folder, input=body, capture_output=True, check=False)
        self.send_response(200)
        self.send_header("Content-Type", f"application/x-git-upload-pack-{kind}")
        self.end_headers()
        with suppress(OSError):  # the reader has had enough
            self.wfile.write(head + done.stdout)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(name="smart")
def _smart(bare: Path) -> Iterator[str]:
    """The address at which git's own server has the repository."""
    handler = type("Handler", (_Smart,), {"folder": bare})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/bare.git"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("way", ["smart", "loose", "packed"])
@pytest.mark.parametrize("limit", ["_PACKED", "_OBJECTS", ""])
def test_a_server_that_sends_too_much_is_left(
    server: FileServer, bare: Path, smart: str, way: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a fetch brings is counted while it does: bytes, and the objects that a pack states."""
    size = 100_000 if limit == "_PACKED" else 10
    blobs = [git(bare, "hash-object", "-w", "--stdin", data=secrets.token_hex(size)) for _ in range(30)]
    lines = "".join(f"100644 blob {blob}\tf{number}\n" for number, blob in enumerate(blobs))
    dumb = serve(server, bare, git(bare, "mktree", data=lines))
    if way == "packed":
        git(bare, "repack", "-adq")
        git(bare, "update-server-info")
        dumb = serve(server, bare, git(bare, "rev-parse", "main^{tree}"))
    if limit:
        monkeypatch.setattr(f"envbuild.sources.git.{limit}", {"_PACKED": 1 << 20, "_OBJECTS": 20}[limit])
        with pytest.raises(ResolveError, match="sends more than"):
            fetch_commit(smart if way == "smart" else dumb, "main")
    else:
        assert len(fetch_commit(smart if way == "smart" else dumb, "main").files) == 30


def test_a_server_that_names_too_much_is_left(bare: Path, smart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server can have as many references of nearly the name that is asked for as it likes."""
    commit = git(bare, "commit-tree", "-m", "x", git(bare, "mktree", data=""))
    names = "".join(f"create refs/x{number}/refs/heads/main {commit}\n" for number in range(2000))
    git(bare, "update-ref", "--stdin", data=names)
    monkeypatch.setattr("envbuild.sources.git._NAMES", 1 << 16)
    with pytest.raises(ResolveError, match="of names"):
        fetch_commit(smart, "main")


@pytest.mark.parametrize(("url", "allowed"), [("https://h.invalid/x", "https"), ("http://h.invalid/x", "https:http")])
def test_a_redirect_never_leads_from_encryption(tmp_path: Path, url: str, allowed: str) -> None:
    """git follows a redirect to the protocols that it is allowed, and refuses others."""
    assert _Git(tmp_path / "x", url)._environment()["GIT_ALLOW_PROTOCOL"] == allowed
