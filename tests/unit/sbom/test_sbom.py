"""Bills of materials: every locked file once, the same bytes each time, nothing guessed."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envbuild import __version__, cli
from envbuild.errors import IntegrityError
from envbuild.image.plan.model import plan
from envbuild.image.record import image_tag
from envbuild.lockfile.model import FurtherArchive, Lock, Os, dumps
from envbuild.operations.sbom import read_evidence, sbom_document, sbom_documents
from envbuild.sbom import cyclonedx, graph, spdx
from envbuild.sbom.bill import bill
from envbuild.sbom.licences import debian_licence, wheel_licence
from envbuild.sbom.values import Bill, Evidence, Image, Layer
from envbuild.store.objects import Store
from tests.support.debs import Member, make_deb
from tests.support.image_records import image_record
from tests.support.locks import small_lock, standalone_lock
from tests.support.pythons import tiny_archive
from tests.support.wheels import wheel_bytes

GOLDEN = Path(__file__).parents[2] / "golden"
RENDER = {"cyclonedx": cyclonedx.render, "spdx": spdx.render}
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2020 A
License: GPL-2+ or Artistic, and Expat

Files: debian/*
Copyright: 2020 B
License: GPL-3+

License: Artistic
 Its own
 .
 words.
"""


def _wheel(name: str, **fields: Any) -> bytes:
    """Return a wheel whose bytes no compressor takes part in."""
    return wheel_bytes(name, compression=ZIP_STORED, **fields)


@pytest.fixture(name="case")
def _case(tmp_path: Path) -> tuple[Lock, Store]:
    """A lock over two packages and three wheels, all of them in a store."""
    files = {"/usr/share/doc/liba/copyright": COPYRIGHT}
    fields = {"Source": "a (2:1.0-1)", "Provides": "virtual (= 1)"}
    liba = make_deb(tmp_path, "liba", "1.0", files, fields=fields, compression="none")
    link = Member(name="./usr/share/doc/bb", kind="symlink", target="liba")
    relations = "missing | virtual, nowhere"
    bb = make_deb(tmp_path, "bb", "1.0", {}, depends=relations, members=[link], compression="none")
    requires = ["part[more]>=1", "absent", 'part2; sys_platform == "win32"']
    part = {"License-Expression": "mit OR apache-2.0"}
    wheels = {
        "tool-1.0-py3-none-any.whl": _wheel("tool", requires=requires),
        "part-1.0-py3-none-any.whl": _wheel("part", requires=['part2; extra == "more"'], metadata=part),
        "part2-1.0-py3-none-any.whl": _wheel("part2", metadata={"License": "BSD"}),
    }
    debs = {path.name: path.read_bytes() for path in (liba, bb)}
    store = Store(tmp_path / "store")
    for data in (*wheels.values(), *debs.values()):
        store.add_bytes(data)
    return small_lock(wheels, debs), store


def _bill(lock: Lock, evidence: dict[str, Evidence]) -> Bill:
    layers = (
        Layer(title="os", digest="0" * 64, system=True),
        Layer(title="env", wheels=tuple(p.wheel.sha256 for p in lock.packages)),
    )
    return bill(lock, Image(tag="envbuild/t:0", layers=layers, config="1" * 64), evidence)


@pytest.mark.parametrize(("kind", "name"), [("cyclonedx", "bill.cdx.json"), ("spdx", "bill.spdx.json")])
def test_the_bytes_are_a_promise(case: tuple[Lock, Store], kind: str, name: str) -> None:
    """The same lock and files give the bytes of the golden file, whatever the clock, the store's place and the day."""
    lock, store = case
    made = replace(_bill(lock, read_evidence(lock, store)), lock="2" * 64, version="2" * 12, layout=1)
    data = RENDER[kind](made).data
    assert data == RENDER[kind](made).data
    shown = json.loads(data)
    for text in ("serialNumber", "documentNamespace"):  # follow from the rest, envbuild's version included
        shown.pop(text, None)
    text = json.dumps(shown, indent=2, ensure_ascii=False).replace(__version__, "VERSION") + "\n"
    assert text == (GOLDEN / name).read_text()


def test_a_document_is_named_by_its_content(case: tuple[Lock, Store]) -> None:
    """Two documents share serial number and namespace exactly if their content is the same."""
    lock, store = case
    with_store, without = _bill(lock, read_evidence(lock, store)), _bill(lock, {})
    for kind, key in (("cyclonedx", "serialNumber"), ("spdx", "documentNamespace")):
        first, again, less = (json.loads(RENDER[kind](one).data)[key] for one in (with_store, with_store, without))
        assert first == again != less
        assert first[-36:][14] == "8", "a UUID of version 8"


