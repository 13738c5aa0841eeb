"""Releases that were passed over for want of a wheel: which release is the newest that a spec admits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envbuild.errors import ResolveError
from envbuild.net.config import NetworkConfig
from envbuild.resolve.python import cutoff, newest
from envbuild.resolve.python.newest import File, PassedOver, passed_over, refuse_far
from envbuild.resolve.python.wheels import Candidate, Target

TARGET = Target(python="3.11", platform="manylinux_2_36_x86_64")
ROWS = [
    ("pkg-1.2-py3-none-any.whl", "", False),
    ("pkg-1.3.tar.gz", ">=3.8", False),
    ("pkg-1.4.tar.gz", ">=3.12", False),
    ("pkg-1.5.tar.gz", "", True),
    ("pkg-2.0rc1-py3-none-any.whl", "", False),
    ("pkg-odd.exe", "", False),
    ("pkg-3.0.dev1.zip", "no specifier", False),
]


def _compare(index: str, *lines: str, taken: str = "1.2") -> list[str]:
    """Return the requirements that are tried alone; each is without a wheel."""
    tried: list[str] = []

    def lacking(line: str) -> list[str]:
        tried.append(line)
        return ["pkg==1.3"]

    chosen = [Candidate(package="pkg", version=taken, file=f"pkg-{taken}-py3-none-any.whl", location="")]
    pages = newest.read_pages({"pkg": ["file:///nowhere", index]}, NetworkConfig())
    passed_over(chosen, newest.open_names(lines), TARGET, pages, lacking)
    return tried


def _page() -> str:
    yanked = {True: ' data-yanked=""', False: ""}
    return "".join(
        f'<a href="../{name}#sha256=0" data-requires-python="{python.replace(">", "&gt;")}"{yanked[gone]}>{name}</a>'
        for name, python, gone in ROWS
    )


def test_the_newest_is_final_there_and_for_this_python(tmp_path: Path) -> None:
    """Pre-releases, withdrawn releases and those for other Pythons are no reason to complain."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/index.html").write_text(_page())
    index = tmp_path.as_uri()
    assert _compare(index, "pkg") == ["pkg==1.3"]
    assert _compare(index, "pkg[extra]", "pkg>1") == ["pkg[extra]==1.3"]
    assert _compare(index, "pkg", taken="2.0rc1") == ["pkg==1.3"]
    for asked in ("pkg==1.2", "pkg<1.3", "other"):
        assert _compare(index, asked) == []
    assert _compare(index, "pkg>=2.0rc1", taken="2.0rc1") == []
    assert _compare(index, "pkg", taken="1.3+cpu") == []


def test_both_forms_of_a_page_are_read_alike() -> None:
    """PEP 503 and PEP 691 give equal files."""
    base = "https://example.invalid/simple/pkg/"
    files = [
        {
            "filename": name,
            "requires-python": python or None,
            "yanked": gone,
            "url": f"../{name}",
            "hashes": {"sha256": "0"},
        }
        for name, python, gone in ROWS
    ]
    found = list(newest.read_json(json.dumps({"files": files}).encode(), base))
    assert found == list(newest.read_html(_page().encode(), base))
    assert found[0].address == f"https://example.invalid/simple/{found[0].name}"
    assert len(found) == len(ROWS) - 1


def test_a_page_that_cannot_be_read_stops_nothing(tmp_path: Path) -> None:
    """The comparison is advice: without a page there is none."""
    assert _compare(tmp_path.as_uri(), "pkg") == []


@pytest.mark.parametrize(
    ("taken", "best", "far"),
    [
        ("1.2", "1.9", False),
        ("1.2", "2.0", True),
        ("0.2", "0.3", True),
        ("0.2.1", "0.2.9", False),
        ("2.0rc1", "1.9", True),
    ],
)
def test_what_is_far(taken: str, best: str, far: bool) -> None:
    """What a version number calls incompatible, and any pre-release, is refused; the rest is a note."""
    found = [PassedOver(name="pkg", taken=taken, newest=best, lacking=("dep==4.*",))]
    if far:
        with pytest.raises(ResolveError, match=rf"pkg {taken} instead of {best}, since dep==4\.\* has no wheel"):
            refuse_far(found, TARGET)
    else:
        assert refuse_far(found, TARGET) == (f"pkg {taken} instead of {best}, since dep==4.* has no wheel",)


def test_only_files_of_before_a_moment_are_compared() -> None:
    """Files whose page states no time of upload are left out, as uv does."""
    files = [File(name=name, python="", uploaded=time) for name, time in (("a", "2026-07-10T23:59:59.9Z"), ("b", ""))]
    late = File(name="c", python="", uploaded="2026-07-11T00:00:00Z")
    assert cutoff.before({"x": [[*files, late]]}, "20260711T000000Z") == {"x": [files[:1]]}
    assert cutoff.moment("20260711T010203Z") == "2026-07-11T01:02:03Z"
