"""Python resolution with the real resolvers, against indexes on the loopback and, marked so, the configured ones."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_file
from envbuild.errors import IntegrityError, ResolveError
from envbuild.lockfile.model import PythonPackage
from envbuild.resolve.python import pip_tools, uv
from envbuild.resolve.python.indexes import configured
from envbuild.resolve.python.pins import PythonRequest, ResolvedPython, resolve_python, source_urls, wheel_urls
from envbuild.resolve.python.wheels import Target, ranks
from envbuild.spec.requirement_files import flattened, required_digests
from tests.support.indexes import make_index
from tests.support.server import FileServer
from tests.support.wheels import make_wheel

FEATURE = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = Target(python=FEATURE, platform=f"manylinux_2_36_{platform.machine()}")
OTHER = Target(python="3.12" if FEATURE != "3.12" else "3.13", platform="manylinux_2_36_aarch64")


class Bench:
    """A place to resolve in: an own home and cache, and nothing of this machine's configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_CACHE_DIR": str(folder / "pip"),
            "UV_CACHE_DIR": str(folder / "uv"),
        }
        (folder / "home").mkdir()
        (folder / "project").mkdir()

    def resolve(self, *lines: str, target: Target = TARGET, resolver: str = "uv", **request: Any) -> ResolvedPython:
        cross_check = bool(request.pop("cross_check", False))
        lines = (*request.pop("read", ()), *lines)
        asked = PythonRequest(target=target, requirements=lines, folder=self.folder / "project", **request)
        return resolve_python(
            asked, cache_dir=self.folder / "cache", environ=self.environ, resolver=resolver, cross_check=cross_check
        )

    def wheels(self, *made: tuple[str, str, Sequence[str]], tag: str = "py3-none-any") -> list[Path]:
        return [make_wheel(self.folder / "made", n, v, requires=list(r), tag=tag) for n, v, r in made]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        yield running


def _serve(server: FileServer, folder: Path, wheels: Sequence[Path], prefix: str = "", **faults: object) -> str:
    make_index(folder, wheels)
    server.add_tree(folder, prefix, **faults)
    return f"{server.url}{prefix}/simple"


