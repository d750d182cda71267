"""Learning with tied factors: model and belief are moved together, with minibatches if need be."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.methods import TiedPowerEP
from cavity.inference.tied import TiedBelief, natural_step, prior_belief, tied_energy
from cavity.learning.adam import Adam
from cavity.learning.checkpoints import Search
from cavity.learning.data import Data, some_rows
from cavity.learning.optimise import Minimum, Progress, minimise
from cavity.learning.outer_loop import lay_out
from cavity.learning.scales import (
    coordinate_bounds,
    coordinate_scales,
    coordinates_of,
    model_at,
)
from cavity.learning.stream import Stream
from cavity.models.base import AbstractModel
from cavity.numerics.compiled import compiled
from cavity.numerics.linalg import escalate
from cavity.numerics.powers import is_exactly
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import FIXED, bijections, describe, from_real
from cavity.priors import flat, log_prior

Beliefs = tuple[TiedBelief, ...]


class TiedObjective:
    """Energy of tied factors minus log priors: of coordinates of the model, then of the beliefs.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data, or those of a stream.
        method: the method.
        maps: bijections; None for the default ones.
        densities: priors; None for flat ones.
        jitter: the jitter to begin with.
        beliefs: where to start; None for the prior.

    Raises:
        ValueError: for powers that differ between rows, or that the method does not go with.
    """

    def __init__(
        self,
        start: AbstractModel,
        data: Data | Stream,
        method: TiedPowerEP,
        *,
        maps: Any = None,
        densities: Any = None,
        jitter: float = 1e-8,
        beliefs: Beliefs | None = None,
    ):
        if data.rows.power is not None:
            raise ValueError("tied sites have one power for all rows, given one per row")
        if method.natural is not None and not is_exactly(data.power, 0.0):
            raise ValueError("natural gradients are for power 0: leave natural=None, or power=0.0")
        self.start, self.data, self.method, self.jitter = start, data, method, jitter
        self.maps = bijections(start) if maps is None else maps
        self.densities = flat(start) if densities is None else densities
        self.origin = coordinates_of(start, self.maps)
        scales = data.scales(start.likelihood)
        self.scale = np.asarray(coordinate_scales(start, self.maps, scales), np.float64)
        fresh = prior_beliefs(start, data.head) if beliefs is None else beliefs
        flat_beliefs, self.unravel = ravel_pytree(fresh)
        self.first = np.concatenate([np.zeros(self.scale.size), np.asarray(flat_beliefs)])
        free = np.full((flat_beliefs.size, 2), [-np.inf, np.inf])
        self.bounds = np.concatenate([coordinate_bounds(start, self.maps, scales), free])
        self.finite_value = True
        self.carries = False  # beliefs are coordinates

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

    def beliefs(self, x: np.ndarray) -> Beliefs:
        """The beliefs at a point."""
        return self.unravel(jnp.asarray(x[self.scale.size :], self.origin.dtype))

    def place(self, beliefs: Beliefs, x: np.ndarray) -> np.ndarray:
        """The point with other beliefs."""
        values = np.asarray(ravel_pytree(beliefs)[0], np.float64)
        return np.concatenate([x[: self.scale.size], values])

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient, from all rows; NaN where no jitter makes them finite."""
        return self.on_rows(x, self.data, 1.0)

    def on_rows(
        self, x: np.ndarray, part: Data | Stream, scale: float
    ) -> tuple[float, np.ndarray]:
        """Value and gradient from some rows that stand for all."""
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
        self, x: np.ndarray, part: Data | Stream, scale: float, level: float
    ) -> tuple[float, np.ndarray]:
        if isinstance(part, Stream):
            return self._averaged(x, part, level)
        dtype = self.origin.dtype
        fixed = (self.start, self.maps, self.densities, part, self.method)
        numbers = (jnp.asarray(level, dtype), counts(self.data), jnp.asarray(scale, dtype))
        place = (self._real(x), self.beliefs(x))
        value, (slope, moves) = _value_and_grad(place, *fixed, *numbers)
        parts = (np.asarray(slope, np.float64) * self.scale, np.asarray(ravel_pytree(moves)[0]))
        return float(value), np.concatenate(parts)

    def _averaged(self, x: np.ndarray, stream: Stream, level: float) -> tuple[float, np.ndarray]:
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
        data = self.data
        part = some_rows(data, jnp.asarray(rows)) if isinstance(data, Data) else rows
        scale = float(data.length) / part.rows.x.shape[0]
        if self.method.natural is None:
            return x, *self.on_rows(x, part, scale)
        x = self.natural(x, part, scale, self.method.natural)
        value, slope = self.on_rows(x, part, scale)
        slope[self.scale.size :] = 0.0
        return x, value, slope

    def natural(self, x: np.ndarray, part: Data, scale: float, step: float) -> np.ndarray:
        """The point after a natural-gradient step of the beliefs."""
        dtype = self.origin.dtype
        numbers = (jnp.asarray(self.jitter, dtype), counts(self.data), jnp.asarray(scale, dtype))
        fixed = (self.start, self.maps, part, self.method)
        found = _natural(
            self._real(x), self.beliefs(x), *fixed, *numbers, jnp.asarray(step, dtype)
        )
        return self.place(found, x)

    def _real(self, x: np.ndarray) -> Array:
        moved = self.scale * x[: self.scale.size]
        return self.origin + jnp.asarray(moved, self.origin.dtype)


