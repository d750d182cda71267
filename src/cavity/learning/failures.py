"""Numerical failures, and their diagnosis."""

import numpy as np

from cavity.learning.data.training_data import AbstractTrainingData
from cavity.models.base import AbstractModel
from cavity.numerics.linalg import MOST_JITTER
from cavity.numerics.tree import named


class NumericalError(RuntimeError):
    """A computation that stayed undefined after every remedy; the message names a culprit."""


class EngineError(OSError):
    """Processes that could not do their part of the work; the message names one, and a remedy."""


def diagnose_failure(model: AbstractModel, data: AbstractTrainingData) -> str:
    """A sentence on why the result is not finite, and what to do."""
    huge = data.largest
    if huge > 1e100:
        return (
            f"the data reach {huge:.1e}, too large to square; change their units (for example, "
            "divide by their standard deviation)"
        )
    zero = [
        name
        for name, value in named(model).items()
        if not np.all(np.asarray(value) != 0.0)
        and name.rsplit(".", 1)[-1] in ("variance", "lengthscale", "period", "factor")
    ]
    if zero:
        return f"the parameter {zero[0]} is zero; variances and lengthscales must be positive"
    if model.drawn_weights is not None:
        return (
            "the density of the data, or the posterior of the weights, is not finite. Likely "
            "culprits: parameters far outside the scale of the data (print the model), and "
            "columns in very different units (divide each by its standard deviation)"
        )
    return (
        "the covariance matrix is not positive definite even with a jitter of "
        f"{MOST_JITTER:g} of its mean variance. Likely culprits: a kernel that is not positive "
        "semi-definite, or parameters far outside the scale of the data (print the model)"
    )
