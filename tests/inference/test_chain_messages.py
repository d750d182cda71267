"""Chains in natural form against dense Gaussians and the Kalman smoother."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cavity.inference.variables.chain_messages import (
    ChainMessages,
    chain_entropy,
    chain_from_moments,
    chain_marginals,
)
from tests.oracle import kalman
from tests.oracle.test_kalman import random_model
from tests.tolerances import assert_close

# series of 4, 1 and 3 states
LINK = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
T = len(LINK)


@functools.lru_cache
def random_chain(size):
    """A chain of strong couplings, proper because it is a sum of squares of neighbours."""
    rng = np.random.default_rng(size)
    P, C = np.zeros((T, size, size)), np.zeros((T, size, size))
    for t in range(T):
        square = rng.normal(size=(2 * size, 2 * size))
        square = square @ square.T + 0.3 * np.eye(2 * size)
        P[t] += square[size:, size:]
        if LINK[t]:
            P[t - 1] += square[:size, :size]
            C[t] = square[:size, size:]
    return rng.normal(size=(T, size)), P, C


def dense_precision(P, C):
    size = P.shape[1]
    whole = np.zeros((T * size, T * size))
    for t in range(T):
        now, last = slice(t * size, (t + 1) * size), slice((t - 1) * size, t * size)
        whole[now, now] = P[t]
        if t:
            whole[last, now], whole[now, last] = C[t], C[t].T
    return whole


def dense_moments(h, P, C):
    """Means, covariances, pair covariances and log-partition from a dense inverse."""
    size, whole = P.shape[1], dense_precision(P, C)
    cov = np.linalg.inv(whole)
    mean = cov @ h.ravel()
    log_det = np.linalg.slogdet(whole)[1]
    value = 0.5 * (h.ravel() @ mean - log_det + T * size * np.log(2 * np.pi))
    blocks = cov.reshape(T, size, T, size)
    single = np.stack([blocks[t, :, t] for t in range(T)])
    pairs = np.stack([LINK[t] * blocks[t - 1, :, t] for t in range(T)])
    return mean.reshape(T, size), single, pairs, value, cov


@jax.jit
def marginals_and_back(h, P, C):
    q = chain_marginals(ChainMessages(h, P, C, jnp.zeros(())))
    back = chain_from_moments(q.mean, q.cov, q.cross, jnp.asarray(LINK))
    return q, back, chain_entropy(q.cov, q.cross, jnp.asarray(LINK))


def marginals(h, P, C):
    return marginals_and_back(h, P, C)[0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_marginals_log_partition_entropy_and_the_way_back(size):
    h, P, C = random_chain(size)
    mean, cov, cross, value, whole = dense_moments(h, P, C)
    q, back, entropy = marginals_and_back(h, P, C)
    assert_close(q.mean, mean, "factorised")
    assert_close(q.cov, cov, "factorised")
    assert_close(q.cross, cross, "factorised")
    assert_close(q.log_partition, value, "factorised")
    assert_close(back.shift, h, "factorised")
    assert_close(back.precision, P, "factorised")
    assert_close(back.coupling, C, "factorised")
    # a density: its log scale is minus its log-partition
    assert_close(back.log_scale, -value, "factorised")
    log_det = np.linalg.slogdet(whole)[1]
    assert_close(jnp.sum(entropy), 0.5 * (T * size * (1 + np.log(2 * np.pi)) + log_det))


def test_terms_of_neighbours_alone_are_not_marginals():
    """Identity 32 of bui.md: the literal formula (3.37) is a pair's term times its neighbours' own
    marginals."""
    a, b = 1.0, -0.95
    P, C = np.full((T, 1, 1), 2 * a), np.full((T, 1, 1), b)
    P[0], P[-1], C[0] = 100.0 + a, a, 0.0
    h = np.zeros((T, 1))
    expected = np.linalg.inv(dense_precision(P, C))
    q = marginals(h, P, C)
    for t in range(2, T - 1):
        beside = a - b**2 / a  # the marginal of a neighbour's own term
        literal = np.linalg.inv([[a + beside, b], [b, a + beside]])
        assert abs(literal[1, 1] / expected[t, t] - 1.0) > 0.02
        assert_close(q.cov[t, 0, 0], expected[t, t], "factorised")
        assert_close(q.cross[t, 0, 0], expected[t - 1, t], "factorised")


def test_slopes_of_the_log_partition_are_moments_and_finite_differences():
    chain = tuple(jnp.asarray(x) for x in random_chain(2))

    @jax.jit
    def value(h, P, C):
        return chain_marginals(ChainMessages(h, P, C, jnp.zeros(()))).log_partition

    slopes = jax.jit(jax.grad(value, (0, 1, 2)))(*chain)
    curvature = jax.jit(jax.grad(lambda *c: jax.grad(value, 0)(*c)[3, 1], (0, 1, 2)))(*chain)
    first = jax.jit(lambda *c: chain_marginals(ChainMessages(*c, jnp.zeros(()))).mean[3, 1])
    mask = jnp.asarray(LINK)[:, None, None]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        d = [rng.normal(size=x.shape) for x in chain]
        d[1], d[2] = d[1] + np.swapaxes(d[1], 1, 2), d[2] * mask
        for fn, by in ((value, slopes), (first, curvature)):
            step = 1e-5
            ahead = fn(*(x + step * e for x, e in zip(chain, d, strict=True)))
            behind = fn(*(x - step * e for x, e in zip(chain, d, strict=True)))
            along = sum(jnp.sum(s * e) for s, e in zip(by, d, strict=True))
            assert_close(along, (ahead - behind) / (2 * step), "gradient", scale=1.0)
    mean, cov, _, _, _ = dense_moments(*random_chain(2))
    assert_close(slopes[0], mean, "factorised")
    assert_close(slopes[1], -0.5 * (cov + mean[:, :, None] * mean[:, None]), "factorised")


@pytest.mark.slow
def test_a_chain_that_is_not_proper_is_not_a_number():
    h, P, C = random_chain(1)
    q = marginals(h, P - 3.0 * np.max(P), C)
    assert np.isnan(q.log_partition)


def test_states_of_the_kalman_smoother():
    """Terms of a linear model as a chain, at small noise too."""
    rng = np.random.default_rng(3)
    for noise in (1.0, 1e-4):
        model, y = random_model(rng, 2, 3, 1), rng.normal(size=(T, 3))
        model = kalman.LinearModel(model.A, noise * model.Q, model.C, model.R, model.m0, model.v0)
        expected = kalman.smooth(model, y, LINK)
        precise = np.diag(1 / model.Q)
        P = np.tile(model.C.T @ np.diag(1 / model.R) @ model.C, (T, 1, 1))
        h = y @ np.diag(1 / model.R) @ model.C
        C = np.zeros((T, 2, 2))
        for t in range(T):
            if LINK[t]:
                P[t] += precise
                P[t - 1] += model.A.T @ precise @ model.A
                C[t] = -model.A.T @ precise
            else:
                P[t] += np.diag(1 / model.v0)
                h[t] += model.m0 / model.v0
        q = marginals(h, P, C)
        assert_close(q.mean, expected.mean, "factorised")
        assert_close(q.cov, expected.cov, "factorised")
        assert_close(q.cross, expected.cross, "factorised", scale=1.0)


@pytest.mark.slow
def test_a_hundred_thousand_steps_take_about_a_hundred_times_a_thousand():
    def chain(steps):
        eye = jnp.broadcast_to(jnp.eye(2), (steps, 2, 2))
        linked = (jnp.arange(steps) % 500 > 0)[:, None, None]
        return ChainMessages(jnp.ones((steps, 2)), 2.0 * eye, -0.9 * eye * linked, jnp.zeros(()))

    def seconds(steps):
        @jax.jit
        def slopes(chain):
            return jax.value_and_grad(lambda c: chain_marginals(c).log_partition)(chain)

        data = chain(steps)
        jax.block_until_ready(slopes(data))
        start = time.perf_counter()
        value, slope = jax.block_until_ready(slopes(data))
        assert np.isfinite(value)
        assert np.all(np.isfinite(slope.shift))
        return time.perf_counter() - start

    short, long = min(seconds(1000) for _ in range(3)), seconds(100_000)
    assert long < 400 * short
