"""A maker of Python package indexes as folders, to be served by ``FileServer.add_tree`` or used as ``file:`` addresses.

Source of the format: PEP 503 and its successor, https://packaging.python.org/en/latest/specifications/simple-repository-api/
"""

from __future__ import annotations

import hashlib
import html
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path


def make_index(folder: Path, wheels: Iterable[Path], hashes: Mapping[str, str] | None = None) -> Path:
    """Write ``simple/`` pages and the files they link to below ``folder``; returns the path of ``simple``.

    Args:
        hashes: SHA-256 by file name to announce instead of the true one; empty announces none (some indexes do either).
    """
    pages: dict[str, list[str]] = {}
    (folder / "files").mkdir(parents=True, exist_ok=True)
    for wheel in sorted(wheels):
        shutil.copyfile(wheel, folder / "files" / wheel.name)
        announced = (hashes or {}).get(wheel.name, hashlib.sha256(wheel.read_bytes()).hexdigest())
        fragment = f"#sha256={announced}" if announced else ""
        project = re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        link = f'<a href="../../files/{html.escape(wheel.name)}{fragment}">{html.escape(wheel.name)}</a><br>'
        pages.setdefault(project, []).append(link)
    simple = folder / "simple"
    for project, links in pages.items():
        (simple / project).mkdir(parents=True, exist_ok=True)
        (simple / project / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(links) + "\n")
    projects = [f'<a href="{project}/">{project}</a><br>' for project in sorted(pages)]
    (simple / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(projects) + "\n")
    return simple
