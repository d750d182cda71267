"""Deep estimators: what they add to `fit_deep`, and that they refuse what they cannot do."""

import re
import warnings

import jax
import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import cavity
from cavity import fitting
from tests.estimators.problem import problem
from tests.estimators.test_scikit_learn import passes

pytestmark = pytest.mark.x32

X, _ = problem(rows=40)
Y = np.sign(X[:, 0]) + 0.05 * X[:, 1]
SMALL = {"n_inducing": 6, "steps": 3, "random_state": 0}


def quietly(estimator, *data, **options):
    """A fit of too few steps to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*data, **options)


@pytest.fixture(scope="module")
def fitted():
    return quietly(cavity.DeepGPRegressor(**SMALL), X, Y)


# inference does, as `equivalence/test_row_weights.py` has it
STARTS = {
    "check_sample_weight_equivalence_on_dense_data": "starts of hidden layers see no weights"
}


@pytest.mark.slow
@parametrize_with_checks(
    [
        cavity.DeepGPRegressor(n_inducing=20, steps=0),
        cavity.DeepGPClassifier(n_inducing=3, steps=0, likelihood="logit"),
    ],
    expected_failed_checks=lambda _: STARTS,
)
def test_own_checks(estimator, check):
    passes(estimator, check)


@pytest.mark.slow
def test_one_layer_without_steps_is_the_sparse_gp():
    deep = cavity.DeepGPRegressor(n_layers=1, n_inducing=6, steps=0, random_state=0).fit(X, Y)
    sparse = cavity.GPRegressor(n_inducing=6, max_iterations=0, random_state=0).fit(X, Y)
    for found, expected in zip(
        deep.predict(X, return_std=True), sparse.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert [layer.width for layer in deep.layers_] == [1]


def test_what_is_learned(fitted):
    assert [layer.width for layer in fitted.layers_] == [2, 1]
    assert fitted.inducing_ is fitted.layers_[-1].inducing
    assert fitted.kernel_ is fitted.layers_[-1].kernel
    assert fitted.inducing_.size == 6
    assert fitted.n_iter_ == 3
    leaves = jax.tree.leaves((fitted.posterior_, fitted.layers_))
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    assert not jax.config.read("jax_enable_x64")


@pytest.mark.slow
def test_predictions_agree_with_each_other(fitted):
    mean, std = fitted.predict(X, return_std=True)
    _, cov = fitted.predict(X[:5], return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std[:5], rtol=1e-10)
    low, middle, high = fitted.predict_quantiles(X, [0.001, 0.5, 0.999]).T
    assert np.all((low < mean) & (mean < high) & (abs(middle - mean) < std))
    draws = fitted.sample_y(X[:5], n_samples=400, random_state=1)
    assert draws.shape == (5, 400)
    np.testing.assert_allclose(draws.mean(axis=1), mean[:5], atol=0.25 * std[:5].max())
    f, f_std = fitted.predict_latent(X, return_std=True)
    np.testing.assert_allclose(f, mean)
    assert np.all(f_std < std)
    # a mixture with nearly the density of the Gaussian of its moments
    density = fitted.log_predictive_density(X, mean)
    np.testing.assert_allclose(density, stats.norm.logpdf(0.0, scale=std), atol=0.5)
    assert fitted.score(X, Y) > 0.5


@pytest.mark.slow
def test_units_of_the_outputs(fitted):
    large = quietly(cavity.DeepGPRegressor(**SMALL), X, 1e8 * Y)
    np.testing.assert_allclose(large.predict(X), 1e8 * fitted.predict(X), rtol=0.05, atol=1e7)
    shift = len(Y) * np.log(1e8)
    assert large.log_evidence_ + shift == pytest.approx(fitted.log_evidence_, abs=2.0)


@pytest.mark.slow
def test_several_outputs_of_which_some_are_missing():
    outputs = np.column_stack([Y, 3.0 * X[:, 1]])
    outputs[3, 0] = np.nan
    with pytest.raises(ValueError, match="y contains NaN"):
        cavity.DeepGPRegressor(**SMALL).fit(X, outputs)
    deep = quietly(cavity.DeepGPRegressor(missing="skip", **SMALL), X, outputs)
    assert deep.predict(X).shape == deep.predict_latent(X).shape == (40, 2)
    assert deep.predict_quantiles(X[:3], [0.1, 0.9]).shape == (3, 2, 2)
    assert deep.sample_y(X[:3], 5).shape == (3, 2, 5)
    assert deep.score(X[4:], outputs[4:]) > 0.5


@pytest.mark.slow
def test_widths_of_hidden_layers():
    deep = cavity.DeepGPRegressor(n_layers=3, width=[1, 3], n_inducing=6, steps=0).fit(X, Y)
    assert [layer.width for layer in deep.layers_] == [1, 3, 1]
    assert np.all(np.isfinite(deep.predict(X)))


CLASSES = {"two": np.where(Y > 0, "yes", "no"), "three": np.digitize(Y + X[:, 1], [-1.0, 1.0])}


@pytest.mark.parametrize("count", ["two", pytest.param("three", marks=pytest.mark.slow)])
def test_classification(count):
    labels = CLASSES[count]
    deep = quietly(cavity.DeepGPClassifier(**SMALL), X, labels)
    chances = deep.predict_proba(X)
    np.testing.assert_array_equal(deep.classes_, np.unique(labels))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert deep.score(X, labels) > 0.8
    of_theirs = chances[np.arange(40), np.searchsorted(deep.classes_, labels)]
    np.testing.assert_allclose(np.exp(deep.log_predictive_density(X, labels)), of_theirs)
    assert len(deep.layers_) == 2


@pytest.mark.slow
def test_an_interrupt_keeps_the_best():
    def interrupt(progress):
        raise KeyboardInterrupt

    deep = quietly(cavity.DeepGPRegressor(**SMALL), X, Y, callback=interrupt)
    assert deep.interrupted_
    assert not deep.converged_
    assert np.all(np.isfinite(deep.predict(X)))


def test_a_checkpoint_goes_on_to_the_same_end(fitted, tmp_path):
    quietly(cavity.DeepGPRegressor(**SMALL), X, Y, checkpoint=cavity.fitting.Checkpoint(tmp_path))
    again = cavity.fitting.Checkpoint(tmp_path, resume=True)
    deep = quietly(cavity.DeepGPRegressor(**SMALL), X, Y, checkpoint=again)
    np.testing.assert_array_equal(deep.predict(X), fitted.predict(X))
    with pytest.raises(ValueError, match="random_state=0"):
        cavity.DeepGPRegressor().fit(X, Y, checkpoint=again)


ODD = {
    "one row": (X[:1], Y[:1]),
    "constant column": (X * [1.0, 0.0], Y),
    "constant columns": (X * 0.0, Y),
    "constant outputs": (X, 0.0 * Y),
    "duplicates": (np.repeat(X[:4], 10, axis=0), np.repeat(Y[:4], 10)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("inputs", "outputs"), ODD.values(), ids=ODD)
def test_odd_data_work(inputs, outputs):
    deep = cavity.DeepGPRegressor(n_inducing=6, steps=0, width=1).fit(inputs, outputs)
    mean, std = deep.predict(X, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)


RULES = [
    (3, fitting.Nodes(3)),
    ("moments", fitting.Moments()),
    (fitting.Linearised(), fitting.Linearised()),
]


@pytest.mark.parametrize(("asked", "rule"), RULES)
def test_propagation_is_a_number_a_name_or_an_object(monkeypatch, asked, rule):
    def began(*_, method, **__):
        raise ArithmeticError(repr(method.propagation))

    monkeypatch.setattr("cavity.estimators.deep.fit_deep", began)
    with pytest.raises(ArithmeticError, match=re.escape(repr(rule))):
        cavity.DeepGPRegressor(n_inducing=6, propagation=asked).fit(X, Y)


SETTINGS = [
    ({"n_layers": 0}, "n_layers must be a whole number of at least 1, given 0"),
    ({"n_layers": 2.5}, "n_layers must be"),
    ({"width": 0}, "width must be .*whole number of at least 1, given 0"),
    ({"width": [2, 2]}, r"one entry per hidden layer, 1 with n_layers=2, given \[2, 2\]"),
    ({"width": "wide"}, "width must be \"auto\".*given 'wide'"),
    ({"n_inducing": None}, "n_inducing must be a whole number of at least 1, given None"),
    ({"n_inducing": 0}, "n_inducing must be"),
    ({"power": 1.5}, "power must"),
    ({"power": [0.5] * 40}, "one power for all rows"),
    ({"propagation": 0}, "propagation must be 'moments', 'linearised' or a whole number"),
    ({"propagation": "paths"}, "propagation must be 'moments'.*given 'paths'"),
    ({"propagation": [2]}, "propagation must be an object of cavity.fitting"),
    ({"steps": -1}, "steps must be"),
    ({"batch": 0}, r"batch must be None \(all rows\) or a whole number"),
    ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
    ({"likelihood": "probit"}, "is for classification: use GPClassifier"),
    ({"kernel": "rbff"}, "rbff"),
    (
        {"kernel": "rbf[1]", "width": 1, "likelihood": "heteroscedastic"},
        r"chooses columns, but the last layer sees 1 hidden value",
    ),
    ({"mean": "wavy"}, "mean must be one of"),
    ({"jitter": -1.0}, "jitter must be"),
]  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("setting", "message"), SETTINGS)
def test_settings(monkeypatch, setting, message):
    monkeypatch.setattr("cavity.estimators.deep.fit_deep", lambda *_, **__: pytest.fail("began"))
    with pytest.raises(ValueError, match=message):
        cavity.DeepGPRegressor(**setting).fit(X, Y)
