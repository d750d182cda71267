r"""Moments of terms under a Gaussian input, one row at a time.

At an inducing point a term is $h(\mathbf x) e^{q(\mathbf x)}$, with q quadratic and h linear or 1.
With the slope $\mathbf g$ of q at the mean, $\mathbf B = (\mathbf I + \boldsymbol\Lambda \mathbf
S)^{-1}$ and $\mathbf T = \mathbf S \mathbf B$, the Gaussian times $e^q$ has covariance T, mean
$\boldsymbol\mu + \mathbf T \mathbf g$ and total $e^\rho$; the slope of $\rho$ in the mean is
$\mathbf B \mathbf g$.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.expectations.excess import (
    Bump,
    excess,
    excess_of_waves,
    form_of_excess,
    log_ratio,
    outer,
)
from cavity.kernels.expectations.inputs import (
    damping,
    log_volume,
    log_volume_excess,
    quadratic,
    spread,
    tilted_cov,
)
from cavity.kernels.expectations.terms import Expansion, Terms
from cavity.numerics.types import Array, Float, Scalar

# Pairs of terms in one step of a loop: those of two kernels of one form.
UNROLLED = 3


class Row(NamedTuple):
    """One Gaussian input, and the inducing points.

    Args:
        mean: of the input, (D,).
        cov: variances (D,), or a matrix (D, D).
        Z: the inducing points (M, D).
    """

    mean: Float[Array, " D"]
    cov: Float[Array, " D"] | Float[Array, "D D"]
    Z: Float[Array, "M D"]


class _Tilted(NamedTuple):
    r"""One term at one row, for all inducing points.

    Args:
        pull: the slope g of its exponent at the mean, (M, D).
        slope: of `log_total` in the mean, (M, D).
        log_total: $\rho$, (M,).
        total: $w e^\rho$, (M,).
        coefficients: of the linear factor, (M, D); None for no factor.
        height: the factor's mean under the tilted Gaussian, (M,); 1 for no factor.
    """

    pull: Array
    slope: Array
    log_total: Array
    total: Array
    coefficients: Float[Array, "M D"] | None
    height: Array


def _tilted(term: Terms, row: Row) -> _Tilted:
    mean, cov, Z = row
    away, damp = mean - Z, damping(cov, term.precision)
    pull = -term.precision * away
    if term.frequency is not None:
        pull = pull + 1j * term.frequency
    slope = spread(damp, pull)
    if term.frequency is None:
        square = -quadratic(damp * term.precision, away.T)
    else:
        wave = 1j * term.frequency
        back = spread(damp.T, away + spread(cov, wave))
        square = jnp.sum(away * slope, axis=1) + jnp.sum(wave * back, axis=1)
    log_total = 0.5 * (square - log_volume(cov, term.precision))
    coefficients, height = None, jnp.ones((), log_total.dtype)
    if term.factor is not None:
        variance, centre = term.factor
        coefficients = variance * (Z - centre)
        height = jnp.sum(coefficients * (mean - centre + spread(cov, slope)), axis=1)
    total = term.weight * jnp.exp(log_total)
    return _Tilted(pull, slope, log_total, total, coefficients, height)


def cross(expansion: Expansion, row: Row) -> Float[Array, " M"]:
    """The expected covariances with the function at the inducing points."""

    def term_cross(term: Terms) -> Float[Array, " M"]:
        tilted = _tilted(term, row)
        return jnp.real(tilted.total * tilted.height)

    terms = [jnp.sum(jax.vmap(term_cross)(stack), axis=0) for stack in expansion.stacks]
    # an input with variance is never equal to a point
    equal = (row.mean == row.Z) & (_variances(row.cov) == 0.0)
    spikes = [
        jnp.where(jnp.all(equal | ~spike.columns, axis=1), spike.weight, 0.0)
        for spike in expansion.spikes
    ]
    return sum(terms + spikes, jnp.zeros(len(row.Z), row.mean.dtype))


def diag(expansion: Expansion, row: Row) -> Scalar:
    """The expected variance of the function."""
    total = sum([spike.weight for spike in expansion.spikes], jnp.zeros((), row.mean.dtype))
    for terms in expansion.stacks:
        square = 1.0
        if terms.factor is not None:
            second = (row.mean - terms.factor.centre) ** 2 + _variances(row.cov)
            square = jnp.sum(terms.factor.variance * second, axis=1)
        total = total + jnp.sum(terms.weight * square)
    return total


def _variances(cov: Array) -> Float[Array, " D"]:
    return cov if cov.ndim == 1 else jnp.diagonal(cov)


def slopes(expansion: Expansion, row: Row) -> Float[Array, "M D"]:
    """The expected slopes of the covariances in the input: the slopes of `cross` in its mean."""

    def term_slopes(term: Terms) -> Float[Array, "M D"]:
        tilted = _tilted(term, row)
        slope = tilted.height[..., None] * tilted.slope
        if tilted.coefficients is not None:
            slope = slope + spread(damping(row.cov, term.precision), tilted.coefficients)
        return jnp.real(tilted.total[:, None] * slope)

    terms = [jnp.sum(jax.vmap(term_slopes)(stack), axis=0) for stack in expansion.stacks]
    return sum(terms, jnp.zeros(row.Z.shape, row.mean.dtype))


def covariance(expansion: Expansion, row: Row) -> Float[Array, "M M"]:
    """A matrix whose symmetric part is the covariance of k(x, Z).

    Nothing cancels in it where the input's variance is small. Transposes would cost more than the
    exponentials.
    """
    zero = jnp.zeros((len(row.Z), len(row.Z)), row.mean.dtype)
    return _sum_over_pairs(expansion, lambda a, b: jnp.real(_term_covariance(a, b, row)), zero)


def form(expansion: Expansion, row: Row, W: Float[Array, "M M"]) -> Scalar:
    """The sum of the products of the covariance of k(x, Z) with a symmetric matrix."""

    def pair_form(a: Terms, b: Terms) -> Scalar:
        if b is a and a.local and a.frequency is None and a.factor is None:
            return _form_of_bump(a, row, W)
        return jnp.sum(W * jnp.real(_term_covariance(a, b, row)))

    return _sum_over_pairs(expansion, pair_form, jnp.zeros((), row.mean.dtype))


def _sum_over_pairs(
    expansion: Expansion, of_pair: Callable[[Terms, Terms], Array], zero: Array
) -> Array:
    """The sum of what is computed of all pairs of terms."""
    total = zero
    stacks = [terms for terms in expansion.stacks if not terms.constant]
    for i, first in enumerate(stacks):
        for second in stacks[i:]:
            total = total + _sum_over_stacks(first, second, of_pair, zero)
    return total


def _sum_over_stacks(
    first: Terms, second: Terms, of_two: Callable[[Terms, Terms], Array], zero: Array
) -> Array:
    """The sum over all pairs of terms of two stacks, those of two different terms twice."""
    alike, sizes = first is second, (len(first.weight), len(second.weight))
    i, j = np.triu_indices(sizes[0]) if alike else np.indices(sizes).reshape(2, -1)
    share = np.where(alike & (i == j), 1.0, 2.0)
    waves = first.frequency is not None and second.frequency is not None
    sign = np.ones(len(i))
    if waves:
        # Re a Re b = ½ Re(a b + a b*)
        i, j, share = np.tile(i, 2), np.tile(j, 2), np.tile(0.5 * share, 2)
        sign = np.concatenate([sign, -sign])

    def pair_value(i: Array | int, j: Array | int, sign: Array | float) -> Array:
        a = jax.tree.map(lambda x: x[i], first)
        b = a if alike and len(share) == 1 else jax.tree.map(lambda x: x[j], second)
        if waves:
            b = eqx.tree_at(lambda term: term.frequency, b, sign * b.frequency)
        return of_two(a, b)

    if len(share) == 1:
        return share[0] * pair_value(0, 0, 1.0)

    def step(total: Array, pair: tuple[Array, ...]) -> tuple[Array, None]:
        *index, share = pair
        return total + share * pair_value(*index), None

    dtype = zero.dtype
    pairs = jnp.asarray(i), jnp.asarray(j), jnp.asarray(sign, dtype), jnp.asarray(share, dtype)
    # of waves there are many pairs: their matrices are not kept for the way back
    if waves:
        return jax.lax.scan(jax.checkpoint(step), zero, pairs)[0]
    return jax.lax.scan(step, zero, pairs, unroll=UNROLLED)[0]


def _term_covariance(a: Terms, b: Terms, row: Row) -> Array:
    """$E[ab] - E[a] E[b]$ of two terms, (M, M), or its transpose."""
    A = _tilted(a, row)
    B = A if b is a else _tilted(b, row)
    T = tilted_cov(row.cov, a.precision + b.precision)
    if not b.local:
        return _with_line(A, B, T)
    if not a.local:
        return _with_line(B, A, T)
    return _bump_covariance(a, b, A, B, T, row.cov)


def _with_line(A: _Tilted, B: _Tilted, T: Array) -> Array:
    """The covariance of any term with a linear function: by Stein's identity, from its slopes."""
    if B.coefficients is None:
        return jnp.zeros((len(A.total), len(B.total)), A.total.dtype)
    slope = A.height[..., None] * A.pull
    if A.coefficients is not None:
        slope = slope + A.coefficients
    # the slope at the mean takes T where the expected slope takes S
    return (A.total[:, None] * slope) @ (B.total[:, None] * spread(T, B.coefficients)).T


