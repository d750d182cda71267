"""Floor 1: densities of an output given the latent function."""

from cavity.likelihoods.base import AbstractLikelihood, AbstractPredictive
from cavity.likelihoods.gaussian import Gaussian, NormalPredictive

__all__ = ["AbstractLikelihood", "AbstractPredictive", "Gaussian", "NormalPredictive"]
