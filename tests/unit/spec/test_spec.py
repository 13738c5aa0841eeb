"""The spec: forgiving to write, strict to read, all problems at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from envbuild.core.digest import sha256_bytes
from envbuild.errors import Problem, SpecError
from envbuild.lockfile.model import Determinism, RunOptions
from envbuild.operations.lock_files import resolution_inputs
from envbuild.spec.environment import DECIDED
from envbuild.spec.hardware import HardwareRequirements, Requirement
from envbuild.spec.model import Os, Package, Spec, load_spec, parse_spec, spec_digest

FULL = """\
name: train_2
os: {release: debian-13, architecture: amd64, mirror: "https://mirror.example.invalid/debian/", snapshot: 2026-07-11}
packages: [git, libgl1=1.6.0-1]
python: 3.13
requirements:
  - Tensorflow-CPU == 2.21.*
  - -r requirements.txt
  - {file: more/extra.in}
wheels: [wheels, /srv/wheels]
cuda: 13
cudnn: 9.10
hardware:
  kernel: ">= 5.10, <7"
  cpu: v3
  gpu: {model: NVIDIA H200, count: 2, driver: 580.10}
determinism: {seed: 0, threads: 8, level: seeds, strict: false}
inputs: [data/, ./labels.csv]
env: {KERAS_BACKEND: tensorflow, FLAG: no, EMPTY: "", N: 010}
run: {network: bridge, workspace: ro}
"""


def problems(text: str, **options: Any) -> list[str]:
    """Return the problems of a spec as ``line path: message``."""
    with pytest.raises(SpecError) as caught:
        parse_spec(text, **options)
    return [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]


def problem(rest: str) -> str:
    """Return the one problem of a spec that has this after its name."""
    (found,) = problems(f"name: x\n{rest}")
    return found


def test_five_lines_suffice() -> None:
    """Name and requirements are enough; everything else has a default."""
    spec = parse_spec("name: digits\npython: 3.11\nrequirements: [tensorflow-cpu==2.21.*, scikit-learn]\n")
    assert spec == Spec(name="digits", requirements=("tensorflow-cpu==2.21.*", "scikit-learn"))
    assert spec.os == Os(release="debian-12", architecture="amd64")
    assert spec.determinism == Determinism(seed=42, threads=2, level="ops", strict=True)
    assert spec.run == RunOptions(network="none", workspace="rw")


def test_every_key_reaches_the_value() -> None:
    """What is written is what is in the value, normalised."""
    assert parse_spec(FULL) == Spec(
        name="train_2",
        os=Os(release="debian-13", mirror="https://mirror.example.invalid/debian", snapshot="20260711T000000Z"),
        packages=(Package(name="git"), Package(name="libgl1", version="1.6.0-1")),
        python="3.13",
        requirements=("Tensorflow-CPU==2.21.*",),
        requirement_files=("requirements.txt", "more/extra.in"),
        wheels=("wheels", "/srv/wheels"),
        cuda="13",
        cudnn="9.10",
        hardware=HardwareRequirements(
            kernel=">=5.10,<7",
            gpu="some",
            fields={
                "cpu": Requirement(value="x86-64-v3"),
                "gpu.model": Requirement(value="NVIDIA H200"),
                "gpu.count": Requirement(value=2),
                "gpu.driver": Requirement(value="580.10"),
            },
        ),
        determinism=Determinism(seed=0, threads=8, level="seeds", strict=False),
        inputs=("data", "labels.csv"),
        env={"KERAS_BACKEND": "tensorflow", "FLAG": "no", "EMPTY": "", "N": "010"},
        run=RunOptions(network="bridge", workspace="ro"),
    )


def test_the_python_is_that_of_the_system_by_default() -> None:
    """Without a python key, the release's own is meant."""
    assert parse_spec("name: x\nos: debian-13\n").python == "3.13"
    assert parse_spec("name: x\nos: trixie\n").os.release == "debian-13"
    assert parse_spec("name: x\nos: forky\n").python == "3.14"


