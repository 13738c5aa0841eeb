"""Tables that people read: columns of measurements are left out, and nothing else is."""

from __future__ import annotations

import pytest

from envbuild.verification.masking.masked_lines import Lines
from envbuild.verification.masking.masks import Masks
from envbuild.verification.masking.printed import PrintedDigest, first_difference, rows

MASKS = Masks(1_795_247_763.0)
MARKDOWN = "# Report\n\n| stage | seconds | value |\n| --- | --- | --- |\n| load | {} | {} |\n\n| load | 0.5 | 1 |\n"
PRETTY = (
    "+-------+{rule}+------+\n| epoch | fit_time{blank} | loss |\n+-------+{rule}+------+\n"
    "| 1     | {} | {} |\n+-------+{rule}+------+\nend\n"
)
SKORCH = (
    "  epoch    train_loss     dur\n-------  ------------  ------\n"
    "      1        {}  {}\n      2        0.6868  0.0144\n"
)
RICH = (
    "┏━━━━━━━┳━━━━━━━━━┓\n┃ stage ┃ elapsed ┃\n┡━━━━━━━╇━━━━━━━━━┩\n│ load  │ {:>7} │\n└───────┴─────────┘\n"
    "accuracy | {}\n"
)
PSQL = " epoch | it/s  | loss\n-------+-------+------\n     1 | {:>5} | {}\n"


POLARS = (
    "shape: (2, 2)\n┌─────┬{rule}┐\n│ v   ┆ compute_time{blank} │\n│ --- ┆ ---{more} │\n│ {kind} ┆ f64{more} │\n"
    "╞═════╪{rules}╡\n│ {} ┆ {} │\n│ 0.5 ┆ {} │\n└─────┴{rule}┘\n"
)


def polars(value: str, seconds: str, kind: str = "f64") -> str:
    """Return a table as Polars prints it, whose second column is as wide as its numbers need it."""
    wide = max(12, len(seconds))
    rule, blank, more = "─" * (wide + 2), " " * (wide - 12), " " * (wide - 3)
    cells = value, seconds.ljust(wide), "0.125".ljust(wide)
    return POLARS.format(*cells, kind=kind, rule=rule, rules="═" * (wide + 2), blank=blank, more=more)


def pretty(seconds: str, loss: str) -> str:
    """Return a table whose second column is as wide as its numbers need it."""
    wide = max(8, len(seconds))
    return PRETTY.format(seconds.ljust(wide), loss, rule="-" * (wide + 2), blank=" " * (wide - 8))


def difference(before: str, after: str) -> tuple[str, str] | None:
    """Return the first line that differs, and check that digests agree with it."""
    digests = []
    for text in (before, after):
        digest = PrintedDigest(MASKS)
        for at in range(0, len(text), 7):
            digest.feed(text[at : at + 7].encode())
        digests.append(digest.result().sha256)
    found = first_difference("stdout", before.encode(), after.encode(), (MASKS, MASKS), ordered=True)
    assert (found is None) == (digests[0] == digests[1])
    return (found.before, found.after) if found else None


