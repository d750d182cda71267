"""Learning with tied factors: model and belief are moved together, with minibatches if need be."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.approximations.methods import TiedPowerEP
from cavity.inference.energy import Graph, Sites, empty_sites, energy
from cavity.inference.factors.slots import observed_rows
from cavity.inference.factors.tied import is_tied, natural_step
from cavity.learning.data.arrays import Data, some_rows
from cavity.learning.data.batched import BatchedData
from cavity.learning.data.scales import (
    coordinate_bounds,
    coordinate_scales,
    coordinates_of,
    model_at,
)
from cavity.learning.optimisers.adam import Adam
from cavity.learning.optimisers.checkpoint import Search
from cavity.learning.optimisers.lbfgs import Minimum, Progress, minimise
from cavity.learning.solvers.double_loop import build_graph
from cavity.models.base import AbstractModel
from cavity.numerics.jit import Bound, compiled
from cavity.numerics.linalg import escalate
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import FIXED, bijections, describe, from_real
from cavity.parameters.priors import flat, log_prior


class TiedObjective:
    """Energy of tied factors minus log priors: of coordinates of the model, then of the sites.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, or those of a stream.
        method: the method.
        maps: bijections; None for the default ones.
        densities: priors; None for flat ones.
        jitter: the jitter to begin with.
        sites: where to start; None for the prior.

    Raises:
        ValueError: for powers that differ between rows, or that the method does not go with.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: Data | BatchedData,
        method: TiedPowerEP,
        *,
        maps: Any = None,
        densities: Any = None,
        jitter: float = 1e-8,
        sites: Sites | None = None,
    ):
        if data.rows.power is not None:
            raise ValueError("tied sites have one power for all rows, given one per row")
        self.start, self.data, self.method, self.jitter = start, data, method, jitter
        self.maps = bijections(start) if maps is None else maps
        self.densities = flat(start) if densities is None else densities
        self.origin = coordinates_of(start, self.maps)
        self.dtype = data.rows.y.dtype
        scales = data.scales(start.likelihood)
        self.scale = np.asarray(coordinate_scales(start, self.maps, scales), np.float64)
        fresh = prior_sites(start, data.head, method) if sites is None else sites
        flat_sites, self.unravel = ravel_pytree(fresh)
        self.first = np.concatenate([np.zeros(self.scale.size), np.asarray(flat_sites)])
        free = np.full((flat_sites.size, 2), [-np.inf, np.inf])
        self.bounds = np.concatenate([coordinate_bounds(start, self.maps, scales), free])
        place = _Place(start, self.maps, self.origin, jnp.asarray(self.scale), fresh)
        self.fixed = (place, self.densities, method, counts(data))
        whole = None if isinstance(data, BatchedData) else data
        self.bound = {name: Bound(fn, *self.fixed, whole) for name, fn in _PROGRAMS.items()}
        self.finite_value = True
        self.carries = False  # sites are coordinates

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.first.size

    def state(self) -> dict[str, Any]:
        """What evaluations left behind, as a tree that can be saved."""
        return {"jitter": self.jitter, "finite_value": self.finite_value}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Puts back what evaluations left behind."""
        self.jitter, self.finite_value = float(state["jitter"]), bool(state["finite_value"])

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return model_at(self._real(x), self.start, self.maps)

    def sites(self, x: np.ndarray) -> Sites:
        """The sites at a point."""
        return self.unravel(jnp.asarray(x[self.scale.size :], self.dtype))

    def place(self, sites: Sites, x: np.ndarray) -> np.ndarray:
        """The point with other sites."""
        values = np.asarray(ravel_pytree(sites)[0], np.float64)
        return np.concatenate([x[: self.scale.size], values])

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient, from all rows; NaN where no jitter makes them finite."""
        return self.on_rows(x, self.data, 1.0)

    def on_rows(self, x: np.ndarray, part: Any, scale: float) -> tuple[float, np.ndarray]:
        """Value and gradient from some rows that stand for all: data, or numbers of rows."""
        level: float | None = self.jitter
        while level is not None:
            parts = self._value_and_grad(x, part, scale, level)
            self.finite_value = bool(np.isfinite(parts[0]))
            if self.finite_value and np.all(np.isfinite(parts[1])):
                self.jitter = level
                return parts
            level = escalate(level)
        return np.nan, np.full(self.size, np.nan)

    def _value_and_grad(
        self, x: np.ndarray, part: Any, scale: float, level: float
    ) -> tuple[float, np.ndarray]:
        if isinstance(part, BatchedData):
            return self._averaged(x, part, level)
        value, slope = self._run(_VALUE, x, part, scale, level)
        return float(value), np.array(slope, np.float64)

    def _run(self, name: str, x: np.ndarray, part: Any, *numbers: float) -> Any:
        """What a program gives at a point for all rows, data of their own, or numbers of rows."""
        typed = [np.asarray(number, self.dtype) for number in numbers]
        if isinstance(part, Data) and part is not self.data:
            of_part: Any = _OF_PART[name]
            return of_part(*self.fixed, part, jnp.asarray(x), None, *map(jnp.asarray, typed))
        return self.bound[name](x, None if part is self.data else part, *typed)

    def _averaged(
        self, x: np.ndarray, stream: BatchedData, level: float
    ) -> tuple[float, np.ndarray]:
        """Value and gradient from all rows: the mean of the unbiased ones of its blocks."""
        count = stream.blocks_in_all
        value, slope = 0.0, np.zeros(self.size)
        for block in stream.blocks():
            one, its_slope = self._value_and_grad(x, block, float(count), level)
            value, slope = value + one / count, slope + its_slope / count
            if not np.isfinite(value):
                break
        return value, slope

    def step(self, x: np.ndarray, rows: Any) -> tuple[np.ndarray, float, np.ndarray]:
        """The point, after a natural step if asked for; value and slope of a minibatch there."""
        length = rows.rows.x.shape[0] if isinstance(rows, Data) else len(rows)
        scale = float(self.data.length) / length
        if self.method.natural is None:
            return x, *self.on_rows(x, rows, scale)
        x = self.natural(x, rows, scale, self.method.natural)
        value, slope = self.on_rows(x, rows, scale)
        slope[self.scale.size :] = 0.0
        return x, value, slope

    def natural(self, x: np.ndarray, part: Any, scale: float, step: float) -> np.ndarray:
        """The point after a natural-gradient step of the sites."""
        found = self._run(_MOVE, x, part, scale, self.jitter, step)
        return np.concatenate([x[: self.scale.size], np.asarray(found, np.float64)])

    def _real(self, x: np.ndarray) -> Array:
        moved = self.scale * x[: self.scale.size]
        return self.origin + jnp.asarray(moved, self.origin.dtype)


