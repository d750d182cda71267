"""Stationary kernels against their definitions, one pair of inputs at a time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.kernels import (
    RBF,
    Constant,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from cavity.kernels.stationary import squared_distance
from tests.oracle import kernels as oracle
from tests.tolerances import assert_close

RNG = np.random.default_rng(11)
X, Z = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
ONE, EACH = 0.8, np.array([0.5, 1.2, 3.0])
MIXTURE = np.array([0.4, 1.5]), RNG.normal(size=(2, 3)), RNG.uniform(0.05, 0.3, (2, 3))

CASES = [
    *[
        (kernel, pointwise, (1.7, lengthscale))
        for kernel, pointwise in [
            (RBF, oracle.rbf),
            (Matern12, oracle.matern12),
            (Matern32, oracle.matern32),
            (Matern52, oracle.matern52),
        ]
        for lengthscale in (ONE, EACH[:1], EACH)
    ],
    (RationalQuadratic, oracle.rational_quadratic, (1.7, ONE, 0.6)),
    (RationalQuadratic, oracle.rational_quadratic, (1.7, EACH, 2.5)),
    (Periodic, oracle.periodic, (1.7, ONE, 1.3)),
    (Periodic, oracle.periodic, (1.7, EACH, 1.3)),
    (Periodic, oracle.periodic, (1.7, ONE, 2.0 * EACH)),
    (Periodic, oracle.periodic, (1.7, EACH, 2.0 * EACH)),
    (SpectralMixture, oracle.spectral_mixture, MIXTURE),
    (SpectralMixture, oracle.spectral_mixture, (MIXTURE[0], [[0.2], [0.4]], [[0.1], [0.3]])),
    (Constant, oracle.constant, (1.7,)),
]


@pytest.mark.sampled(11)
@pytest.mark.parametrize(("kernel", "pointwise", "parameters"), CASES)
def test_cross_is_the_definition(kernel, pointwise, parameters):
    expected = oracle.matrix(lambda x, z: pointwise(x, z, *parameters), X, Z)
    assert_close(kernel(*parameters).cross(jnp.array(X), jnp.array(Z)), expected)


@pytest.mark.parametrize(("kernel", "pointwise", "parameters"), CASES)
def test_diag_is_the_definition(kernel, pointwise, parameters):
    expected = [pointwise(x, x, *parameters) for x in X]
    assert_close(kernel(*parameters).diag(jnp.array(X)), expected)


def test_white_is_one_where_rows_are_equal():
    """In all their columns, and exactly."""
    A = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 1.0 + 1e-15], [-0.0, 1.0]])
    B = np.array([[0.0, 1.0], [2.0, 0.0]])
    expected = oracle.matrix(lambda x, z: oracle.white(x, z, 1.7), A, B)
    np.testing.assert_array_equal(White(1.7).cross(jnp.array(A), jnp.array(B)), expected)
    assert expected[0, 0] == expected[3, 0] == 1.7
    assert expected[2, 0] == 0.0


def test_white_of_many_columns_needs_little_memory():
    shape = jax.ShapeDtypeStruct((100, 784), np.float64)
    compiled = jax.jit(lambda a, b: White().cross(a, b)).lower(shape, shape).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 100 * 784 * 8 * 4


def test_gradient_at_zero_distance_is_that_of_the_limit():
    """A stationary kernel has no slope in its inputs there, and its variance the slope 1."""
    x = jnp.array(X[:1])
    for kernel in (RBF, Matern12, Matern32, Matern52, RationalQuadratic, Periodic):

        def value(variance, a, k=kernel):
            return k(variance, EACH).cross(a, x)[0, 0]

        in_variance, slope = jax.jit(jax.grad(value, (0, 1)))(jnp.array(1.7), x)
        np.testing.assert_array_equal(slope, np.zeros((1, 3)))
        assert in_variance == 1.0


def test_matern_half_is_good_to_seven_digits_next_to_zero_distance():
    near = jnp.array(X + 1e-9)
    expected = oracle.matrix(lambda x, z: oracle.matern12(x, z, 1.0, EACH), near, X)
    assert_close(Matern12(1.0, EACH).cross(near, jnp.array(X)), expected, scale=1e-7 / 1e-12)


def test_offset_of_a_million_costs_no_digits_but_those_of_the_inputs():
    far_X, far_Z = X + 1e6, Z + 1e6  # rounded here: the oracle sees the same inputs
    for kernel, pointwise, parameters in CASES:
        expected = oracle.matrix(lambda x, z: pointwise(x, z, *parameters), far_X, far_Z)  # noqa: B023
        actual = kernel(*parameters).cross(jnp.array(far_X), jnp.array(far_Z))
        assert_close(actual, expected, "factorised")


def test_rational_quadratic_of_large_shape_is_the_squared_exponential():
    rational = RationalQuadratic(1.7, EACH, 1e9).cross(jnp.array(X), jnp.array(Z))
    assert_close(rational, RBF(1.7, EACH).cross(jnp.array(X), jnp.array(Z)), "quadrature")


def test_periodic_repeats_itself_in_every_column():
    kernel, period = Periodic(1.7, EACH, 2.0 * EACH), 2.0 * EACH
    shifted = kernel.cross(jnp.array(X + 3 * period), jnp.array(Z - [1, 2, 0] * period))
    assert_close(shifted, kernel.cross(jnp.array(X), jnp.array(Z)))


def test_mixture_of_frequency_zero_is_the_squared_exponential():
    bandwidths = 1.0 / (2.0 * np.pi * EACH)
    mixture = SpectralMixture([1.7], np.zeros((1, 3)), bandwidths[None])
    expected = RBF(1.7, EACH).cross(jnp.array(X), jnp.array(Z))
    assert_close(mixture.cross(jnp.array(X), jnp.array(Z)), expected)


def test_mixture_is_the_transform_of_its_spectral_density():
    """The mean of cos(2 pi s (x - z)) over frequencies s ~ N(mu, b^2), by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    s = 0.7 + 0.3 * nodes
    tau = X[:, :1] - Z[:, 0]
    expected = 1.7 * np.cos(2 * np.pi * tau[..., None] * s) @ (weights / weights.sum())
    mixture = SpectralMixture([1.7], [[0.7]], [[0.3]])
    assert_close(mixture.cross(jnp.array(X[:, :1]), jnp.array(Z[:, :1])), expected, "quadrature")


