"""Draws against closed forms and quadrature. Seeds are fixed; bounds are some standard errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import cavity
from cavity.kernels import RBF
from cavity.learning.data.arrays import prepare
from cavity.learning.mcmc.problem import Moving
from cavity.learning.mcmc.run import problem_of, weak_priors
from cavity.learning.mcmc.targets import Collapsed, WhitenedTarget, basis_of, sites_about_mode
from cavity.learning.methods.mcmc import MCMC
from cavity.likelihoods import Bernoulli, Gaussian, Laplace, MultinomialProbit, Softmax, StudentT
from cavity.parameters import FIXED, bijections
from cavity.parameters.priors import Flat, LogNormal, Normal, flat
from tests.tolerances import assert_close

X = np.array([[0.0], [0.7], [1.5]])
KERNEL = RBF(1.5, 0.9)
QUICK = {"draws": 600, "warmup": 100, "chains": 2, "keep": 300}


def covariance(X, variance=1.5, lengthscale=0.9):
    return variance * np.exp(-0.5 * (X - X.T) ** 2 / lengthscale**2)


def within(actual, expected, sd, ess, errors=4.5):
    """Whether means of draws are so many standard errors from the truth."""
    away = np.abs(np.asarray(actual) - expected) / (np.asarray(sd) / np.sqrt(ess))
    assert np.max(away) < errors, away


def by_quadrature(log_prob, K, count):
    """Log evidence, means and deviations of f (N, L), on a grid of the whitened functions.

    Args:
        log_prob: of f with axes (L, N) before those of the grid.
        K: prior covariance of each function.
        count: number of functions.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(24 if count * len(K) > 3 else 60)
    axes = count * len(K)
    z = np.stack(np.meshgrid(*(nodes,) * axes, indexing="ij")).reshape(count, len(K), -1)
    w = np.log(np.stack(np.meshgrid(*(weights,) * axes, indexing="ij")).reshape(axes, -1))
    f = np.einsum("ij,ljs->lis", np.linalg.cholesky(K), z)
    value = w.sum(axis=0) - 0.5 * axes * np.log(2 * np.pi) + np.asarray(log_prob(f))
    top = np.logaddexp.reduce(value)
    share = np.exp(value - top)
    mean = f @ share
    return top, mean.T, np.sqrt((f**2) @ share - mean**2).T


def log_likelihood(likelihood, y):
    def log_prob(f):
        values = f if likelihood.latents > 1 else f[0]
        return jnp.sum(likelihood.log_prob(jnp.asarray(values), y[:, None]), axis=0)

    return log_prob


def summary(result):
    f = result.chains.latents.reshape(-1, *result.chains.latents.shape[2:])
    return f.mean(axis=0), f.std(axis=0)


def test_gaussian_noise_at_fixed_parameters_is_exact():
    model, y = cavity.GP(KERNEL, Gaussian(0.2)), np.array([0.1, -0.5, 1.0])
    drawn, exact = (cavity.infer(model, X, y, method=m) for m in (MCMC(), cavity.PowerEP()))
    assert drawn.log_evidence == exact.log_evidence
    assert drawn.chains is None


@pytest.mark.slow
def test_functions_with_gaussian_noise():
    """Draws of the function have the exact posterior's moments, and predictions are its own."""
    model, y = cavity.GP(KERNEL, Gaussian(0.2)), np.array([0.1, -0.5, 1.0])
    exact = cavity.infer(model, X, y).posterior
    result = cavity.fit(model, X, y, method=MCMC(**QUICK), max_iterations=0)
    mean, var = exact.marginals(X)
    found, sd = summary(result)
    within(found, np.asarray(mean), np.sqrt(var), 1200)
    np.testing.assert_allclose(sd, np.sqrt(var), rtol=0.1)
    new = np.linspace(-1.0, 3.0, 5)[:, None]
    for a, b in zip(result.posterior.joint(new), exact.joint(new), strict=True):
        assert_close(np.asarray(a), np.asarray(b), "fixed_point")
    out, truth = result.posterior.predict(new), exact.predict(new)
    assert_close(np.asarray(out.quantile(0.3)), np.asarray(truth.quantile(0.3)), "fixed_point")
    assert result.log_evidence is None
    assert result.objective is None


