"""Inference once more, on any rows, with the parameters that a fit learned."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cavity.learning.double_precision import in_double
from cavity.learning.infer import infer
from cavity.learning.results.result import Inference
from cavity.models.posterior import AbstractPosterior


@in_double
def infer_again(
    posterior: AbstractPosterior,
    scale: np.ndarray,
    X: np.ndarray,
    y: np.ndarray,
    side: Mapping[str, np.ndarray],
    **options: Any,
) -> Inference:
    """Inference on rows with nothing but the parameters of a posterior.

    Args:
        posterior: of outputs that were divided by `scale`.
        scale: the divisor of each output, (P,).
        X: inputs, (N, D).
        y: outputs in the units of the data, (N, P).
        side: side data by name, (N,) each.
        **options: of `infer`: `method`, `power`, `jitter` to begin with, and `missing`.

    Returns:
        The result, of the divided outputs.
    """
    outputs = y / scale
    column = outputs[:, 0] if outputs.shape[1] == 1 else outputs
    return infer(posterior.model, X, column, rows=dict(side) or None, **options)


@in_double
def left_out_densities(result: Inference, scale: np.ndarray) -> np.ndarray:
    """Log density of each output given the others, (N, P), in nats per unit of the data.

    Args:
        result: of outputs that were divided by `scale`.
        scale: the divisor of each output, (P,).
    """
    found = result.leave_one_out()
    return found.reshape(len(found), -1) - np.log(scale)
