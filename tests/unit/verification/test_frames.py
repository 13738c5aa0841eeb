"""Frames of pandas in pickles: blocks of columns of one type, of which those with measurements are left out."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from envbuild.verification.content import Content, read
from envbuild.verification.masking.masks import Masks

FRAME = zlib.decompress(base64.b64decode(
    "eNplVE1v1DAQTbbZLe0WqKhUOKDS43IgJw4cuNCtqGhEDoUjlTVJvEm0jhM5jtpFqoBDl1byDdP/yY0bjJ2EfuBDPInnzbx5M87X4c/Uc+xSow"
    "p4ArVWa/sg4a2Aguof+vk3faYnyiNFKrTaaX38uBTUz7mkggOr/QI4pFQgdmOPlfH8ffuOcLXdIQjLo/oaotVD0vAqj+eMkshgjPMWb4pq4RMb"
    "Hm0q8lirMZmJsoia2cyGnFxttowdt9sH3a7V0AbAPZGLytBXg/yVvrz4ro/0JFhR7msdhuHhH1z2EThSR4EbDJZauVMt0U3di5qcyZwjx2HN8t"
    "iECRx0ck2UYGCe2Vht3SoMhIAFIp4SUi1Or0sL99+Ykz2I5zQxfO53sB7w4GNe0IQyCdYRXQ6fjX55oc3ySA2Ka/petn2HfDiZDppaG26BK/US"
    "C4jU9k0RiwZLsbmwN0TQuOS1FE0sMVG2qVaRS5c2cM711I10mwslMaJkLy6nu5edvC+7fdjto152zLrUUbaDqJWbKi31MY7Ok9szk9BTWvsR1F"
    "SrdcLpCXlnvhk+jhr2tp25BOfwf8U2Uajy5IMUOU97zbopXSMVkK7acbUA4+hjf1BmrL2WyID09U6yI/XATAmZlYIAy3H0sT8bDERKSW3D63NT"
    "ywp238FKQkSsVQvybxKvdp3by72j0EavkImTfbrq309lWc6zUuSfS27P6LEOpbXUiLSzi2qM2yL3+1le7UrSB19+t4GWLSKGOKOoQBMpj5t7Gz"
    "bmJDvAIOtHwFN6Q9esDHGwJQiJPVceqlJhv4xB0XAtktrAHsHM+D8wfZjZ/wEqXFAJtjHHeD9ASrz1Z4bDjEFqzcfAWHlSk6Sp8PaApIRBRPHK"
    "X9RN5P8FNW6h9A=="
))  # fmt: skip
"""``DataFrame({"x": [1, 2], "took": to_timedelta([137, 52], "us"), "horizon": to_timedelta([5, 6], "us")})``."""


def _content(before: int, after: int) -> Content:
    old, new = (struct.pack("<q", each) for each in (before, after))
    assert old in FRAME
    content = read(FRAME.replace(old, new), Masks(1_795_784_283.0))
    assert content is not None
    return content


def test_spans_under_the_name_of_a_measurement_are_left_out() -> None:
    """They are in one block with those of other columns."""
    contents = [_content(137, each) for each in (137, 99, 10**9)]
    assert len({each.digest for each in contents}) == 1
    assert len({each.left_out["[2][0]._mgr.took"] for each in contents}) == 3


@pytest.mark.parametrize(("before", "after"), [(5, 7), (52, -52), (137, -(2**63))])
def test_other_spans_count(before: int, after: int) -> None:
    """Those under other names, negative ones, and those that are missing."""
    assert _content(before, after).digest != _content(137, 137).digest
