"""Expected improvement: its logarithm, the best so far, goals, sets, and what is refused."""

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.active.improvement import log_h

NOISE = 0.3
R = np.random.default_rng(0)
X = R.uniform(-2.0, 2.0, (12, 1))
POOL = np.vstack([R.uniform(-3.0, 3.0, (9, 1)), [[40.0]]])
Y = np.sin(2.0 * X[:, 0]) + 0.5 * R.normal(size=12)


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def kernel(A, B):
    return 1.5 * np.exp(-0.5 * (A - B.T) ** 2 / 0.8**2)


def exact(data, y, new, noise=NOISE):
    """Mean and covariance of f, by dense algebra."""
    cross = kernel(data, new)
    weights = np.linalg.solve(kernel(data, data) + noise * np.eye(len(data)), cross)
    return weights.T @ y, kernel(new, new) - cross.T @ weights


def log_h_by_quadrature(z):
    """The log of the integral of t φ(t - z) over t > 0, without its largest factor."""
    width = 14.0 if z > -1.0 else 60.0 / abs(z)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    t, w = 0.5 * width * (nodes + 1.0), 0.5 * width * weights
    start = max(z, 0.0)
    if z > 0.0:  # far above, what counts is around z
        t = np.linspace(0.0, z + 14.0, 400_001)
        w = np.full(t.size, t[1])
        w[[0, -1]] *= 0.5
    within = np.log(np.sum(w * t * np.exp(t * z - 0.5 * t**2 - 0.5 * start**2)))
    return within + 0.5 * start**2 - 0.5 * z**2 - 0.5 * np.log(2.0 * np.pi)


def log_improvement(mean, var, best, sign):
    deviation = np.sqrt(var)
    each = [log_h_by_quadrature(z) for z in sign * (mean - best) / deviation]
    return np.array(each) + np.log(deviation)


def posterior(likelihood=None, y=Y, functionals=None):
    likelihood = likelihoods.Gaussian(NOISE) if likelihood is None else likelihood
    model = cavity.GP(kernels.RBF(1.5, 0.8), likelihood, functionals)
    return cavity.infer(model, X, y, jitter=0.0 if functionals is None else 1e-8)


@pytest.mark.parametrize("z", [9.0, 2.0, 0.0, -0.999, -1.001, -5.0, -29.9, -30.1, -40.0, -1e4])
def test_the_logarithm_is_that_of_the_integral(z):
    np.testing.assert_allclose(log_h(np.array([z]))[0], log_h_by_quadrature(z), rtol=0, atol=1e-8)


def test_nothing_underflows_and_the_order_stays():
    found = log_h(-np.logspace(0.0, 100.0, 50))
    assert np.all(np.isfinite(found))
    assert np.all(np.diff(found) < 0.0)


@pytest.mark.parametrize(("goal", "sign"), [(None, -1.0), ("maximise", 1.0)])
def test_without_noise_it_is_improvement_on_the_best_output(goal, sign):
    model = cavity.GP(kernels.RBF(1.5, 0.8), likelihoods.Gaussian(1e-8))
    y = np.sin(2.0 * X[:5, 0])
    result = cavity.infer(model, X[:5], y, jitter=0.0)
    pool = np.array([[-2.5], [-0.3], [2.4]])
    found = cavity.suggest(result, pool, 1, "improvement", goal=goal)
    mean, cov = exact(X[:5], y, pool, 1e-8)
    gains = log_improvement(mean, np.diag(cov), sign * np.max(sign * y), sign)
    assert found.rows[0] == np.argmax(gains)
    np.testing.assert_allclose(found.gains[0], np.max(gains), rtol=0, atol=1e-6)


def test_one_measured_row_is_an_average_over_its_value():
    """The difference of two values of a Gaussian, one of which is uncertain."""
    found = cavity.suggest(posterior(), POOL[:1], 1, "improvement", X[:1])
    mean, cov = exact(X, Y, np.vstack([X[:1], POOL[:1]]))
    var = cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]
    gain = log_improvement(mean[1:], np.array([var]), mean[0], -1.0)
    np.testing.assert_allclose(found.gains, gain, rtol=0, atol=2e-4)


