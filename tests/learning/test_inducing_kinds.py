"""Where inducing variables of other kinds start, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, initialisation, kernels
from cavity.inducing import covariance
from cavity.initialisation import initial_inducing
from cavity.learning.initialisation.inducing_kinds import KINDS, correlation_lengths
from tests.tolerances import assert_close

KERNEL = kernels.RBF(1.3, [1.5, 0.4])
X = np.random.default_rng(0).uniform(0, 3, (40, 2))


def test_correlation_lengths_are_the_lengthscales_of_an_rbf():
    assert_close(correlation_lengths(KERNEL, X), [1.5, 0.4], "factorised")


def test_correlation_lengths_of_sums_and_of_columns_without_a_part():
    """A constant makes correlations reach further; a column that is not seen, ten spreads."""
    alone = correlation_lengths(kernels.RBF(1.0, [0.5, 0.5]).on(0, 1), X)
    more = correlation_lengths(kernels.RBF(1.0, [0.5, 0.5]) + kernels.Constant(0.5), X)
    assert np.all(more > alone)
    unseen = correlation_lengths(kernels.RBF(1.0, 0.5).on(0), X)
    assert_close(unseen, [0.5, 10.0 * X[:, 1].std()], "factorised")


@pytest.mark.sampled(1, "slopes")
@pytest.mark.parametrize("kind", KINDS)
def test_starts_explain_most_of_what_points_explain(kind):
    """vanderwilk items 48 to 52: all functionals are of one size, and about the chosen places."""
    found = initial_inducing(KERNEL, X, 12, kind=kind)
    assert found.size == 12
    Kuu = np.asarray(covariance(KERNEL, found, found)) + 1e-9 * np.eye(12)
    Kfu = np.asarray(covariance(KERNEL, inducing.Points(X), found))
    explained = np.trace(Kfu @ np.linalg.solve(Kuu, Kfu.T)) / (1.3 * len(X))
    assert explained > 0.3
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(np.isfinite(leaf), True), found)


def test_windows_stand_at_the_points_with_widths_in_proportion_to_lengthscales():
    found = initial_inducing(KERNEL, X, 5, kind="windows")
    np.testing.assert_array_equal(found.centres, initialisation.select_inducing(KERNEL, X, 5))
    assert_close(found.widths[:, 0] / found.widths[:, 1], np.full(5, 1.5 / 0.4), "factorised")


def test_slopes_come_with_the_value_of_their_place():
    found = initial_inducing(KERNEL, X, 7, kind="slopes")
    np.testing.assert_array_equal(found.columns, [-1, 0, 1, -1, 0, 1, -1])
    np.testing.assert_array_equal(found.Z[0], found.Z[2])


def test_constant_columns_have_finite_starts():
    level = np.column_stack([X[:, 0], np.ones(len(X))])
    found = initial_inducing(kernels.Matern52(1.0, [1.0, 1.0]), level, 6, kind="waves")
    assert np.all(np.isfinite(found.frequencies) & (found.widths > 0))


TEN = np.random.default_rng(1).normal(size=(30, 10))
REFUSED = {
    "unknown": (lambda: initial_inducing(KERNEL, X, 5, kind="splines"), "one of"),
    "none": (lambda: initial_inducing(KERNEL, X, 0, kind="windows"), "at least 1"),
    "negative slopes": (lambda: initial_inducing(KERNEL, X, -3, kind="slopes"), "at least 1"),
    "ten columns": (
        lambda: initial_inducing(kernels.Matern52(1.0, np.ones(10)), TEN, 5, kind="waves"),
        "inducing.Points",
    ),
    "no slopes": (
        lambda: initial_inducing(kernels.Matern12(), X, 5, kind="slopes"),
        "Matern12 kernel have no slopes",
    ),
    "width zero": (lambda: inducing.Windows(X, 0.0), "positive"),
    "a negative width": (lambda: inducing.Waves(X, [0.5, -1.0], 0.1), "given -1"),
    "no width": (lambda: inducing.Windows(X, np.nan), "finite"),
    "infinite weights": (
        lambda: inducing.Combinations(inducing.Points(X), np.full((20, 2), np.inf)),
        "finite",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_misuse_is_refused_plainly(case):
    build, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        build()


def test_learned_widths_stay_positive():
    """Widths are checked where they are given; learning moves their logarithms."""
    y = np.sin(3.0 * X[:, 0])
    start = initial_inducing(KERNEL, X, 6, kind="windows")
    model = cavity.GP(KERNEL, cavity.likelihoods.Gaussian(0.01), start)
    learned = cavity.fit(model, X, y, power=0.0, max_iterations=5).model.inducing
    assert np.all(np.asarray(learned.widths) > 0.0)
    assert jnp.shape(learned.widths) == (6, 2)
