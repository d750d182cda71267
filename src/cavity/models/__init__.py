"""Floor 3: models, and the processes that they become."""

from cavity.models.base import AbstractModel
from cavity.models.gp import GP
from cavity.models.latent_gp import LatentGP
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.sampled_posterior import SampledPosterior

__all__ = [
    "GP",
    "AbstractModel",
    "AbstractPosterior",
    "LatentGP",
    "Posterior",
    "SampledPosterior",
]
