"""One verification under way: its runs, what each left, and which copies are still needed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from envbuild.operations.verification.given_names import GivenNames
    from envbuild.record.model import Output, Record
    from envbuild.record.printed import Printed
    from envbuild.runs.repeat import Repeat, Repeated
    from envbuild.runs.request import StreamReader
    from envbuild.verification.files import FileTable
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.masking.printed import PrintedDigest
    from envbuild.verification.ran import Ran
    from envbuild.verification.verdict import Verdict


_PLACES = 3
"""Files of which the place of the first difference is looked for: those that are named."""
_LINKS = 8
"""Names of one file that are compared."""
_MOST = 10_000
"""Files of a run whose times are looked at."""
_SMALL, _RESULTS = 64 << 20, 16
"""Bytes of the outputs of a run up to which copies of as many results are there until the end."""


@dataclass(kw_only=True)
class Session:
    """One verification under way: its runs in the order of their start, and what each left.

    Attributes:
        plan: what is repeated.
        asked: how many runs there shall be.
        done: runs that ended; a result seen before has no files any more.
    """

    plan: Repeat
    asked: int
    ignore: tuple[str, ...]
    done: dict[int, Repeated] = field(default_factory=dict)
    ran: dict[int, Ran] = field(default_factory=dict)
    _names: GivenNames | None = None
    _mentioned: dict[int, Mapping[str, Sequence[bytes]]] = field(default_factory=dict)
    _clocks: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)
    _places: dict[tuple[int, str], frozenset[int]] = field(default_factory=dict)

    @property
    def runs(self) -> list[Ran]:
        """The runs that ended, in the order of their start."""
        return [self.ran[number] for number in sorted(self.ran)]

    def repeated(self, index: int) -> Repeated:
        """Return what is known of a run by its place among ``runs``."""
        return self.done[sorted(self.done)[index]]

    def judge(self) -> Verdict:
        """Judge the runs so far."""
        from envbuild.verification.judge import judge

        return judge(self.runs, self.asked, self.ignore, self.given)

    def open_files(self) -> None:
        """Open the files whose bytes differ between runs, to compare what they hold, and TensorBoard's event files.

        Their copies are still there.
        """
        from envbuild.operations.contents import by_bytes, content_in
        from envbuild.operations.verification.common_clocks import kept_in, with_common_clocks
        from envbuild.verification.channels import event_files, file_table, outside_table
        from envbuild.verification.files import masks_of
        from envbuild.verification.judge import with_known_names
        from envbuild.verification.masking.days import Clocks

        numbers = sorted(self.ran)
        runs = with_common_clocks(self.runs, kept_in(self.plan.request.project), self.ignore)
        self.ran = dict(zip(numbers, runs, strict=True))
        masks = [cache(partial(masks_of, run.record)) for run in self.runs]
        outputs = [{each.path: each for each in (*run.record.outputs, *run.record.outside)} for run in self.runs]
        events = [(at, path) for at, ran in enumerate(self.runs) for path in event_files(ran, self.ignore)]
        tables = file_table(self.runs, self.ignore), outside_table(self.runs, self.ignore)
        for at, path in (*tables[0].in_doubt(), *tables[1].in_doubt(), *events):
            found, ran = self.done[numbers[at]], self.ran[numbers[at]]
            if path in ran.contents:
                continue
            clocks = Clocks()
            content = content_in(found, outputs[at][path], masks[at]().with_clocks(clocks))
            if clocks.found:
                self._clocks[numbers[at], path] = clocks.found
            if content is None and (at, path) in events:  # by its name alone: it is in no table of files
                content = by_bytes(found, outputs[at][path])
            if content is not None:
                self.ran[numbers[at]] = replace(ran, contents={**ran.contents, path: content})
        for table in (file_table(self.runs, self.ignore), outside_table(self.runs, self.ignore)):
            self._open_with_common_clocks(table)
        for table in (file_table(self.runs, self.ignore), outside_table(self.runs, self.ignore)):
            for name, places in table.in_other_bytes():
                files = ((at, table.output(table.runs[at], name)) for at in places)
                self._open_as_others((at, output.path) for at, output in files if output is not None)
        for number in numbers:
            self._note_given(number)
        for number, changed in zip(numbers, with_known_names(self.runs, self.ignore, self.given), strict=True):
            self.ran[number] = changed

    def _open_with_common_clocks(self, table: FileTable) -> None:
        """Open files that differ once more if all runs have times of day in common in them (``masking.days``)."""
        from envbuild.operations.contents import content_in
        from envbuild.verification.files import masks_of
        from envbuild.verification.masking.days import Clocks, in_common

        numbers = sorted(self.ran)
        of_name: dict[str, list[tuple[int, Output]]] = {}
        differing = {*table.in_doubt()}
        for name, places in table.in_other_bytes():
            files = [(at, output) for at in places if (output := table.output(table.runs[at], name)) is not None]
            if any((at, output.path) in differing for at, output in files):
                of_name[name] = files
        for files in of_name.values():
            noted = {(numbers[at], output.path): output for at, output in files if self._has_noted(numbers[at], output)}
            alike = {output.sha256: key for key, output in noted.items()}
            if any(output.sha256 not in alike for _, output in files):
                continue
            common = in_common([self._clocks[key] for key in noted])
            if not common and not any(key in self._places for key in noted):
                continue
            contents = {
                (number, path): content_in(
                    self.done[number], output, masks_of(self.ran[number].record).with_clocks(Clocks(common))
                )
                for (number, path), output in noted.items()
            }
            if None in contents.values():
                continue
            self._places |= dict.fromkeys(noted, common)
            for at, output in files:  # a copy of the same bytes may be gone
                content = contents.get((numbers[at], output.path)) or contents[alike[output.sha256]]
                if content is not None:
                    ran = self.ran[numbers[at]]
                    self.ran[numbers[at]] = replace(ran, contents={**ran.contents, output.path: content})

    def _has_noted(self, number: int, output: Output) -> bool:
        return (number, output.path) in self._clocks

    def _note_given(self, number: int) -> None:
        """Note when the files that a run found were changed, if it left a time that is none of its own."""
        from envbuild.verification.files import masks_of
        from envbuild.verification.moments import changed_at

        run, found = self.ran[number], self.done[number]
        if run.given or found.files is None or not found.files.is_dir():
            return
        masks = masks_of(run.record)
        if any(each.strange for each in run.contents.values()) or any(
            changed_at(run, path, masks) for path in run.written
        ):
            self.ran[number] = replace(run, given=_given_times(found))

    def note_mentioned(self, found: Repeated) -> None:
        """Note which of its files whose names hold the time a run mentions, while all of them are still there."""
        from envbuild.operations.contents import data_of
        from envbuild.verification.references import dated_names_in

        self._mentioned[found.number] = dated_names_in(found.record, partial(data_of, found))

    @property
    def mentioned(self) -> list[Mapping[str, Sequence[bytes]]]:
        """What was noted of them, in the order of ``runs``."""
        return [self._mentioned.get(number, {}) for number in sorted(self.ran)]

    def _open_as_others(self, wanted: Iterable[tuple[int, str]]) -> None:
        """Give files that were not opened, or whose copy is gone, the content of one of the same bytes."""
        from envbuild.verification.files import parts_of

        runs = self.runs
        digests = [{each.path: each.sha256 for each in (*run.record.outputs, *run.record.outside)} for run in runs]
        known = {
            digests[at].get(path): (content, digests[at])
            for at, run in enumerate(runs)
            for path, content in run.contents.items()
        }
        for at, path in wanted:
            run = self.ran[sorted(self.ran)[at]]
            content, theirs = known.get(digests[at].get(path), (None, {}))
            if path in run.contents or content is None:
                continue
            if all(digests[at].get(part) == theirs.get(part) for part in parts_of({path: content})):
                self.ran[sorted(self.ran)[at]] = replace(run, contents={**run.contents, path: content})

    @property
    def given(self) -> frozenset[str]:
        """Names that look drawn, that one run has alone, and that are in what the program read or always writes."""
        return self.given_to(self.runs)

    @property
    def known_names(self) -> frozenset[str]:
        """Names that look drawn and are data."""
        from envbuild.verification.judge import with_known_names

        return frozenset(name for run in with_known_names(self.runs, self.ignore, self.given) for name in run.known)

    def given_to(self, runs: Sequence[Ran]) -> frozenset[str]:
        """Return the same of other runs of this program."""
        from envbuild.operations.verification.given_names import GivenNames, alike_in_all
        from envbuild.verification.judge import lone_names

        lone = lone_names(runs)
        if not lone:
            return frozenset()
        self._names = self._names or GivenNames(project=self.plan.request.project)
        return self._names.among(lone, self.runs[0].record, alike_in_all(self.done.values()))

    def with_places(self, verdict: Verdict) -> Verdict:
        """Return a verdict on runs that differ with the place of the first difference in files that are very long.

        Of a file's entries only the first are kept to be shown; where these are equal, both files are read again.
        """
        from envbuild.operations.contents import leaves_in
        from envbuild.verification.channels import file_table, outside_table
        from envbuild.verification.content.canonical import compare, first_entries

        numbers, runs, found = sorted(self.ran), self.runs, False
        tables = (file_table(runs, self.ignore), outside_table(runs, self.ignore))
        for channel, table in zip((verdict.channel("files"), verdict.channel("outside")), tables, strict=True):
            for name in channel.names[:_PLACES] if channel is not None else ():
                outputs = [table.output(runs[at], name) for at in verdict.pair]
                contents = [table.content(runs[at], name) for at in verdict.pair]
                one, other = contents
                if one is None or other is None or None in outputs or compare(one, other).why:
                    continue
                entries = first_entries(
                    *(
                        leaves_in(self.done[numbers[at]], output, self._masks_of(numbers[at], output.path))
                        for at, output in zip(verdict.pair, outputs, strict=True)
                        if output is not None
                    )
                )
                if entries[0] == entries[1]:
                    continue
                found = True
                for at, output, content, shown in zip(verdict.pair, outputs, (one, other), entries, strict=True):
                    ran, path = self.ran[numbers[at]], output.path if output is not None else name
                    changed = msgspec.structs.replace(content, entries=shown)
                    self.ran[numbers[at]] = replace(ran, contents={**ran.contents, path: changed})
        if not found:
            return verdict
        again = self.judge()
        channels = tuple(
            new
            if each.kind in ("files", "outside") and (new := again.channel(each.kind)) and new.names == each.names
            else each
            for each in verdict.channels
        )
        return msgspec.structs.replace(verdict, channels=channels)

    def _masks_of(self, number: int, path: str) -> Masks:
        """Return what masks a file of a run, once."""
        from envbuild.verification.files import masks_of
        from envbuild.verification.masking.days import Clocks

        return masks_of(self.ran[number].record).with_clocks(Clocks(self._places.get((number, path), frozenset())))

    def note_contents(self) -> None:
        """Put the digests of what was opened into the records, so that ``diff`` has them."""
        from envbuild.operations.contents import note
        from envbuild.record import history

        for number, ran in self.ran.items():
            if ran.contents:
                record = note(ran.record, ran.contents)
                history.save(self.plan.request.project, record)
                self.ran[number] = replace(ran, record=record)

    def forget(self) -> None:
        """Remove the copies of all runs but the first of each of the first two results; of more if they are small."""
        groups = self.judge().groups
        record = self.runs[0].record
        small = sum(output.size for output in (*record.outputs, *record.outside)) <= _SMALL
        wanted = {group[0] for group in groups[: _RESULTS if small else 2]}
        if small and self._clocks:  # which of these times all runs have is not known before the last one
            wanted |= {*range(_RESULTS)}
        for index, number in enumerate(sorted(self.done)):
            if index not in wanted:
                self.done[number].discard()


def stream_digest(ignore: Sequence[str], stream: str) -> PrintedDigest:
    """Return what digests a stream, ``stdout`` or ``stderr``, of a run that starts now."""
    from envbuild.verification.masking.masks import Masks
    from envbuild.verification.masking.printed import PrintedDigest

    return PrintedDigest(Masks(time.time(), ignored_lines(ignore, stream)))


def ignored_lines(ignore: Sequence[str], stream: str) -> tuple[str, ...]:
    """Return the patterns of lines of a stream that are not compared."""
    return tuple(each.removeprefix(f"{stream}:") for each in ignore if each.startswith(f"{stream}:"))


def ran_of(found: Repeated, project: Path, days: tuple[float, float] | None = None) -> Ran:
    """Digest what a run left; ``days``: when its fixed clock began, and for how many seconds it has times of day."""
    from envbuild.errors import EnvbuildError
    from envbuild.record import history
    from envbuild.trace import compare
    from envbuild.verification.ran import Ran

    try:
        traces = compare.read_run(history.process_folder(project, found.record.id))
    except EnvbuildError:  # the program may write there too
        traces = ()
    trace, order = compare.digest_and_order(traces)
    steps = sum(len(each.steps) for each in traces)
    groups = {(each.process, id(step.group)): step.group for each in traces for step in each.steps}
    tensors = {(process, t.name, t.shape) for (process, _), group in groups.items() for t in group.tensors}
    streams = ((found.output.stdout, found.output.digests[0]), (found.output.stderr, found.output.digests[1]))
    stdout, stderr = (_with_files(found.record, path, digest, days) for path, digest in streams)
    return Ran(
        record=found.record,
        stdout=stdout,
        stderr=stderr,
        trace=trace if steps else "",
        steps=steps,
        tensors=len(tensors),
        written=_written(found),
        order=order if steps else (),
        links=_links(found),
    )


def _written(found: Repeated) -> dict[str, int]:
    """Return when the files of the project were written last, by path, in nanoseconds; none of very many."""
    times: dict[str, int] = {}
    if found.files is None or len(found.record.outputs) > _MOST:
        return times
    for output in found.record.outputs:
        with suppress(OSError):
            times[output.path] = (found.files / output.path).lstat().st_mtime_ns
    return times


def _given_times(found: Repeated) -> frozenset[str]:
    """Return when the files in a run's copy of the project were changed that it did not write, to be compared.

    Archives of zip have every second second alone.
    """
    from envbuild.verification.content.canonical import moment_text

    own = {output.path for output in found.record.outputs}
    times: set[str] = set()
    for count, (folder, _, names) in enumerate(os.walk(found.files or "")):
        if count > _MOST or len(times) > _MOST:
            break
        for name in names:
            path = Path(folder) / name
            with suppress(OSError, ValueError):
                if str(path.relative_to(found.files or "")) not in own:
                    second = path.lstat().st_mtime_ns // 1_000_000_000
                    times |= {moment_text(second), moment_text(second // 2 * 2)}
    return frozenset(times)


def _links(found: Repeated) -> frozenset[tuple[str, str]]:
    """Return the pairs of names of one file, hard links of each other, the first such names of each."""
    names: dict[tuple[int, int], list[str]] = {}
    if found.files is not None and len(found.record.outputs) <= _MOST:
        for output in found.record.outputs:
            with suppress(OSError):
                status = (found.files / output.path).lstat()
                if status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                    names.setdefault((status.st_dev, status.st_ino), []).append(output.path)
    return frozenset(pair for each in names.values() for pair in combinations(each[:_LINKS], 2))


def _with_files(record: Record, path: Path, digest: StreamReader, days: tuple[float, float] | None = None) -> Printed:
    """Digest a stream once more if it may name files of the run, which were not known while it was printed."""
    from envbuild.runs.repeat import PRINTED
    from envbuild.verification.files import with_files_of
    from envbuild.verification.masking.masks import SHA256
    from envbuild.verification.masking.printed import PrintedDigest

    if not isinstance(digest, PrintedDigest) or not path.is_file() or path.stat().st_size >= PRINTED:
        return digest.result()
    masks, data = with_files_of(record, digest.masks), path.read_bytes()
    masks = masks.with_days(*days) if days is not None else masks
    known = masks.draws or not {"names", "times"}.isdisjoint(digest.result().masked)
    if not known and SHA256.search(data.decode("utf-8", "replace")) is None:
        return digest.result()
    again = PrintedDigest(masks)
    again.feed(data)
    return again.result()
