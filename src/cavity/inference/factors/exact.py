"""Regressions at known inputs: closed-form sites that need no sweeps."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.base import AbstractRegression, Beliefs, Edge, Sent
from cavity.inference.graph.base import (
    AbstractBelief,
    AbstractProjectedVariable,
    AbstractProjectedView,
    AbstractVariable,
)
from cavity.inference.graph.marginals import Projection
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.numerics.chunking import map_over_rows
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float


class ExactRegression(AbstractRegression):
    r"""Rows with Gaussian noise: $f_n = s_n t_n$ exactly.

    Attributes:
        edges: the one variable that the rows observe.
        rows: the data.
        chunk: rows worked on at a time.
        noise_variance: the noise variance of rows, from the known ones among their side data;
            the result broadcasts against (rows, outputs).
        power: the power of all rows; `rows.power` takes its place where given.
        volume: the power of the volume that residuals take from the evidence; None for that of
            the precision.
    """

    edges: tuple[Edge[AbstractProjectedView], ...]
    rows: Rows
    chunk: int = eqx.field(static=True)
    noise_variance: Callable[..., Array]
    power: Power
    volume: float | None = eqx.field(static=True, default=None)

    @property
    def edge(self) -> Edge[AbstractProjectedView]:
        """The one edge."""
        (edge,) = self.edges
        return edge

    def sites(
        self, rows: Rows, projection: Projection
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, " rows"]]:
        """Shift and precision of the sites of a chunk, and the log of their scales."""
        return exact_sites(rows, projection, self.noise_variance, self.power, self.volume)

    def messages(
        self, variables: Sequence[AbstractVariable], stored: Sequence[AbstractBelief]
    ) -> Sent:
        index = self.edge.variable
        data = (self.rows, self.noise_variance, self.power, self.chunk)
        # views that know no volume of its own serve wherever there is none
        own: dict[str, Any] = {} if self.volume is None else {"volume": self.volume}
        variable = cast(AbstractProjectedVariable, variables[index])
        return ((index, self.edge.view.gaussian_messages(variable, *data, **own)),)

    def leave_one_out(self, q: Beliefs) -> Float[Array, "N P"] | None:
        if self.rows.blocked:
            return None

        def chunk_densities(rows: Rows) -> Array:
            belief: Any = q[self.edge.variable]
            latent, proper = self.edge.view.without_site(belief, rows, self._scalar_sites(rows))
            total = latent.var + latent.residual + self.noise_variance(**rows.columns)
            density = -0.5 * (LOG_2PI + jnp.log(total) + (rows.y - latent.mean) ** 2 / total)
            return jnp.where(proper, density, jnp.nan)

        return map_over_rows(chunk_densities, self.rows, self.chunk)

    def site_precisions(self, q: Beliefs) -> tuple[Float[Array, "N P"], ...] | None:
        if self.rows.blocked:
            return None
        chunk_precisions = lambda rows: self._scalar_sites(rows).precision  # noqa: E731
        return (map_over_rows(chunk_precisions, self.rows, self.chunk),)

    def _scalar_sites(self, rows: Rows) -> ScalarSites:
        shift, precision, _ = self.sites(rows, self.edge.view.project(rows))
        return ScalarSites(shift, jnp.broadcast_to(precision, shift.shape))