_NAMES = st.sets(st.from_regex("[a-z][a-z0-9]{1,8}", fullmatch=True), max_size=6)


@given(_NAMES, _NAMES)
def test_every_locked_file_is_there_once(wheels: set[str], debs: set[str]) -> None:
    """Whatever is locked appears exactly once in both formats, by its digest and by its package URL."""
    lock = small_lock(
        {f"{name}-1.0-py3-none-any.whl": f"w{name}".encode() for name in wheels},
        {f"{name}_1.0~rc1+b1_amd64.deb": f"d{name}".encode() for name in debs},
    )
    expected = Counter([*(p.wheel.sha256 for p in lock.packages), *(p.sha256 for p in lock.os.packages)])
    shown = json.loads(sbom_document(lock, None, "cyclonedx", Store(Path("/nowhere"))).data)
    found = [item for item in shown["components"] if item["type"] == "library"]
    assert Counter(item["hashes"][0]["content"] for item in found) == expected
    assert set(Counter(item["purl"] for item in found).values()) <= {1}
    shown = json.loads(sbom_document(lock, None, "spdx", Store(Path("/nowhere"))).data)
    found = [item for item in shown["packages"] if item["primaryPackagePurpose"] == "LIBRARY"]
    assert Counter(item["checksums"][0]["checksumValue"] for item in found) == expected
    held = Counter(
        line["relatedSpdxElement"] for line in shown["relationships"] if line["relationshipType"] == "CONTAINS"
    )
    assert all(held[item["SPDXID"]] == 1 for item in found), "each is in one layer"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("base", ["", f"registry.example/team/base@sha256:{'e' * 64}"])
def test_each_is_in_the_layer_that_the_plan_puts_it_in(version: int, base: str) -> None:
    """Wherever a layout puts the operating system, its packages and the base image's files are reported to be there."""
    lock = small_lock({"big-1.0-py3-none-any.whl": b"b", "small-1.0-py3-none-any.whl": b"s"}, {"liba_1_all.deb": b"d"})
    big, small = lock.packages
    big = msgspec.structs.replace(big, wheel=msgspec.structs.replace(big.wheel, size=20 << 20))
    system = msgspec.structs.replace(lock.os, image=base, image_rootfs="f" * 64) if base else lock.os
    lock = msgspec.structs.replace(lock, packages=(big, small), os=system, layout=version)
    planned = plan(lock).layers
    kinds = {"liba": "os", "registry.example/team/base": "os", "big": "wheel", "small": "environment"}
    recorded = image_record(lock, config="c" * 64, layers=tuple(f"{index:064x}" for index in range(len(planned))))
    documents = sbom_documents(lock, recorded, Store(Path("/nowhere")))
    shown = json.loads(documents["cyclonedx"].data)
    components = [item for item in shown["components"] if "purl" in item]
    assert len(components) == (4 if base else 3)
    for item in components:
        where = next(index for index, spec in enumerate(planned) if spec.kind == kinds[item["name"]])
        properties = {entry["name"]: entry["value"] for entry in item["properties"]}
        assert properties["envbuild:layer"] == planned[where].title
        assert properties["envbuild:layer:digest"] == f"sha256:{where:064x}"
    shown = json.loads(documents["spdx"].data)
    names = {item["SPDXID"]: item["name"] for item in shown["packages"]}
    held = {
        names[line["relatedSpdxElement"]]: names[line["spdxElementId"]]
        for line in shown["relationships"]
        if line["relationshipType"] == "CONTAINS" and line["spdxElementId"].startswith("SPDXRef-Layer-")
    }
    assert held == {
        item["name"]: next(spec.title for spec in planned if spec.kind == kinds[item["name"]]) for item in components
    }


def test_the_image_and_its_layers_are_named_once_they_are_recorded(case: tuple[Lock, Store]) -> None:
    """Digests come from what is recorded next to the lock; a record of another number of layers is not believed."""
    lock, store = case
    count = len(plan(lock).layers)
    digests = [f"{index:064x}" for index in range(count)]
    for layers, expected in ((digests, f"sha256:{digests[0]}"), (digests[1:], None)):
        recorded = image_record(lock, config="c" * 64, layers=tuple(layers))
        shown = json.loads(sbom_document(lock, recorded, "cyclonedx", store).data)
        item = next(item for item in shown["components"] if item["name"] == "liba")
        assert {p["name"]: p["value"] for p in item["properties"]}.get("envbuild:layer:digest") == expected
        assert shown["metadata"]["component"]["hashes"][0]["content"] == "c" * 64
        assert shown["metadata"]["component"]["bom-ref"] == f"image:{image_tag(lock)}"


