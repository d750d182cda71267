"""The objective of learning, as an optimiser on the host calls it."""

import dataclasses
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Sites
from cavity.inference.problem import has_sites
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.learning.data.training_data import AbstractTrainingData, Minibatch
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP
from cavity.learning.objectives.coordinates import Coordinates
from cavity.learning.objectives.learning_energy import (
    LearningEnergy,
    Point,
    RowsSeen,
    has_numbers_of_rows,
    join_optimised,
    natural_update,
    natural_update_of_batch,
    shaped_like,
    split_optimised,
    value_and_grad,
    value_and_grad_of_batch,
)
from cavity.learning.objectives.passes import At, value_and_grad_by_passes
from cavity.learning.objectives.warm_start import WarmStart
from cavity.learning.progress.checkpoint import State, leaves, refilled
from cavity.models.base import AbstractModel
from cavity.numerics.jit import Bound
from cavity.numerics.linalg import with_escalating_jitter
from cavity.parameters import bijections
from cavity.parameters.priors import flat, learned_with

T = TypeVar("T")

# What private sites are found to while learning, in deviations, at least and at the most; in
# between their errors may change the value by this share of its last fall.
TIGHTEST, LOOSEST, VALUE_SHARE = 1e-5, 1e-3, 0.03
# Sites are further from their fixed point than a sweep moves them. Where they creep, the error of
# the value is some ten times half the sum of the squares of a sweep's changes. This sum may be so
# much at the most.
CREEP, MOST_CHANGE = 10.0, 0.03
# Times that a natural-gradient step is halved at the most, and the growth that is rounding.
HALVINGS, ROUNDING = 8, 1e-9


