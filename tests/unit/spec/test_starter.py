"""The starter spec: a good guess, commented, and always valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envbuild.errors import UsageError
from envbuild.spec.detect import detect_project
from envbuild.spec.model import Spec, parse_spec
from envbuild.spec.starter import starter_text


def project(folder: Path, **files: str) -> Path:
    """Make a project: keyword ``a__b_py`` is the file ``a/b.py``."""
    for key, text in files.items():
        path = folder / key.replace("__", "/").replace("DOT", ".").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def starter_spec(folder: Path) -> str:
    """Return the starter for a folder."""
    return starter_text(detect_project(folder))


def guessed(folder: Path) -> Spec:
    return parse_spec(starter_spec(folder))


def test_an_empty_folder_gives_a_valid_starter(tmp_path: Path) -> None:
    """With nothing to guess from, the starter is still a spec, with examples in comments."""
    folder = tmp_path / "My Models (v2)"
    folder.mkdir()
    text = starter_spec(folder)
    assert parse_spec(text) == Spec(name="my-models-v2")
    assert '# Python packages, such as "tensorflow-cpu==2.21.*" or "-r requirements.txt".\nrequirements: []' in text


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """A slip in the folder's name is a usage error, not an empty starter."""
    with pytest.raises(UsageError) as caught:
        starter_spec(tmp_path / "gone")
    assert caught.value.message == f"cannot read the folder {tmp_path}/gone: No such file or directory"


def test_every_commented_key_works_when_uncommented(tmp_path: Path) -> None:
    """The comments are not decoration: each line with a key becomes a valid spec once its # is removed."""
    lines = starter_spec(tmp_path).splitlines()
    keys = ("# packages:", "# inputs:", "# hardware:", "#   kernel:", "#   cpu:", "# env:", "#   KERAS", "# run:")
    keys += ("#   network:", "#   workspace:", "# cuda:", "#   gpu:")
    chosen = [line for line in lines if line.startswith(keys)]
    assert len(chosen) == len(keys)
    spec = parse_spec("\n".join(line[2:] if line in chosen else line for line in lines))
    assert (spec.hardware.kernel, spec.cuda, spec.run.network) == (">=5.10", "auto", "bridge")
    sentence = {name: requirement.value for name, requirement in spec.hardware.fields.items()}
    assert sentence == {"cpu": "x86-64-v3", "gpu.model": "NVIDIA H200", "gpu.count": 1}
    assert (spec.env, spec.inputs) == ({"KERAS_BACKEND": "tensorflow"}, ("data",))


def test_the_framework_is_guessed_from_imports(tmp_path: Path) -> None:
    """Import names become distribution names; the standard library and own modules are no requirements."""
    project(
        tmp_path,
        train_py="import os, sys\nimport numpy as np\nfrom sklearn.svm import SVC\nimport keras\nimport model\n",
        model_py="import cv2\nfrom . import helper\nfrom src_pkg.x import y\n",
        src_pkg__x_py="import yaml\n",
        venv__pyvenvDOTcfg="home = /usr\n",
        venv__lib__junk_py="import torch\n",
        DOThidden__junk_py="import jax\n",
    )
    assert guessed(tmp_path).requirements == (
        "keras",
        "numpy",
        "opencv-python-headless",
        "pyyaml",
        "scikit-learn",
        "tensorflow-cpu",
    )


