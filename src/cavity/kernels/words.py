"""Names of kernels in texts, and how each is built."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity.kernels.base import AbstractKernel, Groups
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
    """A kernel's name: its class, how to build it for D columns, and the number it may end in.

    Attributes:
        kernel: the class.
        build: gives the kernel from D, the number, and groups of columns that share lengthscales.
        default: the number where none is said; None for a name without one.
        number: the number of a kernel.
    """

    kernel: type[AbstractKernel]
    build: Callable[[int, int, Groups], AbstractKernel]
    default: int | None = None
    number: Callable[..., int] | None = None


_ones, _zeros = np.ones, np.zeros
_Stationary = RBF | Matern12 | Matern32 | Matern52 | RationalQuadratic


def _stationary(kernel: type[_Stationary]) -> Word:
    """A kernel whose lengthscales groups of columns may share."""

    def build(D: int, number: int, groups: Groups) -> _Stationary:
        return kernel(1.0, _ones(D if groups is None else max(groups) + 1), groups=groups)

    return Word(kernel, build)


def _mixture(D: int, Q: int, groups: Groups) -> SpectralMixture:
    """Q components like an RBF of lengthscale 1, of frequencies spread evenly up to a half."""
    if Q < 1:
        raise ValueError(f"a spectral mixture needs at least 1 component, given {Q}")
    frequencies = np.linspace(0.5 / Q, 0.5, Q)[:, None] * np.ones(D)
    return SpectralMixture(np.full(Q, 1.0 / Q), frequencies, np.full((Q, D), 0.5 / np.pi))


FOURIER = "fourier"  # random waves of a kernel: a word with arguments

WORDS: dict[str, Word] = {
    "rbf": _stationary(RBF),
    "matern12": _stationary(Matern12),
    "matern32": _stationary(Matern32),
    "matern52": _stationary(Matern52),
    "rational_quadratic": _stationary(RationalQuadratic),
    "periodic": Word(Periodic, lambda D, *_: Periodic(1.0, _ones(D), _ones(D))),
    "spectral_mixture": Word(SpectralMixture, _mixture, 3, lambda k: k.weights.shape[0]),
    "linear": Word(Linear, lambda D, *_: Linear(_ones(D), _zeros(D))),
    "polynomial": Word(
        Polynomial,
        lambda D, n, _: Polynomial(weight_variance=_ones(D), degree=n, centre=_zeros(D)),
        2,
        lambda k: k.degree,
    ),
    "arccosine": Word(
        ArcCosine,
        lambda D, n, _: ArcCosine(weight_variance=_ones(D), order=n, centre=_zeros(D)),
        1,
        lambda k: k.order,
    ),
    "neural_network": Word(
        NeuralNetwork, lambda D, *_: NeuralNetwork(weight_variance=_ones(D), centre=_zeros(D))
    ),
    "constant": Word(Constant, lambda D, *_: Constant()),
    "white": Word(White, lambda D, *_: White()),
}
