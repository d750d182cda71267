"""Estimators of networks: predictions, relevances, files, misuse."""

import dataclasses

import numpy as np
import pytest

import cavity
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning.plans.network import with_advice
from cavity.learning.results.result import Inference

QUICK = {"hidden": 2, "n_restarts": 1, "max_iterations": 5, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore:not converged")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (60, 3))
    return X, np.sin(1.5 * X[:, 0]) + 0.1 * rng.standard_normal(60) + 3.0


@pytest.fixture(scope="module")
def fitted(table):
    return cavity.NetworkRegressor(**QUICK).fit(*table)


def test_predictions_and_relevances(table, fitted):
    X, y = table
    assert fitted.score(X, y) > 0.9
    mean, std = fitted.predict(X, return_std=True)
    assert mean.shape == std.shape == (60,)
    assert np.all(std > 0.0)
    assert np.argmax(fitted.relevance_) == 0
    assert isinstance(fitted.relevance_, np.ndarray)
    assert fitted.relevance_.shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize(("hidden", "iterations"), [(1, 5), (2, 0)])
def test_units_of_columns_and_outputs_change_nothing(table, hidden, iterations):
    """Where sites settle: elsewhere what differs by rounding errors may end elsewhere."""
    X, y = table
    settings = {"hidden": hidden, "n_restarts": 0, "max_iterations": iterations, "random_state": 0}
    one = cavity.NetworkRegressor(**settings).fit(X, y)
    other = cavity.NetworkRegressor(**settings).fit(1000.0 * X + 5.0, 0.01 * y)
    np.testing.assert_allclose(other.predict(1000.0 * X + 5.0), 0.01 * one.predict(X), rtol=1e-4)
    assert abs(other.log_evidence_ + len(y) * np.log(0.01) - one.log_evidence_) < 1e-2


def test_a_file_keeps_a_network(table, fitted, tmp_path):
    X, _ = table
    path = tmp_path / "network.safetensors"
    cavity.fitting.save_module(path, fitted.posterior_, {})
    loaded, _ = cavity.fitting.load_module(path)
    for one, other in zip(
        loaded.marginals(X[:4]), fitted.posterior_.marginals(X[:4]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.slow
def test_two_classes(table):
    X, y = table
    labels = np.where(y > 3.0, "up", "down")
    found = cavity.NetworkClassifier(**QUICK, prior="gaussian").fit(X, labels)
    assert found.score(X, labels) > 0.85
    p = found.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.all((p >= 0.0) & (p <= 1.0))
    with pytest.raises(ValueError, match="3 classes"):
        cavity.NetworkClassifier().fit(X, np.digitize(y, [2.5, 3.5]))


@pytest.mark.slow
@pytest.mark.parametrize("groups", [None, [0, 1, 1]])
def test_a_horseshoe_by_name_starts(table, groups):
    settings = QUICK | {"n_restarts": 0, "max_iterations": 0, "power": 0.5}
    found = cavity.NetworkRegressor(**settings, prior="horseshoe", groups=groups).fit(*table)
    assert np.all(np.asarray(found.prior_.scale) > 0.0)
    assert np.shape(found.prior_.scale) == (() if groups is None else (2,))
    assert np.isfinite(found.log_evidence_)


@pytest.mark.slow
def test_a_large_power_goes_on_from_what_a_smaller_one_learned(monkeypatch):
    # sweeps at power 1 diverge from the starting parameters of so many columns
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(30, 20))
    y = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    y += rng.standard_normal(30)
    fits = []

    def recorded(*args, **kwargs):
        fits.append((kwargs["power"], cavity.fit(*args, **kwargs)))
        return fits[-1][1]

    monkeypatch.setattr("cavity.learning.run.fits.fit", recorded)
    settings = QUICK | {"n_restarts": 0, "max_iterations": 2}
    found = cavity.NetworkRegressor(**settings).fit(X, y)
    assert [power for power, _ in fits] == [1.0, 0.5, 1.0]
    first, second = fits[0][1], fits[2][1]
    assert first.sites.residual > 1.0
    assert second.sites.residual < 1e-6
    assert found.sites_.residual == second.sites.residual
    assert second.log_evidence > first.log_evidence + 5.0


def test_a_smaller_power_is_advised_where_sites_are_far_from_settled(fitted):
    def ended(residual, *, converged=False):
        report = ConvergenceReport(9, residual, 0, "parallel sweeps", converged)
        return Inference(fitted.posterior_, 0.0, converged, "ended", 0.0, report, None, None)

    far = ended(np.inf)
    advice = "ended; at power=0.5 sites of networks settle more often"
    assert with_advice(far, 1.0).message == advice
    for same, power in ((far, 0.5), (ended(1e-3), 1.0), (ended(1e-9, converged=True), 1.0)):
        assert with_advice(same, power) is same


@pytest.mark.slow
def test_the_message_advises_a_smaller_power(table, monkeypatch):
    def diverged(*args, **kwargs):
        result = cavity.fit(*args, **kwargs)
        report = dataclasses.replace(result.sites, residual=np.inf)
        return dataclasses.replace(result, sites=report, converged=False)

    monkeypatch.setattr("cavity.learning.run.fits.fit", diverged)
    settings = QUICK | {"n_restarts": 0, "max_iterations": 0}
    found = cavity.NetworkRegressor(**settings, power=0.75).fit(*table)
    assert found.message_.endswith("at power=0.5 sites of networks settle more often")


def test_restarts_are_further_starts(table, monkeypatch):
    """Three starts in all, each from a seed of its own."""
    seeds = []

    def start(model, X, y, *, seed, **options):
        seeds.append(seed)
        return model

    def ranked(run, starts):
        raise ArithmeticError(f"{len(starts)} starts")

    monkeypatch.setattr("cavity.estimators.network_learning.network_at_mode", start)
    monkeypatch.setattr("cavity.estimators.network_learning.ranked", ranked)
    model = cavity.NetworkRegressor(hidden=2, n_restarts=2, random_state=4)
    with pytest.raises(ArithmeticError, match=r"^3 starts$"):
        model.fit(*table)
    assert len(set(seeds)) == 3
    assert model.get_params()["n_restarts"] == cavity.NetworkRegressor().n_restarts


def test_misuse_is_answered(table):
    X, y = table
    for name, value in (
        ("hidden", 0),
        ("n_restarts", -1),
        ("activation", "step"),
        ("prior", "flat"),
    ):
        with pytest.raises(ValueError, match=name):
            cavity.NetworkRegressor(**{name: value}).fit(X, y)
    with pytest.raises(ValueError, match="one output"):
        cavity.NetworkRegressor().fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="groups must have one entry"):
        cavity.NetworkRegressor(groups=[0, 1]).fit(X, y)


@pytest.mark.slow
def test_minibatches_have_one_site_for_all_rows(table):
    X, y = table
    settings = {"hidden": 2, "batch": 20, "power": 0.5, "random_state": 0}
    model = cavity.NetworkRegressor(**settings, steps=300).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.n_iter_ == 300
    assert np.argmax(model.relevance_) == 0
    labels = (y > 3.0).astype(int)
    classifier = cavity.NetworkClassifier(**settings, steps=100).fit(X, labels)
    assert classifier.score(X, labels) > 0.9
    with pytest.raises(ValueError, match="batch must be None"):
        cavity.NetworkRegressor(batch=0).fit(X, y)
    with pytest.raises(ValueError, match="leave batch=None"):
        cavity.NetworkRegressor(prior="laplace", batch=20).fit(X, y)
