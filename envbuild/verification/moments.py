"""Times that are none of the run: in formats that keep when something was written, of files, and in their names.

What is a time by its place alone is left out, since it differs in every run. But a program may put any number there:
``ZipInfo.date_time``, ``os.utime``, the name ``ckpt_1795838123``. A time that the run did not have, and that is another
one in each run, is quoted; so are times that are of files that the program was given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest

from envbuild.core.patterns import lazy
from envbuild.core.text import encodable
from envbuild.verification.channels import event_files, file_table, outside_table
from envbuild.verification.content.canonical import moment_text
from envbuild.verification.content.names import behind_dates
from envbuild.verification.files import masks_of
from envbuild.verification.masking.durations import are_far_apart
from envbuild.verification.masking.lines import short
from envbuild.verification.masking.masks import Masks
from envbuild.verification.ran import Ran

_MOST = 20
"""Places that are quoted."""
_LONG = 300
"""Characters of the times of one place that are shown."""
_FAR = 300.0
"""Seconds by which the clock of a file server may be off."""
_DIGIT = lazy(r"\d")
_EPOCH = lazy(r"(?<![\d.])(?P<whole>\d{10})(?:\d{3}|\d{6}|\d{9})?(?![\d])")
_DATE = lazy(r"(?<!\d)(20\d\d)[-_.]?(\d\d)[-_.]?(\d\d)[-_T /.:]{0,2}(\d\d)[-_.:h]?([0-5]\d)[-_.:m]?([0-5]\d)(?!\d)")


def strange_times(runs: Sequence[Ran], ignore: Sequence[str]) -> tuple[str, ...]:
    """Return a phrase for each place with a time that is none of the run, and another one in some run.

    Args:
        runs: those that are compared; they are equal but for what was left out.
        ignore: as for ``judge``.
    """
    first, *others = runs
    found: list[str] = []
    for other in others:
        found += _in_files(first, other, ignore)
        found += _in_events(first, other, ignore)
    return tuple(dict.fromkeys(found))[:_MOST]


def _in_files(one: Ran, other: Ran, ignore: Sequence[str]) -> Iterator[str]:
    masks = masks_of(one.record), masks_of(other.record)
    for table in (file_table((one, other), ignore), outside_table((one, other), ignore)):
        for name in sorted({*table.of(one)} & {*table.of(other)}):
            mine, theirs = table.output(one, name), table.output(other, name)
            contents = table.content(one, name), table.content(other, name)
            if contents[0] is not None and contents[1] is not None:
                yield from _other(name, (contents[0].strange, contents[1].strange), (one.given, other.given))
                yield from _far_apart(name, contents[0].durations, contents[1].durations)
            if mine is None or theirs is None:
                continue
            if mine.path != theirs.path:
                times = [" ".join(_in_name(each.path, of)) for each, of in zip((mine, theirs), masks, strict=True)]
                paths = f"{encodable(mine.path)} → {encodable(theirs.path)}"
                if times[0] != times[1]:
                    yield f"names of files: {paths}: a run had no such time"
                elif _differ_in_digits(
                    *(behind_dates(each.path, of) for each, of in zip((mine, theirs), masks, strict=True))
                ):
                    yield f"names of files: {paths}: digits behind a date may be a result"
            changed = [
                changed_at(run, each.path, of)
                for run, each, of in zip((one, other), (mine, theirs), masks, strict=True)
            ]
            if changed[0] != changed[1] and not (
                _is_given(changed[0], one.given) and _is_given(changed[1], other.given)
            ):
                yield f"{encodable(name)}: time of change, which the program has set: {_shown(changed)}"


def _differ_in_digits(mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether names behind dates are the same but for digits, as ``acc91`` and ``acc87`` are, which nobody draws."""
    pairs = zip(mine, theirs, strict=False)
    return any(one != other and _DIGIT.sub("0", one) == _DIGIT.sub("0", other) for one, other in pairs)


def _in_events(one: Ran, other: Ran, ignore: Sequence[str]) -> Iterator[str]:
    """Compare the times of values in TensorBoard's event files, which have the time in their names."""
    pairs = zip(event_files(one, ignore), event_files(other, ignore), strict=False)
    for mine, theirs in pairs:
        contents = one.contents.get(mine), other.contents.get(theirs)
        if contents[0] is not None and contents[1] is not None:
            yield from _other(encodable(mine), (contents[0].strange, contents[1].strange), (one.given, other.given))


def _other(
    path: str, strange: tuple[Mapping[str, str], Mapping[str, str]], given: tuple[frozenset[str], frozenset[str]]
) -> Iterator[str]:
    """Quote the first place of a file that has other times in two runs.

    Of names that one run alone has, as of members in a folder with the date, times are compared in their order.
    """
    mine, theirs = (
        [time for name, time in of.items() if name not in other] for of, other in (strange, (strange[1], strange[0]))
    )
    for name in {**strange[0], **strange[1]}:
        if mine == theirs and not (name in strange[0] and name in strange[1]):
            continue
        times = strange[0].get(name, ""), strange[1].get(name, "")
        if times[0] != times[1] and not all(map(_is_given, times, given)):
            yield f"{encodable(path)}: {name}: {_shown(times)}"
            return


def _far_apart(path: str, mine: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    """Quote the first line of a file with a duration of another sign, or of quite another size."""
    for name, line in mine.items():
        if line != theirs.get(name, line) and are_far_apart(line, theirs[name]):
            yield f"{encodable(path)}: {name}: {' → '.join(map(short, (line, theirs[name])))}"
            return


def _shown(times: Sequence[str]) -> str:
    """Return two times; an empty one is of the run. Of long lists the first that differ."""
    if max(map(len, times)) > _LONG:
        pairs = zip_longest(*(each.split(", ") for each in times), fillvalue="nothing")
        times = next((pair for pair in pairs if pair[0] != pair[1]), times)
    return " → ".join(each or "a time of the run" for each in times)


def _is_given(time: str, given: frozenset[str]) -> bool:
    """Whether a time is that of a file that the program found, or of the run."""
    return all(not each or each in given for each in time.split(", "))


def _in_name(path: str, masks: Masks) -> Iterator[str]:
    """Yield the times in the name of a file that are none of the run."""
    for found in _EPOCH.finditer(path):
        if masks.is_moment(moment := float(found["whole"])) and masks.is_strange(moment):
            yield found[0]
    for found in _DATE.finditer(path):
        try:
            moment = datetime.strptime("".join(found.groups()) + "Z", "%Y%m%d%H%M%S%z").timestamp()
        except ValueError:
            continue
        if masks.is_moment(moment) and masks.is_strange(moment):
            yield found[0]


def changed_at(run: Ran, path: str, masks: Masks) -> str:
    """Return when a file of the project was changed, if that is known and far from the run; else nothing."""
    moment = run.written.get(path)
    if moment is None:
        return ""
    return moment_text(moment / 1e9) if masks.seconds_off(moment / 1e9) > _FAR else ""