def _bump_covariance(a: Terms, b: Terms, A: _Tilted, B: _Tilted, T: Array, cov: Array) -> Array:
    r"""The covariance of two terms with bumps.

    With $E[e^{q_a + q_b}] = e^{\rho_a + \rho_b + L}$ the logarithm L of the ratio is a sum of
    products of first and second order in S, so $e^L - 1$ keeps all digits.
    """
    spread_a, spread_b = spread(cov, A.slope), spread(cov, B.slope)
    # L = ½ log|I + T Λa S Λb| + gaᵀ T gb - ½ gaᵀ T Λb S Ba ga - ½ gbᵀ T Λa S Bb gb
    left = spread(T, A.pull)
    right = left if B is A else spread(T, B.pull)
    of_a = 0.5 * jnp.sum(b.precision * left * spread_a, axis=1)
    of_b = of_a if B is A else 0.5 * jnp.sum(a.precision * right * spread_b, axis=1)
    volume = 0.5 * log_volume_excess(cov, a.precision, b.precision)
    rows, columns = log_ratio(left, B.pull, of_a, of_b, volume)
    logs = A.log_total, B.log_total
    if jnp.iscomplexobj(left) or jnp.iscomplexobj(right):
        gained = excess_of_waves(*logs, rows, columns)
    else:
        gained = excess(*logs, rows @ columns.T)
    gained = a.weight * b.weight * gained
    if A.coefficients is None and B.coefficients is None:
        return gained
    # how far the second exponential takes the factors' means, and the factors' covariance
    change_a = change_b = both = jnp.zeros(())
    if A.coefficients is not None:
        turned = spread(T, A.coefficients)
        change_a = turned @ B.pull.T - jnp.sum(b.precision * turned * spread_a, axis=1)[:, None]
    if B.coefficients is not None:
        turned = spread(T, B.coefficients)
        change_b = A.pull @ turned.T - jnp.sum(a.precision * turned * spread_b, axis=1)[None, :]
        both = both if A.coefficients is None else A.coefficients @ turned.T
    high_a, high_b = A.height[..., None], B.height[None]
    change = high_a * change_b + change_a * high_b + change_a * change_b + both
    return gained * high_a * high_b + (gained + outer(A.total, B.total)) * change


def _form_of_bump(term: Terms, row: Row, W: Float[Array, "M M"]) -> Scalar:
    """The sum of the products of the covariance of a bump with a symmetric matrix."""
    cov, precision = row.cov, term.precision
    single, double = tilted_cov(cov, precision), tilted_cov(cov, 2.0 * precision)
    damp, volume = damping(cov, precision), log_volume_excess(cov, precision, precision)
    if cov.ndim == 1:
        link = precision**2 * double
        parts = damp * precision, link, link * precision * single
    else:
        scaled = precision[:, None] * double * precision
        parts = damp * precision, scaled, scaled @ (single * precision)
    bump = Bump((row.mean - row.Z).T, *parts, 0.5 * volume)
    square = term.weight**2 * jnp.exp(-log_volume(cov, precision))
    return square * form_of_excess(W, bump)
