"""`cavity fit --model linear`: groups of columns."""

from typing import Any

from cavity.cli.rows import FitRows
from cavity.cli.session import blaming
from cavity.estimators.blocks import COLUMNS, category_blocks
from cavity.estimators.linear import LinearClassifier, LinearRegressor


class FitLinear(FitRows[LinearRegressor | LinearClassifier]):
    """A linear model with a sparse prior."""

    def settings(self) -> dict[str, Any]:
        """Blocks of the features of each category, where they are to be zero together."""
        if not self.asked["blocks"]:
            return {}
        with blaming("--blocks"):
            category_blocks(self.tables.schema.encoder.widths, "tables with columns of categories")
        return {"blocks": COLUMNS}
