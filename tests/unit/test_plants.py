"""The draw of planted programs, by which figures can be repeated."""

from __future__ import annotations

from tests.plants import FOLDER, Plant, draw, load


def _plants(side: str, count: int) -> list[Plant]:
    return [Plant(name=f"{side}-{number}", script="", channel=side) for number in range(count)]


def test_a_sample_is_the_start_of_a_larger_one() -> None:
    """The same seed draws the same plants, also once plants were added; another seed draws others."""
    sets = {"different": _plants("files", 20), "equal": _plants("", 20)}
    assert draw(sets, 10, 1) == draw(sets, 40, 1)[:10]
    added = {**sets, "more": _plants("stdout", 5)}
    known = {plant.name for plants in sets.values() for plant in plants}
    assert [p for p in draw(added, 45, 1) if p.channel and p.name in known] == [
        p for p in draw(sets, 40, 1) if p.channel
    ]
    assert draw(sets, 10, 1) != draw(sets, 10, 2)


def test_differing_and_equal_plants_are_drawn_in_turn() -> None:
    """One side after the other, each plant once, and the rest of the larger side at the end."""
    sets = {"different": _plants("files", 5), "equal": _plants("", 2)}
    drawn = draw(sets, 100, 1)
    assert [bool(plant.channel) for plant in drawn] == [True, False, True, False, True, True, True]
    assert len({plant.name for plant in drawn}) == 7


def test_every_plant_of_the_tree_can_be_drawn() -> None:
    """Two sets may share a plant's name; both of its programs are drawn."""
    sets = {path.stem: load(path) for path in FOLDER.glob("*.toml")}
    assert len(draw(sets, 10_000, 1)) == sum(map(len, sets.values()))