@pytest.mark.parametrize(("goal", "sign"), [(None, -1.0), ("maximise", 1.0)])
def test_sets_improve_on_all_measured_and_chosen_rows(goal, sign):
    """By many joint draws of the function."""
    found = cavity.suggest(posterior(), POOL, 3, "improvement", goal=goal)
    mean, cov = exact(X, Y, np.vstack([X, POOL]))
    root = np.linalg.cholesky(cov + 1e-10 * np.eye(len(cov)))
    draws = mean + np.random.default_rng(1).normal(size=(200_000, len(mean))) @ root.T
    known = list(range(len(X)))
    for row, gain in zip(found.rows, found.gains, strict=True):
        best = np.max(sign * draws[:, known], axis=1)
        better = np.maximum(sign * draws[:, len(X) :] - best[:, None], 0.0).mean(axis=0)
        assert better[row] > 0.9 * np.max(better)
        np.testing.assert_allclose(np.exp(gain), better[row], rtol=0.1)
        known.append(len(X) + row)


def test_far_rows_that_cannot_improve_are_told_apart():
    """A function that is known well: all improvements are below the least number there is."""
    near = np.linspace(-1.0, 1.0, 30)[:, None]
    model = cavity.GP(kernels.RBF(100.0, 4.0), likelihoods.Gaussian(1e-6))
    result = cavity.infer(model, near, 10.0 * near[:, 0], jitter=0.0)
    places = (-0.4, 0.0, 0.4, 0.8)
    gains = [
        cavity.suggest(result, np.array([[place]]), 1, "improvement").gains[0] for place in places
    ]
    assert max(gains) < -1e3
    assert np.all(np.isfinite(gains))
    assert np.all(np.diff(gains) < 0.0)


def test_measured_rows_are_those_of_the_result_or_the_reference():
    """Sparse posteriors hold none; outputs that are missing were not measured."""
    sparse = posterior(functionals=inducing.Points(X[:9]))
    found = cavity.suggest(sparse, POOL, 2, "improvement")
    given = cavity.suggest(sparse.posterior, POOL, 2, "improvement", X)
    np.testing.assert_array_equal(found.gains, given.gains)
    with pytest.raises(ValueError, match="does not hold: give their inputs as the reference"):
        cavity.suggest(sparse.posterior, POOL, 2, "improvement")
    whole = posterior()
    np.testing.assert_array_equal(
        cavity.suggest(whole, POOL, 2, "improvement").gains,
        cavity.suggest(whole.posterior, POOL, 2, "improvement").gains,
    )
    seen = np.arange(12) != np.argmin(Y)
    model = cavity.GP(kernels.RBF(1.5, 0.8), likelihoods.Gaussian(NOISE))
    partly = cavity.infer(model, X, np.where(seen, Y, np.nan), missing="skip")
    np.testing.assert_array_equal(
        cavity.suggest(partly, POOL, 1, "improvement").gains,
        cavity.suggest(partly.posterior, POOL, 1, "improvement", X[seen]).gains,
    )


def test_the_first_of_several_functions_is_improved():
    likelihood = likelihoods.HeteroscedasticGaussian()
    result = posterior(likelihood)
    found = cavity.suggest(result, POOL, 1, "improvement", X[:1], goal="maximise")
    joint = result.posterior.of_function(0).joint(np.vstack([X[:1], POOL[found.rows]]))
    mean, cov = np.asarray(joint.mean).ravel(), np.asarray(joint.cov).reshape(2, 2)
    var = np.array([cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]])
    expected = log_improvement(mean[1:], var, mean[0], 1.0)
    np.testing.assert_allclose(found.gains, expected, rtol=0, atol=1e-3)


def test_rows_that_were_measured_are_left_out():
    found = cavity.suggest(posterior(), np.vstack([X, POOL[:3]]), 5, "improvement")
    assert sorted(found.rows) == [12, 13, 14]
    assert "12 candidates that had been measured cannot improve: left out" in found.message
    with pytest.raises(ValueError, match="every candidate was measured already"):
        cavity.suggest(posterior(), X, 5, "improvement")


def test_what_cannot_be_improved_is_refused():
    result = posterior()
    with pytest.raises(ValueError, match="goal is minimise or maximise, given 'least'"):
        cavity.suggest(result, POOL, 1, "improvement", goal="least")
    with pytest.raises(ValueError, match="a goal is for 'improvement', not for 'variance'"):
        cavity.suggest(result, POOL, 1, "variance", goal="minimise")
    labels = posterior(likelihoods.Bernoulli(), (Y > 0.0).astype(float))
    with pytest.raises(ValueError, match="outputs of this model are labels"):
        cavity.suggest(labels, POOL, 1, "improvement")
    two = posterior(y=np.column_stack([Y, -Y]))
    with pytest.raises(ValueError, match="of one output, and this model has 2"):
        cavity.suggest(two, POOL, 1, "improvement")