def test_keras_on_another_backend_brings_no_tensorflow(tmp_path: Path) -> None:
    """A project that imports torch next to keras is not given TensorFlow."""
    project(tmp_path, train_py="import keras, torch\n")
    assert guessed(tmp_path).requirements == ("keras", "numpy", "torch")


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import keras\nkeras.callbacks.TensorBoard('logs')", {"tensorboard"}),
        ("from tensorflow.keras.callbacks import TensorBoard", {"tensorboard"}),
        ("import torch\nfrom torch.utils.tensorboard import SummaryWriter", {"tensorboard", "torch"}),
        ("import pandas as pd\npd.read_parquet('a.parquet').to_excel('a.xlsx')", {"pyarrow", "openpyxl"}),
        ("import torch\nfrom skorch.helper import parse_args", {"numpydoc", "torch"}),
        ("import optuna\noptuna.integration.OptunaSearchCV(model, space)", {"optuna-integration[sklearn]"}),
        ("import skorch, torch\nargs = parser.parse_args()", {"torch"}),
        ("import polars as pl\npl.read_parquet('a.parquet')", set()),
        ("import keras\nkeras.callbacks.CSVLogger('log.csv')", set()),
        ("from transformers import Trainer, BertConfig", {"accelerate", "torch"}),
        ("import transformers, jax\ntransformers.AutoTokenizer", set()),
        ("from diffusers import UNet2DModel", {"torch"}),
        ("from keras import Trainer", set()),
        ("import transformers, jax\nfrom mine.trainer import Trainer", set()),
        ("from lightning.pytorch.loggers import TensorBoardLogger", {"tensorboard"}),
    ],
)
def test_what_a_used_part_of_a_library_needs_is_required(tmp_path: Path, source: str, wanted: set[str]) -> None:
    """A library that does not require a package fails without it only when the program comes to it."""
    found = set(guessed(project(tmp_path, train_py=source)).requirements)
    known = {"tensorboard", "pyarrow", "openpyxl", "accelerate", "torch", "numpydoc", "optuna-integration[sklearn]"}
    assert found & known == wanted


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ('assert numpyro.__version__.startswith("0.21.0")', "numpyro==0.21.0.*"),
        ('assert numpyro.__version__.startswith("0.21.")', "numpyro==0.21.*"),
        ('assert numpyro.__version__ == "0.21.0", "another"', "numpyro==0.21.0"),
        ('assert numpyro.__version__ == "0.21.0"\nassert numpyro.__version__ == "0.20.0"', "numpyro"),
        ('assert numpyro.__version__ >= "0.21.0"', "numpyro"),
        ('assert numpyro.__version__.startswith("dev")', "numpyro"),
        ('print(numpyro.__version__.startswith("0.21"))', "numpyro"),
    ],
)
def test_a_version_that_a_program_insists_on_is_required(tmp_path: Path, lines: str, wanted: str) -> None:
    """It would fail at once with another one; versions in which files do not agree are left open."""
    found = guessed(project(tmp_path, train_py=f"import numpyro\n{lines}\n")).requirements
    assert [each for each in found if each.startswith("numpyro")] == [wanted]


def test_well_known_packages_are_required_by_their_distribution(tmp_path: Path) -> None:
    """Names of modules that are not those of their distributions, and such as are."""
    found = guessed(project(tmp_path, train_py="import Levenshtein, ml_collections, pynvml, regex, trl"))
    assert found.requirements == ("levenshtein", "ml-collections", "nvidia-ml-py", "regex", "trl")


def test_imports_of_notebooks_count(tmp_path: Path) -> None:
    """Cells of Python, without IPython's magics; what starts a notebook is required where there is no script."""
    cells = [
        {"cell_type": "markdown", "source": "import jax"},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n", "import umap, os\n", "umap?"]},
        {"cell_type": "code", "source": ["if True:\n", "    %time import numpy\n", "import surprise"]},
        {"cell_type": "code", "source": "%%bash\nimport torch"},
        {"cell_type": "code", "source": "import broken ("},
        {"cell_type": "code", "source": "%%time\nfrom sklearn import svm\nimport google.colab"},
    ]
    project(tmp_path, a__nDOTipynb=json.dumps({"cells": cells}), brokenDOTipynb="{", oddDOTipynb='{"cells": [3]}')
    # ``umap?`` is no Python, so that its cell is passed over
    assert guessed(tmp_path).requirements == ("ipykernel", "nbconvert", "scikit-learn", "scikit-surprise")
    project(tmp_path, train_py="import numpy\n")
    assert guessed(tmp_path).requirements == ("numpy", "scikit-learn", "scikit-surprise")


