"""The power chosen by the density of outputs that were left out of the posterior."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.infer import NumericalError
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.plans.trials import DEFAULT, fit_best
from cavity.learning.results.result import FitResult
from cavity.learning.run.fit import fit
from cavity.likelihoods.capabilities import GaussianInLatent, capability
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
    """What a fit at one power came to.

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


@with_one_blas_thread
def fit_powers(
    starts: Sequence[AbstractModel], X: np.ndarray, y: np.ndarray, *, seed: int = 0, **options: Any
) -> tuple[FitResult, tuple[PowerTrial, ...]]:
    """`fit_best` at the power whose posterior gives outputs that it has not seen most density.

    The powers 1, 0.5 and 0 are tried, the last two also from where the one before ended. The
    densities are those of each output given all others, from cavities. These know nothing of what
    was learned from the same rows, so where inducing inputs are learned, from 5,000 rows on, and
    where rows share sites, some rows are held out, and the model at the chosen power goes on to
    learn from all. Another power than 0.5 has to be better by more than two standard errors of
    the mean difference. The evidence is no measure: it grows with the power.

    Args:
        starts: models with different starting values, the likeliest first.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P), NaN where missing.
        seed: of the rows that are held out, and of restarts.
        **options: of `fit`, without the power; `checkpoint` keeps each fit in a part of its own.

    Returns:
        The fit, and a trial for each power, the highest first; only one where the power plays no
        part, in a full GP with Gaussian noise.

    Raises:
        NumericalError: if the objective is undefined at every power.
    """
    data = _Data(X, y, options | {"seed": seed})
    start = starts[0]
    exact = not start.approximate and capability(start.likelihood, GaussianInLatent) is not None
    powers = (DEFAULT,) if exact else POWERS
    if exact or len(X) < FEWEST or _by_cavities(start, options, len(X)):
        found = _chain(data, starts, powers)
        each = [result.leave_one_out() for result in found.values()]
        trials, power = _judged(found, each, "each row", data.observed)
        return _with_all(found[power], found), trials
    order = np.random.default_rng(seed).permutation(len(X))
    count = len(X) // 2 if len(X) >= MANY else min(HELD_OUT, len(X) // 4)
    held, kept = data.of(np.sort(order[:count])), data.of(np.sort(order[count:]))
    found = _chain(kept, starts, powers)
    each = [held.densities(result) for result in found.values()]
    trials, power = _judged(found, each, plural(count, "row"), kept.observed)
    if any(result.interrupted for result in found.values()):
        return _with_all(found[power], found), trials
    result = data.fitted([found[power].model, *starts], power, "all")
    return _with_all(result, found | {"all": result}), trials


@dataclasses.dataclass(frozen=True)
class _Data:
    """Rows, and how models are fitted to them.

    Attributes:
        X: inputs.
        y: outputs.
        options: of `fit`.
    """

    X: np.ndarray
    y: np.ndarray
    options: dict[str, Any]

    @property
    def observed(self) -> tuple[int, ...]:
        """Outputs that are not missing, of each column."""
        return tuple(np.sum(~np.isnan(self.y.reshape(len(self.y), -1)), axis=0).tolist())

    def of(self, kept: np.ndarray) -> "_Data":
        """Some of the rows."""
        rows, blocks = self.options.get("rows"), self.options.get("blocks")
        side = None if rows is None else {name: values[kept] for name, values in rows.items()}
        of = {"rows": side, "blocks": None if blocks is None else blocks[kept]}
        return _Data(self.X[kept], self.y[kept], self.options | of)

    def fitted(self, starts: Sequence[AbstractModel], power: float, name: str) -> FitResult:
        """The fit at one power; a single start goes on from where it is."""
        checkpoint = self.options.get("checkpoint")
        part = None if checkpoint is None else checkpoint.part(name)
        options = self.options | {"power": power, "checkpoint": part}
        if len(starts) == 1:
            return fit(starts[0], self.X, self.y, **options)
        return fit_best(starts, self.X, self.y, **options)

    def densities(self, result: FitResult) -> np.ndarray:
        """The log density of each output under a posterior that has not seen it."""
        rows = self.options.get("rows")
        predictive = result.posterior.predict(self.X, rows=rows)
        found = np.asarray(predictive.log_density(jnp.asarray(np.nan_to_num(self.y))))
        return np.where(np.isnan(self.y), np.nan, found)


def _by_cavities(start: AbstractModel, options: dict[str, Any], rows: int) -> bool:
    """Whether leave-one-out densities decide.

    They know nothing of what was learned from the same rows: a few parameters do not matter, but
    learned inducing inputs do, which at power 1 explain single rows.
    """
    if rows >= MANY or options.get("blocks") is not None:
        return False
    if getattr(options.get("method"), "tied", False):
        return False
    maps: Any = options.get("bijections")
    gp: Any = start
    return not gp.approximate or (maps is not None and not free_parts(gp.inducing, maps.inducing))


def _chain(
    data: _Data, starts: Sequence[AbstractModel], powers: Sequence[float]
) -> dict[float, FitResult]:
    """Fits at every power where one is defined, each tried from where the one before ended too."""
    found: dict[float, FitResult] = {}
    before: list[AbstractModel] = []
    for power in powers:
        try:
            found[power] = data.fitted([*before, *starts], power, f"power-{power:g}")
        except NumericalError:
            if power == powers[-1] and not found:
                raise
            continue
        except KeyboardInterrupt:
            if not found:
                raise
            last = next(reversed(found))
            found[last] = dataclasses.replace(found[last], converged=False, interrupted=True)
        if any(result.interrupted for result in found.values()):
            break
        before = [found[power].model]
    return found


def _judged(
    found: dict[float, FitResult],
    densities: Sequence[Any],
    left_out: str,
    fitted: tuple[int, ...],
) -> tuple[tuple[PowerTrial, ...], float]:
    """Trials by power, and the power chosen, among those whose outputs all have a density.

    Outputs that have none at any power, missing ones and those whose others leave no proper
    posterior, count nowhere.
    """
    table = np.array(densities).reshape(len(found), -1, len(fitted))
    counted = np.any(np.isfinite(table), axis=0)
    tested = tuple(np.sum(counted, axis=0).tolist())
    each = np.nan_to_num(table[:, counted], nan=-np.inf)
    means, powers = np.mean(each, axis=1), list(found)
    best = int(np.argmax(means))
    if DEFAULT in found:
        usual = powers.index(DEFAULT)
        gain = each[best] - each[usual]
        error = np.std(gain) / np.sqrt(len(gain))
        best = best if np.mean(gain) > CLEAR * error else usual
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


def _with_all(result: FitResult, found: dict[Any, FitResult]) -> FitResult:
    """A result with the evaluations of all fits, interrupted where one of them was."""
    count = sum(one.n_evaluations for one in found.values())
    result = dataclasses.replace(result, n_evaluations=count)
    if not any(one.interrupted for one in found.values()):
        return result
    return dataclasses.replace(result, converged=False, interrupted=True, message=INTERRUPTED)
