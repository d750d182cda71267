"""Posteriors for predictions alone."""

import numpy as np
import pytest

import cavity
from cavity import fitting, inducing, kernels, likelihoods
from tests.tolerances import assert_close

RNG = np.random.default_rng(2)
X = RNG.uniform(0, 4, (30, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=30)
NEW = RNG.uniform(-1, 5, (9, 2))
KERNEL = kernels.RBF(1.3, [0.9, 1.4])
POINTS = inducing.Points(X[:6] + 0.1)
SUMS = inducing.Combinations(inducing.Points(RNG.uniform(0, 4, (12, 2))), RNG.normal(size=(6, 2)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("functionals", "likelihood", "own"),
    [
        (POINTS, likelihoods.Gaussian(0.05), 6 * 2),
        (SUMS, likelihoods.Gaussian(0.05), 6 * 2 * (2 + 1)),
        # sites of outliers may raise variances
        (POINTS, likelihoods.StudentT(0.01, 2.0), 6 * 2),
    ],
    ids=["points", "sums", "outliers"],
)
def test_vanderwilk_t45_predictions_and_size(functionals, likelihood, own, tmp_path):
    """vanderwilk T45: full predictions from M + M² + M C (D + 1) numbers and the parameters."""
    y = Y + 3.0 * (np.arange(30) == 4)
    model = cavity.GP(KERNEL, likelihood, functionals, cavity.means.Constant(0.2))
    posterior = cavity.infer(model, X, y, power=0.5).posterior
    small = fitting.compressed(posterior)
    fitting.save_module(tmp_path / "model", small, {})
    loaded, _ = fitting.load_module(tmp_path / "model")
    for other in (small, loaded):
        for a, b in zip(other.joint(NEW), posterior.joint(NEW), strict=True):
            assert_close(a, b, "quadrature", scale=1.0)
        assert_close(other.predict(NEW).mean, posterior.predict(NEW).mean, "quadrature")
    raised = 0 if small.process.raised is None else 6 * 6
    parameters = 2 * (3 + 1) + sum(np.size(x) for x in vars(likelihood).values())
    assert small.numbers == 6 + 6 * 6 + raised + own + parameters
    assert small.numbers < posterior.numbers
    assert loaded.numbers == small.numbers
    assert fitting.compressed(small).numbers == small.numbers


def test_weights_are_those_of_the_mean():
    model = cavity.GP(KERNEL, likelihoods.Gaussian(0.05), POINTS)
    small = fitting.compressed(cavity.infer(model, X, Y, power=0.0, jitter=0.0).posterior)
    cross = np.asarray(KERNEL.cross(POINTS.Z, NEW))
    assert_close(small.process.weights[:, 0] @ cross, small.marginals(NEW).mean, scale=1.0)


def test_variances_that_an_outlier_raised_stay_raised():
    """A Student-t outlier has a site of negative precision: its point ends above the prior's 1."""
    places = np.array([[0.0], [3.0]])
    likelihood = likelihoods.StudentT(4.0, 0.1)
    model = cavity.GP(kernels.RBF(1.0, 1.0), likelihood, inducing.Points(places))
    posterior = cavity.infer(model, places, np.array([3.0, 0.1]), power=1.0).posterior
    variance = np.asarray(posterior.marginals(places).var)
    assert variance[0] > 1.01
    assert_close(fitting.compressed(posterior).marginals(places).var, variance, "quadrature")


@pytest.mark.slow
def test_several_functions_and_classes():
    labels = np.digitize(Y, [-0.5, 0.5]).astype(float)
    model = cavity.GP(KERNEL, likelihoods.Softmax(3), POINTS)
    posterior = cavity.infer(model, X, labels, method=cavity.TiedPowerEP(), power=0.0).posterior
    small = fitting.compressed(posterior)
    assert_close(
        small.predict(NEW).probabilities, posterior.predict(NEW).probabilities, "quadrature"
    )


@pytest.mark.slow
def test_other_posteriors_are_refused():
    model = cavity.GP(KERNEL, likelihoods.MultinomialProbit(3), POINTS)
    labels = np.digitize(Y, [-0.5, 0.5]).astype(float)
    dependent = cavity.infer(model, X, labels, method=cavity.PowerEP(coupled=True)).posterior
    with pytest.raises(TypeError, match="independent functions"):
        fitting.compressed(dependent)
