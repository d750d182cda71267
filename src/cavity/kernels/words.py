"""Names of kernels in texts, and how each is built."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity.kernels.base import AbstractKernel
from cavity.kernels.dot_product import ArcCosine, Linear, NeuralNetwork, Polynomial
from cavity.kernels.stationary import (
    RBF,
    Constant,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    White,
)


class Word(NamedTuple):
    """A kernel's name: its class, how to build it for D columns, and the number it may end in."""

    kernel: type[AbstractKernel]
    build: Callable[[int, int], AbstractKernel]
    default: int | None = None
    number: Callable[..., int] | None = None


def _mixture(D: int, Q: int) -> SpectralMixture:
    """Q components like an RBF of lengthscale 1, of frequencies spread evenly up to a half."""
    if Q < 1:
        raise ValueError(f"a spectral mixture needs at least 1 component, given {Q}")
    frequencies = np.linspace(0.5 / Q, 0.5, Q)[:, None] * np.ones(D)
    return SpectralMixture(np.full(Q, 1.0 / Q), frequencies, np.full((Q, D), 0.5 / np.pi))


FOURIER = "fourier"  # random waves of a kernel: a word with arguments
_ones, _zeros = np.ones, np.zeros

WORDS: dict[str, Word] = {
    "rbf": Word(RBF, lambda D, _: RBF(1.0, _ones(D))),
    "matern12": Word(Matern12, lambda D, _: Matern12(1.0, _ones(D))),
    "matern32": Word(Matern32, lambda D, _: Matern32(1.0, _ones(D))),
    "matern52": Word(Matern52, lambda D, _: Matern52(1.0, _ones(D))),
    "rational_quadratic": Word(RationalQuadratic, lambda D, _: RationalQuadratic(1.0, _ones(D))),
    "periodic": Word(Periodic, lambda D, _: Periodic(1.0, _ones(D), _ones(D))),
    "spectral_mixture": Word(SpectralMixture, _mixture, 3, lambda k: k.weights.shape[0]),
    "linear": Word(Linear, lambda D, _: Linear(_ones(D), _zeros(D))),
    "polynomial": Word(
        Polynomial,
        lambda D, n: Polynomial(weight_variance=_ones(D), degree=n, centre=_zeros(D)),
        2,
        lambda k: k.degree,
    ),
    "arccosine": Word(
        ArcCosine,
        lambda D, n: ArcCosine(weight_variance=_ones(D), order=n, centre=_zeros(D)),
        1,
        lambda k: k.order,
    ),
    "neural_network": Word(
        NeuralNetwork, lambda D, _: NeuralNetwork(weight_variance=_ones(D), centre=_zeros(D))
    ),
    "constant": Word(Constant, lambda D, _: Constant()),
    "white": Word(White, lambda D, _: White()),
}