@pytest.mark.slow
def test_parameters_against_quadrature():
    """NUTS of a lengthscale and a noise variance, with priors and the Jacobian accounted for."""
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0.0, 4.0, (12, 1))
    y = np.sin(2.0 * inputs[:, 0]) + 0.3 * rng.standard_normal(12)
    model = cavity.GP(RBF(1.0, 0.7), Gaussian(0.1))
    maps = eqx.tree_at(lambda m: m.kernel.variance, bijections(model), FIXED)
    priors = eqx.tree_at(lambda m: m.likelihood.variance, flat(model), LogNormal(0.1, 0.5))
    priors = eqx.tree_at(lambda m: m.kernel.lengthscale, priors, Normal(0.7, 0.3))
    found = cavity.fit(model, inputs, y, method=MCMC(**QUICK), bijections=maps, priors=priors)
    lengths, noises = np.linspace(0.05, 2.0, 60), np.geomspace(0.01, 1.0, 60)
    value = np.array(
        [
            [
                stats.multivariate_normal.logpdf(
                    y, cov=covariance(inputs, 1.0, length) + noise * np.eye(12)
                )
                + stats.norm.logpdf(length, 0.7, 0.3)
                + stats.norm.logpdf(np.log(noise), np.log(0.1), 0.5)
                for noise in noises
            ]
            for length in lengths
        ]
    )
    share = np.exp(value - value.max())
    share /= share.sum()
    draws, ess = found.chains.parameters, found.chains.ess
    for name, grid, weight in (
        ("kernel.lengthscale", lengths, share.sum(axis=1)),
        ("likelihood.variance", np.log(noises), share.sum(axis=0)),
    ):
        values = draws[name] if name.startswith("kernel") else np.log(draws[name])
        mean = weight @ grid
        sd = np.sqrt(weight @ (grid - mean) ** 2)
        within(values.mean(), mean, sd, ess[name])
        np.testing.assert_allclose(values.std(), sd, rtol=0.2)
    assert found.chains.converged
    assert "normal(0.7, 0.3)" in str(found)


Y = {
    "real": np.array([0.3, -1.9, 0.8]),
    "binary": np.array([1.0, 0.0, 1.0]),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("likelihood", "y", "rows"),
    [
        (StudentT(0.3, 3.0), Y["real"], 2),
        (Laplace(0.4), Y["real"], 2),
        (Bernoulli(), Y["binary"], 3),
        (Softmax(2), Y["binary"], 2),
        pytest.param(MultinomialProbit(2), Y["binary"], 2, marks=pytest.mark.slow),
    ],
    ids=lambda v: type(v).__name__ if hasattr(v, "support") else "",
)
def test_functions_and_evidence_against_quadrature(likelihood, y, rows):
    inputs, y = X[:rows], y[:rows]
    method = MCMC(**QUICK, temperatures=8)
    result = cavity.infer(cavity.GP(KERNEL, likelihood), inputs, y, method=method)
    evidence, mean, sd = by_quadrature(
        log_likelihood(likelihood, y), covariance(inputs), likelihood.latents
    )
    shape = result.chains.latents.shape[2:]
    found, spread = summary(result)
    within(found, mean.reshape(shape), sd.reshape(shape), result.chains.ess["f"])
    np.testing.assert_allclose(spread, sd.reshape(shape), rtol=0.2)
    # two chains give but a rough idea of the error
    assert abs(result.log_evidence - evidence) < 0.05 + 5 * result.chains.log_evidence_error
    assert result.left_out is None
    with pytest.raises(ValueError, match="draws have none"):
        result.leave_one_out()


def test_scale_mixture_against_the_density_itself():
    """Gibbs over variances per row and slices under Student-t noise: the same posterior."""
    inputs, y = X[:2], Y["real"][:2]
    model = cavity.GP(KERNEL, StudentT(0.3, 3.0))
    data = prepare(inputs, y)
    maps = jax.tree.map(lambda _: FIXED, model)
    problem = problem_of(model, data, Moving(maps, flat(model), 1e-8))
    precision, shift = jnp.zeros((2, 1, 2))
    target = WhitenedTarget(problem, precision, shift, True)
    move = target.moves()[1].move

    def one(state, key):
        state = move(key, state)
        return state, state["f"][0]

    @jax.jit
    def draws():
        state = target.start(jax.random.key(0), jnp.zeros(0))
        return jax.lax.scan(one, state, jax.random.split(jax.random.key(1), 1500))[1]

    _, mean, sd = by_quadrature(log_likelihood(model.likelihood, y), covariance(inputs), 1)
    within(np.asarray(draws()).mean(axis=0), mean[:, 0], sd[:, 0], 500)


def test_coordinates_change_nothing(rng):
    """The density of parameters and functions is the same in coordinates about any sites."""
    model = cavity.GP(KERNEL, Bernoulli())
    data = prepare(X, Y["binary"])
    problem = problem_of(model, data, Moving(bijections(model), flat(model), 1e-8))
    z = jnp.asarray(rng.standard_normal((1, 3)))
    found = []
    for precision, shift in (np.zeros((2, 1, 3)), sites_about_mode(problem)):
        target = WhitenedTarget(problem, jnp.asarray(precision), jnp.asarray(shift), True)
        basis = basis_of(*problem.priors(model), target.precision, target.shift)
        f = basis(jnp.zeros((1, 3))) if not found else f
        # z that gives the same f, and log |df/dz|
        inner, root = np.asarray(basis.inner[0]), np.asarray(basis.root[0])
        z = inner.T @ np.linalg.solve(root, np.asarray(f - basis.mean)[0]) - basis.offset[0]
        scale = np.linalg.slogdet(root)[1] - np.linalg.slogdet(inner)[1]
        state = {"x": jnp.zeros(2), "z": z[None], "f": f}
        found.append(float(target.log_density(state)) - scale)
    assert_close(found[1], found[0], "factorised")


