"""Rows: the arrays of the data that factors use."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.numerics.types import Array, Float, Int

# Side data that say which slope of the function a row observes: a column, or -1 for its value.
SLOPES = "slope_of"
# Side data that say how many rows a row stands for; in `Rows` they are in `presence`.
WEIGHT = "weight"


class Rows(eqx.Module):
    """Data padded to a repeating shape; rows that are only padding have presence 0.

    The term of an observed output counts as often as its presence says, which is 1 without
    weights: a row of weight w is w rows that are alike, each with the cavity of one of them.

    With blocks, a row is a block: N is replaced by K x B in the leading axes of every field,
    and `power` has one entry per block.

    Attributes:
        x: inputs.
        y: outputs; entries with presence 0 are arbitrary but finite.
        presence: the weight of an observed output, 0 for a missing one or padding. G is 1 when
            the same rows are observed for all outputs.
        side: what else is known of each row, by name: its noise variance, its exposure.
        power: the power of each row where it differs between rows, else None.
        index: the positions of these rows in the table, where they are some of its rows.
        projections: what views see of these rows at fixed parameters, by the number of the view:
            loadings, rows x M, and residuals.
    """

    x: Float[Array, "*rows D"]
    y: Float[Array, "*rows P"]
    presence: Float[Array, "*rows G"]
    side: dict[str, Float[Array, "*rows"]] = eqx.field(default_factory=dict)
    power: Float[Array, " N"] | None = None
    index: Int[Array, " n"] | None = None
    projections: dict[int, tuple[Array, Array]] = eqx.field(default_factory=dict)

    @property
    def blocked(self) -> bool:
        return self.x.ndim == 3

    @property
    def columns(self) -> dict[str, Array]:
        """Side data that likelihoods read, in a shape that broadcasts against outputs."""
        return {name: x[..., None] for name, x in self.side.items() if name != SLOPES}

    @property
    def observed(self) -> Array:
        """1 where an output is observed, else 0."""
        presence = jnp.broadcast_to(self.presence, self.y.shape)
        return (presence > 0.0).astype(self.y.dtype)

    @property
    def weighted(self) -> bool:
        """True if some rows count for other than one; for rows that are not traced."""
        presence = np.asarray(self.presence)
        return bool(np.any((presence != 0.0) & (presence != 1.0)))

    @property
    def site_presence(self) -> Array:
        """Sites that belong to data: per row and output, or per block and output.

        The weight of a row; 1 for a block, in which weights divide the noise.
        """
        if self.blocked:
            return jnp.max(self.observed, axis=1)
        return jnp.broadcast_to(self.presence, self.y.shape)

    def numbered(self) -> "Rows":
        """The rows with their positions, before they are cut into chunks."""
        if self.index is not None:
            return self
        return dataclasses.replace(self, index=jnp.arange(self.y.shape[0]))

    def take(self, index: Int[Array, " n"]) -> "Rows":
        """Some of the rows."""
        rows = jax.tree.map(lambda x: x[index], self)
        return dataclasses.replace(rows, index=index)
