"""Leave-one-out densities from the cavities, against refits without the row."""

import numpy as np
import pytest
from scipy import special

import cavity
from cavity.likelihoods import Bernoulli, Gaussian
from tests.tolerances import assert_close

R = np.random.default_rng(5)
X = R.uniform(0, 4, (14, 1))
Y = np.sin(2 * X[:, 0]) + 0.2 * R.standard_normal(14)
KERNEL = cavity.kernels.RBF(1.3, 0.8)


def refitted(model, y, power):
    """Densities of each row under the posterior of the others, at the same parameters."""
    found = []
    for n in range(len(X)):
        rest = np.arange(len(X)) != n
        posterior = cavity.infer(model, X[rest], y[rest], power=power).posterior
        found.append(float(posterior.predict(X[n : n + 1]).log_density(y[n : n + 1])[0]))
    return np.array(found)


@pytest.mark.parametrize(("points", "power"), [(None, 0.5), (5, 0.0), (5, 0.5), (5, 1.0)])
def test_jylanki_19_gaussian_noise_is_exact(points, power):
    """jylanki 19: the closed form, for the full GP and with inducing points held fixed."""
    inducing = None if points is None else cavity.inducing.Points(X[:points])
    model = cavity.GP(KERNEL, Gaussian(0.05), inducing)
    found = cavity.infer(model, X, Y, power=power).leave_one_out()
    assert found.shape == (14,)
    assert_close(found, refitted(model, Y, power), "factorised")


def test_two_classes_come_close():
    labels = (Y > 0).astype(float)
    model = cavity.GP(cavity.kernels.RBF(3.0, 0.8), Bernoulli())
    found = cavity.infer(model, X, labels, power=1.0).leave_one_out()
    expected = refitted(model, labels, 1.0)
    assert np.corrcoef(found, expected)[0, 1] > 0.97
    assert abs(np.mean(found - expected)) < 0.1


def test_missing_outputs_and_blocks():
    model = cavity.GP(KERNEL, Gaussian(0.05), cavity.inducing.Points(X[:5]))
    y = np.where(np.arange(14) == 3, np.nan, Y)
    found = cavity.infer(model, X, y, missing="skip").leave_one_out()
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    with pytest.raises(ValueError, match="block"):
        cavity.infer(model, X, Y, blocks=np.arange(14) // 7).leave_one_out()


@pytest.mark.parametrize("points", [None, 5], ids=["full", "sparse"])
def test_outputs_missing_in_different_places(points):
    """Each output's densities are those of its observed rows alone, and NaN elsewhere."""
    y = np.stack([Y, -Y], axis=1)
    y[[1, 6], 0], y[[2, 6], 1] = np.nan, np.nan
    inducing = None if points is None else cavity.inducing.Points(X[:points])
    model = cavity.GP(KERNEL, Gaussian(0.05), inducing)
    found = cavity.infer(model, X, y, power=0.5, missing="skip").leave_one_out()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(y))
    for column, own in zip(y.T, found.T, strict=True):
        seen = ~np.isnan(column)
        alone = cavity.infer(model, X[seen], column[seen], power=0.5).leave_one_out()
        assert_close(own[seen], alone, "factorised")


def test_two_classes_are_their_cavities():
    """By hand: Phi(y m / sqrt(1 + v)) with the whole of a row's site taken out."""
    labels = (Y > 0).astype(float)
    result = cavity.infer(cavity.GP(KERNEL, Bernoulli()), X, labels, power=0.5)
    mean, var = result.posterior.marginals(X)
    tau = result.site_precisions()
    ((store,),) = result.found
    nu = np.asarray(store.shift)[:14, 0]
    left = 1.0 - var * tau
    m, v = (mean - var * nu) / left, var / left
    expected = special.log_ndtr((2.0 * labels - 1.0) * m / np.sqrt(1.0 + v))
    assert_close(result.leave_one_out(), expected, "factorised")


# --------------------------------------------------------------------------- the sites of rows

POINTS = cavity.inducing.Points(X[:5])


def test_bui_07_precisions_of_exact_factors():
    """bui 7: one over the noise and the row's share of what inducing points leave unexplained."""
    model = cavity.GP(KERNEL, Gaussian(0.05), POINTS)
    settings = {"power": 0.5, "jitter": 1e-12}
    found = cavity.infer(model, X, Y, **settings).site_precisions()
    Kuf, Kuu = (np.asarray(KERNEL.cross(Z, X[:5])) for Z in (X, X[:5]))
    left = 1.3 - np.sum(Kuf * np.linalg.solve(Kuu, Kuf.T).T, axis=1)
    np.testing.assert_allclose(found, 1.0 / (0.05 + 0.5 * left), rtol=1e-5)
    swept = cavity.infer(model, X, Y, method=cavity.PowerEP(exact=False), **settings)
    np.testing.assert_allclose(swept.site_precisions(), found, rtol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "method",
    [cavity.PowerEP(), cavity.Laplace(), cavity.MeanField(), cavity.TiedPowerEP()],
    ids=lambda method: type(method).__name__,
)
def test_an_outlier_has_next_to_no_precision(method):
    y = Y + 8.0 * (np.arange(14) == 6)
    model = cavity.GP(KERNEL, cavity.likelihoods.StudentT(0.2, 3.0), POINTS)
    found = cavity.infer(model, X, y, power=1.0, method=method).site_precisions()
    assert found.shape == (14,)
    assert np.flatnonzero(found < 0.1 * np.median(found)).tolist() == [6]


def test_rows_with_a_tied_site_have_the_precision_of_their_noise():
    """What a Gaussian row says at the belief is one over its noise, at every power."""
    model = cavity.GP(KERNEL, Gaussian(0.05), POINTS)
    for power in (0.0, 1.0):
        found = cavity.infer(model, X, Y, power=power, method=cavity.TiedPowerEP(max_sweeps=5))
        np.testing.assert_allclose(found.site_precisions(), 20.0, rtol=1e-9)


@pytest.mark.slow
def test_precisions_of_several_outputs_and_functions():
    y = np.stack([Y, np.where(np.arange(14) == 3, np.nan, Y)], axis=1)
    model = cavity.GP(KERNEL, Gaussian(0.05))
    found = cavity.infer(model, X, y, missing="skip").site_precisions()
    np.testing.assert_allclose(found, np.where(np.isnan(y), np.nan, 20.0), rtol=1e-12)
    model = cavity.GP((KERNEL, KERNEL), cavity.likelihoods.HeteroscedasticGaussian())
    few = cavity.PowerEP(max_sweeps=5, tolerance=1.0)
    found = cavity.infer(model, X, Y, power=0.0, method=few).site_precisions()
    assert found.shape == (14, 2)
    assert np.all(found > 0.0)
