"""What commands show of an image: lines for people and JSON for programs, from the values that use cases return."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envbuild.cli.render import image
from envbuild.cli.render.events import Line, lines
from envbuild.errors import IntegrityError
from envbuild.lockfile import model as locks
from envbuild.operations import events
from envbuild.operations.image import ImageWeight, LayerWeight
from envbuild.operations.inspect import InspectedImage
from envbuild.operations.load_lock import LoadedLock
from envbuild.operations.push import PushedImage
from envbuild.operations.sign import SignedImage, SignedStatement
from envbuild.operations.signatures import SignatureCheck
from envbuild.registry.artifacts import Attachment
from envbuild.registry.image import RemoteImage
from envbuild.registry.reference import parse_reference
from envbuild.registry.repository import OCI_MANIFEST, Manifest
from envbuild.registry.upload import Pushed
from envbuild.signing import cosign
from envbuild.signing.trust import Trust
from tests.support.image_records import image_record
from tests.support.locks import small_lock

LOCK = small_lock({"a-1.0-py3-none-any.whl": b"a"})
LOADED = LoadedLock(path=Path(LOCK.file_name), lock=LOCK)
RECORD = image_record(LOCK)
TAG = parse_reference("registry.example/team/train:1")
PINNED = parse_reference(f"registry.example/team/train@sha256:{RECORD.manifest}")


def shown(found: Any) -> list[tuple[str, ...]]:
    """Return label and columns of lines, without spaces around them and without empty columns."""
    return [(line.label.strip(), *(text.strip() for text in line.columns if text)) for line in found]


def test_each_layer_is_weighed_and_shared_layers_name_three_locks() -> None:
    """Sums are of all layers; the JSON names every lock that shares one, the line three of them."""
    names = ("b", "c", "d", "e")
    layer = LayerWeight(kind="os", title="debian-12", digest="1" * 64, bytes=3_000_000, files=7, shared_with=names)
    top = LayerWeight(kind="runtime", title="guard", digest="2" * 64, bytes=512, files=1, shared_with=())
    weight = ImageWeight(loaded=LOADED, config="c" * 64, manifest="d" * 64, layers=(layer, top))
    assert (weight.bytes, weight.files) == (3_000_512, 8)
    assert shown(image.weight_lines(weight)) == [
        ("3.0 MB", "7", "debian-12", "sha256:111111111111…", "shared with b, c, d and 1 more"),
        ("512 B", "1", "guard", "sha256:222222222222…"),
        ("3.0 MB", f"{LOCK.name}: 8 files in 2 layers, config sha256:cccccccccccc…"),
    ]
    table = image.weight_json(weight)
    assert table["layers"][0]["shared-with"] == list(names)
    assert (table["config"], table["manifest"]) == (f"sha256:{'c' * 64}", f"sha256:{'d' * 64}")


@pytest.mark.parametrize(
    ("upload", "line", "counts"),
    [
        (None, ("push", str(TAG), "nothing to do"), (0, 0, 0, 0)),
        (
            Pushed(uploaded=2, mounted=1, held=3, sent=4_000_000, seconds=2.0),
            ("push", str(TAG), "4.0 MB", "4 of 6 blobs held", "2.0 MB/s"),
            (4_000_000, 2, 1, 3),
        ),
    ],
)
def test_a_push_shows_what_was_moved(upload: Pushed | None, line: tuple[str, ...], counts: tuple[int, ...]) -> None:
    """An image that is there already moves nothing; the reference is shown by digest, and where it was written."""
    pushed = PushedImage(record=RECORD, tag=TAG, reference=PINNED, upload=upload, written=Path("x/a.published.json"))
    found = shown(image.pushed_lines(pushed))
    assert found == [line, ("image", str(PINNED)), ("wrote", "a.published.json")]
    assert len(shown(image.pushed_lines(replace(pushed, written=None)))) == 2
    table = image.pushed_json(pushed)
    assert (table["bytes"], *(table["blobs"][name] for name in ("uploaded", "mounted", "held"))) == counts
    assert table["reference"] == str(PINNED)


def inspected(signature: SignatureCheck | None, *attached: Attachment) -> InspectedImage:
    """An image without layers, in a registry."""
    config = b'{"os":"linux","architecture":"amd64"}'
    return InspectedImage(
        reference=PINNED,
        remote=RemoteImage(Manifest(b"{}", OCI_MANIFEST), config, ()),
        lock=LOCK,
        lock_data=locks.dumps(LOCK),
        attached=attached,
        signature=signature,
    )


def test_what_is_attached_is_shown_as_unchecked() -> None:
    """No message states that an image is signed by somebody before a signature was checked."""
    attached = Attachment(kind="signature", type="cosign", digest="9" * 64, place="referrers")
    found = shown(image.inspected_lines(inspected(None, attached)))
    assert ("signed", "cosign", "sha256:999999999999…", "(not checked)") in found
    assert ("sbom", "no") in found
    assert image.inspected_json(inspected(None))["signed"] is None


def test_a_refused_signature_is_shown_and_not_good() -> None:
    """The result of ``inspect`` carries the refusal; its provenance is not shown."""
    who = Trust(key="cosign.pub")
    refused = SignatureCheck(who=who, refusal=IntegrityError("no"), builders=("https://ci.example",))
    found = shown(image.inspected_lines(inspected(refused)))
    assert ("checked", f"not signed by {who}") in found
    assert not [line for line in found if "https://ci.example" in " ".join(line)]
    assert image.inspected_json(inspected(refused))["signed"]["good"] is False
    good = replace(refused, refusal=None, locks=("", "8" * 64))
    found = shown(image.inspected_lines(inspected(good)))
    assert ("", "provenance by the same signer names this lock", "built by https://ci.example") in found
    assert ("", f"provenance by the same signer names another lock: sha256:{'8' * 64}") in found
    assert ("", "provenance by the same signer names another lock: none") in found


def test_statements_that_were_there_are_not_shown_as_new() -> None:
    """``sign`` names what it attached now; the JSON has the digest of every statement."""
    statements = (
        SignedStatement(kind=cosign.PROVENANCE, sha256="1" * 64, added=True),
        SignedStatement(kind=cosign.SPDX, sha256="2" * 64, added=False),
    )
    signed = SignedImage(reference=PINNED, signer="cosign.key", added=True, statements=statements)
    assert image.attested_line(signed) == Line("attest", ("provenance",), elapsed=True)
    again = replace(signed, statements=statements[1:])
    assert image.attested_line(again).columns == ("nothing to do",)
    assert image.signed_json(signed)["statements"] == {cosign.PROVENANCE: "1" * 64, cosign.SPDX: "2" * 64}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events.ImagePulled(reference="r/i"), [("pull", "r/i", "the engine has it")]),
        (
            events.ImagePulled(reference="r/i", bytes=2_000_000, layers=4, held=3),
            [("pull", "r/i", "2.0 MB", "3 of 4 layers held already")],
        ),
        (
            events.ImageLoaded(engine="docker", bytes=0, seconds=0.25, layers=2, held=0, why="it is remote"),
            [
                ("load", "docker", "0 B", "0.2 s more"),
                ("", "loaded, since the engine cannot pull from this process: it is remote"),
            ],
        ),
        (events.ImageSigned(reference="r/i", signer="key", added=False), [("sign", "r/i", "nothing to do")]),
    ],
)
def test_events_of_an_image_are_lines(event: events.Event, expected: list[tuple[str, ...]]) -> None:
    """Each event is shown as users know it; empty columns are left out."""
    assert shown(lines(event)) == expected


def test_the_name_of_another_lock_is_one_line() -> None:
    """A folder may have any name: what it is called moves no cursor and makes no line."""
    assert image._shared(("a\nb", "c\x1b[2J")) == "shared with a\\nb, c\\x1b[2J"
