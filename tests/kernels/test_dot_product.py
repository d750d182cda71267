"""Kernels with a centre against their definitions, one pair of inputs at a time."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.kernels import ArcCosine, Linear, NeuralNetwork, Polynomial
from cavity.parameters import FIXED, bijections
from tests.oracle import kernels as oracle
from tests.tolerances import assert_close

RNG = np.random.default_rng(12)
X, Z = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
ONE, EACH = 0.8, np.array([0.5, 1.2, 3.0])
CENTRE = np.array([0.3, -1.0, 0.0])

CASES = [
    *[(Linear, oracle.linear, (weight,)) for weight in (ONE, EACH)],
    *[(Polynomial, oracle.polynomial, (1.7, EACH, 0.4, degree)) for degree in (1, 2, 3)],
    (Polynomial, oracle.polynomial, (1.7, ONE, 0.0, 2)),
    *[(ArcCosine, oracle.arc_cosine, (1.7, EACH, 0.4, order)) for order in (0, 1, 2)],
    (ArcCosine, oracle.arc_cosine, (1.7, ONE, 0.4, 1)),
    (NeuralNetwork, oracle.neural_network, (1.7, EACH, 0.4)),
    (NeuralNetwork, oracle.neural_network, (1.7, ONE, 0.4)),
]
each_case = pytest.mark.parametrize(("kernel", "pointwise", "parameters"), CASES)


@pytest.mark.sampled(12)
@each_case
@pytest.mark.parametrize("centre", [0.0, CENTRE], ids=["origin", "centre"])
def test_cross_and_diag_are_the_definition(kernel, pointwise, parameters, centre):
    def k(x, z):
        return pointwise(x, z, *parameters, centre)

    made = kernel(*parameters, centre)
    assert_close(made.cross(jnp.array(X), jnp.array(Z)), oracle.matrix(k, X, Z))
    assert_close(made.diag(jnp.array(X)), [k(x, x) for x in X], "factorised")


@each_case
def test_offset_of_a_million_is_undone_by_the_centre(kernel, pointwise, parameters):
    far_X, far_Z, centre = X + 1e6, Z + 1e6, CENTRE + 1e6  # rounded: the oracle sees the same
    expected = oracle.matrix(lambda x, z: pointwise(x, z, *parameters, centre), far_X, far_Z)
    actual = kernel(*parameters, centre).cross(jnp.array(far_X), jnp.array(far_Z))
    assert_close(actual, expected, "factorised")


@pytest.mark.parametrize("order", [0, 1, 2])
def test_arc_cosine_is_the_mean_of_its_units(order):
    """2 E[(w.x)^n (w.z)^n, both positive] over w ~ N(0, I), in polar coordinates."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x, z = np.array([1.0, 0.7]), np.array([1.0, -1.9])  # with the bias in front
    angle = math.acos(x @ z / np.linalg.norm(x) / np.linalg.norm(z))
    half = (math.pi - angle) / 2
    phi = angle / 2 + half * nodes  # from angle - pi/2 to pi/2
    integral = half * weights @ (np.cos(phi) * np.cos(phi - angle)) ** order
    lengths = np.linalg.norm(x) * np.linalg.norm(z)
    expected = 2**order * math.factorial(order) / math.pi * lengths**order * integral
    k = ArcCosine(order=order).cross(jnp.array([x[1:]]), jnp.array([z[1:]]))
    assert_close(k[0, 0], expected, "quadrature")


