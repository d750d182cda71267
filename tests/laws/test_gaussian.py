"""Laws of Gaussians in natural parameters, at parameters chosen by hypothesis."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cavity.numerics.gaussian import Dense, Diagonal, kl_divergence
from tests.oracle import dense
from tests.tolerances import assert_close

M = 3
few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10**6)
powers = st.floats(0.05, 1.0)


def random_dense(seed, replicas=1):
    """A normalisable Gaussian with a condition of at most some thousands."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(M, M))
    precision = root @ root.T + 10.0 ** rng.uniform(-2, 1) * np.eye(M)
    return Dense(jnp.asarray(rng.normal(size=(replicas, M))), jnp.asarray(precision))


def random_diagonal(seed, size=5):
    rng = np.random.default_rng(seed)
    shift, precision = rng.normal(size=size), 10.0 ** rng.uniform(-3, 3, size)
    return Diagonal(jnp.asarray(shift), jnp.asarray(precision))


def log_density(g, v):
    """log of the unnormalised density at v."""
    v = np.asarray(v)
    return float(g.shift[0] @ v - 0.5 * v @ g.precision @ v)


@few
@given(seeds, seeds)
def test_products_and_quotients_are_those_of_densities(a, b):
    p, q = random_dense(a), random_dense(b)
    v = np.random.default_rng([a, b]).normal(size=M)
    assert_close(log_density(p * q, v), log_density(p, v) + log_density(q, v), scale=100.0)
    assert_close(log_density(p / q, v), log_density(p, v) - log_density(q, v), scale=100.0)
    again = (p * q) / q
    assert_close(again.shift, p.shift, scale=10.0)
    assert_close(again.precision, p.precision, scale=100.0)


@few
@given(seeds, powers)
def test_powers_are_those_of_densities(seed, power):
    p = random_dense(seed)
    v = np.random.default_rng(seed).normal(size=M)
    assert_close(log_density(p**power, v), power * log_density(p, v), scale=10.0)
    both = (p**power) * (p ** (1.0 - power))
    assert_close(both.precision, p.precision, scale=10.0)


@few
@given(seeds)
def test_log_partition_is_that_of_numpy(seed):
    p = random_dense(seed, replicas=2)
    each = [dense.log_partition(np.asarray(p.precision), np.asarray(h)) for h in p.shift]
    assert_close(p.log_partition(), sum(each), "factorised", scale=10.0)
    d = random_diagonal(seed)
    assert_close(
        d.log_partition(),
        dense.log_partition(np.diag(d.precision), np.asarray(d.shift)),
        "factorised",
        scale=10.0,
    )


@few
@given(seeds)
def test_moments_are_derivatives_of_the_log_partition(seed):
    """Mean = dPhi/dh; covariance = inverse precision; unit density at the normaliser."""
    p = random_dense(seed)
    mean, cov = p.moments()
    step = 1e-5
    for i in range(M):
        h = p.shift.at[0, i].add(step), p.shift.at[0, i].add(-step)
        high, low = (Dense(x, p.precision).log_partition() for x in h)
        assert_close((high - low) / (2 * step), mean[0, i], "gradient", scale=10.0)
    assert_close(cov @ p.precision, np.eye(M), "factorised")
    d = random_diagonal(seed)
    assert_close(d.moments()[0], np.asarray(d.shift) / np.asarray(d.precision))


@few
@given(seeds)
def test_jylanki_07_slopes_of_the_log_partition_are_moments(seed):
    """jylanki 7: dPhi/dh = E[v] and dPhi/dP = -E[v v'] / 2, not -P⁻¹ / 2 alone."""
    p = random_dense(seed)
    slope = jax.grad(lambda g: g.log_partition())(p)
    cov = np.linalg.inv(np.asarray(p.precision))
    mean = cov @ np.asarray(p.shift[0])
    assert_close(slope.shift[0], mean, "factorised", scale=10.0)
    both = np.asarray(slope.precision)
    expected = -0.5 * (cov + np.outer(mean, mean))
    assert_close(0.5 * (both + both.T), expected, "factorised", scale=10.0)


@few
@given(seeds)
def test_jylanki_07_curvature_of_the_log_partition_is_a_covariance(seed):
    """jylanki 7: that of v and -v²/2, so it is positive definite."""
    d = random_diagonal(seed, size=1)
    place = jnp.concatenate([d.shift, d.precision])
    H = jax.hessian(lambda x: Diagonal(x[:1], x[1:]).log_partition())(place)
    v = 1.0 / float(d.precision[0])
    m = v * float(d.shift[0])
    expected = np.array([[v, -m * v], [-m * v, 0.5 * v**2 + m**2 * v]])
    assert_close(H, expected, "factorised")
    scale = np.sqrt(np.diag(H))
    assert np.linalg.eigvalsh(H / np.outer(scale, scale))[0] > 0.0


