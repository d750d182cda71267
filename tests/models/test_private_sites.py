"""Deep GPs and latent-variable models with sites of every row on inducing variables."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import empty_sites, energy
from cavity.inference.graph.sites import BlockSites
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.learning.initialisation.latent import with_row_sites
from cavity.learning.objectives.evidence import Objective
from cavity.models.process import TakesGaussianInputs
from tests.models import latent_toy as toy
from tests.models.test_gplvm_sites import factor_analysis
from tests.tolerances import assert_close

PRIVATE = cavity.PowerEP(exact=False)
JITTER, NOISE, HIDDEN = 1e-9, 0.05, 0.02
Z = np.linspace(-1.5, 1.5, 3)[:, None]


def data(rows=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-1.5, 1.5, (rows, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * random.standard_normal(rows)


def deep_model(layers=2, likelihood=None, outputs=1, mean=means.Identity()):
    kernel, points = kernels.RBF(1.2, 0.9), inducing.Points(Z)
    inner = cavity.Layer(kernel, points, mean=mean, noise_variance=HIDDEN)
    last = cavity.Layer(kernels.RBF(1.0, 0.7), inducing.Points(Z), outputs)
    likelihood = likelihoods.Gaussian(NOISE) if likelihood is None else likelihood
    return cavity.DeepGP([inner] * (layers - 1) + [last], likelihood)


def problem_of(model, X, y, power, method=PRIVATE):
    table = prepare(X, y, power=power)
    return table.problem(as_dtype(model, table), method.approximation, JITTER)


def random_sites(problem, rows, outputs=(1, 1), seed=1):
    """Sites of every row that make proper beliefs, of precision zero for padded rows."""
    random = np.random.default_rng(seed)
    store = []
    for count in outputs:
        shift = random.standard_normal((rows, count, len(Z)))
        half = 0.4 * random.standard_normal((rows, count, len(Z), len(Z)))
        precision = half @ np.swapaxes(half, -1, -2)
        more = [(0, len(problem.build.rows.y) - rows)]
        pads = [more + [(0, 0)] * (a.ndim - 1) for a in (shift, precision)]
        padded = [np.pad(a, pad) for a, pad in zip((shift, precision), pads, strict=True)]
        store.append(BlockSites(*map(jnp.asarray, padded)))
    return (tuple(store),)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_one_layer_is_the_sparse_gp(power):
    """Sites of full rank on inducing variables are then those on function values."""
    X, y = data()
    options = {"power": power, "jitter": JITTER}
    gp = cavity.GP(kernels.RBF(1.0, 0.7), likelihoods.Gaussian(NOISE), inducing=inducing.Points(Z))
    expected = cavity.infer(gp, X, y, **options)
    found = cavity.infer(deep_model(layers=1), X, y, method=PRIVATE, **options)
    assert found.converged
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-8)
    ahead = np.linspace(-2.0, 2.0, 5)[:, None]
    for name in ("mean", "var"):
        ours, theirs = (getattr(r.posterior.predict(ahead), name) for r in (found, expected))
        assert_close(ours, theirs, "fixed_point")


def log_partition(precision, shift):
    """Of exp(hᵀv - vᵀPv/2), without the constant that all dimensions share."""
    sign, volume = np.linalg.slogdet(precision)
    assert sign > 0
    return 0.5 * shift @ np.linalg.solve(precision, shift) - 0.5 * volume


def layer_moments(variance, lengthscale, h, mean, cov):
    """Means and variances of a whitened sparse layer at known inputs, in numpy."""

    def k(a, b):
        return variance * np.exp(-0.5 * ((a[:, None] - b[None]) / lengthscale) ** 2)

    points = Z[:, 0]
    L = np.linalg.cholesky(k(points, points) + JITTER * variance * np.eye(len(points)))
    A = np.linalg.solve(L, k(points, h)).T
    rest = variance - np.sum(A**2, axis=1)
    return A @ mean, rest + np.einsum("ni,ij,nj->n", A, cov, A)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.3, 1.0])
def test_the_energy_is_that_of_the_theory(power):
    """S60 written out in numpy, at sites away from a fixed point."""
    X, y = data()
    problem = problem_of(deep_model(), X, y, power)
    sites = random_sites(problem, len(X))
    eye = np.eye(len(Z))
    z, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    shifts = [np.asarray(site.shift)[: len(X), 0] for site in sites[0]]
    precisions = [np.asarray(site.precision)[: len(X), 0] for site in sites[0]]
    posteriors = [(eye + P.sum(0), h.sum(0)) for h, P in zip(shifts, precisions, strict=True)]
    log_evidence = sum(log_partition(*q) for q in posteriors)
    for n in range(len(X)):
        cavities = [
            (P - power * own[n], h - power * h_own[n])
            for (P, h), own, h_own in zip(posteriors, precisions, shifts, strict=True)
        ]
        for cavity_of, q in zip(cavities, posteriors, strict=True):
            log_evidence += (log_partition(*cavity_of) - log_partition(*q)) / power
        first, last = ((np.linalg.solve(P, h), np.linalg.inv(P)) for P, h in cavities)
        mean, var = layer_moments(1.2, 0.9, X[n], *first)
        hidden = X[n] + mean + np.sqrt(var + HIDDEN) * z
        mean, var = layer_moments(1.0, 0.7, hidden, *last)
        spread = var + NOISE / power
        log_terms = -0.5 * np.log(2.0 * np.pi * spread) - 0.5 * (y[n] - mean) ** 2 / spread
        log_terms += 0.5 * (1.0 - power) * np.log(2.0 * np.pi * NOISE) - 0.5 * np.log(power)
        log_evidence += np.log(np.sum(weights * np.exp(log_terms))) / power
    value = eqx.filter_jit(lambda p, s: energy(p.graph(), s))(problem, sites)
    assert_close(value, -log_evidence, "factorised")


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", [None, likelihoods.Bernoulli()])
def test_rows_that_are_all_alike_share_one_site(likelihood):
    """Their sites are then equal: tied sites have the same fixed point."""
    X, y = np.full((4, 1), 0.4), np.full(4, 1.0)
    model = deep_model(likelihood=likelihood, mean=None)
    private = cavity.infer(model, X, y, method=PRIVATE, power=0.5)
    how = cavity.fitting.Nodes(8)
    tied = cavity.infer(model, X, y, method=cavity.TiedPowerEP(propagation=how), power=0.5)
    assert private.converged
    assert private.log_evidence == pytest.approx(tied.log_evidence, rel=1e-5)


def largest_slope(sites):
    """In shifts, and in precisions that stay symmetric."""
    return max(
        max(np.abs(s.shift).max(), np.abs(s.precision + jnp.swapaxes(s.precision, -1, -2)).max())
        for s in sites[0]
    )


@pytest.mark.slow
def test_several_latent_functions_and_several_hidden_ones():
    """With one layer those of the sparse GP; and whatever the order of the rows."""
    X, y = data()
    noisy = likelihoods.HeteroscedasticGaussian()
    gp = cavity.GP((kernels.RBF(1.0, 0.7),) * 2, noisy, inducing.Points(Z))
    layer = cavity.Layer(kernels.RBF(1.0, 0.7), inducing.Points(Z), 2)
    options = {"power": 0.5, "jitter": JITTER}
    expected = cavity.infer(gp, X, y, **options)
    found = cavity.infer(cavity.DeepGP([layer], noisy), X, y, method=PRIVATE, **options)
    assert found.log_evidence == pytest.approx(expected.log_evidence, rel=1e-6)
    inner = cavity.Layer(kernels.RBF(1.2, 0.9), inducing.Points(Z), 2, noise_variance=HIDDEN)
    outer = cavity.Layer(kernels.RBF(1.0, 0.7), inducing.Points(np.hstack([Z, Z[::-1]])))
    wide = cavity.DeepGP([inner, outer], likelihoods.Gaussian(NOISE))
    there, back = (
        cavity.infer(wide, X[::step], y[::step], method=PRIVATE, power=0.5) for step in (1, -1)
    )
    assert there.log_evidence == pytest.approx(back.log_evidence, rel=1e-6)


def test_energies_are_stationary_in_the_sites():
    X, y = data()
    problem = problem_of(deep_model(), X, y, 0.5)
    sites, report = find_fixed_point(problem, PRIVATE.solver)
    assert report.converged
    slopes_at = eqx.filter_jit(jax.grad(lambda s: energy(problem.graph(), s)))
    slopes, elsewhere = slopes_at(sites), slopes_at(random_sites(problem, len(X)))
    assert largest_slope(slopes) < 1e-6 < 1e-2 < largest_slope(elsewhere)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 3])
def test_slopes_at_settled_sites_are_finite_differences(layers):
    """Of outputs in two columns, one of them with a gap."""
    X, y = data()
    Y = np.column_stack([y, y**2])
    Y[2, 1] = np.nan
    table = prepare(X, Y, power=0.5, missing="skip")
    model = as_dtype(deep_model(layers, outputs=2), table)
    objective = Objective(model, table, method=PRIVATE, jitter=1e-8)
    random = np.random.default_rng(2)
    x = objective.first + 0.1 * random.standard_normal(objective.size)
    _, slope = objective(x)
    direction, step = random.standard_normal(objective.size), 1e-4
    ahead, behind = (objective(x + sign * step * direction)[0] for sign in (1.0, -1.0))
    assert slope @ direction == pytest.approx((ahead - behind) / (2.0 * step), rel=1e-5)


@pytest.mark.slow
def test_power_zero_is_the_bound_of_tied_sites():
    X, y = data()
    model = deep_model(mean=None)
    how = cavity.fitting.Nodes(8)
    tied = cavity.infer(model, X, y, method=cavity.TiedPowerEP(propagation=how), power=0.0)
    private = cavity.infer(model, X, y, method=PRIVATE, power=0.0)
    assert private.log_evidence == pytest.approx(tied.log_evidence, abs=1e-3)
    assert private.log_evidence > tied.log_evidence - 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_known_linear_map_is_factor_analysis(power):
    """With outputs of one column at powers above 0, where moments are exact."""
    outputs = 3 if power == 0.0 else 1
    weights, noise = np.array([[0.6, -0.8, 0.3][:outputs]]), 0.5
    Y, bias = toy.outputs()[0][:, :outputs], 0.2 * np.arange(outputs)
    model = toy.model(
        kernel=kernels.RBF(1e-14, 1.0),
        likelihood=likelihoods.Gaussian(noise),
        inducing=inducing.Points(Z),
        mean=means.Linear(weights, bias),
    )
    result = cavity.infer(model, None, Y, method=PRIVATE, power=power)
    assert result.converged
    evidence, mean, var = factor_analysis(weights, bias, Y, noise)
    assert result.log_evidence == pytest.approx(evidence, rel=1e-7)
    np.testing.assert_allclose(result.posterior.latent.mean, mean, atol=1e-6)
    np.testing.assert_allclose(result.posterior.latent.var, np.tile(var, (len(Y), 1)), atol=1e-6)


@pytest.mark.slow
def test_sites_of_a_latent_variable_model_settle_from_another_posterior():
    """At power 0 where its bound is, from the closed form that an optimiser found."""
    Y, _ = toy.outputs()
    closed = cavity.infer(toy.model(), None, Y, method=cavity.PowerEP(), power=0.0)
    process = closed.posterior.functions.layers[0].process
    assert isinstance(process, TakesGaussianInputs)
    ((_, belief),) = process.sparse_functions()
    problem = toy.problem_of(toy.model(), toy.data_of(Y, 0.0), PRIVATE)
    start = with_row_sites(belief, closed.found[0][0], len(Y))
    shapes = jax.tree.map(jnp.shape, empty_sites(problem.graph()))
    assert jax.tree.map(jnp.shape, start) == shapes
    sites, report = find_fixed_point(problem, PRIVATE.solver, start)
    assert report.converged
    value = float(eqx.filter_jit(lambda p, s: energy(p.graph(), s))(problem, sites))
    assert value == pytest.approx(-closed.log_evidence, rel=1e-5)
    assert value <= -closed.log_evidence + 1e-7


REFUSALS = {
    "memory": (
        lambda X, y: cavity.infer(
            cavity.DeepGP(
                [cavity.Layer(kernels.RBF(), inducing.Points(np.linspace(0, 1, 400)[:, None]))],
                likelihoods.Gaussian(),
            ),
            np.tile(X, (20, 1)),
            np.tile(y, 20),
            method=PRIVATE,
        ),
        "give method=cavity.TiedPowerEP\\(\\), by which all rows share one site",
    ),
    "mode": (
        lambda X, y: cavity.infer(deep_model(), X, y, method=cavity.Laplace(exact=False)),
        "cavity.PowerEP\\(exact=False\\) for one of every row",
    ),
    "latent inputs": (
        lambda X, y: cavity.infer(
            cavity.DeepGP(
                [cavity.Layer(kernels.RBF(), inducing.Points(np.zeros((2, 2))))],
                likelihoods.Gaussian(),
                latent_inputs=1,
            ),
            X,
            y,
            method=PRIVATE,
        ),
        "sites of every row are for known inputs",
    ),
    "weights": (
        lambda X, y: cavity.infer(
            toy.model(),
            None,
            toy.outputs()[0],
            rows={"weight": np.arange(1.0, 9.0)},
            method=PRIVATE,
        ),
        "a row that stands for several has one latent input for all of them",
    ),
    "mode of a latent-variable model": (
        lambda X, y: cavity.infer(
            toy.model(), None, toy.outputs()[0], method=cavity.Laplace(exact=False)
        ),
        "cavity.PowerEP\\(exact=False\\) with sites of every row",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_fit_is_refused(name):
    call, message = REFUSALS[name]
    with pytest.raises(ValueError, match=message):
        call(*data())