@pytest.mark.parametrize(
    "kernel",
    [RBF(1.0, np.ones(2)), Periodic(1.0, np.ones(2)), Periodic(1.0, 1.0, np.ones(2))],
)
def test_a_parameter_that_fits_no_column_is_refused(kernel):
    with pytest.raises(ValueError, match=r"2 values of .*, the inputs have 3 columns"):
        kernel.cross(jnp.array(X), jnp.array(Z))


def test_mixture_of_unequal_parts_is_refused():
    with pytest.raises(ValueError, match=r"shapes \(2,\), \(3, 1\) and \(2, 1\)"):
        SpectralMixture(np.ones(2), np.ones((3, 1)), np.ones((2, 1)))


def test_squared_distances_move_as_their_definition():
    """Tangents, slopes and second derivatives in both inputs and in the lengthscales."""

    def pointwise(X, Z, lengthscale):
        return jnp.sum(((X[:, None, :] - Z[None, :, :]) / lengthscale) ** 2, axis=2)

    at = jnp.array(X) + 30.0, jnp.array(Z) + 30.0, jnp.array(EACH)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(len(X), len(Z))))

    def weighed(function):
        return lambda *at: jnp.sum(weights * jnp.exp(-0.1 * function(*at)))

    functions = weighed(squared_distance), weighed(pointwise)
    every = (0, 1, 2)
    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        found, expected = (jax.jit(derivative(f, argnums=every))(*at) for f in functions)
        jax.tree.map(assert_close, found, expected)
    # one argument alone, of each in turn: the others do not move
    for one in every:
        found, expected = (jax.jit(jax.grad(f, argnums=one))(*at) for f in functions)
        assert_close(found, expected)


def test_squared_distances_of_one_lengthscale_move():
    f = lambda scale: jnp.sum(squared_distance(jnp.array(X), jnp.array(Z), scale))  # noqa: E731
    total = f(jnp.array(ONE))
    assert_close(jax.grad(f)(jnp.array(ONE)), -2.0 * total / ONE)
    assert_close(jax.grad(f)(jnp.array([ONE])), [-2.0 * total / ONE])
