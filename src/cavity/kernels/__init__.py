"""Floor 1: covariance functions."""

from cavity.kernels.base import AbstractKernel, Active, Product, Scaled, Sum
from cavity.kernels.formula import parse, text
from cavity.kernels.nonstationary import ArcCosine, Linear, NeuralNetwork, Polynomial
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

__all__ = [
    "RBF",
    "AbstractKernel",
    "AbstractStationary",
    "Active",
    "ArcCosine",
    "Constant",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "SpectralMixture",
    "Sum",
    "White",
    "parse",
    "text",
]
