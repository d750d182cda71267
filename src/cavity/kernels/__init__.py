"""Floor 1: covariance functions."""

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.dot_product import ArcCosine, Linear, NeuralNetwork, Polynomial
from cavity.kernels.part_counts import count_parts
from cavity.kernels.parts import AbstractParts, Orbit, Patches, distinct_parts
from cavity.kernels.random_fourier import (
    Nystrom,
    RandomFourier,
    fourier_error_probability,
    fourier_frequencies_needed,
)
from cavity.kernels.stationary import (
    RBF,
    AbstractStationary,
    Constant,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    White,
)
from cavity.kernels.sum_over import SumOver
from cavity.kernels.text_form import parse
from cavity.kernels.text_writing import text
from cavity.kernels.warps import Warps

__all__ = [
    "RBF",
    "AbstractKernel",
    "AbstractParts",
    "AbstractStationary",
    "Active",
    "ArcCosine",
    "Constant",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "Nystrom",
    "Orbit",
    "Patches",
    "Periodic",
    "Polynomial",
    "Product",
    "RandomFourier",
    "RationalQuadratic",
    "Scaled",
    "SpectralMixture",
    "Sum",
    "SumOver",
    "Warps",
    "White",
    "count_parts",
    "distinct_parts",
    "fourier_error_probability",
    "fourier_frequencies_needed",
    "parse",
    "text",
]


def __dir__() -> list[str]:
    return __all__
