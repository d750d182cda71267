"""Learning with tied factors: model and belief are moved together, with minibatches if need be."""

import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cavity.inference.methods import TiedPowerEP
from cavity.inference.tied import TiedBelief, natural_step, prior_belief, tied_energy
from cavity.learning.data import Data
from cavity.learning.optimise import INTERRUPTED, Minimum, Progress, StartFailed, minimise
from cavity.learning.outer_loop import lay_out
from cavity.learning.scales import coordinate_bounds, coordinate_scales
from cavity.models.base import AbstractModel
from cavity.numerics.linalg import escalate
from cavity.numerics.powers import is_exactly
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import FIXED, bijections, describe, from_real, to_real
from cavity.priors import flat, log_prior

Beliefs = tuple[TiedBelief, ...]

# Shares of the steps that are compared to say whether learning has settled.
TENTHS = 10


class TiedObjective:
    """Energy of tied factors minus log priors: of coordinates of the model, then of the beliefs.

    Args:
        start: the model to start from; its coordinates are zero.
        data: prepared data.
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
        data: Data,
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
        self.origin = to_real(start, self.maps)
        self.scale = np.asarray(coordinate_scales(start, self.maps, data.rows), np.float64)
        fresh = prior_beliefs(start, data) if beliefs is None else beliefs
        flat_beliefs, self.restore = ravel_pytree(fresh)
        self.first = np.concatenate([np.zeros(self.scale.size), np.asarray(flat_beliefs)])
        free = np.full((flat_beliefs.size, 2), [-np.inf, np.inf])
        self.bounds = np.concatenate([coordinate_bounds(start, self.maps, data.rows), free])
        self.finite_value = True

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.first.size

    def model(self, x: np.ndarray) -> AbstractModel:
        """The model at a point."""
        return from_real(self._real(x), self.start, self.maps)

    def beliefs(self, x: np.ndarray) -> Beliefs:
        """The beliefs at a point."""
        return self.restore(jnp.asarray(x[self.scale.size :], self.origin.dtype))

    def place(self, beliefs: Beliefs, x: np.ndarray) -> np.ndarray:
        """The point with other beliefs."""
        values = np.asarray(ravel_pytree(beliefs)[0], np.float64)
        return np.concatenate([x[: self.scale.size], values])

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value in nats and gradient, from all rows; NaN where no jitter makes them finite."""
        return self.on_rows(x, self.data, 1.0)

    def on_rows(self, x: np.ndarray, part: Data, scale: float) -> tuple[float, np.ndarray]:
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
        self, x: np.ndarray, part: Data, scale: float, level: float
    ) -> tuple[float, np.ndarray]:
        dtype = self.origin.dtype
        fixed = (self.start, self.maps, self.densities, part, self.method)
        numbers = (jnp.asarray(level, dtype), counts(self.data), jnp.asarray(scale, dtype))
        place = (self._real(x), self.beliefs(x))
        value, (slope, moves) = _value_and_grad(place, *fixed, *numbers)
        parts = (np.asarray(slope, np.float64) * self.scale, np.asarray(ravel_pytree(moves)[0]))
        return float(value), np.concatenate(parts)

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


def counts(data: Data) -> Float[Array, " P"]:
    """The number of observed rows, per output."""
    presence = jnp.broadcast_to(data.rows.presence, data.rows.y.shape)
    return jnp.maximum(jnp.sum(presence, axis=0), 1.0)


@eqx.filter_jit
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


@eqx.filter_jit
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
    data: Data,
    method: TiedPowerEP,
    jitter: float,
    beliefs: Beliefs | None = None,
) -> tuple[Beliefs, Minimum, float]:
    """Beliefs at the parameters that the model has, how they were found, and the jitter needed."""
    fixed = describe(model, lambda *_: FIXED)
    objective = TiedObjective(model, data, method, maps=fixed, jitter=jitter, beliefs=beliefs)
    limits = {"max_iterations": method.max_sweeps, "tolerance": method.tolerance}
    found = search(objective, objective.first, callback=None, **limits)
    return objective.beliefs(found.x), found, objective.jitter