class Objective:
    """Energy minus log priors, with its gradient, in coordinates of the model and of tied sites.

    Private sites are brought to their fixed point at every evaluation, from the last ones, and
    are constant under differentiation.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, in memory or in batches.
        maps: bijections; None for the default ones.
        densities: priors; None for flat ones.
        method: the inference method; None for `PowerEP()`.
        jitter: the jitter to begin with; raised where the first point needs more. For searches
            that step back from undefined points, those after it that would need more are such.
        sites: sites whose tied ones the search starts from; None for precision zero.
        settled: private sites that the first evaluation starts from; None for precision zero.
        accuracy: changes of the value that do not matter to the search, in nats. Private sites
            are then found to 1e-5 deviations; where the energy is stationary in them, to up to
            1e-3, so that the value is wrong by a small share of its last fall or of this. None
            to find them as accurately as the method asks for.

    Raises:
        ValueError: for powers that differ between rows where sites are tied.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: AbstractTrainingData,
        *,
        maps: AbstractModel | None = None,
        densities: AbstractModel | None = None,
        method: AbstractMethod | None = None,
        jitter: float = 1e-8,
        sites: Sites | None = None,
        settled: Sites | None = None,
        accuracy: float | None = None,
    ):
        self.start, self.data, self.jitter = start, data, jitter
        self.method = PowerEP() if method is None else method
        self.approximation = self.method.approximation
        if start.ordered:
            self.approximation = self.approximation.while_learning
        total = data.rows_observed if self.approximation.tied else None
        problem = data.exemplar.problem(start, self.approximation, jitter, total=total)
        self.empty = problem.empty_sites()
        tied, private = split_optimised(self.empty)
        self.has_optimised, self.carries = has_sites(tied), has_sites(private)
        if self.has_optimised and data.exemplar.rows.power is not None:
            raise ValueError("tied sites have one power for all rows, given one per row")
        if data.in_memory is None and has_numbers_of_rows(tied):
            raise ValueError(
                "latent inputs or hidden values of every row have numbers of their own that are "
                "learned, so that the rows must be in memory: give X and y"
            )
        if sites is not None:
            sites = problem.adopted(sites)
        tied = tied if sites is None else shaped_like(split_optimised(sites)[0], tied)
        if sites is not None and self.has_optimised and self.carries:
            self.empty = join_optimised(tied, split_optimised(sites)[1])
        self.settled = self.empty if settled is None else settled
        maps = bijections(start) if maps is None else maps
        self.coordinates = Coordinates(start, data, maps, tied)
        self.best_sites = self.empty
        self.solver, self.accuracy = self.method.solver, accuracy
        self.best = self.fall = np.inf
        self.layered = problem.layered
        self.stationary = self.carries and accuracy is not None and problem.stationary()
        self.warm = WarmStart()
        self.finite_value = True  # of the last evaluation, whatever its gradient
        self.defined = self.undefined = False  # whether a point was, and one was not by its jitter
        self.steps_back = self.method.training.steps is None  # others need more jitter to go on
        self.function = LearningEnergy(
            start=start,
            maps=maps,
            densities=flat(start) if densities is None else densities,
            approximation=self.approximation,
            origin=self.coordinates.origin,
            tied=tied,
            total=data.rows_observed if self.has_optimised else None,
        )
        self.in_memory = data.in_memory
        self.value_and_grad = Bound(value_and_grad, self.function, self.in_memory)
        self.natural_update = Bound(natural_update, self.function, self.in_memory)

    @property
    def sites(self) -> Sites:
        """The sites of the last evaluation; of precision zero before there is one.

        With weights of several layers, the sites of the last evaluation that improved on the best.
        """
        last = self.warm.last
        return self.empty if last is None else last

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.coordinates.size

    @property
    def learns_inducing(self) -> bool:
        """True if inducing inputs are learned."""
        return self.coordinates.learns_inducing

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of the coordinates."""
        return self.coordinates.bounds

    @property
    def first(self) -> np.ndarray:
        """Starting point of the search."""
        return self.coordinates.first

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return self.coordinates.model(x)

    def sites_at(self, x: np.ndarray) -> Sites:
        """The tied sites at a point, with the private sites of the least value."""
        return join_optimised(self.coordinates.tied_sites(x), split_optimised(self.best_sites)[1])

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient; NaN where no jitter makes them finite.

        NaN too where sites are far from a fixed point: their energy is no evidence, and may be
        anything.
        """
        return self.on_rows(x, None, 1.0)

    def on_rows(
        self, x: np.ndarray, batch: Minibatch | None, scale: float
    ) -> tuple[float, np.ndarray]:
        """Value and gradient from some rows, each of which stands for `scale` rows.

        Args:
            x: the point.
            batch: the rows; None for all of them.
            scale: rows in all the data for each of these.
        """
        nothing = (np.nan, np.full(self.size, np.nan), self.sites)

        def at(jitter: float) -> tuple[tuple[float, np.ndarray, Sites], bool]:
            sites = self._sites(x, jitter)
            if sites is None:
                return nothing, True
            value, gradient = self._evaluated(x, sites, batch, scale, jitter)
            self.finite_value = bool(np.isfinite(value))
            good = self.finite_value and bool(np.all(np.isfinite(gradient)))
            return (value, gradient, sites), good

        if self.steps_back and self.defined:
            (value, gradient, sites), good = at(self.jitter)
            jitter = self.jitter if good else None
            self.undefined |= not good
        else:
            (value, gradient, sites), jitter = with_escalating_jitter(at, self.jitter)
        if jitter is None or not np.isfinite(value):
            return nothing[:2]
        self.jitter, self.defined = jitter, True
        # of weights of several layers a worse point may have sites of another mode
        if self.carries and (value < self.best or not self.layered):
            self.warm.add(x, sites)
        if value < self.best:
            self.fall = self.best - value
            self.best, self.best_sites = value, sites
        return value, gradient

    def energy_at(self, x: np.ndarray, sites: Sites, jitter: float) -> float:
        """The energy at a point and at private sites of its fixed point, priors left out.

        By the program of the search, so that none is compiled for the value alone.
        """
        value, _ = self._evaluated(x, sites, None, 1.0, jitter)
        return value + float(learned_with(self.model(x), self.function.densities))

    @property
    def moved_by(self) -> str:
        """Name of the algorithm that moves the point at each step."""
        if self.method.training.natural is None:
            return "Adam"
        free = self.coordinates.n_parameters > 0
        return "Adam and natural gradients" if free else "natural gradients"

    def step(self, x: np.ndarray, batch: Minibatch) -> tuple[np.ndarray, float, np.ndarray]:
        """The point, after a natural step if asked for; value and slope of a minibatch there."""
        scale, natural = float(self.data.length) / batch.size, self.method.training.natural
        if natural is None:
            return x, *self.on_rows(x, batch, scale)
        for _ in range(HALVINGS):
            moved, before = self.natural(x, batch, scale, natural)
            value, slope = self.on_rows(moved, batch, scale)
            if value <= before + ROUNDING * abs(before):
                break
            natural *= 0.5  # above power 0 the energy may grow along the whole step
        else:
            moved, (value, slope) = x, self.on_rows(x, batch, scale)
        slope[self.coordinates.n_parameters :] = 0.0
        return moved, value, slope

    def natural(
        self, x: np.ndarray, batch: Minibatch | None, scale: float, step: float
    ) -> tuple[np.ndarray, float]:
        """The point after a natural-gradient step of the tied sites, and the value before it."""
        programs = (self.natural_update, natural_update_of_batch)
        flat, before = self._run(*programs, x, self.sites, batch, (self.jitter, scale, step))
        parameters = x[: self.coordinates.n_parameters]
        return np.concatenate([parameters, np.asarray(flat, np.float64)]), float(before)

    def state(self) -> State:
        """The warm start of the next evaluation, as a tree that can be saved."""
        numbers: State = {"jitter": self.jitter, "finite_value": self.finite_value}
        numbers |= {"defined": self.defined, "undefined": self.undefined}
        if not self.carries:
            return numbers
        numbers |= {"fall": None if np.isinf(self.fall) else self.fall, "warm": self.warm.state()}
        best_sites = None if self.best_sites is self.empty else leaves(self.best_sites)
        best = None if np.isinf(self.best) else self.best
        return numbers | {"best": best, "best_sites": best_sites}

    def restore(self, state: State) -> None:
        """Takes the warm start from a state that was saved."""
        self.jitter, self.finite_value = float(state["jitter"]), bool(state["finite_value"])
        self.defined, self.undefined = bool(state["defined"]), bool(state["undefined"])
        if not self.carries:
            return
        self.best, self.fall = (
            np.inf if state[name] is None else float(state[name]) for name in ("best", "fall")
        )
        self.warm.restore(state["warm"], self.empty)
        best_sites = state["best_sites"]
        self.best_sites = self.empty if best_sites is None else refilled(self.empty, best_sites)

    def begin_again(self, jitter: float) -> None:
        """Forgets the private sites at hand, for a search at another jitter."""
        self.jitter, self.defined, self.undefined = jitter, False, False
        self.best_sites = self.empty
        self.best = self.fall = np.inf
        self.warm.forget()

    def close(self) -> None:
        """Nothing is kept elsewhere."""

    def start_from(self, x: np.ndarray, sites: Sites) -> None:
        """Lets the next evaluation start from these private sites, those of a point."""
        self.warm.forget()
        self.warm.add(x, sites)

    def _tolerance(self) -> float:
        """Tolerance of private sites at the next evaluation, in deviations.

        The error of an energy that is stationary in them is about half the sum of the squares of
        their errors, for which the residual of a sweep is taken.
        """
        asked = self.solver.tolerance
        if self.accuracy is None:
            return asked
        if not self.stationary:
            return max(asked, TIGHTEST)
        count = sum(leaf.size for leaf in jax.tree.leaves(self.empty))
        affordable = np.sqrt(self._affordable_change() / count)
        return max(asked, float(np.clip(affordable, TIGHTEST, LOOSEST)))

    def _affordable_change(self) -> float:
        """The sum of the squares of changes of the sites, in deviations, that the value bears."""
        if self.accuracy is None or not self.stationary:
            return 0.0
        return 2.0 * VALUE_SHARE * max(self.fall, self.accuracy)

    def _sites(self, x: np.ndarray, jitter: float) -> Sites | None:
        """The sites at a point; None where private ones end far from a fixed point."""
        if not self.carries:
            return self.sites
        # the slow fallbacks are for where learning starts and ends
        quick = self.warm.last is not None
        sites, zero = self.warm.at(x) if quick else self.settled, self.empty
        if self.has_optimised:
            tied = self.coordinates.tied_sites(x)
            sites, zero = (
                join_optimised(tied, split_optimised(all_sites)[1]) for all_sites in (sites, zero)
            )
        problem = self.data.exemplar.problem(self.model(x), self.approximation, jitter)
        first = sites if quick or self.settled is not self.empty else zero
        enough = min(self._affordable_change() / CREEP, MOST_CHANGE)
        solver = dataclasses.replace(self.solver, tolerance=self._tolerance(), enough=enough)
        sites, report = find_fixed_point(problem, solver, first, zero=zero, quick=quick)
        far = not report.residual < solver.nearby or report.skipped > 0
        return None if quick and not report.converged and far else sites

    def _evaluated(
        self, x: np.ndarray, sites: Sites, batch: Minibatch | None, scale: float, jitter: float
    ) -> tuple[float, np.ndarray]:
        if batch is None and self.in_memory is None:
            return (
                self._averaged(x, sites, jitter)
                if self.has_optimised
                else self._streamed(x, jitter)
            )
        programs = (self.value_and_grad, value_and_grad_of_batch)
        value, *slopes = self._run(*programs, x, sites, batch, (jitter, scale))
        return float(value), self.coordinates.gradient(*slopes)

    def _run(
        self,
        in_memory: Bound[T],
        of_batch: Callable[..., T],
        x: np.ndarray,
        sites: Sites,
        batch: Minibatch | None,
        numbers: tuple[float, ...],
    ) -> T:
        """Run a program at a point: one for rows in memory, another for other rows.

        Numbers are the jitter, the rows that each stands for, and what the program takes beside.
        """
        move = self.coordinates.move(x)
        flat = np.asarray(x[self.coordinates.n_parameters :], move.dtype)
        private = split_optimised(sites)[1] if self.has_optimised else sites
        jitter, scale, *beside = (np.asarray(number, move.dtype) for number in numbers)
        seen = RowsSeen(jitter, scale, None if batch is None else batch.index)
        arguments = (Point(move, flat, private), seen, *beside)
        if batch is None or batch.data is None:
            return in_memory(*arguments)
        return of_batch(self.function, batch.data, *jax.tree.map(jnp.asarray, arguments))

    def _streamed(self, x: np.ndarray, jitter: float) -> tuple[float, np.ndarray]:
        """Value and gradient of exact factors, from the messages of all batches."""
        value, slope = value_and_grad_by_passes(self.point(x, jitter), self.data)
        return value, self.coordinates.gradient(slope, np.zeros(0))

    def point(self, x: np.ndarray, jitter: float) -> At:
        """Where passes are made."""
        typed = jnp.asarray(jitter, self.coordinates.origin.dtype)
        return At(self.function, jnp.asarray(self.coordinates.move(x)), typed)

    def _averaged(self, x: np.ndarray, sites: Sites, jitter: float) -> tuple[float, np.ndarray]:
        """Value and gradient from all rows: the mean of the unbiased ones of its blocks."""
        count = self.data.n_blocks
        value, slope = 0.0, np.zeros(self.size)
        for block in self.data.blocks():
            batch = Minibatch(block.rows.x.shape[0], data=block)
            block_value, block_slope = self._evaluated(x, sites, batch, float(count), jitter)
            value, slope = value + block_value / count, slope + block_slope / count
            if not np.isfinite(value):
                break
        return value, slope
