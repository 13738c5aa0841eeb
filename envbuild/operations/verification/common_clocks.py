"""Streams that differ, without the times of day that all runs have in the same place (``masking.days``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from envbuild.record.compare_printed import several_processes
from envbuild.record.printed import KEPT_TEXT, STREAMS, Printed, Stream, kept
from envbuild.verification.files import stream_masks
from envbuild.verification.masking.days import Clocks, in_common
from envbuild.verification.masking.printed import PrintedDigest
from envbuild.verification.ran import Ran

_Texts = Callable[[Ran, Stream], bytes | None]


def kept_in(project: Path) -> _Texts:
    """Return what returns what runs of a project printed; None if that is not known, or not as a whole."""

    def text_of(run: Ran, stream: Stream) -> bytes | None:
        text = kept(project, run.record.id, stream)
        return None if text is None or len(text) >= KEPT_TEXT else text

    return text_of


def with_common_clocks(runs: Sequence[Ran], text_of: _Texts, ignore: Sequence[str]) -> list[Ran]:
    """Return runs with other digests of streams that differ, if all runs have times of day in common in them.

    Streams of which the text is not known stay as they are, and lines that come in any order.

    Args:
        runs: all that are compared.
        text_of: returns what a run printed.
        ignore: as for ``judge``.
    """
    found = [*runs]
    if several_processes(*(each.record for each in runs)):
        return found
    for stream in STREAMS:
        if len({(run.stdout if stream == "stdout" else run.stderr).sha256 for run in runs}) < 2:
            continue
        texts = [text for run in runs if (text := text_of(run, stream)) is not None]
        if len(texts) < len(runs):
            continue
        noted = [Clocks() for _ in runs]
        for run, text, clocks in zip(runs, texts, noted, strict=True):
            _digested(run, stream, text, clocks, ignore)
        common = in_common([clocks.found for clocks in noted])
        if not common and not any(run.clocks.get(stream) for run in runs):
            continue
        for at, (run, text) in enumerate(zip(found, texts, strict=True)):
            printed = _digested(run, stream, text, Clocks(common), ignore)
            changed = replace(run, clocks={**run.clocks, stream: common})
            found[at] = replace(changed, stdout=printed) if stream == "stdout" else replace(changed, stderr=printed)
    return found


def _digested(run: Ran, stream: Stream, text: bytes, clocks: Clocks, ignore: Sequence[str]) -> Printed:
    ignored = tuple(each.removeprefix(f"{stream}:") for each in ignore if each.startswith(f"{stream}:"))
    digest = PrintedDigest(stream_masks(run.record, ignored).with_clocks(clocks))
    digest.feed(text)
    return digest.result()
