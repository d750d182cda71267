r"""One-dimensional integrals against a Gaussian, for integrands with features of any width.

Everything that a scalar likelihood term needs comes from one discrete measure: nodes f and
weights that stand for $\mathcal N(f; m, v)\, df$. The nodes are Gauss-Legendre ones on panels,
and the panels are graded about every *feature* of the integrand, a place and the width of what
is there: a narrow peak, a step, a kink, the Gaussian itself. A rule about the Gaussian alone
misses a peak that is narrower than its spacing. Nodes are constant under differentiation.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity.numerics.power_limits import Power, is_exactly
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Bool, Float

Feature = tuple[Array, Array]

# Gauss-Legendre nodes of a panel.
ORDER = 7
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(ORDER)
# Edges in deviations of the Gaussian; what lies beyond weighs less than 1e-18.
AROUND_GAUSSIAN = np.linspace(-9.0, 9.0, 17)
# Edges in widths of a feature, each panel twice as long as the one before.
AROUND_FEATURE = np.concatenate([-(2.0 ** np.arange(14, -1, -1)), [0.0], 2.0 ** np.arange(15)])


@dataclasses.dataclass(frozen=True)
class EvenRuleSettings:
    """Settings of the rule with evenly spaced nodes.

    Attributes:
        counts: numbers of nodes, few and more.
        reach: how far nodes reach beyond mean and centre, in deviations.
        deviations: largest spacing, in deviations.
        strips: largest spacing, in half-widths of the strip where the integrand is analytic.
        stretched_deviations: `deviations` of stretched nodes, at the mean.
        stretched_strips: `strips` of stretched nodes, at the centre.
    """

    counts: tuple[int, ...] = (72, 144)
    reach: float = 7.5
    deviations: float = 0.6
    strips: float = 0.3
    stretched_deviations: float = 0.4
    stretched_strips: float = 0.13


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """Settings of the search for panels of a function whose features nobody knows.

    Attributes:
        farthest: the first and last edge, in deviations.
        panels: the number of panels.
        rounds: how often edges are moved.
    """

    farthest: float = 40.0
    panels: int = 48
    rounds: int = 5


EVEN_RULE = EvenRuleSettings()
SEARCH = SearchSettings()


class Tilted(NamedTuple):
    r"""Value, slope and curvature in m of $\log M_a(m, v)$, as a site update needs them."""

    log_mean: Float[Array, "..."]
    slope: Float[Array, "..."]
    curvature: Float[Array, "..."]


class Measure(NamedTuple):
    """Nodes, first axis, and log weights that stand for a Gaussian."""

    nodes: Float[Array, "S ..."]
    log_weight: Float[Array, "S ..."]


def gaussian_measure(
    mean: Float[Array, "..."], var: Float[Array, "..."], edges: Float[Array, "K ..."]
) -> Measure:
    """The Gaussian on the panels between given edges; the weights are differentiable."""
    nodes, length = panel_rule(jax.lax.stop_gradient(edges))
    # an empty panel, between features that coincide, has weight zero
    log_length = jnp.where(length > 0.0, jnp.log(jnp.where(length > 0.0, length, 1.0)), -jnp.inf)
    density = -0.5 * ((nodes - mean) ** 2 / var + jnp.log(var) + LOG_2PI)
    return Measure(nodes, log_length + density)


def panel_rule(
    edges: Float[Array, "K ..."],
) -> tuple[Float[Array, "S ..."], Float[Array, "S ..."]]:
    """Gauss-Legendre nodes and weights on the panels between edges."""
    ones = (1,) * (edges.ndim - 1)
    half = 0.5 * jnp.diff(edges, axis=0)[:, None]
    middle = 0.5 * (edges[1:] + edges[:-1])[:, None]
    points = jnp.asarray(POINTS, edges.dtype).reshape(1, -1, *ones)
    weights = jnp.asarray(WEIGHTS, edges.dtype).reshape(1, -1, *ones)
    nodes = (middle + half * points).reshape(-1, *edges.shape[1:])
    return nodes, (half * weights).reshape(nodes.shape)


def even_measure(
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    centre: Float[Array, "..."],
    strip: Float[Array, "..."],
    count: int,
    *,
    stretched: bool = False,
) -> tuple[Measure, Bool[Array, ""]]:
    r"""The Gaussian on evenly spaced nodes, and whether that is accurate for all entries.

    The trapezium rule's error falls like $e^{-2 \pi w / h}$ with the spacing h, for integrands
    analytic within w of the real line: few nodes serve where deviations are not many widths.
    Where the integrand is analytic in a cone about the real line, ever farther from it away from
    the centre, so do they for wide Gaussians, on nodes $c + w \sinh t$ with even t.

    Args:
        mean: mean of the Gaussian.
        var: its variance.
        centre: where the density that is integrated has its features.
        strip: w, half the width of the strip around the real line where it is analytic and not
            much larger than on it; of a cone, at the centre.
        count: the number of nodes.
        stretched: whether nodes are farther apart away from the centre.
    """
    m, v, c, w = jax.lax.stop_gradient((mean, var, centre, strip))
    rule, sd = EVEN_RULE, jnp.sqrt(v)
    low, high = jnp.minimum(m, c) - rule.reach * sd, jnp.maximum(m, c) + rule.reach * sd
    if stretched:
        low, high = jnp.arcsinh((low - c) / w), jnp.arcsinh((high - c) / w)
    spacing = (high - low) / (count - 1)
    steps = jnp.arange(count, dtype=mean.dtype).reshape(-1, *(1,) * mean.ndim)
    nodes, length = low + spacing * steps, spacing
    if stretched:
        at_mean = spacing * jnp.hypot(w, m - c) / sd
        fine = (at_mean <= rule.stretched_deviations) & (spacing <= rule.stretched_strips)
        up = 0.5 * w * jnp.exp(nodes)
        down = 0.25 * w**2 / up
        nodes, length = c + up - down, spacing * (up + down)
    else:
        fine = spacing <= jnp.minimum(rule.deviations * sd, rule.strips * w)
    density = -0.5 * ((nodes - mean) ** 2 / var + jnp.log(var) + LOG_2PI)
    return Measure(nodes, jnp.log(length) + density), jnp.all(fine)


def feature_edges(
    mean: Float[Array, "..."], var: Float[Array, "..."], features: Sequence[Feature]
) -> Float[Array, "K ..."]:
    """Panel edges graded about the Gaussian and about every feature (centre, width)."""

    def about(centre: Array, width: Array, steps: np.ndarray) -> Array:
        steps_ = jnp.asarray(steps, mean.dtype).reshape(-1, *(1,) * mean.ndim)
        return jnp.broadcast_to(centre + width * steps_, (len(steps), *mean.shape))

    parts = [about(mean, jnp.sqrt(var), AROUND_GAUSSIAN)]
    parts += [about(centre, width, AROUND_FEATURE) for centre, width in features]
    return jnp.sort(jnp.concatenate(parts), axis=0)


def searched_edges(
    log_prob: Callable[[Array], Array],
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    power: Power,
) -> Float[Array, "K ..."]:
    r"""Panel edges for a function whose features nobody knows.

    From edges that reach 40 deviations, panels are moved a few times to where the Gaussian, the
    tilted density or the Gaussian times the function varies.
    """
    sd = jnp.sqrt(var)
    spread, edges = np.arcsinh(SEARCH.farthest), SEARCH.panels + 1
    first = np.sinh(np.linspace(-spread, spread, edges))
    t = jnp.asarray(first, mean.dtype).reshape(-1, *(1,) * mean.ndim)
    t = jnp.broadcast_to(t, (edges, *mean.shape))
    return mean + sd * repeat(
        lambda t: _refined_edges(t, bounded(log_prob(mean + sd * t)), power), t, SEARCH.rounds
    )


def repeat(step: Callable[[Array], Array], start: Array, times: int) -> Array:
    """Fixed number of applications of one function, compiled once."""
    return jax.lax.scan(lambda x, _: (step(x), None), start, length=times)[0]


def _refined_edges(t: Array, value: Array, power: Power) -> Array:
    """Edges moved to where a function of a standard Gaussian varies."""
    gaussian = -0.5 * t**2
    tilted = gaussian + power * value
    drop = tilted - jnp.max(tilted, axis=0)
    centred = jnp.abs(value - jnp.max(value, axis=0)) * jnp.exp(gaussian)
    live = (drop > -45.0) | (gaussian > -22.0)
    # flattened densities, so that tails keep panels too
    signals = ((jnp.exp(0.15 * drop), 1.0), (jnp.exp(0.15 * gaussian), 0.3), (centred, 0.3))
    return _equal_shares(t, live, signals, _kink_strength(t, value))


def bounded(value: Array) -> Array:
    """Log values, those that are NaN or below all others at about the lowest that has a square."""
    lowest = -(float(jnp.finfo(value.dtype).max) ** 0.49)
    return jnp.maximum(jnp.nan_to_num(value, nan=lowest, neginf=lowest), lowest)


def _kink_strength(t: Array, value: Array) -> Array:
    """Strength of the kinks beside each panel, weighted by the Gaussian."""
    length = jnp.diff(t, axis=0)
    slope = jnp.diff(value, axis=0) / jnp.where(length > 0.0, length, 1.0)
    kink = jnp.abs(jnp.diff(slope, axis=0)) * jnp.exp(-0.15 * t[1:-1] ** 2)
    none = jnp.zeros_like(kink[:1])
    return jnp.concatenate([none, kink]) + jnp.concatenate([kink, none])


def edges_at_mass(t: Array, log_density: Array) -> Array:
    """Edges moved to where a density, not normalised, has its mass."""
    drop = log_density - jnp.max(log_density, axis=0)
    return _equal_shares(t, drop > -45.0, ((jnp.exp(0.15 * drop), 1.0),), 0.0)


def _equal_shares(
    t: Array, live: Array, signals: Sequence[tuple[Array, float]], kinks: Array | float
) -> Array:
    """Edges so that every panel has the same share of what varies where it is live."""
    length = jnp.diff(t, axis=0)
    counts = live[1:] | live[:-1]
    need = 0.7 * _share(jnp.where(counts, length, 0.0))
    need = need + _share(jnp.where(counts, kinks, 0.0))
    for signal, weight in signals:
        change = jnp.abs(jnp.diff(signal, axis=0))
        mass = 0.5 * (signal[1:] + signal[:-1]) * length
        need = need + weight * (_share(change) + _share(mass))
    need = jnp.where(counts, need, 0.0)
    padded = jnp.concatenate([need[:1], need, need[-1:]])
    need = jnp.where(counts, need + 0.5 * (padded[:-2] + padded[2:]) + 1e-12, 0.0)
    total = jnp.concatenate([jnp.zeros_like(need[:1]), jnp.cumsum(need, axis=0)])
    total = total / total[-1]
    count = t.shape[0]
    shares = jnp.linspace(0.0, 1.0, count, dtype=t.dtype)
    flat = (total.reshape(count, -1), t.reshape(count, -1))
    new = jax.vmap(lambda c, x: jnp.interp(shares, c, x), in_axes=1, out_axes=1)(*flat)
    return new.reshape(t.shape)


def _share(x: Array) -> Array:
    total = jnp.sum(x, axis=0)
    return x / jnp.where(total > 0.0, total, 1.0)


def log_power_mean(
    value: Float[Array, "S ..."], log_weight: Float[Array, "S ..."], power: Power
) -> Float[Array, "..."]:
    r"""$\tfrac1a \log \sum_s w_s e^{a \ell_s}$ of log values; their mean at power 0."""
    if is_exactly(power, 1.0):
        return jax.nn.logsumexp(value + log_weight, axis=0)
    w = jax.nn.softmax(log_weight, axis=0)
    mean = jnp.sum(jnp.where(w > 0.0, w * value, 0.0), axis=0)
    if is_exactly(power, 0.0):
        return mean
    small = _nearly_constant(value, mean, w, power)
    safe = jnp.where(small, 1.0, power)
    direct = jax.nn.logsumexp(safe * value + jax.nn.log_softmax(log_weight, axis=0), axis=0) / safe
    gained = jnp.sum(_growth_by(w, value - mean, small, power), axis=0)
    return jnp.where(small, mean + _log1p_over(power, gained), direct)


def at_least(var: Float[Array, "..."], least: Array | float) -> Float[Array, "..."]:
    """Variances, none below the least; what is negative is no variance, and stays so."""
    return jnp.where(var < 0.0, var, jnp.maximum(var, least))


def tilted_moments(
    value: Float[Array, "S ..."],
    measure: Measure,
    mean: Float[Array, "..."],
    var: Float[Array, "..."],
    power: Power,
) -> Tilted:
    """Value, slope and curvature of the log power mean, from one discrete measure.

    The variance of the tilted measure is positive, so a site that is matched to it has a proper
    belief.
    """
    nodes, log_weight = measure

    def from_tilted(log_p: Array, power: Power) -> Tilted:
        log_total, p = _normalised_weights(log_p)
        mean_step = jnp.sum(p * (nodes - mean), axis=0)
        tilted = jnp.sum(p * (nodes - mean - mean_step) ** 2, axis=0)
        scale = power * var
        return Tilted(log_total / power, mean_step / scale, (tilted / var - 1.0) / scale)

    if is_exactly(power, 1.0):
        return from_tilted(value + log_weight, 1.0)
    log_whole, w = _normalised_weights(log_weight)
    centre = jnp.sum(jnp.where(w > 0.0, w * value, 0.0), axis=0)

    def about_mean(small: Bool[Array, "..."]) -> Tilted:
        growth = _growth_by(w, value - centre, small, power)
        gained = jnp.sum(growth, axis=0)
        total = 1.0 + power * gained
        away = nodes - jnp.sum(w * nodes, axis=0)
        spread = jnp.sum(w * away**2, axis=0)
        # G = Σ w e (f - m) / (s v),  H = Σ w e ((f - m)² - v) / (s v²) - a G²
        slope = jnp.sum(growth * away, axis=0) / (total * var)
        curvature = jnp.sum(growth * (away**2 - spread), axis=0) / (total * var**2)
        return Tilted(centre + _log1p_over(power, gained), slope, curvature - power * slope**2)

    if is_exactly(power, 0.0):
        return about_mean(jnp.ones_like(centre, bool))
    small = _nearly_constant(value, centre, w, power)
    # of powers that are zero the density is nearly constant
    usual = from_tilted(power * value + log_weight - log_whole, jnp.where(small, 1.0, power))

    def chosen() -> Tilted:
        near = about_mean(small)
        return jax.tree.map(lambda a, b: jnp.where(small, a, b), near, usual)

    return jax.lax.cond(jnp.any(small), chosen, lambda: usual)


def mixed_derivatives(
    share: Float[Array, "S ..."],
    slopes: Float[Array, "S ..."],
    curvatures: Float[Array, "S ..."],
    power: Power,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    r"""Slope and curvature of $\tfrac1a \log \sum_k w_k M_k(m)^a$ from those of each $\log M_k$.

    With the shares $\pi_k$ of the parts, $G = \sum \pi_k G_k$ and
    $H = \sum \pi_k (H_k + a (G_k - G)^2)$.

    Args:
        share: proportional to $w_k M_k^a$, adding up to one.
        slopes: $G_k$.
        curvatures: $H_k$.
        power: a.

    References:
        Jylanki (2013), S93, S102, S103 and S116, for every power.
    """
    slope = jnp.sum(share * slopes, axis=0)
    curvature = jnp.sum(share * (curvatures + power * (slopes - slope) ** 2), axis=0)
    return slope, curvature


def _normalised_weights(log_weight: Float[Array, "S ..."]) -> tuple[Array, Array]:
    """The log of the sum of weights, and the share of each."""
    top = jax.lax.stop_gradient(jnp.max(log_weight, axis=0))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    each = jnp.exp(log_weight - top)
    total = jnp.sum(each, axis=0)
    return top + jnp.log(total), each / total


def _nearly_constant(value: Array, mean: Array, weight: Array, power: Power) -> Array:
    """True where powers of the function stay within a factor e of their mean.

    Where it has no weight it may be smaller, not larger: there may be all of a power's mass.
    """
    away = jnp.where(weight > 0.0, jnp.abs(value - mean), value - mean)
    return power * jnp.max(away, axis=0) < 1.0


def _growth_by(weight: Array, away: Array, small: Array, power: Power) -> Array:
    """Weights times the growth of log values this far from their mean, where it is small."""
    return weight * _growth(jnp.where(small & (weight > 0.0), away, 0.0), power)


def _growth(x: Array, power: Power) -> Array:
    """(exp(a x) - 1) / a, which is x at a = 0; for |a x| below 1."""
    if is_exactly(power, 0.0):
        return x
    a = jnp.asarray(power)
    none = a <= 0.0
    return jnp.where(none, x, jnp.expm1(a * x) / jnp.where(none, 1.0, a))


def _log1p_over(power: Power, x: Array) -> Array:
    a = jnp.asarray(power)
    none = a <= 0.0
    return jnp.where(none, x, jnp.log1p(a * x) / jnp.where(none, 1.0, a))
