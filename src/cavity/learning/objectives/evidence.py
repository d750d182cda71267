"""The objective of learning, as an optimiser on the host sees it."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.approximations.approximations import AbstractApproximation
from cavity.inference.approximations.local_terms import EvaluationPoint
from cavity.inference.energy import Sites, energy
from cavity.inference.factors.slots import observed_rows
from cavity.inference.factors.tied import is_tied, natural_step
from cavity.inference.implicit_gradient import implicit_gradient, stationary
from cavity.inference.problem import has_sites
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.learning.data.arrays import Data, some_rows
from cavity.learning.data.batched import BatchedData
from cavity.learning.method import AbstractMethod
from cavity.learning.methods import PowerEP
from cavity.learning.objectives.coordinates import Coordinates
from cavity.learning.objectives.streamed import streamed_value_and_grad
from cavity.learning.optimisers.checkpoint import leaves, refilled
from cavity.models.base import AbstractModel
from cavity.numerics.jit import Bound, compiled
from cavity.numerics.linalg import with_escalating_jitter
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import bijections, from_real
from cavity.parameters.priors import flat, log_prior

# Rows that stand for all: data, positions of rows, or None for all of them.
Part = Data | np.ndarray | None


class Objective:
    """Energy minus log priors, with its gradient, in coordinates of the model and of tied sites.

    Private sites are brought to their fixed point at every evaluation, from the last ones, and
    are constant under differentiation. Keeps the jitter that was last needed, and the sites of
    the least value.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, in memory or in batches.
        maps: bijections; None for the default ones.
        densities: priors; None for flat ones.
        method: the inference method; None for `PowerEP()`.
        jitter: the jitter to begin with.
        sites: sites whose tied ones the search starts from; None for precision zero.
        tolerance: of private sites, where it is looser than the method's.

    Raises:
        ValueError: for powers that differ between rows where sites are tied.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: Data | BatchedData,
        *,
        maps: Any = None,
        densities: Any = None,
        method: AbstractMethod | None = None,
        jitter: float = 1e-8,
        sites: Sites | None = None,
        tolerance: float = 0.0,
    ):
        self.start, self.data, self.jitter = start, data, jitter
        self.maps = bijections(start) if maps is None else maps
        self.densities = flat(start) if densities is None else densities
        self.method = PowerEP() if method is None else method
        self.approximation = self.method.approximation
        self.empty = data.head.problem(start, self.approximation, jitter).empty_sites()
        tied, private = split_tied(self.empty)
        self.has_tied, self.carries = has_sites(tied), has_sites(private)
        if self.has_tied and data.rows.power is not None:
            raise ValueError("tied sites have one power for all rows, given one per row")
        tied = tied if sites is None else split_tied(sites)[0]
        self.coordinates = Coordinates(start, data, self.maps, tied)
        self.sites = self.best_sites = self.empty
        loose = max(self.method.solver.tolerance, tolerance)
        self.solver = dataclasses.replace(self.method.solver, tolerance=loose)
        self.best = np.inf
        self.finite_value = True  # of the last evaluation, whatever its gradient
        total = counts(data) if self.has_tied else None
        whole = None if isinstance(data, BatchedData) else data
        origin = self.coordinates.origin
        self.fixed = (start, self.maps, self.densities, self.approximation, origin, total, tied)
        self.run = Bound(_value_and_grad, *self.fixed, whole)
        self.move = Bound(_natural, *self.fixed, whole)

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.coordinates.size

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of the coordinates."""
        return self.coordinates.bounds

    @property
    def first(self) -> np.ndarray:
        """Where the search begins."""
        return self.coordinates.first

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return self.coordinates.model(x)

    def sites_at(self, x: np.ndarray) -> Sites:
        """The tied sites at a point, with the private sites of the least value."""
        return join_tied(self.coordinates.tied(x), split_tied(self.best_sites)[1])

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient; NaN where no jitter makes them finite.

        NaN too where sites are far from a fixed point: their energy is no evidence, and may be
        anything.
        """
        return self.on_rows(x, None, 1.0)

    def on_rows(self, x: np.ndarray, part: Part, scale: float) -> tuple[float, np.ndarray]:
        """Value and gradient from some rows, each of which stands for `scale` rows."""
        nothing = (np.nan, np.full(self.size, np.nan), self.sites)

        def at(jitter: float) -> tuple[tuple[float, np.ndarray, Sites], bool]:
            sites = self._sites(x, jitter)
            if sites is None:
                return nothing, True
            value, gradient = self._evaluated(x, sites, part, scale, jitter)
            self.finite_value = bool(np.isfinite(value))
            good = self.finite_value and bool(np.all(np.isfinite(gradient)))
            return (value, gradient, sites), good

        (value, gradient, sites), jitter = with_escalating_jitter(at, self.jitter)
        if jitter is None or not np.isfinite(value):
            return nothing[:2]
        self.jitter, self.sites = jitter, sites
        if value < self.best:
            self.best, self.best_sites = value, sites
        return value, gradient

    def step(self, x: np.ndarray, rows: Any) -> tuple[np.ndarray, float, np.ndarray]:
        """The point, after a natural step if asked for; value and slope of a minibatch there."""
        length = rows.rows.x.shape[0] if isinstance(rows, Data) else len(rows)
        scale, natural = float(self.data.length) / length, self.method.training.natural
        if natural is None:
            return x, *self.on_rows(x, rows, scale)
        x = self.natural(x, rows, scale, natural)
        value, slope = self.on_rows(x, rows, scale)
        slope[self.coordinates.n_parameters :] = 0.0
        return x, value, slope

    def natural(self, x: np.ndarray, part: Part, scale: float, step: float) -> np.ndarray:
        """The point after a natural-gradient step of the tied sites."""
        flat = self._run(self.move, _natural_of, x, self.sites, part, self.jitter, scale, step)
        return np.concatenate([x[: self.coordinates.n_parameters], np.asarray(flat, np.float64)])

    def state(self) -> dict[str, Any]:
        """What evaluations left behind, as a tree that can be saved."""
        numbers = {"jitter": self.jitter, "finite_value": self.finite_value}
        if not self.carries:
            return numbers
        kept = {"sites": self.sites, "best_sites": self.best_sites}
        kept = {k: None if v is self.empty else leaves(v) for k, v in kept.items()}
        return numbers | {"best": None if np.isinf(self.best) else self.best} | kept

    def restore(self, state: Mapping[str, Any]) -> None:
        """Puts back what evaluations left behind."""
        self.jitter, self.finite_value = float(state["jitter"]), bool(state["finite_value"])
        if not self.carries:
            return
        self.best = np.inf if state["best"] is None else float(state["best"])
        self.sites, self.best_sites = (
            self.empty if state[name] is None else refilled(self.empty, state[name])
            for name in ("sites", "best_sites")
        )

    def begin_again(self) -> None:
        """Forgets the private sites at hand, for a search at another jitter."""
        self.sites = self.best_sites = self.empty
        self.best = np.inf

    def _sites(self, x: np.ndarray, jitter: float) -> Sites | None:
        """The sites at a point; None where private ones end far from a fixed point."""
        if not self.carries:
            return self.sites
        sites, zero = self.sites, self.empty
        # the slow fallbacks are for where learning starts and ends
        quick = self.sites is not self.empty
        if self.has_tied:
            tied = self.coordinates.tied(x)
            sites, zero = (join_tied(tied, split_tied(each)[1]) for each in (sites, zero))
        problem = self.data.head.problem(self.model(x), self.approximation, jitter)
        first = zero if self.sites is self.empty else sites
        solver = self.solver
        sites, report, done = find_fixed_point(problem, solver, first, zero=zero, quick=quick)
        far = not report.residual < solver.nearby or report.skipped > 0
        return None if quick and not done and far else sites

    def _evaluated(
        self, x: np.ndarray, sites: Sites, part: Part, scale: float, jitter: float
    ) -> tuple[float, np.ndarray]:
        if part is None and isinstance(self.data, BatchedData):
            if not self.has_tied:
                return self._streamed(x, jitter)
            return self._averaged(x, self.data, sites, jitter)
        value, *slopes = self._run(self.run, _value_and_grad_of, x, sites, part, jitter, scale)
        return float(value), self.coordinates.gradient(*slopes)

    def _run(
        self, bound: Bound, of_part: Any, x: np.ndarray, sites: Sites, part: Part, *numbers: float
    ) -> Any:
        """What a program gives at a point for all rows, data of their own, or some rows."""
        move = self.coordinates.move(x)
        flat = np.asarray(x[self.coordinates.n_parameters :], move.dtype)
        private = split_tied(sites)[1] if self.has_tied else sites
        typed = [np.asarray(number, move.dtype) for number in numbers]
        arguments = (move, flat, private, *typed)
        if isinstance(part, Data):
            return of_part(*self.fixed, part, *jax.tree.map(jnp.asarray, arguments), None)
        return bound(*arguments, part)

    def _streamed(self, x: np.ndarray, jitter: float) -> tuple[float, np.ndarray]:
        """Value and gradient of exact factors, from the messages of all batches."""
        assert isinstance(self.data, BatchedData)
        whole = (self.start, self.maps, self.densities, self.data, self.approximation)
        level = jnp.asarray(jitter, self.coordinates.origin.dtype)
        value, slope = streamed_value_and_grad(self.coordinates.real(x), *whole, level)
        return value, self.coordinates.gradient(slope, np.zeros(0))

    def _averaged(
        self, x: np.ndarray, data: BatchedData, sites: Sites, jitter: float
    ) -> tuple[float, np.ndarray]:
        """Value and gradient from all rows: the mean of the unbiased ones of its blocks."""
        count = data.blocks_in_all
        value, slope = 0.0, np.zeros(self.size)
        for block in data.blocks():
            one, its_slope = self._evaluated(x, sites, block, float(count), jitter)
            value, slope = value + one / count, slope + its_slope / count
            if not np.isfinite(value):
                break
        return value, slope


