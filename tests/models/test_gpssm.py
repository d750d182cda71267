"""State-space models: linear dynamics, known evidences, and bounds written out apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.energy import beliefs, energy
from cavity.inference.variables.chain import ChainMoments, Links
from cavity.inference.variables.chain_sites import moments_of, sites_of
from cavity.inference.variables.inputs import InputMoments
from cavity.learning.data.arrays import prepare
from tests.oracle import kalman

A = np.array([[0.9, 0.2], [-0.3, 0.8]])
Q = np.array([0.1, 0.2])
SERIES = np.repeat([0, 1, 2], [13, 1, 6])


def layer(states, controls=0, mean=None, noise=Q, kernel=None, M=4):
    Z = np.random.default_rng(3).normal(size=(M, states + controls))
    kernel = cavity.kernels.RBF(variance=1e-12) if kernel is None else kernel
    points = cavity.inducing.Points(Z)
    more = {"noise_variance": noise, "skip_connection": controls > 0}
    return cavity.Layer(kernel, points, states, mean, **more)


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    y, c = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    y[3], y[7, 1], y[19] = np.nan, np.nan, np.nan
    B, C, R = rng.normal(size=(1, 2)), rng.normal(size=(2, 3)), np.array([0.1, 0.2, 0.3])
    m0, v0, d = np.array([0.3, -0.2]), np.array([0.5, 1.0]), np.array([0.1, -0.1, 0.0])
    model = cavity.GPSSM(
        layer(2, 1, cavity.means.Linear(np.vstack([A, B]), [0.2, 0.1])),
        cavity.likelihoods.Gaussian(R),
        cavity.means.Linear(C, d),
        initial_mean=m0,
        initial_variance=v0,
    )
    smooth = kalman.smooth(
        kalman.LinearModel(A.T, Q, C.T, R, m0, v0, b=np.array([0.2, 0.1]), d=d, B=B.T),
        y,
        np.concatenate([[0.0], SERIES[1:] == SERIES[:-1]]),
        c,
    )
    return model, c, y, smooth


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_known_linear_dynamics_are_the_kalman_smoother(linear, power):
    """Identities 33 of bui.md and T70 of vanderwilk.md."""
    model, c, y, smooth = linear
    result = cavity.infer(model, c, y, power=power, rows={"series": SERIES}, missing="skip")
    states = result.posterior.states
    assert result.converged
    np.testing.assert_allclose(result.log_evidence, smooth.log_evidence, atol=1e-9)
    np.testing.assert_allclose(states.mean, smooth.mean, atol=1e-9)
    np.testing.assert_allclose(states.cov, smooth.cov, atol=1e-9)
    linked = np.flatnonzero(SERIES[1:] == SERIES[:-1]) + 1
    np.testing.assert_allclose(states.cross[linked], smooth.cross[linked], atol=1e-9)


def test_states_that_nothing_observes_change_nothing(linear):
    """T69 of vanderwilk.md: rows without outputs after a series leave evidence and states."""
    model, c, y, smooth = linear
    more = np.vstack([y, np.full((3, y.shape[1]), np.nan)]), np.vstack([c, np.ones((3, 1))])
    labels = np.append(SERIES, SERIES[-1:].repeat(3))
    result = cavity.infer(
        model, more[1], more[0], power=0.0, rows={"series": labels}, missing="skip"
    )
    np.testing.assert_allclose(result.log_evidence, smooth.log_evidence, atol=1e-9)
    np.testing.assert_allclose(result.posterior.states.mean[: len(y)], smooth.mean, atol=1e-9)


@pytest.mark.slow
def test_factorised_states_are_worse_and_have_no_covariances(linear):
    model, c, y, smooth = linear
    method = cavity.PowerEP(hidden="factorised")
    result = cavity.infer(
        model, c, y, power=0.0, rows={"series": SERIES}, missing="skip", method=method
    )
    assert result.log_evidence < smooth.log_evidence - 0.01
    assert np.all(result.posterior.states.cross == 0.0)
    np.testing.assert_allclose(result.posterior.states.mean, smooth.mean, atol=1e-3)


def line_model(noise=0.3):
    kernel = cavity.kernels.Linear(variance=0.8)
    transition = cavity.Layer(kernel, cavity.inducing.Points([[1.0]]), 1, noise_variance=noise)
    return cavity.GPSSM(transition, cavity.likelihoods.Gaussian(0.2))


@pytest.mark.slow
def test_bounds_stay_below_the_evidence_of_a_random_slope():
    """Identities 37 of bui.md and T69 of vanderwilk.md, of f(x) = a x: the evidence is a
    quadrature over a."""
    y = np.array([[0.5], [0.9], [-0.2], [-0.7], [0.1], [0.4]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    values = [
        kalman.smooth(
            kalman.LinearModel(
                np.array([[np.sqrt(0.8) * a]]),
                np.array([0.3]),
                np.eye(1),
                np.array([0.2]),
                np.zeros(1),
                np.ones(1),
            ),
            y,
            np.array([0, 1, 1, 1, 1, 1]),
        ).log_evidence
        for a in nodes
    ]
    exact = np.log(np.exp(values) @ weights / np.sqrt(2 * np.pi))
    found = [
        cavity.infer(line_model(), None, y, power=0.0, method=cavity.PowerEP(hidden=states))
        for states in ("factorised", "chain")
    ]
    assert found[0].log_evidence < found[1].log_evidence < exact
    assert exact - found[1].log_evidence < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_series_of_one_step_are_the_latent_variable_model(power):
    """Identity 36 of bui.md: a state before each row, and outputs that are the states.

    With q of the second state as narrow as the noise of its output, what both add cancels.
    """
    rng, narrow = np.random.default_rng(1), 1e-10
    Y, mean, raw = (rng.normal(size=(5, 2)) for _ in range(3))
    kernel, Z = (
        cavity.kernels.RBF(lengthscale=1.3),
        cavity.inducing.Points(rng.normal(size=(3, 2))),
    )
    gplvm = cavity.GPLVM(kernel, cavity.likelihoods.Gaussian(0.2), Z)
    data = prepare(np.zeros((5, 0)), Y, power=power)
    method = cavity.PowerEP().approximation
    more = len(data.rows.y) - 5
    inputs = InputMoments(*(jnp.asarray(np.pad(a, [(0, more), (0, 0)])) for a in (mean, raw)))
    expected = energy(data.problem(gplvm, method, 1e-8).graph(), ((inputs,),))
    transition = cavity.Layer(kernel, Z, 2, noise_variance=0.2)
    model = cavity.GPSSM(transition, cavity.likelihoods.Gaussian(narrow))
    rows, states = np.full((10, 2), np.nan), np.zeros((10, 2))
    rows[1::2], states[::2], states[1::2] = Y, mean, Y
    deviations = np.full((10, 2), 0.5 * np.log(narrow))
    deviations[::2] = raw
    series = np.repeat(np.arange(5.0), 2)
    data = prepare(np.zeros((10, 0)), rows, power=power, rows={"series": series}, missing="skip")
    more = len(data.rows.y) - 10
    diagonal = np.pad(deviations, [(0, more), (0, 0)])[:, :, None] * np.eye(2)
    store = ChainMoments(
        jnp.asarray(np.pad(states, [(0, more), (0, 0)])), jnp.asarray(diagonal), None
    )
    factorised = cavity.PowerEP(hidden="factorised").approximation.while_learning
    found = energy(data.problem(model, factorised, 1e-8).graph(), ((store,),))
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def expected_terms(chain, linked, Z, kernel, root, y, noise):
    """Collapsed terms of a regression with one state, by Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    P, h, constant = np.zeros((len(Z), len(Z))), np.zeros(len(Z)), 0.0
    mean, cov, cross = (np.asarray(a).reshape(len(a), -1)[:, 0] for a in chain)
    for t in linked:
        if y is None:  # a regression on the state before
            m, v, slope = mean[t - 1], cov[t - 1], cross[t] / cov[t - 1]
            left = cov[t] - slope * cross[t]
        else:
            m, v = mean[t], cov[t]
        for z, w in zip(nodes, weights, strict=True):
            x = m + np.sqrt(v) * z
            k = np.array([kernel(x, c) for c in Z])
            phi = root @ k
            output = mean[t] + slope * (x - m) if y is None else y[t]
            spread = left if y is None else 0.0
            P += w * np.outer(phi, phi) / noise
            h += w * phi * output / noise
            rest = kernel(x, x) - phi @ phi
            constant -= 0.5 * w * (np.log(2 * np.pi * noise) + (output**2 + spread + rest) / noise)
    B = np.eye(len(Z)) + P
    return constant + 0.5 * h @ np.linalg.solve(B, h) - 0.5 * np.linalg.slogdet(B)[1]