def test_a_python_that_is_too_old_is_no_default() -> None:
    """Debian 11 has 3.9: the spec must name a Python, standalone; what it lacks is refused."""
    assert parse_spec('name: x\nos: debian-11\npython: "3.12"\n').python == "3.12"
    assert problems("name: x\nos: bullseye\n") == [
        "0 python: is missing: debian-11 has Python 3.9, which is too old — write python: 3.11"
    ]
    assert problems('name: x\nos: debian-11\npython: "3.9"\n') == [
        '3 python: expected Python 3.10 to 3.14, found "3.9" — write 3.11'
    ]
    assert problems("name: x\nos: {release: debian-11, components: [main, non-free-firmware]}\npython: 3.11\n") == [
        "2 os.components: debian-11 has no non-free-firmware — it has main, contrib, non-free"
    ]


def test_all_problems_are_reported_at_once() -> None:
    """One reading shows every mistake, in the order of the file."""
    assert problems(
        "name: My Model\n"
        "pyton: 3.11\n"
        "python: 3.9\n"
        "hardware: {kernel: '>>5'}\n"
        "packages:\n"
        "  - git\n"
        "  - Git\n"
        "determinism:\n"
        "  seed: 042\n"
        "  strict: yes\n"
        "run: {network: nonne}\n"
    ) == [
        '1 name: "My Model" is not a name: lower-case letters, digits, - and _, at most 64 — e.g. my-model',
        "2 pyton: unknown key — perhaps you meant python",
        '3 python: expected Python 3.10 to 3.14, found "3.9" — write 3.11, which debian-12 has, or leave python out',
        '4 hardware.kernel: ">>5" is not a version range — e.g. ">=5.15,<7"',
        '7 packages[1]: "Git" is not a Debian package name — e.g. git',
        '9 determinism.seed: expected a whole number from 0 to 4,294,967,295, found "042"'
        " — write it in plain decimal digits",
        '10 determinism.strict: expected true or false, found "yes" — write true',
        '11 run.network: expected none, bridge or host, found "nonne" — perhaps you meant none',
    ]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("seed: 3", "2 seed: unknown key — perhaps you meant determinism.seed"),
        ("dependencies: [numpy]", "2 dependencies: unknown key — perhaps you meant requirements"),
        ("zzzz: 1", "2 zzzz: unknown key"),
        ("os: {arch: arm64}", "2 os.arch: unknown key — perhaps you meant architecture"),
        ("name: y", "2 name: given twice; first on line 1"),
        ("env:\n  A: 1\n  A: 2", "4 env.A: given twice; first on line 3"),
        ("packages: git", '2 packages: expected a list of Debian packages, found "git" — write [git]'),
        ("packages:", "2 packages: expected a list of Debian packages, found nothing — write [] for none"),
        ("packages: [git, git]", '2 packages[1]: "git" is in the list already, at packages[0]'),
        ("packages: [git;reboot]", '2 packages[0]: "git;reboot" is not a Debian package name — e.g. git'),
        (
            "packages: [git=$(id)]",
            '2 packages[0]: "git=$(id)" has no Debian version after = — e.g. git=1:2.39.5-0+deb12u2',
        ),
        ("python: cpython-3.12", '2 python: "cpython-3.12" is not a release of Python — write 3.12'),
        ("python: python3", '2 python: "python3" is not a release of Python — e.g. 3.11'),
        (
            "python: 3.13t",
            '2 python: "3.13t" has no global interpreter lock (free-threaded): results depend on how threads interleave'
            " — write 3.13",
        ),
        (
            "python: 3.14.2+freethreaded",
            '2 python: "3.14.2+freethreaded" has no global interpreter lock (free-threaded): results depend on how '
            "threads interleave — write 3.14.2",
        ),
        ("python: [3.11]", "2 python: expected a Python release such as 3.11 or 3.12.7, found a list"),
        (
            "requirements: [tensorflow=2.21]",
            '2 requirements[0]: "tensorflow=2.21" is not a requirement — write tensorflow==2.21',
        ),
        (
            "requirements: ['numpy>=2', <3]",
            '2 requirements[1]: "<3" is not a requirement — inside [ ] a comma ends an item: put the requirement in'
            ' quotes, or on a separate line after "- "',
        ),
        (
            "requirements: [requirements.txt]",
            '2 requirements[0]: "requirements.txt" looks like a file — write -r requirements.txt',
        ),
        (
            "requirements: [--index-url=x]",
            '2 requirements[0]: "--index-url=x": options do not belong here: indexes, find-links and certificates come'
            " from your pip or uv settings",
        ),
        (
            "requirements: ['a @ https://example.invalid/a.whl']",
            '2 requirements[0]: "a @ https://example.invalid/a.whl": a lock names files by digest, not by address — put'
            " the wheel into a folder named in wheels, and write a",
        ),
        ("requirements: ['?']", '2 requirements[0]: "?" is not a requirement — e.g. "numpy>=2"'),
        (
            "requirements: [{file: ../r.txt}]",
            '2 requirements[0].file: "../r.txt" leads out of the spec\'s folder — write a path relative to the spec,'
            " inside it",
        ),
        ("hardware: {kernel: 5.15}", '2 hardware.kernel: "5.15" is not a version range — e.g. ">=5.15"'),
        ("hardware: {kernel: '>=7,<5'}", '2 hardware.kernel: ">=7,<5" holds no version at all'),
        ("hardware: {cpu: x86-64-v9}", None),
        (
            "os: {architecture: arm64}\nhardware: {cpu: v3}",
            "3 hardware.cpu: x86-64-v3 is a level of amd64, but the image is for arm64 — it has armv8.0-a, armv8.1-a, "
            "armv8.2-a, armv8.3-a, armv8.4-a, armv8.5-a, armv8.6-a, armv8.7-a, armv9.0-a, armv9.1-a, armv9.2-a",
        ),
        (
            "hardware: {cpu: armv9.0-a}",
            "2 hardware.cpu: armv9.0-a is a level of arm64, but the image is for amd64 — it has x86-64, x86-64-v2, "
            "x86-64-v3, x86-64-v4",
        ),
        (
            "os: ubuntu",
            "2 os: expected debian-11, debian-12, debian-13, debian-testing, "
            "ubuntu-22.04, ubuntu-24.04 or ubuntu-26.04, "
            'found "ubuntu" — perhaps you meant ubuntu:26.04',
        ),
        (
            "os: {snapshot: 2026-02-30}",
            '2 os.snapshot: "2026-02-30" is not a time in UTC — e.g. 2026-07-11 or 20260711T000000Z',
        ),
        (
            "os: {mirror: 'https://me:pw@mirror.example.invalid/debian'}",
            '2 os.mirror: "https://me:pw@mirror.example.invalid/debian" has a user name or password in it'
            " — e.g. https://mirror.example.invalid/debian",
        ),
        (
            "os: {image: 'debian:12'}",
            '2 os.image: "debian:12" has no digest: a tag can move — e.g. debian@sha256:00000000…',
        ),
        (
            "hardware: {gpu: optional}",
            "2 hardware.gpu: is optional, but cuda is none, so nothing would use it — write cuda: auto",
        ),
        (
            "os: {architecture: arm64}\ndeterminism: {level: portable}",
            "3 determinism.level: portable is for amd64, but os.architecture is arm64, where no complete set of "
            "switches is known for what libraries choose by the CPU — write ops, and for one kind of CPU "
            "hardware.cpu-flags",
        ),
        (
            "determinism: {level: all}",
            '2 determinism.level: expected seeds, ops or portable, found "all"',
        ),
        (
            "determinism: {threads: 0}",
            '2 determinism.threads: expected a whole number from 1 to 1,024, found "0"',
        ),
        (
            "determinism: {seed: '42'}",
            '2 determinism.seed: expected a whole number from 0 to 4,294,967,295, found "42" in quotes'
            " — remove the quotes",
        ),
        (
            "inputs: [/data]",
            '2 inputs[0]: "/data" leads out of the spec\'s folder — write a path relative to the spec, inside it',
        ),
        ("inputs: [.]", '2 inputs[0]: "." is the whole folder, where runs write — name what is read, such as data'),
        ("env: {A B: 1}", '2 env.A B: "A B" is not a variable name: letters, digits and _'),
        ("env: {FOO: }", '2 env.FOO: expected a text ("" for empty), found nothing'),
        ("env: {PYTHONHASHSEED: 1}", "2 env.PYTHONHASHSEED: is set by envbuild itself — use determinism.seed"),
        ("env: {LD_PRELOAD: x.so}", "2 env.LD_PRELOAD: is envbuild's own and cannot be set"),
        ("env: {ENVBUILD_ALLOW: gpu}", "2 env.ENVBUILD_ALLOW: is envbuild's own and cannot be set"),
        ("env: {ENVBUILD_GUARD: 'off'}", "2 env.ENVBUILD_GUARD: is envbuild's own and cannot be set"),
        (
            "env: {NVIDIA_VISIBLE_DEVICES: all}",
            "2 env.NVIDIA_VISIBLE_DEVICES: specifies what a run is given, and engines set it — use hardware.gpu, or "
            "envbuild run --gpus",
        ),
        ('env: {A: "x\\ny"}', '2 env.A: "x\\ny" has control characters, or more than 4,096 characters'),
        ("run: host", '2 run: expected a mapping with network or workspace, found "host"'),
        ("run: {network: ~}", "2 run.network: expected none, bridge or host, found nothing"),
    ],
)
def test_each_mistake_has_its_sentence(rest: str, expected: str | None) -> None:
    """A mistake is reported with line, field path, what was expected, what was found, and the way out."""
    found = problem(rest)
    if expected is None:
        assert found.startswith("2 hardware.cpu: expected any, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, armv8.0-a, ")
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["1 : empty: expected at least name and requirements"]),
        ("# only a comment\n", ["1 : empty: expected at least name and requirements"]),
        ("- a\n", ["1 : expected a mapping of keys such as name and requirements, found a list"]),
        ("hello\n", ['1 : expected a mapping of keys such as name and requirements, found "hello"']),
        ("os: debian-12\n", ["1 name: missing — e.g. name: digits"]),
        ("name: x\n---\nname: y\n", ["2 : expected one YAML document, found a second one after ---"]),
        ("name: &a x\n", ["1 : &a: a spec has no anchors and aliases — write the value out"]),
        ("name: x\ninputs: *a\n", ["2 : *a: a spec has no anchors and aliases — write the value out"]),
        (
            "name: !!python/object/apply:os.system [id]\n",
            [
                '1 : "tag:yaml.org,2002:python/object/apply:os.system": a spec has no tags — write the plain value',
                "1 name: expected a name, found a list",
            ],
        ),
        (
            "name: x\n\tos: debian-12\n",
            [
                "2 : not valid YAML: found character '\\t' that cannot start any token — indent with spaces, not tabs",
            ],
        ),
        (
            "name: x\nos: a: b\n",
            [
                "2 : not valid YAML: mapping values are not allowed here — a value with ': ' in it needs quotes;"
                " keys of one mapping need equal indentation"
            ],
        ),
        ("name: x\x00\n", ["1 : not valid YAML: character U+0000 is not allowed"]),
        ("name: " + "[" * 30 + "]" * 30, ["1 : nested more than 20 levels deep"]),
        ("? [a]\n: b\n", ["1 : expected a word as key, found a list", "1 name: missing — e.g. name: digits"]),
    ],
)
def test_text_that_is_no_spec(text: str, expected: list[str]) -> None:
    """Text that is not one plain YAML mapping is refused with the reason."""
    assert problems(text) == expected


