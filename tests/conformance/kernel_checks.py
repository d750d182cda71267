"""What every kernel must do, checked through the public interface of `AbstractKernel`.

A check takes a kernel and its number of input columns. `CHECKS` has them all.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels import AbstractKernel, Product
from cavity.kernels.expectations import (
    GaussianInputs,
    covariance_forms,
    expected_cross,
    expected_diag,
    expected_slopes,
)
from cavity.parameters import bijections, from_real, to_real, units
from tests.tolerances import assert_close

# Where a kernel has a kink at zero distance, rounding of 1e-16 in a square is 1e-8 in a distance.
AT_ZERO_DISTANCE = 1e-7


def inputs(n_inputs):
    """Some inputs on a grid, so that moving them by 2^20 rounds nothing; no two rows equal."""
    rng = np.random.default_rng(3)
    X, Z = rng.normal(size=(6, n_inputs)), rng.normal(size=(4, n_inputs))
    return [jnp.asarray(np.round(x * 2**20) / 2**20) for x in (X, Z)]


# A program for a check, not one for each operation in it.
@eqx.filter_jit
def cross(kernel, X, Z):
    return kernel.cross(X, Z)


@eqx.filter_jit
def diag(kernel, X):
    return kernel.diag(X)


def check_shapes(kernel, n_inputs):
    X, Z = inputs(n_inputs)
    assert eqx.filter_eval_shape(kernel.cross, X, Z).shape == (6, 4)
    assert eqx.filter_eval_shape(kernel.diag, X).shape == (6,)


def check_diag(kernel, n_inputs):
    """The variances are the covariances of each input with itself."""
    X, _ = inputs(n_inputs)
    assert_close(np.diag(cross(kernel, X, X)), diag(kernel, X), scale=AT_ZERO_DISTANCE / 1e-12)


def check_symmetry(kernel, n_inputs):
    X, Z = inputs(n_inputs)
    assert_close(cross(kernel, X, Z), cross(kernel, Z, X).T, "factorised")


def check_positive_semidefinite(kernel, n_inputs):
    """Also with repeated inputs."""
    X, Z = inputs(n_inputs)
    K = cross(kernel, *[jnp.concatenate([X, Z, X[:2]])] * 2)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -AT_ZERO_DISTANCE * eigenvalues[-1]


def check_one_pair_at_a_time(kernel, n_inputs):
    """A covariance depends on its two inputs only, not on the others in the batch."""
    X, Z = inputs(n_inputs)

    @eqx.filter_jit
    def pairs(kernel, X, Z):
        return jax.vmap(lambda x: jax.vmap(lambda z: kernel.cross(x[None], z[None])[0, 0])(Z))(X)

    assert_close(cross(kernel, X, Z), pairs(kernel, X, Z), "factorised")


def directional(kernel, n_inputs, same):
    """A scalar function of parameters and both inputs, its arguments, and a direction."""
    leaves, structure = jax.tree.flatten(kernel)
    X, Z = inputs(n_inputs)
    point = ([jnp.asarray(leaf) for leaf in leaves], X, X if same else Z)
    rng = np.random.default_rng(4)
    direction = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), point)
    weights = rng.normal(size=(6, 6 if same else 4))

    def function(leaves, X, Z):
        rebuilt = jax.tree.unflatten(structure, leaves)
        return jnp.sum(weights * rebuilt.cross(X, Z)) + jnp.sum(rebuilt.diag(X))

    return function, point, direction


def check_gradients_at_zero_distance(kernel, n_inputs):
    """Finite with respect to every parameter and to both inputs."""
    function, point, _ = directional(kernel, n_inputs, same=True)
    for gradient in jax.tree.leaves(jax.jit(jax.grad(function, (0, 1, 2)))(*point)):
        assert np.all(np.isfinite(gradient))


def check_gradients(kernel, n_inputs):
    """The gradient along a direction is the central difference along it, per argument."""
    function, point, direction = directional(kernel, n_inputs, same=False)
    function, gradient = jax.jit(function), jax.jit(jax.grad(function, (0, 1, 2)))(*point)
    for i in range(3):
        slope = sum(
            jnp.vdot(g, d)
            for g, d in zip(*map(jax.tree.leaves, (gradient[i], direction[i])), strict=True)
        )
        step = jax.tree.map(lambda a: 1e-6 * a, direction[i])
        ends = [jax.tree.map(lambda a, h, s=sign: a + s * h, point[i], step) for sign in (1, -1)]
        high, low = (function(*point[:i], end, *point[i + 1 :]) for end in ends)
        assert_close(slope, (high - low) / 2e-6, "gradient", scale=1.0)


def moved(kernel, scale_input=1.0, shift=0.0, scale_output=1.0):
    """The kernel for inputs in another unit from another origin, and for outputs in another unit.

    In a product only the first factor carries the unit of the output.
    """
    if isinstance(kernel, Product):
        first = moved(kernel.first, scale_input, shift, scale_output)
        return Product(first, moved(kernel.second, scale_input, shift))

    def move(value, unit):
        value = value * scale_input**unit.input * scale_output**unit.output
        return np.asarray(value + shift if unit.location else value)

    measured = units(kernel)
    for field in dataclasses.fields(kernel):
        part = getattr(kernel, field.name)
        if field.metadata.get("static", False) or part is None:
            continue
        if isinstance(part, AbstractKernel):
            new = moved(part, scale_input, shift, scale_output)
        else:
            new = jax.tree.map(move, part, getattr(measured, field.name))
        kernel = eqx.tree_at(lambda k, name=field.name: getattr(k, name), kernel, new)
    return kernel


def check_units(kernel, n_inputs):
    """Parameters have the declared units: changing all units changes no covariance but by them."""
    X, Z = inputs(n_inputs)
    other = moved(kernel, scale_input=7.0, scale_output=3.0)
    assert_close(cross(other, 7.0 * X, 7.0 * Z), 9.0 * cross(kernel, X, Z), "factorised")


def check_offset(kernel, n_inputs):
    """A million away, with its locations moved along, a kernel has lost nothing."""
    X, Z = inputs(n_inputs)
    far = moved(kernel, shift=2.0**20)
    assert_close(cross(far, X + 2**20, Z + 2**20), cross(kernel, X, Z), "factorised")
    assert_close(diag(far, X + 2**20), diag(kernel, X), "factorised")


def check_float32(kernel, n_inputs):
    X, Z = inputs(n_inputs)
    expected = cross(kernel, X, Z)
    with jax.enable_x64(False):
        X, Z = jnp.asarray(np.asarray(X, np.float32)), jnp.asarray(np.asarray(Z, np.float32))
        K, variances = kernel.cross(X, Z), kernel.diag(X)
    assert K.dtype == variances.dtype == np.float32
    assert_close(K, expected)


def check_parameters(kernel, n_inputs):
    """Every parameter has a domain that holds its value."""
    domains = bijections(kernel)
    again = from_real(to_real(kernel, domains), kernel, domains)
    for value, back in zip(*map(jax.tree.leaves, (kernel, again)), strict=True):
        assert_close(back, value)


@eqx.filter_jit
def expectations(kernel, inputs, Z, W, places):
    """Moments under Gaussian inputs, and the kernel itself at given places."""
    return (
        expected_cross(kernel, inputs, Z),
        expected_diag(kernel, inputs),
        covariance_forms(kernel, inputs, Z, W),
        expected_slopes(kernel, inputs, Z),
        kernel.cross(places, Z),
        kernel.diag(places),
    )


def check_expectations(kernel, n_inputs):
    """Of a known row they are the kernel's values; of an uncertain one, means over many draws."""
    X, Z = inputs(n_inputs)
    rng = np.random.default_rng(6)
    draws, half = rng.normal(size=(500, n_inputs)), rng.normal(size=(4, 4))
    draws, W = np.concatenate([draws, -draws]), half @ half.T
    rows = GaussianInputs(X[:2], jnp.asarray([[0.0] * n_inputs, [0.04] * n_inputs]))
    places = jnp.concatenate([X[:1], X[1] + 0.2 * draws])
    *actual, K, variances = expectations(kernel, rows, Z, jnp.asarray(W)[None], places)
    (known, cross), (known_diag, diag), (nothing, form), slopes = actual
    assert_close(known, K[0])
    assert_close(known_diag, variances[0])
    largest = np.max(variances)
    assert nothing[0] <= 1e-25 * largest**2 * np.trace(W)
    away = K[1:] - np.mean(K[1:], axis=0)
    np.testing.assert_allclose(cross, np.mean(K[1:], axis=0), atol=0.01 * largest)
    np.testing.assert_allclose(diag, np.mean(variances[1:]), atol=0.01 * largest)
    expected = np.einsum("sa,ab,sb->", away, W, away) / len(away)
    np.testing.assert_allclose(form[0], expected, rtol=0.2, atol=1e-25)
    assert np.all(np.isfinite(slopes))


CHECKS = [
    check_shapes,
    check_diag,
    check_symmetry,
    check_positive_semidefinite,
    check_one_pair_at_a_time,
    check_gradients_at_zero_distance,
    check_gradients,
    check_units,
    check_offset,
    check_float32,
    check_parameters,
    check_expectations,
]
