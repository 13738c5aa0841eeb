"""The file system that layers make together."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from envbuild.errors import BuildError
from envbuild.image.oci.flatten import flattened

Members = dict[str, str | None]


def layer(path: Path, members: Members) -> Path:
    """Write a layer: content by name, None for a folder, ``-> target`` a link, ``=> target`` a hard link."""
    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            if text is None:
                member.type = tarfile.DIRTYPE
            elif text.startswith("-> "):
                member.type, member.linkname = tarfile.SYMTYPE, text[3:]
            elif text.startswith("=> "):
                member.type, member.linkname = tarfile.LNKTYPE, text[3:]
            else:
                member.size = len(text)
            tar.addfile(member, io.BytesIO((text or "").encode()) if member.isreg() else None)
    return path


def result(folder: Path, *layers: Members) -> Members:
    """What comes out, in the same words."""
    paths = [layer(folder / f"{number}.tar", members) for number, members in enumerate(layers)]
    found: Members = {}
    with flattened(paths) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                found[member.name] = content.read().decode()
            else:
                kind = {tarfile.SYMTYPE: f"-> {member.linkname}", tarfile.LNKTYPE: f"=> {member.linkname}"}
                found[member.name] = kind.get(member.type)
    return found


def test_upper_layers_replace_and_remove(tmp_path: Path) -> None:
    """A file takes another's place, a whiteout its name and all below, an opaque folder what is below it."""
    assert result(
        tmp_path,
        {"./": None, "./a": None, "./a/x": "1", "./a/y": "2", "./b": None, "./b/x": "3", "./c": None, "./c/x": "4"},
        {"a/x": "new", "b/.wh..wh..opq": "", "b": None, "b/z": "5", ".wh.c": "", "d": "-> a"},
        {"a/.wh.y": "", "d": None, "d/e": "6"},
    ) == {"a": None, "a/x": "new", "b": None, "b/z": "5", "d": None, "d/e": "6"}


def test_a_folder_that_becomes_a_file_takes_all_with_it(tmp_path: Path) -> None:
    """And the other way round; a whiteout hides nothing of its own layer."""
    assert result(
        tmp_path,
        {"a": None, "a/x": "1", "b": "2", "c": "3"},
        {"a": "file", "b": None, "b/y": "4", ".wh.c": "", "c": "5"},
    ) == {"a": "file", "b": None, "b/y": "4", "c": "5"}


def test_hard_links_keep_their_file(tmp_path: Path) -> None:
    """Where the first name is gone, or another file by now, the other name still has the content."""
    assert result(
        tmp_path,
        {"one": "1", "two": "=> one", "three": "3", "four": "=> three", "five": "5", "six": "=> ./five"},
        {".wh.one": "", "three": "other"},
    ) == {"two": "1", "three": "other", "four": "3", "five": "5", "six": "=> five"}


@pytest.mark.parametrize("data", [b"", b"no tar at all" * 100])
def test_what_is_no_tar_is_refused(data: bytes, tmp_path: Path) -> None:
    """With an error of envbuild's own."""
    (tmp_path / "layer.tar").write_bytes(data)
    refusal = pytest.raises(BuildError, match=r"^a layer of the base image is no sound tar: ")
    with refusal, flattened([tmp_path / "layer.tar"]) as stream:
        stream.read()


def test_a_fault_while_it_is_written_is_no_empty_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in the thread ends the build, though the stream looks like a tar that has ended."""

    def fault(self: tarfile.TarFile, *arguments: object) -> None:
        raise AttributeError("as of another Python")

    path = layer(tmp_path / "layer.tar", {"a": "1"})
    monkeypatch.setattr(tarfile.TarFile, "addfile", fault)
    with pytest.raises(AttributeError, match="as of another Python"), flattened([path]) as stream:
        stream.read()
