"""Models as skops writes them: what has an address as its name has another one in each run."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from envbuild.verification.content import read
from envbuild.verification.content.skops import numbered
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)


def schema(first: int, second: int, third: int, *, weights: int = 0, alpha: str = "0.05") -> dict[str, Any]:
    """Return what skops 0.16 writes of an estimator with two arrays, a parameter and a list with one of the arrays."""
    array = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy"}
    content = {
        "alpha": {"__class__": "str", "__loader__": "JsonNode", "content": alpha, "is_json": True, "__id__": 9785504},
        "coef_": {**array, "file": f"{first}.npy", "__id__": first},
        "dual_": {**array, "file": f"{second}.npy", "__id__": second},
        "again": [{**array, "file": f"{first}.npy", "__id__": weights or first}],
    }
    return {"__class__": "Lasso", "content": content, "__id__": third, "protocol": 2, "_skops_version": "0.16.0"}


def model(found: dict[str, Any], arrays: tuple[bytes, ...] = (b"\0one", b"\0two")) -> bytes:
    """Return the archive."""
    stream = io.BytesIO()
    names = [found["content"][name]["file"] for name in ("coef_", "dual_")]
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in zip(names, arrays, strict=True):
            archive.writestr(zipfile.ZipInfo(name), data)
        archive.writestr(zipfile.ZipInfo("schema.json"), json.dumps(found, indent=2))
    return stream.getvalue()


ONE = model(schema(140204994005104, 140204972117776, 140205045608720))


def same(other: bytes) -> bool:
    """Whether a file holds what the first one does."""
    contents = [read(data, MASKS) for data in (ONE, other)]
    assert all(each is not None for each in contents)
    return len({each.digest for each in contents if each is not None}) == 1


def test_addresses_do_not_count() -> None:
    """Of objects, nor of arrays, whose members are called by them."""
    assert same(model(schema(139800000000016, 139700000000032, 139900000000048)))


def test_everything_else_counts() -> None:
    """A parameter, numbers, which array is where, and whether two places share an object."""
    addresses = (139800000000016, 139700000000032, 139900000000048)
    assert not same(model(schema(*addresses, alpha="0.06")))
    assert not same(model(schema(*addresses), (b"\0one", b"\0twa")))
    assert not same(model(schema(*addresses), (b"\0two", b"\0one")))
    assert not same(model(schema(*addresses, weights=139800000000064)))
    assert not same(model(schema(139800000000016, 139800000000016 + 64, 139800000000016)))


def test_what_skops_would_not_write_counts_by_its_bytes() -> None:
    """A key that is there twice, other blanks, no version."""
    text = json.dumps(schema(1, 2, 3), indent=2).encode()
    assert numbered(text, ["1.npy"]) is not None
    for other in (text.replace(b'"protocol": 2', b'"protocol": 3,\n  "protocol": 2'), text + b"\n", b"[" * 100_000):
        assert numbered(other + b'"_skops_version"' * (other[:1] == b"["), ["1.npy"]) is None
    assert numbered(text.replace(b"_skops", b"_other"), ["1.npy"]) is None
