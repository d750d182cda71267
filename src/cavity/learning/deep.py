"""Learning deep models: from a sparse GP, by steps on minibatches."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.propagation import Nodes
from cavity.learning.fit import fit
from cavity.learning.infer import infer
from cavity.learning.initialisation.deep import HiddenStart, deepen
from cavity.learning.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers.checkpoint import Store
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.optimisers.trials import fit_best
from cavity.learning.result import FitResult
from cavity.likelihoods.capabilities import GaussianInLatent, capability
from cavity.models.gp import GP
from cavity.models.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class DeepFit:
    """Settings of `fit_deep`.

    Attributes:
        rows: rows at the most from which the sparse GP of the start is learned.
        iterations: of that at the most.
        slower: the share of the learning rate with which a fit is made again that ended below
            the sparse GP.
        last_fall: by how much the mean objective of minibatches may fall in the last tenth of the
            steps, in nats per row, where the fit has converged.
    """

    rows: int = 2000
    iterations: int = 100
    slower: float = 0.25
    last_fall: float = 0.01


SETTINGS = DeepFit()
# With one node the power mean over hidden values would be the value at one point.
METHOD = TiedPowerEP(propagation=Nodes(2), batch=500, max_sweeps=2500, learning_rate=0.02)


def fit_deep(
    starts: Sequence[GP],
    hidden: HiddenStart,
    X: np.ndarray,
    y: np.ndarray,
    *,
    points: int = 100,
    power: ArrayLike = 0.5,
    method: TiedPowerEP = METHOD,
    jitter: float = 1e-8,
    rows: Mapping[str, np.ndarray] | None = None,
    missing: str = "error",
    seed: int = 0,
    max_iterations: int = 1000,
    callback: Callable[[Progress], None] | None = None,
    checkpoint: Store | None = None,
) -> FitResult:
    """Learns a deep Gaussian process that starts from the best of several sparse ones.

    The sparse GP is learned from some of the rows and becomes the last layer; inner layers start
    near their mean functions. Then all is learned together. A fit that ends with less evidence per
    row than its sparse GP is made again with shorter steps; if that does not help, the result
    says so and has not converged. Otherwise it has converged where the objective hardly fell in
    the last steps: with a learning rate that ends at zero, slopes do not vanish.

    Args:
        starts: sparse GPs on `hidden.inputs[-1]`, the likeliest first.
        hidden: of `hidden_start(X, widths)`.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        points: inducing points of every hidden layer.
        power: of all rows.
        method: how the deep model is learned.
        jitter: as in `fit`.
        rows: side data of the rows.
        missing: as in `fit`.
        seed: of the rows of the sparse GP, of clusters and of minibatches.
        max_iterations: iterations of the sparse GP, at most 100 of them; with 0 no parameters are
            learned, of the deep model neither.
        callback: called after every iteration and step.
        checkpoint: as in `fit`.

    Raises:
        ValueError: as `fit`.
        NumericalError: as `fit`.
    """
    shared: dict[str, Any] = {"power": power, "jitter": jitter, "missing": missing}
    part = None if checkpoint is None else checkpoint.part("sparse")
    iterations = min(max_iterations, SETTINGS.iterations)
    learning = {"max_iterations": iterations, "callback": callback, "checkpoint": part}
    single, least = _single(starts, hidden.inputs[-1], y, rows or {}, seed, shared | learning)
    if single.interrupted:
        max_iterations = 0
    sparse, process = cast(GP, single.model), cast(Posterior, single.posterior).process
    model, sites = deepen(sparse, process, hidden, points, seed)
    method = dataclasses.replace(method, batch=min(method.batch or len(X), len(X)), seed=seed)

    def attempt(method: TiedPowerEP, name: str) -> FitResult:
        return fit(
            model,
            X,
            y,
            method=method,
            rows=rows,
            sites=sites,
            max_iterations=min(max_iterations, 1),
            callback=callback,
            checkpoint=None if checkpoint is None else checkpoint.part(name),
            **shared,
        )

    result = attempt(method, "deep")
    if single.interrupted:
        message = {"converged": False, "interrupted": True, "message": single.message}
        return dataclasses.replace(result, **message)
    if max_iterations == 0 or result.interrupted:
        return result
    if result.log_evidence < least * len(X):
        slower = dataclasses.replace(method, learning_rate=SETTINGS.slower * method.learning_rate)
        again = attempt(slower, "deep-again")
        if again.interrupted:
            return again
        result = max((result, again), key=lambda each: each.log_evidence)
    return _judged(result, least, len(X))


def _judged(result: FitResult, least: float, count: int) -> FitResult:
    """The result of a fit, not converged where it ended below its start or was still falling.

    Args:
        result: the fit.
        least: the log evidence per row of the sparse GP that it started from.
        count: the number of rows.
    """
    if result.log_evidence < least * count:
        message = (
            f"the deep model ended at {result.log_evidence / count:.3g} nats per row, below the "
            f"{least:.3g} of the sparse GP that it started from: use the sparse GP, or more steps"
        )
        return dataclasses.replace(result, converged=False, message=message)
    tenth = max(len(result.history) // 10, 1)
    before, last = result.history[-2 * tenth : -tenth], result.history[-tenth:]
    fall = float(np.mean(before or np.inf) - np.mean(last)) / count
    converged = result.converged or abs(fall) < SETTINGS.last_fall
    steps, change = f"{len(result.history)} steps of Adam", "fell" if fall > 0.0 else "rose"
    message = f"{steps}: the objective {change} by {abs(fall):.2g} nats per row in the last tenth"
    message += "" if converged else "; allow more"
    return dataclasses.replace(result, converged=converged, message=message)


def _single(
    starts: Sequence[GP],
    H: np.ndarray,
    y: np.ndarray,
    rows: Mapping[str, np.ndarray],
    seed: int,
    options: dict[str, Any],
) -> tuple[FitResult, float]:
    """The sparse GP of the last layer, from some of the rows, and its log evidence per row.

    Where its posterior is in closed form, all rows go into it. Functions of several classes are
    independent at power 1, where nothing is averaged over points, which would take minutes.
    """
    if starts[0].likelihood.couples:
        options = options | {"power": 1.0}
    random = np.random.default_rng(seed)
    chosen = np.sort(random.permutation(len(H))[: SETTINGS.rows])
    side = {name: values[chosen] for name, values in rows.items()}
    method = PowerEP(coupled=False)
    single = fit_best(starts, H[chosen], y[chosen], rows=side or None, method=method, **options)
    if capability(single.model.likelihood, GaussianInLatent) is None:
        return single, single.log_evidence / len(chosen)
    fixed = {name: options[name] for name in ("power", "jitter", "missing")}
    whole = infer(single.model, H, y, rows=rows or None, method=method, **fixed)
    same = {field.name: getattr(whole, field.name) for field in dataclasses.fields(whole)}
    message = {"message": single.message, "converged": single.converged}
    return dataclasses.replace(single, **(same | message)), whole.log_evidence / len(H)
