"""Rows outside the range of the fit: counted always, told where chance would not do it."""

import numpy as np
import pytest

from cavity.columns.encoder import Column, Encoder
from cavity.columns.ranges import Outside, Range, outside_of, ranges_of
from cavity.columns.warnings import EncodingWarnings

ENCODER = Encoder(
    (
        Column("x", "numeric"),
        Column("colour", "categorical", ("blue", "red")),
        Column("old", "boolean"),
        Column("z", "numeric"),
    )
)
X = np.array([[1.0, 0, 1, 0, 5.0], [3.0, 1, 0, 1, 5.0]])


def test_ranges_are_those_of_numbers_and_add_up():
    ranges = ranges_of(ENCODER, X)
    assert ranges == {"x": Range(1.0, 3.0, 2), "z": Range(5.0, 5.0, 2)}
    assert ranges["x"] + Range(2.0, 9.0, 5) == Range(1.0, 9.0, 7)
    assert ranges_of(ENCODER, X[:0]) == {}


def test_rows_outside_are_counted_by_side_and_distance():
    new = np.array([[0.0, 0, 0, 0, 5.0], [1.0, 0, 0, 0, 6.0], [8.0, 0, 0, 0, 7.0]])
    found = outside_of(ranges_of(ENCODER, X), ENCODER, new)
    # 8 is 2.5 widths above 3; all were equal in z, which has no width
    assert found == {"x": Outside(2, 1, 1, 2.5), "z": Outside(2, 0, 2, 0.0)}
    parts = [outside_of(ranges_of(ENCODER, X), ENCODER, part)["x"] for part in (new[:2], new[2:])]
    assert parts[0] + parts[1] == found["x"]
    assert outside_of({}, ENCODER, new) == {}


@pytest.mark.parametrize(
    ("outside", "rows", "told"),
    [
        (Outside(160, 0, 1, 0.1), 40, False),
        (Outside(160, 0, 40, 0.1), 40, True),
        # (40/200) (39/199) ... of 5 rows is 2.6e-4, of 6 rows 4.7e-5: 5e-5 is a thousandth of 20
        (Outside(160, 5, 0, 0.1), 40, False),
        (Outside(160, 6, 0, 0.1), 40, True),
        (Outside(160, 4, 3, 0.1), 40, False),
        (Outside(160, 0, 1, 2.9), 40, False),
        (Outside(160, 0, 1, 3.1), 40, True),
        (Outside(160), 40, False),
    ],
)
def test_told_where_chance_would_not_do_it(outside, rows, told):
    """The 20 ends of ten columns in one of a thousand tables."""
    assert outside.worth_a_word(rows, 10) is told


def test_rows_of_the_same_distribution_are_hardly_ever_told_of():
    rng = np.random.default_rng(0)
    encoder = Encoder(tuple(Column(f"x{i}", "numeric") for i in range(5)))
    told = 0
    for _ in range(100):
        ranges = ranges_of(encoder, rng.standard_normal((50, 5)))
        found = outside_of(ranges, encoder, rng.standard_normal((50, 5)))
        told += any(one.worth_a_word(50, 5) for one in found.values())
    assert told <= 1


def test_what_is_said():
    def said(*outside, rows=40):
        named = {f"x{i}": Outside(160, 0, *one) for i, one in enumerate(outside)}
        noticed = EncodingWarnings(rows, rows, {}, named)
        return (EncodingWarnings() + noticed).warnings, noticed.record

    date = EncodingWarnings(40, 40, {}, {"date": Outside(160, 0, 12, 0.1), "x": Outside(160)})
    assert date.warnings == (
        "12 of 40 rows lie outside the range of the fit in 'date': predictions there are "
        "extrapolated",
    )
    assert date.record == {"outside": {"date": 12}}
    two, record = said((12, 0.1), (1, 4.0), (1, 0.1))
    assert (
        "12 of 40 rows lie outside the range of the fit in 'x0', 1 in 'x1': predictions" in two[0]
    )
    assert record == {"outside": {"x0": 12, "x1": 1, "x2": 1}}
    many, _ = said(*[(12, 0.1)] * 7)
    assert "12 in 'x5', some in 1 other column: predictions" in many[0]
    assert said((1, 0.1)) == ((), {"outside": {"x0": 1}})
    assert EncodingWarnings(40, 40).record == {}
