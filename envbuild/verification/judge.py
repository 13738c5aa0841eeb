"""Whether several runs that should be equal are: what was compared, and what came of it. Pure judgement.

Results come by ``channels``; all of them are compared always.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from envbuild.core.digest import sha256_json
from envbuild.record.compare_outputs import different_tensors
from envbuild.record.shared_names import common_names as shared_names
from envbuild.record.shared_names import names_of_several, shortened
from envbuild.verification.channels import Reader, file_table, is_ignored, known_names, outside_table, readers
from envbuild.verification.content.canonical import OF_WRITING, ONLY_BYTES, compare, with_shared_names
from envbuild.verification.content.names import drawn_names
from envbuild.verification.files import FileTable
from envbuild.verification.ran import Ran
from envbuild.verification.verdict import Channel, Outcome, SameContent, Verdict

_DATED = (".keras", ".h5", ".hdf5", ".npz", ".bin", ".zip")
"""Ends of the names of saved models whose format keeps times, or how it was written."""
_OF_TORCH = (".pt", ".pth", ".ckpt")
_UNNAMED = "tmp⟨name⟩"
"""What is in the place of such a name in a common one; nobody needs to hear of it."""


def judge(runs: Sequence[Ran], asked: int, ignore: Sequence[str] = (), given: Collection[str] = frozenset()) -> Verdict:
    """Compare the results of runs.

    Args:
        runs: in their order; one at least.
        asked: how many there should have been.
        ignore: patterns of files that are not compared, as ``fnmatch`` has them; ``metric:PATTERN`` for metrics,
            ``stdout`` and ``stderr`` for streams. Lines of streams are left out when they are read (``printed``).
        given: names that look drawn and are in what the program reads, or in files that all runs wrote alike.
    """
    runs = with_known_names(runs, ignore, given)
    files, outside = file_table(runs, ignore), outside_table(runs, ignore)
    by_channel = readers(runs, ignore, files, outside)
    groups: dict[str, list[int]] = {}
    for index, each in enumerate(runs):
        groups.setdefault(sha256_json([reader.value(each) for reader in by_channel]), []).append(index)
    outcome: Outcome = "identical" if len(groups) == 1 else "different"
    if any(each.record.state == "refused" for each in runs):
        outcome = "refused"
    elif not any(each.ended_well for each in runs):
        outcome = "failed"
    pair = None
    if outcome == "different":
        first, second, *_ = groups.values()
        pair = runs[first[0]], runs[second[0]]
    channels = tuple(_channel(reader, runs[0], pair) for reader in by_channel)
    return Verdict(
        outcome=outcome,
        runs=len(runs),
        asked=asked,
        groups=tuple(map(tuple, groups.values())),
        channels=channels,
        same_content=(
            (*_same_content(files), *_same_content(outside)) if outcome in ("identical", "different") else ()
        ),
        renamed=(*files.renamed, *(name for name in outside.renamed if _UNNAMED not in name)),
        training_equal=outcome == "different" and _training_equal(channels, files, pair),
        ignored=tuple(sorted({name for each in runs for name in _paths(each) if is_ignored(name, ignore)})),
        exit_codes=tuple(each.record.exit_code for each in runs),
        states=tuple(each.record.state for each in runs),
    )


def agree_in_names(runs: Sequence[Ran], ignore: Sequence[str], given: Collection[str] = frozenset()) -> bool:
    """Whether names that look drawn and are data are the same in runs, in their order; no experiment explains others.

    Args:
        runs: those that are compared.
        ignore, given: as for ``judge``.
    """
    runs = with_known_names(runs, ignore, given)
    known = frozenset(name for run in runs for name in run.known)
    files = file_table(runs, ignore)
    found = known_names(runs, ignore, files)
    for table in (files, outside_table(runs, ignore)):
        for name, places in table.in_other_bytes():
            contents = (table.content(runs[at], name) for at in places)
            found.append(shared_names([each.names for each in contents if each is not None], known=known))
    return all(len({sha256_json(names) for names in of_runs}) < 2 for of_runs in found)


def in_one_order(runs: Sequence[Ran], stream: str) -> bool:
    """Whether the lines of a stream came in the same order in all runs, so that each has its own in the others."""
    return len({(run.stdout if stream == "stdout" else run.stderr).sha256 for run in runs}) == 1


def names_of(run: Ran) -> frozenset[str]:
    """Return all that was taken for drawn names in what a run left, shortened: in streams, files and their paths."""
    paths = drawn_names(each.path for each in (*run.record.outputs, *run.record.outside))
    texts = (run.stdout.names, run.stderr.names, *(each.names for each in run.contents.values()))
    return frozenset((*map(shortened, paths), *(name for names in texts for name in names)))


def lone_names(runs: Sequence[Ran]) -> frozenset[str]:
    """Return the drawn names that one run has alone: data of the program, if it was given them."""
    names = [names_of(run) for run in runs]
    return frozenset(name for each in names for name in each) - names_of_several(names)


def with_known_names(runs: Sequence[Ran], ignore: Sequence[str], given: Collection[str] = frozenset()) -> list[Ran]:
    """Return runs with contents of which the names count that are data: several runs have them, or were given them.

    Args:
        runs: those that are compared.
        ignore: as for ``judge``.
        given: names in what the program reads, and in what all runs wrote alike.
    """
    known = names_of_several([names_of(run) for run in runs]) | {*given}
    contents = [{**run.contents} for run in runs]
    for table in (file_table(runs, ignore), outside_table(runs, ignore)):
        for name, places in table.in_other_bytes():
            of_file = [(at, output.path) for at in places if (output := table.output(runs[at], name)) is not None]
            opened = [(at, path) for at, path in of_file if path in contents[at]]
            changed = with_shared_names([contents[at][path] for at, path in opened], known)
            for (at, path), content in zip(opened, changed, strict=True):
                contents[at][path] = content
    return [
        replace(run, contents=table, known=known & names_of(run)) for run, table in zip(runs, contents, strict=True)
    ]


def _channel(reader: Reader, first: Ran, pair: tuple[Ran, Ran] | None) -> Channel:
    """Describe what was compared, and where two runs differ what differs."""
    count, compared = reader.compared(first)
    differs, names = ((), ()) if pair is None else reader.differences(*pair)
    return Channel(
        kind=reader.kind, count=count, compared=compared, masked=reader.masked(first), differs=differs, names=names
    )


def _same_content(files: FileTable) -> tuple[SameContent, ...]:
    """Name the files whose bytes differ while their content is equal, and explain why."""
    found = []
    for name, places in files.in_other_bytes():
        runs = [files.runs[at] for at in places]
        if len({files.of(run)[name] for run in runs}) > 1:
            continue
        first = files.output(runs[0], name)
        digests = {id(run): output.sha256 for run in runs if (output := files.output(run, name))}
        other = next(run for run in runs if first and digests[id(run)] != first.sha256)
        mine, theirs = files.content(runs[0], name), files.content(other, name)
        if mine is None or theirs is None:
            found.append(SameContent(path=name, why=_why(name)))
        else:
            difference = compare(mine, theirs)
            found.append(SameContent(path=name, why=difference.why, left_out=difference.left_out))
    return tuple(found)


def _why(name: str) -> str:
    """Return why a file that the image's reader found to be equal has other bytes, as far as its name shows it.

    ``torch.save`` of a view (``x[:10]``) writes the whole storage (torch.save, "Saving and loading tensors").
    """
    if name.endswith(_OF_TORCH):
        return "what it holds is equal; bytes that no tensor shows differ, as of a storage of which a view was saved"
    return OF_WRITING if name.endswith(_DATED) else ONLY_BYTES


def _training_equal(channels: Sequence[Channel], files: FileTable, pair: tuple[Ran, Ran] | None) -> bool:
    """Whether two runs that differ trained alike: step trace, metrics and all tensors that they saved agree."""
    by_kind = {channel.kind: channel for channel in channels}
    if pair is None or not by_kind["steps"].count or any(by_kind[kind].differs for kind in ("end", "steps", "metrics")):
        return False
    for name in by_kind["files"].names:
        one, other = (files.output(run, name) for run in pair)
        if one is None or other is None or one.tensors.keys() != other.tensors.keys() or different_tensors(one, other):
            return False
        if one.unread or other.unread:
            return False
    return True


def _paths(run: Ran) -> list[str]:
    streams = [kind for kind, printed in (("stdout", run.stdout), ("stderr", run.stderr)) if printed.lines]
    files = [output.path for output in (*run.record.outputs, *run.record.outside)]
    return [*files, *run.record.deleted, *streams]
