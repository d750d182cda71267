"""Points that stand for a Gaussian of several dimensions, or for the unit cube."""

import functools

import jax
import numpy as np
from jax.scipy.special import ndtri


@functools.cache
def normal_points(dimensions: int, count: int) -> np.ndarray:
    """Points that stand for a standard normal, (count, dimensions): quasi-random, in pairs of +-z.

    A scrambled Halton sequence, with the second moments of a standard normal exactly.

    Args:
        dimensions: of each point.
        count: an even number, above twice the dimensions.

    References:
        Owen (2017), A randomized Halton algorithm in R.
    """
    random = np.random.default_rng(0)
    uniform = [_scrambled(count // 2, base, random) for base in _primes(dimensions)]
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        half = np.asarray(ndtri(np.stack(uniform, axis=1)))
    points = np.concatenate([half, -half])
    root = np.linalg.cholesky(points.T @ points / count)
    return np.linalg.solve(root, points.T).T


@functools.cache
def golden_points(count: int, dimensions: int) -> np.ndarray:
    """The first points of the generalised golden-ratio sequence in the unit cube."""
    root = 2.0
    for _ in range(64):  # the positive root of x^(d + 1) = x + 1
        root = (1.0 + root) ** (1.0 / (dimensions + 1.0))
    steps = root ** -np.arange(1.0, dimensions + 1.0)
    return (0.5 + np.arange(count)[:, None] * steps) % 1.0


def _primes(count: int) -> list[int]:
    found: list[int] = []
    number = 2
    while len(found) < count:
        if all(number % prime for prime in found):
            found.append(number)
        number += 1
    return found


def _scrambled(count: int, base: int, random: np.random.Generator) -> np.ndarray:
    """The numbers 1 to count with their digits in a base mirrored at the point and permuted."""
    index, value, place = np.arange(1, count + 1), np.zeros(count), 1.0
    while place > 1e-9:
        place /= base
        value += place * random.permutation(base)[index % base]
        index = index // base
    return np.clip(value, 1e-9, 1.0 - 1e-9)