@pytest.mark.slow
def test_the_bound_with_emissions_by_a_gaussian_process():
    """S34, S38 and S47 of bui.md at a given chain, against quadrature."""
    rng = np.random.default_rng(5)
    y, Z = rng.normal(size=(7, 1)), rng.normal(size=(3, 1))
    rbf, points = cavity.kernels.RBF(lengthscale=0.9, variance=1.2), cavity.inducing.Points(Z)
    transition = cavity.Layer(rbf, points, 1, noise_variance=0.3)
    model = cavity.GPSSM(
        transition, cavity.likelihoods.Gaussian(0.2), cavity.Layer(rbf, points, 1)
    )
    data = prepare(np.zeros((7, 0)), y, power=0.0, rows={"series": np.repeat([0.0, 1.0], [4, 3])})
    method = cavity.PowerEP().approximation.while_learning
    graph = data.problem(model, method, 1e-10).graph()
    size = len(data.rows.y)
    store = ChainMoments(
        jnp.asarray(rng.normal(size=(size, 1))),
        jnp.asarray(rng.normal(size=(size, 1, 1)) - 1.0),
        jnp.asarray(rng.normal(size=(size, 1, 1))),
    )
    sites = ((store,),)
    chain = beliefs(graph, sites)[-1]
    moments = [np.asarray(a) for a in (chain.mean, chain.cov, chain.cross)]

    def kernel(a, b):
        return 1.2 * np.exp(-0.5 * np.sum((np.asarray(a) - b) ** 2) / 0.81)

    K = np.array([[kernel(a, b) for a in Z] for b in Z])
    K += 1e-10 * np.mean(np.diagonal(K)) * np.eye(3)
    root = np.linalg.inv(np.linalg.cholesky(K))
    linked = [1, 2, 3, 5, 6]
    total = expected_terms(moments, linked, Z, kernel, root, None, 0.3)
    total += expected_terms(moments, range(7), Z, kernel, root, y[:, 0], 0.2)
    m, v = moments[0][:7, 0], moments[1][:7, 0, 0]
    total += sum(-0.5 * (np.log(2 * np.pi) + m[t] ** 2 + v[t]) for t in (0, 4))
    for series in (range(4), range(4, 7)):
        index = list(series)
        precision = dense_precision([a[index] for a in moments])
        total += 0.5 * (len(index) * (1 + np.log(2 * np.pi)) - np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(-energy(graph, sites), total, rtol=1e-8)


def dense_precision(chain):
    """The precision of a chain of single numbers by its pairs."""
    _, cov, cross = (np.asarray(a).reshape(len(a), -1)[:, 0] for a in chain)
    precision = np.zeros((len(cov), len(cov)))
    precision[0, 0] = 1.0 / cov[0]
    for t in range(1, len(cov)):
        pair = np.linalg.inv([[cov[t - 1], cross[t]], [cross[t], cov[t]]])
        precision[t - 1 : t + 1, t - 1 : t + 1] += pair
        precision[t - 1, t - 1] -= 1.0 / cov[t - 1]
    return precision


def test_chains_by_moments_and_by_natural_parameters_are_the_same():
    rng = np.random.default_rng(2)
    T, D = 6, 2
    first = jnp.asarray([1.0, 0, 0, 1, 0, 0])
    links = Links(first, jnp.asarray([0.0, 1, 1, 0, 1, 0]))  # the last row is padding
    shapes = ((T, D), (T, D, D), (T, D, D))
    mean, raw, coupling = (jnp.asarray(rng.normal(size=shape)) for shape in shapes)
    chain = ChainMoments(mean, jnp.tril(raw), coupling)
    expected, found = chain.belief(links), sites_of(chain, links).belief(links)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        present = links.present.reshape(-1, *[1] * (a.ndim - 1)) if a.ndim else 1.0
        np.testing.assert_allclose(present * a, present * b, atol=1e-12)
    again = moments_of(sites_of(chain, links), links).belief(links)
    np.testing.assert_allclose(again.cross, expected.cross, atol=1e-12)
    np.testing.assert_allclose(again.log_normaliser, expected.log_normaliser, atol=1e-12)


@pytest.mark.slow
def test_gradients_are_differences_of_settled_energies():
    y = np.array([[0.5], [0.9], [-0.2], [-0.7], [0.1], [0.4]])

    def settled(noise):
        return -cavity.infer(line_model(noise), None, y, power=0.5).log_evidence

    result = cavity.infer(line_model(), None, y, power=0.5)
    data = prepare(np.zeros((6, 0)), y, power=0.5, rows={"series": np.zeros(6)})

    def held(noise):
        problem = data.problem(line_model(noise), cavity.PowerEP().approximation, result.jitter)
        return energy(problem.graph(), result.found, settled=True)

    step = 1e-4
    slope = (settled(0.3 + step) - settled(0.3 - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(held)(jnp.asarray(0.3)), slope, rtol=1e-5)


def refused(message, *arguments, **options):
    with pytest.raises(ValueError, match=message):
        cavity.infer(*arguments, power=0.0, missing="skip", **options)


def test_refusals():
    y, model = np.zeros((4, 1)), line_model()
    refused("follow each other", model, None, y, rows={"series": [0, 1, 0, 1]})
    refused("has no inputs", model, np.zeros((4, 1)), y)
    refused("1 function, Y has 2 outputs", model, None, np.zeros((4, 2)))
    refused("PowerEP", model, None, y, method=cavity.Laplace())
    refused("interleaved", model, None, y, method=cavity.PowerEP(interleaved=5))
    refused("series is NaN in row 2", model, None, y, rows={"series": [0.0, 0.0, np.nan, 1.0]})
    refused("no blocks", model, None, y, blocks=[0, 0, 1, 1])
    controlled = cavity.GPSSM(layer(1, 1, noise=0.1), cavity.likelihoods.Gaussian(0.2))
    refused("needs inputs", controlled, None, y)
    refused("transition", controlled, np.zeros((4, 2)), y)
    with pytest.raises(ValueError, match="initial_variance must be above 0"):
        cavity.GPSSM(layer(1, noise=0.1), cavity.likelihoods.Gaussian(0.2), initial_variance=0.0)
    with pytest.raises(ValueError, match="process noise"):
        cavity.GPSSM(layer(1, noise=None), cavity.likelihoods.Gaussian(0.2))
    batches = cavity.fitting.Batches(lambda: iter([(np.zeros((4, 1)), y)]))
    refused("must be in memory", controlled, batches)
    counts = cavity.GPSSM(layer(1, noise=0.1), cavity.likelihoods.Poisson(), layer(1, noise=None))
    refused("no closed form", counts, None, y)


def test_functions_and_smoothed_outputs_of_a_posterior(linear):
    model, c, y, smooth = linear
    result = cavity.infer(model, c, y, power=0.0, rows={"series": SERIES}, missing="skip")
    posterior, weights = result.posterior, np.asarray(model.emission.mean.weights)
    mean, var = posterior.marginals(np.array([[0.5, -1.0, 0.2]]))
    expected = model.transition.mean(jnp.asarray([[0.5, -1.0, 0.2]]))
    np.testing.assert_allclose(mean, expected, atol=1e-9)
    assert np.all(var < 1e-9)
    outputs = posterior.smoothed(c)
    np.testing.assert_allclose(
        outputs.mean, smooth.mean @ weights + np.asarray(model.emission.mean.bias), atol=1e-8
    )
    expected = np.einsum("dp,tde,ep->tp", weights, smooth.cov, weights)
    np.testing.assert_allclose(outputs.var, expected, atol=1e-8)
    with pytest.raises(ValueError, match=r"fitted with 3"):
        posterior.marginals(np.zeros((1, 2)))
    # affine functions of states do not see controls, which may be left out
    np.testing.assert_array_equal(posterior.smoothed().mean, outputs.mean)
    with pytest.raises(ValueError, match="controls of the training rows"):
        posterior.smoothed(c[:2])


@pytest.mark.slow
def test_constant_outputs_and_one_row_have_finite_results():
    for y in (np.ones((6, 1)), np.zeros((1, 1))):
        result = cavity.infer(line_model(), None, y, power=0.0)
        assert np.isfinite(result.log_evidence)
        assert np.all(result.posterior.states.var > 0.0)


@pytest.mark.slow
def test_single_precision_gives_about_the_same():
    y = np.array([[0.5], [0.9], [-0.2], [-0.7], [0.1], [0.4]])
    wide = cavity.infer(line_model(), None, y, power=0.0)
    with jax.enable_x64(False):
        narrow = cavity.infer(line_model(), None, y.astype(np.float32), power=0.0)
    assert narrow.posterior.states.mean.dtype == np.float32
    np.testing.assert_allclose(narrow.log_evidence, wide.log_evidence, atol=1e-2)
