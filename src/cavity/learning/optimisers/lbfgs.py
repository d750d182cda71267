"""Minimisation on the host by L-BFGS-B, which always returns the best point evaluated."""

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cavity.numerics.text import plural

T = TypeVar("T")

INTERRUPTED = "interrupted; this is the best so far"
# Iterations over which the mean decrease is judged.
WINDOW = 10
# Evaluations that a search may take for each iteration that it may take.
EVALUATIONS = 4
# Steps that L-BFGS remembers: one per so many coordinates, at least and at most. With the 1,600 of
# kin40k and 200 inducing points, 50 get 12 nats further in 100 iterations than 20 do; with few
# coordinates they only cost the host time.
SHARE, FEWEST, MOST = 32, 20, 50
# Coordinates are rescaled after so many iterations, and whenever these have doubled, by the
# steepness that was met in so many of the last ones (benchmarks/results/ending.csv).
RESCALED, REMEMBERED = 25, 60
# Steepness is taken to be within these multiples of its median.
FLATTEST, SHARPEST = 1e-2, 1e4
# A slope below this has vanished, whatever the tolerance.
VANISHED = 1e-6
# A fall by less than this share of the objective is rounding; slopes are at most so steep.
LEAST_FALL, STEEPEST = 1e-13, 1e100
# What an undefined objective counts as: the value that the step began at, and this share of the
# fall that its slope promised.
WALL = 0.1


class GracefulStop(KeyboardInterrupt):
    """Interrupt that ends a search with its best point so far; other work runs to completion."""


def completing(work: Callable[[], T]) -> T:
    """Run `work` to completion; start it again if `GracefulStop` interrupts it."""
    try:
        return work()
    except GracefulStop:
        return work()


class StartFailed(RuntimeError):
    """The objective is undefined at the point to start from."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """Progress of a minimisation, as callbacks receive it.

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
        ends: the values at which runs from several starts ended; none for one start.
        stuck: whether no step lowered the objective further, though it has a slope.
    """

    x: np.ndarray
    objective: float
    converged: bool
    interrupted: bool
    message: str
    iterations: int
    evaluations: int
    history: tuple[float, ...]
    ends: tuple[float, ...] = ()
    stuck: bool = False


class Evaluation(NamedTuple):
    """A point, and value and slope there."""

    x: np.ndarray
    value: float
    slope: np.ndarray


@dataclasses.dataclass
class _Search:
    """A search under way: the best point met, and the record of the iterations.

    `last` is the point evaluated last, `origin` the one that steps are made from, each with value
    and slope.
    """

    fn: Callable[[np.ndarray], tuple[float, np.ndarray]]
    max_iterations: int
    tolerance: float
    callback: Callable[[Progress], None] | None
    best: float = np.inf
    x: np.ndarray | None = None
    slope: np.ndarray | None = None
    last: Evaluation | None = None
    origin: Evaluation | None = None
    evaluations: int = 0
    reason: str = ""
    history: list[float] = dataclasses.field(default_factory=list)
    path: deque[tuple[np.ndarray, np.ndarray]] = dataclasses.field(
        default_factory=lambda: deque(maxlen=REMEMBERED + 1)
    )
    began: float = dataclasses.field(default_factory=time.perf_counter)

    def evaluate(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient; a large value where not finite, so that searches step back."""
        self.evaluations += 1
        value, gradient = self.fn(point)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            if self.x is None:
                raise StartFailed
            return self.wall(point), np.zeros_like(point)
        self.last = Evaluation(point.copy(), value, gradient)
        if value < self.best:
            self.best, self.x, self.slope = value, self.last.x, gradient
        return value, gradient

    def wall(self, point: np.ndarray) -> float:
        """Finite value for an undefined objective, which cuts the step to about a quarter.

        A huge value would make the step so short that the difference of gradients along it, from
        which L-BFGS learns curvature, is rounding error.
        """
        origin = self.origin
        assert origin is not None
        with np.errstate(over="ignore", invalid="ignore"):
            expected = WALL * abs(float(origin.slope @ (point - origin.x)))
        least = max(VANISHED, LEAST_FALL * abs(origin.value))
        expected = expected if np.isfinite(expected) else STEEPEST
        return origin.value + float(np.clip(expected, least, STEEPEST))

    @property
    def max_evaluations(self) -> int:
        """Evaluations after which no further iteration begins."""
        return EVALUATIONS * self.max_iterations

    def after(self, since: int) -> None:
        """Records an iteration, and stops where the last ones gained next to nothing.

        Args:
            since: the iteration after which coordinates were rescaled last.
        """
        assert self.x is not None
        assert self.slope is not None
        self.origin = self.last  # L-BFGS-B goes on from the point evaluated last
        self.history.append(self.best)
        self.path.append((self.x, self.slope))
        if self.callback is not None:
            seconds = time.perf_counter() - self.began
            done = len(self.history)
            self.callback(
                Progress(done, self.evaluations, self.best, seconds, self.max_iterations)
            )
        if self.gained(since) < self.tolerance:
            self.reason = f"the objective fell by less than {self.tolerance:g} nats per iteration"
            raise StopIteration

    def gained(self, since: int) -> float:
        """Average gain of the last iterations; infinite before there are enough."""
        recent = self.history[since:][-WINDOW - 1 :]
        return (recent[0] - recent[-1]) / WINDOW if len(recent) > WINDOW else np.inf

    def level(self, bounds: np.ndarray) -> bool:
        """True if the objective is nearly level at the best point, within the bounds."""
        assert self.x is not None
        assert self.slope is not None
        steepest = np.max(np.abs(_within(self.x, self.slope, bounds)))
        return bool(steepest < max(self.tolerance * WINDOW, VANISHED))

    def minimum(self, message: str, *, converged: bool, interrupted: bool = False) -> Minimum:
        """The best point so far."""
        assert self.x is not None
        done = (len(self.history), self.evaluations, tuple(self.history))
        return Minimum(self.x, self.best, converged, interrupted, message, *done)