def test_marginal_and_function_with_noise(rng):
    """The log marginal is the dense one."""
    model = cavity.GP(KERNEL, Gaussian(0.2))
    y = rng.standard_normal(3)
    moving = Moving(bijections(model), flat(model), 1e-8)
    problem = problem_of(model, prepare(X, y), moving)
    target = Collapsed(problem)
    found = target.log_density({"x": jnp.zeros(3), "f": jnp.zeros((1, 3))})
    jacobian = np.log(1.5) + np.log(0.9) + np.log(0.2)
    cov = covariance(X) + (0.2 + 1.5e-8) * np.eye(3)
    assert_close(float(found), stats.multivariate_normal.logpdf(y, cov=cov) + jacobian)


@pytest.mark.slow
def test_missing_outputs_and_known_noise():
    """Rows without an output are left out; known noise is used."""
    y = np.array([0.1, np.nan, 1.0])
    rows = {"noise_variance": np.array([0.1, 0.2, 0.3])}
    model = cavity.GP(KERNEL, Gaussian(0.2))
    setting = {"rows": rows, "missing": "skip"}
    exact = cavity.infer(model, X, y, **setting).posterior
    found = cavity.fit(model, X, y, method=MCMC(**QUICK), max_iterations=0, **setting).posterior
    for a, b in zip(found.marginals(X), exact.marginals(X), strict=True):
        assert_close(np.asarray(a), np.asarray(b), "fixed_point")


def test_weak_priors():
    model = cavity.GP(RBF(2.0, [1.0, 3.0]), Gaussian(0.1), mean=cavity.means.Constant(1.0))
    data = prepare(np.random.default_rng(0).standard_normal((9, 2)), np.arange(9.0))
    maps = eqx.tree_at(lambda m: m.likelihood.variance, bijections(model), FIXED)
    given = eqx.tree_at(lambda m: m.kernel.variance, flat(model), LogNormal(1.0, 0.1))
    found = weak_priors(model, maps, given, data)
    assert found.kernel.variance == LogNormal(1.0, 0.1)
    assert found.kernel.lengthscale == LogNormal((1.0, 3.0), 2.0)
    assert found.likelihood.variance == Flat()
    assert found.mean.value.mean == 1.0
    assert found.mean.value.std == pytest.approx(10 * np.std(np.arange(9.0)))


def test_refusals(monkeypatch):
    y = Y["real"]
    model = cavity.GP(KERNEL, StudentT())
    sparse = cavity.GP(KERNEL, StudentT(), cavity.inducing.Points(X))
    with pytest.raises(ValueError, match="for the full GP"):
        cavity.infer(sparse, X, y, method=MCMC())
    with pytest.raises(ValueError, match="one output, y has 2"):
        cavity.infer(model, X, np.column_stack([y, y]), method=MCMC())
    with pytest.raises(ValueError, match="at fixed parameters"):
        cavity.fit(model, X, y, method=MCMC(temperatures=8))
    with pytest.raises(ValueError, match="leave schedule"):
        cavity.fit(model, X, y, method=MCMC(), schedule=[bijections(model)])
    with pytest.raises(ValueError, match="the structure of the model"):
        cavity.fit(model, X, y, method=MCMC(), priors=flat(cavity.GP(KERNEL, Gaussian())))
    with pytest.raises(ValueError, match="has no sites"):
        cavity.diagnostics.improve_marginals(model, X, y, X, method=MCMC())
    with pytest.raises(TypeError, match="64-bit"):
        cavity.infer(model, X.astype("f4"), y.astype("f4"), method=MCMC())
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"pip install \"cavity\[mcmc\]\""):
        cavity.infer(model, X, y, method=MCMC())


@pytest.mark.parametrize(
    "setting",
    [
        {"draws": 5},
        {"chains": 0},
        {"keep": 10_000},
        {"acceptance": 1.0},
        {"temperatures": 7},
        {"seed": 2**63},
    ],
    ids=str,
)
def test_impossible_settings(setting):
    with pytest.raises(ValueError, match="given"):
        MCMC(**setting)


def test_interrupts():
    """What was drawn so far is kept, once it is enough."""
    model = cavity.GP(KERNEL, Gaussian(0.2))
    seen = []

    def callback(progress):
        seen.append(progress)
        if progress.iteration >= 500:
            raise KeyboardInterrupt

    setting = {"method": MCMC(**QUICK), "max_iterations": 0}
    found = cavity.fit(model, X, Y["real"], callback=callback, **setting)
    assert found.interrupted
    assert not found.converged
    assert found.chains.latents.shape[1] < 600
    assert seen[0].max_iterations == 700

    def at_once(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="has 0 after its warm-up, 150 are needed"):
        cavity.fit(model, X, Y["real"], callback=at_once, **setting)


@pytest.mark.slow
def test_steps_without_warm_up_are_short():
    """The average that draws are made with starts at the first step, not at one."""
    setting = MCMC(draws=60, warmup=0, chains=1, keep=20)
    found = cavity.fit(cavity.GP(KERNEL, Gaussian(0.2)), X, Y["real"], method=setting)
    assert np.mean(found.chains.stats["acceptance_rate"]) > 0.1