def test_aliases_never_expand() -> None:
    """A billion laughs cost nothing: an alias is a problem, not a copy."""
    bomb = "a: &a [x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    assert any("no anchors and aliases" in sentence for sentence in problems(bomb))


def test_too_long_a_text_is_not_read() -> None:
    """A file that cannot be a spec is refused before it is parsed."""
    assert problems("#" * (1 << 20) + "\n") == ["1 : a spec has at most 1,048,576 characters, found 1,048,577"]


def test_a_base_image_may_have_any_python() -> None:
    """With a base image by digest, the release's own Python is no rule."""
    digest = "0123456789abcdef" * 4
    spec = parse_spec(f"name: x\npython: 3.12\nos: {{image: 'ghcr.example.invalid/a/b:1@sha256:{digest}'}}\n")
    assert (spec.python, spec.os.image) == ("3.12", f"ghcr.example.invalid/a/b:1@sha256:{digest}")


def test_without_python_a_base_image_decides() -> None:
    """The Python of a Debian release is no default for an image that may have another."""
    assert parse_spec(f"name: x\nos: {{image: 'a@sha256:{'0' * 64}'}}\n").python == ""


def test_packages_have_no_place_in_a_base_image() -> None:
    """What only a system made from packages can have is refused, all at once, with the way out."""
    text = f"name: x\npackages: [git]\nos:\n  image: a@sha256:{'0' * 64}\n  snapshot: 2026-07-11\n"
    assert problems(text) == [
        "2 packages: nothing is installed into a base image — install them in that image and name its new digest, "
        "or leave os.image out",
        "5 os.snapshot: specifies where Debian packages come from, but os.image takes none — leave one out",
    ]


