"""Random Fourier features: unbiased, within their bound, and exact as a model."""

import warnings

import equinox as eqx
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity import likelihoods, parameters
from cavity.kernels import (
    RBF,
    AbstractKernel,
    Constant,
    Matern12,
    Matern32,
    Periodic,
    RandomFourier,
    fourier_error_probability,
    fourier_frequencies_needed,
)
from cavity.kernels.random_fourier import feature_count, features
from tests.oracle import dense
from tests.tolerances import assert_close

RNG = np.random.default_rng(3)
X = RNG.uniform(-1.0, 1.0, (30, 2))
Y = np.sin(3 * X[:, 0]) + 0.1 * RNG.normal(size=30)
LENGTHSCALES = np.array([0.9, 1.4])


def waves(kernel, R, seed, *, orthogonal=True):
    """The kernel at distances from the first row, by the frequencies alone."""
    drawn = RandomFourier(kernel, R, seed=seed, orthogonal=orthogonal).frequencies
    return np.mean(np.cos((X - X[0]) / np.asarray(kernel.lengthscale) @ drawn.T), axis=1)


@pytest.mark.sampled(2, "Matern32-True", "RBF-True")
@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("kind", [RBF, Matern32, Matern12])
def test_vanderwilk_t9_covariances_are_unbiased(kind, orthogonal):
    """vanderwilk T9: the mean over draws is the kernel, within five standard errors."""
    kernel = kind(1.0, LENGTHSCALES)
    draws = np.stack([waves(kernel, 8, seed, orthogonal=orthogonal) for seed in range(600)])
    error = draws.mean(axis=0) - np.asarray(kernel.cross(X[:1], X))[0]
    assert np.all(np.abs(error) <= 5 * draws.std(axis=0) / np.sqrt(600) + 1e-7)


def test_vanderwilk_t9_errors_stay_within_the_bound():
    """vanderwilk T9: errors are no more frequent than the bound, which falls with R."""
    kernel, epsilon = RBF(1.0, LENGTHSCALES), 0.25
    exact = dense.rbf(X / LENGTHSCALES, X[:1] / LENGTHSCALES)[:, 0]
    for R in (100, 1600, 3000):
        bound = fourier_error_probability(kernel, np.sqrt(8.0), epsilon, R)
        draws = [waves(kernel, R, seed, orthogonal=False) for seed in range(50)]
        share = np.mean([np.max(np.abs(draw - exact)) >= epsilon for draw in draws])
        assert share <= bound
    bounds = fourier_error_probability(kernel, 2.0, epsilon, np.arange(1, 5000, 100))
    assert np.all(np.diff(bounds) < 0.0)


def test_the_bound_is_inverted():
    kernel = RBF(1.0, LENGTHSCALES)
    R = fourier_frequencies_needed(kernel, 2.0, 0.1, 0.05)
    # Rahimi and Recht: 2⁸ (σ L / ε)² exp(-R ε² / (4 (D + 2))), written once more
    moment = np.sum(LENGTHSCALES**-2.0)
    for count, holds in ((R, True), (R - 1, False)):
        value = 256 * moment * (2.0 / 0.1) ** 2 * np.exp(-count * 0.1**2 / 16)
        assert value == pytest.approx(fourier_error_probability(kernel, 2.0, 0.1, count))
        assert bool(value <= 0.05) is holds
    rough = fourier_error_probability(Matern32(1.0, LENGTHSCALES), 2.0, 0.1, R)
    assert rough == pytest.approx(3.0 * fourier_error_probability(kernel, 2.0, 0.1, R))


def test_frequencies_at_right_angles_err_less():
    rng = np.random.default_rng(0)
    differences = rng.normal(size=(200, 6)) * 0.4
    exact = np.exp(-0.5 * np.sum(differences**2, axis=1))

    def error(orthogonal):
        kernel = RBF(1.0, np.ones(6))
        drawn = [
            RandomFourier(kernel, 12, seed=s, orthogonal=orthogonal).frequencies for s in range(40)
        ]
        values = [np.mean(np.cos(differences @ w.T), axis=1) for w in drawn]
        return np.mean((np.stack(values) - exact) ** 2)

    assert error(True) < 0.7 * error(False)


class Hidden(AbstractKernel):
    """A kernel whose features are not to be seen, so that models with it are full GPs."""

    inner: AbstractKernel

    def cross(self, X, Z):
        return self.inner.cross(X, Z)

    def diag(self, X):
        return self.inner.diag(X)


