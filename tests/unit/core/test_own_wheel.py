"""The wheel of the running envbuild."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from packaging.utils import parse_wheel_filename

from envbuild import __version__
from envbuild.core.own_wheel import own_wheel
from envbuild.image.python import wheel as installer

ROOT = Path(__file__).parents[3]


def test_it_is_made_of_the_installed_files() -> None:
    """Every module, template and table as it is here; made twice, the bytes are equal."""
    name, data = own_wheel()
    assert str(parse_wheel_filename(name)[1]) == __version__
    assert own_wheel() == (name, data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.read("envbuild/templates/ci/envbuild.sh") == (ROOT / "templates/ci/envbuild.sh").read_bytes()
        names = archive.namelist()
        assert not [name for name in names if "__pycache__" in name]
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / "envbuild").rglob("*.py")}
        assert modules <= set(names)
        assert {"METADATA", "WHEEL", "entry_points.txt", "LICENSE", "RECORD"} == {
            Path(name).name for name in names if ".dist-info/" in name
        }


def test_its_record_holds(tmp_path: Path) -> None:
    """An installer that compares every member with RECORD takes it."""
    name, data = own_wheel()
    (tmp_path / name).write_bytes(data)
    with installer.Wheel(str(tmp_path / name), "3.11") as wheel:
        (module,) = (file for file in wheel.files if file.path.endswith("envbuild/api.py"))
        assert wheel.read(module) == (ROOT / "envbuild/api.py").read_bytes()