def test_what_every_image_has_can_be_left_out() -> None:
    """The default is part of no digest, so that locks made before it are fresh; unknown words are refused."""
    spec = parse_spec("name: x\nos: {without: [tzdata, ca-certificates]}\n")
    assert spec.os.without == ("tzdata", "ca-certificates")
    assert spec_digest(spec) != spec_digest(parse_spec("name: x\n"))
    assert problem("os: {without: [tzdat]}").startswith(
        '2 os.without[0]: expected tzdata or ca-certificates, found "tzdat" — perhaps you meant tzdata'
    )
    image = f"os: {{image: 'a@sha256:{'0' * 64}', without: [tzdata]}}"
    assert problem(image) == "2 os.without: nothing is installed into a base image — leave it out"


def test_an_unknown_release_brings_no_second_problem() -> None:
    """What follows from a mistake is not reported as another mistake."""
    assert problem("os: debian-14\npython: 3.13") == (
        "2 os: expected debian-11, debian-12, debian-13, debian-testing, "
        'ubuntu-22.04, ubuntu-24.04 or ubuntu-26.04, found "debian-14" — '
        "perhaps you meant debian-13"
    )


def test_values_of_variables_are_checked_by_the_caller_s_rules() -> None:
    """Rules about variables that know frameworks come from outside, and their problems get lines too."""

    def check(env: Any, path: str) -> list[Problem]:
        return [Problem(path=f"{path}.{name}", message="is harmful") for name in env if name == "BAD"]

    assert problems("name: x\nenv:\n  GOOD: 1\n  BAD: 1\n", check_env=check) == ["4 env.BAD: is harmful"]