def test_dependencies_and_extras(case: tuple[Lock, Store]) -> None:
    """Markers are judged for the image, an extra counts once it is asked for, what is not locked is left out."""
    lock, store = case
    made = _bill(lock, read_evidence(lock, store))
    debs = {item.name: item.ref for item in made.components}
    assert made.needs == {
        debs["bb"]: (debs["liba"],),
        debs["liba"]: (),
        "pkg:pypi/part2@1.0": (),
        "pkg:pypi/part@1.0": ("pkg:pypi/part2@1.0",),
        "pkg:pypi/tool@1.0": ("pkg:pypi/part@1.0",),
    }
    assert made.top == (debs["bb"], "pkg:pypi/tool@1.0")


def test_circles_are_reached() -> None:
    """Packages that need each other are reached from the first of them."""
    assert graph.top("abcd", {"a": ("b",), "b": ("a",), "c": ("a",), "d": ("d",)}) == ("c", "d")


def test_licences_from_the_store(case: tuple[Lock, Store]) -> None:
    """A copyright file counts for its package, also through a linked folder; other names stay names."""
    lock, store = case
    shown = json.loads(RENDER["cyclonedx"](_bill(lock, read_evidence(lock, store))).data)
    found = {item["name"]: item.get("licenses") for item in shown["components"]}
    artistic = next(iter(read_evidence(lock, store)[lock.os.packages[0].sha256].licence.texts))  # type: ignore[union-attr]
    expression = f"(GPL-2.0-or-later OR {artistic}) AND GPL-3.0-or-later AND MIT"
    assert found["liba"] == found["bb"] == [{"expression": expression, "acknowledgement": "declared"}]
    assert found["part"] == [{"expression": "MIT OR Apache-2.0", "acknowledgement": "declared"}]
    assert found["part2"] == [{"license": {"name": "BSD", "acknowledgement": "declared"}}]
    assert found["tool"] is None
    shown = json.loads(RENDER["spdx"](_bill(lock, read_evidence(lock, store))).data)
    texts = {item["licenseId"]: item["extractedText"] for item in shown["hasExtractedLicensingInfos"]}
    assert texts[artistic] == "Its own\n\nwords."
    declared = {item["name"]: item["licenseDeclared"] for item in shown["packages"]}
    assert (declared["liba"], declared["tool"]) == (expression, "NOASSERTION")
    assert declared["part2"] in texts


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("License-Expression: mit and (apache-2.0 or bsd-2-clause)", "MIT AND (Apache-2.0 OR BSD-2-Clause)"),
        ("License: Apache-2.0\nClassifier: License :: OSI Approved :: Apache Software License", "Apache-2.0"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("License: MPL-2.0", "MPL-2.0"),
        ("License: UNKNOWN", None),
        ("License-Expression: \nLicense: ", None),
        ("", None),
    ],
)
def test_wheel_licences(fields: str, expected: str | None) -> None:
    """An expression is checked and spelled as SPDX does; a classifier counts where it is unambiguous."""
    found = wheel_licence(f"Metadata-Version: 2.1\nName: a\nVersion: 1\n{fields}\n".encode())
    assert (found and found.expression) == expected


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ("License: Apache 2.0", "Apache 2.0"),
        ("Classifier: License :: OSI Approved :: BSD License", "BSD License"),
        ("Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: BSD License",
         "BSD License; MIT License"),
    ],
)  # fmt: skip
def test_ambiguous_wheel_licences_stay_names(fields: str, name: str) -> None:
    """What PEP 639 forbids to infer is reported in its own words."""
    found = wheel_licence(f"Metadata-Version: 2.1\nName: a\nVersion: 1\n{fields}\n".encode())
    assert found is not None
    assert [given for given, _ in found.texts.values()] == [name]
    assert list(found.texts) == [found.expression]


@pytest.mark.parametrize("text", ["", "This package was debianized by A.\n", COPYRIGHT.replace("License: GPL-3+", "")])
def test_debian_licences_that_are_not_declared(text: str) -> None:
    """Free text and files without a licence are not guessed at."""
    assert debian_licence(text) is None


