r"""One integral for all Gaussian windows: with waves in them or none, under Gaussian kernels.

A functional is described by

$$v(\mathbf x) = \mathcal N(\mathbf x; \boldsymbol\mu, \operatorname{diag} \boldsymbol\delta^2)
    \cos\big(\phi + \boldsymbol\omega^\top (\mathbf x - \boldsymbol\mu)\big),$$

a point by zero width, and a kernel by terms of Gaussians times cosines
(`cavity.kernels.expectations`), so no pair of functionals has a formula of its own.
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity.kernels.base import not_negative
from cavity.kernels.expectations.terms import Terms
from cavity.numerics.gauss_hermite import gauss_hermite_grid
from cavity.numerics.types import Array, Float, Scalar

# Nodes per column of the quadrature for kernels without closed forms, by the number of columns.
NODES = {1: 48, 2: 20, 3: 10}
# Nodes worked on at a time.
GROUP = 64


class GaussianWaves(NamedTuple):
    """Functionals as Gaussian windows with waves in them.

    Args:
        centre: of each window, (M, D).
        width: standard deviations, (M, D); None where all are zero, which is a value at a point.
        frequency: in radians per unit, (M, D); None for no waves.
        phase: at the centre, in radians, (M,); None for no waves.
    """

    centre: Float[Array, "M D"]
    width: Float[Array, "M D"] | None = None
    frequency: Float[Array, "M D"] | None = None
    phase: Float[Array, " M"] | None = None


def integral(a: GaussianWaves, b: GaussianWaves, terms: Terms) -> Float[Array, "M K"]:
    """Covariances under a sum of terms, one term after another."""
    if len(terms.weight) == 1:
        return _term_covariance(a, b, jax.tree.map(lambda x: x[0], terms))

    def step(total: Array, term: Terms) -> tuple[Array, None]:
        return total + jax.checkpoint(_term_covariance)(a, b, term), None

    shape = (len(a.centre), len(b.centre))
    zero = jnp.zeros(shape, jnp.result_type(a.centre, b.centre, terms.weight))
    return jax.lax.scan(step, zero, terms)[0]


def _term_covariance(a: GaussianWaves, b: GaussianWaves, term: Terms) -> Float[Array, "M K"]:
    r"""Covariances under one term of a kernel.

    A product of cosines is the real part of a mean of exponentials, over the signs of all but
    the first of them.
    """
    if a.width is None and a.frequency is None:
        a, b, turned = b, a, True
    else:
        turned = False
    waves = (a.frequency, b.frequency, term.frequency)
    present = [i for i, wave in enumerate(waves) if wave is not None]
    total = jnp.zeros(())
    for signs in itertools.product((1.0, -1.0), repeat=max(len(present) - 1, 0)):
        sign = [0.0, 0.0, 0.0]
        for i, value in zip(present, (1.0, *signs), strict=False):
            sign[i] = value
        exponent, angle = _exponential(a, b, term, sign)
        size = jnp.exp(exponent)
        total = total + (size if angle is None else size * jnp.cos(angle))
    value = term.weight / 2.0 ** max(len(present) - 1, 0) * total
    return value.T if turned else value


def _exponential(
    a: GaussianWaves, b: GaussianWaves, term: Terms, sign: list[float]
) -> tuple[Array, Array | None]:
    """Logarithm and angle of the integral of one complex exponential; no angle without waves."""
    phase = jnp.zeros(())
    phase = phase if a.phase is None else phase + sign[0] * a.phase[:, None]
    phase = phase if b.phase is None else phase + sign[1] * b.phase[None]
    waves = any(sign)
    if b.width is None and b.frequency is None:  # sums over columns are products of matrices
        own = _Columns(a.width, a.frequency, None, None, term.precision, term.frequency)
        form = _Form(*_coefficients(own, sign))
        return form.at_points(a.centre, b.centre, phase, waves=waves)

    def column(total: tuple[Array, Array], x: Any) -> tuple[tuple[Array, Array], None]:
        return jax.tree.map(jnp.add, total, jax.checkpoint(along)(*x)), None

    def along(u: Array, v: Array, own: _Columns) -> tuple[Array, Array]:
        constant, curvature, slope = _coefficients(own, sign)
        apart = u[:, None] - v[None]
        return constant - 0.5 * curvature * apart**2, slope * apart

    rows = [None if x is None else x.T[:, :, None] for x in (a.width, a.frequency)]
    others = [None if x is None else x.T[:, None, :] for x in (b.width, b.frequency)]
    columns = _Columns(rows[0], rows[1], others[0], others[1], term.precision, term.frequency)
    shape = (len(a.centre), len(b.centre))
    zero = jnp.zeros(shape, jnp.result_type(a.centre, b.centre, term.precision))
    xs = (a.centre.T, b.centre.T, columns)
    exponent, angle = jax.lax.scan(column, (zero, zero), xs)[0]
    return exponent, phase + angle if waves else None


class _Columns(NamedTuple):
    """Parameters of the integral along columns, beside the places; None for zeros.

    Args:
        width_a: of the first functional's windows.
        frequency_a: of its waves.
        width_b: of the second functional's windows.
        frequency_b: of its waves.
        precision: of the kernel's term.
        frequency: of its wave.
    """

    width_a: Array | None
    frequency_a: Array | None
    width_b: Array | None
    frequency_b: Array | None
    precision: Array
    frequency: Array | None


def _coefficients(own: _Columns, sign: list[float]) -> tuple[Array, Array, Array]:
    r"""Contribution of one column to the exponent, a quadratic in the distance $D$ of the centres.

    With $t = 1 + \lambda (\delta^2 + \delta'^2)$, and signed frequencies $\omega, \omega',
    \kappa$ of the two functionals and the kernel, the integral over both windows is

    $$t^{-\frac12} \exp\Big(-\frac{\lambda D^2 + (\omega + \kappa)^2 \delta^2 + (\omega' -
        \kappa)^2 \delta'^2 + \lambda \delta^2 \delta'^2 (\omega + \omega')^2}{2 t}
        + \mathrm i \, \frac{\kappa - \lambda (\omega \delta^2 - \omega' \delta'^2)}{t} D\Big).$$

    Returns the constant, the curvature, and the slope of the angle.
    """

    def squared(x: Array | None) -> Array:
        return jnp.zeros(()) if x is None else x**2

    def signed(i: int, x: Array | None) -> Array:
        return jnp.zeros(()) if x is None else sign[i] * x

    precision, spread_a, spread_b = own.precision, squared(own.width_a), squared(own.width_b)
    omega_a, omega_b = signed(0, own.frequency_a), signed(1, own.frequency_b)
    kappa = signed(2, own.frequency)
    t = 1.0 + precision * (spread_a + spread_b)
    lost = (omega_a + kappa) ** 2 * spread_a + (omega_b - kappa) ** 2 * spread_b
    lost = lost + precision * spread_a * spread_b * (omega_a + omega_b) ** 2
    slope = (kappa - precision * (omega_a * spread_a - omega_b * spread_b)) / t
    return -0.5 * jnp.log(t) - 0.5 * lost / t, precision / t, slope


class _Form(NamedTuple):
    """Coefficients of the columns of an exponent that depend on the first functional alone."""

    constant: Float[Array, "M D"]
    curvature: Float[Array, "M D"]
    slope: Float[Array, "..."]

    def at_points(
        self, centre: Float[Array, "M D"], X: Float[Array, "N D"], phase: Array, *, waves: bool
    ) -> tuple[Float[Array, "M N"], Array | None]:
        """Exponent and angle between these centres and points, by products of matrices."""
        origin = jax.lax.stop_gradient(jnp.mean(centre, axis=0))
        U, V = centre - origin, X - origin
        curved = jnp.broadcast_to(self.curvature, U.shape)
        r2 = jnp.sum(curved * U**2, axis=1)[:, None] + curved @ (V**2).T
        r2 = not_negative(r2 - 2.0 * (curved * U) @ V.T)
        constant = jnp.sum(jnp.broadcast_to(self.constant, U.shape), axis=1)
        exponent = constant[:, None] - 0.5 * r2
        if not waves:
            return exponent, None
        slope = jnp.broadcast_to(self.slope, U.shape)
        return exponent, phase + jnp.sum(slope * U, axis=1)[:, None] - slope @ V.T


# ------------------------------------------------------------------------------- quadrature


def quadrature_functionals(
    a: GaussianWaves, g: Callable[[Float[Array, " D"]], Array]
) -> Float[Array, "M ..."]:
    """The functionals of any function, by Gauss-Hermite nodes in every column.

    Raises:
        ValueError: for more columns than there are nodes for.
    """
    M, D = a.centre.shape
    if D not in NODES:
        raise ValueError(
            f"windows and waves in {D} columns have closed forms with RBF and SpectralMixture "
            "kernels, constants, their sums, products and scalings only; other kernels take "
            f"quadrature, which is for up to {max(NODES)} columns: use inducing.Points, or such "
            "a kernel"
        )
    places, log_weights = gauss_hermite_grid(NODES[D], D)
    more = -len(places) % min(GROUP, len(places))
    places = np.concatenate([places, np.zeros((more, D))])
    weights = np.concatenate([np.exp(log_weights), np.zeros(more)])
    width = jnp.zeros((1, D)) if a.width is None else a.width

    def at(node: Float[Array, " D"], weight: Scalar) -> Array:
        x = a.centre + width * node
        values = jax.vmap(g)(x)
        wave = jnp.full(M, weight)
        if a.frequency is not None and a.phase is not None:
            wave = weight * jnp.cos(a.phase + jnp.sum(a.frequency * (x - a.centre), axis=1))
        return jnp.einsum("m...,m->m...", values, wave)

    def group(nodes: Array, weights: Array) -> Array:
        return jnp.sum(jax.vmap(at)(nodes, weights), axis=0)

    def step(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
        return total + jax.checkpoint(group)(*part), None

    count = min(GROUP, len(places))
    parts = jnp.asarray(places).reshape(-1, count, D), jnp.asarray(weights).reshape(-1, count)
    like = jax.eval_shape(group, parts[0][0], parts[1][0])
    return jax.lax.scan(step, jnp.zeros(like.shape, like.dtype), parts)[0]
