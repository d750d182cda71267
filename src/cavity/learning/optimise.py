"""Minimisation on the host: L-BFGS-B with the best point kept, whatever happens."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

# Iterations over which the mean decrease is judged.
WINDOW = 10
# Logarithms of parameters stay this close to where they start: a factor of 6e7 either way.
REACH = 18.0


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
class _Trace:
    best: float = np.inf
    x: np.ndarray | None = None
    evaluations: int = 0
    reason: str = ""
    history: list[float] = dataclasses.field(default_factory=list)

    def flat(self, tolerance: float) -> bool:
        """Whether the mean decrease over the last iterations is below the tolerance."""
        if len(self.history) <= WINDOW:
            return False
        return self.history[-WINDOW - 1] - self.history[-1] < tolerance * WINDOW


def minimise(
    fn: Callable[[np.ndarray], tuple[float, np.ndarray]],
    x: np.ndarray,
    *,
    reach: np.ndarray,
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
        reach: how far each coordinate may move from its start; infinite for no bound.
        max_iterations: iterations at the most.
        tolerance: the search ends when the value fell by less than this per iteration, on
            average over the last ten.
        callback: called after each iteration.

    Raises:
        StartFailed: if `fn` is not finite at the start.
    """
    from scipy import optimize

    trace, began = _Trace(), time.perf_counter()

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        trace.evaluations += 1
        value, gradient = fn(point)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            if trace.x is None:
                raise StartFailed
            return abs(trace.best) * 1e3 + 1e10, np.zeros_like(point)
        if value < trace.best:
            trace.best, trace.x = value, point.copy()
        return value, gradient

    def after(_: np.ndarray) -> None:
        trace.history.append(trace.best)
        if callback is not None:
            seconds = time.perf_counter() - began
            done = len(trace.history)
            callback(Progress(done, trace.evaluations, trace.best, seconds, max_iterations))
        if trace.flat(tolerance):
            trace.reason = f"the objective fell by less than {tolerance:g} nats per iteration"
            raise StopIteration

    if x.size == 0:
        value, _ = evaluate(x)
        return Minimum(x, value, True, False, "nothing to learn", 0, 1, (value,))
    options = {"maxiter": max_iterations, "maxfun": 4 * max_iterations, "maxcor": 20}
    options |= {"ftol": 1e-13, "gtol": 1e-6}
    interrupted = False
    try:
        found = optimize.minimize(
            evaluate,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([x - reach, x + reach]),
            callback=after,
            options=options,
        )
        converged = bool(trace.reason) or found.status == 0
        message = trace.reason or _reason(found, max_iterations)
    except KeyboardInterrupt:
        if trace.x is None:
            raise
        converged, interrupted, message = False, True, "interrupted; this is the best so far"
    assert trace.x is not None
    return Minimum(
        trace.x,
        trace.best,
        converged,
        interrupted,
        message,
        len(trace.history),
        trace.evaluations,
        tuple(trace.history),
    )


def _reason(found: object, max_iterations: int) -> str:
    status = getattr(found, "status", 2)
    if status == 0:
        return "the gradient vanished, or no step lowers the objective further"
    if status == 1:
        return f"stopped at the limit of {max_iterations} iterations; allow more for a better fit"
    return "the line search found no lower point; the objective may be rough at this jitter"
