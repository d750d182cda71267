"""The power chosen by the density of outputs that were left out of the posterior."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import WEIGHT
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.row_weights import weights_of
from cavity.learning.plans.trials import DEFAULT, best_of
from cavity.learning.progress.checkpoint import Store
from cavity.learning.results.result import FitResult
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.base import AbstractModel
from cavity.numerics.text import plural
from cavity.parameters import free_parts

# Powers that are compared, each continued from the one before; of equals the default counts.
POWERS = (1.0, DEFAULT, 0.0)
# Rows from which on cavities do not decide, and half are held out: a few of thousands that a power
# is certain of and wrong about decide. Of fewer, the least that are held out, or else a quarter.
MANY, HELD_OUT = 5_000, 500
# Standard errors by which another power than the default has to be better.
CLEAR = 2.0
# Rows below which none are held out.
FEWEST = 4


class PowerTrial(NamedTuple):
    """The evidence and the held-out density of a fit at one power.

    Attributes:
        power: the power.
        log_evidence: approximate log marginal likelihood of the rows that were fitted, nats.
        log_density: mean log density of outputs that were left out, nats per output.
        left_out: which these are: "each row", given all others, or how many were held out.
        chosen: whether the power was chosen.
        fitted: outputs that were fitted, of each column, (P,).
        tested: outputs whose densities count, of each column, (P,).
    """

    power: float
    log_evidence: float
    log_density: float
    left_out: str
    chosen: bool = False
    fitted: tuple[int, ...] = ()
    tested: tuple[int, ...] = ()


class Chosen(NamedTuple):
    """A fit at the power that was chosen.

    Attributes:
        result: the fit.
        trials: one for each power, the highest first.
    """

    result: FitResult
    trials: tuple[PowerTrial, ...]

    @property
    def power(self) -> float:
        """The power that was chosen."""
        return next(trial.power for trial in self.trials if trial.chosen)

    def counting(self, evaluations: int) -> "Chosen":
        """The same of a longer run, with the evaluations of all of that."""
        return self._replace(result=self.result.counting(evaluations))


def fit_powers(
    starts: Sequence[AbstractModel],
    X: np.ndarray,
    y: np.ndarray,
    *,
    seed: int = 0,
    max_iterations: int = 1000,
    checkpoint: Store | None = None,
    **options: Any,
) -> Chosen:
    """`fit_best` at the power with the largest density of outputs that were left out.

    The powers 1, 0.5 and 0 are tried, the last two also from where the one before ended. The
    densities are those of each output given all others, from cavities. These do not account for
    parameters learned from the same rows, so where inducing inputs are learned, from 5,000 rows
    on, and where rows share sites, some rows are held out, and the model at the chosen power goes
    on to learn from all. Another power than 0.5 has to be better by more than two standard errors
    of the mean difference. The evidence is no measure: it grows with the power.

    Args:
        starts: models with different starting values, the likeliest first.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), NaN where missing.
        seed: of the rows that are held out, and of restarts.
        max_iterations: as in `fit_best`.
        checkpoint: as in `fit`; each fit is kept in a part of its own.
        **options: of `fit`, without the power.

    Returns:
        The fit, and a trial for each power, the highest first; only one where the power plays no
        part, in a full GP with Gaussian noise.

    Raises:
        NumericalError: if the objective is undefined at every power.
    """
    run = fits(X, y, options | {"seed": seed}, checkpoint)
    return run.carry_out(lambda run: best_power(run, starts, budget=max_iterations, seed=seed))


def best_power(
    run: Run, starts: Sequence[AbstractModel], *, budget: int = 1000, seed: int = 0
) -> Chosen:
    """The plan of `fit_powers`.

    Args:
        run: on the table.
        starts: models with different starting values, the likeliest first.
        budget: iterations at the most of each fit.
        seed: of the rows that are held out.
    """
    start, count = starts[0], len(run.X)
    exact = not start.approximate and start.likelihood.gaussian_noise is not None
    powers = (DEFAULT,) if exact else POWERS
    if exact or count < FEWEST or _cavities_decide(start, run.options, count):
        judge = _Judge("each row", run, None)
        return judge.chosen(run, _chain(run, starts, powers, budget, judge))
    order = np.random.default_rng(seed).permutation(count)
    out = count // 2 if count >= MANY else min(HELD_OUT, count // 4)
    held, kept = run.subset(np.sort(order[:out])), run.subset(np.sort(order[out:]))
    judge = _Judge(plural(out, "row"), kept, held)
    found = _chain(kept, starts, powers, budget, judge)
    chosen = judge.chosen(run, found)
    result, trials = chosen
    last = run.with_options(power=chosen.power).follow(
        "all",
        lambda part: best_of(part, [result.model, *starts], budget=budget),
        ended=lambda best: Chosen(best, trials),
        otherwise=lambda: Chosen(result.stopped(), trials),
    )
    return Chosen(last, trials)


def _chain(
    run: Run,
    starts: Sequence[AbstractModel],
    powers: Sequence[float],
    budget: int,
    judge: "_Judge",
) -> dict[float, FitResult]:
    """Fits at every power where one is defined, each tried from where the one before ended too."""
    found: dict[float, FitResult] = {}
    for power in powers:
        result = run.with_options(power=power).try_follow(
            f"power-{power:g}",
            functools.partial(_fit_from, _ends(found), starts, budget),
            ended=functools.partial(judge.stopped, run, found, power),
            otherwise=functools.partial(judge.stopped, run, found) if found else None,
        )
        if result is not None:
            found[power] = result
    run.best(list(found.values()))  # raises what was wrong where no power is defined
    return found


def _ends(found: Mapping[float, FitResult]) -> list[AbstractModel]:
    """The model at the end of the fit at the last power, if there was one."""
    return [result.model for result in list(found.values())[-1:]]


def _fit_from(
    before: Sequence[AbstractModel], starts: Sequence[AbstractModel], budget: int, run: Run
) -> FitResult:
    """The fit at one power; a single start goes on from where it is."""
    each = [*before, *starts]
    if len(each) == 1:
        return run.stage("", each[0], budget=budget)
    return best_of(run, each, budget=budget)


@dataclasses.dataclass(frozen=True, eq=False)
class _Judge:
    """Densities by which powers are compared.

    Attributes:
        left_out: the outputs whose densities count, in words.
        fitted: the run on the rows that were fitted.
        held: that on those held out; None where each row is left out of the others.
    """

    left_out: str
    fitted: Run
    held: Run | None

    @with_one_blas_thread
    def densities(self, result: FitResult) -> np.ndarray:
        """The log density of each output under a posterior that has not seen it."""
        if self.held is None:
            return result.leave_one_out()
        X, y, rows = self.held.X, self.held.y, self.held.options.get("rows")
        side = {name: values for name, values in (rows or {}).items() if name != WEIGHT}
        predictive = result.posterior.predict(X, rows=side or None)
        found = np.asarray(predictive.log_density(jnp.asarray(np.nan_to_num(y))))
        return np.where(np.isnan(y), np.nan, found)

    def chosen(self, run: Run, found: Mapping[float, FitResult]) -> Chosen:
        """The fit at the power that is best, with the evaluations of a run, and all trials."""
        y = self.fitted.y
        observed = tuple(np.sum(~np.isnan(y.reshape(len(y), -1)), axis=0).tolist())
        each = [self.densities(result) for result in found.values()]
        side = (self.held or self.fitted).options.get("rows") or {}
        trials, power = _judged(found, each, self.left_out, observed, weights_of(side))
        return Chosen(run.best([found[power]]), trials)

    def stopped(
        self,
        run: Run,
        found: Mapping[float, FitResult],
        power: float | None = None,
        best: FitResult | None = None,
    ) -> Chosen:
        """The best fit of a search that was interrupted, in the fit at a power or before it."""
        last = {} if power is None or best is None else {power: best}
        result, trials = self.chosen(run, {**found, **last})
        return Chosen(result.stopped(), trials)


def _cavities_decide(start: AbstractModel, options: dict[str, Any], rows: int) -> bool:
    """True where leave-one-out densities decide.

    They do not account for parameters learned from the same rows. A few parameters make no
    difference, but learned inducing inputs do, because at power 1 they explain single rows.
    """
    if rows >= MANY or options.get("blocks") is not None:
        return False
    method = options.get("method")
    if method is not None and method.tied:
        return False
    maps = options.get("bijections")
    gp: Any = start
    return not gp.approximate or (maps is not None and not free_parts(gp.inducing, maps.inducing))


def _judged(
    found: Mapping[float, FitResult],
    densities: Sequence[Any],
    left_out: str,
    fitted: tuple[int, ...],
    weights: np.ndarray | None,
) -> tuple[tuple[PowerTrial, ...], float]:
    """Trials by power, and the power chosen, among those whose outputs all have a density.

    Outputs that have none at any power, missing ones and those whose others leave no proper
    posterior, count nowhere.
    """
    table = np.array(densities).reshape(len(found), -1, len(fitted))
    counted = np.any(np.isfinite(table), axis=0)
    tested = tuple(np.sum(counted, axis=0).tolist())
    each = np.nan_to_num(table[:, counted], nan=-np.inf)
    heavy = np.ones(len(counted)) if weights is None else weights[: len(counted)]
    heavy = np.broadcast_to(heavy[:, None], counted.shape)[counted]
    means, powers = np.average(each, axis=1, weights=heavy), list(found)
    best = int(np.argmax(means))
    if DEFAULT in found:
        usual = powers.index(DEFAULT)
        gain = each[best] - each[usual]
        mean = np.average(gain, weights=heavy)
        error = np.sqrt(np.sum((heavy * (gain - mean)) ** 2)) / np.sum(heavy)
        best = best if mean > CLEAR * error else usual
    trials = (
        PowerTrial(
            power,
            float(result.log_evidence),
            float(mean),
            left_out,
            power == powers[best],
            fitted,
            tested,
        )
        for (power, result), mean in zip(found.items(), means, strict=True)
    )
    return tuple(trials), powers[best]