def test_neural_network_is_the_mean_of_its_units():
    """E[erf(u) erf(v)] over the jointly normal inputs u, v of a unit."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    a, b = 0.7, -0.4
    cov = np.array([[1 + a * a, 1 + a * b], [1 + a * b, 1 + b * b]])
    L = np.linalg.cholesky(cov)
    erf = np.vectorize(math.erf)
    u, v = L[0, 0] * nodes[:, None], L[1, 0] * nodes[:, None] + L[1, 1] * nodes[None, :]
    expected = weights @ (erf(u) * erf(v)) @ weights / weights.sum() ** 2
    k = NeuralNetwork().cross(jnp.array([[a]]), jnp.array([[b]]))
    assert_close(k[0, 0], expected, "quadrature")


def test_neural_network_has_finite_gradients_far_away():
    """Where the argument of the arcsine rounds to 1."""
    far = jnp.array([[1e9], [1.1e9], [-1e9]])
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(NeuralNetwork().cross(x, far))))(far)
    assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("order", [1, 2])
def test_arc_cosine_slope_at_equal_inputs(order):
    """The slope of k(x, z) in x at z = x is half the slope of k(x, x)."""
    kernel, x = ArcCosine(1.7, EACH, 0.4, order, CENTRE), jnp.array(X[:1])
    slope = jax.jit(jax.grad(lambda a: kernel.cross(a, x)[0, 0]))(x)
    assert_close(slope, 0.5 * jax.jit(jax.grad(lambda a: kernel.diag(a)[0]))(x), "factorised")


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("columns", [1, 3])
def test_arc_cosine_keeps_its_digits_where_angles_vanish(order, columns):
    apart = RNG.normal(size=(7, columns)) * 10.0 ** -np.arange(0.0, 14.0, 2.0)[:, None]
    near = X[:, :columns] + apart
    parameters = 1.7, EACH[:columns], 0.4, order
    K = ArcCosine(*parameters).cross(jnp.array(X[:, :columns]), jnp.array(near))
    expected = oracle.matrix(
        lambda x, z: oracle.arc_cosine(x, z, *parameters, 0.0), X[:, :columns], near
    )
    np.testing.assert_allclose(K, expected, rtol=1e-13)


@pytest.mark.parametrize("apart", [1.0, 1e-5, 1e-10])
def test_slopes_of_covariances_where_angles_vanish(apart):
    """With one column the angle is arctan(√w z) - arctan(√w x), whose slope is in closed form."""
    w, x, z = 0.7, 1.3, 1.3 + apart
    change = (z - x) * (1 - w * x * z) / (2 * math.sqrt(w) * (1 + w * x**2) * (1 + w * z**2))

    def covariance(weight):
        kernel = ArcCosine(weight_variance=weight, order=0)
        return kernel.cross(jnp.array([[x]]), jnp.array([[z]]))[0, 0]

    assert_close(jax.jit(jax.grad(covariance))(w), -change / math.pi)


def test_what_the_variance_makes_superfluous_is_not_learned():
    assert bijections(Polynomial()).offset == FIXED
    assert bijections(ArcCosine()).bias_variance == FIXED
    assert all(bijections(k()).centre == FIXED for k in (Linear, Polynomial, NeuralNetwork))
    rescaled = Polynomial(1.7 * 2.0**3, EACH / 2.0, 0.2, 3)
    K = Polynomial(1.7, EACH, 0.4, 3).cross(jnp.array(X), jnp.array(Z))
    assert_close(rescaled.cross(jnp.array(X), jnp.array(Z)), K)


@pytest.mark.parametrize("kernel", [Linear(np.ones(2)), Polynomial(1.0, np.ones(2))])
def test_a_parameter_that_fits_no_column_is_refused(kernel):
    with pytest.raises(ValueError, match="2 values of weight, the inputs have 3 columns"):
        kernel.cross(jnp.array(X), jnp.array(Z))
    with pytest.raises(ValueError, match="2 values of weight, the inputs have 3 columns"):
        kernel.diag(jnp.array(X))


@pytest.mark.parametrize("degree", [0, -1])
def test_impossible_degree_is_refused(degree):
    with pytest.raises(ValueError, match=f"degree .* given {degree}"):
        Polynomial(degree=degree)


@pytest.mark.parametrize("order", [-1, 3])
def test_impossible_order_is_refused(order):
    with pytest.raises(ValueError, match=f"0, 1 or 2, given {order}"):
        ArcCosine(order=order)
