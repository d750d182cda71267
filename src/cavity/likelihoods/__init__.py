"""Floor 1: densities of an output given the latent function."""

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.binary import Bernoulli, BernoulliPredictive
from cavity.likelihoods.counts import NegativeBinomial, Poisson
from cavity.likelihoods.gaussian import Gaussian, NormalPredictive
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.loglinear import AbstractLogLinear
from cavity.likelihoods.ordinal import OrdinalPredictive, OrdinalProbit
from cavity.likelihoods.positive import Exponential, Gamma
from cavity.likelihoods.predictive import (
    AbstractPredictive,
    GridPredictive,
    MixturePredictive,
)
from cavity.likelihoods.robust import Laplace, StudentT
from cavity.likelihoods.support import Support
from cavity.likelihoods.unit import Beta

__all__ = [
    "AbstractLikelihood",
    "AbstractLogLinear",
    "AbstractPredictive",
    "Bernoulli",
    "BernoulliPredictive",
    "Beta",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GridPredictive",
    "HeteroscedasticGaussian",
    "Laplace",
    "MixturePredictive",
    "NegativeBinomial",
    "NormalPredictive",
    "OrdinalPredictive",
    "OrdinalProbit",
    "Poisson",
    "StudentT",
    "Support",
]
