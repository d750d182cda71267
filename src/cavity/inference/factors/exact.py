"""Exact factors: Gaussian in the latent function, with closed-form sites that need no sweeps."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.base import (
    AbstractRowFactor,
    Beliefs,
    Edge,
    EdgeMoments,
    Sent,
    SiteUpdate,
    Stores,
    no_update,
)
from cavity.inference.graph.base import (
    AbstractProjectedView,
    AbstractResponse,
    Projection,
)
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import ScalarSites
from cavity.inference.variables.gaussian_sites import exact_sites
from cavity.numerics.chunking import map_over_rows
from cavity.numerics.power_limits import Power
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


class ExactFactor(AbstractRowFactor):
    r"""Rows with Gaussian noise: $f_n = s_n t_n$ exactly.

    Its messages carry the log scales, so that it adds nothing else to the energy.

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

    edges: tuple[Edge, ...]
    rows: Rows
    chunk: int = eqx.field(static=True)
    noise_variance: Callable[..., Array]
    power: Power
    volume: float | None = eqx.field(static=True, default=None)

    @property
    def edge(self) -> Edge:
        """The one edge."""
        (edge,) = self.edges
        return edge

    @property
    def stationary(self) -> bool:
        return True

    @property
    def site_presence(self) -> tuple[Array, ...]:
        return ()

    @property
    def _view(self) -> AbstractProjectedView:
        return cast(AbstractProjectedView, self.edge.view)

    def sites(
        self, rows: Rows, projection: Projection
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, " rows"]]:
        """Shift and precision of the sites of a chunk, and the log of their scales."""
        return exact_sites(rows, projection, self.noise_variance, self.power, self.volume)

    def empty_sites(self) -> Stores:
        return ()

    def messages(self, variables: Sequence[Any], sites: Stores) -> Sent:
        index = self.edge.variable
        data = (self.rows, self.noise_variance, self.power, self.chunk)
        # views that know no volume of its own serve wherever there is none
        own: dict[str, Any] = {} if self.volume is None else {"volume": self.volume}
        return ((index, self._view.gaussian_messages(variables[index], *data, **own)),)

    def log_scale(
        self,
        q: Beliefs,
        sites: Stores,
        fixed: EdgeMoments | None = None,
        *,
        settled: bool = False,
    ) -> Scalar:
        return jnp.zeros(())

    def update(self, q: Beliefs, sites: Stores, step: Power) -> SiteUpdate:
        return no_update()

    def moments(self, q: Beliefs) -> EdgeMoments:
        return ()

    def update_at(self, fixed: EdgeMoments, sites: Stores, step: Power) -> SiteUpdate:
        return no_update()

    def powered_density(self) -> None:
        return None

    def moment_changes(
        self, responses: Sequence[AbstractResponse], changes: Sequence[object]
    ) -> EdgeMoments:
        return ()

    def leave_one_out(self, q: Beliefs, sites: Stores) -> Float[Array, "N P"] | None:
        if self.rows.blocked:
            return None

        def chunk_densities(rows: Rows) -> Array:
            belief: Any = q[self.edge.variable]
            latent, proper = self._view.without_site(belief, rows, self._scalar_sites(rows))
            total = latent.var + latent.residual + self.noise_variance(**rows.columns)
            density = -0.5 * (LOG_2PI + jnp.log(total) + (rows.y - latent.mean) ** 2 / total)
            return jnp.where(proper, density, jnp.nan)

        return map_over_rows(chunk_densities, self.rows, self.chunk)

    def site_precisions(self, q: Beliefs, sites: Stores) -> tuple[Float[Array, "N P"], ...] | None:
        if self.rows.blocked:
            return None
        chunk_precisions = lambda rows: self._scalar_sites(rows).precision  # noqa: E731
        return (map_over_rows(chunk_precisions, self.rows, self.chunk),)

    def _scalar_sites(self, rows: Rows) -> ScalarSites:
        shift, precision, _ = self.sites(rows, self._view.project(rows))
        return ScalarSites(shift, jnp.broadcast_to(precision, shift.shape))
