"""Probabilities that one of several independent Gaussians is the largest."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.numerics.chunking import map_over_entries
from cavity.numerics.quadrature import Tilted, at_least
from cavity.numerics.special import LOG_2PI, scaled_ndtr_derivatives
from cavity.numerics.types import Array, Float, Scalar


@dataclasses.dataclass(frozen=True)
class TrapezoidalSettings:
    """Settings of the integral over one of the values.

    Attributes:
        entries: values that are worked on at a time.
        reach: how far nodes reach, in deviations.
        fewest: nodes at least.
        most: nodes at most.
        block: nodes that are worked on at a time.
        fine: largest (spacing of nodes / width of the narrowest integrand)^2: errors of the
            trapezoidal rule are next to exp(-2 pi^2 / fine).
        newton_steps: Newton steps to the mode, on which nodes are centred.
        product: factors multiplied before a logarithm is taken, so few that their product does
            not underflow in double precision.
        single_product: as many in single precision.
    """

    entries: int = 2048
    reach: float = 8.0
    fewest: int = 48
    most: int = 8192
    block: int = 16
    fine: float = 0.64
    newton_steps: int = 15
    product: int = 16
    single_product: int = 4

    @property
    def sharpest(self) -> float:
        """The sum of squared ratios of deviations that `most` nodes suffice for."""
        return self.fine * (self.most / (2.0 * self.reach)) ** 2 - 1.0


RULE = TrapezoidalSettings()
# For unit variances, as in averages over points. Results have ten digits.
UNIT_RULE = TrapezoidalSettings(reach=7.0, fine=0.9, newton_steps=8)


def log_largest(
    mean: Float[Array, "C ..."], var: Float[Array, "C ..."], y: Float[Array, "..."]
) -> Float[Array, "..."]:
    r"""Log probability that the y-th of independent Gaussians is the largest.

    $\int \mathcal N(x; m_y, v_y) \prod_{j \ne y} \Phi((x - m_j) / \sqrt{v_j})\, dx$ by the
    trapezoidal rule about the mode of the integrand, which is log-concave. Variances of the
    others count as at least (C - 1) / 168,000 of the y-th, where a sharper step would need ever
    more nodes; with a variance larger than that this moves the value, by 0.002 nats among 3
    classes, 0.01 among 10 and 0.03 among 30.

    References:
        Jylanki (2013), S83.
    """
    return _log_mean(mean, var, y)


def log_probability_of_first(
    f: Float[Array, "C ..."], y: Float[Array, "..."]
) -> Float[Array, "..."]:
    """`log_largest` where all variances are one."""
    return _log_mean(f, None, y)


def largest(
    mean: Float[Array, "C ..."], var: Float[Array, "C ..."] | None, y: Float[Array, "..."]
) -> Tilted:
    """`log_largest` with its slope and curvature in each mean.

    Where variances differ the number of nodes is not known when tracing, so that under `jit`
    these are differentiable forwards only.

    Args:
        mean: means.
        var: variances; None where all of them are one.
        y: which one is the largest.
    """
    shape = jnp.broadcast_shapes(jnp.shape(y), mean.shape[1:])

    def rows_first(x: Array) -> Array:
        return jnp.broadcast_to(x, (len(mean), *shape)).reshape(len(mean), -1).T

    def some(rows: tuple[Array, Array | None, Array]) -> tuple[Array, Array, Array]:
        found = _largest(rows[0].T, None if rows[1] is None else rows[1].T, rows[2])
        return found.log_mean, found.slope.T, found.curvature.T

    rows = rows_first(mean), None if var is None else rows_first(var), _flat(y, shape)
    value, *bends = map_over_entries(some, rows, RULE.entries)
    return Tilted(value.reshape(shape), *(x.T.reshape(-1, *shape) for x in bends))


def _flat(x: Array, shape: tuple[int, ...]) -> Float[Array, " n"]:
    return jnp.broadcast_to(x, shape).reshape(-1)


def _largest(
    mean: Float[Array, "C n"], var: Float[Array, "C n"] | None, y: Float[Array, " n"]
) -> Tilted:
    """`largest` of so many rows at once."""
    rule = UNIT_RULE if var is None else RULE
    race = _race(mean, jnp.ones_like(mean) if var is None else var, y, rule.newton_steps)
    count = _nodes(len(mean) - 1.0 if var is None else _sharpness(race), rule)
    step = 2.0 * rule.reach / (count - 1)

    def add(block: Array | int, total: tuple[Array, ...]) -> tuple[Array, ...]:
        numbers = jnp.asarray(block * rule.block + jnp.arange(rule.block), mean.dtype)
        value, first, second = jax.vmap(race.at)(step * numbers - rule.reach)
        # weights are relative to the largest so far
        top = jnp.maximum(total[0], jnp.max(value, axis=0))
        weight, scale = jnp.exp(value - top), jnp.exp(total[0] - top)
        by_mean = weight[:, None]
        terms = (weight, by_mean * first, by_mean * (second + first**2))
        sums = (scale * t + jnp.sum(x, axis=0) for t, x in zip(total[1:], terms, strict=True))
        return top, *sums

    none = jnp.zeros(race.mode.shape, mean.dtype)
    zero = jnp.zeros(race.gap.shape, mean.dtype)
    start = (none + jnp.finfo(mean.dtype).min, none, zero, zero)
    top, mass, slope, square = jax.lax.fori_loop(0, count // rule.block, add, start)
    slope, square = slope / mass, square / mass
    # it is log-concave in every mean, and rounding in far tails must not say otherwise
    curvature = jnp.minimum(square - slope**2, 0.0)
    return Tilted(top + jnp.log(mass) + jnp.log(step), slope, curvature)


@jax.custom_jvp
def _log_mean(mean: Array, var: Array | None, y: Array) -> Array:
    return largest(mean, var, y).log_mean


@_log_mean.defjvp
def _log_mean_jvp(at: tuple, by: tuple) -> tuple[Array, Array]:
    d_mean, d_var, _ = by
    value = largest(*at)
    change = value.slope * d_mean
    if d_var is not None:
        # the heat equation: what a variance does is half of what two derivatives in the mean do
        change = change + 0.5 * (value.curvature + value.slope**2) * d_var
    return value.log_mean, jnp.sum(change, axis=0)


def _nodes(sharpness: Any, rule: TrapezoidalSettings) -> Any:
    """Number of nodes for an integrand with this sum of squared ratios of deviations."""
    xp = np if isinstance(sharpness, float) else jnp  # known when tracing, or not
    blocks = xp.ceil(2.0 * rule.reach / rule.block * xp.sqrt((1.0 + sharpness) / rule.fine))
    limits = rule.fewest // rule.block, rule.most // rule.block
    count = rule.block * xp.clip(blocks, *limits).astype(int)
    return int(count) if xp is np else count


class _Others(NamedTuple):
    """The log product of the factors of all but the y-th, and its derivatives.

    Attributes:
        value: the log product.
        first: what each class adds to its slope in the y-th value.
        second: what each adds to its curvature.
        slope: the slope.
        curvature: the curvature.
    """

    value: Float[Array, "..."]
    first: Float[Array, "C ..."]
    second: Float[Array, "C ..."]
    slope: Float[Array, "..."]
    curvature: Float[Array, "..."]


class _Race(eqx.Module):
    """The integral over the y-th value, in its deviations t: what is left of the others."""

    own: Float[Array, "C ..."]
    gap: Float[Array, "C ..."]
    spread: Float[Array, "..."]  # the deviation of the y-th
    scale: Float[Array, "C ..."]  # deviations of the others
    mode: Float[Array, "..."]

    def at(self, offset: Array) -> tuple[Array, Array, Array]:
        """The log integrand, and the log of the rest's derivatives in each mean, t held."""
        t = self.mode + offset
        others = self.others(t)
        value = others.value - 0.5 * (t**2 + LOG_2PI)
        own = self.own > 0.0
        first = jnp.where(own, others.slope, -others.first)
        return value, first, jnp.where(own, others.curvature, others.second)

    def others(self, t: Array) -> _Others:
        """The log product of the others' factors, with derivatives in the y-th value."""
        move = self.spread * t

        def add(total: tuple[Array, ...], one: tuple[Array, ...]) -> tuple[tuple, tuple]:
            own, gap, scale = one
            x = gap + move / scale
            parts = scaled_ndtr_derivatives(x)
            value, r, curvature = (
                jnp.where(own > 0.0, neutral, part)
                for neutral, part in zip((1.0, 0.0, 0.0), parts, strict=True)
            )
            square = jnp.where(own > 0.0, 0.0, jnp.minimum(x, 0.0) ** 2)
            each = r / scale, curvature / scale**2
            change = square, *each
            added = (a + b for a, b in zip(total[1:], change, strict=True))
            return (total[0] * value, *added), each

        # a loop over classes: on a CPU, a sum over them of costly terms would not be vectorised
        count = RULE.single_product if t.dtype == jnp.float32 else RULE.product
        unroll = jax.default_backend() != "cpu"
        none = jnp.zeros(jnp.broadcast_shapes(t.shape, self.gap.shape[1:]), t.dtype)
        log, sums, each = none, (none, none, none), []
        for k in range(0, len(self.gap), count):
            some = (a[k : k + count] for a in (self.own, self.gap, self.scale))
            start = (none + 1.0, *sums)
            (product, *rest), found = jax.lax.scan(add, start, tuple(some), unroll=unroll)
            log, sums = log + jnp.log(product), tuple(rest)
            each.append(found)
        first, second = (jnp.concatenate(parts) for parts in zip(*each, strict=True))
        return _Others(log - 0.5 * sums[0], first, second, sums[1], sums[2])


