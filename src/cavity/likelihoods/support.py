"""Sets of possible outputs of likelihoods."""

import enum

from cavity.numerics.types import Array, Bool, Float


class Support(enum.Enum):
    """The values that outputs may take; of labels a likelihood knows how many there are."""

    REAL = "real numbers"
    POSITIVE = "numbers above zero"
    UNIT = "numbers strictly between 0 and 1"
    COUNTS = "counts 0, 1, 2, ..."
    LABELS = "labels 0, 1, 2, ..."

    @property
    def discrete(self) -> bool:
        """True if outputs have probabilities rather than densities."""
        return self in (Support.COUNTS, Support.LABELS)

    def contains(self, y: Float[Array, "..."]) -> Bool[Array, "..."]:
        """True where a value belongs to the support."""
        if self is Support.POSITIVE:
            return y > 0.0
        if self is Support.UNIT:
            return (y > 0.0) & (y < 1.0)
        if self.discrete:
            return (y >= 0.0) & (y.round() == y) & (y < float("inf"))
        return abs(y) < float("inf")