def split_tied(sites: Sites) -> tuple[Sites, Sites]:
    """Tied sites, and private sites, as trees with None in the place of the others."""
    where = jax.tree.map(is_tied, sites, is_leaf=is_tied)
    return eqx.partition(sites, where, is_leaf=is_tied)


def join_tied(tied: Sites, private: Sites) -> Sites:
    """The sites that `split_tied` took apart."""
    return eqx.combine(tied, private, is_leaf=is_tied)


def counts(data: Data | BatchedData) -> Float[Array, " P"]:
    """The number of observed rows, per output."""
    if isinstance(data, BatchedData):
        return jnp.asarray(np.maximum(data.observed, 1.0), data.rows.y.dtype)
    return observed_rows(data.rows)


def _objective(
    start: AbstractModel,
    maps: Any,
    densities: Any,
    approximation: AbstractApproximation,
    origin: Array,
    total: Array | None,
    template: Sites,
    data: Data,
    jitter: Scalar,
    scale: Scalar,
    index: Array | None,
) -> Any:
    """The objective of moves of the parameters, flat tied sites and private sites."""
    part = data if index is None else some_rows(data, index)
    of_all: dict[str, Any] = {} if total is None else {"total": total, "scale": scale}

    unravel = ravel_pytree(template)[1]

    def loss(move: Array, flat: Array, private: Sites) -> Scalar:
        model = from_real(origin + move, start, maps)
        graph = part.problem(model, approximation, jitter, **of_all).graph()
        sites = join_tied(unravel(flat), private)
        value = energy(graph, sites, settled=True) - log_prior(model, densities)
        if has_sites(private) and not stationary(graph):
            newton = approximation.evaluation_point is EvaluationPoint.MODE
            value = value + implicit_gradient(graph, sites, newton=newton)
        return value

    return loss


