"""Floor 3: models, and the processes that they become."""

from cavity.models.gp import GP
from cavity.models.posterior import AbstractPosterior, FullPosterior, SparsePosterior

__all__ = ["GP", "AbstractPosterior", "FullPosterior", "SparsePosterior"]
