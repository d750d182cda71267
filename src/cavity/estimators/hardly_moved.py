"""Whether data say which columns matter, or inclusion is that of the prior."""

from typing import Any

import numpy as np

from cavity.models.integrated_parameters import integrated_parameters
from cavity.models.linear.coefficients import Coefficients
from cavity.models.posterior import AbstractPosterior

# Odds of inclusion within this factor of those of the share of columns are from the prior.
NEAR = 5.0


def hardly_moved(posterior: AbstractPosterior, found: Coefficients) -> str | None:
    """That no column is told from any other by the rows, in words; None where some are.

    Args:
        posterior: of a linear model, at one value of its parameters or averaged over several.
        found: its coefficients.
    """
    if found.inclusion is None or found.inclusion.size < 2:
        return None
    model: Any = posterior
    averaged = integrated_parameters(posterior).get("prior.share")
    share = getattr(model.model.prior, "share", None) if averaged is None else averaged.median
    if share is None or np.size(share) != 1:
        return None
    usual = float(np.reshape(share, ()))
    included = np.clip(found.inclusion, 1e-12, 1.0 - 1e-12)
    moved = np.log(included / (1.0 - included)) - np.log(usual / (1.0 - usual))
    if np.max(np.abs(moved)) > np.log(NEAR):
        return None
    return (
        "the rows hardly tell which columns matter: odds of inclusion are within a factor of "
        f"{NEAR:g} of those of the share of columns that matter, which is about {usual:.2f}, and "
        "mostly come from the prior"
    )
