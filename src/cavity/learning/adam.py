"""Adam on minibatches, for objectives that are sums over rows."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from cavity.learning.data import Data
from cavity.learning.optimise import INTERRUPTED, Minimum, Progress, StartFailed
from cavity.numerics.types import Array

# Shares of the steps that are compared to say whether learning has settled.
TENTHS = 10


@runtime_checkable
class Stochastic(Protocol):
    """An objective whose value and slope can be had from some rows that stand for all."""

    data: Data
    bounds: np.ndarray

    def step(self, x: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """The point that Adam is to move on from, the value there and its slope."""
        ...

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The value at the end, and its slope."""
        ...


class Adam:
    """Adam with a learning rate that falls to zero along a cosine.

    Args:
        objective: what is minimised.
        x: where to start.
        steps: the number of steps.
        rate: the learning rate at first.
        batch: rows of a minibatch; None for all.
        seed: of the minibatches.
        callback: called after each step.
    """

    def __init__(
        self,
        objective: Stochastic,
        x: np.ndarray,
        steps: int,
        rate: float,
        batch: int | None,
        seed: int,
        callback: Callable[[Progress], None] | None,
    ):
        self.objective, self.callback = objective, callback
        self.x, self.history = x.copy(), []
        self.steps, self.rate, self.batch = steps, rate, batch
        self.random = np.random.default_rng(seed)
        self.moments = _rule().init(jnp.asarray(x))
        self.began = time.perf_counter()

    def run(self) -> Minimum:
        """Makes all steps; what was found so far if interrupted.

        Raises:
            StartFailed: where the objective is not finite.
        """
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

    def _batches(self) -> Iterator[np.ndarray]:
        """Row numbers of each step; every pass through the data is in another order."""
        n = int(self.objective.data.length)
        size = min(self.batch or n, n)
        order = self.random.permutation(n)
        for _ in range(self.steps):
            if order.size < size:
                order = np.concatenate([order, self.random.permutation(n)])
            yield order[:size]
            order = order[size:]

    def _step(self, rows: np.ndarray) -> None:
        self.x, value, slope = self.objective.step(self.x, rows)
        if not np.isfinite(value):
            raise StartFailed
        moves, self.moments = _adam(jnp.asarray(slope), self.moments)
        rate = 0.5 * self.rate * (1.0 + np.cos(np.pi * len(self.history) / self.steps))
        low, high = self.objective.bounds.T
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
        done = f"{len(self.history)} steps of Adam"
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
