"""Derive ``data/numpy-abi.toml`` from the package index: python -m tools.numpy_abi [--check] [NAME…].

For each package, its releases are searched for the first one whose extension modules ask for NumPy's C API by the name
that it has from NumPy 2 on. Of a wheel no more is read than its list of files and the smallest module that uses
the C API. The index is the one that this machine's uv or pip is configured with; no address is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import tomli_w

from envbuild.core import package_data
from envbuild.core.damaged_zip import DAMAGED_ZIP
from envbuild.errors import EnvbuildError
from envbuild.net.http import HttpError
from envbuild.resolve.libraries.numpy_abi import FILE, Table, may_use_numpy, numpy_of
from envbuild.resolve.python.index_pages import File, Index
from tools.tables import refresh

# Packages with extension modules that use NumPy's C API, chosen by hand. Modules made with pybind11 or nanobind check
# no version: whether NumPy accepts them cannot be seen.
PACKAGES = (
    "astropy", "blosc2", "bottleneck", "cftime", "contourpy", "cvxpy", "cython-bbox", "ecos", "faiss-cpu",
    "fastparquet", "fastdtw", "gensim", "h5py", "hdbscan", "healpy", "highspy", "hmmlearn", "implicit", "jaxlib",
    "lap", "lightfm", "matplotlib", "mdtraj", "ml-dtypes", "netcdf4", "numba", "numcodecs", "numexpr",
    "numpy-quaternion", "obspy", "onnx", "opencv-contrib-python", "opencv-contrib-python-headless", "opencv-python",
    "opencv-python-headless", "osqp", "pandas", "photutils", "pmdarima", "pot", "pyarrow", "pycocotools", "pyemd",
    "pyerfa", "pyfftw", "pymatgen", "pyproj", "pysam", "pystan", "pywavelets", "qdldl", "quadprog", "qutip",
    "rasterio", "rdkit", "ruptures", "scikit-bio", "scikit-image", "scikit-learn", "scikit-surprise", "scipy",
    "scs", "shap", "shapely", "spacy", "sparse-dot-topn", "statsmodels", "tables", "thinc", "torch", "tslearn",
    "wordcloud", "xgboost", "yt",
)  # fmt: skip
_HEAD = """\
# First release of each package whose extension modules NumPy 2 accepts: earlier ones were compiled for NumPy 1, and
# their metadata may allow NumPy 2. Derived from the modules in the wheels on the package index; do not edit:
# python -m tools.numpy_abi
"""
_LARGEST = 128 << 20
"""Bytes of a module that is read; of a wheel with a larger one nothing is claimed."""
_UNREAD = -1
_MOST = 40
"""Modules of a wheel that are read in search of one that uses the C API."""
_OF_IMAGES = re.compile(r"-(?:cp31[0-9]-cp31[0-9]|cp3[0-9]+-abi3)-")
"""Of a wheel's name: compiled for CPython from 3.10 on, or for the limited API."""


def first_release(index: Index, name: str) -> str:
    """Return the first release that NumPy 2 accepts; empty if all do, none does, or none uses the C API."""
    releases = _one_wheel_each(index.wheels(name))
    if len(releases) < 2:
        return ""
    oldest, newest = (_numpy_of(index, releases[place]) for place in (0, -1))
    if oldest in {2, _UNREAD} or newest in {1, _UNREAD} or newest == oldest:
        return ""
    low, high = 0, len(releases) - 1  # low is for NumPy 1, or uses the C API of none; high is accepted
    while high - low > 1:
        middle = (low + high) // 2
        found = _numpy_of(index, releases[middle])
        accepted = found == newest or found == 2  # some change to an interface that checks no version: newest is 0
        low, high = (low, middle) if accepted else (middle, high)
    return releases[high].version


def _one_wheel_each(files: Sequence[File]) -> list[File]:
    """Return one wheel of each release that has compiled ones for an image's Python, in the order of versions."""
    from packaging.version import Version

    wanted = (file for file in files if _OF_IMAGES.search(file.name))
    found = {file.version: file for file in sorted(wanted, key=lambda file: file.name, reverse=True)}
    return [found[version] for version in sorted(found, key=Version)]


def _numpy_of(index: Index, file: File) -> int:
    """Return which NumPy a wheel's modules were compiled for; 0: none; ``_UNREAD`` if they are too large."""
    try:
        with zipfile.ZipFile(index.open(file)) as archive:
            modules = [info for info in archive.infolist() if may_use_numpy(info.filename)]
            for info in sorted(modules, key=lambda info: info.file_size)[:_MOST]:
                if info.file_size > _LARGEST:
                    return _UNREAD
                if found := numpy_of(archive.read(info)):
                    return found
    except DAMAGED_ZIP:
        sys.stderr.write(f"{file.name}: cannot be read\n")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Write the file, or with ``--check`` only compare; show what differs."""
    parser = argparse.ArgumentParser(prog="python -m tools.numpy_abi", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the file would change")
    parser.add_argument("names", nargs="*", help="read these packages only, and leave the others as they are")
    options = parser.parse_args(arguments)
    path = package_data.data_path(FILE)
    known = msgspec.toml.decode(path.read_bytes(), type=Table).first if options.names and path.exists() else {}
    names = options.names or PACKAGES
    try:
        index = Index(os.environ, "numpy")
        index.wheels("numpy")  # finds the index, once
        with ThreadPoolExecutor(4) as pool:
            found = dict(zip(names, pool.map(lambda name: _first(index, name), names), strict=True))
    except (EnvbuildError, HttpError) as error:
        sys.stderr.write(f"{error}\n")
        return 12
    first = {name: version for name, version in sorted({**known, **found}.items()) if version}
    return refresh(path, (_HEAD + tomli_w.dumps({"first": first})).encode(), check=options.check)


def _first(index: Index, name: str) -> str:
    try:
        found = first_release(index, name)
    except HttpError as error:
        raise HttpError(f"{name}: {error.reason}", transient=error.transient) from error
    sys.stderr.write(f"{name}: {found or 'nothing'}\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