NAMED = (
    "      fit_time  score_time  ...  test_f1  train_f1\nfold                        ...                   \n"
    "0     {:>8}  {:>10}  ...  {:>7}  0.989583\n1     0.218750    0.031250  ...  0.95946  0.993031\n"
)
"""A frame of pandas whose index has a name, and which is too wide for the screen."""
UNNAMED = " fold      auc  fit_seconds\n    0 {:.6f}     {:.6f}\n    1 0.996396     0.081829\n"
"""One without its index."""
BLANKS = (
    "   model     score  fit time  wall clock (s)  Training Time [ms]\n"
    "0  ridge  {:.6f}  {:.6f}        0.000190          {:>10.6f}\n"
    "1    net  0.915108  0.000176        0.000176            0.176112\n"
)
"""One with blanks in the names of its columns."""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BLANKS.format(0.25, 0.128744, 1.5), BLANKS.format(0.25, 0.5, 128.25)),
        (UNNAMED.format(0.967086, 0.128744), UNNAMED.format(0.967086, 1.5)),
        (polars("0.1", "0.000123"), polars("0.1", "1.2345678901234")),
        (NAMED.format("0.012872", "0.025795", "0.98592"), NAMED.format("0.21875", "0.03125", "0.98592")),
        (MARKDOWN.format("0.0722", "3"), MARKDOWN.format("10.5", "3")),
        (pretty("0.0722", "0.5"), pretty("12345.0722", "0.5")),
        (SKORCH.format("0.6868", "0.0244"), SKORCH.format("0.6868", "1.0244")),
        (RICH.format("0.07 s", "0.5"), RICH.format("12 ms", "0.5")),
        (PSQL.format("3.5", "0.5"), PSQL.format("11.25", "0.5")),
        ("**time** | loss\n|:--|--:|\n", "**time** | loss\n|:--|--:|\n"),
    ],
)
def test_columns_of_measurements_are_left_out(before: str, after: str) -> None:
    """A duration or a rate in a column of that name is one, however wide it makes the table."""
    assert difference(before, after) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # another column
        (MARKDOWN.format("0.5", "3"), MARKDOWN.format("0.5", "4")),
        (pretty("0.0722", "0.5"), pretty("0.0722", "0.6")),
        (SKORCH.format("0.6868", "0.0244"), SKORCH.format("0.6869", "0.0244")),
        (NAMED.format("0.1", "0.2", "0.98592"), NAMED.format("0.1", "0.2", "0.98593")),
        (UNNAMED.format(0.967086, 0.128744), UNNAMED.format(0.967087, 0.128744)),
        (BLANKS.format(0.25, 0.128744, 1.5), BLANKS.format(0.26, 0.128744, 1.5)),
        (
            BLANKS.format(0.25, 0.128744, 1.5).replace("fit time", "fit loss"),
            BLANKS.format(0.25, 0.128745, 1.5).replace("fit time", "fit loss"),
        ),
        (
            BLANKS.format(0.25, 0.128744, 1.5).replace("fit time", "lap time"),
            BLANKS.format(0.25, 0.128745, 1.5).replace("fit time", "lap time"),
        ),
        (NAMED.format("0.1", "0.2", "0.5").replace("fold", "part"), NAMED.format("0.1", "0.2", "0.5")),
        ("survival_time  0.5  0.1\n", "survival_time  0.6  0.1\n"),
        ("fit_time  0.5  red\n", "fit_time  0.5  blue\n"),
        ("val_loss  0.5  0.1\n", "val_loss  0.6  0.1\n"),
        ("  a  elapsed\nfold\nb\n", "  a  elapsed\nfold\nc\n"),
        # behind the table, or in no table
        (RICH.format("1 s", "0.5"), RICH.format("1 s", "0.6")),
        (MARKDOWN.replace("| 0.5 | 1 |", "| 0.6 | 1 |").format("1", "3"), MARKDOWN.format("1", "3")),
        (PSQL.format("3.5", "0.5") + "best loss | 0.3 | 1\n", PSQL.format("3.5", "0.5") + "best loss | 0.4 | 1\n"),
        (SKORCH + "final accuracy           0.91\n", SKORCH + "final accuracy           0.92\n"),
        ("stage  seconds\nload  0.5\n", "stage  seconds\nload  0.6\n"),
        ("| stage | seconds |\n| load | 0.5 |\n", "| stage | seconds |\n| load | 0.6 |\n"),
        # no measurement: a name that may be data's, no number, a negative one, the name of a result
        ("| city | time |\n| --- | --- |\n| Bonn | 3 |\n", "| city | time |\n| --- | --- |\n| Bonn | 4 |\n"),
        ("| a | seconds |\n|---|---|\n| b | red |\n", "| a | seconds |\n|---|---|\n| b | blue |\n"),
        ("| a | seconds |\n|---|---|\n| b | -3 |\n", "| a | seconds |\n|---|---|\n| b | -4 |\n"),
        ("| a | survival_time |\n|---|---|\n| b | 3 |\n", "| a | survival_time |\n|---|---|\n| b | 4 |\n"),
        # the head itself, one row more
        ("| a | seconds |\n|---|---|\n| b | 3 |\n", "| c | seconds |\n|---|---|\n| b | 3 |\n"),
        ("| a | seconds |\n|---|---|\n| b | 3 |\n", "| a | seconds |\n|---|---|\n| b | 3 |\n| b | 3 |\n"),
        (polars("0.1", "0.000123"), polars("0.2", "0.000124")),
        (polars("0.1", "0.000123"), polars("0.1", "0.000124", "str")),
        (
            polars("0.1", "0.000123").replace("compute_time", "compute_loss"),
            polars("0.1", "0.000124").replace("compute_time", "compute_loss"),
        ),
        (polars("0.1", "0.000123").replace("---", "=-="), polars("0.1", "0.000124").replace("---", "=-=")),
    ],
)
def test_all_else_counts(before: str, after: str) -> None:
    """What is in another column, behind a table, or not a plain number is a result."""
    assert difference(before, after) is not None


def test_columns_of_a_frame_without_an_index_are_in_doubt() -> None:
    """Any program may print such lines, whatever the names of its columns."""
    _, *found = rows(UNNAMED.format(0.967086, 0.128744).encode(), MASKS)
    assert [each.masked.guessed for each in found] == [True, True]


