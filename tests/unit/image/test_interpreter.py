"""The interpreter that compiles modules: what of its packages is unpacked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from envbuild.image.bytecode.interpreter import fill_interpreter
from tests.support.debs import Member
from tests.unit.image.test_rootfs import Archive

MODULES = "./usr/lib/python3.11/lib-dynload"
KEPT = {
    "usr/bin/python3.11",
    "usr/lib/python3.11/encodings/idna.py",
    "usr/lib/python3.11/lib-dynload/_codecs_tw.so",
    "usr/lib/python3.11/lib-dynload/_lzma.so",
    "usr/lib/python3.11/lib-dynload/_multibytecodec.so",
    "usr/lib/python3.11/lib-dynload/unicodedata.so",
    "usr/lib/libz.so.1",
}


def test_the_compiler_finds_all_that_it_imports_by_itself(tmp_path: Path) -> None:
    """Every codec stays, since a source may state any encoding, and unicodedata; TLS and databases stay out."""
    archive = Archive(tmp_path)
    archive.add("dash", [])
    left_out = ("./usr/lib/libcrypto.so.3", "./usr/lib/libdb-5.3.so", f"{MODULES}/_ssl.so", "./usr/bin/dpkg-deb")
    members = [*(f"./{path}" for path in KEPT), *left_out]
    archive.add("python3.11", [Member(name=name, data=b"x", mode=0o755) for name in sorted(members)])
    output = io.BytesIO()
    fill_interpreter(archive.os, archive.path, output)
    output.seek(0)
    with tarfile.open(fileobj=output, mode="r|", ignore_zeros=True) as tar:
        files = {member.name for member in tar if member.isreg()}
    assert {name for name in files if name.startswith("usr/")} == KEPT