def test_unknown_imports_are_asked_not_guessed(tmp_path: Path) -> None:
    """An import name is no distribution name: an unknown one stays a comment, for a wrong guess could be harmful."""
    project(tmp_path, train_py="import numpy, my_secret_tool\n")
    text = starter_spec(tmp_path)
    assert parse_spec(text).requirements == ("numpy",)
    assert "# Imported too; what are they called on the package index?\n#  - my_secret_tool\n" in text


@pytest.mark.parametrize("name", ["requirements.txt", "requirements.in", "requirements-train.txt"])
def test_a_requirements_file_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    """A project that already states what it needs is believed."""
    (tmp_path / name).write_text("numpy\n")
    (tmp_path / "requirements-dev.txt").write_text("pytest\n")
    (tmp_path / "train.py").write_text("import torch\n")
    assert guessed(tmp_path).requirement_files == (name,)
    assert f"# Python packages, from {name}." in starter_spec(tmp_path)


def test_pyproject_gives_name_python_and_requirements(tmp_path: Path) -> None:
    """The project table is used; lines that a spec cannot take are left out."""
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "Nice.Net"\nrequires-python = ">=3.12"\n'
        'dependencies = ["torch>=2,<3", "a; python_version < \'3.12\'", "b @ https://example.invalid/b.whl"]\n'
    )
    spec = guessed(tmp_path)
    assert (spec.name, spec.os.release, spec.python) == ("nice-net", "debian-13", "3.13")
    assert spec.requirements == ("torch<3,>=2", 'a; python_version < "3.12"')
    assert "# torch from the default index brings CUDA libraries" in starter_spec(tmp_path)


@pytest.mark.parametrize(
    ("version", "release", "python", "comment"),
    [
        ("3.13.1\n", "debian-13", "3.13", "from .python-version"),
        ("3.11", "debian-12", "3.11", "from .python-version"),
        ("3.12\n", "debian-12", "3.12", "from .python-version"),
        ("3.9\n", "debian-12", "3.11", ".python-version requires 3.9, of which there is no build"),
        ("pypy3.10\n", "debian-12", "3.11", ""),
    ],
)
def test_python_version_chooses_the_release(
    tmp_path: Path, version: str, release: str, python: str, comment: str
) -> None:
    """The release is the one whose Python the project uses; if none has it, a standalone build is taken."""
    (tmp_path / ".python-version").write_text(version)
    spec = guessed(tmp_path)
    assert (spec.os.release, spec.python) == (release, python)
    shown = f'python: "{python}"    # {comment}\n' if comment else f'python: "{python}"\n'
    assert shown in starter_spec(tmp_path)


def test_data_folders_are_offered_as_inputs(tmp_path: Path) -> None:
    """What looks like data is proposed in a comment, quoted where YAML needs it, and never taken unasked.

    A folder of code, or one that a program fills, is none.
    """
    project(
        tmp_path,
        data__sets__aDOTtxt="x",
        datasets__readDOTtxt="a package",
        images__readmeDOTmd="made by the program",
        inputs__DOTgitkeep="",
        corpus__get_py="",
    )
    (tmp_path / "datasets" / "__init__.py").touch()
    (tmp_path / "my table, v1.csv").write_text("x")
    (tmp_path / "a:b.csv").write_text("x")
    assert guessed(tmp_path).inputs == ()
    assert '# inputs: [data, "my table, v1.csv"]\n' in starter_spec(tmp_path)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["requirements.txt", "pyproject.toml", ".python-version", "train.py", "data.csv"]),
            st.binary(max_size=40)
            | st.sampled_from(
                [
                    b"import \xc3\xa9t\xc3\xa9, os.path",
                    b'[project]\nname = "\\u0000\\n#"\nrequires-python = "=="\ndependencies = [3, "a b", "x\\n"]\n',
                    b'[project]\nrequires-python = ">=4\\n"\n',
                    b"project = 3\n",
                    b"from . import (\n",
                ]
            ),
        ),
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_folder_gives_a_valid_starter(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[str, bytes]]
) -> None:
    """Malformed project files are passed over: the starter always parses."""
    folder = tmp_path_factory.mktemp("project")
    for name, data in files:
        (folder / name).write_bytes(data)
    guessed(folder)