def search(
    objective: TiedObjective,
    x: np.ndarray,
    *,
    max_iterations: int,
    tolerance: float,
    callback: Callable[[Progress], None] | None,
) -> Minimum:
    """Minimises a tied objective from `x`: by L-BFGS-B, or with minibatches by Adam."""
    method = objective.method
    if method.batch is None:
        return minimise(
            objective,
            x,
            bounds=objective.bounds,
            max_iterations=max_iterations,
            tolerance=tolerance,
            callback=callback,
        )
    return _Adam(objective, method, x, callback).run()


class _Adam:
    """Adam on minibatches, with a learning rate that falls to zero."""

    def __init__(
        self,
        objective: TiedObjective,
        method: TiedPowerEP,
        x: np.ndarray,
        callback: Callable[[Progress], None] | None,
    ):
        self.objective, self.method, self.callback = objective, method, callback
        self.x, self.history = x.copy(), []
        self.steps = method.max_sweeps
        self.random = np.random.default_rng(method.seed)
        self.moments = _rule().init(jnp.asarray(x))
        self.began = time.perf_counter()

    def run(self) -> Minimum:
        """Makes all steps; what was found so far if interrupted."""
        try:
            for done, rows in enumerate(self._batches()):
                self._step(rows)
                if self.callback is not None:
                    seconds = time.perf_counter() - self.began
                    best = self.history[-1]
                    self.callback(Progress(done + 1, done + 1, best, seconds, self.steps))
        except KeyboardInterrupt:
            if not self.history:
                raise
            return self._minimum(INTERRUPTED, interrupted=True)
        settled, message = self._settled()
        return self._minimum(message, converged=settled)

    def _batches(self) -> Any:
        """Row numbers of each step; every pass through the data is in another order."""
        n = int(self.objective.data.length)
        size = min(int(self.method.batch or n), n)
        order = self.random.permutation(n)
        for _ in range(self.steps):
            if order.size < size:
                order = np.concatenate([order, self.random.permutation(n)])
            yield order[:size]
            order = order[size:]

    def _step(self, rows: np.ndarray) -> None:
        objective, method = self.objective, self.method
        part = _some(objective.data, jnp.asarray(rows))
        scale = float(objective.data.length) / rows.size
        if method.natural is not None:
            self.x = objective.natural(self.x, part, scale, method.natural)
        value, slope = objective.on_rows(self.x, part, scale)
        if not np.isfinite(value):
            raise StartFailed
        if method.natural is not None:
            slope[objective.scale.size :] = 0.0
        moves, self.moments = _adam(jnp.asarray(slope), self.moments)
        rate = 0.5 * method.learning_rate * (1.0 + np.cos(np.pi * len(self.history) / self.steps))
        low, high = objective.bounds.T
        self.x = np.clip(self.x - rate * np.asarray(moves, np.float64), low, high)
        self.history.append(value)

    def _settled(self) -> tuple[bool, str]:
        """Whether the last tenth of the steps is as low as the one before, within its noise."""
        count = max(len(self.history) // TENTHS, 1)
        last, before = self.history[-count:], self.history[-2 * count : -count]
        if not before:
            return False, f"stopped after {len(self.history)} steps: allow more"
        noise = np.hypot(np.std(last), np.std(before)) / np.sqrt(count)
        gain = float(np.mean(before) - np.mean(last))
        done = f"{len(self.history)} steps of minibatches"
        if gain < 3.0 * noise + 1e-3 * abs(np.mean(last)):
            return True, f"settled in {done}: the last tenth gained {max(gain, 0.0):.2g} nats"
        return (
            False,
            f"still falling after {done}, by {gain:.2g} nats in the last tenth: allow more",
        )

    def _minimum(
        self, message: str, *, converged: bool = False, interrupted: bool = False
    ) -> Minimum:
        value, _ = self.objective(self.x)
        done = (len(self.history), len(self.history) + 1, tuple(self.history))
        return Minimum(self.x, value, converged, interrupted, message, *done)


@functools.cache
def _rule() -> Any:
    import optax

    return optax.scale_by_adam()


@jax.jit
def _adam(slope: Array, moments: Any) -> tuple[Array, Any]:
    return _rule().update(slope, moments)


@eqx.filter_jit
def _some(data: Data, index: Array) -> Data:
    """Some rows of the data."""
    rows = jax.tree.map(lambda x: x[index], data.rows)
    return Data(rows, data.power, index.shape[0], data.single, data.length)
