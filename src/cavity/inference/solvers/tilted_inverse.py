r"""The cavity whose tilted distribution has given moments: the tilted distribution, inverted.

A tilted distribution is $p(y \mid f)^a \exp(b z - \tfrac12 c z^2)$, with z the latent value less
the mean that it is to have, b the *shift* and c the *precision* of the cavity. Among all shifts
and precisions those that give it mean zero and variance v make

$$\log \int p(y \mid f)^a e^{b z - c z^2 / 2}\, dz + \tfrac12 c v$$

least, which is convex in them. Where v is larger than what the density has by itself, and the
mean is near its centre, the cavity is wide and far off: it adds a small mass there that makes up
for what variance is missing. As the mean passes the centre, the mean of the cavity goes to
infinity on one side and comes back from the other; its shift and precision only pass zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from cavity.inference.factors.base import PoweredDensity
from cavity.inference.solvers.settings import TiltedSettings
from cavity.likelihoods.by_quadrature import quadrature_measure
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Bool, Float, Int


class TiltedInverse(NamedTuple):
    """Tilted distributions of given moments.

    Attributes:
        shift: b of each row.
        precision: c of each row.
        value: minus the least value of the function above; convex in the moments.
        spread: variances and covariance of z and -z²/2, in the order zz, z with -z²/2, and last.
        mismatch: how far the moments are from those asked for, in deviations.
    """

    shift: Float[Array, "N P"]
    precision: Float[Array, "N P"]
    value: Float[Array, "N P"]
    spread: tuple[Float[Array, "N P"], Float[Array, "N P"], Float[Array, "N P"]]
    mismatch: Float[Array, "N P"]


class _Dual(NamedTuple):
    """The convex function at a shift and precision: value, slopes and curvature."""

    value: Array
    by_shift: Array
    by_precision: Array
    spread: tuple[Array, Array, Array]


class _State(NamedTuple):
    shift: Array
    precision: Array
    dual: _Dual
    active: Bool[Array, "N P"]
    steps: Int[Array, ""]


def invert_tilted(
    density: PoweredDensity,
    moments: tuple[Array, Array],
    start: tuple[Array, Array],
    settings: TiltedSettings = TiltedSettings(),
) -> TiltedInverse:
    """Shifts and precisions that give the tilted distributions these moments.

    Args:
        density: the densities of all rows and their powers.
        moments: the means asked for, (N, P), offsets of the function left out, and the variances.
        start: shifts and precisions to start from. Rows that get nowhere from there start anew
            from a Gaussian.
        settings: tolerances and steps.
    """
    _, var = moments
    first = _minimise(density, moments, start, settings.steps, settings)
    failed = ~(_mismatch(first.dual, var) < settings.accepted)
    anew = jnp.where(failed, 0.0, first.shift), jnp.where(failed, 1.0 / var, first.precision)
    end = _minimise(density, moments, anew, settings.steps_anew, settings)
    dual = end.dual
    return TiltedInverse(end.shift, end.precision, -dual.value, dual.spread, _mismatch(dual, var))


def _mismatch(dual: _Dual, var: Array) -> Array:
    return jnp.maximum(jnp.abs(dual.by_shift) / jnp.sqrt(var), jnp.abs(dual.by_precision) / var)


def _evaluate(
    density: PoweredDensity, moments: tuple[Array, Array], shift: Array, precision: Array
) -> _Dual:
    """The function and its derivatives, by quadrature about the cavity and the density."""
    (mean, var), rows = moments, density.rows
    likelihood, power, offset = density.likelihood, density.power, density.offset
    centre, spread = mean + offset + shift / precision, 1.0 / precision
    nodes, log_weight = quadrature_measure(likelihood, centre, spread, rows.y, power, rows.columns)
    value = power * likelihood.log_prob(nodes, rows.y, **rows.columns)
    log_density = jnp.where(rows.site_presence > 0.0, value, 0.0) + log_weight
    gaussian = 0.5 * (shift**2 / precision - jnp.log(precision) + LOG_2PI)
    p = jax.nn.softmax(log_density, axis=0)
    z = nodes - (mean + offset)
    first, second = jnp.sum(p * z, axis=0), jnp.sum(p * z**2, axis=0)
    a, b = z - first, -0.5 * (z**2 - second)
    return _Dual(
        jax.nn.logsumexp(log_density, axis=0) + gaussian + 0.5 * precision * var,
        first,
        0.5 * (var - second),
        (jnp.sum(p * a**2, axis=0), jnp.sum(p * a * b, axis=0), jnp.sum(p * b**2, axis=0)),
    )


def _minimise(
    density: PoweredDensity,
    moments: tuple[Array, Array],
    start: tuple[Array, Array],
    max_steps: int,
    settings: TiltedSettings,
) -> _State:
    """Newton's method with steps cut until the function falls, each row by itself."""
    _, var = moments

    def step(state: _State) -> _State:
        dual = state.dual
        zz, zs, ss = dual.spread
        determinant = jnp.maximum(zz * ss - zs**2, 1e-14 * zz * ss)
        direction = (
            -(ss * dual.by_shift - zs * dual.by_precision) / determinant,
            -(zz * dual.by_precision - zs * dual.by_shift) / determinant,
        )
        gain = dual.by_shift * direction[0] + dual.by_precision * direction[1]
        # precisions stay positive
        fall = jnp.maximum(-direction[1], 1e-300)
        longest = jnp.where(direction[1] < 0.0, 0.9 * state.precision / fall, 1)

        def trial(length: Array) -> tuple[Array, Array, _Dual, Array]:
            b, c = state.shift + length * direction[0], state.precision + length * direction[1]
            new = _evaluate(density, moments, b, c)
            slack = 1e-13 * (1.0 + jnp.abs(dual.value))
            falls = new.value <= dual.value + 1e-4 * length * gain + slack
            return b, c, new, falls | ~state.active

        def too_long(now: tuple) -> Array:
            return (now[1] < settings.max_cuts) & ~jnp.all(now[2][3])

        def cut(now: tuple) -> tuple:
            length, count, tried = now
            length = jnp.where(tried[3], length, 0.4 * length)
            return length, count + 1, trial(length)

        length = jnp.where(state.active, jnp.minimum(1.0, longest), 0.0)
        tried = jax.lax.while_loop(too_long, cut, (length, 0, trial(length)))[2]
        moves = state.active & tried[3]
        old = (state.shift, state.precision, dual)
        b, c, new = jax.tree.map(lambda new, old: jnp.where(moves, new, old), tried[:3], old)
        active = moves & (_mismatch(new, var) > settings.tolerance)
        return _State(b, c, new, active, state.steps + 1)

    dual = _evaluate(density, moments, *start)
    active = _mismatch(dual, var) > settings.tolerance
    begin = _State(*start, dual, active, jnp.zeros((), int))
    return jax.lax.while_loop(lambda s: jnp.any(s.active) & (s.steps < max_steps), step, begin)