def test_package_urls(case: tuple[Lock, Store]) -> None:
    """Name, version, architecture, distribution, and the source where it differs, as scanners match them."""
    lock, store = case
    purls = {item.name: item.purl for item in _bill(lock, read_evidence(lock, store)).components}
    assert purls["liba"] == "pkg:deb/debian/liba@1.0?arch=all&distro=debian-12&upstream=a@2:1.0-1".replace(
        "a@2", "a%402"
    )
    assert purls["bb"] == "pkg:deb/debian/bb@1.0?arch=all&distro=debian-12"
    image = f"registry.example:5000/team/Base:1.2@sha256:{'e' * 64}"
    over = msgspec.structs.replace(
        lock, os=Os(release="debian-12", architecture="amd64", image=image, image_rootfs="f" * 64, image_size=7)
    )
    base = next(item for item in _bill(over, {}).components if item.kind == "base")
    assert base.purl == (f"pkg:oci/base@sha256:{'e' * 64}?repository_url=registry.example:5000%2Fteam%2FBase&tag=1.2")
    shown = json.loads(RENDER["cyclonedx"](_bill(over, {})).data)
    assert shown["compositions"][0]["aggregate"] == "incomplete"


def test_packages_of_further_archives_are_not_the_distribution_s(case: tuple[Lock, Store]) -> None:
    """A vendor's package must not be looked up in Debian's security data."""
    lock, _ = case
    archive = FurtherArchive(name="vendor", suite="/", keys=("A" * 40,), key_sha256="0" * 64)
    first, *others = lock.os.packages
    packages = (msgspec.structs.replace(first, archive="vendor"), *others)
    os = msgspec.structs.replace(lock.os, archives=(archive,), packages=packages)
    found = {item.name: item for item in _bill(msgspec.structs.replace(lock, os=os), {}).components}
    assert found[first.name].purl.startswith(f"pkg:deb/vendor/{first.name}@")
    assert found[first.name].supplier == "vendor"
    assert {found[package.name].supplier for package in others} == {"Debian"}


def test_a_written_bill_is_named(
    case: tuple[Lock, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``sbom -o`` ends with what it wrote, ``--quiet`` with nothing, and without ``-o`` only the bill is there."""
    lock, store = case
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENVBUILD_STORE", str(store.root))
    lock = msgspec.structs.replace(lock, resolution={})
    Path(lock.file_name).write_bytes(dumps(lock))
    assert cli.main(["sbom", "-o", "bill.json"]) == 0
    assert re.fullmatch(r"wrote     bill\.json  2 OS packages, 3 wheels +[0-9.]+ s\n", capsys.readouterr().out)
    assert cli.main(["sbom", "-q", "-o", "bill.json"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["sbom"]) == 0
    assert capsys.readouterr().out == Path("bill.json").read_text()


def test_a_damaged_wheel_is_named(case: tuple[Lock, Store]) -> None:
    """A file in the store that is no wheel any more is refused by name."""
    lock, store = case
    path = store.path(lock.packages[0].wheel.sha256)
    path.chmod(0o644)
    path.write_bytes(b"no zip")
    with pytest.raises(IntegrityError) as caught:
        read_evidence(lock, store)
    assert str(caught.value) == "tool-1.0-py3-none-any.whl: not a readable wheel: File is not a zip file"
    assert caught.value.hint == "bring it in again: envbuild fetch"


def test_metadata_without_end_is_refused(tmp_path: Path) -> None:
    """A wheel's METADATA may unpack to any size: no more than a limit is read."""
    data = wheel_bytes("bomb", metadata={"Description": "a" * (17 << 20)})
    assert len(data) < 1 << 20
    store = Store(tmp_path / "store")
    store.add_bytes(data)
    with pytest.raises(IntegrityError, match=r"its METADATA has more than 16777216 bytes$"):
        read_evidence(small_lock({"bomb-1.0-py3-none-any.whl": data}), store)


@pytest.mark.parametrize("kind", ["cyclonedx", "spdx"])
def test_a_standalone_python_is_listed_with_its_licence(tmp_path: Path, kind: str) -> None:
    """The archive is a component in its own layer; what it does not state is not guessed."""
    archive = tiny_archive(tmp_path / "a.tar.gz")
    lock, store = standalone_lock(small_lock(), archive), Store(tmp_path / "store")
    assert lock.python.build is not None
    before = json.loads(sbom_document(lock, None, kind, store).data)
    store.add_file(archive, lock.python.build.sha256)
    after = json.loads(sbom_document(lock, None, kind, store).data)
    for document, licensed in ((before, False), (after, True)):
        (found,) = (item for item in document["components" if kind == "cyclonedx" else "packages"] if _is_python(item))
        text = json.dumps(found)
        assert ("PSF-2.0" in text) is licensed
        assert lock.python.build.sha256 in text
        assert f"pkg:generic/cpython@3.12.7?checksum=sha256:{lock.python.build.sha256}" in text
        assert kind == "spdx" or "Python 3.12.7" in text  # the layer's title


def _is_python(item: dict[str, Any]) -> bool:
    return bool(item["name"] == "cpython")
