"""What is said of a build step that failed without a container engine."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuild.core.fs import NO_SPACE, SYSTEM_FOLDERS, is_full
from envbuild.core.limits import explained
from envbuild.engine.docker import step as docker_step
from envbuild.engine.local import namespace_step, namespaces, self_check
from envbuild.engine.local.ways import Way
from envbuild.engine.protocol import TreeStep
from envbuild.errors import BuildError, EngineError


def test_a_full_disk_is_the_stores_and_no_refusal_of_an_engine() -> None:
    """Exit code 14, as where the store itself finds its disk full, whoever finds it: the script, or the kernel."""
    step = TreeStep(fill=lambda stream: None, command=("dpkg", "--unpack"), environment={})
    printed = namespaces._failed(step, 2, "unpacking\ndpkg: error: No space left on device\n")
    assert (type(printed), printed.message) == (
        BuildError, "cannot run a build step: dpkg: error: No space left on device",
    )  # fmt: skip
    printed = namespaces._failed(step, 2, "unpacking\ndpkg: error: Disk quota exceeded\n")
    assert printed.message == "cannot run a build step: dpkg: error: Disk quota exceeded"
    refused = namespaces._refused({"failed": "No space left on device", "reason": errno.ENOSPC})
    assert refused.message == "cannot run a build step: No space left on device"
    for number, reason in (
        (errno.ENOSPC, "no space left on device"),
        (errno.EDQUOT, "no space left within the disk quota (quota -s)"),
    ):
        refused = namespaces._refused({"failed": "mount /proc", "reason": number})
        assert (refused.exit_code, refused.message) == (14, f"cannot run a build step: mount /proc: {reason}")


@pytest.mark.parametrize(("failed", "reason"), [("make a user namespace", errno.ENOSPC), ("mount /proc", errno.EPERM)])
def test_what_the_kernel_refuses_is_a_refusal_of_the_engine(failed: str, reason: int) -> None:
    """A limit of namespaces is ``ENOSPC`` too, and no full disk."""
    assert type(namespaces._refused({"failed": failed, "reason": reason})) is EngineError


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_limit_that_a_step_meets_is_named(number: int) -> None:
    """Whatever it was to do: another engine would not help."""
    refused = namespaces._refused({"failed": "prepare the step", "reason": number})
    limit = explained(OSError(number, ""))
    assert limit is not None
    assert (type(refused), refused.message, refused.hint) == (
        BuildError, f"cannot run a build step: {limit[0]}", limit[1],
    )  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "install.sh: 41: Cannot fork",
        "bash: fork: retry: Resource temporarily unavailable",
        "dpkg: unrecoverable fatal error, aborting:\n fork failed: Resource temporarily unavailable",
        "RuntimeError: can't start new thread",
    ],
)
def test_a_limit_of_processes_that_a_steps_programs_meet_is_named(line: str) -> None:
    """With what they printed: a script's exit code of 2 says nothing."""
    step = TreeStep(fill=lambda stream: None, command=("sh", "install.sh"), environment={})
    failed = namespaces._failed(step, 2, f"unpacking\n{line}\n")
    start = "sh install.sh failed with exit code 2: cannot start another process or thread"
    assert (failed.message.startswith(start), line.splitlines()[0] in failed.message) == (True, True)
    assert "ulimit -u" in failed.hint
    failed = namespaces._failed(step, 2, "tar: a: Too many open files")
    assert "exit code 2: too many open files: the limit is " in failed.message
    other = namespaces._failed(step, 2, "unpacking\nfork of a project\n")
    assert (other.message, other.hint) == (
        "sh install.sh failed with exit code 2; the end of its output:\n  unpacking\n  fork of a project", "",
    )  # fmt: skip


def test_what_found_the_disk_full_is_said_whatever_was_printed_after_it() -> None:
    """dpkg names the file, goes on, and ends with a list of packages."""
    step = TreeStep(fill=lambda stream: None, command=("dpkg", "--unpack"), environment={})
    text = "dpkg: error processing a.deb: No space left on device\nErrors were encountered while processing:\n a.deb\n"
    assert namespaces._failed(step, 2, text).message.endswith("processing a.deb: No space left on device")
    for module in (namespace_step, docker_step):
        assert (
            module._line_with(module._FULL, b"a\nx: No space left on DEVICE\nb").strip()
            == b"x: No space left on DEVICE"
        )
        assert module._line_with(module._FULL, b"a\nb") == b""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_cannot_be_written_is_no_answer_for_good(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room again programs run, though this run of the machine is the same; a full disk is exit code 14.

    A store that may not be written is no fault of the engine (exit code 2); another folder is.
    """
    way = Way(root="overlay", folder=str(tmp_path / "runs"), prefix=(), why="")
    found: list[Any] = [OSError(number, "reason", "place"), way]

    def find(scratch: Path) -> Any:
        if isinstance(each := found.pop(0), OSError):
            raise each
        return each

    monkeypatch.setattr(self_check, "_find", find)
    if number in NO_SPACE:
        with pytest.raises(BuildError, match=r"^no space left (on device|within the disk quota \(quota -s\)): place$"):
            self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot")
    else:
        found.insert(0, OSError(number, "reason", f"{tmp_path}/runs/run-1"))
        with pytest.raises(OSError, match="reason"):
            self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot")
        assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot")[0] == "cannot write to place: reason"
    for _ in range(2):  # the second answer is the kept one
        assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot") == way


def test_what_the_kernel_refuses_is_no_answer_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's filter of system calls shows nowhere, and its store may be that of the machine, which has none."""
    way = Way(root="overlay", folder=str(tmp_path / "runs"), prefix=(), why="")
    found: list[Any] = [("the kernel does not let this user make namespaces", "hint"), way]
    monkeypatch.setattr(self_check, "_find", lambda scratch: found.pop(0))
    assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot") == (
        "the kernel does not let this user make namespaces",
        "hint",
    )
    for _ in range(2):
        assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot") == way


