"""Fits beyond the first call: what they take beside model and data, and what they give back."""

from cavity.inference.propagation import Linearised, Moments, Nodes
from cavity.learning.active.controls import ControlSuggestion, suggest_controls
from cavity.learning.active.suggest import Suggestions
from cavity.learning.data.batches import Batches
from cavity.learning.failures import NumericalError
from cavity.learning.integration.integrate import Integration
from cavity.learning.mcmc.chains import Chains
from cavity.learning.mcmc.inputs import InputDraws, draw_inputs
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.results.result import FitResult, Inference
from cavity.learning.streaming.result import UpdateResult
from cavity.learning.streaming.scores import BatchScores
from cavity.models.compression import compressed
from cavity.persistence.checkpoint import Checkpoint
from cavity.persistence.model_file import load_module, save_module

__all__ = [
    "BatchScores",
    "Batches",
    "Chains",
    "Checkpoint",
    "ControlSuggestion",
    "FitResult",
    "Inference",
    "InputDraws",
    "Integration",
    "Linearised",
    "Moments",
    "Nodes",
    "NumericalError",
    "Progress",
    "Suggestions",
    "UpdateResult",
    "compressed",
    "draw_inputs",
    "load_module",
    "save_module",
    "suggest_controls",
]


def __dir__() -> list[str]:
    return __all__
