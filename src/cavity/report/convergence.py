"""Consequences for predictions of a fit that did not converge."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Unconverged(NamedTuple):
    """Message about a fit that did not converge.

    Attributes:
        title: what is the matter.
        meaning: what it means for predictions and for numbers about them.
        serious: whether the predictions themselves are in doubt.
    """

    title: str
    meaning: str
    serious: bool


_DRAWS = Unconverged(
    "The draws did not converge",
    "The chains do not agree on the posterior yet, so predictions, intervals and the numbers "
    "about them depend on chance.",
    serious=True,
)
_INFERENCE = Unconverged(
    "Inference did not converge",
    "The posterior itself is not finished, so predictions, intervals and the log evidence are "
    "not those of the model, however good the metrics look; allow more iterations, or try "
    "another power or method.",
    serious=True,
)
_LEARNING = Unconverged(
    "Learning ended before the optimum",
    "Inference at the parameters that were reached is complete: predictions, intervals and "
    "metrics are right for this model. Other parameters may have a higher log evidence and "
    "predict somewhat better.",
    serious=False,
)
_LAYERS = Unconverged(
    "Learning of the layers ended early",
    "Predictions are those of the model as it is, and more steps, or the Gaussian process without "
    "hidden layers, may predict better.",
    serious=False,
)

_MINIBATCHES = Unconverged(
    "Learning by minibatches ended early",
    "Predictions are those of the model as it is, and more steps may predict better.",
    serious=False,
)
_STATES = Unconverged(
    "Learning ended before the optimum",
    "Forecasts are those of the model as it is, and more iterations may forecast better.",
    serious=False,
)


def unconverged(record: Mapping[str, Any]) -> Unconverged | None:
    """Message about the fit of a record; None if it converged."""
    if record["converged"]:
        return None
    if "layers" in record:
        return _LAYERS
    if record.get("batch") is not None:
        return _MINIBATCHES
    if "mcmc" in record:
        return _DRAWS
    if "states" in record:
        return _STATES
    return _LEARNING if record["sites"]["converged"] else _INFERENCE
