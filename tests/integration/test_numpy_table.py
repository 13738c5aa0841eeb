"""The table of releases that were compiled for NumPy 1 is derived from the modules in wheels."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuild.core import package_data
from tests.support.indexes import make_index
from tests.support.server import FileServer
from tests.support.wheels import make_wheel
from tools import numpy_abi

TAG = "cp311-cp311-manylinux_2_28_x86_64"
OF_1 = b"numpy.core._multiarray_umath\0module compiled against ABI version 0x%x"
OF_2 = OF_1 + b"\0numpy._core._multiarray_umath"
NO_C_API = b"numpy.core.multiarray"


def _wheels(
    folder: Path, name: str, modules: dict[str, bytes], file: str = "_ext.cpython-311-x86_64-linux-gnu.so"
) -> list[Path]:
    return [
        make_wheel(folder, name, version, tag=TAG, files={f"{name}/{file}": module})
        for version, module in modules.items()
    ]


def test_the_table_of_numpy_is_derived_from_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first release for NumPy 2, or the first that needs no C API after one that did; --check writes nothing."""
    made = tmp_path / "made"
    wheels = [
        make_wheel(made, "numpy"),
        *_wheels(made, "pandas", {"1.9.0": OF_1, "1.10.0": OF_1, "2.0.0": OF_1, "2.2.0": OF_2, "3.0.0": OF_2}),
        *_wheels(made, "matplotlib", {"3.7.0": OF_1, "3.8.0": OF_1, "3.9.0": NO_C_API}),
        *_wheels(made, "scipy", {"1.13.0": OF_2, "1.14.0": OF_2}),
        *_wheels(made, "lap", {"0.4.0": OF_1, "0.5.0": OF_1}),
        *_wheels(made, "highspy", {"1.5.0": NO_C_API, "1.7.0": NO_C_API}),
        *_wheels(made, "torch", {"2.2.0": OF_1, "2.3.0": OF_2}, "lib/libtorch_python.so"),
        make_wheel(made, "shap", "0.1.0", tag="cp38-cp38-manylinux_2_28_x86_64"),
    ]
    make_index(tmp_path / "index", wheels)
    monkeypatch.setattr(package_data, "data_path", tmp_path.joinpath)
    with FileServer() as server:
        server.add_tree(tmp_path / "index")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PIP_CONFIG_FILE": "/dev/null",
            "UV_DEFAULT_INDEX": f"{server.url}/simple",
            "UV_CACHE_DIR": str(tmp_path / "uv"),
        }
        monkeypatch.setattr(os, "environ", environ)
        names = ["pandas", "matplotlib", "scipy", "lap", "highspy", "torch", "shap"]
        assert numpy_abi.main(["--check", *names]) == 1
        assert not (tmp_path / numpy_abi.FILE).exists()
        assert numpy_abi.main(names) == 0
        assert numpy_abi.main(["--check", *names]) == 0
        written = (tmp_path / numpy_abi.FILE).read_text()
        assert numpy_abi.main(["tables"]) == 12  # a package that the index lacks: nothing is written
    assert written.partition("[first]\n")[2] == 'matplotlib = "3.9.0"\npandas = "2.2.0"\ntorch = "2.3.0"\n'
    assert (tmp_path / numpy_abi.FILE).read_text() == written
    assert "tables: " in capsys.readouterr().err
