"""Messages of exact rows with derivatives by hand, against automatic ones of the plain form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.graph.marginals import Projection
from cavity.inference.variables import fused_gaussian
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from cavity.parameters import bijections, from_real, to_real
from tests.solving import build_graph

N, M, D = 300, 9, 2
RANDOM = np.random.default_rng(5)
X, Z = RANDOM.standard_normal((N, D)), RANDOM.standard_normal((M, D))
Y = np.sin(X @ np.array([[1.0, 0.5], [0.3, -1.0]])) + 0.2 * RANDOM.standard_normal((N, 2))
HOLES = np.where(RANDOM.uniform(size=Y.shape) < 0.1, np.nan, Y)
POWERS = RANDOM.uniform(0.0, 1.0, N)
CASES = {
    "one output": (Y[:, 0], {}),
    "two outputs": (Y, {}),
    "missing outputs": (HOLES, {"missing": "skip"}),
    "known noise": (Y[:, 0], {"rows": {"noise_variance": RANDOM.uniform(0.05, 1.0, N)}}),
}


def model(points=Z):
    kernel = kernels.RBF(1.3, np.array([0.7, 1.1])) + kernels.Linear(0.4)
    return cavity.GP(
        kernel, likelihoods.Gaussian(0.15), inducing.Points(points), means.Constant(0.2)
    )


def plain(graph):
    """The messages by way of projections, for automatic derivatives."""
    (factor,), (variable,) = graph.regressions, graph.variables
    projection = factor.edge.view.project(factor.rows)
    assert isinstance(projection, Projection)
    return variable.messages_from_sites(*factor.sites(factor.rows, projection), projection)


def by_hand(graph):
    (factor,) = graph.regressions
    assert not factor.rows.blocked
    data = (factor.rows, factor.noise_variance, factor.power, factor.volume)
    return fused_gaussian.fused_gaussian_messages(factor.edge.view, *data)


def slopes(messages, y, power, points=Z, jitter=1e-8, method=cavity.PowerEP(), **options):
    """A smooth function of all messages, and its gradient in all parameters."""
    data = prepare(X, y, power=power, **options)
    start = as_dtype(model(points), data)
    maps = bijections(start)

    def loss(real):
        graph = build_graph(from_real(real, start, maps), data, method, jnp.asarray(jitter))
        found = messages(graph)
        random = np.random.default_rng(1)
        shift, precision = (
            random.standard_normal(a.shape) for a in (found.shift, found.precision)
        )
        # precisions are symmetric, but their derivatives need not be
        total = jnp.sum(shift * found.shift) + jnp.sum(precision * found.precision)
        return total + 0.7 * found.log_scale

    return jax.jit(jax.value_and_grad(loss))(to_real(start, maps))


def of_case(messages, case, power):
    y, options = CASES[case]
    return slopes(messages, y, POWERS if power == "rows" else power, **options)


@functools.cache
def automatic(case, power):
    return of_case(plain, case, power)


@pytest.mark.sampled(2, "one output-0.0")
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, "rows"])
@pytest.mark.parametrize("case", CASES)
def test_messages_and_their_derivatives(case, power):
    value, slope = of_case(by_hand, case, power)
    expected, by_ad = automatic(case, power)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, by_ad, rtol=0, atol=1e-11 * np.abs(by_ad).max())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("method", [cavity.PowerEP(tight=True), cavity.PowerEP(dtc=True)])
@pytest.mark.parametrize("case", ["missing outputs", "known noise"])
def test_messages_with_a_volume_of_their_own(case, method):
    y, options = CASES[case]
    value, slope = slopes(by_hand, y, 0.0, method=method, **options)
    expected, by_ad = slopes(plain, y, 0.0, method=method, **options)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, by_ad, rtol=0, atol=1e-11 * np.abs(by_ad).max())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kept", ["all", "some", "none"])
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_several_chunks_kept_or_computed_anew(power, kept, monkeypatch):
    monkeypatch.setattr("cavity.numerics.chunking.CACHED", (64, 32))
    values = {
        "all": fused_gaussian.KEPT,
        "some": 2 * 64 * len(Z),
        "none": 0,
    }  # of five chunks
    monkeypatch.setattr(fused_gaussian, "KEPT", values[kept])
    _, found = of_case(by_hand, "two outputs", power)
    _, by_ad = automatic("two outputs", power)
    np.testing.assert_allclose(found, by_ad, rtol=0, atol=1e-11 * np.abs(by_ad).max())


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_nearly_equal_inducing_points(power):
    """With a condition of 1e10 derivatives agree with those of a triangular solve's form."""
    close = np.concatenate([Z, Z[:3] + 1e-6])
    conditioned = {"points": close, "jitter": 1e-9}
    value, slope = slopes(by_hand, Y, power, **conditioned)
    expected, by_ad = slopes(plain, Y, power, **conditioned)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(slope, by_ad, rtol=0, atol=1e-5 * np.abs(by_ad).max())


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_rows_that_are_inducing_points(power):
    """What rounding leaves of their variance, above zero or below, has no slope of its own."""
    own = {"points": X, "jitter": 1e-10}
    value, slope = slopes(by_hand, Y, power, **own)
    expected, by_ad = slopes(plain, Y, power, **own)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(slope, by_ad, rtol=0, atol=1e-4 * np.abs(by_ad).max())


@pytest.mark.slow
def test_single_precision_in_a_session_of_double():
    start, rows = model(), [a.astype(np.float32) for a in (X, Y)]
    for power in (0.0, 0.5):
        found = cavity.fit(start, *rows, power=power, max_iterations=2)
        assert found.posterior.marginals(rows[0]).mean.dtype == np.float32


def test_what_is_fixed_is_not_differentiated():
    """Where only the noise is learned, there is no derivative in anything else."""
    data = prepare(X, Y, power=0.5)
    start = as_dtype(model(), data)

    def loss(noise):
        typed = cavity.GP(start.kernel, likelihoods.Gaussian(noise), start.inducing, start.mean)
        return by_hand(build_graph(typed, data, cavity.PowerEP(), jnp.asarray(1e-8))).log_scale

    step = 1e-5
    ends = [float(loss(jnp.asarray(0.15 + s))) for s in (step, -step)]
    slope = float(jax.grad(loss)(jnp.asarray(0.15)))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)
