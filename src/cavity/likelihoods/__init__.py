"""Floor 1: densities of an output given the latent function."""

from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.binary import Bernoulli, BernoulliPredictive
from cavity.likelihoods.counts import NegativeBinomial, Poisson
from cavity.likelihoods.gaussian import Gaussian, NormalPredictive
from cavity.likelihoods.heavy_tailed import Laplace, StudentT
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.log_link import AbstractLogLinear
from cavity.likelihoods.multiclass import (
    AbstractClasses,
    MultinomialProbit,
    RobustMax,
    Softmax,
)
from cavity.likelihoods.ordinal import OrdinalProbit
from cavity.likelihoods.positive import Exponential, Gamma
from cavity.likelihoods.predictive.latent import (
    AbstractPredictive,
    ClassPredictive,
    GridPredictive,
    LatentPredictive,
)
from cavity.likelihoods.predictive.mixture import MixturePredictive
from cavity.likelihoods.proportions import Beta
from cavity.likelihoods.support import Support

__all__ = [
    "AbstractClasses",
    "AbstractLikelihood",
    "AbstractLogLinear",
    "AbstractPredictive",
    "Bernoulli",
    "BernoulliPredictive",
    "Beta",
    "ClassPredictive",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GridPredictive",
    "HeteroscedasticGaussian",
    "Laplace",
    "LatentPredictive",
    "MixturePredictive",
    "MultinomialProbit",
    "NegativeBinomial",
    "NormalPredictive",
    "OrdinalProbit",
    "Poisson",
    "RobustMax",
    "Softmax",
    "StudentT",
    "Support",
]