def test_a_file_entry_has_one_key() -> None:
    """A slip in the key of a file entry is reported, and what is missing."""
    assert problems("name: x\nrequirements: [{fil: r.txt}]\n") == [
        "2 requirements[0].fil: unknown key — perhaps you meant file",
        "2 requirements[0].file: missing",
    ]


# --- files ---------------------------------------------------------------------------------------------------------


def test_load_checks_the_files_named(tmp_path: Path) -> None:
    """A requirements file or wheel folder that is not there is a problem, with a near name if there is one."""
    (tmp_path / "requirements.txt").write_text("numpy\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\nrequirements:\n  - Bad Name\n  - -r requirement.txt\nwheels: [wheels]\n")
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    assert str(caught.value) == (
        f"{spec} has 3 problems\n"
        '  line 3   requirements[0]: "Bad Name" is not a requirement — e.g. "numpy>=2"\n'
        '  line 4   requirements[1]: no file "requirement.txt" in the spec\'s folder'
        " — perhaps you meant requirements.txt\n"
        '  line 5   wheels[0]: no folder "wheels"'
    )
    (tmp_path / "wheels").mkdir()
    spec.write_text("name: x\nrequirements: requirements.txt\nwheels: [wheels]\n")
    assert load_spec(spec).requirement_files == ("requirements.txt",)


