"""Prepared data: what is counted, and in which order rows are drawn."""

import numpy as np

from cavity.learning.data.arrays import prepare

X = np.arange(10.0)[:, None]


def test_observed_outputs_are_counted_one_by_one():
    y = np.ones((10, 3))
    assert prepare(X, y).n_observed == 30.0
    y[4] = np.nan
    assert prepare(X, y, missing="skip").n_observed == 27.0
    y[[0, 1], [1, 2]] = np.nan
    data = prepare(X, y, missing="skip")
    assert data.n_observed == 25.0
    np.testing.assert_array_equal(data.rows_observed.per_output, [9.0, 8.0, 8.0])
    assert data.rows_observed.any_output == 9.0


def test_every_pass_of_minibatches_has_every_row_once():
    data = prepare(X, np.ones(10))
    assert len(data.rows.x) > 10
    batches = data.minibatches(4, np.random.default_rng(0))
    drawn = np.concatenate([next(batches).index for _ in range(10)])
    passes = drawn.reshape(4, 10)
    for order in passes:
        np.testing.assert_array_equal(np.sort(order), np.arange(10))
    assert len({tuple(order) for order in passes}) == 4
