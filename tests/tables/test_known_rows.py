"""Rows of a fit are known again by their values."""

import numpy as np

from cavity.tables.known_rows import Known, known_rows, marks

random = np.random.default_rng(0)
VALUES = random.standard_normal((40, 2))
VALUES[3, 0], VALUES[4] = np.nan, np.nan
FIT = marks(VALUES)


def known(table, fit=FIT):
    return known_rows(marks(np.asarray(table, float)), fit)


def test_whole_beginning_middle_and_end():
    new = random.standard_normal((5, 2))
    assert known(VALUES)[:3] == (0, 40, True)
    assert known(np.vstack([VALUES, new]))[:3] == (0, 40, True)
    assert known(VALUES[:7])[:3] == (0, 7, False)
    assert known(VALUES[12:13])[:3] == (12, 1, False)
    assert known(np.vstack([VALUES[35:], new]))[:3] == (35, 5, True)


def test_other_rows_are_not_known():
    """New rows, some of the fit with others after; rows in another order are counted."""
    new = random.standard_normal((5, 2))
    none = Known(0, 0, to_the_end=False)
    for table in (new, VALUES[5:] + 1e-9):
        assert known(table) == none
    assert known(np.vstack([VALUES[10:20], new])) == none._replace(elsewhere=10)
    assert known(VALUES[::-1]) == Known(39, 1, to_the_end=True, elsewhere=39)
    assert known_rows(FIT, np.zeros(0)) == none


def test_what_is_equal_has_one_mark():
    np.testing.assert_array_equal(
        marks(np.array([[0.0, np.nan]])), marks(np.array([[-0.0, -np.nan]]))
    )
    assert len(np.unique(FIT)) == 40
    assert np.all(np.round(FIT) == FIT)


def test_truth_values_are_known_by_all_of_them_only():
    bits = np.random.default_rng(1).integers(0, 2, (60, 1))
    fit = marks(bits.astype(float))
    assert known(bits[20:28], fit).count == 0
    assert known(np.vstack([bits, bits[:5]]), fit)[:3] == (0, 60, True)


def test_values_that_repeat_are_no_rows_of_the_fit():
    """Whole numbers go on: some of the new ones came before, at other times."""
    levels = np.random.default_rng(1).integers(-2, 3, 80)
    for series in (np.cumsum(levels), np.arange(80) % 7, np.round(9.0 * np.sin(np.arange(80)))):
        rows = marks(series[:, None].astype(float))
        assert np.any(np.isin(rows[60:], rows[:60]))
        assert known_rows(rows, rows[:60]) == Known(0, 60, to_the_end=True)
