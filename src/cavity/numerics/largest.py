"""Which of several independent Gaussians is the largest."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.quadrature import Tilted
from cavity.numerics.special import log_ndtr, log_ndtr_derivatives
from cavity.numerics.types import Array, Float

# Nodes of the integral over one of the values, how far they reach in its deviations, and how many
# do where all variances are equal.
NODES, REACH, FEW = 256, 9.0, 48
# Nodes where a value is more than this many times as uncertain as another.
MANY, STEEP = 4096, 8.0
# Newton steps to where they are centred, and nodes worked on at a time.
STEPS, TOGETHER = 15, 16


def log_largest(
    mean: Float[Array, "C ..."],
    var: Float[Array, "C ..."],
    y: Float[Array, "..."],
    *,
    nodes: int = NODES,
) -> Float[Array, "..."]:
    r"""Log probability that the y-th of independent Gaussians is the largest.

    $\int \mathcal N(x; m_y, v_y) \prod_{j \ne y} \Phi((x - m_j) / \sqrt{v_j})\, dx$ by the
    trapezoidal rule about the mode of the integrand, which is log-concave.

    References:
        Jylanki (2013), S83.
    """

    def by(count: int) -> Array:
        race = _race(mean, var, y, count)
        values = jax.lax.map(race.log_integrand, race.nodes, batch_size=TOGETHER)
        return logsumexp(values, axis=0) + race.log_step

    return _as_finely_as_need_be(by, var, y, nodes)


def largest(
    mean: Float[Array, "C ..."],
    var: Float[Array, "C ..."],
    y: Float[Array, "..."],
    *,
    nodes: int = NODES,
) -> Tilted:
    """`log_largest` with its slope and curvature in each mean."""
    return _as_finely_as_need_be(lambda count: _largest(mean, var, y, count), var, y, nodes)


def _as_finely_as_need_be(by: Any, var: Array, y: Array, nodes: int) -> Any:
    """What a number of nodes gives: more where one value is far more uncertain than others."""
    if nodes != NODES:
        return by(nodes)
    own = one_hot(y, var)
    steep = jnp.sum(jnp.where(own > 0.0, var, 0.0), axis=0) > STEEP**2 * jnp.min(var, axis=0)
    return jax.lax.cond(jnp.any(steep), lambda: by(MANY), lambda: by(NODES))


def _largest(mean: Array, var: Array, y: Array, nodes: int) -> Tilted:
    race = _race(mean, var, y, nodes)
    values = jax.lax.map(race.log_integrand, race.nodes, batch_size=TOGETHER)
    log_mean = logsumexp(values, axis=0)

    def add(total: tuple[Array, Array], part: tuple[Array, Array]) -> tuple[tuple, None]:
        offset, value = part
        first, second = race.slopes(offset)
        weight = jnp.exp(value - log_mean)
        return (total[0] + weight * first, total[1] + weight * (second + first**2)), None

    zero = jnp.zeros(race.gap.shape, mean.dtype)
    (slope, square), _ = jax.lax.scan(add, (zero, zero), (race.nodes, values))
    return Tilted(log_mean + race.log_step, slope, square - slope**2)


class _Race(eqx.Module):
    """The integral over the y-th value, in its deviations t: what is left of the others."""

    own: Float[Array, "C ..."]
    gap: Float[Array, "C ..."]
    ratio: Float[Array, "C ..."]
    scale: Float[Array, "C ..."]  # deviations of the others
    mode: Float[Array, "..."]
    nodes: Float[Array, " K"]
    log_step: Float[Array, ""]

    def log_rest(self, t: Array) -> Array:
        each = log_ndtr(self.gap + self.ratio * t)
        return jnp.sum(jnp.where(self.own > 0.0, 0.0, each), axis=0)

    def log_integrand(self, offset: Array) -> Array:
        t = self.mode + offset
        return self.log_rest(t) - 0.5 * (t**2 + LOG_2PI)

    def hazards(self, t: Array) -> tuple[Array, Array]:
        """First and second derivatives of each log factor in its argument."""
        x = self.gap + self.ratio * t
        _, *both = log_ndtr_derivatives(x)
        first, second = (jnp.where(self.own > 0.0, 0.0, each) for each in both)
        return first, second

    def slopes(self, offset: Array) -> tuple[Array, Array]:
        """Derivatives of the log of the rest in each mean, where the y-th value is held in t."""
        r, bend = self.hazards(self.mode + offset)
        first, second = r / self.scale, bend / self.scale**2
        total = jnp.sum(first, axis=0), jnp.sum(second, axis=0)
        own = self.own > 0.0
        return jnp.where(own, total[0], -first), jnp.where(own, total[1], second)


def _race(mean: Array, var: Array, y: Array, nodes: int) -> _Race:
    own = one_hot(y, mean)
    m, v = (jnp.sum(jnp.where(own > 0.0, x, 0.0), axis=0) for x in (mean, var))
    scale = jnp.sqrt(var)
    offsets = jnp.linspace(-REACH, REACH, nodes, dtype=mean.dtype)
    log_step = jnp.log(offsets[1] - offsets[0])
    zero = jnp.zeros_like(m)
    race = _Race(own, (m - mean) / scale, jnp.sqrt(v) / scale, scale, zero, offsets, log_step)
    fixed = jax.lax.stop_gradient(race)

    def step(_: Array | int, t: Array) -> Array:
        r, bend = fixed.hazards(t)
        slope = jnp.sum(fixed.ratio * r, axis=0) - t
        return t - slope / (jnp.sum(fixed.ratio**2 * bend, axis=0) - 1.0)

    mode = jax.lax.fori_loop(0, STEPS, step, zero)
    return eqx.tree_at(lambda x: x.mode, race, mode)


def one_hot(y: Array, x: Float[Array, "C ..."]) -> Float[Array, "C ..."]:
    """1 at the entry of class y, where y may be one for several columns of x."""
    y = jnp.broadcast_to(y, jnp.broadcast_shapes(jnp.shape(y), x.shape[1:]))
    numbers = jnp.arange(x.shape[0]).reshape(-1, *(1,) * y.ndim)
    return (numbers == y).astype(x.dtype)
