r"""The cavity whose tilted distribution has given moments: the tilted distribution, inverted.

A tilted distribution is $p(y \mid f)^a \exp(b z - \tfrac12 c z^2)$, with z the latent value less
the mean that it is to have, b the *push* and c the *precision*. Among all pushes and precisions
those that give it mean zero and variance v make

$$\log \int p(y \mid f)^a e^{b z - c z^2 / 2}\, dz + \tfrac12 c v$$

least, which is convex in them. Where v is larger than what the density has by itself, and the
mean is near its centre, the cavity is wide and far off: it adds a small mass there that makes up
for what variance is missing. As the mean passes the centre, the cavity goes off on one side and
comes back from the other. Push and precision only pass zero, so that nothing is lost on the way.
"""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import PowerMeanTerm
from cavity.inference.factors.site import SiteFactor
from cavity.inference.graph.base import AbstractProjectedView
from cavity.likelihoods.by_quadrature import quadrature_measure
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Bool, Float, Int

# How near to the moments asked for, in deviations; what counts as near.
TIGHT, NEAR = 1e-11, 1e-8
# Newton steps from where the last ones ended, and from a Gaussian; cuts of one step.
AGAIN, ANEW, CUTS = 25, 200, 40


class Tilting(NamedTuple):
    """Tilted distributions of given moments.

    Attributes:
        push: b of each row.
        precision: c of each row.
        value: minus the least value of the function above; convex in the moments.
        spread: variances and covariance of z and -z²/2, in the order zz, z with -z²/2, and last.
        miss: how far the moments are from those asked for, in deviations.
    """

    push: Float[Array, "N P"]
    precision: Float[Array, "N P"]
    value: Float[Array, "N P"]
    spread: tuple[Float[Array, "N P"], Float[Array, "N P"], Float[Array, "N P"]]
    miss: Float[Array, "N P"]


class _Seen(NamedTuple):
    """The function at a push and precision: value, slopes and curvature."""

    value: Array
    by_push: Array
    by_precision: Array
    spread: tuple[Array, Array, Array]


class _State(NamedTuple):
    push: Array
    precision: Array
    seen: _Seen
    live: Bool[Array, "N P"]
    steps: Int[Array, ""]


def tilting(factor: SiteFactor, mean: Array, var: Array, push: Array, precision: Array) -> Tilting:
    """Pushes and precisions that give the tilted distributions these moments.

    Args:
        factor: private scalar sites of power means, on the values of the function themselves.
        mean: the means asked for, (N, P), offsets of the function left out.
        var: the variances asked for.
        push: where to start. Rows that get nowhere from there start anew from a Gaussian.
        precision: the same.
    """
    near = _least(factor, mean, var, push, precision, AGAIN)
    lost = ~(_miss(near.seen, var) < NEAR)
    start = jnp.where(lost, 0.0, near.push), jnp.where(lost, 1.0 / var, near.precision)
    found = _least(factor, mean, var, *start, ANEW)
    seen = found.seen
    return Tilting(found.push, found.precision, -seen.value, seen.spread, _miss(seen, var))


def _miss(seen: _Seen, var: Array) -> Array:
    return jnp.maximum(jnp.abs(seen.by_push) / jnp.sqrt(var), jnp.abs(seen.by_precision) / var)


def _seen(factor: SiteFactor, mean: Array, var: Array, push: Array, precision: Array) -> _Seen:
    """The function and its derivatives, by quadrature about the cavity and the density."""
    assert isinstance(factor.term, PowerMeanTerm)
    rows, likelihood = factor.rows, factor.term.likelihood
    power, offset = (
        factor.row_power(rows),
        cast(AbstractProjectedView, factor.edges[0].view).project(rows).offset,
    )
    centre, spread = mean + offset + push / precision, 1.0 / precision
    nodes, log_weight = quadrature_measure(likelihood, centre, spread, rows.y, power, rows.columns)
    value = power * likelihood.log_prob(nodes, rows.y, **rows.columns)
    log_density = jnp.where(rows.site_presence > 0.0, value, 0.0) + log_weight
    gaussian = 0.5 * (push**2 / precision - jnp.log(precision) + LOG_2PI)
    p = jax.nn.softmax(log_density, axis=0)
    z = nodes - (mean + offset)
    first, second = jnp.sum(p * z, axis=0), jnp.sum(p * z**2, axis=0)
    a, b = z - first, -0.5 * (z**2 - second)
    return _Seen(
        jax.nn.logsumexp(log_density, axis=0) + gaussian + 0.5 * precision * var,
        first,
        0.5 * (var - second),
        (jnp.sum(p * a**2, axis=0), jnp.sum(p * a * b, axis=0), jnp.sum(p * b**2, axis=0)),
    )


def _least(
    factor: SiteFactor, mean: Array, var: Array, push: Array, precision: Array, steps: int
) -> _State:
    """Newton's method with steps cut until the function falls, each row by itself."""

    def step(state: _State) -> _State:
        seen = state.seen
        zz, zs, ss = seen.spread
        determinant = jnp.maximum(zz * ss - zs**2, 1e-14 * zz * ss)
        along = (
            -(ss * seen.by_push - zs * seen.by_precision) / determinant,
            -(zz * seen.by_precision - zs * seen.by_push) / determinant,
        )
        gain = seen.by_push * along[0] + seen.by_precision * along[1]
        # precisions stay positive
        room = jnp.where(along[1] < 0.0, 0.9 * state.precision / jnp.maximum(-along[1], 1e-300), 1)

        def trial(size: Array) -> tuple[Array, Array, _Seen, Array]:
            b, c = state.push + size * along[0], state.precision + size * along[1]
            found = _seen(factor, mean, var, b, c)
            slack = 1e-13 * (1.0 + jnp.abs(seen.value))
            falls = found.value <= seen.value + 1e-4 * size * gain + slack
            return b, c, found, falls | ~state.live

        def proceed(now: tuple) -> Array:
            return (now[1] < CUTS) & ~jnp.all(now[2][3])

        def cut(now: tuple) -> tuple:
            size, count, tried = now
            size = jnp.where(tried[3], size, 0.4 * size)
            return size, count + 1, trial(size)

        size = jnp.where(state.live, jnp.minimum(1.0, room), 0.0)
        tried = jax.lax.while_loop(proceed, cut, (size, 0, trial(size)))[2]
        keep = state.live & tried[3]

        def kept(new: Array, old: Array) -> Array:
            return jnp.where(keep, new, old)

        b, c, found = jax.tree.map(kept, tried[:3], (state.push, state.precision, seen))
        return _State(b, c, found, keep & (_miss(found, var) > TIGHT), state.steps + 1)

    seen = _seen(factor, mean, var, push, precision)
    live = _miss(seen, var) > TIGHT
    start = _State(push, precision, seen, live, jnp.zeros((), int))
    return jax.lax.while_loop(lambda s: jnp.any(s.live) & (s.steps < steps), step, start)
