"""Parameters integrated out: against a constant kernel, dense integrals and held parameters."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import cavity
from cavity import diagnostics, fitting, inducing, kernels, likelihoods, means, weights
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from cavity.likelihoods import Integrated
from cavity.parameters import FIXED, INTEGRATED, bijections, priors
from cavity.parameters.gaussian_scale import GaussianScales
from cavity.persistence.model_file import load_module, save_module
from cavity.weights.integrated import IntegratedPrior
from tests.tolerances import assert_close

RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0.0, 1.0, 40))[:, None]
Y = np.sin(6.0 * X[:, 0]) + 0.3 * RNG.standard_normal(40)
NOISE_TENTH = Integrated(likelihoods.Gaussian(), {"variance": priors.LogNormal(0.1, 1.0)})
NOISE = Integrated(likelihoods.Gaussian(), {"variance": priors.LogNormal(np.exp(-2.0), 1.0)})


def points(count) -> Any:
    return None if count is None else inducing.Points(np.linspace(0.0, 1.0, count)[:, None])


def gp(count: int | None = None, likelihood: Any = NOISE) -> Any:
    return cavity.GP(kernels.RBF(1.0, 0.3), likelihood, points(count))


@pytest.mark.sampled(1, "full")
@pytest.mark.parametrize("count", [None, 8], ids=["full", "sparse"])
def test_integrated_noise_is_a_constant_function_of_its_log(count):
    constant = cavity.GP(
        (kernels.RBF(1.0, 0.3), kernels.Constant(1.0)),
        likelihoods.HeteroscedasticGaussian(),
        points(count),
        (means.Zero(), means.Constant(-2.0)),
    )
    found, expected = cavity.infer(gp(count), X, Y), cavity.infer(constant, X, Y)
    assert found.converged
    # inducing variables of the constant have jitter
    kind = "factorised" if count is None else "fixed_point"
    assert_close(found.log_evidence, expected.log_evidence, kind)
    assert_close(found.leave_one_out(), expected.leave_one_out(), "fixed_point")
    new = np.linspace(-0.2, 1.2, 5)[:, None]
    one, other = found.posterior.predict(new), expected.posterior.predict(new)
    for a, b in (
        (one.mean, other.mean),
        (one.var, other.var),
        (one.log_density(one.mean + 0.3), other.log_density(one.mean + 0.3)),
        (one.quantile(0.9), other.quantile(0.9)),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_evidence_is_near_the_dense_integral():
    K = np.exp(-0.5 * (X - X.T) ** 2 / 0.09)
    z = np.linspace(-7.0, 3.0, 1001)
    given = [stats.multivariate_normal.logpdf(Y, None, K + np.exp(t) * np.eye(40)) for t in z]
    log_p = np.array(given) + stats.norm.logpdf(z, -2.0, 1.0)
    exact = logsumexp(log_p) + np.log(z[1] - z[0])
    mean = np.exp(log_p - logsumexp(log_p)) @ z
    found = cavity.infer(gp(), X, Y)
    assert found.log_evidence == pytest.approx(exact, abs=0.05)
    marginal = diagnostics.integrated_parameters(found.posterior)["likelihood.variance"]
    assert np.log(marginal.median) == pytest.approx(mean, abs=0.03)
    assert marginal.lower < marginal.median < marginal.upper


def test_under_a_narrowing_prior_it_is_held():
    held = cavity.infer(gp(likelihood=likelihoods.Gaussian(0.1)), X, Y).log_evidence
    gaps = []
    for deviation in (1e-1, 1e-2, 1e-3):
        location: Any = np.log([0.1])
        spread: Any = np.array([deviation])
        scales = GaussianScales(("variance",), ("log",), location, spread)
        model = eqx.tree_at(lambda m: m.likelihood.scales, gp(), scales)
        gaps.append(abs(cavity.infer(model, X, Y).log_evidence - held))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.3, 1.0])
def test_two_parameters_of_a_row_against_a_grid(power):
    """Jylanki S122: scale and degrees of freedom of Student-t noise beside the function."""
    scale, df = priors.LogNormal(0.5, 0.4), priors.LogNormal(5.0, 0.6)
    both = Integrated(likelihoods.StudentT(), {"scale": scale, "df": df})
    assert both.latents == 3
    mean, var = np.array([0.3, -0.6, 1.5]), np.array([0.5, 0.2, 0.4])
    column = [jnp.asarray(x)[:, None] for x in (mean, var)]
    found = both.tilted(column[0], column[1], jnp.array([1.0]), power)
    t = np.linspace(-8.0, 8.0, 161)
    w = stats.norm.pdf(t) * (t[1] - t[0])
    f, s, n = (m + np.sqrt(v) * t for m, v in zip(mean, var, strict=True))
    f, s, n = f[:, None, None], np.exp(s)[None, :, None], np.exp(n)[None, None]
    value = stats.t.logpdf(1.0, n, f, s)
    weight = w[:, None, None] * w[None, :, None] * w[None, None]
    log_mean = (weight * value).sum() if power == 0.0 else None
    if power > 0.0:
        tilted = weight * np.exp(power * value)
        log_mean = np.log(tilted.sum()) / power
        moved = [
            np.sum(tilted * z) / tilted.sum()
            for z in np.meshgrid(
                *(m + np.sqrt(v) * t for m, v in zip(mean, var, strict=True)), indexing="ij"
            )
        ]
        assert_close(mean + power * var * np.asarray(found.slope)[:, 0], moved, "fixed_point")
    assert_close(np.asarray(found.log_mean)[0], log_mean, "quadrature")


def test_gradients_are_those_of_settled_energies():
    data = prepare(X, Y, power=0.5)
    start = as_dtype(gp(8), data)
    method = cavity.PowerEP(tolerance=1e-11)
    fn = Objective(start, data, method=method, jitter=1e-8)
    _, slope = fn(np.zeros(fn.size))
    for i in (0, 1, fn.size - 1):
        step = 1e-5 * np.eye(fn.size)[i]
        expected = (fn(step)[0] - fn(-step)[0]) / 2e-5
        assert slope[i] == pytest.approx(expected, rel=1e-5, abs=1e-6)


def chosen(model, where, prior_of):
    maps = eqx.tree_at(where, bijections(model), replace_fn=lambda _: INTEGRATED)
    return {"bijections": maps, "priors": eqx.tree_at(where, priors.flat(model), prior_of)}


@pytest.mark.slow
def test_a_parameter_is_learned_then_released():
    model = gp(8, likelihoods.Gaussian(0.1))
    options = chosen(model, lambda m: m.likelihood.variance, priors.LogNormal(0.1, 1.0))
    result = cavity.fit(model, X, Y, max_iterations=15, **options)
    assert result.sites.converged
    fitted: Any = result.model
    assert fitted.likelihood.latents == 2
    assert set(diagnostics.integrated_parameters(result.posterior)) == {"likelihood.variance"}
    held = cavity.fit(model, X, Y, max_iterations=15)
    assert abs(result.log_evidence - held.log_evidence) < 5.0
    assert str(result.bijections.likelihood.likelihood.variance) == "fixed"


def test_released_sites_are_near_the_fixed_point():
    """Six sweeps, and six more at the end, settle them; from none they do not."""
    few = cavity.PowerEP(max_sweeps=6, fallback=False)
    assert not cavity.infer(gp(8, NOISE_TENTH), X, Y, method=few).converged
    model = gp(8, likelihoods.Gaussian(0.1))
    options = chosen(model, lambda m: m.likelihood.variance, priors.LogNormal(0.1, 1.0))
    held = eqx.tree_at(
        lambda m: (m.kernel.variance, m.kernel.lengthscale, m.inducing.Z),
        options["bijections"],
        (FIXED, FIXED, FIXED),
    )
    result = cavity.fit(model, X, Y, method=few, bijections=held, priors=options["priors"])
    assert result.sites.converged
    assert "did not settle" not in result.message


def test_what_cannot_be_integrated():
    model = gp(8, likelihoods.Gaussian(0.1))
    wrong = chosen(model, lambda m: m.kernel.variance, priors.LogNormal(1.0, 1.0))
    with pytest.raises(ValueError, match=r"kernel.variance cannot be INTEGRATED"):
        cavity.fit(model, X, Y, **wrong)
    flat = chosen(model, lambda m: m.likelihood.variance, priors.Flat())
    with pytest.raises(ValueError, match=r"its prior is flat: give it a Normal"):
        cavity.fit(model, X, Y, **flat)
    drawn = gp(likelihood=model.likelihood)
    options = chosen(drawn, lambda m: m.likelihood.variance, priors.LogNormal(0.1, 1.0))
    with pytest.raises(ValueError, match="draws every parameter"):
        cavity.fit(drawn, X, Y, method=cavity.MCMC(), **options)
    with pytest.raises(ValueError, match="the domain of variance is positive"):
        Integrated(likelihoods.Gaussian(), {"variance": priors.Normal(0.0, 1.0)})
    with pytest.raises(ValueError, match="has no parameter scale that is one number"):
        Integrated(likelihoods.Gaussian(), {"scale": priors.LogNormal(1.0, 1.0)})
    with pytest.raises(ValueError, match="Laplace has no parameter share"):
        cavity.LinearModel(
            weights.Laplace(), likelihoods.Gaussian(), integrated={"share": priors.LogitNormal()}
        )
    deep = cavity.DeepGP((cavity.Layer(kernels.RBF(), points(4)),), NOISE)
    with pytest.raises(ValueError, match="takes no Integrated likelihood"):
        cavity.infer(deep, X, Y, method=cavity.TiedPowerEP())
    with pytest.raises(ValueError, match="likelihood itself, not Integrated"):
        cavity.infer(gp(), X, Y, method=cavity.MCMC())


# ------------------------------------------------------------------------- priors of weights


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(30, 8), (60, 20)])
def test_noise_and_prior_variance_against_the_integral_over_both(shape):
    """Jylanki S93 and S102; the integral by the singular values of X."""
    rng = np.random.default_rng(2)
    Z = rng.standard_normal(shape)
    w = rng.standard_normal(shape[1])
    y = Z @ w + 0.7 * rng.standard_normal(shape[0])
    wide = priors.LogNormal(1.0, 1.5)
    noise = Integrated(likelihoods.Gaussian(), {"variance": wide})
    model = cavity.LinearModel(
        weights.Gaussian(), noise, intercept=False, integrated={"variance": wide}
    )
    found = cavity.infer(model, Z, y, power=1.0)
    assert found.converged
    values, vectors = np.linalg.eigh(Z @ Z.T)
    projected = vectors.T @ y
    a, b = np.meshgrid(np.linspace(-8.0, 5.0, 161), np.linspace(-6.0, 6.0, 161), indexing="ij")
    total = np.exp(b)[..., None] * values + np.exp(a)[..., None]
    log_p = -0.5 * np.sum(np.log(2 * np.pi * total) + projected**2 / total, axis=-1)
    log_p += stats.norm.logpdf(a, 0.0, 1.5) + stats.norm.logpdf(b, 0.0, 1.5)
    exact = logsumexp(log_p) + np.log((13.0 / 160.0) * (12.0 / 160.0))
    assert found.log_evidence == pytest.approx(exact, abs=0.7)
    share = np.exp(log_p - logsumexp(log_p))
    marginals = diagnostics.integrated_parameters(found.posterior, level=0.6826894921)
    for name, grid in (("likelihood.variance", a), ("prior.variance", b)):
        mean = np.sum(share * grid)
        deviation = np.sqrt(np.sum(share * (grid - mean) ** 2))
        own = marginals[name]
        assert np.log(own.median) == pytest.approx(mean, abs=0.15 * deviation)
        assert np.log(own.upper / own.lower) / 2 == pytest.approx(deviation, rel=0.25)
    # means and deviations of the weights
    seen = Z.T @ vectors
    conditional = np.exp(b)[..., None] * projected / total
    mean = np.einsum("abn,ab,pn->p", conditional, share, seen)
    var = np.einsum("ab,ab->", share, np.exp(b)) - np.einsum(
        "abn,ab,pn->p", np.exp(2 * b)[..., None] / total, share, seen**2
    )
    spread = np.einsum("pn,abn->pab", seen, conditional)
    var += np.einsum("ab,pab->p", share, spread**2) - mean**2
    own = diagnostics.coefficients(found.posterior)
    assert own.mean.shape == (shape[1],)
    np.testing.assert_array_less(np.abs(own.mean - mean), 0.1 * np.sqrt(var))
    np.testing.assert_allclose(own.deviation, np.sqrt(var), rtol=0.08)


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_a_parameter_of_one_weight_makes_a_scale_mixture(power):
    """Jylanki S91 and S103: against nodes of the log variance and of the weight."""
    shape = (2, 1)
    mean, var = jnp.array([[0.4], [-2.0]]), jnp.array([[0.5], [1.5]])
    location, spread = jnp.full(shape, -0.5), jnp.full(shape, 0.8)
    prior = IntegratedPrior(
        weights.Gaussian(jnp.ones(shape)), ("variance",), ("log",), (location,), (spread,)
    )
    own, (of_z,) = prior.tilted_with_parameters(mean, var, power)
    z = np.linspace(-0.5 - 9.0 * np.sqrt(0.8), -0.5 + 9.0 * np.sqrt(0.8), 601)
    for i in range(2):
        m, v = float(mean[i, 0]), float(var[i, 0])
        w = np.linspace(m - 12.0 * np.sqrt(v), m + 12.0 * np.sqrt(v), 1501)
        log = power * stats.norm.logpdf(w[:, None], 0.0, np.exp(0.5 * z))
        log += stats.norm.logpdf(w, m, np.sqrt(v))[:, None]
        log += stats.norm.logpdf(z, -0.5, np.sqrt(0.8))
        total = logsumexp(log) + np.log((w[1] - w[0]) * (z[1] - z[0]))
        assert own.log_mean[i, 0] == pytest.approx(total / power, abs=1e-7)
        p = np.exp(log - logsumexp(log))
        assert m + power * v * own.slope[i, 0] == pytest.approx(np.sum(p * w[:, None]), abs=1e-6)
        moved = -0.5 + power * 0.8 * float(of_z.slope[i, 0])
        assert moved == pytest.approx(np.sum(p * z), abs=1e-6)
        if i == 0 or power < 1.0:
            continue
        below = prior.cdf(jnp.full(shape, 0.2), mean, var)
        p = p.sum(axis=1)
        assert float(below[1, 0]) == pytest.approx(np.interp(0.2, w, np.cumsum(p)), abs=5e-3)


@pytest.mark.slow
def test_share_and_noise_of_spike_and_slab():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 12))
    y = Z[:, :3] @ np.array([1.5, -1.0, 1.0]) + 0.5 * rng.standard_normal(40)
    model = cavity.LinearModel(weights.SpikeSlab(0.3, 1.0), likelihoods.Gaussian(0.3))

    def both(m):
        return m.likelihood.variance, m.prior.share

    options = chosen(model, both, (priors.LogNormal(0.3, 1.0), priors.LogitNormal(0.2, 1.0)))
    result = cavity.fit(model, Z, y, max_iterations=10, **options)
    assert result.sites.converged
    found = diagnostics.integrated_parameters(result.posterior)
    assert 0.05 < found["prior.share"].median < 0.6
    assert 0.1 < found["likelihood.variance"].median < 0.5
    inclusion = diagnostics.coefficients(result.posterior).inclusion
    assert inclusion is not None
    assert np.all(inclusion[:3] > 0.95)
    assert np.all(inclusion[3:] < 0.5)
    with pytest.raises(ValueError, match="share of the slab is held"):
        diagnostics.probability_zero(result, [4])


@pytest.mark.slow
def test_one_parameter_for_each_group(tmp_path):
    """The same number for all groups where they are one group."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((20, 4))
    y = Z[:, 0] - Z[:, 1] + 0.3 * rng.standard_normal(20)
    groups = np.array([0, 0, 1, 1])
    wide = {"variance": priors.LogNormal(1.0, 1.0)}
    noise = likelihoods.Gaussian(0.1)
    model = cavity.LinearModel(
        weights.Gaussian(np.ones(2)), noise, intercept=False, groups=groups, integrated=wide
    )
    found = cavity.infer(model, Z, y)
    assert found.converged
    marginal = diagnostics.integrated_parameters(found.posterior)["prior.variance"]
    assert marginal.median.shape == (2,)
    assert marginal.median[0] > marginal.median[1]
    save_module(tmp_path / "a", found.posterior, {})
    same: Any = load_module(tmp_path / "a")[0]
    again = diagnostics.integrated_parameters(same)["prior.variance"]
    np.testing.assert_array_equal(again.upper, marginal.upper)
    held = cavity.LinearModel(weights.Gaussian(np.ones(2)), noise, intercept=False, groups=groups)
    options = chosen(held, lambda m: m.prior.variance, priors.LogNormal(1.0, 1.0))
    result = cavity.fit(held, Z, y, max_iterations=5, **options)
    assert diagnostics.integrated_parameters(result.posterior)["prior.variance"].median.shape == (
        2,
    )