def _certificates(folder: Path) -> tuple[Path, Path]:
    """Make an authority and a server certificate signed by it (uv takes no certificate that is its own authority)."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-days", "9", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *curve, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "9", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", *signing, "-out", "server.crt")
    both = folder / "server.pem"
    both.write_bytes((folder / "server.key").read_bytes() + (folder / "server.crt").read_bytes())
    return folder / "ca.pem", both


def _versions(resolved: ResolvedPython) -> dict[str, str]:
    return {package.name: package.version for package in resolved.packages}


def _source(bench: Bench, name: str, version: str) -> Path:
    """A source archive, of which nothing but the name may ever be looked at."""
    path = bench.folder / "made" / f"{name}-{version}.tar.gz"
    path.write_bytes(f"{name} {version} is not to be opened".encode())
    return path


@pytest.mark.parametrize("resolver", ["uv", "pip-tools"])
def test_a_fall_over_many_years_is_refused(bench: Bench, server: FileServer, resolver: str) -> None:
    """Where only an ancient or a pre-release has a wheel, it is not taken silently (deepspeed 0.3.1.dev5)."""
    files = bench.wheels(("deep", "0.3.1.dev5", []), ("old", "0.0.4", []), ("fine", "2.0", []))
    files += [_source(bench, "deep", "0.19.8"), _source(bench, "old", "1.2.2"), _source(bench, "fine", "1.0")]
    index = _serve(server, bench.folder / "index", files)
    bench.environ |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index}
    with pytest.raises(ResolveError) as caught:
        bench.resolve("deep", "old", "fine", resolver=resolver)
    assert caught.value.message == (
        f"for want of a wheel for {TARGET}, a much older release or a pre-release would be locked:\n"
        "  deep 0.3.1.dev5 instead of 0.19.8, since that has no wheel\n"
        "  old 0.0.4 instead of 1.2.2, since that has no wheel"
    )
    assert "pip wheel --no-deps -w wheels deep==0.19.8 old==1.2.2 (then" in caught.value.hint
    assert caught.value.hint.endswith("or require the older one if you want it: deep==0.3.1.dev5, old==0.0.4")
    found = bench.resolve("deep==0.3.1.dev5", "old<1", "fine", resolver=resolver)
    assert _versions(found) == {"deep": "0.3.1.dev5", "old": "0.0.4", "fine": "2.0"}
    again = bench.resolve("deep>=0.0.dev0", "old", existing=found.packages, resolver=resolver)
    assert _versions(again) == {"deep": "0.3.1.dev5", "old": "0.0.4"}, "what a lock has is not a fall"


def test_a_fall_for_want_of_a_dependency_is_refused(bench: Bench, server: FileServer) -> None:
    """A release that needs something without a wheel counts as without (hydra-core 0.11.3 for 1.3.8)."""
    made = (
        ("hydra", "0.11.3", []),
        ("hydra", "1.3.8", ["antlr==4.9.*"]),
        ("hydra", "1.4.0rc3", []),
        ("antlr", "4.7", []),
        ("antlr", "4.11", []),
    )
    index = _serve(server, bench.folder / "index", [*bench.wheels(*made), _source(bench, "antlr", "4.9.3")])
    bench.environ["UV_DEFAULT_INDEX"] = index
    for line, taken in (("hydra", "0.11.3"), ("hydra>=1.3", "1.4.0rc3")):
        with pytest.raises(ResolveError) as caught:
            bench.resolve(line)
        assert caught.value.message.endswith(f"\n  hydra {taken} instead of 1.3.8, since antlr==4.9.* has no wheel")
        assert "pip wheel --no-deps -w wheels 'antlr==4.9.*' (then" in caught.value.hint
    assert _versions(bench.resolve("hydra>=1.4.0rc1")) == {"hydra": "1.4.0rc3"}, "asked for by a pre-release"


def test_a_small_fall_is_a_note(bench: Bench, server: FileServer) -> None:
    """A compatible release that was passed over is named; what other requirements hold back is not."""
    made = (("near", "1.4", []), ("held", "1.0", []), ("held", "9.0", []), ("top", "1.0", ["held<2"]))
    files = [*bench.wheels(*made), _source(bench, "near", "1.5"), _source(bench, "near", "2.0rc1")]
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", files)
    found = bench.resolve("near", "held", "top")
    assert _versions(found) == {"near": "1.4", "held": "1.0", "top": "1.0"}
    assert found.notes == ("near 1.4 instead of 1.5, since that has no wheel",)


@pytest.mark.parametrize("resolver", ["uv", "pip-tools"])
def test_a_name_of_ones_own_comes_from_nowhere_else(bench: Bench, server: FileServer, resolver: str) -> None:
    """A private package is not replaced by a newer one of its name on an index, nor by the same version there."""
    index = _serve(
        server, bench.folder / "index", bench.wheels(("fire", "0.7.1", []), ("fire", "0.1", []), ("top", "1", ["fire"]))
    )
    bench.environ |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index}
    own = make_wheel(bench.folder / "project/wheels", "fire", "0.1", files={"fire.py": "mine = True\n"})
    found = bench.resolve("top", wheels=(Path("wheels"),), resolver=resolver)
    assert {p.name: p.wheel.sha256 for p in found.packages}["fire"] == sha256_file(own)
    with pytest.raises(ResolveError) as caught:
        bench.resolve("top", "fire>0.5", wheels=(Path("wheels"),), resolver=resolver)
    assert "fire" in caught.value.message


@pytest.mark.parametrize("strategy", ["unsafe-best-match", "unsafe-first-match", "first-index"])
def test_no_strategy_replaces_ones_own(bench: Bench, server: FileServer, strategy: str) -> None:
    """However indexes are to be mixed, folders of the spec are not part of the mixture."""
    index = _serve(server, bench.folder / "index", bench.wheels(("fire", "0.7.1", []), ("other", "1", [])))
    bench.environ |= {"UV_DEFAULT_INDEX": index, "UV_INDEX_STRATEGY": strategy}
    make_wheel(bench.folder / "project/wheels", "fire", "0.1")
    with pytest.raises(ResolveError):
        bench.resolve("fire>0.5", "other", wheels=(Path("wheels"),))
    if strategy != "unsafe-best-match":
        assert _versions(bench.resolve("fire", "other", wheels=(Path("wheels"),))) == {"fire": "0.1", "other": "1"}


def _hashed(bench: Bench, text: str) -> dict[str, Any]:
    """A request for a requirements file, as ``lock`` makes it."""
    project = bench.folder / "project"
    (project / "requirements.txt").write_text(text)
    lines, _ = flattened(project, ["requirements.txt"])
    return {"read": lines, "digests": required_digests(project, ["requirements.txt"])}


@pytest.mark.parametrize("resolver", ["uv", "pip-tools"])
def test_what_pip_compile_hashes_is_taken(bench: Bench, server: FileServer, resolver: str) -> None:
    """The output of pip-compile --generate-hashes, dependencies included, is locked as it is."""
    wheels = bench.wheels(("top", "1.0", ["low>=1"]), ("low", "1.5", []))
    index = _serve(server, bench.folder / "index", wheels)
    bench.environ |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index}
    source, output = bench.folder / "requirements.in", bench.folder / "hashed.txt"
    source.write_text("top\n")
    command = [sys.executable, "-m", "piptools", "compile", "--generate-hashes", "--no-config", "--quiet"]
    command.append("--no-emit-index-url")
    subprocess.run([*command, f"--output-file={output}", source], env=bench.environ, check=True)
    assert output.read_text().count("--hash=sha256:") == 2
    found = bench.resolve(**_hashed(bench, output.read_text()), resolver=resolver)
    assert _versions(found) == {"low": "1.5", "top": "1.0"}
    found = bench.resolve(**_hashed(bench, "--require-hashes\n" + output.read_text()), resolver=resolver)
    assert _versions(found) == {"low": "1.5", "top": "1.0"}


@pytest.mark.parametrize("with_digests", [True, False])
def test_a_file_with_another_digest_is_refused(bench: Bench, server: FileServer, with_digests: bool) -> None:
    """Also where the index gives no digests, and also if an earlier lock has that very file."""
    (wheel,) = wheels = bench.wheels(("top", "1.0", []))
    make_index(bench.folder / "index", wheels, {} if with_digests else {wheel.name: ""})
    server.add_tree(bench.folder / "index")
    bench.environ["UV_DEFAULT_INDEX"] = f"{server.url}/simple"
    good, bad = sha256_file(wheel), "0" * 64
    old = bench.resolve(**_hashed(bench, f"top==1 --hash=sha256:{bad} --hash=sha256:{good}")).packages
    with pytest.raises(IntegrityError) as caught:
        bench.resolve(**_hashed(bench, f"top==1.0 --hash=sha256:{bad}"), existing=old)
    assert caught.value.message == (
        f"top-1.0-py3-none-any.whl: no --hash of the requirements files is that of this file, sha256 {good}"
    )


def test_of_several_files_the_admitted_one_is_taken(bench: Bench, server: FileServer) -> None:
    """A better wheel that no --hash names is passed over, as by pip."""
    machine = f"manylinux_2_17_{platform.machine()}"
    wheels = bench.wheels(("top", "1.0", []))
    wheels += bench.wheels(("top", "1.0", []), tag=f"py3-none-{machine}")
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    found = bench.resolve(**_hashed(bench, f"top==1 --hash=sha256:{sha256_file(wheels[0])}"))
    assert [package.wheel.name for package in found.packages] == [wheels[0].name]


def test_with_one_digest_all_packages_need_one(bench: Bench, server: FileServer) -> None:
    """A dependency or an item of the list without --hash is named, as pip refuses it."""
    wheels = bench.wheels(("top", "1.0", ["low"]), ("low", "1.5", []), ("other", "1", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    with pytest.raises(ResolveError) as caught:
        bench.resolve("other", **_hashed(bench, f"top==1.0 --hash=sha256:{sha256_file(wheels[0])}"))
    assert caught.value.message == (
        "the requirements files have --hash or --require-hashes, so every package needs one; 2 have none: low, other"
    )


def test_a_requirement_becomes_wheels_with_digest_size_and_place(bench: Bench, server: FileServer) -> None:
    """Dependencies are followed, each wheel is named by digest and size, and asked for once only."""
    wheels = bench.wheels(("top", "2.0", ["low_Pkg>=1"]), ("top", "1.0", []), ("low-pkg", "1.5", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    found = bench.resolve("top", target=OTHER)
    assert [(p.name, p.version, p.wheel.name) for p in found.packages] == [
        ("low-pkg", "1.5", "low_pkg-1.5-py3-none-any.whl"),
        ("top", "2.0", "top-2.0-py3-none-any.whl"),
    ]
    for package in found.packages:
        path = bench.folder / "made" / package.wheel.name
        assert (package.wheel.sha256, package.wheel.size) == (sha256_file(path), path.stat().st_size)
        assert found.locations[package.wheel.sha256] == (f"{server.url}/files/{package.wheel.name}",)
    assert found.notes == ()
    asked = len(server.requests)
    again = bench.resolve("top", target=OTHER)
    assert again == found
    assert [request for request in server.requests[:asked] if request.headers.get("User-Agent") == "envbuild"]
    later = [request for request in server.requests[asked:] if request.headers.get("User-Agent") == "envbuild"]
    assert not [request for request in later if request.target.startswith("/files/")]


def test_a_lock_again_moves_nothing_by_itself(bench: Bench, server: FileServer) -> None:
    """Newer versions on the index move a package only if it is named, with what that forces, or if all are."""
    wheels = bench.wheels(("a", "1.0", ["b>=1"]), ("b", "1.0", []), ("c", "1.0", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    first = bench.resolve("a", "c")
    assert _versions(first) == {"a": "1.0", "b": "1.0", "c": "1.0"}
    wheels += bench.wheels(("a", "2.0", ["b>=2"]), ("b", "2.0", []), ("b", "3.0", []), ("c", "2.0", []))
    _serve(server, bench.folder / "index", wheels)
    bench.environ["UV_CACHE_DIR"] += "2"  # the index has changed within uv's ten minutes
    assert bench.resolve("a", "c", existing=first.packages).packages == first.packages
    moved = bench.resolve("a", "c", existing=first.packages, upgrade_packages=("A",))
    assert _versions(moved) == {"a": "2.0", "b": "3.0", "c": "1.0"}
    assert _versions(bench.resolve("a", "c", existing=first.packages, upgrade=True)) == {
        "a": "2.0",
        "b": "3.0",
        "c": "2.0",
    }
    assert _versions(bench.resolve("a", "c<1.5", "b<3", existing=first.packages, upgrade=True))["b"] == "2.0"
    with pytest.raises(ResolveError, match=r'^--upgrade-package: no package "d" is locked'):
        bench.resolve("a", "c", existing=first.packages, upgrade_packages=("d",))


def test_a_private_index_of_pip_with_a_password(bench: Bench, server: FileServer) -> None:
    """Who configured only pip gets the private index, also for sizes, and no password comes out."""
    wheels = bench.wheels(("secret-pkg", "1.0", []))
    url = _serve(server, bench.folder / "index", wheels, auth="me:p@ss")
    bench.environ["PIP_INDEX_URL"] = url.replace("://", "://me:p%40ss@")
    found = bench.resolve("secret-pkg")
    (place,) = found.locations[found.packages[0].wheel.sha256]
    assert place == f"{server.url}/files/secret_pkg-1.0-py3-none-any.whl"
    bench.environ["PIP_INDEX_URL"] = url
    bench.environ["UV_CACHE_DIR"] += "2"
    with pytest.raises((IntegrityError, ResolveError)) as caught:
        bench.resolve("secret-pkg")
    assert "p@ss" not in caught.value.message


def test_certificates_of_pip_hold(bench: Bench) -> None:
    """An index behind an own certificate authority is read with pip's cert option alone."""
    authority, certificate = _certificates(bench.folder)
    with FileServer(certificate=certificate) as server:
        url = _serve(server, bench.folder / "index", bench.wheels(("tls-pkg", "1.0", [])))
        bench.environ["PIP_INDEX_URL"] = url
        with pytest.raises(IntegrityError, match=r"^a package index cannot be read: .*certificate"):
            bench.resolve("tls-pkg")
        bench.environ["PIP_CERT"] = str(authority)
        assert _versions(bench.resolve("tls-pkg")) == {"tls-pkg": "1.0"}