KERNEL = RandomFourier(RBF(1.3, LENGTHSCALES), 6)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_models_are_the_full_gp(power):
    """With Gaussian noise every power is exact: a dense oracle, and predictions."""
    kernel = 2.0 * KERNEL + Constant(0.3)
    result = cavity.infer(cavity.GP(kernel, likelihoods.Gaussian(0.1)), X, Y, power=power)
    F = np.asarray(KERNEL.features(X))
    K = 2.0 * F @ F.T + 0.3
    assert result.log_evidence == pytest.approx(dense.exact_log_evidence(K, Y, 0.1), rel=1e-9)
    mean, cov = dense.exact_posterior(K, K, K, Y, 0.1)
    joint = result.posterior.joint(X)
    assert_close(joint.mean, mean, "factorised", scale=1.0)
    assert_close(joint.cov, cov, "factorised", scale=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "labels"),
    [
        (likelihoods.Bernoulli(), (Y > 0).astype(float)),
        (likelihoods.Softmax(3), np.digitize(Y, [-0.5, 0.5]).astype(float)),
    ],
    ids=["two classes", "three classes"],
)
def test_every_likelihood_runs_on_features(likelihood, labels):
    values = []
    for kernel in (KERNEL, Hidden(KERNEL)):
        model = cavity.GP(kernel, likelihood)
        assert model.sparse is (kernel is KERNEL)
        result = cavity.infer(model, X, labels, power=0.5)
        values.append([result.log_evidence, *np.ravel(result.posterior.marginals(X).mean)])
    assert_close(*values, "fixed_point", scale=1.0)


def test_learned_frequencies_and_files(tmp_path):
    """vanderwilk item 16: freed, the frequencies are learned; the posterior is kept by a file."""
    model = cavity.GP(KERNEL, likelihoods.Gaussian(0.1))
    maps = parameters.bijections(model)
    assert maps.kernel.frequencies == parameters.FIXED
    maps = eqx.tree_at(lambda m: m.kernel.frequencies, maps, parameters.Real())
    held = cavity.fit(model, X, Y, max_iterations=5)
    freed = cavity.fit(model, X, Y, bijections=maps, max_iterations=5)
    assert np.array_equal(held.model.kernel.frequencies, KERNEL.frequencies)
    assert not np.array_equal(freed.model.kernel.frequencies, KERNEL.frequencies)
    cavity.fitting.save_module(tmp_path / "model", freed.posterior, {})
    loaded, _ = cavity.fitting.load_module(tmp_path / "model")
    assert_close(loaded.marginals(X).mean, freed.posterior.marginals(X).mean)


def test_estimators_work_features_out_at_any_length():
    rows = RNG.uniform(-1, 1, (1200, 2))
    gp = cavity.GPRegressor(kernel=KERNEL, max_iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(rows, np.sin(3 * rows[:, 0]))
    assert gp.inducing_ is None


def test_estimators_take_waves_from_text():
    """The text form is the object: the full GP by features at any length, with learned scales."""
    rows = RNG.uniform(-1, 1, (1200, 2))
    y = np.sin(3 * rows[:, 0])
    gp = cavity.GPRegressor(kernel="fourier(rbf, 6)", max_iterations=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        gp.fit(rows, y)
    assert gp.inducing_ is None
    assert np.shape(gp.kernel_.frequencies) == (6, 2)
    assert not np.allclose(gp.kernel_.kernel.lengthscale, 1.0)


def test_sums_have_features_where_all_terms_have_them():
    """A constant has one. With any other kernel there are none: the full GP by rows."""
    other = RandomFourier(Matern32(0.7, LENGTHSCALES), 4, seed=1)
    both = KERNEL + other + Constant(0.3)
    assert feature_count(both) == 12 + 8 + 1
    F = np.asarray(features(both, X))
    assert_close(F @ F.T, both.cross(X, X))
    mixed = KERNEL + RBF(0.5, LENGTHSCALES)
    assert feature_count(mixed) is None
    model = cavity.GP(mixed, likelihoods.Gaussian(0.1))
    assert not model.sparse
    expected = dense.exact_log_evidence(np.asarray(mixed.cross(X, X)), Y, 0.1)
    found = cavity.infer(model, X, Y).log_evidence
    assert found == pytest.approx(expected, rel=1e-9)


def test_a_bracket_of_waves_is_exact():
    model = cavity.GP(KERNEL, likelihoods.Gaussian(0.1))
    found = cavity.diagnostics.bracket(model, X, Y)
    F = np.asarray(KERNEL.features(X))
    expected = dense.exact_log_evidence(F @ F.T, Y, 0.1)
    assert found.lower == pytest.approx(expected, rel=1e-9)
    assert found.upper == pytest.approx(expected, rel=1e-9)
    assert found.proved


REFUSED = {
    "no waves": (lambda: RandomFourier(RBF(1.0, LENGTHSCALES), 0), "at least 1"),
    "columns": (lambda: RandomFourier(RBF(), 5), "columns="),
    "other columns": (lambda: KERNEL.cross(X[:, :1], X[:, :1]), "column"),
    "heavy tails": (lambda: fourier_error_probability(Matern12(), 1.0, 0.1, 10), "second moment"),
    "no error": (lambda: fourier_frequencies_needed(RBF(), 1.0, 0.0, 0.1), "epsilon"),
}


@pytest.mark.parametrize(("attempt", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_the_reason(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


def test_kernels_without_a_known_density_are_refused():
    with pytest.raises(TypeError, match="Matern32"):
        RandomFourier(Periodic(), 5, columns=1)
