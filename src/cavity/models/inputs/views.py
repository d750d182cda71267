"""Views of latent inputs: free beliefs, sites, or the outputs of an encoder."""

import equinox as eqx
import jax.numpy as jnp

from cavity.inference.factors.averaged import AbstractSight, GaussianRows
from cavity.inference.graph.base import AbstractSiteView, AbstractView, Messages
from cavity.inference.graph.marginals import Latent, Marginal, Moments
from cavity.inference.graph.rows import Rows
from cavity.inference.graph.sites import AbstractSites, ScalarSites
from cavity.inference.variables.inputs import InputBelief, InputMoments, Inputs
from cavity.kernels.expectations import GaussianInputs
from cavity.models.inputs.encoder import SiteEncoder
from cavity.numerics.types import Array, Float

# Standard deviations of latent inputs that a search starts from.
DEVIATION = 0.3
# Deviations of outputs below this share of their magnitude are rounding; components whose
# deviation is below this share of the largest are not scaled up.
CONSTANT, NEGLIGIBLE = 1e-12, 1e-6


class FreeInputs(AbstractSiteView[InputBelief, Inputs]):
    """Every row sees its own latent input.

    Attributes:
        columns: coordinates of an input.
        points: whether it has a point estimate.
    """

    columns: int = eqx.field(static=True)
    points: bool = eqx.field(static=True, default=False)

    def start(self, rows: Rows) -> InputMoments:
        """Principal components of the outputs, and zeros for further coordinates."""
        mean = principal_components(rows, min(self.columns, rows.y.shape[1]))
        mean = jnp.pad(mean, ((0, 0), (0, self.columns - mean.shape[1])))
        raw = None if self.points else jnp.full(mean.shape, jnp.log(DEVIATION), mean.dtype)
        return InputMoments(mean, raw)

    def empty_sites(self, rows: Rows) -> ScalarSites:
        """Sites that make the same beliefs: from ones of precision zero all rows are alike."""
        return self.start(rows).sites(self.presence(rows))

    def presence(self, rows: Rows) -> Array:
        return presence_of_rows(rows, self.columns)

    def marginal(
        self, belief: InputBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        mean, var = belief.mean, belief.var
        if rows.index is not None:
            mean, var = mean[rows.index], var[rows.index]
        return self.at((mean, var), rows)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return Marginal.of_values(*moments)

    def messages(self, variable: Inputs, rows: Rows, sites: AbstractSites) -> Messages:
        return Messages(sites.shift, sites.precision, jnp.zeros((), rows.y.dtype))

    def without_site(
        self, belief: InputBelief, rows: Rows, sites: AbstractSites
    ) -> tuple[Latent, Array]:
        marginal = self.marginal(belief, rows, sites)
        mean, var, proper = sites.cavity(*marginal.moments, 1.0)
        return marginal.latent(mean, var), proper


class KnownOutputs(AbstractSight):
    """A regression on latent inputs sees them, and the outputs of the rows.

    Attributes:
        inputs: how rows see their inputs.
    """

    inputs: "FreeInputs | EncodedInputs"

    def __call__(self, belief: InputBelief, rows: Rows) -> GaussianRows:
        inputs = GaussianInputs(*self.inputs.marginal(belief, rows).moments)
        return GaussianRows(inputs, rows.y, rows.presence)


class EncodedInputs(AbstractView[InputBelief]):
    """Every row sees what an encoder says of its latent input, given its outputs.

    Attributes:
        encoder: from outputs to sites on the input.
    """

    encoder: SiteEncoder

    def start(self, rows: Rows) -> None:
        """Nothing is stored."""

    def presence(self, rows: Rows) -> Array:
        return presence_of_rows(rows, self.encoder.columns)

    def marginal(
        self, belief: InputBelief, rows: Rows, sites: AbstractSites | None = None
    ) -> Marginal:
        return self.at(self.encoder(rows.y, rows.observed), rows)

    def at(self, moments: Moments, rows: Rows) -> Marginal:
        return Marginal.of_values(*moments)


def presence_of_rows(rows: Rows, columns: int) -> Float[Array, "N Q"]:
    """The weights of rows in which an output is observed, for all coordinates; else 0."""
    observed = jnp.max(rows.site_presence, axis=1, keepdims=True)
    return jnp.broadcast_to(observed, (observed.shape[0], columns))


def standardised(rows: Rows) -> Float[Array, "N P"]:
    """Outputs about their means, in units of their deviations; zero where missing."""
    presence = rows.site_presence
    count = _count(presence)
    away = rows.observed * (rows.y - jnp.sum(presence * rows.y, axis=0) / count)
    spread = jnp.sqrt(jnp.sum(presence * away**2, axis=0) / count)
    constant = spread <= CONSTANT * jnp.max(jnp.abs(rows.y), axis=0)
    return jnp.where(constant, 0.0, away / jnp.where(constant, 1.0, spread))


def principal_components(rows: Rows, columns: int) -> Float[Array, "N Q"]:
    """Leading principal components of standardised outputs, each of unit variance.

    Missing outputs stand at their mean.
    """
    standard = standardised(rows)
    weight = jnp.max(rows.site_presence, axis=1, keepdims=True)
    _, vectors = jnp.linalg.eigh(standard.T @ (weight * standard))
    leading = vectors[:, ::-1][:, :columns]
    # the largest weight of a component is positive
    largest = jnp.take_along_axis(leading, jnp.argmax(jnp.abs(leading), axis=0)[None], axis=0)
    scores = standard @ (leading * jnp.sign(largest))
    deviation = jnp.sqrt(jnp.sum(weight * scores**2, axis=0) / _count(weight)[0])
    tiny = jnp.finfo(scores.dtype).tiny
    return scores / jnp.maximum(deviation, NEGLIGIBLE * jnp.max(deviation) + tiny)


def _count(presence: Float[Array, "N _"]) -> Float[Array, " _"]:
    """Numbers of observed rows, by column; one where there is none."""
    count = jnp.sum(presence, axis=0)
    return jnp.where(count > 0.0, count, 1.0)
