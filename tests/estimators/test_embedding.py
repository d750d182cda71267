"""The embedding: what it adds to `fit_latent`, and that it refuses what it cannot do."""

import pickle
import warnings
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import cavity
from cavity.estimators.latent_map import LatentMap, Standardised
from cavity.models.latent.posterior import LatentPosterior
from tests.estimators.test_scikit_learn import passes
from tests.tolerances import assert_close

pytestmark = pytest.mark.x32

ROWS, UNITS = 40, np.array([1.0, 50.0, 1e4, 1e-3, 1.0])
SMALL = {"n_inducing": 8, "max_iterations": 25, "random_state": 0}


def curve(seed=0):
    """Rows along a curve in four columns and a fifth that is constant; some entries missing."""
    random = np.random.default_rng(seed)
    t = random.uniform(-2.0, 2.0, ROWS)
    Y = np.column_stack([np.sin(2 * t), t, t**2, np.cos(t), np.zeros(ROWS)])
    Y[:, :4] += 0.05 * random.standard_normal((ROWS, 4))
    missing = random.random(Y.shape) < 0.1
    missing[:, 4] = False
    missing[missing.all(axis=1)] = False
    return t, UNITS * Y + 3.0, missing


T, FULL, MISSING = curve()
Y = np.where(MISSING, np.nan, FULL)


def quietly(estimator, *data, **options):
    """A fit of too few steps to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(*data, **options)


@pytest.fixture(scope="module")
def fitted():
    return quietly(cavity.GPEmbedding(**SMALL), Y)


@pytest.mark.slow
@parametrize_with_checks([cavity.GPEmbedding(n_components=1, n_inducing=5, max_iterations=0)])
def test_own_checks(estimator, check):
    passes(estimator, check)


def test_what_is_learned(fitted):
    assert fitted.embedding_.shape == fitted.embedding_std_.shape == (ROWS, 2)
    assert np.all(fitted.embedding_std_ > 0)
    assert fitted.relevance_[0] > fitted.relevance_[1]
    assert_close(fitted.relevance_.sum(), 1.0)
    # the curve is unrolled along the dimensions together
    assert np.linalg.lstsq(np.c_[fitted.embedding_, np.ones(ROWS)], T)[1] < 0.15 * ROWS * T.var()
    assert isinstance(fitted.model_, cavity.GPLVM)
    assert fitted.inducing_.size == 8
    assert list(fitted.column_scale_ > 0) == [True] * 4 + [False]
    leaves = jax.tree.leaves(fitted.posterior_)
    assert all(isinstance(leaf, np.ndarray) for leaf in leaves)
    assert not jax.config.read("jax_enable_x64")


def test_dimensions_are_in_order_of_relevance(fitted):
    """Against the posterior's own order."""
    with jax.enable_x64(True):
        order = np.argsort(-np.asarray(fitted.posterior_.relevance))
        mean = np.asarray(fitted.posterior_.latent.mean)[:, order]
        X = fitted.embedding_[:5]
        natural = np.empty_like(X)
        natural[:, order] = X
        out = np.asarray(fitted.posterior_.predict(natural).mean)
    np.testing.assert_array_equal(fitted.embedding_, mean)
    in_units = out * fitted.column_scale_[:4] + fitted.column_mean_[:4]
    np.testing.assert_allclose(fitted.inverse_transform(X)[:, :4], in_units)


class ThreeDimensions(LatentPosterior):
    """A posterior that predicts latent points themselves, without a fit."""

    @property
    def relevance(self):
        return np.array([0.2, 0.5, 0.3])

    @property
    def latent(self):
        return np.arange(12.0).reshape(4, 3), np.full((4, 3), 0.25)

    def predict(self, X):
        return SimpleNamespace(mean=X, var=np.ones_like(X))


def test_three_dimensions_go_back_to_where_they_came_from():
    """Their order is not its own inverse, as every order of two is."""
    posterior = object.__new__(ThreeDimensions)
    found = LatentMap(posterior, Standardised(np.zeros(3), np.ones(3)))
    points = posterior.latent[0]
    np.testing.assert_array_equal(found.latent.mean, points[:, [1, 2, 0]])
    np.testing.assert_array_equal(found.at(found.latent.mean).mean, points)


@pytest.mark.slow
def test_rows_are_placed_alone(fitted):
    mean, std = fitted.transform(Y, return_std=True)
    assert np.all(std > 0)
    assert np.max(np.abs(mean - fitted.embedding_)) < 0.3
    one_mean, one_std = fitted.transform(Y[7:8], return_std=True)
    np.testing.assert_allclose(one_mean[0], mean[7], rtol=1e-12)
    np.testing.assert_allclose(one_std[0], std[7], rtol=1e-12)
    np.testing.assert_allclose(fitted.score_samples(Y[7:8])[0], fitted.score_samples(Y)[7])
    assert fitted.score(Y) == pytest.approx(np.mean(fitted.score_samples(Y)))


