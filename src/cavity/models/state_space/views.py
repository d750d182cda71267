"""Views of states: pairs of neighbours for transitions, single states for outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.inference.factors.averaged import AbstractSight, GaussianRows
from cavity.inference.graph.rows import Rows
from cavity.inference.variables.chain import ChainBelief, Links
from cavity.inference.variables.inducing_view import OutputMean
from cavity.kernels.expectations import GaussianInputs
from cavity.numerics.special import LOG_2PI
from cavity.numerics.types import Array, Float, Scalar


class Transitions(AbstractSight):
    """A regression of every state on the one before.

    Attributes:
        links: how rows follow each other.
        controlled: whether inputs of the row follow the state, as columns.
    """

    links: Links
    controlled: bool = eqx.field(static=True)

    def __call__(self, belief: ChainBelief, rows: Rows) -> GaussianRows:
        mean, cov = shifted(belief.mean), shifted(belief.cov)
        inputs = state_inputs(mean, _shortened(cov), rows.x if self.controlled else None)
        more = inputs.mean.shape[1] - mean.shape[1]
        cross = jnp.pad(belief.cross, [(0, 0), (0, more), (0, 0)])
        var = jnp.diagonal(belief.cov, axis1=-2, axis2=-1)
        return GaussianRows(inputs, belief.mean, self.links.linked[:, None], var, cross)


class Emissions(AbstractSight):
    """A regression of the outputs on the states.

    Attributes:
        controlled: whether inputs of the row follow the state, as columns.
    """

    controlled: bool = eqx.field(static=True)

    def __call__(self, belief: ChainBelief, rows: Rows) -> GaussianRows:
        known = rows.x if self.controlled else None
        inputs = state_inputs(belief.mean, _shortened(belief.cov), known)
        return GaussianRows(inputs, rows.y, rows.presence)


class AffineEmissions(AbstractSight):
    """Affine functions of the states, one for each output.

    Attributes:
        mean: the functions.
    """

    mean: OutputMean

    def __call__(self, belief: ChainBelief, rows: Rows) -> GaussianRows:
        inputs = state_inputs(belief.mean, _shortened(belief.cov), None)
        slopes = jax.vmap(jax.jacfwd(lambda x: self.mean(x[None])[0]))(inputs.mean)
        var = jnp.einsum("npd,nde,npe->np", slopes, belief.cov, slopes)
        return GaussianRows(inputs, self.mean(inputs.mean), rows.site_presence, var)


class InitialStates(eqx.Module):
    r"""Expected log densities of the first states of series.

    They are $\mathcal N(\mathbf m_0, \operatorname{diag} \mathbf v_0)$ a priori.

    Attributes:
        mean: $\mathbf m_0$.
        variance: $\mathbf v_0$.
        links: how rows follow each other.
    """

    mean: Float[Array, " D"]
    variance: Float[Array, " D"]
    links: Links

    def __call__(self, belief: ChainBelief, rows: Rows) -> Scalar:
        var = jnp.diagonal(belief.cov, axis1=-2, axis2=-1)
        quadratic = ((belief.mean - self.mean) ** 2 + var) / self.variance
        density = -0.5 * jnp.sum(LOG_2PI + jnp.log(self.variance) + quadratic, axis=-1)
        return jnp.sum(self.links.first * density)


def shifted(values: Float[Array, "T *shape"]) -> Float[Array, "T *shape"]:
    """The values of the row before; those of the first row for itself."""
    return jnp.concatenate([values[:1], values[:-1]])


def state_inputs(
    mean: Float[Array, "T D"], cov: Float[Array, "T D *matrix"], x: Float[Array, "T C"] | None
) -> GaussianInputs:
    """States as inputs of functions, with known inputs after them.

    Args:
        mean: of the states.
        cov: their covariances, or variances.
        x: known inputs; None for none.
    """
    size = mean.shape[1]
    if x is not None:
        mean, more = jnp.concatenate([mean, x], axis=1), (0, x.shape[1])
        cov = jnp.pad(cov, [(0, 0), *[more] * (cov.ndim - 1)])
    return GaussianInputs(mean, cov, tuple(range(size)))


def _shortened(cov: Float[Array, "T D D"]) -> Float[Array, "T D *matrix"]:
    """Covariances; of one state its variances, for which expectations are cheaper."""
    return cov[:, :, 0] if cov.shape[1] == 1 else cov