def prior_sites(model: AbstractModel, data: Data, method: TiedPowerEP) -> Sites:
    """Sites that leave the prior of every latent function, where the search starts."""
    zero = jnp.zeros((), data.rows.y.dtype)
    shapes = eqx.filter_eval_shape(lambda: empty_sites(build_graph(model, data, method, zero)))
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)


def counts(data: Data | BatchedData) -> Float[Array, " P"]:
    """The number of observed rows, per output."""
    if isinstance(data, BatchedData):
        return jnp.asarray(np.maximum(data.observed, 1.0), data.rows.y.dtype)
    return observed_rows(data.rows)


class _Place(eqx.Module):
    """What a point stands for."""

    start: Any
    maps: Any
    origin: Array
    scale: Array
    sites: Sites

    def __call__(self, x: Array) -> tuple[AbstractModel, Sites]:
        """The model and the sites at a point."""
        moved, rest = jnp.split(x, [self.scale.size])
        real = self.origin + (self.scale * moved).astype(self.origin.dtype)
        flat_sites, unravel = ravel_pytree(self.sites)
        sites = unravel(rest.astype(flat_sites.dtype))
        return from_real(real, self.start, self.maps), sites


def _value_and_grad(
    place: _Place,
    densities: Any,
    method: TiedPowerEP,
    total: Array,
    data: Data,
    x: Array,
    index: Array | None,
    scale: Scalar,
    jitter: Scalar,
) -> tuple[Scalar, Array]:
    part = data if index is None else some_rows(data, index)

    def loss(x: Array) -> Scalar:
        model, sites = place(x)
        graph = _graph(model, part, method, jitter, total, scale)
        return energy(graph, sites) - log_prior(model, densities)

    return jax.value_and_grad(loss)(x)


def _natural(
    place: _Place,
    densities: Any,
    method: TiedPowerEP,
    total: Array,
    data: Data,
    x: Array,
    index: Array | None,
    scale: Scalar,
    jitter: Scalar,
    step: Scalar,
) -> Array:
    part = data if index is None else some_rows(data, index)
    model, sites = place(x)
    graph = _graph(model, part, method, jitter, total, scale)
    slope = jax.grad(lambda sites: energy(graph, sites))(sites)
    return ravel_pytree(
        jax.tree.map(lambda site, by: natural_step(site, by, step), sites, slope, is_leaf=is_tied)
    )[0]


def _graph(
    model: AbstractModel,
    data: Data,
    method: TiedPowerEP,
    jitter: Scalar,
    total: Array,
    scale: Scalar,
) -> Graph:
    """The model's graph on rows that stand for all."""
    options = {"power": data.power, "method": method, "jitter": jitter, "chunk": data.chunk}
    return model.graph(data.rows, **options, total=total, scale=scale)


_VALUE, _MOVE = "value and slope", "natural step"
_PROGRAMS = {_VALUE: _value_and_grad, _MOVE: _natural}
# for rows that are not among the data of the objective
_OF_PART = {name: compiled(fn) for name, fn in _PROGRAMS.items()}


def settle_tied(
    model: AbstractModel,
    data: Data | BatchedData,
    method: TiedPowerEP,
    jitter: float,
    sites: Sites | None = None,
) -> tuple[Sites, Minimum, float]:
    """Sites at the parameters that the model has, how they were found, and the jitter needed."""
    fixed = describe(model, lambda *_: FIXED)
    objective = TiedObjective(model, data, method, maps=fixed, jitter=jitter, sites=sites)
    limits = {"max_iterations": method.max_sweeps, "tolerance": method.tolerance}
    found = search(objective, objective.first, callback=None, kept=Search(), **limits)
    return objective.sites(found.x), found, objective.jitter


def search(
    objective: TiedObjective,
    x: np.ndarray,
    *,
    max_iterations: int,
    tolerance: float,
    callback: Callable[[Progress], None] | None,
    kept: Search,
) -> Minimum:
    """Minimises a tied objective from `x`: by L-BFGS-B, or with minibatches by Adam."""
    method = objective.method
    if method.batch is None:
        with kept.answers(objective) as fn:
            return minimise(
                fn,
                x,
                bounds=objective.bounds,
                max_iterations=max_iterations,
                tolerance=tolerance,
                callback=callback,
            )
    steps, rate = method.max_sweeps, method.learning_rate
    return Adam(objective, x, steps, rate, method.batch, method.seed, callback, kept).run()
