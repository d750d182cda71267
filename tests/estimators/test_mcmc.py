"""Draws through the estimators: predictions, files, refusals."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.learning.mcmc.chains import chains_of
from cavity.tables.parameters import diagnostics
from tests.estimators.problem import problem

pytestmark = pytest.mark.x32

X, Y = problem()
X, Y = X[:25], Y[:25]
NEW = problem(seed=9, rows=7)[0]
QUICK = {"draws": 60, "warmup": 60, "chains": 2, "keep": 40}
FEW = cavity.MCMC(**QUICK)


@pytest.fixture(scope="module")
def student():
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        gp = cavity.GPRegressor(likelihood="student_t", method=FEW, random_state=0)
        return gp.fit(X, Y + np.where(np.arange(25) % 8 == 3, 6.0, 0.0))


@pytest.mark.slow
def test_regressor(student):
    assert student.log_evidence_ is None
    assert student.chains_.stats["lp"].shape == (2, 60)
    assert set(student.chains_.rhat) > {"likelihood.df", "f"}
    mean, std = student.predict_latent(NEW, return_std=True)
    assert np.all(std > 0.0)
    assert student.score(X, Y) > 0.5
    quantiles = student.predict_quantiles(NEW, [0.1, 0.5, 0.9])
    assert np.all(np.diff(quantiles, axis=1) > 0.0)
    np.testing.assert_allclose(quantiles[:, 1], mean, atol=0.5)
    assert np.all(np.isfinite(student.log_predictive_density(NEW, mean)))
    samples = student.sample_y(NEW, 400, random_state=0)
    assert samples.shape == (7, 400)
    inside = np.mean((samples > quantiles[:, :1]) & (samples < quantiles[:, 2:]))
    assert inside == pytest.approx(0.8, abs=0.07)


def test_warns_without_convergence():
    method = cavity.MCMC(**QUICK | {"draws": 20})
    gp = cavity.GPRegressor(method=method, max_iterations=0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        gp.fit(X, Y)
    assert not gp.converged_


@pytest.mark.slow
def test_classifier_keeps_its_parameters_where_asked_to():
    labels = np.where(Y > 0.0, "yes", "no")
    gp = cavity.GPClassifier(method=FEW, max_iterations=0, random_state=0)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        gp.fit(X, labels)
    assert set(gp.chains_.rhat) == {"f"}
    chances = gp.predict_proba(NEW)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    other = cavity.GPClassifier(power=1.0, max_iterations=0, random_state=0).fit(X, labels)
    np.testing.assert_allclose(chances, other.predict_proba(NEW), atol=0.1)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_inducing": 5}, "for the full GP"),
        ({"inducing": X[:3]}, "for the full GP"),
        ({"block_size": 5}, "leave block_size"),
    ],
    ids=lambda v: "" if isinstance(v, str) else next(iter(v)),
)
def test_refusals(setting, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPRegressor(method="mcmc", **setting).fit(X, Y)


def test_what_it_is_not_for():
    with pytest.raises(ValueError, match="one output"):
        cavity.GPRegressor(method="mcmc").fit(X, np.column_stack([Y, Y]))
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="the limit is 1000"):
        cavity.GPRegressor(method="mcmc").fit(rng.standard_normal((1001, 1)), np.zeros(1001))


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ImportError, match="pip install"):
        cavity.GPRegressor(method="mcmc").fit(X, Y)


def test_file(student, tmp_path):
    """A posterior over draws comes back as it was."""
    path = tmp_path / "draws.cavity"
    cavity.fitting.save_module(path, student.posterior_, {"by": "mcmc"})
    found, about = cavity.fitting.load_module(path)
    assert about == {"by": "mcmc"}
    import jax

    with jax.enable_x64(True):
        for a, b in zip(found.marginals(NEW), student.posterior_.marginals(NEW), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_remembered_draws_are_in_the_units_of_the_data(rng):
    """Heteroscedastic models are of outputs divided by their scale; what users see is not."""
    model = cavity.GP(
        (cavity.kernels.RBF(), cavity.kernels.RBF()),
        cavity.likelihoods.HeteroscedasticGaussian(),
        mean=(cavity.means.Constant(), cavity.means.Constant()),
    )
    names = ("kernel.0.variance", "kernel.0.lengthscale", "mean.0.value", "mean.1.value")
    draws = {name: rng.standard_normal((2, 30)) for name in names}
    chains = chains_of(draws, draws[names[0]][..., None], {"lp": draws[names[0]]})
    found = diagnostics(chains, model, np.array([100.0]))
    means = {row["name"]: row["mean"] for row in found["parameters"]}
    expected = {name: values.mean() for name, values in draws.items()}
    expected["kernel.0.variance"] *= 1e4
    expected["mean.0.value"] *= 100.0
    expected["mean.1.value"] += 2.0 * np.log(100.0)  # of the logarithm of a variance
    assert means == pytest.approx(expected)
