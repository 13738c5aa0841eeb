"""What moved between two locks, as a pull request shows it."""

from __future__ import annotations

import msgspec

from envbuild.cli.render.lock import change_lines, markdown
from envbuild.lockfile.changes import Change, changes, cves
from envbuild.lockfile.hardware import Hardware
from envbuild.lockfile.model import Lock
from envbuild.resolve.debian.relations import version_key
from tests.support.locks import small_lock

CHANGELOG = """\
openssl (3.0.18-1~deb12u2) bookworm-security; urgency=medium

  * CVE-2026-1111 (a leak)
  * CVE-2026-2222, CVE-2026-1111 again

 -- A Person <a@example.invalid>  Mon, 02 Feb 2026 10:00:00 +0000

openssl (3.0.17-1~deb12u1) bookworm; urgency=medium

  * CVE-2025-3333

openssl (3.0.16-1~deb12u1) bookworm; urgency=medium

  * CVE-2024-4444
"""


def _lock(wheels: list[str], debs: list[str]) -> Lock:
    lock = small_lock(
        {f"{name}-py3-none-any.whl": name.encode() for name in wheels}, {f"{d}.deb": d.encode() for d in debs}
    )
    return msgspec.structs.replace(lock, frameworks={p.name: p.version for p in lock.packages if p.name == "jax"})


def test_what_moved_is_reported_by_weight() -> None:
    """Frameworks are first and bold, other Debian packages fold away, CVE numbers stand by their package."""
    old = _lock(["jax-0.9.1", "numpy-2.4.0", "gone-1.0"], ["libc6_2.36-9_amd64", "openssl_3.0.16-1_amd64"])
    new = _lock(["jax-0.10.2", "numpy-2.4.0"], ["libc6_2.36-10_amd64", "openssl_3.0.18-1_amd64"])
    text = markdown("pylock.t.toml", changes(old, new), {"openssl": ("CVE-2026-1111",)})
    assert text == (
        "## pylock.t.toml: 2 wheels, 2 Debian packages moved\n"
        "\n"
        "**Results will change**: jax computes them. Compare before merging: `envbuild verify`.\n"
        "\n"
        "Security, by the changelogs of the Debian packages:\n"
        "\n"
        "- **openssl** fixes CVE-2026-1111\n"
        "\n"
        "| what | from | to |\n"
        "|---|---|---|\n"
        "| **jax** | 0.9.1 | 0.10.2 |\n"
        "| libc6 | 2.36-9 | 2.36-10 |\n"
        "| gone | 1.0 | — |\n"
        "\n"
        "<details><summary>1 other Debian package</summary>\n"
        "\n"
        "| package | from | to |\n"
        "|---|---|---|\n"
        "| openssl | 3.0.16-1 | 3.0.18-1 |\n"
        "\n"
        "</details>\n"
    )


def test_nothing_moved() -> None:
    """Equal locks need one line."""
    lock = _lock(["jax-0.9.1"], [])
    assert markdown("pylock.t.toml", changes(lock, lock), {}) == "## pylock.t.toml: nothing moved\n"


def test_the_same_version_in_another_file_is_reported() -> None:
    """A file replaced under its version is a move, shown by digest."""
    old = small_lock({"a-1.0-py3-none-any.whl": b"one"})
    new = small_lock({"a-1.0-py3-none-any.whl": b"other"})
    files = ("7692c3ad3540", "d9298a10d1b0")
    (change,) = changes(old, new)
    assert change == Change(kind="python", name="a", before="1.0", after="1.0", files=files)
    assert "| a | 1.0 (7692c3ad3540) | 1.0 (d9298a10d1b0) |" in markdown("p", [change], {})
    assert change_lines([change]) == []


def test_settings_and_facts_are_reported() -> None:
    """Variables and hardware are compared too; markup in values is escaped."""
    old = small_lock()
    new = msgspec.structs.replace(old, environment={"LANG": "C|*"}, hardware=Hardware(cpu="x86-64-v3"))
    text = markdown("p", changes(old, new), {})
    assert "| LANG | C.UTF-8 | C\\|\\* |" in text
    assert "| hardware.cpu | — | x86-64-v3 |" in text
    assert text.startswith("## p: 2 settings moved\n\nResults may change")


def test_another_emulator_is_reported() -> None:
    """It is no part of the image, and what the build steps for another architecture run in."""
    (package,) = _lock([], ["qemu-user_7.2_amd64"]).os.packages
    newer = msgspec.structs.replace(package, version="7.3")
    old, new = (msgspec.structs.replace(small_lock(), emulators=(each,)) for each in (package, newer))
    assert "| emulator on amd64 | qemu-user 7.2 | qemu-user 7.3 |" in markdown("p", changes(old, new), {})


def test_only_unrelated_packages_moved() -> None:
    """A moved package that computes nothing is reported to leave results alone; unread changelogs are admitted."""
    found = changes(_lock([], ["tar_1.34-1_amd64"]), _lock([], ["tar_1.35-1_amd64"]))
    text = markdown("p", found, None)
    assert "Results should stay: only packages changed that do not affect them." in text
    assert "the changelogs of the moved Debian packages could not be read" in text


def test_cve_numbers_of_new_entries_only() -> None:
    """Numbers are taken from entries newer than the version before, each once, in order."""
    since = version_key("3.0.17-1~deb12u1")
    found = cves(CHANGELOG, lambda version: version_key(version) > since)
    assert found == ("CVE-2026-1111", "CVE-2026-2222")
    assert cves("no changelog at all", lambda version: True) == ()
