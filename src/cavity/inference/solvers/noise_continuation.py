r"""Pseudo-arclength continuation: a curve of fixed points over the width of the noise.

With noise many times as wide as it is, all rows agree, and sweeps converge. As the noise shrinks
to what it is, rows begin to disagree, and a fixed point may merge with another and vanish: this is
a fold, where the curve of fixed points goes on, but through wider noise first. Steps in arc length
follow the curve round folds. It ends where the noise is what it is, or where a cavity loses all
precision.

References:
    Keller (1977), Numerical solution of bifurcation and nonlinear eigenvalue problems.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.energy import Graph, Sites
from cavity.inference.problem import Problem
from cavity.inference.solvers.newton import evaluate, linearised_steps
from cavity.inference.solvers.settings import NoiseSettings
from cavity.inference.solvers.site_coordinates import GraphUnits, to_coordinates
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Scalar


class Linearisation(NamedTuple):
    """The curve of fixed points, linearised at sites near it.

    Attributes:
        gap: the largest error of a site, in deviations.
        correction: Newton's step to the curve.
        slope: how the fixed point moves with the position.
        units: the units of the sites' coordinates.
    """

    gap: Scalar
    correction: Sites
    slope: Sites
    units: GraphUnits


class Point(NamedTuple):
    """A point near the curve.

    Attributes:
        position: 0 at the widest noise, 1 at that of the problem.
        sites: the sites.
        curve: the curve, linearised there.
    """

    position: float
    sites: Sites
    curve: Linearisation


class Tangent(NamedTuple):
    """A direction along the curve, of length one.

    Attributes:
        position: its component in the position.
        sites: its components in the sites.
    """

    position: float
    sites: Sites


class NoiseContinuation:
    """The curve of one problem, and how often it was evaluated."""

    def __init__(self, problem: Problem, settings: NoiseSettings = NoiseSettings()):
        self.problem, self.settings, self.evaluations = problem, settings, 0

    def start(self) -> Problem:
        """The problem with the widest noise."""
        return self.problem.at_noise_scale(self.settings.widest)

    def either_side_of_the_end(self, sites: Sites) -> tuple[Sites, ...]:
        """Sites just beyond and before the end of the curve, from those at its start.

        There are none where the curve does not lead there.
        """
        settings = self.settings
        point, length = self.evaluate(0.0, sites), settings.first_step
        tangent, _ = self.tangent(point, None)
        while (
            self.evaluations < settings.max_evaluations
            and length > settings.least_step
            and point.position > settings.least_position
        ):
            new, corrections = self.step(point, tangent, length)
            onward, cosine = (None, 0.0) if new is None else self.tangent(new, tangent)
            if new is None or onward is None or cosine < settings.least_cosine:
                length *= 0.5
                continue
            if (point.position - 1.0) * (new.position - 1.0) <= 0.0:
                return new.sites, point.sites
            point, tangent = new, onward
            length = min(length * (2.0 if corrections < 3 else 1.3), settings.largest_step)
        return ()

    def evaluate(self, position: float, sites: Sites) -> Point:
        """A point, with the curve linearised there."""
        self.evaluations += 1
        widest = jnp.asarray(self.settings.widest)
        return Point(
            position, sites, _linearise(self.problem, widest, jnp.asarray(position), sites)
        )

    def step(self, start: Point, tangent: Tangent, length: float) -> tuple[Point | None, int]:
        """The point one step on, and the corrections it took; None where it is too far."""
        sites = _moved(start.sites, tangent.sites, jnp.asarray(length))
        position, before = start.position + length * tangent.position, np.inf
        for count in range(self.settings.max_corrections):
            point = self.evaluate(position, sites)
            gap = float(point.curve.gap)
            if gap < self.settings.tolerance:
                return point, count
            if not gap < 10.0 * max(before, 1e-3):
                break
            before = gap
            # Newton's step within the plane across the tangent
            by_correction, by_slope = _inner_products(point.curve, tangent.sites)
            across = self.settings.length**2 * tangent.position + float(by_slope)
            change = -float(by_correction) / across
            sites = _moved(sites, point.curve.correction, jnp.asarray(1.0))
            sites = _moved(sites, point.curve.slope, jnp.asarray(change))
            position += change
        return None, self.settings.max_corrections

    def tangent(self, point: Point, last: Tangent | None) -> tuple[Tangent, float]:
        """The tangent that continues the last one, and the cosine of the angle between the two."""
        slope, weight = point.curve.slope, self.settings.length**2
        size = np.sqrt(float(_inner_products(point.curve, slope)[1]) + weight)
        cosine = 1.0
        if last is not None:
            along = float(_inner_products(point.curve, last.sites)[1]) + weight * last.position
            squared = float(inner(point.curve.units, last.sites, last.sites))
            squared += (self.settings.length * last.position) ** 2
            cosine = along / (size * np.sqrt(squared))
        sign = 1.0 if cosine >= 0.0 else -1.0
        return Tangent(sign / size, jax.tree.map(lambda x: sign * x / size, slope)), abs(cosine)


@compiled
def _linearise(problem: Problem, widest: Scalar, position: Scalar, sites: Sites) -> Linearisation:
    fixed = frozen(sites)

    def graph_at(position: Scalar) -> Graph:
        return problem.at_noise_scale(jnp.exp(jnp.log(widest) * (1.0 - position))).graph()

    graph, one = graph_at(position), (jnp.ones_like(position),)
    at = evaluate(graph, fixed)
    by_position = jax.jvp(lambda s: evaluate(graph_at(s), fixed).error, (position,), one)[1]
    correction, slope = linearised_steps(graph, at, (at.error, by_position))
    return Linearisation(at.gap, correction, slope, at.units)


@compiled
def _moved(sites: Sites, change: Sites, size: Scalar) -> Sites:
    return jax.tree.map(lambda x, d: x + size * d, sites, change)


@compiled
def _inner_products(curve: Linearisation, change: Sites) -> tuple[Scalar, Scalar]:
    """Inner products of a change with the correction and with the slope."""
    units = curve.units
    return inner(units, change, curve.correction), inner(units, change, curve.slope)


def inner(units: GraphUnits, a: Sites, b: Sites) -> Scalar:
    """The inner product of two changes of sites, in deviations."""
    return ravel_pytree(to_coordinates(units, a))[0] @ ravel_pytree(to_coordinates(units, b))[0]
