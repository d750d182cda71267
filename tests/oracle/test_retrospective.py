"""The sampler of latent-variable models against its prior, a grid, and the package."""

import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import inducing
from tests.models import latent_toy as toy
from tests.oracle.retrospective import Sampler, rbf

KERNEL = rbf(toy.VARIANCE, toy.LENGTHSCALE)


def test_one_row_says_nothing_of_its_input():
    """Identity vanderwilk T67: under a stationary kernel the posterior is the prior."""
    sampler = Sampler(np.array([[0.9, -0.3]]), KERNEL, 0.3, chains=3000)
    sampler.X[:] = 2.0
    sampler.resample_functions()
    for _ in range(100):
        sampler.sweep()
    assert stats.kstest(sampler.X[:, 0], "norm").pvalue > 1e-3


def grid_of_two(Y, z, noise):
    """Posterior means of x₁x₂, (x₁ - x₂)² and of the functions at z and their squares."""
    nodes = np.linspace(-5.0, 5.0, 101)
    X = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    own = KERNEL(X, X)
    C = own + noise * np.eye(2)
    solved = np.linalg.solve(C, np.broadcast_to(Y, (len(X), *Y.shape)))
    log_weights = stats.norm.logpdf(X).sum(1) - 0.5 * np.einsum("np,rnp->r", Y, solved)
    log_weights -= 0.5 * Y.shape[1] * np.linalg.slogdet(C)[1]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    cross = KERNEL(X, np.full((len(X), 1), z))
    mean = np.einsum("rnm,rnp->rp", cross, solved)
    var = toy.VARIANCE - np.einsum("rnm,rnm->r", cross, np.linalg.solve(C, cross))
    of_inputs = weights @ (X[:, 0] * X[:, 1]), weights @ (X[:, 0] - X[:, 1]) ** 2
    return of_inputs, weights @ mean, weights @ (mean**2 + var[:, None])


def test_two_rows_agree_with_a_grid():
    """Identity vanderwilk T67, of the inputs and of the functions elsewhere.

    Moves of inputs leave the law of the functions at a fixed place as it was.
    """
    Y, z, noise, chains = np.array([[1.2, -0.6], [0.3, 0.7]]), 0.4, 0.1, 4000
    sampler = Sampler(Y, KERNEL, noise, chains)
    for _ in range(40):
        sampler.sweep()
    for n in range(2):
        sampler.move(n, independent=False)
    place = np.full((chains, 1), z)
    functions = sampler.at(place)[:, 0]
    X = sampler.X
    (product, square), mean, squares = grid_of_two(Y, z, noise)

    def agrees(draws, expected):
        error = draws.std(0) / np.sqrt(chains)
        np.testing.assert_array_less(np.abs(draws.mean(0) - expected), 4.0 * error)

    agrees(X[:, 0] * X[:, 1], product)
    agrees((X[:, 0] - X[:, 1]) ** 2, square)
    agrees(functions, mean)
    agrees(functions**2, squares)


@pytest.mark.slow
def test_variational_inputs_are_as_far_apart_as_sampled_ones():
    """Distances between rows, which reflections of the latent space leave as they are."""
    Y, _ = toy.outputs()
    points = inducing.Points(np.linspace(-3.0, 3.0, 12)[:, None])
    found = cavity.infer(toy.model(inducing=points), None, Y, power=0.0).posterior.latent
    mean, var = np.asarray(found.mean)[:, 0], np.asarray(found.var)[:, 0]
    sampler = Sampler(Y, KERNEL, toy.NOISE, chains=200, start=mean)
    total, count = 0.0, 0
    for sweep in range(250):
        sampler.sweep()
        if sweep >= 100:
            total = total + np.mean((sampler.X[:, :, None] - sampler.X[:, None]) ** 2, 0)
            count += 1
    sampled = total / count
    variational = (mean[:, None] - mean) ** 2 + var[:, None] + var
    above = np.triu_indices(toy.ROWS, 1)
    correlation = np.corrcoef(np.sqrt(sampled[above]), np.sqrt(variational[above]))[0, 1]
    assert correlation > 0.9
    ratio = np.sqrt(variational[above].mean() / sampled[above].mean())
    assert 0.8 < ratio < 1.1, ratio