@dataclasses.dataclass
class _Round:
    """A part of a search, in coordinates of its own: x = origin + scale * u.

    The objective is divided by a unit, so that a first step has at most length one. Where all
    coordinates have two bounds L-BFGS-B steps by the whole gradient at first, which leads to the
    bounds.
    """

    search: _Search
    start: np.ndarray
    value: float
    gradient: np.ndarray
    bounds: np.ndarray
    origin: np.ndarray
    scale: np.ndarray
    unit: float = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        slope = _within(self.start, self.gradient, self.bounds) * self.scale
        steepest = min(float(np.max(np.abs(slope))), STEEPEST)
        share = np.clip(slope / max(steepest, 1.0), -1.0, 1.0)
        self.unit = max(max(steepest, 1.0) * float(np.linalg.norm(share)), 1.0)

    def __call__(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient in the units of the round."""
        x = np.clip(self.origin + self.scale * u, *self.bounds.T)
        if np.array_equal(x, self.start):
            value, gradient = self.value, self.gradient
        else:
            value, gradient = self.search.evaluate(x)
        return value / self.unit, self.scale * gradient / self.unit

    def run(self, iterations: int) -> Any:
        """Run L-BFGS-B for so many iterations at the most."""
        from scipy import optimize

        size, since = self.start.size, len(self.search.history)
        self.search.origin = Evaluation(self.start, self.value, self.gradient)
        # L-BFGS-B counts the start too, which is not evaluated again
        evaluations = self.search.max_evaluations - self.search.evaluations + 1
        return optimize.minimize(
            self,
            (self.start - self.origin) / self.scale,
            jac=True,
            method="L-BFGS-B",
            bounds=(self.bounds - self.origin[:, None]) / self.scale[:, None],
            callback=lambda _: self.search.after(since),
            options={
                "maxiter": iterations,
                "maxfun": evaluations,
                "maxcor": min(max(size // SHARE, FEWEST), MOST),
                "ftol": LEAST_FALL / self.unit,
                "gtol": VANISHED / self.unit,
            },
        )

    def left(self, inverse: Any) -> float:
        """Predicted decrease from the best point, by the curvature that the round has met.

        Args:
            inverse: the inverse of its curvature, as a linear operator.
        """
        x, slope = self.search.x, self.search.slope
        assert x is not None
        assert slope is not None
        slope = self.scale * _within(x, slope, self.bounds) / self.unit
        return float(0.5 * self.unit * slope @ inverse.matvec(slope))


def _scales(path: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Units of coordinates in which an objective is about as steep along each of them.

    The steepness of a coordinate is the change of its slope per change of the coordinate, as the
    root mean square over the steps of a path, which count as of one length.

    Args:
        path: points and the gradients there.
    """
    points, slopes = (np.diff(np.array(rows), axis=0) for rows in zip(*path, strict=True))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    lengths = np.where(lengths > 0.0, lengths, np.inf)
    moves = np.sqrt(np.sum((points / lengths) ** 2, axis=0))
    changes = np.sqrt(np.sum((slopes / lengths) ** 2, axis=0))
    moving = (moves > 0.0) & (changes > 0.0)
    if not np.any(moving):
        return np.ones(moving.size)
    steepness = changes[moving] / moves[moving]
    middle = np.median(steepness)
    units = np.ones(moving.size)
    units[moving] = np.clip(steepness / middle, FLATTEST, SHARPEST) ** -0.5
    return units / np.exp(np.mean(np.log(units)))


def _within(x: np.ndarray, slope: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The projected gradient: zero where a step downhill would leave the bounds."""
    return np.where(np.where(slope > 0.0, x > bounds[:, 0], x < bounds[:, 1]), slope, 0.0)


def _rounds(
    search: _Search, x: np.ndarray, bounds: np.ndarray, *, rescale: bool
) -> tuple[_Round, Any]:
    """Searches from x until it ends; returns the last round, and the status of L-BFGS-B."""
    value, gradient = search.evaluate(x)
    origin, scale = np.zeros(x.size), np.ones(x.size)
    until = RESCALED if rescale else search.max_iterations
    while True:
        current = _Round(search, x, value, gradient, bounds, origin, scale)
        until = min(until, search.max_iterations)
        status = current.run(until - len(search.history))
        iterations = len(search.history)
        spent = iterations == search.max_iterations or search.evaluations > search.max_evaluations
        if status.status != 1 or spent:
            return current, status
        assert search.x is not None
        assert search.slope is not None
        x, value, gradient = search.x, search.best, search.slope
        origin, scale, until = x, _scales(search.path), 2 * until


def _limit(search: _Search) -> str:
    """Message about the limit that a search met."""
    iterations = len(search.history)
    if iterations == search.max_iterations:
        return f"stopped at the limit of {iterations} iterations: allow more"
    return (
        f"stopped at the limit of {search.max_evaluations} evaluations of the objective, "
        f"{EVALUATIONS} for each iteration allowed, after {plural(iterations, 'iteration')}: most "
        "steps had to be shortened, as where the objective is undefined close by; allow more "
        "iterations, or start from other parameter values"
    )


def minimise(
    fn: Callable[[np.ndarray], tuple[float, np.ndarray]],
    x: np.ndarray,
    *,
    bounds: np.ndarray,
    max_iterations: int,
    tolerance: float,
    callback: Callable[[Progress], None] | None = None,
    rescale: bool = False,
) -> Minimum:
    """Minimises `fn` from `x` by L-BFGS-B and returns the best point it met.

    Points where `fn` is not finite are stepped back from. An interrupt from the keyboard ends
    the search with the best point so far.

    Args:
        fn: value and gradient.
        x: where to start.
        bounds: of the coordinates, (parameters, 2); infinite for none.
        max_iterations: iterations at the most, and a quarter of the evaluations at the most;
            0 to stay at `x`.
        tolerance: the search ends when the value fell by less than this per iteration, on
            average over the last ten.
        callback: called after each iteration.
        rescale: whether to rescale the coordinates after 25 iterations, 50, 100 and so on, by
            the steepness met until then. The search begins anew each time, and gains more where
            coordinates are many and differ in steepness, as those of inducing inputs do.

    Raises:
        StartFailed: if `fn` is not finite at the start.
    """
    search = _Search(fn, max_iterations, tolerance, callback)
    try:
        if x.size == 0 or max_iterations == 0:
            search.evaluate(x)
            message = "nothing to learn" if x.size == 0 else "nothing learned, as asked for"
            return search.minimum(message, converged=True)
        x = np.clip(x, *bounds.T)
        last, status = _rounds(search, x, bounds, rescale=rescale)
    except KeyboardInterrupt:
        if search.x is None:
            raise
        return search.minimum(INTERRUPTED, converged=False, interrupted=True)
    if search.reason:
        return search.minimum(search.reason, converged=True)
    if status.status == 1:
        return search.minimum(_limit(search), converged=False)
    if search.level(bounds):
        return search.minimum("the gradient vanished", converged=True)
    if last.left(status.hess_inv) < tolerance:
        message = f"less than {tolerance:g} nats are left to gain, which rounding hides"
        return search.minimum(message, converged=True)
    message = (
        "no step lowers the objective further, though it has a slope: rounding errors hide the "
        "fall, as where the noise is near zero, or it jumps, as where a mode ends"
    )
    return dataclasses.replace(search.minimum(message, converged=False), stuck=True)
