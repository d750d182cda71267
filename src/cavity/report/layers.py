"""Summaries of the layers of a deep model at the rows of a table."""

from typing import cast

import jax
import numpy as np

from cavity.estimators.layers import layers_of
from cavity.learning.double_precision import in_double
from cavity.models.deep.posterior import DeepPosterior
from cavity.models.deep.summary import LayerSummary, summarise
from cavity.models.posterior import AbstractPosterior

# Rows of a table that are looked at, at the most.
MOST_ROWS = 1_000


@in_double
def layer_summaries(posterior: AbstractPosterior, X: np.ndarray) -> list[LayerSummary]:
    """Summaries of the layers of a deep model at the rows of X; none for another model."""
    if not layers_of(posterior.model) or len(X) < 2:
        return []
    return summarise(cast(DeepPosterior, posterior), jax.numpy.asarray(X[:MOST_ROWS]))
