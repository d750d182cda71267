"""Floor 1: densities of an output given the latent function."""

from cavity.likelihoods.base import AbstractLikelihood, LatentFunction
from cavity.likelihoods.binary import Bernoulli
from cavity.likelihoods.by_quadrature import AbstractQuadratureLikelihood
from cavity.likelihoods.capabilities import Bound
from cavity.likelihoods.counts import NegativeBinomial, Poisson
from cavity.likelihoods.gaussian import Gaussian, NormalPredictive
from cavity.likelihoods.heavy_tailed import Laplace, StudentT
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.integrated import Integrated
from cavity.likelihoods.log_link import AbstractLogLinear
from cavity.likelihoods.multiclass import (
    AbstractClasses,
    MultinomialProbit,
    RobustMax,
    Softmax,
)
from cavity.likelihoods.ordinal import OrdinalProbit
from cavity.likelihoods.positive import Exponential, Gamma
from cavity.likelihoods.predictive.base import AbstractPredictive
from cavity.likelihoods.predictive.classes import BernoulliPredictive, ClassPredictive
from cavity.likelihoods.predictive.latent import LatentPredictive
from cavity.likelihoods.predictive.mixture import MixturePredictive
from cavity.likelihoods.predictive.tabulated import GridPredictive
from cavity.likelihoods.proportions import Beta
from cavity.likelihoods.several_latents import AbstractCubatureLikelihood
from cavity.likelihoods.support import Support
from cavity.numerics.renamed import refuse_old_names as _refuse_old_names

__all__ = [
    "AbstractClasses",
    "AbstractCubatureLikelihood",
    "AbstractLikelihood",
    "AbstractLogLinear",
    "AbstractPredictive",
    "AbstractQuadratureLikelihood",
    "Bernoulli",
    "BernoulliPredictive",
    "Beta",
    "Bound",
    "ClassPredictive",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GridPredictive",
    "HeteroscedasticGaussian",
    "Integrated",
    "Laplace",
    "LatentFunction",
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


def __dir__() -> list[str]:
    return __all__


__getattr__ = _refuse_old_names(__name__, {"DrawsPredictive": "MixturePredictive"})
