"""Starting values from the data."""

from typing import Any

import equinox as eqx
import numpy as np

from cavity.inference.methods import PowerEP
from cavity.learning.data import prepare
from cavity.learning.infer import NumericalError, as_dtype, infer_from
from cavity.learning.scales import Scales, in_data_units
from cavity.models.gp import GP
from cavity.numerics.parameters import Positive, describe

# Rows on which starting values are compared, and the length factors tried.
SCREENED = 256
FACTORS = (1.0, 0.5, 0.25, 0.1, 0.03)


def starting_model(model: GP, scales: Scales) -> GP:
    """A model in standardised units, with its parameters moved to the units of the data.

    A typical distance between inputs counts as one unit: the columns' spreads times the square
    root of their number.
    """
    kernel = in_data_units(model.kernel, scales.typical())
    likelihood = in_data_units(model.likelihood, scales)
    return eqx.tree_at(lambda m: (m.kernel, m.likelihood), model, (kernel, likelihood))


def screen(model: GP, X: np.ndarray, y: np.ndarray, *, seed: int = 0) -> GP:
    """The model with its lengthscales multiplied by the best of a few factors.

    They are compared by the exact evidence of a random subset of the rows, which finds the
    right order of magnitude where the evidence has several maxima.

    Args:
        model: the model; its inducing variables play no part.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        seed: of the subset.
    """
    random = np.random.default_rng(seed)
    kept = np.sort(random.choice(len(X), min(SCREENED, len(X)), replace=False))
    if np.all(np.isnan(y[kept])):
        return model
    data = prepare(X[kept], y[kept], missing="skip")
    full = GP(model.kernel, model.likelihood, None, model.mean)
    best, chosen = -np.inf, model
    for factor in FACTORS:
        kernel = _stretched(full.kernel, factor)
        candidate = eqx.tree_at(lambda m: m.kernel, full, kernel)
        try:
            found = infer_from(as_dtype(candidate, data), data, PowerEP(), 0.0)
        except NumericalError:
            continue
        if found.log_evidence > best:
            best = found.log_evidence
            chosen = eqx.tree_at(lambda m: m.kernel, model, kernel)
    return chosen


def _stretched(kernel: Any, factor: float) -> Any:
    """The kernel with every positive parameter in input units scaled as a length is."""

    def stretch(field: Any, value: Any) -> np.ndarray:
        declared = {} if field is None else field.metadata
        if not isinstance(declared.get("domain"), Positive):
            return np.asarray(value)
        return np.asarray(value * factor ** declared["units"].input)

    return describe(kernel, stretch)
