"""Where inducing points start, and blocks of neighbours."""

import numpy as np
import pytest

import cavity
from cavity.initialisation import cluster_blocks, select_inducing

KERNEL = cavity.kernels.RBF(1.3, [1.5, 2.0])
X = np.random.default_rng(0).uniform(0, 3, (40, 2))
each_choice = pytest.mark.parametrize("choice", ["greedy", "kmeans", "random"])


def brute_force(X, M):
    """The row of largest conditional variance, again and again, by dense conditioning."""
    K = np.asarray(KERNEL.cross(X, X))
    chosen = []
    for _ in range(M):
        left = np.diag(K).copy()
        if chosen:
            C = K[np.ix_(chosen, chosen)]
            left = left - np.sum(K[chosen] * np.linalg.solve(C, K[chosen]), axis=0)
        left[chosen] = -np.inf
        chosen.append(int(np.argmax(left)))
    return X[chosen]


def test_greedy_is_a_pivoted_cholesky():
    """vanderwilk item 47; the order is that of the choice."""
    distinct = np.unique(X, axis=0)
    np.testing.assert_array_equal(select_inducing(KERNEL, X, 12), brute_force(distinct, 12))


def test_greedy_explains_more_than_random():
    def left(Z):
        K, Kuf, Kuu = (np.asarray(KERNEL.cross(a, b)) for a, b in ((X, X), (Z, X), (Z, Z)))
        return np.trace(K - Kuf.T @ np.linalg.solve(Kuu, Kuf))

    greedy = left(select_inducing(KERNEL, X, 10))
    assert greedy < left(select_inducing(KERNEL, X, 10, choice="random"))


@each_choice
def test_counts_and_places(choice):
    """As many as asked, inside the data; the same for a seed."""
    for M in (1, 7, 39):
        Z = select_inducing(KERNEL, X, M, choice=choice, seed=1)
        assert Z.shape == (M, 2)
        assert np.all((X.min(axis=0) - 1e-9 <= Z) & (X.max(axis=0) + 1e-9 >= Z))
        np.testing.assert_array_equal(Z, select_inducing(KERNEL, X, M, choice=choice, seed=1))
    if choice != "kmeans":
        assert {tuple(z) for z in Z} <= {tuple(x) for x in X}


@each_choice
def test_more_points_than_rows(choice):
    """All distinct rows, each once."""
    repeated = np.concatenate([X[:5], X[:5], X[:2]])
    Z = select_inducing(KERNEL, repeated, 50, choice=choice)
    np.testing.assert_array_equal(Z, np.unique(X[:5], axis=0))


def test_more_points_than_the_kernel_can_tell_apart():
    """A kernel of low rank runs out of variance; the rest is chosen at random."""
    Z = select_inducing(cavity.kernels.Linear(1.0), X, 10)
    assert len(np.unique(Z, axis=0)) == 10


def test_random_choices_follow_the_seed():
    one, two = (select_inducing(KERNEL, X, 5, choice="random", seed=s) for s in (0, 1))
    assert not np.array_equal(one, two)


def test_kmeans_does_not_depend_on_units():
    Z = select_inducing(KERNEL, X, 5, choice="kmeans")
    other = select_inducing(KERNEL, X * [1.0, 1024.0], 5, choice="kmeans")
    np.testing.assert_allclose(other, Z * [1.0, 1024.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"M": 0}, "at least 1, given 0"), ({"M": 3, "choice": "best"}, "given 'best'")],
)
def test_impossible_choices_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        select_inducing(KERNEL, X, **options)


@pytest.mark.parametrize("size", [1, 4, 7, 100])
def test_blocks_are_neighbours_of_about_one_size(size):
    labels = cluster_blocks(X, size)
    counts = np.bincount(labels)
    assert np.all(counts > 0)
    assert counts.max() <= size
    assert counts.min() >= min(size, len(X)) // 2
    np.testing.assert_array_equal(labels, cluster_blocks(X, size))
    if size == 7:
        scaled = X / X.std(axis=0)
        within = np.mean([scaled[labels == k].var(axis=0).sum() for k in range(len(counts))])
        assert within < 0.5 * scaled.var(axis=0).sum()


def test_blocks_of_equal_rows():
    labels = cluster_blocks(np.ones((9, 2)), 4)
    assert np.bincount(labels).max() <= 4
    with pytest.raises(ValueError, match="given a size of 0"):
        cluster_blocks(X, 0)
