"""Whether data say which columns matter, or inclusion is that of the prior."""

from typing import Any

import jax
import numpy as np

from cavity.models.linear.coefficients import Coefficients
from cavity.models.mixture_posterior import MixturePosterior
from cavity.models.posterior import AbstractPosterior

# Probabilities of inclusion this near to the share of columns that matter come from the prior.
NEAR = 0.1


def hardly_moved(posterior: AbstractPosterior, found: Coefficients) -> str | None:
    """That no column is told from any other by the rows, in words; None where some are.

    Args:
        posterior: of a linear model, at one value of its parameters or averaged over several.
        found: its coefficients.
    """
    if found.inclusion is None or found.inclusion.size < 2:
        return None
    if isinstance(posterior, MixturePosterior):
        parts, shares = posterior.parts, np.asarray(posterior.shares)
    else:
        parts = jax.tree.map(lambda x: np.asarray(x)[None], posterior)
        shares = np.ones(1)
    model: Any = parts
    prior = model.model.prior
    if isinstance(prior, tuple) or not hasattr(prior, "share") or np.ndim(prior.share) != 1:
        return None
    share = float(shares @ np.asarray(prior.share))
    if np.max(np.abs(found.inclusion - share)) > NEAR:
        return None
    return (
        "the rows hardly tell which columns matter: every probability of inclusion is within "
        f"{NEAR:g} of {share:.2f}, the share of columns that matter, and comes from the prior"
    )
