"""Fixed points followed along a path of models, round the folds where the path turns back.

With noise many times as wide as it is, all rows agree, and sweeps converge. As the noise shrinks
to what it is, rows begin to disagree, and a fixed point may merge with another and vanish: the
path goes on, but through wider noise first. Steps in arc length follow it there. It ends where the
noise is what it is, or where a cavity loses all precision.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Graph, Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.newton import Bearing, bearing, inner
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Scalar

# How many times as wide the noise is where the path begins.
WIDEST = 1000.0
# The whole path counts as so many deviations of the sites.
LENGTH = 10.0
# The first step, the least and the largest, in deviations; corrections after one, and how near to
# the path they must come; looks at the path, after which it is given up.
FIRST, LEAST, LARGEST = 0.3, 1e-5, 3.0
CORRECTIONS, NEAR = 8, 1e-4
# The least cosine of the angle that the path may turn by in one step, lest it be followed back;
# how far behind its beginning it is given up.
STRAIGHT, BEHIND = 0.7, -0.1
LOOKS = 1500


class _Place(NamedTuple):
    """A place on the path: the share of it that is behind, and the sites there."""

    share: float
    sites: Sites
    seen: Bearing


class _Tangent(NamedTuple):
    """A direction along the path, of length one."""

    share: float
    sites: Sites


class NoiseContinuation:
    """The path for one model, and how often it was looked at."""

    def __init__(self, problem: Problem):
        self.problem, self.looks = problem, 0

    def ahead(self, sites: Sites) -> tuple[tuple[Sites, Sites] | None, int]:
        """Sites on either side of the end of the path, from those at its beginning.

        Returns:
            The sites, the ones before the end last, or None where the path does not lead there;
            and the number of looks at it.
        """
        here, length = self.look(0.0, sites), FIRST
        tangent, _ = _tangent(here, None)
        while self.looks < LOOKS and length > LEAST and here.share > BEHIND:
            found, corrections = self.stepped(here, tangent, length)
            onward, cosine = (None, 0.0) if found is None else _tangent(found, tangent)
            if found is None or onward is None or cosine < STRAIGHT:
                length *= 0.5
                continue
            if (here.share - 1.0) * (found.share - 1.0) <= 0.0:
                return (found.sites, here.sites), self.looks
            here, tangent = found, onward
            length = min(length * (2.0 if corrections < 3 else 1.3), LARGEST)
        return None, self.looks

    def look(self, share: float, sites: Sites) -> _Place:
        self.looks += 1
        return _Place(share, sites, _look(self.problem, jnp.asarray(share), sites))

    def stepped(
        self, start: _Place, tangent: _Tangent, length: float
    ) -> tuple[_Place | None, int]:
        """The place one step on, and the corrections it took; None where it is too far."""
        sites = _moved(start.sites, tangent.sites, jnp.asarray(length))
        share, before = start.share + length * tangent.share, np.inf
        for count in range(CORRECTIONS):
            here = self.look(share, sites)
            gap = float(here.seen.gap)
            if gap < NEAR:
                return here, count
            if not gap < 10.0 * max(before, 1e-3):
                break
            before = gap
            by_correction, by_drift = _inner(here.seen, tangent.sites)
            share_weight = LENGTH**2 * tangent.share
            change = -float(by_correction) / (share_weight + float(by_drift))
            sites = _moved(sites, here.seen.correction, jnp.asarray(1.0))
            sites = _moved(sites, here.seen.drift, jnp.asarray(change))
            share += change
        return None, CORRECTIONS


def _tangent(here: _Place, last: _Tangent | None) -> tuple[_Tangent, float]:
    """The direction of the path that goes on as it came, and the cosine of its turn."""
    drift = here.seen.drift
    size = np.sqrt(float(_inner(here.seen, drift)[1]) + LENGTH**2)
    cosine = 1.0
    if last is not None:
        along = float(_inner(here.seen, last.sites)[1]) + LENGTH**2 * last.share
        before = float(inner(here.seen.units, last.sites, last.sites)) + (LENGTH * last.share) ** 2
        cosine = along / (size * np.sqrt(before))
    onward = 1.0 if cosine >= 0.0 else -1.0
    tangent = _Tangent(onward / size, jax.tree.map(lambda x: onward * x / size, drift))
    return tangent, abs(cosine)


@compiled
def _look(
    problem: Problem,
    share: Scalar,
    sites: Sites,
) -> Bearing:
    def graph_at(share: Scalar) -> Graph:
        return problem.at_noise_scale(jnp.exp(jnp.log(WIDEST) * (1.0 - share))).graph()

    return bearing(graph_at, share, frozen(sites))


@compiled
def _moved(sites: Sites, change: Sites, size: Scalar) -> Sites:
    return jax.tree.map(lambda x, d: x + size * d, sites, change)


@compiled
def _inner(seen: Bearing, change: Sites) -> tuple[Scalar, Scalar]:
    """Inner products of a change with the correction and with the drift."""
    return inner(seen.units, change, seen.correction), inner(seen.units, change, seen.drift)
