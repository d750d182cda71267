"""Minimisation on the host by L-BFGS-B, which always returns the best point evaluated."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

INTERRUPTED = "interrupted; this is the best so far"
# Iterations over which the mean decrease is judged.
WINDOW = 10
# Steps that L-BFGS remembers: one per so many coordinates, at least and at most. With the 1,600 of
# kin40k and 200 inducing points, 50 get 12 nats further in 100 iterations than 20 do; with few
# coordinates they only cost the host time.
SHARE, FEWEST, MOST = 32, 20, 50
# A slope below this has vanished, whatever the tolerance.
VANISHED = 1e-6
# A fall by less than this share of the objective is rounding; slopes are at most so steep.
LEAST_FALL, STEEPEST = 1e-13, 1e100


class GracefulStop(KeyboardInterrupt):
    """Asks a search to end with the best so far; what is not a search is done all the same."""


def completing(work: Callable[[], T]) -> T:
    """What some work gives that is no search; begun again where `GracefulStop` ended it."""
    try:
        return work()
    except GracefulStop:
        return work()


class StartFailed(RuntimeError):
    """The objective is undefined at the point to start from."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Where a minimisation stands; what callbacks receive.

    Attributes:
        iteration: iterations done.
        evaluations: evaluations of the objective.
        objective: its lowest value so far, in nats.
        seconds: since the start.
        max_iterations: iterations at the most.
    """

    iteration: int
    evaluations: int
    objective: float
    seconds: float
    max_iterations: int


@dataclasses.dataclass(frozen=True)
class Minimum:
    """The best point found.

    Attributes:
        x: the point.
        objective: the value there.
        converged: whether the minimisation ended by itself.
        interrupted: whether it was interrupted from the keyboard.
        message: why it ended.
        iterations: iterations done.
        evaluations: evaluations of the objective.
        history: the value after each iteration.
    """

    x: np.ndarray
    objective: float
    converged: bool
    interrupted: bool
    message: str
    iterations: int
    evaluations: int
    history: tuple[float, ...]


@dataclasses.dataclass
class _Search:
    """A search under way: the best point met, and the record of the iterations."""

    fn: Callable[[np.ndarray], tuple[float, np.ndarray]]
    max_iterations: int
    tolerance: float
    callback: Callable[[Progress], None] | None
    best: float = np.inf
    x: np.ndarray | None = None
    slope: np.ndarray | None = None
    evaluations: int = 0
    reason: str = ""
    history: list[float] = dataclasses.field(default_factory=list)
    began: float = dataclasses.field(default_factory=time.perf_counter)

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; where they are not finite, a wall to step back from."""
        self.evaluations += 1
        value, gradient = self.fn(point)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            if self.x is None:
                raise StartFailed
            return abs(self.best) * 1e3 + 1e10, np.zeros_like(point)
        if value < self.best:
            self.best, self.x, self.slope = value, point.copy(), gradient
        return value, gradient

    def scaled(
        self, x: np.ndarray, bounds: np.ndarray
    ) -> tuple[Callable[[np.ndarray], tuple[float, np.ndarray]], float]:
        """`evaluate` in units of the slope at x, so that a first step has at most length one.

        Where all coordinates have two bounds L-BFGS-B steps by the whole gradient at first, which
        leads to the bounds.

        Returns:
            The function and the unit.
        """
        first = self.evaluate(x)
        slope = _within(x, first[1], bounds)
        steepest = min(float(np.max(np.abs(slope))), STEEPEST)
        share = np.clip(slope / max(steepest, 1.0), -1.0, 1.0)
        unit = max(max(steepest, 1.0) * float(np.linalg.norm(share)), 1.0)

        def fn(point: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = first if np.array_equal(point, x) else self.evaluate(point)
            return value / unit, gradient / unit

        return fn, unit

    def after(self, _: np.ndarray) -> None:
        """Records an iteration, and stops where the last ones gained next to nothing."""
        self.history.append(self.best)
        if self.callback is not None:
            seconds = time.perf_counter() - self.began
            done = len(self.history)
            self.callback(
                Progress(done, self.evaluations, self.best, seconds, self.max_iterations)
            )
        if self.gained() < self.tolerance:
            self.reason = f"the objective fell by less than {self.tolerance:g} nats per iteration"
            raise StopIteration

    def gained(self) -> float:
        """What the last iterations gained on average; infinite before there are enough."""
        recent = self.history[-WINDOW - 1 :]
        return (recent[0] - recent[-1]) / WINDOW if len(recent) > WINDOW else np.inf

    def level(self, bounds: np.ndarray) -> bool:
        """Whether the objective is as good as level at the best point, within the bounds."""
        assert self.x is not None
        assert self.slope is not None
        steepest = np.max(np.abs(_within(self.x, self.slope, bounds)))
        return bool(steepest < max(self.tolerance * WINDOW, VANISHED))

    def left(self, bounds: np.ndarray, unit: float, inverse: Any) -> float:
        """What is left to gain at the best point, by the curvature that the search has met.

        Args:
            bounds: of the coordinates.
            unit: of the objective that was searched.
            inverse: the inverse of its curvature, as a linear operator.
        """
        assert self.x is not None
        assert self.slope is not None
        slope = _within(self.x, self.slope, bounds) / unit
        return float(0.5 * unit * slope @ inverse.matvec(slope))

    def minimum(self, message: str, *, converged: bool, interrupted: bool = False) -> Minimum:
        """The best point so far."""
        assert self.x is not None
        done = (len(self.history), self.evaluations, tuple(self.history))
        return Minimum(self.x, self.best, converged, interrupted, message, *done)


def _within(x: np.ndarray, slope: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The slope, without what bounds keep from being followed."""
    return np.where(np.where(slope > 0.0, x > bounds[:, 0], x < bounds[:, 1]), slope, 0.0)


def minimise(
    fn: Callable[[np.ndarray], tuple[float, np.ndarray]],
    x: np.ndarray,
    *,
    bounds: np.ndarray,
    max_iterations: int,
    tolerance: float,
    callback: Callable[[Progress], None] | None = None,
) -> Minimum:
    """Minimises `fn` from `x` by L-BFGS-B and returns the best point it met.

    Points where `fn` is not finite are stepped back from. An interrupt from the keyboard ends
    the search with the best point so far.

    Args:
        fn: value and gradient.
        x: where to start.
        bounds: of the coordinates, (parameters, 2); infinite for none.
        max_iterations: iterations at the most; 0 to stay at `x`.
        tolerance: the search ends when the value fell by less than this per iteration, on
            average over the last ten.
        callback: called after each iteration.

    Raises:
        StartFailed: if `fn` is not finite at the start.
    """
    from scipy import optimize

    search = _Search(fn, max_iterations, tolerance, callback)
    try:
        if x.size == 0 or max_iterations == 0:
            search.evaluate(x)
            message = "nothing to learn" if x.size == 0 else "nothing learned, as asked for"
            return search.minimum(message, converged=True)
        x = np.clip(x, *bounds.T)
        scaled, unit = search.scaled(x, bounds)
        found = optimize.minimize(
            scaled,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            callback=search.after,
            options={
                "maxiter": max_iterations,
                "maxfun": 4 * max_iterations,
                "maxcor": min(max(x.size // SHARE, FEWEST), MOST),
                "ftol": LEAST_FALL / unit,
                "gtol": VANISHED / unit,
            },
        )
    except KeyboardInterrupt:
        if search.x is None:
            raise
        return search.minimum(INTERRUPTED, converged=False, interrupted=True)
    if search.reason:
        return search.minimum(search.reason, converged=True)
    if found.status == 1:
        message = f"stopped at the limit of {max_iterations} iterations: allow more"
        return search.minimum(message, converged=False)
    if search.level(bounds):
        return search.minimum("the gradient vanished", converged=True)
    if search.left(bounds, unit, found.hess_inv) < tolerance:
        message = f"less than {tolerance:g} nats are left to gain, which rounding hides"
        return search.minimum(message, converged=True)
    message = (
        "no step lowers the objective further, though it has a slope: rounding errors hide the "
        "fall, as where the noise is near zero, or it jumps, as where a mode ends"
    )
    return search.minimum(message, converged=False)
