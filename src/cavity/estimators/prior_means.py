"""Prior means that estimators are asked for by name."""

import numpy as np

from cavity.families.options import MEANS
from cavity.families.values import one_of
from cavity.means import AbstractMean, BayesianLinear, Constant, Linear, Zero

# Deviations of a linear mean at its centre and along each column, in spreads of the outputs.
BROAD = 10.0


def prior_mean(
    asked: object,
    X: np.ndarray,
    outputs: int,
    weights: np.ndarray | None = None,
    *,
    standardise: bool,
    integrated: bool,
) -> AbstractMean:
    """A prior mean at its start, where the spread of the outputs is 1.

    Args:
        asked: a name, or the mean itself.
        X: inputs, (N, D).
        outputs: their number.
        weights: of rows, (N,); None where all count once.
        standardise: whether the centre and the spreads of the inputs are those of the data.
        integrated: whether weights of a linear mean are integrated out.

    Raises:
        ValueError: for what names no mean.
    """
    if isinstance(asked, AbstractMean):
        return asked
    kind = one_of("mean", asked, MEANS)
    if kind == "zero":
        return Zero()
    if kind == "constant":
        return Constant(np.zeros(outputs) if outputs > 1 else 0.0)
    shape = X.shape[1:] if outputs == 1 else (X.shape[1], outputs)
    mean = np.average(X, axis=0, weights=weights)
    centre = mean if standardise else np.zeros(X.shape[1])
    start = np.zeros(shape), np.zeros(outputs if outputs > 1 else ())
    if not (integrated and standardise):  # nothing else tells how large weights may be
        return Linear(*start, centre)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    slopes = BROAD / np.where(spread > 0.0, spread, 1.0)
    return BayesianLinear(*start, slopes, BROAD, centre)
