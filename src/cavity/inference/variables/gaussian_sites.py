"""Sites of rows with Gaussian noise: closed-form functions of the parameters.

Site and factor are equal, $f_n = s_n t_n$, so that sites do not depend on a belief.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from cavity.inference.graph.base import AbstractProjectedVariable, AbstractProjectedView, Messages
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.numerics.chunking import sum_over_rows
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.power_limits import Power, log1p_ratio, log_determinant_ratio
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float


def projected_gaussian_messages(
    view: AbstractProjectedView,
    variable: AbstractProjectedVariable,
    rows: Rows,
    noise_variance: Callable[..., Array],
    power: Power,
    chunk: int,
    volume: float | None = None,
) -> Messages:
    """The messages of rows with Gaussian noise, by their projections.

    Args:
        view: how the rows see the variable.
        variable: the variable.
        rows: all rows.
        noise_variance: of rows, from their side data.
        power: the power of all rows; `rows.power` takes its place where given.
        chunk: rows worked on at a time.
        volume: see `exact_sites`.
    """

    def chunk_messages(rows: Rows) -> Messages:
        projection = view.project(rows)
        sites = exact_sites(rows, projection, noise_variance, power, volume)
        return variable.messages_from_sites(*sites, projection)

    return sum_over_rows(chunk_messages, rows, chunk)


def exact_sites(
    rows: Rows,
    projection: Projection,
    noise_variance: Callable[..., Array],
    power: Power,
    volume: float | None = None,
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, " rows"]]:
    r"""Shift and precision of the sites of a chunk with Gaussian noise, and the log scales.

    Args:
        rows: the chunk.
        projection: what they see of the inducing variables.
        noise_variance: of rows, from their side data.
        power: the power of all rows; `rows.power` takes its place where given.
        volume: the power b of the volume that the residual d takes from the evidence,
            $-\tfrac1{2b} \log(1 + b d / \sigma^2)$; None for that of the precision. Beside
            power 0, volume 1 is the tighter bound of Titsias (2025), and an infinite one, which
            charges nothing, is DTC.
    """
    power = power if rows.power is None else rows.power
    exact = _exact_blocks if rows.blocked else _exact_rows
    y = rows.y - projection.offset
    noise = noise_variance(**rows.columns)
    return exact(y, rows.presence, noise, projection, power, power if volume is None else volume)


def _exact_rows(
    y: Float[Array, "N P"],
    presence: Float[Array, "N G"],
    variance: Float[Array, "..."],
    projection: Projection,
    power: Power,
    volume: Power,
) -> tuple[Float[Array, "N P"], Float[Array, "N _"], Float[Array, " N"]]:
    r"""Sites of scalar observations.

    $t_n = \mathcal N(z; y_n, a d_n + \sigma^2)$ up to the scale
    $-\tfrac12 \log 2\pi\sigma^2 - \tfrac1{2b} \log(1 + b d_n / \sigma^2)$, where b = a unless a
    volume was given, to the power of the row's presence.

    References:
        Bui (2017), S23; per-row powers S27.
    """
    a, b = (p[:, None] if isinstance(p, jax.Array) and p.ndim else p for p in (power, volume))
    d = projection.residual[:, None]
    precision = presence / (variance + a * d)  # N G
    shift = precision * y
    # w (log 2πσ² + log(1 + b d/σ²)/b) + τ y²
    constant = presence * (LOG_2PI + jnp.log(variance) + log1p_ratio(b, d / variance))
    log_scale = -0.5 * jnp.sum(jnp.broadcast_to(constant, y.shape) + shift * y, axis=1)
    return shift, precision, log_scale


def _exact_blocks(
    y: Float[Array, "K B P"],
    presence: Float[Array, "K B G"],
    variance: Float[Array, "..."],
    projection: Projection,
    power: Power,
    volume: Power,
) -> tuple[Float[Array, "K P B"], Float[Array, "K G B B"], Float[Array, " K"]]:
    r"""Sites of blocks: precision $(a \mathbf D_b + \boldsymbol\Sigma)^{-1}$ and its scale.

    In terms of the square roots of the noise precisions, so that an absent row, whose noise
    precision is zero, drops out. A row of weight w has w times its noise precision, as w rows in
    the block have together.

    References:
        Bui (2017), S25 with erratum E1 (the penalty is subtracted).
    """
    w = jnp.broadcast_to(presence / variance, (*y.shape[:2], _groups(presence, variance)))
    log_noise = presence * (LOG_2PI + jnp.log(variance))

    def one(w: Array, D: Array, a: Power, b: Power) -> tuple[Array, Array]:
        s = safe_sqrt(w)
        S = s[:, None] * D * s[None, :]
        eye = jnp.eye(S.shape[0], dtype=S.dtype)
        inverse = jnp.linalg.inv(eye + a * S)
        precision = s[:, None] * inverse * s[None, :]
        return 0.5 * (precision + precision.T), log_determinant_ratio(b, S)

    if isinstance(power, jax.Array) and power.ndim:
        per_group = jax.vmap(lambda w, D, a: one(w, D, a, a), in_axes=(1, None, None))
        precision, charge = jax.vmap(per_group)(w, projection.residual, power)
    else:
        per_group = jax.vmap(lambda w, D: one(w, D, power, volume), in_axes=(1, None))
        precision, charge = jax.vmap(per_group)(w, projection.residual)
    replicas = y.shape[2] // precision.shape[1]
    full = jnp.repeat(precision, replicas, axis=1) if replicas > 1 else precision
    shift = jnp.einsum("kpbc,kcp->kpb", full, y)
    noise = jnp.sum(jnp.broadcast_to(log_noise, y.shape), axis=(1, 2))
    quadratic = jnp.einsum("kpb,kbp->k", shift, y)
    return shift, precision, -0.5 * (noise + replicas * jnp.sum(charge, axis=1) + quadratic)


def _groups(presence: Array, variance: Array) -> int:
    return max(presence.shape[-1], variance.shape[-1] if variance.ndim else 1)
