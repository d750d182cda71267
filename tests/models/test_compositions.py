"""Models that are put together of parts of others, without a class of their own."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods, means
from cavity.inference.energy import energy
from cavity.inference.factors.tied import TiedSite
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype
from tests.models import latent_toy as toy
from tests.tolerances import assert_close

# Functions of so little variance about the identity change nothing.
NOTHING = 1e-10


@eqx.filter_jit
def energy_of(problem, sites):
    return energy(problem.graph(), sites)


def identity_layer(points, width):
    """Functions that are all but the identity."""
    mean = means.Identity(width)
    return cavity.Layer(kernels.RBF(NOTHING), inducing.Points(points), width, mean)


def prior(width, size):
    """A tied site that changes nothing."""
    return TiedSite(jnp.zeros((width, size)), jnp.zeros((width, size, size)))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_latent_inputs_of_one_layer_are_a_gplvm(power):
    Y, _ = toy.outputs(missing=True)
    data, method = toy.data_of(Y, power), cavity.TiedPowerEP(propagation=toy.NODES)
    sites = toy.stores(toy.random_inputs(data), toy.random_tied())
    layer = cavity.Layer(toy.model().kernel, inducing.Points(toy.Z), toy.OUTPUTS)
    deep = cavity.DeepGP([layer], likelihoods.Gaussian(toy.NOISE), latent_inputs=1)
    found, expected = (
        energy_of(data.problem(as_dtype(model, data), method.approximation, toy.JITTER), sites)
        for model in (deep, toy.model())
    )
    assert np.isfinite(expected)
    assert_close(found, expected, "factorised")


def test_a_gplvm_may_have_functions_of_two_layers():
    """The second is all but the identity, and outputs are alike."""
    Y, _ = toy.outputs()
    nodes = cavity.fitting.Nodes(1000)
    data, method = toy.data_of(Y, 0.0), cavity.TiedPowerEP(propagation=nodes)
    ((tied, inputs),) = toy.stores(toy.random_inputs(data), toy.random_tied())
    likelihood = likelihoods.Gaussian(toy.NOISE)
    first = cavity.Layer(toy.model().kernel, inducing.Points(toy.Z), toy.OUTPUTS)
    second = identity_layer(np.eye(toy.OUTPUTS), toy.OUTPUTS)
    deep = cavity.DeepGP([first, second], likelihood, latent_inputs=1)
    problem = data.problem(as_dtype(deep, data), method.approximation, toy.JITTER)
    found = energy_of(problem, ((tied, prior(toy.OUTPUTS, toy.OUTPUTS), inputs),))
    one = data.problem(as_dtype(toy.model(), data), method.approximation, toy.JITTER)
    # points of four dimensions
    np.testing.assert_allclose(found, energy_of(one, ((tied, inputs),)), rtol=1e-3)


@pytest.mark.slow
def test_a_gplvm_of_two_layers_is_learned():
    Y, _ = toy.outputs()
    layers = [cavity.Layer(kernels.RBF(), inducing.Points(toy.Z), 2)]
    layers.append(cavity.Layer(kernels.RBF(), inducing.Points(np.eye(2)), toy.OUTPUTS))
    model = cavity.DeepGP(layers, likelihoods.Gaussian(toy.NOISE), latent_inputs=1)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(8))
    X, options = np.zeros((len(Y), 0)), {"power": 0.5, "method": method}
    result = cavity.fit(model, X, Y, max_iterations=10, **options)
    start = cavity.fit(model, X, Y, max_iterations=0, **options)
    assert result.log_evidence > start.log_evidence + 1.0


def test_a_kernel_on_images_is_a_first_layer():
    """With a second layer that is all but the identity it is the convolutional GP."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(8, 16)), random.integers(0, 2, 8).astype(float)
    kernel = kernels.SumOver(kernels.Patches((4, 4), (2, 2)), kernels.RBF(0.1))
    patches = inducing.InBase(inducing.Points(random.normal(size=(4, 4))))
    data, method = prepare(X, y, power=0.5), cavity.TiedPowerEP(propagation=toy.NODES)
    images = cavity.Layer(kernel, patches)
    deep = cavity.DeepGP([images, identity_layer([[0.0]], 1)], likelihoods.Bernoulli())
    one = cavity.GP(kernel, likelihoods.Bernoulli(), patches)
    tied = TiedSite(*map(jnp.asarray, toy.random_tied(1, 4)))
    found = energy_of(
        data.problem(as_dtype(deep, data), method.approximation, toy.JITTER),
        ((tied, prior(1, 1)),),
    )
    alone = data.problem(as_dtype(one, data), method.approximation, toy.JITTER)
    np.testing.assert_allclose(found, energy_of(alone, ((tied,),)), rtol=1e-6)
