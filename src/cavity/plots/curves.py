"""A model along one column: means, bands of the function, and bands of new values."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.estimators.predictions import function_of
from cavity.learning.double_precision import in_double
from cavity.likelihoods.support import Support
from cavity.report.figures import thinned
from cavity.report.slices import Slice, blocks
from cavity.report.subject import Subject
from cavity.tables.table_model import TableModel

ROWS = 100  # over which a partial effect is averaged at the most


class Curve(NamedTuple):
    """A target along a column, in its units; of two classes the probability of the second.

    Attributes:
        mean: predictive means, (n,); of more than two classes empty.
        function: ends of the band of the function, (2, n); None where it has none.
        values: ends of the band of new values, noise included, (2, n); None where it has none.
        shares: probabilities of the classes, (n, C), of more than two; None otherwise.
    """

    mean: np.ndarray
    function: np.ndarray | None = None
    values: np.ndarray | None = None
    shares: np.ndarray | None = None


def check_level(level: float) -> None:
    """Refuses a level that is no probability.

    Raises:
        ValueError: unless it lies between 0 and 1.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be in (0, 1), such as 0.9, given {level!r}")


@in_double
def curves(subject: Subject, cuts: Sequence[Slice], target: int, level: float) -> list[Curve]:
    """A target along some slices, each with bands of a level.

    Args:
        subject: the model, and rows for typical side data.
        cuts: the slices.
        target: its place.
        level: share of each central band.
    """
    fitted, X = subject.fitted, np.concatenate([cut.X for cut in cuts])
    ends = np.cumsum([len(cut.X) for cut in cuts])[:-1]
    if len(fitted.classes) > 2:
        shares = np.split(np.exp(fitted.log_probabilities(X)), ends)
        return [Curve(np.zeros(0), shares=each) for each in shares]
    levels = np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])
    out = subject.predict(X)
    band, function = out.quantiles(levels)[:, target].T, None
    if fitted.classes:
        function, values = band, None
    else:
        function, values = function_band(subject, X, target, level), band
    split = [
        [None] * len(cuts) if each is None else np.split(each, ends, axis=-1)
        for each in (out.mean[:, target], function, values)
    ]
    return [Curve(*each) for each in zip(*split, strict=True)]  # type: ignore[arg-type]


@in_double
def function_band(subject: Subject, X: np.ndarray, target: int, level: float) -> np.ndarray | None:
    """The central band of the function without noise, in the units of a target, (2, n).

    Where outputs are not real numbers it is that of their mean given the function. None where
    this depends on several functions.

    Args:
        subject: the model, and rows for typical side data.
        X: inputs, (n, D).
        target: its place.
        level: share of the band.
    """
    from scipy.special import ndtri

    fitted, likelihood = subject.fitted, subject.fitted.posterior.model.likelihood
    mean, var = (np.asarray(a) for a in function_of(fitted.posterior).marginals(X))
    reach = ndtri(0.5 + 0.5 * level) * np.sqrt(var)
    ends = np.stack([mean - reach, mean + reach])
    scale = fitted.output_scale[target]
    if likelihood.support is Support.REAL:
        return ends.reshape(2, len(X), -1)[:, :, target] * scale
    if likelihood.latents > 1:
        return None
    side = {k: jnp.full(len(X), np.median(v)) for k, v in subject.encoded.side.items()}
    side = side if mean.ndim == 1 else {k: v[:, None] for k, v in side.items()}
    means = [likelihood.predictive(jnp.asarray(f), jnp.zeros(f.shape), side).mean for f in ends]
    found = np.stack([np.asarray(m) for m in means]).reshape(2, len(X), -1)[:, :, target]
    return np.sort(found, axis=0) * scale


@in_double
def partial_curves(
    subject: Subject, cuts: Sequence[Slice], target: int, level: float
) -> list[Curve]:
    """A target along some columns, averaged over rows with their own values of all others.

    Args:
        subject: the model, and the rows that are averaged over, up to `ROWS`.
        cuts: the slices, of which the values of their columns are used.
        target: its place.
        level: share of the band of the averaged function.
    """
    fitted, rows = subject.fitted, subject.encoded.X
    rows = rows[thinned(len(rows), ROWS)]
    places = dict(zip(fitted.schema.inputs, blocks(fitted.schema), strict=True))
    found = []
    for cut in cuts:
        block = places[cut.column]
        X = np.tile(rows, (len(cut.X), 1))
        X[:, block] = np.repeat(cut.X[:, block], len(rows), axis=0)
        found.append(_averaged(subject, X, len(cut.X), target, level))
    return found


def _averaged(subject: Subject, X: np.ndarray, count: int, target: int, level: float) -> Curve:
    """Averages over equally many rows for each of so many places."""
    fitted = subject.fitted
    if len(fitted.classes) > 2:
        shares = np.exp(fitted.log_probabilities(X))
        return Curve(np.zeros(0), shares=shares.reshape(count, -1, shares.shape[1]).mean(axis=1))
    if fitted.posterior.model.likelihood.support is Support.REAL:
        return _averaged_function(fitted, X.reshape(count, -1, X.shape[1]), target, level)
    mean = subject.predict(X).mean[:, target]
    return Curve(mean.reshape(count, -1).mean(axis=1))


def _averaged_function(fitted: TableModel, X: np.ndarray, target: int, level: float) -> Curve:
    """The averaged function with its band, which rows that depend on each other make."""
    from scipy.special import ndtri

    function, scale = function_of(fitted.posterior), fitted.output_scale[target]
    mean, std = np.zeros(len(X)), np.zeros(len(X))
    for i, rows in enumerate(X):
        means, cov = (np.asarray(a) for a in function.joint(rows))
        means, cov = means.reshape(len(rows), -1), cov.reshape(-1, len(rows), len(rows))
        mean[i] = means[:, target].mean() * scale
        std[i] = np.sqrt(max(cov[min(target, len(cov) - 1)].mean(), 0.0)) * scale
    reach = ndtri(0.5 + 0.5 * level) * std
    return Curve(mean, np.stack([mean - reach, mean + reach]))