@pytest.mark.parametrize("file", ["uv.toml", "pyproject.toml"])
def test_a_project_does_not_choose_where_packages_come_from(bench: Bench, server: FileServer, file: str) -> None:
    """A stranger's settings of uv change neither index nor versions; the note says where the user's would be."""
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", bench.wheels(("a", "1.0", [])))
    other = _serve(server, bench.folder / "other", bench.wheels(("a", "2.0", [])), "/other")
    text = f'constraint-dependencies = ["a>1"]\n[[index]]\nurl = "{other}"\ndefault = true\n'
    head = '[project]\nname = "x"\nversion = "1"\n[tool.uv]\n' if file == "pyproject.toml" else ""
    written = head + text.replace("[[index]]", "[[tool.uv.index]]" if head else "[[index]]")
    (bench.folder / "project" / file).write_text(written)
    del bench.environ["UV_DEFAULT_INDEX"]
    bench.environ["PIP_INDEX_URL"] = f"{server.url}/simple"
    resolved = bench.resolve("a")
    assert _versions(resolved) == {"a": "1.0"}
    (note,) = resolved.notes
    assert file in note
    assert "UV_CONFIG_FILE" in note
    assert not [request for request in server.requests if "other" in request.target]


@pytest.mark.parametrize("resolver", ["uv", "pip-tools"])
@pytest.mark.parametrize("kind", ["folder", "archive", "wheel"])
def test_a_wheel_that_needs_an_address_is_refused(bench: Bench, server: FileServer, resolver: str, kind: str) -> None:
    """Metadata of any package could name sources, whose build backend would run on this host."""
    other, ran = bench.folder / "other-1", bench.folder / "ran"
    other.mkdir()
    (other / "own.py").write_text(f"open({str(ran)!r}, 'w').write('')\n")
    (other / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        '[project]\nname = "other"\nversion = "1"\ndynamic = ["dependencies"]\n'
    )
    archive = bench.folder / "other-1.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(other, "other-1")
    (wheel,) = bench.wheels(("other", "1", []))
    place = {"folder": other, "archive": archive, "wheel": wheel}[kind]
    wheels = bench.wheels(("a", "1.0", [f"other @ file://{place}"]))
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "index", wheels)
    with pytest.raises(ResolveError, match="other"):
        bench.resolve("a", resolver=resolver)
    assert not ran.exists()