@pytest.mark.slow
def test_missing_entries(fitted):
    mean, std = fitted.impute(Y, return_std=True)
    np.testing.assert_array_equal(mean[~MISSING], FULL[~MISSING])
    assert np.all(std[~MISSING] == 0)
    assert np.all(std[MISSING] > 0)
    wrong = (mean - FULL)[:, :4] / UNITS[:4]
    plain = (np.nanmean(Y, axis=0) - FULL)[:, :4] / UNITS[:4]
    absent = MISSING[:, :4]
    assert np.mean(wrong[absent] ** 2) < 0.25 * np.mean(plain[absent] ** 2)
    out, spread = fitted.reconstruct(Y, return_std=True)
    np.testing.assert_array_equal(out[MISSING], mean[MISSING])
    np.testing.assert_array_equal(out[:, 4], FULL[:, 4])
    assert np.all(spread[:, 4] == 0)


@pytest.mark.slow
def test_a_row_without_any_value_has_the_prior(fitted):
    nothing = np.full((1, 5), np.nan)
    mean, std = fitted.transform(nothing, return_std=True)
    np.testing.assert_allclose(mean, 0.0, atol=1e-5)
    np.testing.assert_allclose(std, 1.0, atol=1e-5)
    assert np.all(np.isfinite(fitted.impute(nothing)))


@pytest.mark.slow
def test_units_change_nothing(fitted):
    factors = np.array([1e8, 0.2, 1e-7, 5.0, 3.0])
    other = quietly(cavity.GPEmbedding(**SMALL), Y * factors)
    np.testing.assert_allclose(other.embedding_, fitted.embedding_, rtol=1e-3, atol=1e-3)
    observed = ~MISSING[:, :4]
    shift = observed @ np.log(factors[:4])
    np.testing.assert_allclose(
        other.score_samples(Y * factors) + shift, fitted.score_samples(Y), atol=1e-2
    )
    assert other.log_evidence_ + shift.sum() == pytest.approx(fitted.log_evidence_, abs=1e-2)


def test_columns_that_vary_more_count_more():
    """Without scaling of each column, all are divided by the same number."""
    same = quietly(cavity.GPEmbedding(standardise=False, **SMALL), Y)
    scale = same.column_scale_[:4]
    assert np.ptp(scale) == 0.0
    np.testing.assert_allclose(scale[0], np.sqrt(np.mean(np.nanvar(Y[:, :4], axis=0))))


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_data_frames(fitted, library):
    names = ["a", "b", "c", "d", "e"]
    table = library.DataFrame(dict(zip(names, Y.T, strict=True)))
    named = quietly(cavity.GPEmbedding(**SMALL), table)
    assert list(named.feature_names_in_) == names
    np.testing.assert_array_equal(named.embedding_, fitted.embedding_)
    assert list(named.get_feature_names_out()) == ["gpembedding0", "gpembedding1"]
    out = named.set_output(transform=library.__name__).transform(table)
    assert isinstance(out, library.DataFrame)
    assert list(out.columns) == ["gpembedding0", "gpembedding1"]
    with pytest.raises(ValueError, match=r"(?i)feature names"):
        named.transform(table[names[::-1]])


def test_pickled_and_saved(fitted, tmp_path):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(Y), fitted.transform(Y))
    cavity.fitting.save_module(tmp_path / "m.cavity", fitted.posterior_, {})
    with jax.enable_x64(True):
        posterior, _ = cavity.fitting.load_module(tmp_path / "m.cavity")
        again.posterior_ = posterior
    np.testing.assert_array_equal(again.impute(Y), fitted.impute(Y))


def test_an_interrupt_keeps_the_best():
    def interrupt(progress):
        raise KeyboardInterrupt

    embedding = quietly(cavity.GPEmbedding(**SMALL), Y, callback=interrupt)
    assert embedding.interrupted_
    assert not embedding.converged_
    assert np.all(np.isfinite(embedding.transform(Y)))


def test_a_checkpoint_goes_on_to_the_same_end(fitted, tmp_path):
    quietly(cavity.GPEmbedding(**SMALL), Y, checkpoint=cavity.fitting.Checkpoint(tmp_path))
    again = cavity.fitting.Checkpoint(tmp_path, resume=True)
    embedding = quietly(cavity.GPEmbedding(**SMALL), Y, checkpoint=again)
    np.testing.assert_array_equal(embedding.embedding_, fitted.embedding_)
    with pytest.raises(ValueError, match="random_state=0"):
        cavity.GPEmbedding().fit(Y, checkpoint=again)


