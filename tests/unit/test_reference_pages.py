"""Reference pages that are made from the code are made again when the code changes."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from tools import cli_reference, record_reference

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_the_command_line_is_documented_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every command and option, whatever the width of the terminal and its colours."""
    monkeypatch.setenv("COLUMNS", "40")
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    assert page == cli_reference.document(), "run: python -m tools.cli_reference docs/reference/cli.md"
    assert "## envbuild store gc\n" in page


def test_the_record_is_documented_as_it_is() -> None:
    """The page has every field of a record, with what its struct reports of it."""
    page = (REFERENCE / "record-schema.md").read_text(encoding="utf-8")
    assert page == record_reference.document(), "run: python -m tools.record_reference docs/reference/record-schema.md"
    assert "| `duration` | number or null | `null` | seconds. |" in page


def test_the_json_of_every_command_is_documented() -> None:
    """Whoever has ``--json`` has a row with its keys; no row is of a command without."""
    page = (REFERENCE / "json.md").read_text(encoding="utf-8")
    rows = {name.partition(" --")[0] for name in re.findall(r"^\| `([a-z -]+)` \|", page, re.M)}
    sections = re.findall(r"^## envbuild ([a-z ]+)\n(.*?)(?=^## |\Z)", cli_reference.document(), re.M | re.S)
    assert rows == {name for name, text in sections if "| `--json` |" in text}


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody can reach is no documentation."""
    navigation = (REFERENCE.parents[1] / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.relative_to(REFERENCE.parent).as_posix() for path in REFERENCE.parent.rglob("*.md")}
    assert pages == {line.rpartition(" ")[2] for line in navigation.splitlines() if line.endswith(".md")}


def test_links_lead_somewhere() -> None:
    """Each relative link, in the site's pages and in those of the repository, names a file and a heading that exist."""
    root = REFERENCE.parents[1]
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "lockfiles" / "README.md", *root.glob("docs/**/*.md")]
    broken = []
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (anchor and anchor not in _anchors(file)):
                broken.append(f"{page.relative_to(root)}: {target}")
    assert broken == []


def _prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as Markdown's ``toc`` extension makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", _prose(page), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        found.add(re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def test_the_walks_through_the_code_name_files_that_exist() -> None:
    """CONTRIBUTING's walks are paths below ``envbuild/``."""
    root = REFERENCE.parents[1]
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walks = text.partition("### Five walks")[2].partition("<!--")[0]
    named = re.findall(r"`([\w/]+\.py)`", walks)
    assert len(named) > 50
    assert [name for name in named if not (root / "envbuild" / name).is_file()] == []
