"""Whatever text a spec is, it gives a value or reported problems, never another fault."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from envbuild.errors import SpecError
from envbuild.spec.keys import ROOT
from envbuild.spec.model import parse_spec, spec_digest

_WORDS = r"""
release kernel gpu driver devices memory value policy exact
seed file none debian-12 3.10 no ~ 042 numpy>=2 &a *a << ' " [ { | > ? - : % @ --- ...
"""
_ODD = ("", "-r a", "x; ((((", "!!int 3", "a @ file:///x", '"\\UFFFFFFFF"', "%YAML 9.9", "- ", ": ", "\n", "\n  ", "\t")
_CHARACTERS = ("\ud800", "\x85", "\u2028", "\x00", "\ufeff", "é")
_words = st.sampled_from([*ROOT.fields, *_WORDS.split(), *_ODD, *_CHARACTERS])
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=12,
)


def _gives_spec_or_spec_error(text: str) -> None:
    error: SpecError | None = None
    try:
        assert len(spec_digest(parse_spec(text))) == 64
    except SpecError as caught:
        error = caught
    if error is not None:
        assert error.problems
        assert all(problem.line >= 1 and problem.message for problem in error.problems), error.problems
        assert str(error).count("\n") == len(error.problems), "a message breaks the line"


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None)
def test_any_text_gives_a_spec_or_a_spec_error(text: str) -> None:
    """No text makes the parser fail in any other way."""
    _gives_spec_or_spec_error(text)


@given(st.lists(_words, max_size=25).map("".join))
@settings(max_examples=200, deadline=None)
@example("name: x\nrequirements: ['a; " + "(" * 3000 + "']")
@example('name: "\\UFFFFFFFF"')
@example('name: "\\ud800"')
def test_any_yaml_like_text_gives_a_spec_or_a_spec_error(text: str) -> None:
    """No mixture of the signs and words of YAML and specs makes the parser fail in any other way."""
    _gives_spec_or_spec_error(text)


@given(st.dictionaries(_words, _values, max_size=6))
@settings(max_examples=200, deadline=None)
def test_any_yaml_document_gives_a_spec_or_a_spec_error(value: dict[str, Any]) -> None:
    """No structure under the known keys makes the parser fail in any other way."""
    _gives_spec_or_spec_error(yaml.safe_dump(value, allow_unicode=True))
