"""Floor 3: models, and the processes that they become."""

from cavity.models.base import AbstractModel
from cavity.models.from_beliefs import ClassesPosterior
from cavity.models.gp import GP
from cavity.models.posterior import (
    AbstractPosterior,
    FullPosterior,
    LatentsPosterior,
    SparsePosterior,
)
from cavity.models.sampled_posterior import SampledPosterior

__all__ = [
    "GP",
    "AbstractModel",
    "AbstractPosterior",
    "ClassesPosterior",
    "FullPosterior",
    "LatentsPosterior",
    "SampledPosterior",
    "SparsePosterior",
]