def test_pins_of_other_tools_are_not_passed_over(tmp_path: Path) -> None:
    """A project that uv, poetry, pipenv or conda pins gets the command that takes the pins over."""
    (tmp_path / "environment.yml").write_text("name: lab\ndependencies: [numpy]\n")
    taken = "conda run -n lab python -m pip list --format=freeze > requirements.txt"
    assert detect_project(tmp_path).export == taken
    (tmp_path / "environment.yml").rename(tmp_path / "conda.yaml")  # as MLflow has it
    assert detect_project(tmp_path).export == taken
    (tmp_path / "uv.lock").write_text("version = 1\n")
    assert detect_project(tmp_path).export.startswith("uv export ")
    assert "# uv.lock pins this project's packages. To take its pins: uv export --frozen" in starter_spec(tmp_path)
    guessed(tmp_path)
    (tmp_path / "pylock.toml").write_text('lock-version = "1.0"\n')
    assert (detect_project(tmp_path).requirements, detect_project(tmp_path).export) == (("-r pylock.toml",), "")
    (tmp_path / "requirements.txt").write_text("numpy\n")
    assert (detect_project(tmp_path).requirements, detect_project(tmp_path).export) == (("-r requirements.txt",), "")


_OWN = '[project]\nname = "my-pkg"\nversion = "1"\ndependencies = ["numpy"]\n'


@pytest.mark.parametrize(
    ("pyproject", "requirements", "source", "note"),
    [
        (f'{_OWN}scripts = {{my-train = "a:b", "a\\nb" = "c:d"}}\n', "", False, " with my-train"),
        (f'{_OWN}scripts = {{a = "x:y", b = "x:y", c = "x:y", d = "x:y"}}\n', "", True, " with a, b, c"),
        (_OWN, "", True, ""),
        (_OWN, "", False, None),
        (f"{_OWN}scripts = 3\n", "", False, None),
        (_OWN.replace("my-pkg", "a\\nb: c"), "", True, None),
        (_OWN, "numpy\n-e .\n", True, None),
        (_OWN, "numpy\n.[train]  # ourselves\n", True, None),
        (_OWN, "numpy\n./libs\n", True, ""),
    ],
)
def test_a_project_that_is_a_package_is_named(
    pyproject: str, requirements: str, source: bool, note: str | None, tmp_path: Path
) -> None:
    """Its commands are not in the image, and Python does not find what is below ``src``, until it is required."""
    (tmp_path / "pyproject.toml").write_text(pyproject)
    if requirements:
        (tmp_path / "requirements.txt").write_text(requirements)
    if source:
        (tmp_path / "src").mkdir()
    text = starter_text(detect_project(tmp_path))
    line = f"# The image has the project itself{note} if requirements have  - -e .  and the spec  sources: [my-pkg]\n"
    assert (line in text) == (note is not None)
    assert ("the project itself" in text) == (note is not None)
    parse_spec(text)


