"""Views of weights with one site for all rows: whitened, with standard normal priors."""

from typing import ClassVar

import jax.numpy as jnp

from cavity.inference.factors.tied import TiedCavity
from cavity.inference.graph.base import AbstractView
from cavity.inference.graph.marginals import Marginal, Moments, Projection, projected_marginal
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites
from cavity.inference.weights.views import Design
from cavity.numerics.types import Array, Float


class AbstractTiedWeightsView(AbstractView[TiedCavity]):
    """Rows see weights that are deviations of their priors times whitened values.

    To implement:
        `marginal(belief, rows, sites)` and `at(moments, rows)`.

    Attributes:
        deviation: prior standard deviations of the weights.
    """

    scalar: ClassVar[bool] = False
    deviation: Float[Array, " p"]

    def presence(self, rows: Rows) -> Array:
        return rows.site_presence


class TiedUnitsView(AbstractTiedWeightsView):
    """Rows see linear functions of their inputs, one for each unit.

    Attributes:
        design: what the weights multiply.
    """

    design: Design

    def _projection(self, rows: Rows) -> Projection:
        zero = jnp.zeros(rows.x.shape[0], rows.x.dtype)
        return Projection(self.deviation[:, None] * self.design(rows.x).T, zero, zero[:, None])

    def marginal(
        self, belief: TiedCavity, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        projection = self._projection(rows)
        return projected_marginal(*belief.marginal(projection), projection)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return projected_marginal(*moments, self._projection(rows))


class TiedWholeView(AbstractTiedWeightsView):
    """Every row sees all weights of each function."""

    def marginal(
        self, belief: TiedCavity, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        root = belief.root * self.deviation
        mean, cov = belief.mean * self.deviation, jnp.swapaxes(root, 1, 2) @ root
        count = rows.y.shape[0]
        return self.at(
            (
                jnp.broadcast_to(mean, (count, *mean.shape)),
                jnp.broadcast_to(cov, (count, *cov.shape)),
            ),
            rows,
        )

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        mean, cov = moments
        return Marginal(mean, cov, jnp.zeros_like(mean), jnp.zeros_like(cov))
