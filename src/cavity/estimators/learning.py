"""Fit of a Gaussian process to the data of an estimator."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.asked_priors import asked_priors
from cavity.estimators.asked_settings import is_auto, is_enough, most_variables
from cavity.estimators.asked_types import PowerAsked
from cavity.estimators.registry import build_method
from cavity.estimators.settings import AUTO_INDUCING, Settings, build
from cavity.families.values import whole
from cavity.learning.data.batches import Batches, BatchSource
from cavity.learning.data.parts import Parts, as_parts
from cavity.learning.data.row_weights import presence_of, weights_of
from cavity.learning.data.survey import survey
from cavity.learning.engines.base import AbstractEngine
from cavity.learning.initialisation.inducing_points import cluster_blocks
from cavity.learning.optimisers.lbfgs import Progress
from cavity.learning.plans.growth import Judgement, verdict, with_enough_points
from cavity.learning.plans.powers import Chosen, PowerTrial, best_power
from cavity.learning.plans.trials import best_of
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.gp import GP


@dataclasses.dataclass(frozen=True, eq=False)
class Course:
    """The course of a fit.

    Attributes:
        callback: called after every iteration.
        checkpoint: where the fit keeps what it has done.
        batches: all rows, where those in memory are a sample of them.
        streaming: whether others follow these rows.
        engine: what works on the parts of the batches; None for this process.
    """

    callback: Callable[[Progress], None] | None = None
    checkpoint: Store | None = None
    batches: Parts | None = None
    streaming: bool = False
    engine: AbstractEngine | None = None

    def over(
        self, batches: Batches | BatchSource | Parts | None, engine: AbstractEngine | None
    ) -> "Course":
        """The same, over batches or a table in parts where these are given.

        Raises:
            TypeError: for what is no batches, or can be read only once.
            ValueError: for an engine without batches.
        """
        if batches is None:
            if engine is not None:
                raise ValueError(
                    "an engine works on the parts of a table, and rows in memory have none: leave "
                    "engine out, or give the table as batches=cavity.Parts([...]), of which X and "
                    "y are a sample"
                )
            return self
        return dataclasses.replace(self, batches=as_parts(batches), engine=engine)


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Data, and what is to be learned from them.

    Attributes:
        settings: what was asked for, checked.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), divided by their scale.
        side: side data by name, (N,) each.
        course: of the fit.
    """

    settings: Settings
    X: np.ndarray
    y: np.ndarray
    side: dict[str, np.ndarray]
    course: Course

    def scaled(self, scale: np.ndarray, seed: int) -> "Problem":
        """The same with a seed, and with outputs that are divided by their scales, (P,)."""
        divisor = scale if self.y.ndim > 1 else scale[0]
        batches = self.course.batches
        return dataclasses.replace(
            self,
            settings=dataclasses.replace(self.settings, seed=seed),
            y=self.y / divisor,
            course=dataclasses.replace(
                self.course, batches=None if batches is None else _divided(batches, divisor)
            ),
        )

    @property
    def outputs(self) -> np.ndarray:
        """The outputs, (N, P)."""
        return self.y.reshape(len(self.y), -1)

    @property
    def observed(self) -> np.ndarray:
        """The number of outputs that are there, (P,), each as often as its weight says."""
        return np.sum(presence_of(self.outputs, weights_of(self.side)), axis=0)


class Learned(NamedTuple):
    """A fit, the number of data, and the choices that were made.

    Attributes:
        result: the fit.
        observed: outputs that were not missing, (P,), each as often as its weight says.
        rows: the number of rows.
        power: the power; of no account where a model does not say.
        powers: evidence and held-out density at each power that was compared; None if the power
            was given.
        judgement: verdict on whether there are enough inducing points; None if their number was
            not grown.
    """

    result: FitResult
    observed: np.ndarray
    rows: int
    power: PowerAsked = 0.5
    powers: tuple[PowerTrial, ...] | None = None
    judgement: Judgement | None = None