@few
@given(seeds, seeds)
def test_log_partition_of_a_product_is_a_predictive_density(a, b):
    """Phi(p q) - Phi(p) - Phi(q) is log N(m_p; m_q, V_p + V_q)."""
    p, q = random_dense(a), random_dense(b)
    (m_p, V_p), (m_q, V_q) = p.moments(), q.moments()
    expected = dense.gaussian_log_density(
        np.asarray(m_p[0]), np.asarray(m_q[0]), np.asarray(V_p + V_q)
    )
    value = (p * q).log_partition() - p.log_partition() - q.log_partition()
    assert_close(value, expected, "factorised", scale=100.0)


@few
@given(seeds, seeds)
def test_bui_03_kl_divergence(a, b):
    """bui 3: never negative, zero for equals, and the closed form; sums over replicas."""
    p, q = random_dense(a, replicas=2), random_dense(b, replicas=2)
    value = float(kl_divergence(q, p))
    assert value >= -1e-9
    assert abs(float(kl_divergence(p, p))) < 1e-8
    (m_q, V_q), (m_p, V_p) = q.moments(), p.moments()
    expected = sum(
        dense.gaussian_kl(np.asarray(m_q[r] - m_p[r]), np.asarray(V_q), np.asarray(V_p))
        for r in range(2)
    )
    assert_close(value, expected, "factorised", scale=1.0 + abs(expected))


@few
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(0.2, 5.0), st.floats(0.2, 5.0))
def test_bui_03_kl_divergence_is_its_integral(m, n, v, w):
    """bui 3: against a fine sum over the line."""
    q = Dense(jnp.array([[m / v]]), jnp.array([[1 / v]]))
    p = Dense(jnp.array([[n / w]]), jnp.array([[1 / w]]))
    x = np.linspace(m - 12 * np.sqrt(v), m + 12 * np.sqrt(v), 20001)
    log_q = -0.5 * (np.log(2 * np.pi * v) + (x - m) ** 2 / v)
    log_p = -0.5 * (np.log(2 * np.pi * w) + (x - n) ** 2 / w)
    integral = np.sum(np.exp(log_q) * (log_q - log_p)) * (x[1] - x[0])
    assert_close(float(kl_divergence(q, p)), integral, "quadrature", scale=1.0)


def divergence(p, q, power):
    """The unnormalised power divergence of two Gaussians with masses exp Phi (bui S6)."""
    mass_p, mass_q = (np.exp(float(g.log_partition())) for g in (p, q))
    mixed = np.exp(float((p**power * q ** (1.0 - power)).log_partition()))
    return (power * mass_p + (1 - power) * mass_q - mixed) / (power * (1 - power))


def unnormalised_kl(p, q):
    mass_p, mass_q = (np.exp(float(g.log_partition())) for g in (p, q))
    log_ratio = float(p.log_partition() - q.log_partition())
    return mass_p * (float(kl_divergence(p, q)) + log_ratio) + mass_q - mass_p


def of_mass_about_one(seed):
    rng = np.random.default_rng(seed)
    root = 0.5 * rng.normal(size=(M, M))
    precision = root @ root.T + 2.0 * np.pi * np.eye(M)
    return Dense(jnp.asarray(rng.normal(size=(1, M))), jnp.asarray(precision))


@few
@given(seeds, seeds)
def test_bui_03_power_divergences_bridge_both_kl(a, b):
    """bui 3: KL(p q) at power 1, KL(q p) as it goes to 0, Hellinger's at a half; all >= 0."""
    p, q = of_mass_about_one(a), of_mass_about_one(b)
    for power in (0.1, 0.5, 0.9):
        assert divergence(p, q, power) >= -1e-12
    assert unnormalised_kl(p, q) >= -1e-12
    for near, expected in ((1 - 1e-6, unnormalised_kl(p, q)), (1e-6, unnormalised_kl(q, p))):
        assert_close(divergence(p, q, near), expected, "gradient", scale=1.0)
    masses = sum(np.exp(float(g.log_partition())) for g in (p, q))
    overlap = np.exp(float((p**0.5 * q**0.5).log_partition()))
    hellinger = 2.0 * (masses - 2.0 * overlap)  # 2 ∫ (√p - √q)²
    assert_close(divergence(p, q, 0.5), hellinger, "factorised", scale=1.0)


def test_a_gaussian_that_is_not_normalisable_says_so():
    assert np.isnan(Dense(jnp.zeros((1, 2)), -jnp.eye(2)).log_partition())
    assert np.isnan(Diagonal(jnp.zeros(2), jnp.array([1.0, -1.0])).log_partition())