OTHERS = {
    "truth values": (lambda: (np.median(FULL, axis=0) < FULL) * 1.0, {"likelihood": "bernoulli"}),
    "encoder": (lambda: FULL, {"encoder": True}),
    "minibatches": (lambda: FULL, {"encoder": True, "batch": 16}),
    "sites": (
        lambda: FULL,
        {"method": cavity.TiedPowerEP(propagation=cavity.fitting.Moments(), input_sites=True)},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_other_likelihoods_and_methods(kind):
    make, options = OTHERS[kind]
    rows = np.where(MISSING, np.nan, make())
    embedding = quietly(cavity.GPEmbedding(power=0.5, **SMALL, **options), rows)
    mean, std = embedding.impute(rows, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std[MISSING] > 0)
    if kind == "truth values":
        assert np.all((mean >= 0) & (mean <= 1))
        correct = np.mean((embedding.reconstruct(rows) > 0.5)[:, :4] == make()[:, :4])
        assert correct > 0.8


ODD = {
    "two rows": FULL[:2],
    "one column": FULL[:, 1:2],
    "duplicates": np.repeat(FULL[:4], 10, axis=0),
    "large": 1e8 + 1e8 * FULL,
    "tiny": 1e-12 * FULL,
    "integers": np.round(FULL).astype(int),
    "an outlier": np.vstack([FULL, 1e4 * FULL[:1]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_work(kind):
    rows = ODD[kind]
    embedding = quietly(cavity.GPEmbedding(n_components=1, **SMALL), rows)
    for values in (*embedding.transform(rows, return_std=True), *embedding.impute(rows, True)):
        assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(embedding.score_samples(rows)))
    assert np.all(embedding.reconstruct(rows, return_std=True)[1] >= 0)


SETTINGS = [
    ({"n_components": 0}, "n_components must be a whole number of at least 1, given 0"),
    ({"n_components": 5}, r"n_components=5 is more than .*n_features=5, 1 of them constant"),
    ({"n_inducing": None}, "n_inducing must be a whole number"),
    ({"encoder": "no"}, "encoder must be True or False"),
    ({"power": 1.5}, r"power must be a number in \[0, 1\], given 1.5"),
    ({"power": [0.5] * ROWS}, "power must be a number"),
    ({"batch": 0}, r"batch must be None \(all rows\) or a whole number"),
    ({"batch": 5, "method": "power_ep"}, "leave method='auto'"),
    ({"batch": 5, "method": cavity.TiedPowerEP()}, "leave batch=None"),
    ({"method": "laplace"}, "takes known inputs: use one of .*'auto'"),
    ({"method": "tide"}, "method must be one of"),
    ({"method": cavity.Laplace()}, r"takes PowerEP\(\) or TiedPowerEP\(\), given Laplace\(\)"),
    ({"likelihood": "softmax"}, "has 2 latent functions"),
    ({"likelihood": "guassian"}, "likelihood must be one of"),
    ({"likelihood": "poisson"}, r"column 0, row 0: .* is not among .*Poisson takes, counts"),
    ({"kernel": "rbff"}, "rbff"),
    ({"kernel": 3}, "kernel must be text"),
    ({"jitter": -1.0}, "jitter must be"),
    ({"max_iterations": -1}, "max_iterations must be"),
]


@pytest.fixture
def no_work(monkeypatch):
    began = "cavity.estimators.embedding.fit_latent"
    monkeypatch.setattr(began, lambda *_, **__: pytest.fail("began"))


@pytest.mark.parametrize(("setting", "message"), SETTINGS)
def test_settings(no_work, setting, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPEmbedding(**setting).fit(FULL)


def without(row=None, column=None):
    rows = FULL.copy()
    if row is not None:
        rows[row] = np.nan
    if column is not None:
        rows[:, column] = np.nan
    return rows


DATA = [
    (FULL[:1], "minimum of 2 is required"),
    (without(row=3), r"row 3 \(counted from 0\) has no value in any column; leave it out"),
    (without(column=2), "column 2 has no value in any of 40 rows; leave it out"),
    (np.where(MISSING, np.inf, FULL), "infinity"),
    (np.full((40, 3), 2.0), "n_features=3, 3 of them constant"),
    (np.array([["a", "b"]] * 3), "could not convert string to float"),
]


@pytest.mark.parametrize(("rows", "message"), DATA)
def test_data_that_cannot_be_used(no_work, rows, message):
    with pytest.raises(ValueError, match=message):
        cavity.GPEmbedding().fit(rows)


def test_columns_are_named(no_work):
    table = pd.DataFrame(without(column=1), columns=[*"abcde"])
    with pytest.raises(ValueError, match="column 'b' has no value"):
        cavity.GPEmbedding().fit(table)


def test_later_rows_that_cannot_be_used(fitted):
    with pytest.raises(ValueError, match="X has 4 features, but GPEmbedding is expecting 5"):
        fitted.transform(Y[:, :4])
    with pytest.raises(ValueError, match="finite numbers with 2 columns"):
        fitted.inverse_transform(np.zeros((3, 5)))
