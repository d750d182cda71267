"""Adam on minibatches, for objectives that are sums over rows."""

import functools
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.data.training_data import AbstractTrainingData, Minibatch
from cavity.learning.methods.base import Training
from cavity.learning.optimisers.lbfgs import (
    INTERRUPTED,
    Minimum,
    Progress,
    StartFailed,
    completing,
)
from cavity.learning.progress.checkpoint import Search, State, leaves, refilled
from cavity.numerics.types import Array

# What counts as level, in nats per unit of a coordinate, for up to so many outputs.
LEVEL, TOLERANT = 0.5, 500


@runtime_checkable
class Stochastic(Protocol):
    """An objective whose value and slope can be had from some rows that stand for all."""

    data: AbstractTrainingData

    @property
    def bounds(self) -> np.ndarray:
        """Bounds of the coordinates."""
        ...

    @property
    def moved_by(self) -> str:
        """Name of the algorithm that moves the point at each step."""
        ...

    def step(self, x: np.ndarray, batch: Minibatch) -> tuple[np.ndarray, float, np.ndarray]:
        """The point that Adam is to move on from, the value there and its slope.

        Args:
            x: the point.
            batch: some of the rows.
        """
        ...

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The value at the end, and its slope."""
        ...

    def state(self) -> State:
        """State after the steps, as a tree that can be saved."""
        ...

    def restore(self, state: State) -> None:
        """Restores the state that was saved between steps."""
        ...


class Adam:
    """Adam with a learning rate that falls to zero along a cosine.

    Args:
        objective: what is minimised.
        x: where to start.
        training: the number of steps, the learning rate at first, and minibatches.
        callback: called after each step.
        search: where the state of the loop is saved; None for nowhere.
    """

    def __init__(
        self,
        objective: Stochastic,
        x: np.ndarray,
        training: Training,
        callback: Callable[[Progress], None] | None,
        search: Search | None = None,
    ):
        self.objective, self.callback, self.search = objective, callback, search or Search()
        self.x, self.history = x.copy(), []
        assert training.steps is not None
        self.steps, self.rate = training.steps, training.learning_rate
        n = int(objective.data.length)
        random = np.random.default_rng(training.seed)
        self.batches = iter(objective.data.minibatches(min(training.batch or n, n), random))
        self.low, self.high = np.ascontiguousarray(objective.bounds.T)
        self.moments = _rule().init(jnp.asarray(x))
        self.began = time.perf_counter()

    def run(self) -> Minimum:
        """Makes all steps; what was found so far if interrupted.

        Raises:
            StartFailed: where the objective is not finite.
        """
        state = self.search.state()
        if state is not None:
            self._restore(state)
        try:
            while (done := len(self.history)) < self.steps:
                self._step(next(self.batches))
                self.search.offer(self._state)
                if self.callback is not None:
                    seconds = time.perf_counter() - self.began
                    best = self.history[-1]
                    self.callback(Progress(done + 1, done + 1, best, seconds, self.steps))
        except KeyboardInterrupt:
            if not self.history:
                raise
            return completing(lambda: self._minimum(INTERRUPTED, interrupted=True))
        return completing(self._minimum)

    def _state(self) -> State:
        """State on which the next steps depend, as a tree that can be saved; no minibatches."""
        return {
            "x": self.x,
            "history": np.asarray(self.history, np.float64),
            "moments": leaves(self.moments),
            "objective": self.objective.state(),
        }

    def _restore(self, state: State) -> None:
        """Puts back a state, and draws the minibatches before it again."""
        self.x = state["x"]
        self.history = list(map(float, state["history"]))
        self.moments = refilled(self.moments, state["moments"])
        self.objective.restore(state["objective"])
        for _ in self.history:
            next(self.batches)

    def _step(self, batch: Minibatch) -> None:
        self.x, value, slope = self.objective.step(self.x, batch)
        if not np.isfinite(value):
            raise StartFailed
        moves, self.moments = _adam(jnp.asarray(slope), self.moments)
        rate = 0.5 * self.rate * (1.0 + np.cos(np.pi * len(self.history) / self.steps))
        x = self.x - rate * np.asarray(moves, np.float64)
        self.x = np.clip(x, self.low, self.high, out=x)
        self.history.append(value)

    def _minimum(self, message: str = "", *, interrupted: bool = False) -> Minimum:
        """Result at the last point, judged by value and slope of all rows."""
        value, slope = self.objective(self.x)
        steps = len(self.history)
        low, high = self.objective.bounds.T
        free = np.where(slope > 0.0, self.x > low, self.x < high)
        steepest = float(np.max(np.abs(np.where(free, slope, 0.0)), initial=0.0))
        level = steepest < LEVEL * max(1.0, self.objective.data.n_observed / TOLERANT)
        if not message:
            said = "settled in" if level else "not settled after"
            slopes = f"the steepest slope of all rows is {steepest:.2g} nats per unit"
            run = f"{steps} steps of {self.objective.moved_by}"
            message = f"{said} {run}: {slopes}{'' if level else '; allow more'}"
        done = (steps, steps + 1, tuple(self.history))
        return Minimum(self.x, value, level and not interrupted, interrupted, message, *done)


@functools.cache
def _rule() -> Any:
    import optax

    return optax.scale_by_adam()


@jax.jit
def _adam(slope: Array, moments: Any) -> tuple[Array, Any]:
    return _rule().update(slope, moments)
