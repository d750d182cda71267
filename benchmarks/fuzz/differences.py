"""Derivatives by central differences of sixth order, in the unconstrained parameters."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.fuzz.covariances import WIDE, wide
from cavity.parameters import Positive, bijections, free_parts, units

ENOUGH = 1e-9  # relative difference between steps at which the search for a step ends
ORDER_6 = ((1, 45), (2, -9), (3, 1))  # sixtieths


def central(function: Callable[[Any], Any], step: Any) -> Any:
    """The derivative of a function at 0, from six values."""
    pairs = [w * (function(k * step) - function(-k * step)) for k, w in ORDER_6]
    return sum(pairs) / (60 * step)


def moved(model: Any, entry: int, change: np.floating) -> Any:
    """The model with one free number moved: its logarithm where it is positive."""
    leaves, structure = jax.tree.flatten(model)
    maps = jax.tree.leaves(bijections(model), is_leaf=lambda b: hasattr(b, "free"))
    start = 0
    for i, (leaf, bijection) in enumerate(zip(leaves, maps, strict=True)):
        size = np.size(leaf) if bijection.free else 0
        if start <= entry < start + size:
            new = wide(leaf).copy()
            at = np.unravel_index(entry - start, new.shape)
            positive = isinstance(bijection, Positive)
            new[at] = new[at] * np.exp(change) if positive else new[at] + change
            leaves[i] = new
        start += size
    return jax.tree.unflatten(structure, leaves)


# From long steps to short ones: locations that the scales of the data suit badly need short ones.
STEPS = (8e-3, 2e-3, 5e-4, 2e-5, 1e-7, 1e-9)


def gradient(
    function: Callable[[Any], np.floating], model: Any, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in all free numbers, each times its scale, and how uncertain they are."""

    def slope(entry: int, step: float) -> np.floating:
        unit = WIDE(scales[entry])
        return central(lambda change: function(moved(model, entry, unit * change)), WIDE(step))

    def most_certain(entry: int) -> tuple[float, float]:
        """The slope that two steps agree on best."""
        best, before = (np.nan, np.inf), slope(entry, STEPS[0])
        for step in STEPS[1:]:
            now = slope(entry, step)
            apart = float(abs(now - before))
            best = (float(now), apart) if apart < best[1] else best
            if apart <= ENOUGH * float(abs(now)):
                break
            before = now
        return best

    found = np.array([most_certain(entry) for entry in range(len(scales))]).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def natural_scales(model: Any, unit: tuple[float, float]) -> np.ndarray:
    """What counts as one for each free number: 1 on logarithmic scales, else its units."""
    x, y = unit
    parts = [
        np.full(np.size(value), 1.0 if isinstance(b, Positive) else x**u.input * y**u.output)
        for value, b, u in free_parts(model, bijections(model), units(model))
    ]
    return np.concatenate([*parts, np.zeros(0)])
