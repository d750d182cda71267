"""Updates of a model whose first rows said little of the scales and the noise of later ones."""

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.data.scales import tally
from tests.tolerances import assert_close

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2.0, 2.0, (140, 1))
F = 10.0 * np.sin(3.0 * X[:, 0])
Y = F + 0.5 * RANDOM.normal(size=140)
Z = np.linspace(-2.2, 2.2, 14)[:, None]
FIRST, NEXT = slice(0, 20), slice(20, 140)
CALLED = pytest.mark.filterwarnings("ignore:.*new outputs", "ignore:not converged")


def model(noise=0.2, variance=1.0):
    return cavity.GP(kernels.RBF(variance, 0.6), likelihoods.Gaussian(noise), inducing.Points(Z))


@CALLED
@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_first_rows_that_hardly_vary(share):
    """As a fit to all rows, of which one in seven is near zero, where the first alone decided."""
    y = np.concatenate([share * Y[FIRST], Y[NEXT]])
    first = cavity.fit(model(), X[FIRST], y[FIRST], power=0.0)
    after = cavity.update(first, X[NEXT], y[NEXT], power=0.0)
    whole = cavity.fit(model(5.0, 50.0), X, y, power=0.0)
    mean = np.asarray(after.posterior.marginals(X[NEXT]).mean)
    assert np.sqrt(np.mean((mean - F[NEXT]) ** 2)) < 2.0
    assert abs(after.log_evidence - whole.log_evidence) < 5.0
    noise, expected = (r.model.likelihood.variance for r in (after, whole))
    assert 0.7 < float(noise) / float(expected) < 1.4
    inputs, outputs = after.tallies
    assert_close(inputs.mean, X.mean(axis=0), "algebra")
    assert_close(outputs.var, [np.var(y)], "algebra")


@pytest.mark.parametrize("later", [0.02, 0.2, 3.0])
def test_noise_that_changes_does_not_misread_the_past(later):
    """At power 0 the past says under another noise what its rows would say, exactly."""
    again = _past(cavity.infer(model(), X[FIRST], Y[FIRST], power=0.0)).at_noise(later)
    expected = _past(cavity.infer(model(later), X[FIRST], Y[FIRST], power=0.0))
    for found, wanted in zip(again.messages, expected.messages, strict=True):
        assert_close(found.shift, wanted.shift, "fixed_point")
        assert_close(found.precision, wanted.precision, "fixed_point")
        assert_close(found.log_scale, wanted.log_scale, "fixed_point")


def _past(result):
    """What the rows of a result said."""
    after = cavity.update(result, X[FIRST][:0], Y[FIRST][:0])
    assert after.past is not None
    return after.past


@CALLED
def test_a_half_life_is_that_of_scales_and_counts():
    old = cavity.infer(model(), X[FIRST], Y[FIRST])
    held = {"learn": False, "inducing": "keep", "half_life": 120.0}
    after = cavity.update(old, X[NEXT], 100.0 * Y[NEXT], **held)
    assert_close(after.past.count, 130.0, "algebra")
    assert_close(after.tallies[1].count, [130.0], "algebra")
    doubled = tally(np.concatenate([Y[FIRST], 100.0 * Y[NEXT], 100.0 * Y[NEXT]])[:, None])
    assert_close(after.tallies[1].mean, doubled.mean, "algebra")
    assert_close(after.tallies[1].var, doubled.var, "algebra")


@pytest.mark.slow
@CALLED
@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_estimators_learn_after_first_rows_that_hardly_vary(share):
    random = np.random.default_rng(0)
    many = random.uniform(-2.0, 2.0, (640, 1))
    f = 10.0 * np.sin(3.0 * many[:, 0])
    y = f + 0.5 * random.normal(size=640)
    gp = cavity.GPRegressor(n_inducing=20, random_state=0)
    gp.partial_fit(many[:40], share * y[:40])
    for start in (40, 240, 440):
        gp.partial_fit(many[start : start + 200], y[start : start + 200], half_life=1e4)
    assert np.sqrt(np.mean((gp.predict(many) - f) ** 2)) < 0.7
    assert gp.log_predictive_density(many[40:], y[40:]).mean() > -2.5


@pytest.mark.slow
@CALLED
def test_counts_that_begin_with_zeros_and_classes_that_begin_with_one():
    random = np.random.default_rng(0)
    many = random.uniform(-2.0, 2.0, (230, 1))
    rate = np.exp(2.0 + np.sin(3.0 * many[:, 0]))
    gp = cavity.GPRegressor(likelihood="poisson", n_inducing=15, random_state=0)
    gp.partial_fit(many[:30], np.zeros(30))
    gp.partial_fit(many[30:], random.poisson(rate[30:]).astype(float))
    assert np.sqrt(np.mean((gp.predict(many) - rate) ** 2)) < 1.5
    labels = np.sin(3.0 * many[:, 0]) > 0.0
    classifier = cavity.GPClassifier(n_inducing=15, random_state=0)
    classifier.partial_fit(many[:30], np.zeros(30, bool), classes=[False, True])
    classifier.partial_fit(many[30:], labels[30:])
    assert classifier.score(many[30:], labels[30:]) > 0.95


@CALLED
def test_diagnostics_refuse_rows_that_are_gone():
    """Bounds of the evidence of the last rows alone are none of that of all rows."""
    old = cavity.infer(model(), X[FIRST], Y[FIRST])
    after = cavity.update(old, X[NEXT], Y[NEXT], learn=False, inducing="keep")
    for look in (cavity.diagnostics.bracket, cavity.examine):
        with pytest.raises(ValueError, match="those from before are gone"):
            look(after)
    with pytest.raises(ValueError, match="those from before are gone"):
        cavity.integrate(after, X[NEXT], Y[NEXT])
    assert len(cavity.suggest(after, X[:5], n=2).rows) == 2  # by the posterior of all rows
    assert cavity.diagnostics.bracket(model(), X[FIRST], Y[FIRST]).proved