def test_an_impossible_path_is_a_missing_file(tmp_path: Path) -> None:
    """A name too long for any file system is reported like any other file that is not there."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"name: x\nrequirements: {'a' * 300}\nwheels: [{'b' * 300}]\n")
    with pytest.raises(SpecError) as caught:
        load_spec(spec)
    assert [problem.message for problem in caught.value.problems] == [
        f'no file "{"a" * 60}…" in the spec\'s folder',
        f'no folder "{"b" * 60}…"',
    ]


def test_a_missing_spec_reports_how_to_get_one(tmp_path: Path) -> None:
    """No file: the next command to type is reported."""
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "spec.yaml")
    assert caught.value.message == f"{tmp_path}/spec.yaml has 1 problem\n  cannot be read: No such file or directory"
    assert caught.value.hint == "write a starter spec: envbuild init"


def test_a_slip_in_a_specs_path_starts_no_second_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below a project, next to its spec, or for a folder: the spec that is there is named, and ``init`` is not."""
    (tmp_path / "spec.yaml").write_text("name: x\n")
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    reported = {}
    for path in ("spec.yaml", "../nodir/spec.yaml", "../foo.yaml", "..", "."):
        with pytest.raises(SpecError) as caught:
            load_spec(Path(path))
        reported[path] = caught.value.hint
    there = "name the spec that is there: ../spec.yaml"
    assert reported == {
        "spec.yaml": there,
        "../nodir/spec.yaml": there,
        "../foo.yaml": there,
        "..": "name the spec in it: ../spec.yaml",
        ".": "name a file",
    }
    (tmp_path / "spec.yaml").unlink()
    with pytest.raises(SpecError) as caught:
        load_spec(Path("nodir/spec.yaml"))
    assert caught.value.hint == "correct the path: no nodir"


def test_a_package_alone_is_no_file(tmp_path: Path) -> None:
    """``requirements: numpy`` means a package where no such file is; a file's name stays a file's."""
    spec = tmp_path / "spec.yaml"
    reported = []
    for text in ("numpy>=2", "requirements.txt", "-r x"):
        spec.write_text(f"name: x\nrequirements: {text}\n")
        with pytest.raises(SpecError) as caught:
            load_spec(spec)
        reported.append(caught.value.problems[0].message)
    assert reported == [
        'no file "numpy>=2" in the spec\'s folder — for a package, write a list: [numpy>=2]',
        'no file "requirements.txt" in the spec\'s folder',
        'no file "-r x" in the spec\'s folder',
    ]


def test_bytes_that_are_not_utf8_are_reported_with_their_line(tmp_path: Path) -> None:
    """A file in another encoding is refused, not guessed; a byte order mark is no matter."""
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(b"name: x\n# caf\xe9\n")
    with pytest.raises(SpecError, match="line 2   not UTF-8 text: byte 0xe9"):
        load_spec(spec)
    spec.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert load_spec(spec).name == "x"


# --- digest --------------------------------------------------------------------------------------------------------


def test_the_digest_is_of_the_meaning() -> None:
    """Comments, layout, quotes and spelled-out defaults make no difference."""
    short = parse_spec("name: x\nhardware: {cpu: v3}\n")
    rest = "python: '3.11'\npackages: []\nhardware: {cpu: x86-64-v3}\n"
    long = parse_spec(f"# hi\nos:\n  release: 'debian-12'\nname: \"x\"\n{rest}")
    assert spec_digest(short) == spec_digest(long)