@pytest.mark.parametrize(
    ("files", "requirements", "reason"),
    [
        (
            {"setup.py": "from setuptools import setup\nsetup(install_requires=['blobfile>=1.0.5', 'Torch'])\n"},
            ("blobfile>=1.0.5", "Torch", "numpy", "scipy"),
            "from setup.py and guessed from the imports of your code.",
        ),
        (
            {"setup.py": "import setuptools as s\nNEED = ('torch>=2',)\ns.setup(name='x', install_requires=NEED)\n"},
            ("torch>=2", "numpy", "scipy"),
            "from setup.py and guessed from the imports of your code.",
        ),
        (
            {"setup.py": "from setuptools import setup\nsetup(install_requires=open('r.txt').read().split())\n"},
            ("numpy", "scipy", "torch"),
            "guessed from the imports of your code.",
        ),
        (
            {
                "setup.py": "from setuptools import setup\nsetup()\n",
                "setup.cfg": "[options]\ninstall_requires =\n  # all of it\n  torch<3\n  http://x/y\n",
            },
            ("torch<3", "numpy", "scipy"),
            "from setup.cfg and guessed from the imports of your code.",
        ),
    ],
)
def test_requirements_of_a_setup_script_are_read_and_imports_added(
    files: dict[str, str], requirements: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    """A literal list in setup.py, or setup.cfg's: scripts next to a package import more than it requires."""
    project(tmp_path, scripts__train_py="import torch, scipy, blobfile, odd_tool\n", docs__conf_py="import sphinx\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    spec, text = guessed(tmp_path), starter_spec(tmp_path)
    assert [each for each in spec.requirements if each != "blobfile"] == list(requirements)
    assert f"# Python packages, {reason}\n" in text
    assert "#  - odd_tool\n" in text
    assert "setuptools" not in text + "sphinx"


def test_requirements_of_poetry_are_written_as_pip_has_them(tmp_path: Path) -> None:
    """Poetry's own table, its name and its Python; what is optional, or comes from a folder, is left out."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.poetry]\nname = "mine"\n[tool.poetry.dependencies]\npython = "^3.13"\nnumpy = "^1.24.0"\n'
        'scipy = "~1.11"\npandas = "*"\ntorch = "2.1.*"\nzero = "^0.3"\nhttpx = ">=0.2 , <1"\nray = "2.9.0"\n'
        'odd = "^1 || ^2"\nx = {version = "^2.0", extras = ["a", "b"], markers = "python_version >= \'3.9\'"}\n'
        'several = [{version = ">=1,<2", markers = "python_version < \'3.14\'"}, {version = ">=3"}]\n'
        'own = {path = "../own"}\nmaybe = {version = "1", optional = true}\n'
    )
    spec = guessed(tmp_path)
    assert (spec.name, spec.python) == ("mine", "3.13")
    assert sorted(spec.requirements) == sorted(
        (
            "numpy<2,>=1.24.0",
            "scipy<1.12,>=1.11",
            "pandas",
            "torch==2.1.*",
            "zero<0.4,>=0.3",
            "httpx<1,>=0.2",
            "ray==2.9.0",
            "odd",
            'several<2,>=1; python_version < "3.14"',
            "several>=3",
            'x[a,b]<3,>=2.0; python_version >= "3.9"',
        )
    )


@pytest.mark.parametrize(
    ("name", "text", "packages", "files"),
    [
        ("run.sh", "set -e\n# gcc\nCFLAGS=-O3 make all | tee log\nwget x; git pull\n", ("make",), "run.sh"),
        ("run.sh", "if [ -e 'java x' ]; then Rscript fit.R && echo make; fi\n", ("r-base-core",), "run.sh"),
        ("run.sh", "x=$(dot -V)\nfor i in 1 2; do unzip $i; done\n", ("graphviz", "unzip"), "run.sh"),
        ("Makefile", "CC = g++ # ours\nall:\n\t@$(CC) a.cc -o a\n", ("g++", "make"), "Makefile"),
        ("makefile", "train: data\n\tpython train.py\n", ("make",), "makefile"),
        ("Makefile", "clean:\n\trm -rf x\n", (), ""),
        ("tools/run.py", "import os, subprocess\nsubprocess.run(['ffmpeg', x])\nos.system('make -j')\n",
         ("ffmpeg", "make"), "tools/run.py"),
        ("train.py", "import subprocess\nsubprocess.run(['git', 'log'])\nmodel.run('make')\nx = 'gcc'\n", (), ""),
        ("docker/run.sh", "make\n", (), ""),
        ("train.py", "import torch\n@torch.compile\ndef f(x): ...\n", ("g++", "python3-dev"), "train.py"),
        ("train.py", "import torch\nf = torch.compile(f, backend='eager')\nmodel.compile()\n", (), ""),
        ("train.py", "from torch.utils.cpp_extension import load\n", ("g++", "ninja-build", "python3-dev"), "train.py"),
        ("train.py", "import pyximport\npyximport.install()\n", ("gcc", "python3-dev"), "train.py"),
    ],
)  # fmt: skip
def test_programs_that_a_project_starts_bring_their_packages(
    name: str, text: str, packages: tuple[str, ...], files: str, tmp_path: Path
) -> None:
    """Shell scripts, makefiles, Python's calls, libraries' compilers; no downloads, ``git``, comments and quotes."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert tuple(each.name for each in guessed(tmp_path).packages) == packages
    shown = f"# Debian packages with programs that {files} starts; libraries that wheels need are found and added.\n"
    assert (shown in starter_spec(tmp_path)) is bool(packages)


def test_what_has_no_wheel_is_built(tmp_path: Path) -> None:
    """Hydra needs a package of which the index has no wheel: without it a release of 2019 would be locked."""
    spec = guessed(project(tmp_path, train_py="import hydra\n"))
    assert (spec.requirements, spec.sources) == (("hydra-core",), ("antlr4-python3-runtime",))
    (tmp_path / "requirements.txt").write_text("numpy\nomegaconf>=2.3\n")
    assert guessed(tmp_path).sources == ("antlr4-python3-runtime",)
    (tmp_path / "requirements.txt").write_text("numpy\nhydra-zen-omegaconf\n")
    assert guessed(tmp_path).sources == ()


def test_modules_of_the_project_and_of_python_2_are_no_packages(tmp_path: Path) -> None:
    """Packages next to a script or around a module are the project's; a library's name stays a library's."""
    project(
        tmp_path,
        rl__train_py="import agents, torch\nfrom deep.er import x\n",
        rl__agents__loss_py="import agents, numpy\n",
        rl__torch__fit_py="import torch\n",
        rl__deep__er_py="",
        grid_py="try:\n    from queue import Queue\nexcept ImportError:\n    from Queue import Queue\n",
        sub__setup_py="import setuptools\n",
    )
    assert (guessed(tmp_path).requirements, detect_project(tmp_path).unknown) == (("numpy", "torch"), ())


def test_notebooks_in_a_folder_bring_what_runs_them(tmp_path: Path) -> None:
    """A project of notebooks alone needs a kernel, wherever they are; scripts next to them do not."""
    cell = {"cells": [{"cell_type": "code", "source": ["import numpy\n"]}]}
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "a.ipynb").write_text(json.dumps(cell))
    assert guessed(tmp_path).requirements == ("ipykernel", "nbconvert", "numpy")
    (tmp_path / "fit.py").write_text("import numpy\n")
    assert guessed(tmp_path).requirements == ("numpy",)


def test_a_package_next_to_its_examples_is_named(tmp_path: Path) -> None:
    """Examples in a folder import the package that the project is, and it may ask for its own version."""
    (tmp_path / "pyproject.toml").write_text(_OWN)
    project(tmp_path, examples__fit_py="import my_pkg\n")
    assert "sources: [my-pkg]" not in starter_spec(tmp_path)
    (tmp_path / "my_pkg").mkdir()
    (tmp_path / "my_pkg" / "__init__.py").touch()
    assert "if requirements have  - -e .  and the spec  sources: [my-pkg]" in starter_spec(tmp_path)
