"""Networks with several hidden layers: Jylanki (2013), S120."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import cavity
from cavity import initialisation, likelihoods, weights
from cavity.inference.energy import energy
from cavity.inference.networks.activations import activation_of
from cavity.inference.networks.term import through_layers
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import KnownSites, checked_start, infer_from
from cavity.models.network.checks import checked_widths

NOISE = likelihoods.Gaussian(0.05)


def table(rows=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (rows, 2))
    return X, np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(rows)


@pytest.fixture(scope="module")
def settled():
    """A network with three units and two above them, and its settled sites."""
    X, y = table()
    model = cavity.Network((3, 2), weights.Gaussian(0.5), "erf", NOISE)
    start = initialisation.network_at_mode(model, X, y)
    return start, cavity.infer(start, X, y, power=0.5), X, y


@pytest.mark.slow
def test_a_unit_above_that_is_passed_on_is_the_output_of_the_network_below():
    """A straight unit with output weight one: the same energy, by other edges."""
    X, y = table()
    prior, own = weights.Gaussian(0.5), weights.Gaussian(1.3)
    below = cavity.Network(1, prior, "identity", NOISE, output=own, bias=0.7)
    hidden, output = np.array([[0.5], [0.3], [0.0]]), np.array([0.9, 0.2])
    below = dataclasses.replace(below, start=initialisation.NetworkStart(hidden, output))
    straight: Any = {"inner": own, "intercept": 0.7, "output_weights": [1.0, 0.0]}
    above = cavity.Network((1, 1), prior, "identity", NOISE, **straight)
    start = initialisation.NetworkStart(hidden, np.array([1.0, 0.0]), inner=[output[:, None]])
    above = dataclasses.replace(above, start=start)
    below = eqx.tree_at(lambda m: m.intercept, below, jnp.asarray(0.7))
    one, two = (cavity.infer(m, X, y, power=0.5) for m in (below, above))
    assert one.converged
    assert two.converged
    assert abs(one.log_evidence - two.log_evidence) < 1e-8
    for first, second in zip(one.posterior.joint(X[:4]), two.posterior.joint(X[:4]), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-8)


def test_moments_are_those_of_draws_layer_by_layer():
    """Units above have the exact moments of one layer, and count as independent Gaussians."""
    rng = np.random.default_rng(1)
    m, v = np.array([0.3, -1.0]), np.array([0.5, 2.0])
    means = [rng.standard_normal((2, 3)), rng.standard_normal((1, 3))]
    roots = [0.4 * rng.standard_normal((len(mean), 3, 3)) for mean in means]
    above = [(mean, A @ np.swapaxes(A, 1, 2)) for mean, A in zip(means, roots, strict=True)]
    each = [tuple(jnp.asarray(x)[None] for x in pair) for pair in above]
    hidden: Any = (jnp.asarray(m)[None], jnp.asarray(v)[None])
    found = through_layers(activation_of("erf"), hidden, each)  # type: ignore[arg-type]
    draws = 200_000
    for mean, cov in above:
        h = m + np.sqrt(v) * rng.standard_normal((draws, 2))
        g = np.column_stack([special.erf(h / np.sqrt(2)) / np.sqrt(2), np.ones(draws)])
        W = [rng.multivariate_normal(*one, draws) for one in zip(mean, cov, strict=True)]
        f = np.stack([np.sum(g * w, axis=1) for w in W], axis=1)
        m, v = f.mean(axis=0), f.var(axis=0)
    assert abs(float(found[0][0, 0]) - m[0]) < 0.02 * np.sqrt(v[0])
    assert abs(float(found[1][0, 0]) - v[0]) < 0.02 * v[0]


@pytest.mark.slow
def test_energy_is_stationary_and_its_gradients_are_explicit(settled):
    """Differences are along one fixed point, from whose sites its neighbours start."""
    start, result, X, y = settled
    assert result.converged
    data = prepare(X, y, power=0.5)
    model, _, jitter = checked_start(start, data, 0.0)
    method = cavity.PowerEP()
    approximation = method.approximation

    def value(parts):
        model, sites = parts
        return energy(data.problem(model, approximation, jitter).graph(), sites)

    slopes, (blocks, *_) = eqx.filter_jit(eqx.filter_grad(value))((model, result.found))
    assert max(float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(blocks)) < 1e-6
    for where in (lambda m: m.likelihood.variance, lambda m: m.inner.variance):
        step = 1e-3 * float(where(model))
        beside = [eqx.tree_at(where, model, where(model) + s) for s in (step, -step)]
        up, down = (infer_from(m, data, method, jitter, KnownSites(result.found)) for m in beside)
        assert up.converged
        assert down.converged
        slope = -(up.log_evidence - down.log_evidence) / (2.0 * step)
        np.testing.assert_allclose(float(where(slopes)), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_predictions_are_consistent(settled):
    _, result, X, y = settled
    mean, var = result.posterior.marginals(X)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.3
    joint = result.posterior.joint(X[:5])
    np.testing.assert_allclose(np.diag(joint.cov), var[:5], rtol=1e-9)
    np.testing.assert_allclose(joint.mean, mean[:5], rtol=1e-9)
    relevance = result.posterior.process.relevance()
    assert relevance[0] > relevance[1] > 0.0


def test_rows_without_output_say_nothing(settled):
    start, result, X, y = settled
    more = np.vstack([X, X[:2] + 0.3]), np.append(y, [np.nan, np.nan])
    other = cavity.infer(start, *more, power=0.5, missing="skip")
    assert abs(other.log_evidence - result.log_evidence) < 1e-8


def test_a_file_keeps_it(settled, tmp_path):
    _, result, X, _ = settled
    cavity.fitting.save_module(tmp_path / "deep.safetensors", result.posterior, {})
    loaded, _ = cavity.fitting.load_module(tmp_path / "deep.safetensors")
    pairs = zip(loaded.marginals(X[:4]), result.posterior.marginals(X[:4]), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_known_weights_make_the_function_of_the_layers():
    """What Markov chains draw, by numpy."""
    X, _ = table(5)
    rng = np.random.default_rng(2)
    model = cavity.Network((3, 2), weights.Gaussian(0.5), "tanh", NOISE)
    shapes = [(2, 3), (1, 3), (3, 2), (1, 2), (2, 1), (1, 1)]
    assert [part.shape for part in model.weight_parts(2)] == shapes
    drawn = tuple(rng.standard_normal(shape) for shape in shapes)
    one = np.tanh(X @ drawn[0] + drawn[1])
    two = np.tanh(one @ drawn[2] / np.sqrt(3) + drawn[3])
    f = two @ drawn[4] / np.sqrt(2) + drawn[5]
    found = model.functions_of(tuple(map(jnp.asarray, drawn)), jnp.asarray(X))
    np.testing.assert_allclose(found, f, rtol=1e-12)
    assert set(model.named_weights(drawn)) == {"hidden", "inner_1", "output"}  # type: ignore[arg-type]


def test_refusals():
    X, y = table(10)
    prior = weights.Gaussian(0.5)
    for hidden in ((), (3, 0), (3, True)):
        with pytest.raises(ValueError, match="hidden must be a number of units"):
            cavity.Network(hidden, prior, "erf", NOISE)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Network"):
        cavity.Network((3, 2), prior, "erf", NOISE, inner=NOISE)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="hidden=3 has none"):
        cavity.Network(3, prior, "erf", NOISE, inner=prior)
    with pytest.raises(ValueError, match="hidden must be a number of units"):
        checked_widths(np.array(3))
    wide = cavity.Network((3, 2), prior, "erf", NOISE, inner=weights.Gaussian(np.ones(4)))
    with pytest.raises(ValueError, match="inner weights has a parameter with 4 values"):
        cavity.infer(wide, X, y)
    start = initialisation.NetworkStart(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match="start must have hidden, inner"):
        cavity.infer(cavity.Network((3, 2), prior, "erf", NOISE, start=start), X, y)
    same = np.tile([[0.5], [0.2], [0.1]], 3)
    with pytest.warns(UserWarning, match="alike"):
        apart = initialisation.NetworkStart(same, np.ones(3), inner=[np.ones((4, 2))])
    assert np.ptp(np.asarray(apart.hidden), axis=1).max() > 1e-3
    assert np.ptp(np.asarray(apart.inner[0]), axis=1).max() > 1e-3