@pytest.mark.parametrize(
    "change",
    ["os: debian-13", "packages: [git]", "requirements: [numpy]", "determinism: {strict: false}", "env: {A: ''}"],
)
def test_the_digest_shows_every_change(change: str) -> None:
    """A change of any value makes another digest."""
    base = parse_spec("name: x\n")
    assert spec_digest(parse_spec(f"name: x\n{change}\n")) != spec_digest(base)


def test_the_digest_is_fixed() -> None:
    """Locks hold it: the digest of a spec may only change on purpose."""
    assert spec_digest(parse_spec("name: x\n")) == "0b4a3050297053d574c45b86ba2f255f22fcee39763dd5a8eb4932c07bada84e"


def test_variables_that_the_policy_derives_from_the_spec_are_refused() -> None:
    """A variable that seed or threads decide cannot be set behind their back."""
    from envbuild.determinism import policy

    derived = {row.name for row in policy.explain() if "{seed}" in row.value or "{threads}" in row.value}
    assert derived <= set(DECIDED)


def test_sources_are_names_or_all() -> None:
    """Names are normalised, ``all`` stands alone or in a list, and build packages have no versions."""
    text = "name: n\nsources: [Seq_Eval, rouge.score]\nbuild-packages: [gcc, python3-dev]\n"
    assert parse_spec(text).sources == ("seq-eval", "rouge-score")
    assert parse_spec(text).build_packages == ("gcc", "python3-dev")
    assert parse_spec("name: n\nsources: all\n").sources == ("all",)
    assert parse_spec("name: n\n").sources == ()
    for line, words in (
        ("sources: some", "sources"),
        ("sources: [a b]", "is no name of a package"),
        ("build-packages: [gcc=1.0]", "write gcc"),
    ):
        (found,) = problems(f"name: n\n{line}\n")
        assert words in found


def test_build_requirements_are_of_packages_that_are_built() -> None:
    """By normalised name; what is stated of a package that has a wheel would mean nothing."""
    text = "name: n\nsources: [Flash_Attn]\nbuild-requirements: {flash-attn: ['torch == 2.14.1', ninja]}\n"
    assert parse_spec(text).build_requirements == {"flash-attn": ("torch==2.14.1", "ninja")}
    assert parse_spec("name: n\nsources: all\nbuild-requirements: {a: [b]}\n").build_requirements == {"a": ("b",)}
    for lines, words in (
        ("build-requirements: {a: [b]}", "2 build-requirements.a: nothing is built of it — write sources: [a]"),
        ("sources: [b]\nbuild-requirements: {a: [b]}", "3 build-requirements.a: nothing is built of it"),
        (
            "sources: all\nbuild-requirements: {a b: [c]}",
            '3 build-requirements.a b: "a b" is no name of a package — e.g.',
        ),
        ("sources: all\nbuild-requirements: {a: ['c @ https://x.example/c.whl']}", "3 build-requirements.a[0]: "),
    ):
        (found,) = problems(f"name: n\n{lines}\n")
        assert words in found


def test_variables_of_builds_are_not_those_that_make_builds_equal() -> None:
    """Values are taken as typed."""
    assert parse_spec("name: n\nbuild-env: {TORCH_CUDA_ARCH_LIST: 9.0}\n").build_env == {"TORCH_CUDA_ARCH_LIST": "9.0"}
    for name, words in (("SOURCE_DATE_EPOCH", "is set by envbuild for every build"), ("a-b", "is not a variable name")):
        (found,) = problems(f"name: n\nbuild-env: {{{name}: 1}}\n")
        assert words in found


