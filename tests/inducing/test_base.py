"""Functionals of the latent function, and their covariances."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inducing import AbstractInducing, Points, covariance, covariance_from
from cavity.parameters import Units, real, units
from tests.tolerances import assert_close


class Midpoints(AbstractInducing):
    """Means of the values at two points each, from public names only."""

    ends: jax.Array = real(input=1, location=True)  # M x 2 x D

    def __call__(self, g):
        return jnp.mean(jax.vmap(jax.vmap(g))(self.ends), axis=1)

    @property
    def size(self):
        return len(self.ends)


class Slopes(AbstractInducing):
    """First derivatives along the first input."""

    places: jax.Array = real(input=1, location=True)

    def __call__(self, g):
        def slope(x):
            return jax.jvp(g, (x,), (jnp.zeros_like(x).at[0].set(1.0),))[1]

        return jax.vmap(slope)(self.places)

    @property
    def size(self):
        return len(self.places)


class Plain(AbstractInducing):
    """Values at points, without the fast path."""

    places: jax.Array = real(input=1, location=True)

    def __call__(self, g):
        return jax.vmap(g)(self.places)

    @property
    def size(self):
        return len(self.places)


RNG = np.random.default_rng(0)
X = RNG.uniform(0, 3, (7, 2))
KINDS = {
    "points": Points(X[:4] + 0.1),
    "midpoints": Midpoints(RNG.uniform(0, 3, (3, 2, 2))),
    "slopes": Slopes(RNG.uniform(0, 3, (3, 2))),
    "plain": Plain(X[:4] + 0.1),
}
each_kind = pytest.mark.parametrize("inducing", KINDS.values(), ids=KINDS)
KERNEL = cavity.kernels.RBF(1.3, [0.9, 1.4])
compiled = eqx.filter_jit(covariance)


@each_kind
def test_shapes(inducing):
    def shape(function, *args):
        return eqx.filter_eval_shape(function, *args).shape

    assert shape(inducing, lambda x: jnp.sum(x)) == (inducing.size,)
    assert shape(inducing, lambda x: jnp.outer(x, x)) == (inducing.size, 2, 2)
    assert shape(covariance, KERNEL, inducing, Points(X)) == (inducing.size, 7)
    assert shape(covariance, KERNEL, Points(X), inducing) == (7, inducing.size)


@each_kind
def test_functionals_are_linear(inducing):
    def f(x):
        return jnp.sin(x[0]) * x[1]

    def g(x):
        return jnp.exp(-x[0]) + x[1] ** 2

    @eqx.filter_jit
    def each(inducing):
        return inducing(f), inducing(g), inducing(lambda x: 2.0 * f(x) - 3.0 * g(x))

    first, second, both = each(inducing)
    assert_close(both, 2.0 * first - 3.0 * second)


def test_covariances_are_symmetric_and_positive():
    """vanderwilk T38: the joint of all kinds and the data is a covariance."""
    parts = [*KINDS.values(), Points(X)]

    @eqx.filter_jit
    def every(kernel, parts):
        return jnp.block([[covariance(kernel, a, b) for b in parts] for a in parts])

    joint = every(KERNEL, parts)
    assert_close(joint, joint.T, "factorised")
    assert np.linalg.eigvalsh(joint)[0] > -1e-9


def test_the_generic_path_equals_the_fast_one():
    fast, slow = KINDS["points"], KINDS["plain"]
    expected = KERNEL.cross(fast.Z, X)
    assert_close(compiled(KERNEL, fast, Points(X)), expected)
    assert_close(compiled(KERNEL, slow, Points(X)), expected, "factorised")
    expected = KERNEL.cross(fast.Z, fast.Z)
    assert_close(compiled(KERNEL, slow, fast), expected, "factorised")
    assert_close(compiled(KERNEL, slow, slow), expected, "factorised")


def test_covariances_are_those_of_samples():
    """Means and slopes of many functions with that covariance, by Monte Carlo on features."""
    rng = np.random.default_rng(1)
    kernel, parts = cavity.kernels.RBF(1.0, 1.0), (KINDS["midpoints"], KINDS["slopes"])
    frequencies, phases = rng.normal(size=(4000, 2)), rng.uniform(0, 2 * np.pi, 4000)

    def features(x):
        return np.sqrt(2.0 / 4000) * jnp.cos(frequencies @ x + phases)

    a, b = (np.asarray(eqx.filter_jit(part)(features)) for part in parts)
    assert np.max(np.abs(compiled(kernel, *parts) - a @ b.T)) < 0.08


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_functionals_are_inducing_variables(inducing, power):
    """In inference and learning; the bound holds."""
    y = np.sin(X[:, 0])
    model = cavity.GP(KERNEL, cavity.likelihoods.Gaussian(0.1), inducing)
    full = cavity.GP(KERNEL, cavity.likelihoods.Gaussian(0.1))
    result = cavity.infer(model, X, y, power=power)
    if power == 0.0:
        assert result.log_evidence <= cavity.infer(full, X, y).log_evidence
        learned = cavity.fit(model, X, y, power=power, max_iterations=3)
        assert learned.log_evidence > result.log_evidence
    assert np.all(result.posterior.marginals(X).var > 0.0)


def test_a_pair_can_register_its_own_covariance():
    class Origin(Plain):
        """The value at one place."""

    @covariance_from.register
    def _(a: Origin, b: AbstractInducing, kernel: cavity.kernels.AbstractKernel):
        return jnp.full((a.size, b.size), 5.0)

    assert_close(covariance(KERNEL, Origin(X[:1]), Points(X)), np.full((1, 7), 5.0))
    assert_close(covariance(KERNEL, Points(X), Origin(X[:1])), np.full((7, 1), 5.0))


def test_points_have_the_units_of_the_inputs():
    assert Units(input=1, location=True) == units(Points(X)).Z
    assert Points(X).size == 7