def test_pip_tools_runs_no_module_of_the_project(bench: Bench, server: FileServer) -> None:
    """Files in a project that are called like modules of pip-tools, and its virtual environment, are not run."""
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "index", bench.wheels(("a", "1.0", [])))
    project, ran = bench.folder / "project", bench.folder / "ran"
    code = f"open({str(ran)!r}, 'a').write(__file__ + chr(10))\n"
    for name in ("pip", "piptools", "click", "build", "json", "tomllib", "sitecustomize"):
        (project / f"{name}.py").write_text(code)
    assert _versions(bench.resolve("a", resolver="pip-tools")) == {"a": "1.0"}
    python = project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho interpreter >> {ran}\n")
    python.chmod(0o755)
    (project / ".venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    before = Path.cwd()
    os.chdir(project)
    try:
        pip_tools.interpreter(replace(TARGET, python="3.99"), bench.environ)
    except ResolveError:
        assert not ran.exists(), ran.read_text()
    finally:
        os.chdir(before)


def test_a_strangers_upload_does_not_replace_a_private_package(bench: Bench, server: FileServer) -> None:
    """Of pip's indexes the extra ones come first; the main one is asked only for what they do not have."""
    private = bench.wheels(("acme", "1.0", []), ("shared", "1.0", []))
    public = bench.wheels(("acme", "99.0", []), ("shared", "2.0", []), ("other", "1.0", []))
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "public", public, "/public")
    bench.environ["PIP_EXTRA_INDEX_URL"] = _serve(server, bench.folder / "private", private, "/private")
    assert _versions(bench.resolve("acme", "other", "shared>=2")) == {"acme": "1.0", "other": "1.0", "shared": "2.0"}
    bench.environ["UV_INDEX_STRATEGY"] = "first-index"
    with pytest.raises(ResolveError) as caught:
        bench.resolve("acme", "other", "shared>=2")
    assert (
        caught.value.hint
        == "if all your indexes are equally trusted: UV_INDEX_STRATEGY=unsafe-best-match envbuild lock"
    )