_ARCHIVE = "{name: v, url: 'https://a.example.invalid/apt', suite: s, key: v.asc}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{components: [main, universe]}", "2 os.components: debian-12 has no universe — it has main, contrib, "),
        ("{release: noble, components: [main, contrib]}", "2 os.components: ubuntu-24.04 has no contrib — it has main"),
        ("{components: [contrib]}", "2 os.components: main is missing, which has the system itself"),
        ("{components: [mian]}", "2 os.components[0]: expected main, contrib, "),
        ("{archives: {}}", "2 os.archives: expected a list of mappings, one for each archive"),
        ("{archives: [{name: v}]}", "2 os.archives[0].url: missing"),
        (f"{{archives: [{_ARCHIVE}, {_ARCHIVE}]}}", "2 os.archives: two archives are called v"),
        (
            f"{{archives: [{_ARCHIVE.replace('name: v', 'name: ubuntu')}]}}",
            "2 os.archives[0].name: ubuntu is an archive",
        ),
        (f"{{archives: [{_ARCHIVE.replace('https://', 'https://me:pw@')}]}}", "2 os.archives[0].url: "),
        (f"{{archives: [{_ARCHIVE.replace('/apt', '/{snapshot}')}]}}", "2 os.archives[0].url: has {snapshot}, but"),
        (
            f"{{archives: [{_ARCHIVE.replace('suite: s', 'suite: ../s')}]}}",
            '2 os.archives[0].suite: "../s" is not a suite',
        ),
        (f"{{archives: [{_ARCHIVE.replace('v.asc', '../v.asc')}]}}", "2 os.archives[0].key: "),
        (
            f"{{archives: [{_ARCHIVE.replace('suite: s', 'suite: /, components: [main]')}]}}",
            "2 os.archives[0].components: an archive without suites has no components",
        ),
    ],
)
def test_mistakes_about_archives_have_their_sentence(text: str, sentence: str) -> None:
    """What a release has, what an archive needs, and what would let one stand in for the release's own."""
    with pytest.raises(SpecError) as caught:
        parse_spec(f"name: x\nos: {text}\n")
    found = [f"{problem.line} {problem.path}: {problem.message}" for problem in caught.value.problems]
    assert any(line.startswith(sentence) for line in found), found


def test_archives_and_components_are_read() -> None:
    """A component is assumed where there are suites; locks of specs without them stay fresh."""
    found = parse_spec(f"name: x\nos: {{release: jammy, components: [main, multiverse], archives: [{_ARCHIVE}]}}\n")
    assert (found.python, found.os.release, found.os.components) == ("3.10", "ubuntu-22.04", ("main", "multiverse"))
    (archive,) = found.os.archives
    assert (archive.name, archive.suite, archive.components, archive.key) == ("v", "s", ("main",), "v.asc")
    flat = parse_spec(f"name: x\nos: {{archives: [{_ARCHIVE.replace('suite: s', 'suite: /')}]}}\n").os.archives[0]
    assert (flat.suite, flat.components) == ("/", ())
    assert parse_spec("name: x\nos: {archives: []}\n") == parse_spec("name: x\n")


def test_the_key_s_file_must_be_there(tmp_path: Path) -> None:
    """It is read when the spec is locked, and its digest is an input."""
    path = tmp_path / "spec.yaml"
    path.write_text(f"name: x\nos: {{archives: [{_ARCHIVE}]}}\n")
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert [problem.message for problem in caught.value.problems] == ['no file "v.asc" in the spec\'s folder']
    (tmp_path / "v.asc").write_bytes(b"key")
    assert resolution_inputs(load_spec(path), path)["v.asc"] == sha256_bytes(b"key")


def test_a_spec_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A FIFO has nobody who writes."""
    os.mkfifo(tmp_path / "spec.yaml")
    with pytest.raises(SpecError) as raised:
        load_spec(tmp_path / "spec.yaml")
    assert "not a regular file" in str(raised.value)


def test_a_password_in_a_requirement_is_not_printed() -> None:
    """Messages of a pipeline are read by many."""
    with pytest.raises(SpecError) as raised:
        parse_spec('name: p\nrequirements: ["--index-url https://user:s3cret@index.invalid/"]\n')
    assert "index.invalid" in str(raised.value)
    assert "s3cret" not in str(raised.value)
