"""Default priors: weak, in units of the data, and what they are for."""

import equinox as eqx
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity import kernels, likelihoods
from cavity.estimators.settings import Settings, build, parts_given
from cavity.kernels.text_form import parse
from cavity.learning.data.arrays import prepare
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.initialisation.default_priors import default_priors
from cavity.learning.initialisation.models import Given
from cavity.learning.integration.target import Target
from cavity.numerics.jit import PROGRAMS
from cavity.numerics.tree import named
from cavity.parameters import bijections, priors


def table(rows=30, columns=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) * np.arange(1, columns + 1)
    return X, np.sin(X[:, :1]) + 0.3 * rng.standard_normal((rows, 1))


def found(kernel, X, y, likelihood=None, given=None):
    names = (*map(str, range(X.shape[1])),)
    kernel = parse(kernel, X.shape[1], names) if isinstance(kernel, str) else kernel
    model = cavity.GP(kernel, likelihoods.Gaussian() if likelihood is None else likelihood)
    return named(default_priors(model, Given() if given is None else given, WeightedTable(X, y)))


def test_they_are_centred_in_units_of_the_data():
    X, y = table()
    wider = stats.t.ppf(0.95, len(y) - 1) / stats.norm.ppf(0.95)
    variance = y.var(ddof=1) * wider**2
    each = found("rbf", X, y)
    np.testing.assert_allclose(each["kernel.variance"].median, variance)
    np.testing.assert_allclose(each["kernel.lengthscale"].scale, X.std(axis=0) * np.sqrt(2.0))
    assert each["kernel.lengthscale"].shape == 0.5
    np.testing.assert_allclose(each["likelihood.variance"].median, 0.2 * variance)
    scaled = found("rbf", 100.0 * X, 1e-3 * y)
    for name, prior in scaled.items():
        if isinstance(prior, priors.LogInverseGamma):
            np.testing.assert_allclose(prior.scale, 100.0 * each[name].scale)
        elif isinstance(prior, priors.LogStudentT):
            np.testing.assert_allclose(prior.median, 1e-6 * each[name].median)
            assert prior.scale == each[name].scale


def test_distant_rows_do_not_make_lengthscales_long():
    X, y = table(rows=40)
    X[7, 0] = 1e4
    scale = found("rbf", X, y)["kernel.lengthscale"].scale
    below, above = np.quantile(X[:, 0], (0.25, 0.75))
    np.testing.assert_allclose(scale[0], (above - below) / 1.349 * np.sqrt(2.0))
    np.testing.assert_allclose(scale[1], X[:, 1].std() * np.sqrt(2.0))


def test_the_variance_of_few_outputs_counts_as_likely_too_small():
    """Of two outputs: a 90 % interval of that variance about their mean holds a third."""
    rng = np.random.default_rng(1)
    triples = rng.standard_normal((200, 3))
    variances = [
        found("rbf", np.array([[0.0], [1.0]]), triple[:2, None])["kernel.variance"].median
        for triple in triples
    ]
    reach = stats.norm.ppf(0.95) * np.sqrt(1.5 * np.array(variances))
    held = np.abs(triples[:, 2] - triples[:, :2].mean(axis=1)) <= reach
    assert 0.84 < np.mean(held) < 0.96


def test_of_noise_alone_nothing_is_remembered():
    """A function of a lengthscale below all distances would do as well as noise."""
    rng = np.random.default_rng(5)
    X, y = rng.random((20, 1)), rng.standard_normal(20)
    assert cavity.GPRegressor(random_state=0).fit(X, y).score(X, y) < 0.3


def test_columns_that_do_not_matter_are_left_out():
    """At the cost of a few nats all together, which the rows make up for."""
    X, y = table(rows=60, columns=9, seed=3)
    each = found("rbf", X, y)["kernel.lengthscale"]
    best = each.scale / each.shape
    lengths = np.where(np.arange(9) == 0, best, 1e4 * best)
    lost = each.log_prob_where_learned(best) - each.log_prob_where_learned(lengths)
    assert 0.0 < float(np.sum(lost)) < 10.0
    fitted = cavity.GPRegressor(random_state=0).fit(X, y[:, 0]).kernel_.lengthscale
    assert np.median(fitted[1:] / each.scale[1:]) > 8.0


def test_tables_of_many_columns_for_each_row_have_none():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 16)), rng.standard_normal((5, 1))
    assert all(prior == priors.Flat() for prior in found("rbf", X, y).values())
    assert found("rbf", X[:, :15], y)["kernel.lengthscale"] != priors.Flat()


