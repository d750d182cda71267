"""Updates of a fitted model with new rows, in memory that does not grow."""

import dataclasses
from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.graph.rows import WEIGHT
from cavity.inference.past import Past
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.batches import Batches, BatchSource, as_batches, refuse_side
from cavity.learning.data.given import in_memory
from cavity.learning.data.scales import Tallies
from cavity.learning.data.training_data import Data
from cavity.learning.results.result import FitResult, Inference, fields_as
from cavity.learning.streaming.found import (
    Found,
    as_before,
    attempted,
    better,
    data_of,
    inferred,
    learned,
    same_functions,
)
from cavity.learning.streaming.inducing_choice import chosen_inducing
from cavity.learning.streaming.live_rows import (
    LiveRows,
    absorbed,
    all_absorbed,
    as_power,
    first_past,
    rows_of,
)
from cavity.learning.streaming.past_evidence import lost_by
from cavity.learning.streaming.record import joined, noted, outputs_of, tallies_of
from cavity.learning.streaming.result import UpdateResult, as_update
from cavity.learning.streaming.scores import (
    NO_SCORES,
    BatchScores,
    batch_scores,
    scores_of_all,
    warn_of_surprise,
)
from cavity.learning.streaming.settings import (
    UpdateSettings,
    check_remembers,
    new_rows,
)
from cavity.models.base import AbstractGP
from cavity.models.posterior import Posterior


@with_one_blas_thread
def update(
    result: Inference,
    X: ArrayLike | Batches | BatchSource,
    y: ArrayLike | None = None,
    *,
    power: float = 0.5,
    past_power: float = 0.0,
    learn: bool = True,
    inducing: str = "move",
    max_inducing: int = 1000,
    memory: int = 0,
    half_life: float | None = None,
    reuse: str = "likelihood",
    one_pass: bool = False,
    rows: Mapping[str, ArrayLike] | None = None,
    missing: str = "error",
    max_iterations: int = 20,
) -> UpdateResult:
    r"""Goes on learning from new rows, without those from before.

    The information of earlier rows is kept as Gaussian messages to the inducing variables, with
    their scale. The model sees them as one more row, so that parameters and inducing variables may
    move: `docs/theory/streaming.md`. The size of the result does not grow with the rows.

    Args:
        result: what `infer`, `fit` or `update` gave for a sparse `GP`.
        X: inputs of the new rows, (N, D); there may be none. Or batches of rows in the place of
            X and y, see `Batches`: an update for each in turn, of which no more than one is in
            memory. With Gaussian noise, and parameters and points that are held, this is the
            update with all rows at once.
        y: their outputs, (N,) or (N, P) as before; left out where X is batches.
        power: of the new rows, and of those in memory.
        past_power: of the rows that are gone, as one row. At 0 it costs evidence to move inducing
            variables away from them; at 1 it costs none, and learning forgets.
        learn: whether to learn parameters, and inducing variables unless they are kept.
        inducing: "keep"; "move", as many points of the old ones and the new rows, by what they
            explain; "grow", points added until the new rows are explained. Inducing variables
            that are no points stay, and are learned unless kept.
        max_inducing: the most points, where they grow; then new ones take the place of those that
            say least, a tenth of them at the most, if that raises the evidence.
        memory: rows that stay in memory, so that their sites follow the parameters: those whose
            site precision times variance is largest.
        half_life: rows after which the past counts half; None for never.
        reuse: "likelihood" takes what earlier rows said; "posterior" the posterior of inducing
            variables as their prior, which holds on to old parameters, for comparison.
        one_pass: visit each row once, in their order, at power 1 (assumed density filtering), in
            the place of sweeps to a fixed point.
        rows: side data of the new rows, of the names that came before.
        missing: "error", or "skip" to leave out outputs that are NaN.
        max_iterations: of learning, at the most.

    Returns:
        The model, its posterior and the evidence of all rows so far. Where learning ends below
        the evidence of the old parameters these stay, `converged` is False, and `message` says so.
        Of batches it is the last result, with `before` of the rows of all of them and their sum of
        `lost`.

    Raises:
        ValueError: for unusable data, and for settings that exclude each other.
        TypeError: for results of other models, of full GPs, and draws.
        NumericalError: where no jitter up to 1e-3 makes the covariance positive definite.

    References:
        Turner's slides, S16 to S21; Csato and Opper (2002) for `one_pass`.
    """
    settings = UpdateSettings(
        *(power, past_power, learn, inducing, max_inducing, memory, half_life, reuse, one_pass),
        max_iterations=max_iterations,
    )
    check_remembers(result.posterior)
    if y is None:
        refuse_side(rows)
        return _update_in_turn(result, as_batches(X), settings, missing)
    given = new_rows(result, *in_memory(X, y), rows, missing)
    return _updated(result, given, settings)


def _update_in_turn(
    result: Inference, batches: Batches, settings: UpdateSettings, missing: str
) -> UpdateResult:
    """The result of an update for each batch, with what all of them lost and how they scored."""
    lost, scores, last = 0.0, [], None
    for batch in batches:
        given = new_rows(result, batch.X, batch.y, batch.rows, missing)
        if len(given):
            result = last = _updated(result, given, settings)
            lost, scores = lost + last.lost, [*scores, last.before]
    if last is None:
        raise ValueError(
            "the batches hold no rows: give at least one batch (a generator that was read before "
            "is empty)"
        )
    return dataclasses.replace(last, lost=lost, before=scores_of_all(scores))


