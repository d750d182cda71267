"""Networks: Jylanki (2013), identities 51 to 60, and what the energy promises."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

import cavity
from cavity import initialisation, likelihoods, weights
from cavity.inference.energy import energy
from cavity.inference.graph.marginals import Latent
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import NetworkTerm, output_moments, unit_moments
from cavity.inference.weights.beliefs import DenseWeights
from cavity.inference.weights.views import Design
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import checked_start
from cavity.models.linear.process import LinearProcess
from cavity.models.network.process import NetworkProcess
from tests.tolerances import assert_close

NOISE = likelihoods.Gaussian(0.05)


def table(rows=40, columns=3, *, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (rows, columns))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(rows)
    return X, y


@pytest.fixture(scope="module")
def settled():
    """A network with erf units, and its settled sites."""
    X, y = table()
    model = cavity.Network(2, weights.Gaussian(np.full(3, 0.5)), "erf", NOISE)
    start = initialisation.network_at_mode(model, X, y)
    return start, cavity.infer(start, X, y, power=1.0), X, y


# ---- identities 51 and 58: moments of activations


@pytest.mark.parametrize(("m", "v"), [(0.0, 0.7), (0.8, 1e-6), (-1.5, 4.0), (3.0, 30.0)])
def test_erf_moments_are_those_by_owens_t(m, v):
    """Identity 51."""
    g = activation_of("erf")
    a = m / np.sqrt(1.0 + v)
    square = special.ndtr(a) - 2.0 * special.owens_t(a, 1.0 / np.sqrt(1.0 + 2.0 * v))
    mean = 2.0 * special.ndtr(a) - 1.0
    expected = 4.0 * square - 4.0 * special.ndtr(a) + 1.0 - mean**2
    found: Any = g
    at = jnp.asarray([m]), jnp.asarray([v])
    assert abs(float(found.mean(*at)[0]) - mean) < 1e-12
    assert abs(float(found.variance(*at)[0]) - expected) < 1e-12
    if m == 0.0:
        assert abs(expected - 2.0 / np.pi * np.arcsin(v / (1.0 + v))) < 1e-12


@pytest.mark.parametrize("name", ["erf", "tanh", "identity"])
def test_moments_of_activations_are_integrals(name):
    g = activation_of(name)
    m, v, c = (0.4, -0.9), (0.6, 1.3), 0.5

    def density(x):
        return stats.norm.pdf(x, m[0], np.sqrt(v[0]))

    def value(x):
        return {"erf": special.erf(x / np.sqrt(2)), "tanh": np.tanh(x), "identity": x}[name]

    mean = integrate.quad(lambda x: density(x) * value(x), -9, 9)[0]
    var = integrate.quad(lambda x: density(x) * (value(x) - mean) ** 2, -9, 9)[0]
    at = jnp.asarray([m[0]]), jnp.asarray([v[0]])
    np.testing.assert_allclose(g.mean(*at)[0], mean, rtol=1e-8)
    np.testing.assert_allclose(g.variance(*at)[0], var, rtol=1e-7)
    # of two inputs: a grid in two dimensions
    x, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    root = np.linalg.cholesky(np.array([[v[0], c], [c, v[1]]]))
    first = m[0] + root[0, 0] * x[:, None] + 0.0 * x[None]
    second = m[1] + root[1, 0] * x[:, None] + root[1, 1] * x[None]
    both = w @ (value(first) * value(second)) @ w
    expected = both - (w @ value(first) @ w) * (w @ value(second) @ w)
    pairs = [tuple(jnp.asarray([u]) for u in pair) for pair in (m, v)]
    found = g.covariance(*pairs, jnp.asarray([c]))  # type: ignore[arg-type]
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


def test_output_moments_are_those_of_draws():
    """S99 by Monte Carlo, with output weights that depend on each other."""
    rng = np.random.default_rng(0)
    m, V = np.array([0.3, -1.0]), np.array([0.5, 2.0])
    mean = np.array([1.0, -0.5, 0.2])
    A = rng.standard_normal((3, 3)) * 0.4
    cov = A @ A.T
    units = unit_moments(activation_of("erf"), jnp.asarray(m)[None], jnp.asarray(V)[None])
    found = output_moments(units, jnp.asarray(mean)[None, None], jnp.asarray(cov)[None, None])
    draws = 400_000
    h = m + np.sqrt(V) * rng.standard_normal((draws, 2))
    g = np.column_stack([special.erf(h / np.sqrt(2)) / np.sqrt(2), np.ones(draws)])
    f = np.sum(g * rng.multivariate_normal(mean, cov, draws), axis=1)
    assert abs(float(found[0][0, 0]) - f.mean()) < 5.0 * f.std() / np.sqrt(draws)
    assert abs(float(found[1][0, 0]) - f.var()) < 0.01 * f.var()


@pytest.mark.slow
def test_prior_covariance_is_the_neural_network_kernel():
    """Identity 58, which holds for any number of units."""
    X = np.random.default_rng(1).standard_normal((4, 2))
    spread, units = np.array([0.7, 1.3, 0.4]), 5

    def prior(variances, outputs):
        size = len(variances)
        root = jnp.diag(jnp.sqrt(jnp.asarray(variances)))[None]
        none = jnp.zeros((size, outputs))
        return DenseWeights(none.T, root, jnp.zeros(()), ScalarSites(none, none))

    hidden = LinearProcess(prior(spread, units), Design(None, None, True))
    output = prior(np.append(np.full(units, 2.0), 0.3), 1)
    process = NetworkProcess(hidden, "erf", output, None, None)
    ones = np.column_stack([X, np.ones(4)])
    S = ones @ np.diag(spread) @ ones.T
    d = 1.0 + np.diag(S)
    expected = 0.3 + 2.0 * 2.0 / np.pi * np.arcsin(S / np.sqrt(d[:, None] * d[None]))
    np.testing.assert_allclose(process.covariance(jnp.asarray(X))[0], expected, rtol=1e-9)
    np.testing.assert_allclose(process.moments(jnp.asarray(X))[1][:, 0], np.diag(expected))


# ---- identities 52 to 54: sites


def latents(rng, rows=3, units=2, spread=1.0):
    hidden = Latent(
        jnp.asarray(rng.standard_normal((rows, units))),
        spread * jnp.asarray(rng.uniform(0.3, 1.5, (rows, units))),
        jnp.zeros((rows, units)),
    )
    A = rng.standard_normal((rows, 1, units + 1, units + 1))
    shape = (rows, 1, units + 1)
    output = Latent(
        jnp.asarray(rng.standard_normal(shape)),
        jnp.asarray(0.3 * A @ np.swapaxes(A, -1, -2)),
        jnp.zeros((*shape, units + 1)),
    )
    y = jnp.asarray(rng.standard_normal((rows, 1)))
    return (hidden, output), Rows(y, y, jnp.ones_like(y))


@pytest.mark.parametrize("power", [0.4, 1.0])
def test_sites_follow_from_one_power_mean(power):
    """Slopes in means and covariances by differences, and log M by its formula."""
    seen, rows = latents(np.random.default_rng(2))
    term = NetworkTerm(NOISE, activation_of("erf"))
    found = term.derivatives(seen, rows, power)

    def value(hidden, output):
        edges = (seen[0]._replace(mean=hidden[0], var=hidden[1]),)
        edges = (*edges, seen[1]._replace(mean=output[0], var=output[1]))
        return term.log_mean(edges, rows, power)

    value = jax.jit(value)
    at = [(np.array(e.mean), np.array(e.var)) for e in seen]
    m, v = (np.array(x)[:, 0] for x in term.moments(seen))
    y, s = np.array(rows.y)[:, 0], 0.05
    # a Gaussian to a power is a Gaussian of variance s / a, times a constant
    scale = 0.5 * (1.0 - power) * np.log(2.0 * np.pi * s) - 0.5 * np.log(power)
    each = (scale + stats.norm.logpdf(y, m, np.sqrt(v + s / power))) / power
    np.testing.assert_allclose(value(*at)[:, 0], each, rtol=1e-9)

    def slope(edge, part, index, step=1e-5):
        ends = []
        for sign in (1.0, -1.0):
            moved = [tuple(x.copy() for x in pair) for pair in at]
            moved[edge][part][(slice(None), *index)] += sign * step
            if edge == 1 and part == 1 and index[1] != index[2]:
                moved[edge][part][:, 0, index[2], index[1]] += sign * step
            ends.append(np.array(value(*moved))[:, 0])
        return (ends[0] - ends[1]) / (2.0 * step)

    for k in range(2):
        G, by_var = slope(0, 0, (k,)), slope(0, 1, (k,))
        np.testing.assert_allclose(found[0].slope[:, k], G, rtol=1e-5, atol=1e-6)
        H = 2.0 * by_var - power * G**2
        np.testing.assert_allclose(found[0].curvature[:, k], H, rtol=1e-5, atol=1e-5)
    G = np.stack([slope(1, 0, (0, k)) for k in range(3)], axis=1)
    np.testing.assert_allclose(found[1].slope[:, 0], G, rtol=1e-5, atol=1e-6)
    for i, j in ((0, 0), (0, 1), (1, 2), (2, 2)):
        by_var = slope(1, 1, (0, i, j))  # of both entries where they differ
        H = (2.0 if i == j else 1.0) * by_var - power * G[:, i] * G[:, j]
        np.testing.assert_allclose(found[1].curvature[:, 0, i, j], H, rtol=1e-5, atol=1e-5)


def test_sites_of_output_weights_are_of_rank_one_where_units_are_known():
    """Identity 52: along the mean of the units."""
    seen, rows = latents(np.random.default_rng(3), spread=1e-12)
    term = NetworkTerm(NOISE, activation_of("erf"))
    found = term.derivatives(seen, rows, 1.0)[1]
    g = np.array(unit_moments(term.activation, seen[0].mean, seen[0].var).mean)
    for row in range(3):
        H = np.array(found.curvature[row, 0])
        along = np.outer(g[row], g[row])
        np.testing.assert_allclose(H, along * H[2, 2] / along[2, 2], atol=1e-7)
        slope = np.array(found.slope[row, 0])
        np.testing.assert_allclose(slope, g[row] * slope[2], atol=1e-7)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("prior", [weights.Gaussian(0.5), weights.Laplace(0.4)])
@pytest.mark.parametrize("rows", [40, 3])
def test_one_straight_unit_is_the_linear_model(prior, rows):
    """Identities 53 and 54: the output weight known, by sweeps where the other is exact."""
    X, y = table(rows, 4)
    linear = cavity.LinearModel(prior, NOISE, intercept=1.0)
    expected = cavity.infer(linear, X, y, power=1.0)
    model = cavity.Network(1, prior, "identity", NOISE, output_weights=[1.0, 0.0])
    found = cavity.infer(model, X, y, power=1.0)
    assert found.converged
    assert abs(found.log_evidence - expected.log_evidence) < 1e-7
    new = np.random.default_rng(1).standard_normal((5, 4))
    for one, other in zip(found.posterior.joint(new), expected.posterior.joint(new), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)
    left_out: Any = [result.left_out for result in (found, expected)]
    np.testing.assert_allclose(left_out[0].densities, left_out[1].densities, atol=1e-6)


# ---- the energy


@pytest.mark.slow
def test_energy_is_stationary_in_all_sites(settled):
    start, result, X, y = settled
    assert result.converged
    data = prepare(X, y, power=1.0)
    model, _, jitter = checked_start(start, data, 0.0)
    graph = data.problem(model, cavity.PowerEP().approximation, jitter).graph()

    def value(sites):
        return energy(graph, sites)

    (hidden, output), *_ = jax.jit(jax.grad(value))(result.found)
    slopes = jax.tree.leaves((hidden, output))
    assert all(float(jnp.max(jnp.abs(x))) < 1e-6 for x in slopes)


@pytest.mark.slow
def test_gradients_are_differences_of_settled_energies(settled):
    start, result, X, y = settled
    data = prepare(X, y, power=1.0)
    model, _, jitter = checked_start(start, data, 0.0)
    approximation = cavity.PowerEP().approximation

    def value(model):
        graph = data.problem(model, approximation, jitter).graph()
        return energy(graph, result.found, settled=True)

    slopes = eqx.filter_grad(value)(model)
    places = (
        lambda m: m.likelihood.variance,
        lambda m: m.output.variance,
        lambda m: m.prior.variance,
    )
    for where in places:
        step = np.zeros(np.shape(where(model)))
        step.flat[0] = 1e-3 * float(np.ravel(where(model))[0])
        ends = [
            cavity.infer(eqx.tree_at(where, start, where(model) + s), X, y, power=1.0).log_evidence
            for s in (step, -step)
        ]
        slope = -(ends[0] - ends[1]) / (2.0 * np.max(step))
        np.testing.assert_allclose(np.ravel(where(slopes))[0], slope, rtol=1e-4, atol=1e-5)


def test_order_and_signs_of_units_change_nothing(settled):
    """Identities 56 and 57."""
    start, result, X, y = settled
    W, v = np.array(start.start.hidden), np.array(start.start.output)
    order, sign = np.array([1, 0]), np.array([1.0, -1.0])
    turned = initialisation.NetworkStart(
        W[:, order] * sign, np.append(v[:-1][order] * sign, v[-1])
    )
    other = cavity.infer(dataclasses.replace(start, start=turned), X, y, power=1.0)
    assert abs(other.log_evidence - result.log_evidence) < 1e-6
    for one, two in zip(other.posterior.marginals(X), result.posterior.marginals(X), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.slow
def test_units_that_are_alike_stay_alike(settled):
    """Identity 57; a start of such units is broken up, with a notice."""
    start, _, X, y = settled
    same = initialisation.NetworkStart(np.array(start.start.hidden), np.array(start.start.output))
    alike = np.repeat(np.array(same.hidden)[:, :1], 2, axis=1)
    output = np.append(np.full(2, float(same.output[0])), 0.0)
    held = eqx.tree_at(lambda s: (s.hidden, s.output), same, (jnp.asarray(alike), output))
    method = cavity.PowerEP(step=0.5, max_sweeps=4)
    swept: Any = cavity.infer(
        dataclasses.replace(start, start=held), X, y, power=1.0, method=method
    )
    means = np.array(swept.posterior.process.hidden.weights()[0])
    np.testing.assert_allclose(means[:, 1], means[:, 0], atol=1e-9)
    assert not swept.converged
    with pytest.warns(UserWarning, match="alike"):
        apart = initialisation.NetworkStart(alike, output)
    assert np.ptp(np.array(apart.hidden), axis=1).max() > 1e-3


def test_a_network_learns_what_is_not_linear(settled):
    """The smoke test of Jylanki (2013), made small: better than a linear model, and certain."""
    _, result, X, y = settled
    new = np.random.default_rng(5).uniform(-2.0, 2.0, (200, 3))
    f = np.sin(1.5 * new[:, 0]) + 0.5 * new[:, 1]
    mean, var = result.posterior.marginals(new)
    assert np.sqrt(np.mean((mean - f) ** 2)) < 0.3
    ones = np.column_stack([X, np.ones(len(X))])
    line = np.column_stack([new, np.ones(200)]) @ np.linalg.lstsq(ones, y, rcond=None)[0]
    assert np.mean((mean - f) ** 2) < 0.5 * np.mean((line - f) ** 2)
    cov = np.asarray(result.posterior.joint(new[[0, 0, 1]]).cov)  # equal rows have one value
    assert_close(cov[[0, 0, 1, 2], [0, 1, 1, 2]], np.asarray(var)[[0, 0, 0, 1]], "factorised")


@pytest.mark.slow
def test_a_linear_part_and_sparse_priors():
    X, y = table()
    model = cavity.Network(2, weights.Laplace(0.5), "tanh", NOISE, linear=True)
    start = initialisation.network_at_mode(model, X, y)
    result = cavity.infer(start, X, y, power=0.5)
    assert result.converged
    plain = cavity.infer(cavity.LinearModel(weights.Laplace(0.5), NOISE), X, y, power=0.5)
    assert result.log_evidence > plain.log_evidence


@pytest.mark.slow
def test_labels():
    X, y = table()
    labels = (y > 0.0).astype(float)
    model = cavity.Network(2, weights.Gaussian(0.5), "erf", likelihoods.Bernoulli())
    result = cavity.fit(
        initialisation.network_at_mode(model, X, labels), X, labels, power=1.0, max_iterations=3
    )
    assert result.converged or "iterations" in result.message
    p = result.posterior.predict(X).log_density(jnp.asarray(labels))
    assert np.mean(np.array(p)) > np.log(0.5)


# ---- bad input


def test_refusals():
    X, y = table(10)
    prior = weights.Gaussian(0.5)
    for hidden in (0, -1, True):
        with pytest.raises(ValueError, match="hidden must be a number of units"):
            cavity.Network(hidden, prior, "erf", NOISE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="activation must be one of"):
        cavity.Network(2, prior, "step", NOISE)
    with pytest.raises(TypeError, match="Network"):
        cavity.Network(2, NOISE, "erf", NOISE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Network"):
        cavity.Network(2, prior, "erf", prior)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one latent function"):
        cavity.Network(2, prior, "erf", likelihoods.Softmax(3))
    with pytest.raises(ValueError, match="positive"):
        cavity.Network(2, prior, "erf", NOISE, bias=0.0)
    with pytest.raises(ValueError, match="output_weights"):
        cavity.Network(2, prior, "erf", NOISE, output_weights=[1.0])
    model = cavity.Network(2, prior, "erf", NOISE)
    with pytest.raises(ValueError, match="one output"):
        cavity.infer(model, X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="PowerEP"):
        cavity.infer(model, X, y, method=cavity.Laplace())
    wide = cavity.Network(2, weights.Gaussian(np.ones(5)), "erf", NOISE)
    with pytest.raises(ValueError, match="5 values"):
        cavity.infer(wide, X, y)
    start = initialisation.NetworkStart(np.eye(3, 2), np.ones(3))
    with pytest.raises(ValueError, match="start must have"):
        cavity.infer(cavity.Network(2, prior, "erf", NOISE, start=start), X, y)


@pytest.mark.slow
def test_output_weights_that_are_not_negative():
    """Jylanki S96: the modes in which a unit changes its sign are gone."""
    X, y = table()
    prior, output = weights.Gaussian(np.full(3, 0.5)), weights.HalfStudentT(1.0, 4.0)
    model = cavity.Network(2, prior, "erf", NOISE, output=output)
    start = initialisation.network_at_mode(model, X, y)
    assert start.start is not None
    assert np.all(np.asarray(start.start.output)[:-1] >= 0.0)
    found = cavity.infer(start, X, y, power=1.0)
    assert found.converged
    mean, cov = found.posterior.process.output_belief()
    assert np.all(np.asarray(mean)[:-1] > np.sqrt(np.diagonal(cov))[:-1])
    away = np.asarray(found.posterior.marginals(X).mean) - y
    assert np.sqrt(np.mean(away**2)) < 0.3