def learn_gp(problem: Problem) -> Learned:
    """The Gaussian process that was asked for, by maximum evidence.

    Raises:
        ValueError: for a power that is to be chosen with batches.
    """
    settings, seed = problem.settings, problem.settings.seed
    if problem.course.batches is not None and settings.n_inducing == "auto":
        settings = dataclasses.replace(settings, n_inducing=AUTO_INDUCING)
    if problem.course.batches is not None and is_auto(settings.power):
        raise ValueError(
            'power="auto" compares fits to rows in memory, and these come in batches: give a '
            "number in [0, 1], such as 0.5"
        )
    if problem.course.batches is not None and is_enough(settings.n_inducing):
        raise ValueError(
            'n_inducing="enough" judges points by rows in memory, and these come in batches: give '
            "a number"
        )
    side, size = problem.side, settings.block_size
    starts, maps = build(settings, problem.X, problem.outputs, side)
    data: tuple[object, object] = problem.X, problem.y
    observed, rows = problem.observed, len(problem.X)
    if problem.course.batches is not None:
        stream = survey(
            problem.course.batches,
            starts[0].likelihood,
            power=settings.power,
            missing=settings.missing,
            engine=problem.course.engine,
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
        "tolerance": settings.tolerance,
        "seed": seed,
        "callback": problem.course.callback,
    }
    budget = whole("max_iterations", settings.max_iterations, 0)
    asked = settings.power
    if is_enough(settings.n_inducing):
        options["power"] = settings.fixed_power
        run = fits(*data, options, problem.course.checkpoint)
        return _learn_growing(problem, run, starts, observed, budget)
    if is_auto(asked):
        run = fits(*data, options, problem.course.checkpoint)
        chosen = run.carry_out(lambda run: best_power(run, starts, budget=budget, seed=seed))
        return Learned(chosen.result, observed, rows, chosen.power, chosen.trials)
    run = fits(*data, options | {"power": asked}, problem.course.checkpoint)
    result = run.carry_out(lambda run: best_of(run, starts, budget=budget))
    return Learned(result, observed, rows, asked)


def _learn_growing(
    problem: Problem, run: Run, starts: list[GP], observed: np.ndarray, budget: int
) -> Learned:
    """As `learn_gp`, with as many inducing points as are enough; a full GP where that will do."""
    most = most_variables(problem.settings.variables)
    maps, auto = run.options["bijections"], is_auto(problem.settings.power)
    how: dict[str, Any] = {"bijections": maps, "most": most, "choose_power": auto}
    found = run.carry_out(lambda run: with_enough_points(run, starts, budget=budget, **how))
    power = run.options["power"]
    if found.trials is not None:
        power = Chosen(found.result, found.trials).power
    judged = found.judgement
    if judged is None or not found.result.interrupted:
        judged = verdict(run.with_options(power=power), found.result, judged)
    return Learned(found.result, observed, len(problem.X), power, found.trials, judged)


@dataclasses.dataclass(frozen=True, eq=False)
class Divided:
    """Batches in float64, with their outputs divided; it travels where its source does.

    Attributes:
        source: the batches.
        divisor: of the outputs, (P,) or one number.
    """

    source: Batches
    divisor: np.ndarray | np.floating

    def __iter__(self) -> Iterator[tuple]:
        for batch in self.source:
            X, y = (np.asarray(a) for a in (batch.X, batch.y))
            # what are no numbers is refused with its batch
            X, y = (a.astype(float) if a.dtype.kind in "fiub" else a for a in (X, y))
            yield X, y / self.divisor if y.dtype.kind == "f" else y, batch.rows


def _divided(table: Parts, divisor: np.ndarray | np.floating) -> Parts:
    """A table in float64, with its outputs divided; parts keep their names."""
    return Parts(
        [Divided(part.source, divisor) for part in table.parts],
        names=[part.name for part in table.parts],
        size=table.size,
        buffer=table.buffer,
    )
