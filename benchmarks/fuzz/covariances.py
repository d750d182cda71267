"""Covariance functions from their definitions, in extended precision, of kernels and means.

Kernels are evaluated from their fields alone, by formulas that share nothing with the library:
numpy's long double, differences of inputs before anything is squared, angles by chords.
"""

from typing import Any

import numpy as np

from cavity import kernels, means

WIDE = np.longdouble
PI = WIDE("3.14159265358979323846264338327950288")


def wide(x: Any) -> np.ndarray:
    """An array in extended precision."""
    return np.asarray(x, WIDE)


def covariance(kernel: Any, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The covariances of a kernel between the rows of X and of Z."""
    match kernel:
        case kernels.Sum():
            return covariance(kernel.first, X, Z) + covariance(kernel.second, X, Z)
        case kernels.Product():
            return covariance(kernel.first, X, Z) * covariance(kernel.second, X, Z)
        case kernels.Scaled():
            return wide(kernel.factor) * covariance(kernel.kernel, X, Z)
        case kernels.Active():
            columns = list(kernel.dims)
            return covariance(kernel.kernel, X[:, columns], Z[:, columns])
        case kernels.Constant():
            return np.full((len(X), len(Z)), wide(kernel.variance))
        case kernels.White():
            same = np.all(X[:, None] == Z[None], axis=2)
            return np.where(same, wide(kernel.variance), WIDE(0))
        case kernels.SpectralMixture():
            return _mixture(kernel, X[:, None] - Z[None])
        case kernels.ArcCosine() | kernels.NeuralNetwork() | kernels.Linear():
            return _by_angle(kernel, X, Z)
        case kernels.Polynomial():
            inner = _inner(X, Z, kernel.weight_variance, kernel.centre)
            return wide(kernel.variance) * (wide(kernel.offset) + inner) ** kernel.degree
    return wide(kernel.variance) * _correlation(kernel, X[:, None] - Z[None])


def _correlation(kernel: Any, difference: np.ndarray) -> np.ndarray:
    """Stationary correlations of differences (N, M, D)."""
    if isinstance(kernel, kernels.Periodic):
        waves = np.sin(PI * difference / wide(kernel.period)) / wide(kernel.lengthscale)
        return np.exp(-2 * np.sum(waves**2, axis=2))
    square = np.sum((difference / wide(kernel.lengthscale)) ** 2, axis=2)
    match kernel:
        case kernels.RBF():
            return np.exp(-square / 2)
        case kernels.Matern12():
            return np.exp(-np.sqrt(square))
        case kernels.Matern32():
            r = np.sqrt(3 * square)
            return (1 + r) * np.exp(-r)
        case kernels.Matern52():
            r = np.sqrt(5 * square)
            return (1 + r + r**2 / 3) * np.exp(-r)
        case kernels.RationalQuadratic():
            shape = wide(kernel.shape)
            return np.exp(-shape * np.log1p(square / (2 * shape)))
    raise TypeError(f"no formula for {type(kernel).__name__}")


def _mixture(kernel: kernels.SpectralMixture, difference: np.ndarray) -> np.ndarray:
    total = np.zeros(difference.shape[:2], WIDE)
    parts = wide(kernel.weights), wide(kernel.frequencies), wide(kernel.bandwidths)
    for weight, frequency, bandwidth in zip(*parts, strict=True):
        decay = np.exp(-2 * PI**2 * np.sum((bandwidth * difference) ** 2, axis=2))
        total += weight * decay * np.cos(2 * PI * np.sum(frequency * difference, axis=2))
    return total


def _inner(X: np.ndarray, Z: np.ndarray, weight: Any, centre: Any) -> np.ndarray:
    return ((X - wide(centre)) * wide(weight)) @ (Z - wide(centre)).T


def _by_angle(kernel: Any, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    if isinstance(kernel, kernels.Linear):
        return _inner(X, Z, kernel.variance, kernel.centre)
    bias = wide(kernel.bias_variance)
    weight, centre = np.sqrt(wide(kernel.weight_variance)), wide(kernel.centre)
    one = np.sqrt(bias)
    u = np.column_stack([np.full(len(X), one), (X - centre) * weight])
    v = np.column_stack([np.full(len(Z), one), (Z - centre) * weight])
    if isinstance(kernel, kernels.NeuralNetwork):
        # the same with a third side of length 1 / √2 each, at right angles to the other's
        s, s_u, s_v = u @ v.T, np.sum(u**2, axis=1)[:, None], np.sum(v**2, axis=1)[None]
        area = _area(u, v)
        angle = np.arctan2(2 * s, np.sqrt(1 + 2 * (s_u + s_v) + 4 * area))
        return wide(kernel.variance) * 2 / PI * angle
    long_u, long_v = (np.sqrt(np.sum(w**2, axis=1)) for w in (u, v))
    a, b = (u / long_u[:, None])[:, None], (v / long_v[:, None])[None]
    chord, complement = (np.sqrt(np.sum(w**2, axis=2)) for w in (a - b, a + b))
    t = 2 * np.arctan2(chord, complement)
    J = (
        PI - t,
        np.sin(t) + (PI - t) * np.cos(t),
        3 * np.sin(t) * np.cos(t) + (PI - t) * (1 + 2 * np.cos(t) ** 2),
    )[kernel.order]
    lengths = long_u[:, None] * long_v[None]
    return wide(kernel.variance) / PI * lengths**kernel.order * J


def _area(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Squared areas between rows, by the minors of every pair of columns (Lagrange)."""
    total = np.zeros((len(u), len(v)), WIDE)
    for i in range(u.shape[1]):
        for j in range(i):
            minor = u[:, i, None] * v[None, :, j] - u[:, j, None] * v[None, :, i]
            total += minor**2
    return total


def mean_at(mean: means.AbstractMean, X: np.ndarray) -> np.ndarray:
    """The mean function at the rows of X."""
    match mean:
        case means.Zero():
            return np.zeros(len(X), WIDE)
        case means.Constant():
            return np.full(len(X), wide(mean.value))
        case means.Linear() | means.BayesianLinear():
            return (X - wide(mean.centre)) @ wide(mean.weights) + wide(mean.bias)
    raise TypeError(f"no formula for {type(mean).__name__}")