def prior_beliefs(model: AbstractModel, data: Data) -> Beliefs:
    """The prior of every latent function, where the search starts."""
    assert model.inducing is not None
    shape = (data.rows.y.shape[-1], model.inducing.size, data.rows.y.dtype)
    return tuple(prior_belief(*shape) for _ in model.latents)


def counts(data: Data | Stream) -> Float[Array, " P"]:
    """The number of observed rows, per output."""
    if isinstance(data, Stream):
        return jnp.asarray(np.maximum(data.observed, 1.0), data.rows.y.dtype)
    presence = jnp.broadcast_to(data.rows.presence, data.rows.y.shape)
    return jnp.maximum(jnp.sum(presence, axis=0), 1.0)


@compiled
def _value_and_grad(
    place: tuple[Array, Beliefs],
    start: AbstractModel,
    maps: Any,
    densities: Any,
    data: Data,
    method: TiedPowerEP,
    jitter: Scalar,
    total: Array,
    scale: Scalar,
) -> tuple[Scalar, tuple[Array, Beliefs]]:
    def loss(place: tuple[Array, Beliefs]) -> Scalar:
        real, beliefs = place
        model = from_real(real, start, maps)
        graph = lay_out(model, data, method, jitter)
        return tied_energy(graph, beliefs, total, scale) - log_prior(model, densities)

    return jax.value_and_grad(loss)(place)


@compiled
def _natural(
    real: Array,
    beliefs: Beliefs,
    start: AbstractModel,
    maps: Any,
    data: Data,
    method: TiedPowerEP,
    jitter: Scalar,
    total: Array,
    scale: Scalar,
    step: Scalar,
) -> Beliefs:
    graph = lay_out(from_real(real, start, maps), data, method, jitter)
    return natural_step(graph, beliefs, total, scale, step)


def settle_tied(
    model: AbstractModel,
    data: Data | Stream,
    method: TiedPowerEP,
    jitter: float,
    beliefs: Beliefs | None = None,
) -> tuple[Beliefs, Minimum, float]:
    """Beliefs at the parameters that the model has, how they were found, and the jitter needed."""
    fixed = describe(model, lambda *_: FIXED)
    objective = TiedObjective(model, data, method, maps=fixed, jitter=jitter, beliefs=beliefs)
    limits = {"max_iterations": method.max_sweeps, "tolerance": method.tolerance}
    found = search(objective, objective.first, callback=None, kept=Search(), **limits)
    return objective.beliefs(found.x), found, objective.jitter


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
