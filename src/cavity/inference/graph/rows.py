"""The rows that factors work on."""

import equinox as eqx

from cavity.numerics.types import Array, Float


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
    """

    x: Float[Array, "*rows D"]
    y: Float[Array, "*rows P"]
    presence: Float[Array, "*rows G"]
    side: dict[str, Float[Array, "*rows"]] = eqx.field(default_factory=dict)
    power: Float[Array, " N"] | None = None

    @property
    def blocked(self) -> bool:
        return self.x.ndim == 3

    @property
    def columns(self) -> dict[str, Array]:
        """Side data in a shape that broadcasts against outputs."""
        return {name: values[..., None] for name, values in self.side.items()}