def test_what_works_in_one_container_is_tried_in_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may share a store, a user and a user namespace, and differ in rights, filters and hidden parts of /proc."""
    way = Way(root="overlay", folder=str(tmp_path / "runs"), prefix=(), why="")
    tried: list[Path] = []
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(self_check, "_find", lambda scratch: tried.append(scratch) or way)
    for confinement in (["CapBnd: 0"], ["CapBnd: 0"], ["CapBnd: 0", "/proc/kcore"], ["CapBnd: 1"]):
        monkeypatch.setattr(self_check, "_confinement", lambda found=confinement: found)
        assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot") == way
    assert len(tried) == 3


def test_a_container_that_hides_parts_of_proc_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Docker's do without more rights: ``mount`` of a new one is then refused to all but the machine's root."""
    monkeypatch.setattr(self_check, "_hidden", lambda: ["/proc/acpi", "/proc/kcore"])
    why, hint = self_check._explained("mount /proc", errno.EPERM)
    assert why == (
        "the kernel does not let this user mount /proc: Operation not permitted, since parts of this container's own "
        "/proc are hidden (/proc/acpi)"
    )
    assert hint.startswith("start the container with --security-opt systempaths=unconfined (podman: unmask=ALL)")
    monkeypatch.setattr(self_check, "_hidden", list)
    assert self_check._explained("mount /proc", errno.EPERM)[0].endswith("Operation not permitted")


def test_a_root_without_devices_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As somebody makes one for ``chroot``: another disk for the store, as advised before, would not help."""
    missing = OSError(errno.ENOENT, "No such file or directory", "/dev/null")
    monkeypatch.setattr(self_check, "_find", lambda scratch: (_ for _ in ()).throw(missing))
    why, hint = self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot")
    assert why == "cannot use /dev/null: No such file or directory"
    assert hint == SYSTEM_FOLDERS
    assert self_check._explained("use /proc/self/mountinfo", errno.ENOENT) == (
        "cannot use /proc/self/mountinfo: No such file or directory",
        SYSTEM_FOLDERS,
    )


def test_what_a_step_can_be_shown_without_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that everybody may read, where it can have another name; nothing is left of the attempt."""
    scratch = tmp_path / "steps"
    steps = namespaces.NamespaceSteps(scratch)
    for mode, shown in ((0o444, True), (0o400, False)):
        file = tmp_path / f"{mode:o}"
        file.touch(mode)
        assert steps.shows(file) is shown

    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(namespaces.os, "link", refuse)
    assert not steps.shows(tmp_path / "444")
    assert list(scratch.iterdir()) == []


def test_a_full_disk_is_named_where_no_output_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dpkg's children write over each other, and a garbled line says nothing; advice about packages would mislead."""
    step = TreeStep(fill=lambda stream: None, command=("dpkg", "--unpack"), environment={})
    assert namespaces._failed(step, 2, "cannot copy ./sbin/mkfdpkg-deb: error", full=True).message == (
        "cannot run a build step: dpkg --unpack failed with exit code 2: no space left on device"
    )
    assert not is_full(tmp_path / "none")
    for blocks, files, free, full in ((0, 9, 9, True), (99, 9, 0, True), (99, 0, 0, False), (99, 9, 9, False)):
        found = SimpleNamespace(f_bavail=blocks, f_frsize=4096, f_files=files, f_favail=free)
        monkeypatch.setattr("os.statvfs", lambda path, found=found: found)
        assert is_full(tmp_path) == full


def _refuse(*arguments: Any, **options: Any) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ("pathlib.Path.symlink_to", "symbolic links"),
        ("pathlib.Path.chmod", "modes"),
        ("os.utime", "times to the second"),
        ("os.chown", "owners that root gives (NFS: root_squash)"),
    ],
)
def test_file_systems_that_lose_what_images_have(
    call: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAT, exFAT, NTFS, NFS with ``root_squash``: named before anything is fetched or built, and not remembered."""
    monkeypatch.setattr(self_check, "gives_owners", lambda: call == "os.chown")
    real = Path.chmod  # Python 3.10 keeps functions of os in pathlib

    def chmod(path: Path, mode: int, **options: Any) -> None:
        if mode == 0o751:
            _refuse()
        real(path, mode, **options)

    fakes = {"pathlib.Path.chmod": chmod, "os.utime": lambda *arguments: None}
    monkeypatch.setattr(call, fakes.get(call, _refuse))
    way = Way(root="overlay", folder=str(tmp_path / "runs"), prefix=(), why="")
    monkeypatch.setattr(self_check, "_find", lambda scratch: way)
    found = self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot")
    assert found == (
        f"the file system of {tmp_path}/runs does not keep {lost}, which images need",
        "choose another disk: export ENVBUILD_STORE=FOLDER",
    )
    monkeypatch.undo()
    monkeypatch.setattr(self_check, "_find", lambda scratch: way)
    assert self_check.find_way(tmp_path / "runs", tmp_path / "notes", "boot") == way
    assert list((tmp_path / "runs").iterdir()) == []
