"""The install plan: essential packages first, Pre-Depends configured before they are needed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from envbuild.core.package_data import template_dir
from envbuild.errors import BuildError
from envbuild.image.os.bootstrap import Action, Package, essential, install_plan, render


def package(name: str, **fields: str) -> Package:
    return Package(
        name=name, file=f"{name}_1_all.deb", fields={key.replace("_", "-"): value for key, value in fields.items()}
    )


BASE = [
    package("base-passwd", Essential="yes", Depends="libc6 (>= 2.34), libdebconf"),
    package("base-files", Essential="yes", Pre_Depends="awk"),
    package("dpkg", Essential="yes", Pre_Depends="libc6:any (>= 2.36) [amd64]", Depends="tar"),
    package("libc6", Depends="libgcc-s1"),
    package("libgcc-s1", Depends="libc6"),
    package("libdebconf"),
    package("mawk", Provides="awk (= 1), nawk", Pre_Depends="libc6"),
    package("tar", Depends="missing-here | libc6"),
]


def test_essential_packages_bring_all_they_depend_on() -> None:
    """The seed is closed: alternatives, providers, qualifiers and cycles are followed; others stay out."""
    assert essential([*BASE, package("git", Depends="libc6")]) == {item.name for item in BASE}


def test_a_set_without_dpkg_is_refused() -> None:
    """Without dpkg nothing could be installed, so it is reported before a container starts."""
    with pytest.raises(BuildError) as caught:
        essential([package("git")])
    assert caught.value.message == "the lock's OS packages hold no essential dpkg: nothing could be installed"


def test_the_order_of_the_packages_does_not_matter() -> None:
    """The same set gives the same plan, byte for byte."""
    packages = [*BASE, package("git"), package("vim", Pre_Depends="git"), package("zsh", Depends="vim")]
    expected = render(install_plan(packages))
    for seed in range(5):
        shuffled = packages.copy()
        random.Random(seed).shuffle(shuffled)
        assert render(install_plan(shuffled)) == expected


def test_base_packages_come_first_and_by_force() -> None:
    """The users' database and the directory tree exist before anything else is unpacked."""
    assert install_plan(BASE) == (
        Action(verb="bootstrap", words=("base-passwd_1_all.deb", "base-files_1_all.deb")),
        Action(
            verb="force",
            words=(
                "dpkg_1_all.deb",
                "libc6_1_all.deb",
                "libdebconf_1_all.deb",
                "libgcc-s1_1_all.deb",
                "mawk_1_all.deb",
                "tar_1_all.deb",
            ),
        ),
        Action(verb="configure"),
        Action(verb="configure"),
    )


def test_pre_depends_are_configured_before_they_are_needed() -> None:
    """A package waits until what it pre-depends on is configured, with everything that depends on in turn."""
    packages = [
        *BASE,
        package("python3-minimal", Pre_Depends="python3.11-minimal"),
        package("python3.11-minimal", Depends="libpython3.11"),
        package("libpython3.11"),
        package("tool", Depends="python3-minimal"),
    ]
    assert install_plan(packages)[3:] == (
        Action(verb="unpack", words=("libpython3.11_1_all.deb", "python3.11-minimal_1_all.deb", "tool_1_all.deb")),
        Action(verb="configure", words=("libpython3.11", "python3.11-minimal")),
        Action(verb="unpack", words=("python3-minimal_1_all.deb",)),
        Action(verb="configure"),
    )


def test_a_cycle_of_pre_depends_is_forced() -> None:
    """What can never be satisfied in order is unpacked by force rather than never."""
    packages = [*BASE, package("aa", Pre_Depends="bb"), package("bb", Pre_Depends="aa")]
    assert install_plan(packages)[3:] == (
        Action(verb="force", words=("aa_1_all.deb", "bb_1_all.deb")),
        Action(verb="configure"),
    )


def test_the_plan_is_one_line_per_action() -> None:
    """The shell reads a verb and words."""
    assert render([Action(verb="unpack", words=("a.deb", "b.deb")), Action(verb="configure")]) == (
        b"unpack a.deb b.deb\nconfigure\n"
    )


@pytest.mark.subprocess
def test_a_full_disk_is_named_however_much_dpkg_prints_after_it(tmp_path: Path) -> None:
    """It goes on with the other packages, which may be sixty lines and more, and makes room as it cleans up."""
    text = (template_dir() / "os-install.sh").read_text()
    functions = text[text.index("act() {") : text.index("# Java's store")]
    (tmp_path / "dpkg").write_text(
        "#!/bin/sh\necho \"unable to create './a': No space left on device\"\n"
        'for number in $(seq 99); do echo "Unpacking $number"; done\nexit 1\n'
    )
    (tmp_path / "dpkg").chmod(0o755)
    (tmp_path / "debs").mkdir()
    (tmp_path / "plan").write_text("unpack a.deb\n")
    done = subprocess.run(
        ["/bin/sh", "-c", f"set -euf\nwork={tmp_path}\nPATH={tmp_path}:$PATH\n{functions}\ninstall_packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0]) == (1, "unable to create './a': No space left on device")
    assert (len(lines), lines[-1]) == (61, "Unpacking 99")