def test_the_line_is_quoted_as_it_was_printed() -> None:
    """A difference in a table shows the row itself, not what it was compared as."""
    assert difference(pretty("0.07", "0.5"), pretty("0.08", "0.6")) == (
        "| 1     | 0.07     | 0.5 |",
        "| 1     | 0.08     | 0.6 |",
    )


def test_heads_without_a_table_are_lines_like_others() -> None:
    """A line that looks like a head and is the last one, or is followed by another such, is neither lost nor moved."""
    text = "a  elapsed\nb  elapsed\n---  ---\nc | seconds"
    assert difference(text, text) is None
    assert difference(text, text.replace("b", "d")) == ("b  elapsed", "d  elapsed")
    assert difference(text, f"{text}!") == ("c | seconds", "c | seconds!")


def test_drawn_names_next_to_a_measurement_count_as_names() -> None:
    """A row with a column of times has other names too, which are data if several runs have them."""
    table = "| id | seconds |\n|---|---|\n| 0e37df36-f698-4dd5-a8a4-0a5e3a3a3a3a | 0.25 |\n"
    digest = PrintedDigest(MASKS)
    digest.feed(table.encode())
    assert len(digest.result().names) == 1


EVALUATED = (
    "   test_MAPE  fit_time  pred_time  len_train_window   cutoff\n0   {}  0.005102   {}                72  1954-12\n"
)


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        (EVALUATED.format("0.156669", "0.023147"), EVALUATED.format("0.156669", "0.063942"), True),
        (EVALUATED.format("0.156669", "0.023147"), EVALUATED.format("0.156670", "0.023147"), False),
        (
            EVALUATED.replace("len_train_window", "predicted_window").format("0.156669", "0.023147"),
            EVALUATED.replace("len_train_window", "predicted_window").format("0.156669", "0.063942"),
            False,
        ),
    ],
)
def test_how_long_sktime_took_to_predict(before: str, after: str, *, equal: bool) -> None:
    """``pred_time`` is a duration in the table that ``evaluate`` returns, and a result in all others."""
    assert (difference(before, after) is None) is equal


EPOCHS = (
    "epoch     train_loss  valid_loss  accuracy  time    \n"
    "0         0.767945    0.690279    0.570000  {}     \nBetter model found at epoch 0 with valid_loss value: {}.\n"
    "1         0.700001    0.650000    0.600000  {}     \n"
)
"""What fastai prints, with a callback's line between."""


@pytest.mark.parametrize(
    ("before", "after", "equal"),
    [
        (("00:01", "0.69", "00:02"), ("00:02", "0.69", "1:00:02"), True),
        (("00:01", "0.69", "00:02"), ("00:01", "0.70", "00:02"), False),
        (("00:01", "0.69", "00:02"), ("00:01", "0.69", "00:92"), False),
        (("00:01", "0.69", "12"), ("00:01", "0.69", "13"), False),
    ],
)
def test_minutes_and_seconds_of_fastais_epochs_are_left_out(
    before: tuple[str, ...], after: tuple[str, ...], *, equal: bool
) -> None:
    """The last column of a table of epochs has how long they took, as fastprogress writes it."""
    assert (difference(EPOCHS.format(*before), EPOCHS.format(*after)) is None) is equal


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (EPOCHS.format("00:01", "0.69", "00:02"), ("0.600000", "0.600001")),
        (EPOCHS.format("00:01", "0.69", "00:02"), ("\n1  ", "\n2  ")),
        (EPOCHS.replace("epoch", "train").format("00:01", "0.69", "00:02"), ("00:02", "00:03")),
        (EPOCHS.replace("time    ", "arrival ").format("00:01", "0.69", "00:02"), ("00:02", "00:03")),
        (EPOCHS.format("00:01", "0.69", "00:02").replace("\n1   ", "\n1     "), ("00:02", "00:03")),
        (EPOCHS.format("00:01", "0.69", "00:02") + "2         the train of 10:35\n", ("10:35", "10:36")),
    ],
)
def test_nothing_else_of_a_table_of_epochs_is(text: str, other: tuple[str, str]) -> None:
    """Other columns, tables with other names, and lines whose words are in other places are results."""
    assert difference(text, text.replace(*other)) is not None


def test_how_long_an_epoch_took_is_in_doubt() -> None:
    """A forecast may be a time as well, so that a line with one is quoted unless experiments decide it."""
    lines = Lines(MASKS)
    rows = [row for line in EPOCHS.format("00:01", "0.69", "00:02").splitlines() for row in lines.take(line)]
    assert [masked.guessed for _, masked in (*rows, *lines.finish())] == [False, True, False, True]