def _value_and_grad(
    start: AbstractModel,
    maps: Any,
    densities: Any,
    approximation: AbstractApproximation,
    origin: Array,
    total: Array | None,
    template: Sites,
    data: Data,
    move: Array,
    flat: Array,
    private: Sites,
    jitter: Scalar,
    scale: Scalar,
    index: Array | None,
) -> tuple[Scalar, Array, Array]:
    fixed = (start, maps, densities, approximation, origin, total, template, data)
    loss = _objective(*fixed, jitter, scale, index)
    value, (by_real, by_flat) = jax.value_and_grad(loss, argnums=(0, 1))(move, flat, private)
    return value, by_real, by_flat


def _natural(
    start: AbstractModel,
    maps: Any,
    densities: Any,
    approximation: AbstractApproximation,
    origin: Array,
    total: Array | None,
    template: Sites,
    data: Data,
    move: Array,
    flat: Array,
    private: Sites,
    jitter: Scalar,
    scale: Scalar,
    step: Scalar,
    index: Array | None,
) -> Array:
    fixed = (start, maps, densities, approximation, origin, total, template, data)
    loss = _objective(*fixed, jitter, scale, index)
    unravel = ravel_pytree(template)[1]
    slope = unravel(jax.grad(loss, argnums=1)(move, flat, private))
    moved = lambda site, by: natural_step(site, by, step)  # noqa: E731
    return ravel_pytree(jax.tree.map(moved, unravel(flat), slope, is_leaf=is_tied))[0]


# for rows that are not among the data of the objective
_value_and_grad_of, _natural_of = compiled(_value_and_grad), compiled(_natural)
