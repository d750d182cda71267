r"""Points in standardised parameters at which a density near a Gaussian is evaluated.

A grid for one or two parameters, a central composite design for more: the centre, two points on
every axis and the corners of a fractional factorial, all others at the same distance.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Points of a grid lie so many steps from the centre at the most.
FARTHEST = 14


class Mesh(NamedTuple):
    """Step and extent of a grid.

    Attributes:
        step: in deviations.
        drop: how far the log density may fall below its largest value.
        most: points at the most.
    """

    step: float
    drop: float
    most: int = 100_000


# The sum over a Gaussian is wrong by a share of 1.4 % for each axis with steps of two deviations.
FINE, COARSE = Mesh(0.7, 8.0), Mesh(2.0, 3.0, 60)
# The distance of the points of a design, over the square root of the number of parameters.
RADIUS = 1.1


def grid(
    size: int, log_density: Callable[[np.ndarray], float], mesh: Mesh = FINE
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points of a grid at which a density is not negligible, from the centre outwards.

    Args:
        size: the number of parameters.
        log_density: of standardised parameters, NaN where there is none.
        mesh: how fine it is.

    Returns:
        Points (S, d), the volume of each (S,), and their log densities (S,).
    """
    found: dict[tuple[int, ...], float] = {}
    waiting, top = [(0,) * size], -np.inf
    while waiting and len(found) < mesh.most:
        place = waiting.pop(0)
        if place in found:
            continue
        value = log_density(mesh.step * np.array(place, float))
        found[place] = value = -np.inf if np.isnan(value) else value
        top = max(top, value)
        if value > top - mesh.drop:
            waiting += [
                p for p in _beside(place) if p not in found and max(map(abs, p)) <= FARTHEST
            ]
    places = sorted(found)
    values = np.array([found[place] for place in places])
    volume = np.full(len(places), mesh.step**size)
    return mesh.step * np.array(places, float), volume, values


def _beside(place: tuple[int, ...]) -> list[tuple[int, ...]]:
    steps = (*np.eye(len(place), dtype=int), *-np.eye(len(place), dtype=int))
    return [tuple(int(x) for x in np.add(place, step)) for step in steps]


def composite(size: int) -> tuple[np.ndarray, np.ndarray]:
    r"""A central composite design, exact for polynomials of degree three under a Gaussian.

    Centre, axes and corners of a fraction of the factorial design of resolution five. With m
    points at distance $f \sqrt d$ each has the share $1 / m f^2$, and the centre what is left, so
    that a standard Gaussian has variance one.

    Args:
        size: d, the number of parameters.

    Returns:
        Points (S, d), the centre first, and their shares (S,).

    References:
        Rue, Martino and Chopin (2009), section 6.5; Sanchez and Sanchez (2005).
    """
    signs = _fraction(size)
    axes = np.sqrt(size) * np.concatenate([np.eye(size), -np.eye(size)])
    others = RADIUS * np.concatenate([axes, signs])
    points = np.concatenate([np.zeros((1, size)), others])
    share = np.full(len(points), 1.0 / (len(others) * RADIUS**2))
    share[0] = 1.0 - 1.0 / RADIUS**2
    return points, share


def _fraction(size: int) -> np.ndarray:
    """Corners of a cube of which no effect of one or two factors is another's, (2^m, d).

    Factors are Walsh functions, whose indices are the least ones no four of which cancel.
    """
    chosen, pairs, triples = [], {0}, set()
    candidate = 0
    while len(chosen) < size:
        candidate += 1
        if candidate in pairs or candidate in triples or candidate in chosen:
            continue
        triples |= {candidate ^ pair for pair in pairs}
        pairs |= {candidate ^ other for other in chosen}
        chosen.append(candidate)
    runs = np.arange(1 << max(chosen).bit_length())
    parity = [[bin(run & index).count("1") % 2 for index in chosen] for run in runs]
    return 1.0 - 2.0 * np.array(parity, float)