def test_parts_that_came_with_values_and_periods_have_none():
    X, y = table(columns=1)
    flat = priors.Flat()
    each = found("rbf * periodic", X, y)
    periods = [prior for name, prior in each.items() if name.endswith("period")]
    assert periods == [flat]
    own = found("rbf", X, y, given=Given(kernel=True))
    assert own["kernel.variance"] == own["kernel.lengthscale"] == flat
    assert own["likelihood.variance"] != flat
    own = found("rbf", X, y, given=Given(likelihood=True))
    assert own["likelihood.variance"] == flat
    assert own["kernel.lengthscale"] != flat


def test_scales_of_heavy_tails_and_kernels_of_several_functions():
    X, y = table()
    each = found("rbf", X, y, likelihoods.StudentT())
    noise = each["likelihood.scale"]
    np.testing.assert_allclose(noise.median, np.sqrt(0.2 * each["kernel.variance"].median))
    assert float(noise.scale) == 0.5
    assert each["likelihood.df"] == priors.Flat()
    rbf = parse("rbf", 2, ("a", "b"))
    each = found((rbf, rbf), X, 1e3 * y, likelihoods.HeteroscedasticGaussian())
    assert float(each["kernel.0.variance"].median) > 1e4
    assert 0.9 < float(each["kernel.1.variance"].median) < 1.2


def test_of_sparse_models_and_classes():
    X, y = table()
    for settings, outputs in (
        (Settings(n_inducing=5), y),
        (Settings(likelihood="probit", task="classification"), np.where(y > 0.0, 1.0, -1.0)),
    ):
        starts, _ = build(settings, X, outputs, {})
        each = named(default_priors(starts[0], parts_given(settings), WeightedTable(X, outputs)))
        weak = {name for name, prior in each.items() if prior != priors.Flat()}
        assert weak >= {"kernel.variance", "kernel.lengthscale"}
        assert not any(name.startswith(("inducing", "mean")) for name in weak)


def test_learning_ends_where_evidence_and_prior_balance():
    X, y = table(rows=12)
    model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.1))
    beliefs = default_priors(model, Given(), WeightedTable(X, y))
    result = cavity.fit(model, X, y[:, 0], priors=beliefs, tolerance=1e-9)
    prior = float(priors.learned_with(result.model, beliefs))
    assert result.objective == pytest.approx(-result.log_evidence - prior, abs=1e-8)
    for where in (lambda m: m.kernel.lengthscale, lambda m: m.likelihood.variance):
        beside = [
            eqx.tree_at(where, result.model, where(result.model) * factor)
            for factor in (0.98, 1.02)
        ]
        for other in beside:
            value = cavity.infer(other, X, y[:, 0]).log_evidence
            assert value + float(priors.learned_with(other, beliefs)) < -result.objective


def test_integration_is_over_the_density_of_the_values():
    """Its objective is minus the log density, whatever learning used."""
    X, y = table(rows=12)
    model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.1))
    beliefs = default_priors(model, Given(), WeightedTable(X, y))
    result = cavity.fit(model, X, y[:, 0], priors=beliefs)
    data = prepare(X, y[:, 0])
    target = Target(result, data, bijections(result.model), cavity.PowerEP())
    for x in (np.zeros(target.size), np.full(target.size, 0.3)):
        assert target.energy(x)[0] == pytest.approx(-target.at(x), abs=1e-8)


def test_fits_share_programs():
    X, y = table()
    cavity.GPRegressor(priors="weak").fit(X, y[:, 0])
    before = set(PROGRAMS.kept)
    cavity.GPRegressor(priors="weak").fit(2.0 * X[:25], 3.0 * y[:25, 0])
    assert set(PROGRAMS.kept) <= before


@pytest.mark.slow
def test_three_rows_are_not_certain():
    """Sines with noise: 90 % intervals of new outputs, over twelve tables."""
    rng = np.random.default_rng(2)
    covered = {"weak": [], None: []}
    for _ in range(12):
        X, new = rng.uniform(-1.0, 1.0, (3, 1)), rng.uniform(-1.0, 1.0, (200, 1))
        y, later = (np.sin(3.0 * a[:, 0]) + 0.3 * rng.standard_normal(len(a)) for a in (X, new))
        for asked, shares in covered.items():
            mean, std = cavity.GPRegressor(priors=asked).fit(X, y).predict(new, return_std=True)
            shares.append(np.mean(np.abs(later - mean) < 1.645 * std))
    assert np.mean(covered["weak"]) > 0.6
    assert np.mean(covered["weak"]) > np.mean(covered[None]) + 0.1


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="priors must be one of"):
        cavity.GPRegressor(priors="strong").fit(*table())
