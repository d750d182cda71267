"""Floor 1: linear functionals of the latent function."""

from cavity.inducing.base import AbstractInducing, Points, covariance, covariance_from
from cavity.inducing.combinations import Combinations, merged
from cavity.inducing.features import Features
from cavity.inducing.gaussian import Waves, Windows
from cavity.inducing.slopes import Slopes
from cavity.inducing.sums import InBase, OfParts

__all__ = [
    "AbstractInducing",
    "Combinations",
    "Features",
    "InBase",
    "OfParts",
    "Points",
    "Slopes",
    "Waves",
    "Windows",
    "covariance",
    "covariance_from",
    "merged",
]


def __dir__() -> list[str]:
    return __all__
