"""Fit of a Gaussian process to the data of an estimator."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.estimators.asked_priors import asked_priors
from cavity.estimators.left_to_data import is_auto, is_enough
from cavity.estimators.registry import build_method, whole
from cavity.estimators.settings import AUTO_INDUCING, Settings, build
from cavity.learning.data.batched import survey
from cavity.learning.data.batches import Batches
from cavity.learning.initialisation.inducing_points import cluster_blocks
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.plans.growth import Judgement, Rows, at_points_of, fit_growing, verdict
from cavity.learning.plans.powers import DEFAULT, PowerTrial, fit_powers
from cavity.learning.plans.trials import fit_best
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.models.gp import GP


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Data, and what is to be learned from them.

    Attributes:
        settings: what was asked for, checked.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), divided by their scale.
        side: side data by name, (N,) each.
        batches: all rows, where X and y are a sample of them.
        callback: called after every iteration.
        checkpoint: where the fit keeps what it has done.
    """

    settings: Settings
    X: np.ndarray
    y: np.ndarray
    side: dict[str, np.ndarray]
    batches: Batches | None
    callback: Callable[[Progress], None] | None
    checkpoint: Store | None

    @property
    def outputs(self) -> np.ndarray:
        """The outputs, (N, P)."""
        return self.y.reshape(len(self.y), -1)


class Learned(NamedTuple):
    """A fit, and of how many data.

    Attributes:
        result: the fit.
        observed: outputs that were not missing, (P,).
        rows: the number of rows.
        power: the power; None where a model does not say.
        powers: of a chosen power, what each that was compared came to.
        judgement: of points that were grown, whether they are enough; None where none were asked
            for.
    """

    result: FitResult
    observed: np.ndarray
    rows: int
    power: object = None
    powers: tuple[PowerTrial, ...] | None = None
    judgement: Judgement | None = None


def learn_gp(problem: Problem) -> Learned:
    """The Gaussian process that was asked for, by maximum evidence.

    Raises:
        ValueError: for a power that is to be chosen with batches.
    """
    settings, seed = problem.settings, problem.settings.seed
    if problem.batches is not None and settings.n_inducing == "auto":
        settings = dataclasses.replace(settings, n_inducing=AUTO_INDUCING)
    if problem.batches is not None and is_auto(settings.power):
        raise ValueError(
            'power="auto" compares fits to rows in memory, and these come in batches: give a '
            "number in [0, 1], such as 0.5"
        )
    if problem.batches is not None and is_enough(settings.n_inducing):
        raise ValueError(
            'n_inducing="enough" judges points by rows in memory, and these come in batches: give '
            "a number"
        )
    side, size = problem.side, settings.block_size
    starts, maps = build(settings, problem.X, problem.outputs, side)
    data: tuple[object, object] = problem.X, problem.y
    observed, rows = np.sum(~np.isnan(problem.outputs), axis=0), len(problem.X)
    if problem.batches is not None:
        stream = survey(
            problem.batches,
            starts[0].likelihood,
            power=cast(ArrayLike, settings.power),
            missing=settings.missing,
        )
        data, side = (stream, None), {}
        observed, rows = stream.observed, stream.length
    blocks = None
    if size is not None:
        blocks = cluster_blocks(problem.X, whole("", size, 1), seed=seed)
    options: dict[str, Any] = {
        "method": build_method(settings.method, seed),
        "jitter": settings.jitter,
        "blocks": blocks,
        "rows": side or None,
        "missing": settings.missing,
        "bijections": maps,
        "priors": asked_priors(settings, starts[0], problem.X, problem.outputs, problem.side),
        "n_restarts": settings.n_restarts,
        "max_iterations": whole("max_iterations", settings.max_iterations, 0),
        "tolerance": settings.tolerance,
        "seed": seed,
        "callback": problem.callback,
        "checkpoint": problem.checkpoint,
    }
    if is_enough(settings.n_inducing):
        return _learn_growing(problem, starts, options, observed)
    if is_auto(settings.power):
        result, powers = fit_powers(starts, problem.X, problem.y, **options)
        return Learned(result, observed, rows, _chosen(powers), powers)
    result = fit_best(starts, *data, power=cast(ArrayLike, settings.power), **options)
    return Learned(result, observed, rows, settings.power)


def _learn_growing(
    problem: Problem, starts: list[GP], options: dict[str, Any], observed: np.ndarray
) -> Learned:
    """As `learn_gp`, with as many inducing points as are enough; a full GP where that will do."""
    X, y, asked = problem.X, problem.y, problem.settings.power
    power: Any = DEFAULT if is_auto(asked) else asked
    found, powers, evaluations = None, None, 0
    if starts[0].inducing is not None:
        most = whole("max_inducing", problem.settings.max_inducing, 1)
        grown = fit_growing(starts, X, y, most=most, power=power, **options)
        found, evaluations = grown.judgement, grown.evaluations
        starts = [grown.model, *at_points_of(grown.model, starts, X, problem.settings.seed)]
        if grown.interrupted is not None:
            result = dataclasses.replace(grown.interrupted, n_evaluations=evaluations)
            return Learned(result, observed, len(X), power, None, found)
    if is_auto(asked):
        result, powers = fit_powers(starts, X, y, **options)
        power = _chosen(powers)
    else:
        result = fit_best(starts, X, y, power=power, **options)
    counted = evaluations + result.n_evaluations
    result = dataclasses.replace(result, n_evaluations=counted)
    found = verdict(result, Rows(X, y, power, problem.settings.seed, options), found)
    return Learned(result, observed, len(X), power, powers, found)


def _chosen(powers: tuple[PowerTrial, ...]) -> float:
    return next(trial.power for trial in powers if trial.chosen)


def divided(batches: Batches, divisor: np.ndarray | np.floating) -> Batches:
    """Batches in float64, with their outputs divided."""

    def scaled() -> Iterator[tuple]:
        for batch in batches:
            X, y = (np.asarray(a) for a in (batch.X, batch.y))
            # what are no numbers is refused with its batch
            X, y = (a.astype(float) if a.dtype.kind in "fiub" else a for a in (X, y))
            yield X, y / divisor if y.dtype.kind == "f" else y, batch.rows

    return Batches(scaled, size=batches.size, buffer=batches.buffer)
