"""What experiments with clocks compare of a log that begins new files when one is full: all of them, as one."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from envbuild.core.digest import sha256_bytes
from envbuild.operations.verification.clock import _Bench
from envbuild.operations.verification.laboratory import Laboratory
from envbuild.operations.verification.session import Session
from envbuild.record.model import Output
from envbuild.verification.content import read_file
from envbuild.verification.files import masks_of
from envbuild.verification.ran import Ran
from tests.support.records import record

FILES = {"app.log": b"six\n", "app.log.1": b"four\nfive\n", "app.log.2": b"one\ntwo\n", "w": b"7"}


def test_the_files_of_a_log_are_read_as_one(tmp_path: Path) -> None:
    """A result in an older file is compared too; none of it is if one of them was not read."""
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    outputs = {
        name: Output(path=name, change="created", size=len(data), sha256=sha256_bytes(data))
        for name, data in FILES.items()
    }
    known = record(outputs=tuple(outputs.values()), metrics={})
    content = read_file(tmp_path / "app.log", masks_of(known))
    assert content is not None
    assert content.parts == {"app.log.1", "app.log.2"}
    bench = _Bench(session=cast("Session", None), laboratory=cast("Laboratory", None), known=())
    bench.ran = [Ran(record=known, contents={"app.log": content})]
    bench.found, bench.copies = [None], [dict(FILES)]
    assert bench.data(0, outputs["app.log"]) == b"one\ntwo\nfour\nfive\nsix\n"
    assert bench.data(0, outputs["w"]) == b"7"
    bench.ran = [
        Ran(
            record=record(outputs=(outputs["app.log"], outputs["app.log.2"]), metrics={}), contents={"app.log": content}
        )
    ]
    assert bench.data(0, outputs["app.log"]) is None