def test_local_wheels_are_paths_and_missing_folders_no_harm(bench: Bench, server: FileServer) -> None:
    """A wheel in a folder of the spec or of pip is taken with its path; folders that are gone are reported."""
    public = bench.wheels(("pkg", "1.0", []), ("dep", "1.0", []))
    own = make_wheel(bench.folder / "project/wheels", "pkg", "1.0+cpu", requires=["dep"])
    simple = make_index(bench.folder / "files-only", public)
    bench.environ["PIP_INDEX_URL"] = simple.as_uri()
    bench.environ["PIP_FIND_LINKS"] = "/no/such/folder"
    bench.environ["PIP_EXTRA_INDEX_URL"] = "file:///no/such/index"
    found = bench.resolve("pkg", wheels=(Path("wheels"),))
    assert _versions(found) == {"dep": "1.0", "pkg": "1.0+cpu"}
    assert found.locations[sha256_file(own)] == (str(own),)
    assert found.locations[sha256_file(public[1])] == (str(simple.parent / "files" / public[1].name),)
    assert found.notes == (
        "find-links /no/such/folder: does not exist, left out",
        "extra-index-url file:///no/such/index: does not exist, left out",
    )
    urls = wheel_urls(
        found.packages, TARGET, wheels=[Path("wheels")], folder=bench.folder / "project", environ=bench.environ
    )
    assert urls == dict(found.locations)


def test_an_index_without_digests_has_its_files_hashed(bench: Bench, server: FileServer) -> None:
    """The digest in a lock is that of the bytes if the index gives none."""
    (wheel,) = bench.wheels(("bare", "1.0", []))
    make_index(bench.folder / "index", [wheel], {wheel.name: ""})
    server.add_tree(bench.folder / "index")
    bench.environ["UV_DEFAULT_INDEX"] = f"{server.url}/simple"
    (package,) = bench.resolve("bare").packages
    assert (package.wheel.sha256, package.wheel.size) == (sha256_file(wheel), wheel.stat().st_size)


