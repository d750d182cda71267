"""Priors of the weights of linear models."""

from cavity.weights.base import AbstractScaleMixture as AbstractScaleMixture
from cavity.weights.base import AbstractWeightPrior as AbstractWeightPrior
from cavity.weights.densities import Gaussian as Gaussian
from cavity.weights.densities import HalfStudentT as HalfStudentT
from cavity.weights.densities import Laplace as Laplace
from cavity.weights.densities import StudentT as StudentT
from cavity.weights.mixtures import Horseshoe as Horseshoe
from cavity.weights.mixtures import SpikeSlab as SpikeSlab

__all__ = [
    "AbstractScaleMixture",
    "AbstractWeightPrior",
    "Gaussian",
    "HalfStudentT",
    "Horseshoe",
    "Laplace",
    "SpikeSlab",
    "StudentT",
]


def __dir__() -> list[str]:
    return __all__
