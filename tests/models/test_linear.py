"""Linear models: against Gaussian processes, dense matrices and enumerated models."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import BayesianRidge

import cavity
from cavity import diagnostics, kernels, likelihoods, weights
from cavity.inference.weights.variable import WeightMessages, Weights
from tests.models.linear_slopes import assert_slopes_are_differences
from tests.tolerances import assert_close

SHAPES = [(70, 4), (12, 80)]


def table(rows, columns, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns))
    w = np.zeros(columns)
    w[:3] = 1.0, -1.0, 0.5
    return X, X @ w + 0.3 * rng.standard_normal(rows) + 1.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("intercept", [False, True])
def test_gaussian_weights_are_a_gp_with_a_linear_kernel(shape, intercept):
    """Evidence, marginals, covariances and leave-one-out densities."""
    X, y = table(*shape)
    kernel = kernels.Linear(0.5)
    kernel = kernel + kernels.Constant(10.0) if intercept else kernel
    noise = likelihoods.Gaussian(0.1)
    linear = cavity.LinearModel(weights.Gaussian(0.5), noise, intercept=intercept)
    found = cavity.infer(linear, X, y)
    expected = cavity.infer(cavity.GP(kernel, noise), X, y)
    assert found.message == "closed form"
    assert_close(found.log_evidence, expected.log_evidence, "factorised")
    new = np.random.default_rng(1).standard_normal((5, shape[1]))
    for one, other in zip(
        found.posterior.marginals(new), expected.posterior.marginals(new), strict=True
    ):
        assert_close(one, other, "factorised")
    assert_close(found.posterior.joint(new).cov, expected.posterior.joint(new).cov, "factorised")
    left_out: Any = [result.left_out for result in (found, expected)]
    assert_close(left_out[0].densities, left_out[1].densities, "factorised")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_sites_of_a_gaussian_prior_are_the_prior(shape, power):
    """A Student-t prior of many degrees of freedom, by sweeps."""
    X, y = table(*shape)
    noise = likelihoods.Gaussian(0.1)
    exact = cavity.infer(cavity.LinearModel(weights.Gaussian(0.5), noise), X, y)
    prior = weights.StudentT(np.sqrt(0.5), 1e7)
    found = cavity.infer(cavity.LinearModel(prior, noise, prior_power=power), X, y)
    assert found.converged
    assert abs(found.log_evidence - exact.log_evidence) < 1e-4
    means = [diagnostics.coefficients(result.posterior).mean for result in (found, exact)]
    np.testing.assert_allclose(means[0], means[1], atol=1e-5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("negative", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (5, 12)])
def test_both_forms_are_the_dense_belief_for_any_signs(shape, negative):
    """Precisions of a prior and of data that are negative, or next to nothing."""
    rng = np.random.default_rng(1)
    rows, size = shape
    X, h, r = rng.standard_normal(shape), rng.standard_normal(size), rng.standard_normal(rows)
    tau, t = rng.uniform(0.5, 2.0, size), rng.uniform(0.5, 3.0, rows)
    tau[:negative], t[0] = (-0.05, 1e-5, -0.02, -0.01)[:negative], -0.02
    Q = X.T @ (t[:, None] * X) + np.diag(tau)
    cov = np.linalg.inv(Q)
    mean = cov @ (h + X.T @ r)
    log_z = 0.5 * mean @ Q @ mean - 0.5 * np.linalg.slogdet(Q)[1]
    log_z += 0.5 * size * np.log(2.0 * np.pi)
    of_rows = [
        (None, (X.T @ r)[None], (X.T @ (t[:, None] * X))[None]),
        (jnp.asarray(X), r[:, None], t[:, None]),
    ]
    for loadings, shift, precision in of_rows:
        variable = Weights(jnp.zeros(size), 1, loadings)
        own = jnp.asarray(h)[:, None], jnp.asarray(tau)[:, None], jnp.zeros(())
        sent = WeightMessages(*own, jnp.asarray(shift), jnp.asarray(precision))
        belief = variable.belief(sent)
        means, covs = belief.dense()
        assert_close(belief.log_normaliser, log_z, "factorised")
        assert_close(means[0], mean, "factorised")
        assert_close(covs[0], cov, "factorised")
        seen = belief.row_moments()
        if seen is not None:
            assert_close(seen[0][:, 0], X @ mean, "factorised")
            assert_close(seen[1][:, 0], np.diag(X @ cov @ X.T), "factorised")


PRIORS = {
    "laplace": weights.Laplace(0.2),
    "spike and slab": weights.SpikeSlab(0.1, 1.0),
    "horseshoe": weights.Horseshoe(0.05),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_differences_of_settled_energies(name, shape):
    """Jylanki (2013), identity 17 and S30: explicit terms alone."""
    X, y = table(*shape)
    model = cavity.LinearModel(PRIORS[name], likelihoods.Gaussian(0.1))
    assert_slopes_are_differences(model, X, y, _parameter)


def _parameter(prior: Any) -> Any:
    return prior.slab if hasattr(prior, "share") else prior.scale


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_spike_and_slab_against_all_models(correlation):
    """1,024 models enumerated: inclusion within 0.1, evidence within 0.3, means within 0.25."""
    rng = np.random.default_rng(3)
    size, rows, noise = 10, 25, 0.25
    root = np.linalg.cholesky(
        correlation ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    )
    X = rng.standard_normal((rows, size)) @ root.T
    w = np.zeros(size)
    w[[1, 4, 7]] = 1.0, -0.7, 0.5
    y = X @ w + np.sqrt(noise) * rng.standard_normal(rows)
    share, slab = 0.3, 1.0
    logs, means, sets = [], [], []
    for chosen in itertools.product([False, True], repeat=size):
        A = X[:, list(chosen)]
        K = slab * A @ A.T + noise * np.eye(rows)
        prior = np.sum(np.where(chosen, np.log(share), np.log1p(-share)))
        logs.append(prior + stats.multivariate_normal(np.zeros(rows), K).logpdf(y))
        mean = np.zeros(size)
        mean[list(chosen)] = slab * A.T @ np.linalg.solve(K, y)
        means.append(mean)
        sets.append(chosen)
    log_z = np.logaddexp.reduce(logs)
    odds = np.exp(np.array(logs) - log_z)
    model = cavity.LinearModel(
        weights.SpikeSlab(share, slab), likelihoods.Gaussian(noise), intercept=False
    )
    result = cavity.infer(model, X, y, power=1.0)
    found: Any = diagnostics.coefficients(result.posterior)
    assert result.converged
    assert abs(result.log_evidence - log_z) < 0.3
    assert np.max(np.abs(found.inclusion - odds @ np.array(sets))) < 0.1
    columns = [2, 4, 5]
    zero = odds @ ~np.any(np.array(sets)[:, columns], axis=1)
    assert abs(diagnostics.probability_zero(result, columns) - zero) < 0.1
    exact = odds @ np.array(means)
    assert np.max(np.abs(found.mean - exact) / found.deviation) < 0.25


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_of_gaussian_weights(level):
    """Of a column that rows see, and of one that they do not."""
    X, y = table(12, 80)
    X[:, 10] = 0.0
    model = cavity.LinearModel(weights.Gaussian(0.5), likelihoods.Gaussian(0.1))
    found = diagnostics.coefficients(cavity.infer(model, X, y).posterior, level)
    half = stats.norm.ppf(0.5 + 0.5 * level)
    assert_close(found.upper, found.mean + half * found.deviation, "quadrature")
    assert_close(found.lower, found.mean - half * found.deviation, "quadrature")
    assert_close(found.deviation[10], np.sqrt(0.5), "factorised")


@pytest.mark.slow
def test_probability_of_zero_asks_for_a_spike():
    X, y = table(12, 80)
    noise = likelihoods.Gaussian(0.1)
    lasso = cavity.infer(cavity.LinearModel(weights.Laplace(0.2), noise), X, y)
    with pytest.raises(ValueError, match="spike at zero"):
        diagnostics.probability_zero(lasso, [0])
    some = weights.SpikeSlab(0.1, 1.0, np.append(np.zeros(79), 0.01))
    with pytest.raises(ValueError, match="spike at zero"):
        diagnostics.probability_zero(cavity.infer(cavity.LinearModel(some, noise), X, y), [0])
    model = cavity.LinearModel(weights.SpikeSlab(0.1, 1.0), noise)
    result = cavity.infer(model, X, y, power=1.0)
    assert diagnostics.probability_zero(result, []) == 1.0
    mask = np.arange(80) == 5
    assert diagnostics.probability_zero(result, mask) == diagnostics.probability_zero(result, [5])
    both = cavity.infer(model, X, np.column_stack([y, y]), power=1.0)
    twice = diagnostics.probability_zero(result, [5]) ** 2
    assert_close(diagnostics.probability_zero(both, [5]), twice, "fixed_point")
    with pytest.raises(ValueError, match="numbers of columns"):
        diagnostics.probability_zero(result, np.array([1.7]))
    with pytest.raises(ValueError, match="no model is left"):
        diagnostics.probability_zero(result, range(80))
    with pytest.raises(ValueError, match="numbers from 0 to 79"):
        diagnostics.probability_zero(result, [80])
    gp = cavity.infer(cavity.GP(kernels.RBF(), noise), X, y)
    with pytest.raises(TypeError, match="LinearModel"):
        diagnostics.probability_zero(gp, [0])


@pytest.mark.slow
def test_order_and_units_change_nothing():
    X, y = table(12, 80)
    columns, scale = np.random.default_rng(0).permutation(80), 7.0
    one = cavity.LinearModel(weights.SpikeSlab(0.1, 1.0), likelihoods.Gaussian(0.1))
    other = cavity.LinearModel(
        weights.SpikeSlab(0.1, 1.0 / scale**2), likelihoods.Gaussian(0.1), intercept=True
    )
    first = cavity.infer(one, X, y, power=1.0)
    second = cavity.infer(other, scale * X[:, columns], y, power=1.0)
    assert_close(second.log_evidence, first.log_evidence, "fixed_point")
    pair: Any = (
        diagnostics.coefficients(first.posterior),
        diagnostics.coefficients(second.posterior),
    )
    assert_close(scale * pair[1].mean, pair[0].mean[columns], "fixed_point")
    assert_close(pair[1].inclusion, pair[0].inclusion[columns], "fixed_point")


def test_columns_that_say_nothing_or_the_same():
    """Constant columns keep their prior; twins share their inclusion."""
    X, y = table(12, 80)
    X[:, 10], X[:, 11] = 0.0, X[:, 0]
    model = cavity.LinearModel(weights.SpikeSlab(0.1, 1.0), likelihoods.Gaussian(0.1))
    result = cavity.infer(model, X, y, power=1.0)
    found: Any = diagnostics.coefficients(result.posterior)
    assert result.converged
    assert np.isfinite(result.log_evidence)
    assert abs(found.inclusion[10] - 0.1) < 1e-3
    # 10 % of a standard normal, the rest at zero
    assert abs(found.upper[10]) < 1e-3
    assert_close(found.positive[10], 0.05, "factorised", scale=1e5)
    assert abs(found.inclusion[11] - found.inclusion[0]) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [likelihoods.Bernoulli(), likelihoods.StudentT(0.3, 4.0)])
def test_other_likelihoods(likelihood):
    X, y = table(12, 80)
    y = (y > 1.0).astype(float) if isinstance(likelihood, likelihoods.Bernoulli) else y
    result = cavity.infer(cavity.LinearModel(weights.Laplace(0.2), likelihood), X, y, power=0.5)
    assert result.converged
    gp = cavity.infer(cavity.GP(kernels.Linear(0.08) + kernels.Constant(10.0), likelihood), X, y)
    # a Laplace prior has a Gaussian's second moments: near, not the same
    assert abs(result.log_evidence - gp.log_evidence) < 3.0


@pytest.mark.slow
def test_classes_have_weights_of_their_own():
    X, y = table(70, 4)
    labels = np.digitize(y, [0.0, 2.0]).astype(float)
    model = cavity.LinearModel(weights.Laplace(0.5), likelihoods.Softmax(3))
    result = cavity.infer(model, X, labels, power=0.5)
    found: Any = diagnostics.coefficients(result.posterior)
    assert found.mean.shape == (4, 3)
    scores = np.asarray(result.posterior.marginals(X).mean)
    assert np.mean(np.argmax(scores, axis=1) == labels) > 0.7


@pytest.mark.slow
def test_learning_finds_share_slab_and_noise():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 100))
    w = np.where(np.arange(100) < 6, 1.0, 0.0)
    y = X @ w + 0.3 * rng.standard_normal(60)
    model = cavity.LinearModel(weights.SpikeSlab(0.3, 0.3), likelihoods.Gaussian(1.0))
    result = cavity.fit(model, X, y, power=1.0)
    learned: Any = result.model
    found: Any = diagnostics.coefficients(result.posterior)
    assert sorted(found.select(0.1)) == [0, 1, 2, 3, 4, 5]
    assert 0.03 < float(learned.prior.share) < 0.12
    assert 0.04 < float(learned.likelihood.variance) < 0.18
    assert np.all((found.lower < 1.1) & (found.upper > -0.1))
    np.testing.assert_allclose(found.mean, w, atol=0.35)


def test_a_variance_for_each_weight_is_relevance_determination():
    X, y = table(70, 4)
    model = cavity.LinearModel(weights.Gaussian(np.ones(4)), likelihoods.Gaussian(0.3))
    learned: Any = cavity.fit(model, X, y).model
    variances = np.asarray(learned.prior.variance)
    assert variances[3] < 1e-2 * variances[0]


@pytest.mark.slow
def test_groups_share_parameters():
    X, y = table(12, 80)
    groups = np.repeat([0, 1], 40)
    prior = weights.SpikeSlab(np.array([0.2, 0.05]), 1.0)
    whole = weights.SpikeSlab(np.repeat([0.2, 0.05], 40), 1.0)
    noise = likelihoods.Gaussian(0.1)
    one = cavity.infer(cavity.LinearModel(prior, noise, groups=groups), X, y, power=1.0)
    other = cavity.infer(cavity.LinearModel(whole, noise), X, y, power=1.0)
    assert_close(one.log_evidence, other.log_evidence)


@pytest.mark.slow
def test_misuse_says_what_to_do():
    X, y = table(12, 80)
    noise, prior = likelihoods.Gaussian(0.1), weights.SpikeSlab()
    model = cavity.LinearModel(prior, noise)
    with pytest.raises(TypeError, match=r"cavity\.weights"):
        cavity.LinearModel(kernels.RBF(), noise)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="power 1 alone"):
        cavity.LinearModel(prior, noise, prior_power=0.5)
    with pytest.raises(ValueError, match="whole numbers"):
        cavity.LinearModel(prior, noise, groups=[0.5, 1.0])
    with pytest.raises(ValueError, match="one value, or one per column"):
        cavity.infer(cavity.LinearModel(weights.Gaussian(np.ones(3)), noise), X, y)
    with pytest.raises(ValueError, match="group of every column"):
        cavity.infer(cavity.LinearModel(prior, noise, groups=[0, 1]), X, y)
    with pytest.raises(ValueError, match="2 priors"):
        cavity.LinearModel((prior, prior), noise)
    with pytest.raises(ValueError, match="spike must not"):
        weights.SpikeSlab(spike=-0.1)
    with pytest.raises(ValueError, match="positive"):
        cavity.infer(cavity.LinearModel(prior, noise, scale=np.zeros(80)), X, y)
    with pytest.raises(ValueError, match="intercept"):
        cavity.LinearModel(prior, noise, intercept=-1.0)
    with pytest.raises(ValueError, match="tied sites need"):
        cavity.infer(model, X, y, method=cavity.TiedPowerEP())
    with pytest.raises(ValueError, match="PowerEP"):
        cavity.infer(model, X, y, method=cavity.Laplace())
    classes = cavity.LinearModel(prior, likelihoods.MultinomialProbit(3))
    with pytest.raises(ValueError, match="coupled=False"):
        cavity.infer(classes, X, np.arange(12) % 3)
    gp = cavity.infer(cavity.GP(kernels.RBF(), noise), X, y)
    with pytest.raises(TypeError, match="LinearModel"):
        diagnostics.coefficients(gp.posterior)
    with pytest.raises(ValueError, match="level"):
        diagnostics.coefficients(cavity.infer(model, X, y).posterior, level=2.0)


@pytest.mark.slow
def test_columns_in_units_of_their_own():
    """A centre and a scale for each column are a linear change of the inputs."""
    X, y = table(12, 80)
    centre, scale = X.mean(axis=0), 3.0 * X.std(axis=0)
    prior, noise = weights.SpikeSlab(0.1, 1.0), likelihoods.Gaussian(0.1)
    inside = cavity.LinearModel(prior, noise, centre=centre, scale=scale)
    one = cavity.infer(inside, X, y, power=1.0)
    other = cavity.infer(cavity.LinearModel(prior, noise), (X - centre) / scale, y, power=1.0)
    assert_close(one.log_evidence, other.log_evidence)
    pair: Any = diagnostics.coefficients(one.posterior), diagnostics.coefficients(other.posterior)
    for name in ("mean", "deviation", "lower", "upper"):
        assert_close(scale * getattr(pair[0], name), getattr(pair[1], name), "factorised")
    height = pair[1].intercept[0] - pair[0].mean @ centre
    assert_close(pair[0].intercept[0], height, "factorised")
    with pytest.raises(ValueError, match="scale has shape"):
        cavity.infer(cavity.LinearModel(prior, noise, scale=np.ones(3)), X, y)


@pytest.mark.parametrize("shape", SHAPES)
def test_files_keep_posteriors(shape, tmp_path):
    X, y = table(*shape)
    model = cavity.LinearModel(weights.SpikeSlab(0.1, 1.0), likelihoods.Gaussian(0.1))
    posterior: Any = cavity.infer(model, X, y, power=1.0).posterior
    cavity.fitting.save_module(tmp_path / "linear.cavity", posterior, {})
    again: Any = cavity.fitting.load_module(tmp_path / "linear.cavity")[0]
    for one, other in zip(again.marginals(X), posterior.marginals(X), strict=True):
        assert_close(one, other)
    pair: Any = diagnostics.coefficients(again), diagnostics.coefficients(posterior)
    assert_close(pair[0].inclusion, pair[1].inclusion)


def test_the_evidence_is_the_score_of_bayesian_ridge():
    """At the precisions that scikit-learn finds, less the terms of its hyperpriors."""
    X, y = table(40, 6)
    # its last score has the coefficients of the step before
    settings = {"compute_score": True, "fit_intercept": False, "tol": 1e-11, "max_iter": 3000}
    ridge: Any = BayesianRidge(**settings).fit(X, y)
    alpha, precision = float(ridge.alpha_), float(ridge.lambda_)
    hyper = sum(1e-6 * (np.log(x) - x) for x in (alpha, precision))
    model = cavity.LinearModel(
        weights.Gaussian(1.0 / precision), likelihoods.Gaussian(1.0 / alpha), intercept=False
    )
    found = cavity.infer(model, X, y)
    assert found.log_evidence == pytest.approx(ridge.scores_[-1] - hyper, rel=1e-9)
    np.testing.assert_allclose(
        diagnostics.coefficients(found.posterior).mean, ridge.coef_, rtol=1e-6
    )


@pytest.mark.parametrize("integrated", [False, True])
def test_a_table_without_columns_has_an_intercept_alone(integrated):
    y = np.arange(5.0)
    noise = likelihoods.Gaussian(1.0)
    sparse = cavity.LinearModel(weights.SpikeSlab(0.1, 1.0), noise, intercept=4.0)
    if integrated:
        own = {"variance": cavity.parameters.priors.LogNormal(1.0, 1.0)}
        sparse = cavity.LinearModel(weights.Gaussian(), noise, intercept=4.0, integrated=own)
    found = cavity.infer(sparse, np.zeros((5, 0)), y, power=1.0)
    exact = stats.multivariate_normal(np.zeros(5), np.eye(5) + 4.0).logpdf(y)
    np.testing.assert_allclose(found.log_evidence, exact, rtol=1e-6)
