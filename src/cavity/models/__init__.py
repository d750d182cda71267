"""Floor 3: models, and the processes that they become."""

from cavity.models.base import AbstractModel
from cavity.models.deep.deep_gp import DeepGP
from cavity.models.deep.layer import Layer
from cavity.models.gp import GP
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.models.latent.gplvm import GPLVM
from cavity.models.latent_gp import LatentGP
from cavity.models.linear.coefficients import Coefficients, coefficients
from cavity.models.linear.linear_model import LinearModel
from cavity.models.mean_function import found_mean
from cavity.models.mixture_posterior import MixturePosterior
from cavity.models.network.network import Network
from cavity.models.network.start import NetworkStart
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.sampled_posterior import SampledPosterior
from cavity.models.state_space.gpssm import GPSSM
from cavity.numerics.renamed import refuse_old_names as _refuse_old_names

__all__ = [
    "GP",
    "GPLVM",
    "GPSSM",
    "AbstractModel",
    "AbstractPosterior",
    "Coefficients",
    "DeepGP",
    "LatentGP",
    "Layer",
    "LinearModel",
    "MixturePosterior",
    "Network",
    "NetworkStart",
    "ParameterMarginal",
    "Posterior",
    "SampledPosterior",
    "coefficients",
    "found_mean",
    "integrated_parameters",
]

_OLD_NAMES = dict.fromkeys(
    ("ClassesPosterior", "FullPosterior", "LatentsPosterior", "SparsePosterior"), "Posterior"
)
__getattr__ = _refuse_old_names(__name__, {**_OLD_NAMES, "DrawsPosterior": "SampledPosterior"})