def _updated(result: Inference, given: LiveRows, settings: UpdateSettings) -> UpdateResult:
    """The result of an update with rows that were checked."""
    before, half_life = _scores(result, given), settings.half_life
    warn_of_surprise(before)
    past, live = _so_far(result, settings)
    share = 1.0 if half_life is None else 0.5 ** (len(given) / half_life)
    past = past if past is None or half_life is None else past.scaled(share)
    live = given if live is None or not len(live) else live.followed_by(given)
    if not len(given):
        return as_update(result, past, live, tallies_of(result))
    tallies = joined(tallies_of(result), _counted(result, given, settings), share)
    found = _found(result, settings, past, live, given, tallies)
    gone, kept = _forgotten(found, settings)
    fit = dataclasses.replace(found.result, tallies=tallies)
    return UpdateResult(
        **fields_as(fit, FitResult),
        rows_seen=result._rows_so_far + len(given),
        lost=lost_by(found.problem, found.data.past),
        before=before,
        past=gone,
        live=kept,
    )


def _counted(result: Inference, given: LiveRows, settings: UpdateSettings) -> Tallies:
    """Counts and moments of the new rows."""
    return data_of(result, settings, None, given).tallies(result.posterior.model.likelihood)


def _scores(result: Inference, given: LiveRows) -> BatchScores:
    """Scores of the new rows' predictions."""
    if not len(given):
        return NO_SCORES
    posterior: Posterior = result.posterior
    side = {name: values for name, values in given.side.items() if name != WEIGHT}
    predicted = posterior.predict(given.X, rows=side or None)
    y = given.y[:, 0] if np.ndim(predicted.mean) == 1 else given.y
    return batch_scores(predicted, y)


def _so_far(result: Inference, settings: UpdateSettings) -> tuple[Past | None, LiveRows | None]:
    """Past of a result, and the rows that are still live."""
    posterior: Posterior = result.posterior
    power = as_power(settings.past_power, _dtype(posterior))
    if isinstance(result, UpdateResult):
        past = result.past
        past = None if past is None else dataclasses.replace(past, power=power)
        return past, result.live
    if settings.memory and result.left_out is not None:
        return None, rows_of(result.left_out.data)
    past = first_past(posterior, jnp.asarray(result.log_evidence), power)
    return noted(past, posterior, outputs_of(tallies_of(result))), None


def _found(
    result: Inference,
    settings: UpdateSettings,
    past: Past | None,
    live: LiveRows,
    given: LiveRows,
    tallies: Tallies | None,
) -> Found:
    """The model after the new rows."""
    old: AbstractGP = result.posterior.model
    inducing = chosen_inducing(
        old, result.posterior, given.X, settings.inducing, settings.max_inducing
    )
    moved = inducing is not old.inducing
    model = eqx.tree_at(lambda m: m.inducing, old, inducing, is_leaf=lambda x: x is None)
    data = data_of(result, settings, past, live, tallies)
    if not settings.learn:
        return _without_learning(result, model, data, settings, moved=moved)
    stayed = inferred(result, old, same_functions(data), settings)
    if moved and better(attempted(result, model, data, settings), stayed) is stayed:
        model = old
    end = learned(result, model, data, settings)
    if end is not None and end.result.objective <= stayed.result.objective:
        return end
    return as_before(
        stayed, "learning ended below the evidence of the old parameters, which are kept"
    )


def _without_learning(
    result: Inference, model: AbstractGP, data: Data, settings: UpdateSettings, *, moved: bool
) -> Found:
    """Inference at the old parameters; with the old inducing variables where others fail."""
    if not moved:
        same = settings.reuse == "likelihood"
        return inferred(result, model, same_functions(data) if same else data, settings)
    found = attempted(result, model, data, settings)
    assert model.inducing is not None
    added = settings.inducing == "grow" and model.inducing.size < settings.max_inducing
    if added and found is not None:
        return found
    stayed = inferred(result, result.posterior.model, same_functions(data), settings)
    if found is not None:
        return better(found, stayed)
    return as_before(stayed, "inference with other inducing variables failed, the old ones stay")


def _forgotten(found: Found, settings: UpdateSettings) -> tuple[Past, LiveRows]:
    """The past with the rows that leave memory, and those that stay."""
    live = rows_of(found.data)
    staying = _staying(found, live, settings.memory)
    leaving = np.ones(len(live), bool)
    leaving[staying] = False
    value = found.result.log_evidence
    last = found.problem, found.sites, as_power(settings.past_power, found.data.rows.y.dtype)
    past = None if np.all(leaving) else absorbed(*last, leaving)
    if past is None:
        # alone, without the rows that stay, sites of negative precision may be improper
        staying, leaving = staying[:0], np.ones(len(live), bool)
        past = all_absorbed(*last, value)
    count = _outputs(found.data.past, live.take(np.flatnonzero(leaving)))
    return noted(past, found.result.posterior, count), live.take(staying)


def _outputs(past: Past | None, live: LiveRows) -> float | None:
    """Outputs of a past and of rows that join it; None where those of the past are not known."""
    own = float(np.sum(~np.isnan(live.y)))
    if past is None:
        return own
    return None if past.noise is None else own + float(past.count)


def _staying(found: Found, live: LiveRows, memory: int) -> np.ndarray:
    """The rows with most leverage, in their order: site precision times variance."""
    if memory >= len(live):
        return np.arange(len(live))
    if not memory:
        return np.zeros(0, int)
    var = np.asarray(found.result.posterior.marginals(live.X).var).reshape(len(live), -1)
    try:
        precision = found.result.site_precisions().reshape(len(live), -1)
    except ValueError:  # of dependent classes
        precision = np.ones_like(var)
    leverage = np.nansum(precision * var, axis=1)
    return np.sort(np.argsort(-leverage, kind="stable")[:memory])


def _dtype(posterior: Posterior) -> np.dtype:
    """The precision of a posterior."""
    leaves = jax.tree.leaves(eqx.filter(posterior.process, eqx.is_inexact_array))
    return np.dtype(leaves[0].dtype)
