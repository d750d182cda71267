"""Draws of weights against closed forms and grids. Seeds are fixed; bounds are standard errors."""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import special, stats

import cavity
from cavity import diagnostics, fitting, likelihoods, weights
from cavity.learning.methods.mcmc import MCMC
from cavity.parameters import FIXED, bijections
from cavity.parameters.priors import LogNormal, flat
from cavity.persistence.model_file import load_module, save_module
from tests.tolerances import assert_close

QUICK = MCMC(draws=800, warmup=200, chains=2, keep=400)
FEW = MCMC(draws=20, warmup=20, chains=2, keep=20)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 3))
Y = X @ [1.0, -0.5, 0.0] + 0.3 + 0.4 * RNG.standard_normal(12)
NEW = RNG.standard_normal((4, 3))
NOISE = likelihoods.Gaussian(0.2)


def within(draws, mean, deviation, ess, errors=4.5):
    """Whether means of draws are so many standard errors from the truth, deviations a tenth."""
    flat = draws.reshape(-1, *draws.shape[2:])
    away = np.abs(flat.mean(axis=0) - mean) / (deviation / np.sqrt(ess))
    assert np.max(away) < errors, away
    np.testing.assert_allclose(flat.std(axis=0), deviation, rtol=0.15)


def on_grid(log_posterior, *axes):
    """Mean and deviation of weights under a density on a grid, (count,) each."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    cells = np.log(np.stack(np.meshgrid(*map(np.gradient, axes), indexing="ij"), axis=-1))
    value = log_posterior(points) + cells.reshape(points.shape).sum(axis=1)
    share = special.softmax(value)
    mean = share @ points
    return mean, np.sqrt(share @ (points - mean) ** 2)


@pytest.fixture(scope="module")
def ridge():
    """Gaussian weights and noise: the exact posterior, and draws."""
    model = cavity.LinearModel(weights.Gaussian(0.7), NOISE)
    return cavity.infer(model, X, Y), cavity.infer(model, X, Y, method=QUICK)


def test_gaussian_weights(ridge):
    exact, drawn = ridge
    truth, chains = diagnostics.coefficients(exact.posterior), drawn.chains
    assert drawn.converged
    within(chains.weights["weights"], truth.mean, truth.deviation, chains.ess["weights"])
    mean, var = exact.posterior.marginals(X)
    within(chains.latents, np.asarray(mean), np.sqrt(np.asarray(var)), chains.ess["f"])
    assert "weights, the worst" in str(chains)
    assert set(chains.to_arviz()["posterior"]) == {"f", "weights", "intercept"}


def test_predictions_average_over_draws(ridge):
    """Moments, densities and samples are those of the functions of the draws that were kept."""
    exact, drawn = ridge
    posterior, chains = drawn.posterior, drawn.chains
    kept = np.linspace(0, 1599, 400).round().astype(int)
    w, b = (chains.weights[n].reshape(1600, -1)[kept] for n in ("weights", "intercept"))
    f = w @ NEW.T + b
    joint = posterior.joint(NEW)
    assert_close(np.asarray(joint.mean), f.mean(axis=0), "factorised")
    assert_close(np.asarray(joint.cov), np.cov(f.T, bias=True), "factorised")
    y = np.zeros(4)
    found = posterior.predict(NEW).log_density(y)
    expected = special.logsumexp(stats.norm.logpdf(y, f, np.sqrt(0.2)), axis=0) - np.log(400)
    assert_close(np.asarray(found), expected, "factorised")
    samples = np.asarray(posterior.sample(NEW, 5, key=jax.random.key(0)))
    assert all(np.any(np.all(np.isclose(f, row), axis=1)) for row in samples)
    truth = exact.posterior.marginals(NEW)
    np.testing.assert_allclose(joint.mean, truth.mean, atol=0.1)


def test_coefficients_are_those_of_draws(ridge):
    exact, drawn = ridge
    found, truth = (diagnostics.coefficients(r.posterior) for r in (drawn, exact))
    for name in ("mean", "lower", "upper", "positive"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=0.1)
    assert found.inclusion is None
    np.testing.assert_allclose(found.intercept, truth.intercept, atol=0.03)


def spike_and_slab(w):
    return 0.7 * stats.norm.pdf(w, 0.0, 0.2) + 0.3 * stats.norm.pdf(w)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (weights.Laplace(0.4), lambda w: stats.laplace.pdf(w, scale=0.4)),
        (weights.StudentT(0.3, 3.0), lambda w: stats.t.pdf(w, 3.0, scale=0.3)),
        (weights.SpikeSlab(0.3, 1.0, 0.04), spike_and_slab),
    ],
    ids=["laplace", "student_t", "spike_slab"],
)
def test_sparse_priors_against_a_grid(prior, density):
    axis = np.linspace(-2.0, 2.0, 61)

    def log_posterior(w):
        likelihood = stats.norm.logpdf(Y, w @ X.T, np.sqrt(0.2)).sum(axis=1)
        return likelihood + np.log(density(w)).sum(axis=1)

    mean, deviation = on_grid(log_posterior, axis, axis, axis)
    model = cavity.LinearModel(prior, NOISE, intercept=False)
    chains = cavity.sample(model, X, Y, QUICK, learn=False).chains
    within(chains.weights["weights"], mean, deviation, chains.ess["weights"])
    assert chains.divergences <= 0.01 * chains.stats["lp"].size


def half_cauchy_scales(slab):
    """Shares of local scales on a grid of their logarithms, and the variances of weights."""
    log_scale = np.linspace(-14.0, 14.0, 281)
    size = 0.2**2 * np.exp(2.0 * log_scale)
    share = stats.halfcauchy.pdf(np.exp(log_scale)) * np.exp(log_scale) * 0.1
    return share, size if slab is None else size * slab**2 / (slab**2 + size)


@pytest.mark.slow
@pytest.mark.parametrize("slab", [None, 2.0])
def test_a_horseshoe_against_a_grid_of_its_scales(slab):
    """Given scales weights are Gaussian; two columns."""
    share, var = half_cauchy_scales(slab)
    share = np.log(share)
    A = X[:, 1:]
    one = np.stack(np.meshgrid(var, var, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = (share[:, None] + share).ravel()
    precision = A.T @ A / 0.2 + np.eye(2) / one[:, None]
    cov = np.linalg.inv(precision)
    means = cov @ (A.T @ Y / 0.2)
    fit = 0.5 * np.einsum("si,sij,sj->s", means, precision, means)
    value = prior + fit - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * np.log(one).sum(axis=1)
    p = special.softmax(value)
    mean = p @ means
    second = p @ (np.diagonal(cov, axis1=1, axis2=2) + means**2)
    model = cavity.LinearModel(weights.Horseshoe(0.2, slab), NOISE, intercept=False)
    chains = cavity.sample(model, A, Y, QUICK, learn=False).chains
    deviation = np.sqrt(second - mean**2)
    within(chains.weights["weights"], mean, deviation, chains.ess["weights"])


def test_weights_of_a_block_share_their_scale():
    """Student-t weights in one block are multivariate Student-t."""
    axis = np.linspace(-2.5, 2.5, 151)

    def log_posterior(w):
        likelihood = stats.norm.logpdf(Y, w @ X[:, 1:].T, np.sqrt(0.2)).sum(axis=1)
        return likelihood + stats.multivariate_t.logpdf(w, shape=0.09 * np.eye(2), df=3.0)

    mean, deviation = on_grid(log_posterior, axis, axis)
    prior = weights.StudentT(0.3, 3.0)
    model = cavity.LinearModel(prior, NOISE, intercept=False, blocks=[[0, 1]])
    chains = cavity.sample(model, X[:, 1:], Y, QUICK, learn=False).chains
    within(chains.weights["weights"], mean, deviation, chains.ess["weights"])


@pytest.mark.slow
def test_weights_that_are_not_negative(tmp_path):
    """Draws, and sites at power 1, against a grid."""
    axis = np.linspace(1e-4, 2.5, 201)

    def log_posterior(w):
        likelihood = stats.norm.logpdf(Y, w @ X[:, 1:].T, np.sqrt(0.2)).sum(axis=1)
        return likelihood + stats.t.logpdf(w, 4.0, scale=0.5).sum(axis=1)

    mean, deviation = on_grid(log_posterior, axis, axis)
    model = cavity.LinearModel(weights.HalfStudentT(0.5), NOISE, intercept=False)
    chains = cavity.sample(model, X[:, 1:], Y, QUICK, learn=False).chains
    assert np.all(chains.weights["weights"] >= 0.0)
    within(chains.weights["weights"], mean, deviation, chains.ess["weights"])
    matched = cavity.infer(model, X[:, 1:], Y)
    assert matched.converged
    found = diagnostics.coefficients(matched.posterior)
    np.testing.assert_allclose(found.mean, mean, atol=0.01)
    np.testing.assert_allclose(found.deviation, deviation, rtol=0.05)
    assert np.all(found.lower > 0.0)
    assert np.all(found.negative == 0.0)
    save_module(tmp_path / "half.cavity", matched.posterior, {})
    kept = load_module(tmp_path / "half.cavity")[0]
    np.testing.assert_array_equal(diagnostics.coefficients(kept).lower, found.lower)


@pytest.mark.slow
def test_learned_parameters_against_a_grid():
    """Noise variance and the variance of the prior, with the weights integrated out exactly."""
    model = cavity.LinearModel(weights.Gaussian(0.5), NOISE, intercept=False)
    priors = eqx.tree_at(
        lambda m: (m.prior.variance, m.likelihood.variance),
        flat(model),
        (LogNormal(0.5, 1.0), LogNormal(0.2, 0.5)),
    )
    found = cavity.sample(model, X, Y, QUICK, priors=priors)
    wide, noise = np.exp(np.linspace(-5.0, 5.0, 61)), np.exp(np.linspace(-4.0, 2.0, 51))
    value = np.array(
        [
            [
                stats.multivariate_normal.logpdf(Y, cov=s * X @ X.T + v * np.eye(12))
                + stats.norm.logpdf(np.log(s), np.log(0.5), 1.0)
                + stats.norm.logpdf(np.log(v), np.log(0.2), 0.5)
                for v in noise
            ]
            for s in wide
        ]
    )
    p = special.softmax(value)
    for name, values, share in [
        ("prior.variance", wide, p.sum(axis=1)),
        ("likelihood.variance", noise, p.sum(axis=0)),
    ]:
        mean = share @ np.log(values)
        deviation = np.sqrt(share @ (np.log(values) - mean) ** 2)
        draws = np.log(found.chains.parameters[name])
        within(draws, mean, deviation, found.chains.ess[name])
    assert found.model.prior.variance == pytest.approx(
        float(np.median(found.chains.parameters["prior.variance"]))
    )


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [likelihoods.Laplace(0.4), likelihoods.Bernoulli()])
def test_any_likelihood(likelihood):
    """With a kink, where slices help, and labels."""
    axis = np.linspace(-4.0, 5.0, 121)
    labels = likelihood.support is cavity.likelihoods.support.Support.LABELS
    y = (Y > 0.0).astype(float) if labels else Y

    def log_posterior(w):
        f = w @ X[:, :2].T
        fit = np.asarray(likelihood.log_prob(f, y)).sum(axis=1)
        return fit + stats.norm.logpdf(w).sum(axis=1)

    mean, deviation = on_grid(log_posterior, axis, axis)
    model = cavity.LinearModel(weights.Gaussian(1.0), likelihood, intercept=False)
    chains = cavity.infer(model, X[:, :2], y, method=QUICK).chains
    within(chains.weights["weights"], mean, deviation, chains.ess["weights"])


@pytest.mark.slow
def test_several_functions():
    """Three classes, each with its own weights and intercept."""
    labels = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    model = cavity.LinearModel(weights.Laplace(0.5), likelihoods.Softmax(3))
    found = cavity.infer(model, X, labels, method=FEW)
    assert found.chains.weights["weights"].shape == (2, 20, 3, 3)
    assert found.chains.weights["intercept"].shape == (2, 20, 3)
    assert found.chains.latents.shape == (2, 20, 12, 3)
    chances = np.asarray(found.posterior.predict(X).probabilities)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert diagnostics.coefficients(found.posterior).mean.shape == (3, 3)
    alone = found.posterior.of_function(1).marginals(NEW)
    assert_close(np.asarray(alone.mean), found.posterior.marginals(NEW).mean[:, 1], "factorised")


@pytest.mark.slow
def test_a_network_against_a_grid():
    """One unit of one column without noise of its intercept: two weights that matter."""
    x, axis = X[:, :1], np.linspace(-6.0, 6.0, 301)
    y = 0.8 * special.erf(1.5 * x[:, 0] / np.sqrt(2.0)) + 0.1 * RNG.standard_normal(12)

    def log_posterior(w):
        f = special.erf(w[:, :1] * x[:, 0] / np.sqrt(2.0)) * w[:, 1:]
        fit = stats.norm.logpdf(y, f, np.sqrt(0.2)).sum(axis=1)
        return fit + stats.norm.logpdf(w, 0.0, np.sqrt([2.0, 1.0])).sum(axis=1)

    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    p = special.softmax(log_posterior(points))
    f = special.erf(points[:, :1] * x[:, 0] / np.sqrt(2.0)) * points[:, 1:]
    mean = p @ f
    deviation = np.sqrt(p @ (f - mean) ** 2)
    model = cavity.Network(1, weights.Gaussian(2.0), "erf", NOISE, bias=1e-12, intercept=1e-12)
    found = cavity.sample(model, x, y, QUICK, learn=False)
    within(found.chains.latents, mean, deviation, found.chains.ess["f"])
    assert set(found.chains.rhat) == {"f"}
    assert found.chains.weights["hidden"].shape == (2, 800, 2, 1)
    size = found.chains.weights["hidden"][..., 0, 0] * found.chains.weights["output"][..., 0]
    product = p @ points.prod(axis=1)
    spread = np.sqrt(p @ (points.prod(axis=1) - product) ** 2)
    within(size, product, spread, np.min(found.chains.ess["f"]))


@pytest.mark.slow
def test_a_network_that_is_a_linear_model(ridge):
    """Known output weights, the identity, and a linear part."""
    exact, _ = ridge
    known = np.array([1.0, 0.0])
    narrow = {"intercept": 10.0, "output_weights": known}
    model = cavity.Network(1, weights.Gaussian(0.35), "identity", NOISE, linear=True, **narrow)
    found = cavity.infer(model, X, Y, method=QUICK)
    mean, var = exact.posterior.marginals(X)
    within(found.chains.latents, np.asarray(mean), np.sqrt(np.asarray(var)), found.chains.ess["f"])
    assert set(found.chains.weights) == {"hidden", "linear"}


@pytest.mark.slow
def test_held_parameters_stay():
    model = cavity.LinearModel(weights.Laplace(0.4), NOISE)
    maps = eqx.tree_at(lambda m: m.prior.scale, bijections(model), FIXED)
    found = cavity.fit(model, X, Y, method=FEW, bijections=maps)
    assert set(found.chains.parameters) == {"likelihood.variance"}
    assert float(found.model.prior.scale) == 0.4
    assert found.objective is None
    still = cavity.fit(model, X, Y, method=FEW, max_iterations=0)
    assert not still.chains.parameters


def test_a_file_keeps_the_draws(ridge, tmp_path):
    save_module(tmp_path / "draws.cavity", ridge[1].posterior, {})
    found = load_module(tmp_path / "draws.cavity")[0]
    for one, other in zip(found.marginals(NEW), ridge[1].posterior.marginals(NEW), strict=True):
        assert_close(np.asarray(one), np.asarray(other), "factorised")


@pytest.mark.parametrize(
    ("change", "sampler", "message"),
    [
        ({"prior": weights.SpikeSlab()}, FEW, "a point at zero: give the spike a variance"),
        ({"prior": weights.SpikeSlab(0.3, 1.0, [0.01, 0.01, 0.0])}, FEW, "a point at zero"),
        ({}, MCMC(temperatures=8), "leave it out, or use PowerEP"),
        ({"integrated": {"variance": LogNormal(1.0, 1.0)}}, FEW, "leave out integrated=, given"),
    ],
    ids=["spike", "one spike of three", "evidence", "integrated"],
)
def test_refusals(change, sampler, message):
    model = cavity.LinearModel(**{"prior": weights.Gaussian(), "likelihood": NOISE, **change})
    with pytest.raises(ValueError, match=message):
        cavity.infer(model, X, Y, method=sampler)


def test_chains_that_cannot_start_say_so():
    model = cavity.LinearModel(weights.Gaussian(), likelihoods.Gaussian(1e-310))
    with pytest.raises(fitting.NumericalError, match="posterior of the weights"):
        cavity.sample(model, X, Y, FEW, learn=False)


def signs_and_inclusion(units, share=0.3, slab=1.0, spike=0.01, noise=0.2):
    """Probabilities of negative, positive and included weights, by all sets of units in slabs."""
    log_p, found, count = [], [], max(units) + 1
    for number in range(2**count):
        inside = (number >> np.array(units)) & 1
        of_units = (number >> np.arange(count)) & 1
        s = np.where(inside, slab, spike)
        cov = np.linalg.inv(X.T @ X / noise + np.diag(1.0 / s))
        mean, width = cov @ X.T @ Y / noise, np.sqrt(np.diag(cov))
        evidence = stats.multivariate_normal.logpdf(Y, cov=X * s @ X.T + noise * np.eye(12))
        log_p.append(evidence + np.log(np.where(of_units, share, 1.0 - share)).sum())
        below = stats.norm.cdf(-mean / width)
        found.append([inside * below, inside * (1.0 - below), inside])
    return np.tensordot(special.softmax(log_p), np.array(found), axes=1)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [None, [[1, 2]]], ids=["alone", "block"])
def test_signs_of_draws_leave_out_the_spike(blocks):
    """Against sums over spikes and slabs; a spike at zero counts for neither sign."""
    prior = weights.SpikeSlab(0.3, 1.0, 0.01)
    model = cavity.LinearModel(prior, NOISE, intercept=False, blocks=blocks)
    sampler = MCMC(draws=1600, warmup=200, chains=2, keep=3200)
    drawn = diagnostics.coefficients(cavity.sample(model, X, Y, sampler, learn=False).posterior)
    matched = diagnostics.coefficients(cavity.infer(model, X, Y, power=1.0).posterior)
    truth = signs_and_inclusion([0, 1, 2] if blocks is None else [0, 1, 1])
    for name, expected in zip(("negative", "positive", "inclusion"), truth, strict=True):
        np.testing.assert_allclose(getattr(drawn, name), expected, atol=0.08, err_msg=name)
        np.testing.assert_allclose(getattr(matched, name), expected, atol=0.05, err_msg=name)
    np.testing.assert_allclose(drawn.negative + drawn.positive, drawn.inclusion, rtol=1e-9)


@pytest.mark.slow
def test_what_draws_are_not_for():
    spiked = cavity.LinearModel(weights.SpikeSlab(0.3, 1.0, 0.01), NOISE)
    with pytest.raises(TypeError, match="by PowerEP, not MCMC"):
        diagnostics.probability_zero(cavity.sample(spiked, X, Y, FEW, learn=False), [0])
    network = cavity.Network(1, weights.Gaussian(), "erf", NOISE)
    found = cavity.sample(network, X, Y, FEW, learn=False)
    with pytest.raises(TypeError, match="given that of a Network"):
        diagnostics.coefficients(found.posterior)


def test_networks_refuse_spikes():
    model = cavity.Network(2, weights.Gaussian(), "erf", NOISE, output=weights.SpikeSlab())
    with pytest.raises(ValueError, match="a point at zero"):
        cavity.sample(model, X, Y, FEW)