def test_what_cannot_be_met_is_explained(bench: Bench, server: FileServer) -> None:
    """Conflicts, unknown names and packages without a wheel for the target are distinguished."""
    wheels = bench.wheels(("a", "1.0", ["b<1"]), ("b", "1.0", []))
    wheels += bench.wheels(("winonly", "1.0", []), tag="py3-none-win_amd64")
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    with pytest.raises(
        ResolveError, match=r"(?s)^the Python requirements cannot be met:\n  Because .*b<1.*unsatisfiable\.$"
    ):
        bench.resolve("a")
    with pytest.raises(
        ResolveError, match=r'^"tensorfow" exists nowhere on the configured indexes — perhaps tensorflow:\n  '
    ):
        bench.resolve("tensorfow")
    with pytest.raises(
        ResolveError, match=rf"^no wheel for Python {FEATURE} on {TARGET.platform}: winonly:\n  "
    ) as caught:
        bench.resolve("winonly")
    assert "pip wheel --no-deps -w wheels winonly" in caught.value.hint


def test_requirements_files_and_markers(bench: Bench, server: FileServer) -> None:
    """The lines of files and of what they include are resolved; markers are judged for the target, not for the host."""
    wheels = bench.wheels(("a", "1.0", []), ("b", "1.0", []), ("arm", "1.0", []), ("nobody", "1.0", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", wheels)
    project = bench.folder / "project"
    (project / "more.txt").write_text("b\narm; platform_machine == 'aarch64'\nnobody; sys_platform == 'win32'\n")
    (project / "requirements.txt").write_text("a  # first\n-r more.txt\n")
    lines, _ = flattened(project, ["requirements.txt"])
    assert _versions(bench.resolve(*lines, target=OTHER)) == {
        "a": "1.0",
        "b": "1.0",
        "arm": "1.0",
    }
    assert bench.resolve() == ResolvedPython()


def test_a_locked_wheel_that_is_gone_or_other_is_named(bench: Bench, server: FileServer) -> None:
    """Finding a lock's wheels again fails with the file's name if the index lost it or changed its bytes."""
    (wheel,) = bench.wheels(("pkg", "1.0", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index", [wheel])
    packages = bench.resolve("pkg").packages
    other = make_wheel(bench.folder / "made", "pkg", "1.0", {"new.py": "x"})
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index2", [other], "/2")
    with pytest.raises(IntegrityError) as caught:
        wheel_urls(packages, TARGET, folder=bench.folder, environ=bench.environ)
    assert caught.value.message == f"no configured index has {wheel.name} with sha256 {packages[0].wheel.sha256}"
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "index3", bench.wheels(("pkg", "2.0", [])), "/3")
    with pytest.raises(IntegrityError, match=r"(?s)^the configured indexes do not have the locked wheels: .*pkg==1\.0"):
        wheel_urls(packages, TARGET, folder=bench.folder, environ=bench.environ)


def test_a_dead_index_is_no_unmet_requirement(bench: Bench) -> None:
    """An index that cannot be reached is a download failure."""
    bench.environ |= {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    with pytest.raises(IntegrityError, match=r"^a package index cannot be read: "):
        bench.resolve("anything")


def test_pip_tools_gives_the_same_lock(bench: Bench, server: FileServer) -> None:
    """Either resolver gives the same packages, digests and sizes, and each confirms the other."""
    wheels = bench.wheels(("top", "2.0", ["low-pkg>=1"]), ("low-pkg", "1.5", []))
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "index", wheels)
    by_pip = bench.resolve("top", resolver="pip-tools", cross_check=True)
    assert by_pip == bench.resolve("top", cross_check=True)
    assert _versions(by_pip) == {"top": "2.0", "low-pkg": "1.5"}
    with pytest.raises(
        ResolveError, match=r"^the Python requirements cannot be met, pip-tools reports: .*top==3"
    ) as caught:
        bench.resolve("top==3", resolver="pip-tools")
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize("listed", [True, False])
def test_a_file_that_pip_tools_did_not_see_is_refused(
    bench: Bench, server: FileServer, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    """Another file of the same name is refused, also where uv lists no digest and it is known only from its bytes."""
    (wheel,) = bench.wheels(("pkg", "1.0", []))
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "pip-index", [wheel], "/pip")
    make_wheel(bench.folder / "made", "pkg", "1.0", files={"pkg/__init__.py": "import stranger\n"})
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "uv-index", [wheel], "/uv")

    def ask(*arguments: Any) -> uv.Answer:
        answer = ask_uv(*arguments)
        offered = {name: [replace(c, sha256="") for c in found] for name, found in answer.offered.items()}
        return replace(answer, offered=offered)

    ask_uv = uv.ask
    if not listed:
        monkeypatch.setattr(uv, "ask", ask)
    with pytest.raises(ResolveError) as caught:
        bench.resolve("pkg", resolver="pip-tools")
    assert caught.value.message == "uv and pip-tools were given different files for: pkg"


def test_resolvers_that_disagree_are_refused(bench: Bench, server: FileServer) -> None:
    """A pin that the other resolver cannot keep is listed with both versions."""
    new, old = bench.wheels(("pkg", "2.0", []), ("pkg", "1.0", []))
    bench.environ["UV_DEFAULT_INDEX"] = _serve(server, bench.folder / "uv-index", [new], "/uv")
    bench.environ["PIP_INDEX_URL"] = _serve(server, bench.folder / "pip-index", [old], "/pip")
    with pytest.raises(ResolveError) as caught:
        bench.resolve("pkg", cross_check=True)
    assert caught.value.message == "uv and pip-tools disagree on 1 of 1 packages: pkg: uv 2.0, pip-tools 1.0"


def test_pip_tools_needs_the_targets_machine_and_interpreter(bench: Bench) -> None:
    """pip resolves only for where it runs: another machine, or an interpreter that is not here, is refused."""
    machine = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    elsewhere = Target(python=FEATURE, platform=f"manylinux_2_36_{machine}")
    with pytest.raises(ResolveError, match=r"^pip-tools can only resolve for the machine it runs on: this is "):
        bench.resolve("pkg", target=elsewhere, resolver="pip-tools")
    unheard = Target(python="3.99", platform=TARGET.platform)
    with pytest.raises(
        ResolveError, match=r"^pip-tools resolves only for the interpreter it runs in, and there is no python3.99"
    ):
        bench.resolve("pkg", target=unheard, resolver="pip-tools")


def _overlap(packages: Sequence[PythonPackage], report: dict[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    ours = {package.name: package.wheel.sha256 for package in packages}
    installed: list[dict[str, dict[str, dict[str, dict[str, str]]]]] = report["install"]  # type: ignore[assignment]
    theirs = {}
    for item in installed:
        name = str(item["metadata"]["name"]).lower().replace("_", "-")
        theirs[name] = item["download_info"]["archive_info"]["hashes"]["sha256"]
    return ours, theirs


@pytest.mark.network
def test_tensorflow_for_debian_12_on_the_configured_indexes(tmp_path: Path) -> None:
    """The example resolves for Python 3.11 on Debian 12 whatever this host is, in little more than uv's own time."""
    target = Target(python="3.11", platform="manylinux_2_36_x86_64")
    lines = ("tensorflow-cpu==2.21.*", "scikit-learn")
    request = PythonRequest(target=target, requirements=lines, folder=tmp_path)
    found = resolve_python(request, cache_dir=tmp_path / "cache")
    versions = _versions(found)
    assert versions["tensorflow-cpu"].startswith("2.21.")
    assert {"numpy", "keras", "scikit-learn", "scipy"} <= set(versions)
    assert list(versions) == sorted(versions)
    assert sum(package.wheel.size for package in found.packages) > 250 << 20
    assert set(found.locations) == {package.wheel.sha256 for package in found.packages}
    times: dict[str, list[float]] = {"uv": [], "ours": []}
    question = uv.Question(lines=lines, folder=tmp_path)
    for _ in range(40):  # what else the machine does can only add to a time: the least ones count
        start = time.perf_counter()
        uv.ask(question, target, configured(os.environ, tmp_path), os.environ)
        times["uv"].append(time.perf_counter() - start)
        start = time.perf_counter()
        assert resolve_python(request, cache_dir=tmp_path / "cache") == found
        times["ours"].append(time.perf_counter() - start)
        quick = min(times["ours"]) <= 1.3 * min(times["uv"]) + 0.1
        if quick and len(times["uv"]) >= 5:
            break
    assert quick, times


@pytest.mark.network
def test_wheels_are_those_that_pip_takes(tmp_path: Path) -> None:
    """Where a release has several fitting wheels, the choice is pip's for the same target."""
    target = Target(python="3.12", platform="manylinux_2_36_x86_64")
    lines = ("charset-normalizer", "protobuf", "markupsafe")
    packages = resolve_python(
        PythonRequest(target=target, requirements=lines, folder=tmp_path), cache_dir=tmp_path / "cache"
    ).packages
    platforms = dict.fromkeys(tag.platform for tag in ranks(target) if tag.platform != "any")
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--target", str(tmp_path / "t"), "--python-version=3.12", "--implementation=cp", "--abi=cp312"]
    command += [
        "--abi=abi3",
        "--abi=none",
        *(f"--platform={name}" for name in platforms),
        "--report",
        str(tmp_path / "r"),
    ]
    command += [f"{package.name}=={package.version}" for package in packages]
    subprocess.run(command, check=True, capture_output=True)
    ours, theirs = _overlap(packages, json.loads((tmp_path / "r").read_text()))
    assert ours == theirs


@pytest.mark.network
def test_impossible_on_the_configured_indexes(tmp_path: Path) -> None:
    """The real index's answer to an impossible wish names both sides of the conflict."""
    lines = ("tensorflow-cpu==2.21.*", "numpy<1.20")
    request = PythonRequest(
        target=Target(python="3.11", platform="manylinux_2_36_x86_64"), requirements=lines, folder=tmp_path
    )
    with pytest.raises(ResolveError) as caught:
        resolve_python(request, cache_dir=tmp_path / "cache")
    assert "tensorflow-cpu" in caught.value.message
    assert "numpy<1.20" in caught.value.message


def _serve_dated(server: FileServer, wheels: Mapping[Path, str]) -> str:
    """Serve an index that states times of upload, by wheel; an empty one is left out. PEP 691, PEP 700."""
    for wheel in wheels:
        server.add(f"/files/{wheel.name}", wheel.read_bytes())
    for project in {wheel.name.split("-")[0] for wheel in wheels}:
        files = [
            {
                "filename": wheel.name,
                "url": f"{server.url}/files/{wheel.name}",
                "hashes": {"sha256": sha256_file(wheel)},
                "size": wheel.stat().st_size,
                **({"upload-time": time} if time else {}),
            }
            for wheel, time in wheels.items()
            if wheel.name.startswith(f"{project}-")
        ]
        page = {"meta": {"api-version": "1.1"}, "name": project, "versions": [], "files": files}
        server.add(
            f"/simple/{project}/index.html",
            json.dumps(page).encode(),
            headers={"Content-Type": "application/vnd.pypi.simple.v1+json"},
        )
    return f"{server.url}/simple"


def test_only_what_was_there_at_a_time_is_chosen(bench: Bench, server: FileServer) -> None:
    """Later uploads do not exist, nor is a newer release said to be passed over; undated files are summed up."""
    one, two, three, undated = bench.wheels(
        ("top", "1.0", []), ("top", "2.0", []), ("top", "3.0", []), ("top", "2.5", [])
    )
    make_wheel(bench.folder / "project/wheels", "own", "1")
    times = {
        one: "2026-01-01T00:00:00Z",
        two: "2026-02-01T00:00:00.123456Z",
        three: "2026-03-01T00:00:00Z",
        undated: "",
    }
    bench.environ["UV_DEFAULT_INDEX"] = _serve_dated(server, times)
    request = {"wheels": (Path("wheels"),), "exclude_newer": "20260301T000000Z"}
    found = bench.resolve("top", "own", **request)
    assert _versions(found) == {"own": "1", "top": "2.0"}
    (note,) = found.notes
    assert note.startswith("left out 1 file")
    assert "top-2.5-py3-none-any.whl" in note
    assert _versions(bench.resolve("top", exclude_newer="20260301T000001Z"))["top"] == "3.0"
    bench.environ["UV_EXCLUDE_NEWER"] = "2026-01-15T00:00:00Z"
    found = bench.resolve("top")
    assert _versions(found) == {"top": "1.0"}
    assert any("UV_EXCLUDE_NEWER" in note for note in found.notes)
    assert _versions(bench.resolve("top", exclude_newer="20260301T000000Z"))["top"] == "2.0"
    with pytest.raises(ResolveError, match="pip-tools"):
        bench.resolve("top", exclude_newer="20260301T000000Z", resolver="pip-tools")


@pytest.mark.network
def test_an_archive_is_found_behind_an_index_that_is_asked_first(tmp_path: Path) -> None:
    """The default index is asked for sources, though an earlier one has ``pip``, on a machine that never locked."""
    make_index(tmp_path / "index", [make_wheel(tmp_path / "wheels", "pip", "1.0")])
    environ = {**os.environ, "PIP_EXTRA_INDEX_URL": (tmp_path / "index" / "simple").as_uri()}
    sha256 = "f224469b4168294902bb1efa80a8bf7855f24c99aef99cbefc1bcd3cce77881b"
    archives = {"antlr4-python3-runtime": ("antlr4-python3-runtime-4.9.3.tar.gz", sha256)}
    found = source_urls(archives, TARGET, tmp_path / "cache", environ=environ)
    assert [place.rsplit("/", 1)[-1] for place in found[sha256]] == ["antlr4-python3-runtime-4.9.3.tar.gz"]
