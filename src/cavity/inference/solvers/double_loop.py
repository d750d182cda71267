"""The outer problem of the double loop: descent in the marginals that are held."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.energy import FixedMarginals, Sites, beliefs, marginals
from cavity.inference.problem import Problem
from cavity.inference.solvers.double_loop_inner import (
    DENSE,
    Inner,
    coordinates,
    inner_maximum,
    outer_curvature,
)
from cavity.numerics.jit import compiled
from cavity.numerics.power_limits import frozen
from cavity.numerics.types import Array

# The descent ends where no slope exceeds this many nats per deviation.
LEVEL = 1e-9
# What inner maxima are found to, in nats, and what they must be found to.
TIGHT, LOOSE = 1e-13, 1e-6
# Rounds at the most, iterations of one, and how far it may go, in deviations and log variances.
ROUNDS, ITERATIONS, REACH = 40, 60, 2.0
# Newton-Krylov steps at the end.
POLISHES = 20
# Newton steps of all inner problems together, after which the search is given up.
BUDGET = 600


class _Spent(RuntimeError):
    """The budget of inner steps is spent."""


@compiled
def _seen(problem: Problem, sites: Sites) -> tuple[FixedMarginals, Array]:
    graph = problem.graph()
    held = marginals(graph, beliefs(graph, sites))
    return held, coordinates(held)[0]


@compiled
def _inner(
    problem: Problem,
    sites: Sites,
    held: FixedMarginals,
    place: Array,
) -> Inner:
    graph = frozen(problem.graph())
    return inner_maximum(graph, sites, coordinates(held)[1](place), TIGHT)


@compiled
def _curvature(
    problem: Problem,
    sites: Sites,
    held: FixedMarginals,
    place: Array,
) -> tuple[Array, Array]:
    graph = frozen(problem.graph())
    return outer_curvature(graph, sites, coordinates(held)[1](place))


@dataclasses.dataclass
class _Outer:
    """A descent under way: where it is, and the inner maximum there."""

    problem: Problem
    zero: Sites
    held: FixedMarginals  # for its structure
    place: Array
    sites: Sites
    value: float = np.inf
    slope: np.ndarray | None = None
    steps: int = 0
    # sites and place of the last curvature, and how sites move with the place there
    moves: tuple[Sites, Array, Array] | None = None

    def evaluate(self, place: Array) -> tuple[float, np.ndarray] | None:
        """Value and slope at held marginals, kept if they are the lowest; None for no maximum."""
        if self.steps > BUDGET:
            raise _Spent
        for sites in self.starts(place):
            inner = _inner(self.problem, sites, self.held, place)
            self.steps += 1 + int(inner.steps)
            value, slope = float(inner.value), np.asarray(inner.slope, np.float64)
            good = np.isfinite(value) and np.all(np.isfinite(slope))
            if good and float(inner.gain) < LOOSE:
                if value < self.value:
                    self.place, self.sites, self.value, self.slope = (
                        place,
                        inner.sites,
                        value,
                        slope,
                    )
                return value, slope
        return None

    def starts(self, place: Array) -> Iterator[Sites]:
        """Sites to start the inner problem from, the most promising first."""
        if self.moves is not None:
            flat, back = ravel_pytree(self.moves[0])
            yield back(flat + self.moves[2] @ (place - self.moves[1]))
        yield _follow(self.sites, self.place, place, self.held, self.problem)
        yield self.zero

    def units(self) -> np.ndarray:
        """Means move in units of deviations, log variances by themselves."""
        now = coordinates(self.held)[1](self.place)
        unit: Any = jax.tree.map(
            lambda mv: (jnp.sqrt(mv[1]), jnp.ones_like(mv[1])),
            now,
            is_leaf=lambda x: isinstance(x, tuple) and isinstance(x[0], jax.Array),
        )
        return np.asarray(ravel_pytree(unit)[0], np.float64)

    def renew(self) -> None:
        """Holds the marginals of the beliefs at the inner maximum, which never ascends."""
        _, place = _seen(self.problem, self.sites)
        self.evaluate(place)

    def descend(self) -> None:
        """One round from here: of Newton steps within a trust region, or of L-BFGS-B."""
        from scipy import optimize

        origin, units = np.asarray(self.place, np.float64), self.units()

        def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
            found = self.evaluate(jnp.asarray(origin + units * x, self.place.dtype))
            if found is None:
                return abs(self.value) * 1e3 + 1e6, np.zeros_like(x)
            return found[0], found[1] * units

        def curvature(x: np.ndarray) -> np.ndarray:
            # asked for only at points that were accepted, the last of which is the lowest
            place = jnp.asarray(origin + units * x, self.place.dtype)
            H, moves = _curvature(self.problem, self.sites, self.held, place)
            if np.all(np.isfinite(np.asarray(moves))):
                self.moves = (self.sites, place, moves)
            scaled = units[:, None] * np.asarray(H, np.float64) * units[None, :]
            return np.nan_to_num(scaled) + 1e-12 * np.eye(x.size)

        if origin.size <= DENSE and self.edges == 1:
            options = {"maxiter": ITERATIONS, "gtol": LEVEL, "initial_trust_radius": 1.0}
            settings: dict[str, Any] = {"method": "trust-exact", "hess": curvature}
        else:
            options = {"maxiter": ITERATIONS, "maxcor": 30, "ftol": 0.0, "gtol": LEVEL}
            bounds = [(-REACH, REACH)] * origin.size
            settings = {"method": "L-BFGS-B", "bounds": bounds}
        optimize.minimize(objective, np.zeros(origin.size), jac=True, options=options, **settings)

    @property
    def edges(self) -> int:
        """The edges of all factors."""
        return sum(len(moments) for moments in self.held)

    def polish(self) -> None:
        """Newton-Krylov steps on the moments themselves, which rounding hides from the value."""
        from scipy import optimize

        origin, units = np.asarray(self.place, np.float64), self.units()
        least = [np.inf]

        def gap(x: np.ndarray) -> np.ndarray:
            place = jnp.asarray(origin + units * x, self.place.dtype)
            start = _follow(self.sites, self.place, place, self.held, self.problem)
            inner = _inner(self.problem, start, self.held, place)
            self.steps += 1 + int(inner.steps)
            if self.steps > BUDGET:
                raise _Spent
            if not np.isfinite(float(inner.value)):
                return np.full_like(x, 1e3)
            seen = np.asarray(_seen(self.problem, inner.sites)[1], np.float64)
            found = (seen - np.asarray(place, np.float64)) / units
            size = float(np.max(np.abs(found)))
            if size < least[0]:
                least[0], self.place, self.sites = size, place, inner.sites
            return found

        # differences over steps that rounding does not drown
        steps = {"rdiff": 1e-5, "inner_maxiter": 40}
        options = {"maxiter": POLISHES, "fatol": LEVEL, "disp": False, "jac_options": steps}
        # what it raises where it gets no further; the best point met is kept
        with contextlib.suppress(ValueError):
            optimize.root(gap, np.zeros(origin.size), method="krylov", options=options)

    def level(self) -> bool:
        """Whether it is as good as level here."""
        return self.slope is not None and bool(np.max(np.abs(self.slope * self.units())) < LEVEL)


def double_loop(
    problem: Problem,
    zero: Sites,
    near: Sites,
) -> tuple[Sites, int]:
    """The sites where the outer problem ends, and the inner steps that it took.

    Args:
        problem: the problem.
        zero: sites of precision zero, at which every cavity is proper.
        near: sites whose beliefs are held at first.
    """
    held, place = _seen(problem, near)
    outer = _Outer(problem, zero, held, place, near)
    if outer.evaluate(place) is None:
        return near, outer.steps
    with contextlib.suppress(_Spent):
        for _ in range(ROUNDS):
            before = outer.value
            outer.renew()
            outer.descend()
            if outer.level() or before - outer.value < 1e-12 * max(1.0, abs(before)):
                break
        outer.polish()
    return outer.sites, outer.steps


@compiled
def _follow(
    sites: Sites, before: Array, after: Array, held: FixedMarginals, problem: Problem
) -> Sites:
    """Sites moved with what is held, so that every cavity stays what it was."""
    restore = coordinates(held)[1]
    power = problem.row_power
    share = jnp.where(jnp.asarray(power) > 0.0, 1.0 / jnp.maximum(power, 1e-3), 0.0)

    def one(site: Any, old: tuple[Array, Array], new: tuple[Array, Array]) -> Any:
        shift = new[0] / new[1] - old[0] / old[1]
        return type(site)(
            site.shift + share * shift, site.precision + share * (1.0 / new[1] - 1.0 / old[1])
        )

    moved: list = []
    for store, old, new in zip(sites, restore(before), restore(after), strict=True):
        moved.append(tuple(one(*parts) for parts in zip(store, old, new, strict=True)))
    return tuple(moved)
