"""Floor 1: densities of an output given the latent function."""

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.binary import Bernoulli, BernoulliPredictive
from cavity.likelihoods.gaussian import Gaussian, NormalPredictive
from cavity.likelihoods.predictive import (
    AbstractPredictive,
    GridPredictive,
    MixturePredictive,
)
from cavity.likelihoods.robust import Laplace, StudentT
from cavity.likelihoods.support import Support

__all__ = [
    "AbstractLikelihood",
    "AbstractPredictive",
    "Bernoulli",
    "BernoulliPredictive",
    "Gaussian",
    "GridPredictive",
    "Laplace",
    "MixturePredictive",
    "NormalPredictive",
    "StudentT",
    "Support",
]
