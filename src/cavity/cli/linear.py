"""`cavity fit --model linear`: groups of columns, and what is remembered."""

from typing import Any

import numpy as np

from cavity.cli.rows import FitRows
from cavity.cli.session import blaming
from cavity.estimators.blocks import COLUMNS, category_blocks
from cavity.estimators.linear import LinearClassifier, LinearRegressor
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.tables.coefficients import model_coefficients, says_little, selected_columns
from cavity.tables.table_model import TableModel


class FitLinear(FitRows[LinearRegressor | LinearClassifier]):
    """A linear model with a sparse prior."""

    def settings(self) -> dict[str, Any]:
        """Blocks of the features of each category, where they are to be zero together."""
        if not self.asked["blocks"]:
            return {}
        with blaming("--blocks"):
            category_blocks(self.tables.schema.encoder.widths, "tables with columns of categories")
        return {"blocks": COLUMNS}

    def further(
        self, estimator: LinearRegressor | LinearClassifier, fitted: TableModel
    ) -> dict[str, Any]:
        """The prior, the columns selected, and the parameters averaged over."""
        several = fitted.posterior.model.likelihood.latents > 1
        record: dict[str, Any] = {
            "prior": self.asked["prior"],
            "selected": selected_columns(model_coefficients(fitted)),
        }
        little = says_little(fitted)
        if little is not None:
            record["selection_message"] = little
        found = integrated_parameters(fitted.posterior)
        if found:
            record["integrated"] = {name: _of_marginal(one) for name, one in found.items()}
        return record | ({"coupled": False} if several else {})


def _of_marginal(marginal: ParameterMarginal) -> dict[str, Any]:
    """Median and ends of the central interval as JSON values."""
    ends = {"lower": marginal.lower, "median": marginal.median, "upper": marginal.upper}
    return {name: np.asarray(value).tolist() for name, value in ends.items()}