def _race(mean: Array, var: Array, y: Array, steps: int) -> _Race:
    own = one_hot(y, mean)
    m, v = (jnp.sum(jnp.where(own > 0.0, x, 0.0), axis=0) for x in (mean, var))
    blunt = v * (len(mean) - 1.0) / RULE.sharpest
    # what is no variance marks the row as one without moments
    scale = jnp.sqrt(at_least(var, blunt))
    race = _Race(own, (m - mean) / scale, jnp.sqrt(v), scale, jnp.zeros_like(m))
    fixed = jax.lax.stop_gradient(race)

    def step(_: Array | int, t: Array) -> Array:
        others = fixed.others(t)
        slope = fixed.spread * others.slope - t
        return t - slope / (fixed.spread**2 * others.curvature - 1.0)

    mode = jax.lax.fori_loop(0, steps, step, jnp.zeros_like(m))
    return eqx.tree_at(lambda x: x.mode, race, mode)


def _sharpness(race: _Race) -> Scalar:
    """The sum of squared ratios of deviations, of the row where it is largest and finite."""
    ratio = jax.lax.stop_gradient(race.spread / race.scale)
    ratios = jnp.where(race.own > 0.0, 0.0, ratio**2)
    each = jnp.sum(ratios, axis=0)
    return jnp.max(jnp.where(jnp.isfinite(each), each, 0.0), initial=0.0)


def one_hot(y: Array, x: Float[Array, "C ..."]) -> Float[Array, "C ..."]:
    """1 at the entry of class y, where y may be one for several columns of x."""
    y = jnp.broadcast_to(y, jnp.broadcast_shapes(jnp.shape(y), x.shape[1:]))
    numbers = jnp.arange(x.shape[0]).reshape(-1, *(1,) * y.ndim)
    return (numbers == y).astype(x.dtype)
