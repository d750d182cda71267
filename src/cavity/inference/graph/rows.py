"""Rows: the arrays of the data that factors use."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from cavity.numerics.types import Array, Float, Int

# Side data that say which slope of the function a row observes: a column, or -1 for its value.
SLOPES = "slope_of"


class Rows(eqx.Module):
    """Data padded to a repeating shape; rows that are only padding have presence 0.

    With blocks, a row is a block: N is replaced by K x B in the leading axes of every field,
    and `power` has one entry per block.

    Attributes:
        x: inputs.
        y: outputs; entries with presence 0 are arbitrary but finite.
        presence: 1 for an observed output, 0 for a missing one or padding. G is 1 when the same
            rows are observed for all outputs.
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
    def site_presence(self) -> Array:
        """1 where a site belongs to data: per row and output, or per block and output."""
        presence = jnp.broadcast_to(self.presence, self.y.shape)
        return jnp.max(presence, axis=1) if self.blocked else presence

    def numbered(self) -> "Rows":
        """The rows with their positions, before they are cut into chunks."""
        if self.index is not None:
            return self
        return dataclasses.replace(self, index=jnp.arange(self.y.shape[0]))

    def take(self, index: Int[Array, " n"]) -> "Rows":
        """Some of the rows."""
        rows = jax.tree.map(lambda x: x[index], self)
        return dataclasses.replace(rows, index=index)
