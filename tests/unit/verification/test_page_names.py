"""Names that were drawn for parts of pages and glued to words, as UUIDs without dashes; digests and results count."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from envbuild.verification.content import leaves, read
from envbuild.verification.content.canonical import compare, with_shared_names
from envbuild.verification.masking.masks import Masks

MASKS = Masks(1_795_247_763.0)
A, B = "250b64b9a57a47e1ac5b89540eec00d6", "28dcccdc0ce74c37bae76ee989976224"
C, D = "0aa11f1d8be14b2e9f3a1c2d3e4f5a6b", "f00dfeed12344567a89abcdef0123456"
TIMED = "b1c2d3e4f5a611ef8a1b0242ac120002"
ONE, OTHER = "d41d8cd98f00b204e9800998ecf8427e", "9e107d9d372bb6826bd81d3542a419d6"
"""MD5 digests, of which neither has the form of a UUID."""
LIKE, UNLIKE = "1f3870be274f4c49b3e31a0c6728957f", "8ee2027983915ec78acc45027d874316"
"""MD5 digests: the first has it by chance."""

PAGE = (
    '<!DOCTYPE html>\n<html><body><div id="root_metric_{0}"></div>\n'
    '<script>draw(metric_{0}, "loss 0.5")</script></body></html>'
)
TABLE = "<html><i id='{0}'></i></html>"
MAP = (
    '<!DOCTYPE html>\n<html><style>#map_{0} {{height: 100%}}</style><div class="folium" id="map_{0}"></div>\n'
    '<script>var map_{0} = L.map("map_{0}"); var tile_layer_{1} = L.tileLayer(1).addTo(map_{0});</script></html>'
)
LONG = '<!DOCTYPE html>\n<html><script>var a = "{0}"; var metric_{1} = [' + "0.25, " * 20_000 + "1]</script></html>"
OF_RANDOM = "<!DOCTYPE html>\n<html><marimo-ui-element object-id='a-0' random-id='{0}'>0.5</marimo-ui-element></html>"
OF_MODEL = OF_RANDOM.replace("random", "model")
FIRST, SECOND = "3411a9ad-8ae1-1528-b41d-495d99835eca", "465786a0-cf40-32fb-2b8e-e802304f0b0b"


def as_list(*names: str) -> str:
    return json.dumps([f"a_{name}" for name in names])


EQUAL = {
    "a page with a glued name": (PAGE.format(A), PAGE.format(B)),
    "a map of folium": (MAP.format(A, B), MAP.format(C, D)),
    "letters right before it": (TABLE.format(f"graph{A}"), TABLE.format(f"graph{B}")),
    "hexadecimal letters before it": (TABLE.format(f"feed{A}"), TABLE.format(f"feed{B}")),
    "a UUID of another version": (TABLE.format(TIMED), TABLE.format(TIMED.replace("11ef", "11f0"))),
    "a selector": (f"<html><style>.plot{A} {{}}</style></html>", f"<html><style>.plot{B} {{}}</style></html>"),
    "a value": (json.dumps({"plot": f"plot_{A}", "loss": 0.5}), json.dumps({"plot": f"plot_{B}", "loss": 0.5})),
    "a key": (json.dumps({f"metric_{A}": {"loss": 0.5}}), json.dumps({f"metric_{B}": {"loss": 0.5}})),
    "a glued name that is also a result": (
        json.dumps({"names": [f"x_{A}", f"x_{B}"], "accuracy": f"x_{B}"}),
        json.dumps({"names": [f"x_{C}", f"x_{D}"], "accuracy": f"x_{D}"}),
    ),
    "a glued name that is also alone": (json.dumps({A: f"a_{A}"}), json.dumps({B: f"a_{B}"})),
    "lines of JSON": (f'{{"a": "x_{A}"}}\n{{"a": "x_{A}"}}\n', f'{{"a": "x_{B}"}}\n{{"a": "x_{B}"}}\n'),
    "a line that is too long to be masked": (
        LONG.format("01a21bbe-a289-7622-aa9e-4d7d3da793f9", A),
        LONG.format("01a21bbf-ccaa-76f0-a002-bd13e98402bf", B),
    ),
    "an identity at random": (OF_RANDOM.format(FIRST), OF_RANDOM.format(SECOND)),
    "an identity at random in a text": (
        json.dumps({"text/html": f'<ui-element random-id="{FIRST}">'}),
        json.dumps({"text/html": f'<ui-element random-id="{SECOND}">'}),
    ),
    "an identity at random in a script": (
        f'<html><script>x = "\\u003Cui random-id=\'{FIRST}\'\\u003E"; y = "random-id=\\"{FIRST}\\""</script></html>',
        f'<html><script>x = "\\u003Cui random-id=\'{SECOND}\'\\u003E"; y = "random-id=\\"{SECOND}\\""</script></html>',
    ),
    "an identity at random in a long line": tuple(
        f"<html><script>x = \"\\u003Cui random-id='{each}'\\u003E{'0.25, ' * 20_000}\"</script></html>"
        for each in (FIRST, SECOND)
    ),
    "an identity at random in a long text": tuple(
        json.dumps({"text/html": f"<ui-element random-id='{each}'>{'0.25, ' * 20_000}"}) for each in (FIRST, SECOND)
    ),
}
DIFFERENT = {
    "a digest in a page": (f"<html>model {ONE}</html>", f"<html>model {OTHER}</html>"),
    "a digest glued to a word": (TABLE.format(f"model_{ONE}"), TABLE.format(f"model_{OTHER}")),
    "a digest of which one has the form": (PAGE.format(LIKE), PAGE.format(UNLIKE)),
    "a digest by its name": (json.dumps({"weights_md5": LIKE}), json.dumps({"weights_md5": A})),
    "a digest by its name in a page": (f"<html><b>checksum: {LIKE}</b></html>", f"<html><b>checksum: {A}</b></html>"),
    "a digest as the name of an element": (TABLE.format(ONE), TABLE.format(OTHER)),
    "one with letters before it": (TABLE.format(f"m{ONE}"), TABLE.format(f"m{OTHER}")),
    "a longer digest": (json.dumps({"a": ONE + A}), json.dumps({"a": OTHER + B})),
    "a digest of forty digits": (json.dumps({"a": f"0a1b2c3d{A}"}), json.dumps({"a": f"0a1b2c3e{B}"})),
    "another place of the same name": (as_list(A, B, A), as_list(C, D, D)),
    "one name more": (as_list(A), as_list(A, B)),
    "a loss next to it": (PAGE.format(A), PAGE.format(B).replace("0.5", "0.6")),
    "a word before it": (json.dumps([f"cat_{A}"]), json.dumps([f"dog_{B}"])),
    "a digest in a UUID's spelling": (OF_MODEL.format(FIRST), OF_MODEL.format(SECOND)),
    "a digest in a UUID's spelling in a long line": tuple(
        f"<html><script>x = \"model-id='{each}' {'0.25, ' * 20_000}\"</script></html>" for each in (FIRST, SECOND)
    ),
    "a name under that of a result": (json.dumps({"accuracy": f"x_{A}"}), json.dumps({"accuracy": f"x_{B}"})),
    "a UUID under the name of a result in a long line": tuple(
        json.dumps({"accuracy": each, "w": [0.25] * 20_000})
        for each in ("250b64b9-a57a-47e1-ac5b-89540eec00d6", "28dcccdc-0ce7-4c37-bae7-6ee989976224")
    ),
    "a name that is a value": (json.dumps({"best": A}), json.dumps({"best": B})),
    "a plain text": (f"metric_{A}\n", f"metric_{B}\n"),
}  # fmt: skip


def digests(*texts: str, known: Sequence[str] = ()) -> list[str]:
    found = [read(text.encode(), MASKS) for text in texts]
    return [each.digest for each in with_shared_names([each for each in found if each is not None], known)]


@pytest.mark.parametrize("case", EQUAL)
def test_a_drawn_name_is_another_one_in_each_run(case: str) -> None:
    """Under other names, each at the same places, a page is the same."""
    one, other = EQUAL[case]
    assert one != other
    mine, theirs = digests(one, other)
    assert mine == theirs
    assert leaves(one.encode(), MASKS) == leaves(other.encode(), MASKS)


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_only_looks_like_a_drawn_name_counts(case: str) -> None:
    """Digests, which names are the same, how many there are, and all else."""
    one, other = digests(*DIFFERENT[case])
    assert one != other


def test_names_in_a_page_are_several() -> None:
    """As ``verify`` quotes what differs in files of the same content."""
    one, other = (read(PAGE.format(each).encode(), MASKS) for each in (A, B))
    assert one is not None
    assert other is not None
    assert compare(one, other).why == "names in it differ"


def test_names_that_runs_share_are_data() -> None:
    """Which of the names of a catalogue comes first is a result."""
    one, same, other = (json.dumps([f"user_{each}" for each in order]) for order in ((A, B), (A, B), (B, A)))
    assert len({*digests(one, same)}) == 1
    assert len({*digests(one, other)}) == 2


def test_names_without_dashes_are_known() -> None:
    """Whether they were drawn is to be shown by an experiment; those of ``random-id`` have a name that says it."""
    found = read(MAP.format(A, B).encode(), MASKS)
    named = read(OF_RANDOM.format(FIRST).encode(), MASKS)
    assert found is not None
    assert named is not None
    assert found.glued == (A, B)
    assert named.glued == ()


def test_names_in_long_lines_are_to_be_shown_too() -> None:
    """A digest may be spelt as a UUID is; one with the time in it is not drawn, and not asked for."""
    digest, timed = "250b64b9-a57a-47e1-ac5b-89540eec00d6", "01a21bbe-a289-7622-aa9e-4d7d3da793f9"
    found = read(LONG.format(digest, A).encode(), MASKS)
    of_time = read(LONG.format(timed, B).encode(), MASKS)
    assert found is not None
    assert of_time is not None
    assert {*found.glued} == {digest, A}
    assert of_time.glued == (B,)
