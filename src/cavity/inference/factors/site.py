"""Factors: alike likelihood terms, one per row, and how each becomes a site.

An `ExactFactor` is Gaussian in the function: its sites are closed-form functions of the
parameters and need no belief. A `SiteFactor` holds for any likelihood: its sites are found by
sweeps. With Gaussian noise they agree, and the second is the oracle of the first.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.approximations.local_terms import AbstractLocalTerm, EvaluationPoint
from cavity.inference.graph.base import AbstractView, Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, BlockSites, ClassSites, ScalarSites
from cavity.inference.graph.slots import AbstractSlots, Private
from cavity.numerics.gaussian import LOG_2PI
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.power_limits import Power, log1p_ratio, log_determinant_ratio
from cavity.numerics.types import Array, Float


class Edge(eqx.Module):
    """How a factor touches a variable.

    Attributes:
        variable: which one.
        view: what a row sees of it.
        slots: which stored site a row uses.
    """

    variable: int = eqx.field(static=True)
    view: AbstractView
    slots: AbstractSlots = Private()


class ExactFactor(eqx.Module):
    r"""Rows with Gaussian noise: $f_n = s_n t_n$ exactly.

    Attributes:
        edge: the variable that the rows observe.
        rows: the data.
        noise_variance: the noise variance of rows, from the known ones among their side data;
            the result broadcasts against (rows, outputs).
        power: the power of all rows; `rows.power` takes its place where given.
        chunk: rows worked on at a time.
    """

    edge: Edge
    rows: Rows
    noise_variance: Callable[..., Array]
    power: Power
    chunk: int = eqx.field(static=True)

    def sites(
        self, rows: Rows, projection: Projection
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, " rows"]]:
        """Shift and precision of the sites of a chunk, and the log of their scales."""
        return exact_sites(rows, projection, self.noise_variance, self.power)


def exact_sites(
    rows: Rows, projection: Projection, noise_variance: Callable[..., Array], power: Power
) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, " rows"]]:
    """Shift and precision of the sites of a chunk of an `ExactFactor`, and the log scales."""
    power = power if rows.power is None else rows.power
    exact = _exact_blocks if rows.blocked else _exact_rows
    y = rows.y - projection.offset
    return exact(y, rows.presence, noise_variance(**rows.columns), projection, power)


def _exact_rows(
    y: Float[Array, "N P"],
    presence: Float[Array, "N G"],
    variance: Float[Array, "..."],
    projection: Projection,
    power: Power,
) -> tuple[Float[Array, "N P"], Float[Array, "N _"], Float[Array, " N"]]:
    r"""Sites of scalar observations.

    $t_n = \mathcal N(z; y_n, a d_n + \sigma^2)$ up to the scale
    $-\tfrac12 \log 2\pi\sigma^2 - \tfrac1{2a} \log(1 + a d_n / \sigma^2)$.

    References:
        Bui (2017), S23; per-row powers S27; vanishing presence is an infinite noise.
    """
    a = power[:, None] if isinstance(power, jax.Array) and power.ndim else power
    w = presence / variance  # N G
    d = projection.residual[:, None]
    precision = w / (1.0 + a * d * w)
    shift = precision * y
    # r log 2πσ² + log(1 + a d w)/a + τ y²
    constant = presence * (LOG_2PI + jnp.log(variance)) + log1p_ratio(a, d * w)
    log_scale = -0.5 * jnp.sum(jnp.broadcast_to(constant, y.shape) + shift * y, axis=1)
    return shift, precision, log_scale


def _exact_blocks(
    y: Float[Array, "K B P"],
    presence: Float[Array, "K B G"],
    variance: Float[Array, "..."],
    projection: Projection,
    power: Power,
) -> tuple[Float[Array, "K P B"], Float[Array, "K G B B"], Float[Array, " K"]]:
    r"""Sites of blocks: precision $(a \mathbf D_b + \boldsymbol\Sigma)^{-1}$ and its scale.

    In terms of the square roots of the noise precisions, so that an absent row, whose noise
    precision is zero, drops out.

    References:
        Bui (2017), S25 with erratum E1 (the penalty is subtracted).
    """
    w = jnp.broadcast_to(presence / variance, (*y.shape[:2], _groups(presence, variance)))
    log_noise = presence * (LOG_2PI + jnp.log(variance))

    def one(w: Array, D: Array, a: Power) -> tuple[Array, Array]:
        s = safe_sqrt(w)
        S = s[:, None] * D * s[None, :]
        eye = jnp.eye(S.shape[0], dtype=S.dtype)
        inverse = jnp.linalg.inv(eye + a * S)
        precision = s[:, None] * inverse * s[None, :]
        return 0.5 * (precision + precision.T), log_determinant_ratio(a, S)

    if isinstance(power, jax.Array) and power.ndim:
        per_group = jax.vmap(one, in_axes=(1, None, None))
        precision, volume = jax.vmap(per_group)(w, projection.residual, power)
    else:
        per_group = jax.vmap(lambda w, D: one(w, D, power), in_axes=(1, None))
        precision, volume = jax.vmap(per_group)(w, projection.residual)
    replicas = y.shape[2] // precision.shape[1]
    full = jnp.repeat(precision, replicas, axis=1) if replicas > 1 else precision
    shift = jnp.einsum("kpbc,kcp->kpb", full, y)
    noise = jnp.sum(jnp.broadcast_to(log_noise, y.shape), axis=(1, 2))
    quadratic = jnp.einsum("kpb,kbp->k", shift, y)
    return shift, precision, -0.5 * (noise + replicas * jnp.sum(volume, axis=1) + quadratic)


def _groups(presence: Array, variance: Array) -> int:
    return max(presence.shape[-1], variance.shape[-1] if variance.ndim else 1)


class SiteFactor(eqx.Module):
    r"""Rows with any likelihood, each with a site on each of its edges.

    Attributes:
        edges: the variables that the rows see.
        rows: the data.
        term: what stands in the place of the likelihood.
        sight: what the term sees of the belief.
        power: the power of all rows; `rows.power` takes its place where given.
        chunk: rows worked on at a time.
        level: whether the term depends on differences between its edges alone, and these are
            alike a priori: what the variables contribute to their means then adds up to zero at
            every fixed point.
    """

    edges: tuple[Edge, ...]
    rows: Rows
    term: AbstractLocalTerm
    power: Power
    chunk: int = eqx.field(static=True)
    evaluation_point: EvaluationPoint = eqx.field(static=True, default=EvaluationPoint.CAVITY)
    level: bool = eqx.field(static=True, default=False)

    def empty_sites(self) -> tuple[AbstractSites, ...]:
        """Sites of precision zero, where every sweep may start."""
        y = self.rows.y
        stores: list[AbstractSites] = []
        for edge in self.edges:
            count = edge.slots.count(y.shape[0])
            if self.rows.blocked:
                shift = jnp.zeros((count, y.shape[2], y.shape[1]), y.dtype)
                stores.append(BlockSites(shift, jnp.zeros((*shift.shape, y.shape[1]), y.dtype)))
            elif self.term.classes:
                zero = jnp.zeros((count, 1, self.term.classes), y.dtype)
                stores.append(ClassSites(zero, zero))
            else:
                zero = jnp.zeros((count, y.shape[1]), y.dtype)
                stores.append(ScalarSites(zero, zero))
        return tuple(stores)

    def row_sites(self, store: tuple[AbstractSites, ...]) -> tuple[AbstractSites, ...]:
        """The site of every row on each edge."""
        pairs = zip(self.edges, store, strict=True)
        return tuple(edge.slots.expand(sites, self.rows.y.shape[0]) for edge, sites in pairs)

    def stored(self, sites: tuple[AbstractSites, ...]) -> tuple[AbstractSites, ...]:
        """The stores from the sites of every row."""
        presence = self.row_presence(self.rows)
        pairs = zip(self.edges, sites, strict=True)
        return tuple(edge.slots.reduce(each, presence) for edge, each in pairs)

    def row_power(self, rows: Rows) -> Power:
        """The power of a chunk of rows, in a shape that broadcasts against its sites."""
        if rows.power is None:
            return self.power
        return rows.power if rows.blocked else rows.power[:, None]

    def site_power(self, rows: Rows) -> Power:
        """The power of the sites, which is what a cavity leaves out of them."""
        return self.row_power(rows) if self.evaluation_point is EvaluationPoint.CAVITY else 0.0

    @property
    def stationary(self) -> bool:
        """Whether at a fixed point the energy is stationary in the marginals."""
        return self.term.stationary(self.row_power(self.rows))

    def visible(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """What of a belief's marginals the sites and the term see."""
        return mean, jnp.zeros_like(var) if self.evaluation_point is EvaluationPoint.MODE else var

    def row_presence(self, rows: Rows) -> Array:
        """1 where a site belongs to data: per row and output, or per block and output."""
        if rows.blocked:
            return jnp.max(jnp.broadcast_to(rows.presence, rows.y.shape), axis=1)
        return jnp.broadcast_to(rows.presence, rows.y.shape)


Factor = ExactFactor | SiteFactor
