"""Which runs are compared when people do not name them."""

from __future__ import annotations

from collections.abc import Sequence

from envbuild.record.model import Record


def newest_two(records: Sequence[Record]) -> tuple[Record, Record]:
    """Return the newest run of which there is an earlier one of the same program, that one first.

    The copies that ``verify`` makes come second to runs, all of one verification but its newest come last, and so do
    runs that did not end. Where no program was run twice the two newest are taken.

    Args:
        records: two at least, newest first.
    """
    ended = [record for record in records if record.state == "finished"]
    own = [record for record in ended if not record.options.verification]
    pools = (own, _one_of_each_verification(ended), ended)
    for pool in pools:
        for number, newer in enumerate(pool):
            older = next((each for each in pool[number + 1 :] if program(each) == program(newer)), None)
            if older is not None:
                return older, newer
    newest = next((pool for pool in (*pools, records) if len(pool) > 1), records)
    return newest[1], newest[0]


def earlier_of(record: Record, others: Sequence[Record]) -> Record | None:
    """Return the newest earlier run: of the same recipe, else of the same program, else any that ended, else any.

    Args:
        record: the run.
        others: the other runs, newest first.
    """
    earlier = [each for each in others if each.id < record.id]
    ended = [each for each in earlier if each.state == "finished"]
    alike = [each for each in ended if each.recipe == record.recipe]
    same = [each for each in ended if program(each) == program(record)]
    return next((pool[0] for pool in (alike, same, ended, earlier) if pool), None)


def program(record: Record) -> tuple[str, ...]:
    """Return what was run, without its arguments: script, module or command."""
    if record.script is not None:
        return (record.script.path,)
    return record.command[:3] if record.command[1:2] == ("-m",) else record.command[:1]


def _one_of_each_verification(records: Sequence[Record]) -> list[Record]:
    seen: set[str] = set()
    kept = []
    for record in records:
        name = record.options.verification
        if not name or name not in seen:
            kept.append(record)
        seen.add(name)
    return kept
