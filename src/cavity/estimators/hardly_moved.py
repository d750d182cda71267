"""Check whether inclusion probabilities differ from those of the prior."""

from typing import Any

import numpy as np

from cavity.models.integrated_parameters import integrated_parameters
from cavity.models.linear.coefficients import Coefficients
from cavity.models.posterior import AbstractPosterior

# Odds of inclusion within this factor of those of the share of columns are from the prior.
NEAR = 5.0


def hardly_moved(posterior: AbstractPosterior, found: Coefficients) -> str | None:
    """Warning if all inclusion probabilities are close to the prior's; None otherwise.

    Args:
        posterior: of a linear model, at one value of its parameters or averaged over several.
        found: its coefficients.
    """
    if found.inclusion is None or found.inclusion.size < 2:
        return None
    model: Any = posterior
    averaged = integrated_parameters(posterior).get("prior.share")
    share = getattr(model.model.prior, "share", None) if averaged is None else averaged.median
    if share is None:
        return None
    usual = _of_columns(np.ravel(share), model.model.units(len(found.inclusion)))
    usual = usual.reshape(-1, *[1] * (found.inclusion.ndim - 1))
    moved = _log_odds(found.inclusion) - _log_odds(usual)
    if np.max(np.abs(moved)) > np.log(NEAR):
        return None
    ends = dict.fromkeys(f"{end:.2f}" for end in (usual.min(), usual.max()))
    return (
        "the rows hardly tell which columns matter: odds of inclusion are within a factor of "
        f"{NEAR:g} of those of the share of columns that matter, which is about "
        f"{' to '.join(ends)}, and mostly come from the prior"
    )


def _of_columns(share: np.ndarray, units: Any) -> np.ndarray:
    """The share of each column: that of all, that of its group or block, or its own."""
    return share if len(share) == 1 or units is None else share[np.asarray(units)]


def _log_odds(share: np.ndarray) -> np.ndarray:
    inside = np.clip(share, 1e-12, 1.0 - 1e-12)
    return np.log(inside / (1.0 - inside))
