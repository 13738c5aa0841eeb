"""The tutorials and README, followed as written: what they tell a reader to type works and prints what they show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import forget_images
from tests.support.walkthrough import Reader, blocks, clone

pytestmark = [pytest.mark.engine, pytest.mark.network]

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
STORE = Path(os.environ.get("ENVBUILD_STORE") or Path("~/.cache/envbuild").expanduser())
"""The machine's own: these are the images of ``make demo``, and a reader's first download is not what is tested."""


@pytest.fixture(scope="module", name="reader")
def _reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody with a new home and a fresh clone, who has followed the first tutorial."""
    root = tmp_path_factory.mktemp("reader")
    home = root / "home"
    home.mkdir()
    for name in (".config/pip", ".config/uv", ".docker"):  # how this machine reaches indexes and registries
        source = Path("~").expanduser() / name
        if source.is_dir():
            shutil.copytree(source, home / name)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ENVBUILD_", "PYTEST_"))}
    environ |= {"HOME": str(home), "ENVBUILD_STORE": str(STORE), "XDG_CACHE_HOME": str(root / "cache")}
    environ["UV_CACHE_DIR"] = os.environ.get("UV_CACHE_DIR") or str(Path("~/.cache/uv").expanduser())
    reader = Reader(folder=clone(ROOT, root / "envbuild"), environ=environ)
    reader.follow(TUTORIALS / "first-run.md")
    yield reader


def test_the_first_run(reader: Reader) -> None:
    """Installed, locked, built, run twice with equal bits, compared and proved: all that the page shows."""
    assert reader.followed >= 15
