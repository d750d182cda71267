"""Blocks of weights without their own sites: against dense inverses."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference.weights.block_sites import WeightBlockSites
from cavity.inference.weights.blocks import Blocks
from tests.tolerances import assert_close


def test_cavities_are_marginals_without_the_own_site():
    """Three blocks, one of them narrower than the others, beside two weights in none."""
    rng, columns = np.random.default_rng(0), [[1, 6], [0, 3, 4], [7, 2, 8]]
    blocks = Blocks.from_columns(columns, jnp.zeros(0).dtype)
    root = rng.standard_normal((2, 10, 10))
    known, shift = root @ np.swapaxes(root, 1, 2) + 0.5 * np.eye(10), rng.standard_normal((2, 10))
    own = rng.standard_normal((3, 2, 3, 3))
    own = 0.3 * own @ np.swapaxes(own, 2, 3)
    sites = WeightBlockSites(jnp.asarray(rng.standard_normal((3, 2, 3))), jnp.asarray(own))
    found_shift, found = blocks.cavities(jnp.asarray(shift), jnp.asarray(known), sites)
    for output, number in itertools.product(range(2), range(3)):
        block, others = columns[number], [i for i in range(3) if i != number]
        A, h = known[output].copy(), shift[output].copy()
        for i in others:
            size = len(columns[i])
            A[np.ix_(columns[i], columns[i])] += own[i, output, :size, :size]
            h[columns[i]] += sites.shift[i, output, :size]
        cov, mean, size = np.linalg.inv(A), np.linalg.solve(A, h), len(block)
        expected = np.linalg.inv(cov[np.ix_(block, block)])
        assert_close(found[number, output, :size, :size], expected, "factorised")
        assert_close(found_shift[number, output, :size], expected @ mean[block], "factorised")
    # of the empty place nothing but its precision
    assert_close(found[0, :, 2], np.array([[0.0, 0.0, 1.0]] * 2))
    assert_close(found_shift[0, :, 2], np.zeros(2))


@pytest.mark.slow
def test_digits_of_a_cavity_survive_a_narrow_site():
    """A site 1e16 times as precise as the cavity leaves all digits of it."""
    blocks = Blocks.from_columns([[0, 1], [2, 3]], jnp.zeros(0).dtype)
    known = np.array([[2.0, -1.0, 0.3, 0.0], [-1.0, 2.0, 0.0, 0.2]])
    known = jnp.asarray([*known, [0.3, 0.0, 3.0, 1.0], [0.0, 0.2, 1.0, 2.0]])[None]
    own = jnp.asarray([1e16 * np.eye(2), np.eye(2)])[:, None]
    sites = WeightBlockSites(jnp.zeros((2, 1, 2)), own)
    _, found = blocks.cavities(jnp.zeros((1, 4)), known, sites)
    other = np.asarray(known[0, 2:, 2:] + own[1, 0])
    across = np.asarray(known[0, :2, 2:])
    expected = known[0, :2, :2] - across @ np.linalg.solve(other, across.T)
    assert_close(found[0, 0], expected)
