"""Floor 3: models, and the processes that they become."""

from cavity.models.base import AbstractModel
from cavity.models.draws import DrawsPosterior
from cavity.models.gp import GP
from cavity.models.posterior import (
    AbstractPosterior,
    FullPosterior,
    LatentsPosterior,
    SparsePosterior,
)
from cavity.models.posteriors import ClassesPosterior

__all__ = [
    "GP",
    "AbstractModel",
    "AbstractPosterior",
    "ClassesPosterior",
    "DrawsPosterior",
    "FullPosterior",
    "LatentsPosterior",
    "SparsePosterior",
]