def test_data_and_settings_that_do_not_go_with_it():
    model = gp(8, likelihoods.Gaussian(0.1))
    options = chosen(model, lambda m: m.likelihood.variance, priors.LogNormal(0.1, 1.0))
    with pytest.raises(ValueError, match="rows must be in memory"):
        cavity.fit(model, fitting.Batches([(X, Y)]), **options)
    with pytest.raises(ValueError, match="noise variances of their own"):
        cavity.fit(model, X, Y, rows={"noise_variance": np.full(40, 0.1)}, **options)
    with pytest.raises(ValueError, match="not in a schedule"):
        cavity.fit(model, X, Y, schedule=(options["bijections"],))
    with pytest.raises(ValueError, match="a deviation of 9 on the log scale"):
        Integrated(likelihoods.Gaussian(), {"variance": priors.LogNormal(1.0, 9.0)})
    with pytest.raises(ValueError, match=r"one output, y has 2.*cavity.integrate"):
        cavity.fit(model, X, np.column_stack([Y, Y]), **options)
    with pytest.raises(ValueError, match="for parameters that are held"):
        diagnostics.bracket(gp(8), X, Y)
    found = cavity.infer(gp(8), X[:20], Y[:20])
    with pytest.raises(TypeError, match="some that are integrated out"):
        cavity.update(found, X[20:], Y[20:])


def test_where_sites_do_not_settle_it_is_integrated_about_the_mode():
    model = gp(8, likelihoods.Gaussian(0.1))
    options = chosen(model, lambda m: m.likelihood.variance, priors.LogNormal(0.1, 1.0))
    method = cavity.PowerEP(max_sweeps=1, fallback=False)
    result = cavity.fit(model, X, Y, max_iterations=5, method=method, **options)
    assert "did not settle: instead, a grid of" in result.message
    fitted: Any = result.model
    marginal = diagnostics.integrated_parameters(result.posterior)["likelihood.variance"]
    assert marginal.lower < float(fitted.likelihood.variance) < marginal.upper
    expected = cavity.infer(cavity.GP(fitted.kernel, NOISE_TENTH, fitted.inducing), X, Y)
    assert result.log_evidence == pytest.approx(expected.log_evidence, abs=0.1)


def test_files(tmp_path):
    found = cavity.infer(gp(8), X, Y).posterior
    save_module(tmp_path / "a", found, {})
    same, _ = load_module(tmp_path / "a")
    expected = jax.tree.map(np.asarray, found.predict(X[:3]).var)
    np.testing.assert_array_equal(same.predict(X[:3]).var, expected)
