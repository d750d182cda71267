"""Starting values of kernels, screened by the evidence of a few rows."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity.inference.variables.inducing_view import OutputMean
from cavity.kernels.base import AbstractKernel
from cavity.learning.data.cycles import Cycle, Periods, with_cycles
from cavity.learning.data.row_weights import (
    WeightedTable,
    presence_of,
    quantile,
    weights_of,
)
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.initialisation.periods import candidate_periods
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.latent_values import initial_latents
from cavity.likelihoods.support import Support
from cavity.models.gp import GP
from cavity.numerics.chunking import padded_size
from cavity.numerics.jit import compiled
from cavity.numerics.tree import with_named
from cavity.numerics.types import Array
from cavity.parameters import Units, describe

# Rows on which starting values are compared, the factors tried for lengthscales, and the ratios
# of noise to prior variance.
SCREENED = 256
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.001)
RATIOS = 10.0 ** np.arange(1.0, -6.5, -0.5)
# Nats by which an evidence must be larger than another to count as larger.
TIE = 1e-3
# Nats that a period must gain over one whose peak is higher: twice a period can imitate it.
LATER = 3.0
# Share of the largest eigenvalue of a covariance below which the others are rounding errors.
RANK = 1e-10
# Share of the outputs below which what the mean leaves is rounding error.
ROUNDING = 1e-12
# The least noise to start from, as a share of the outputs' variance: learning may only take a
# parameter so far from its start, and noise near the rounding error helps nobody.
LEAST_NOISE = 1e-3


# Deviations of a normal distribution per median absolute deviation.
NORMAL_MAD = 1.4826
# Latent guesses of real outputs further from their median than this many deviations, as the
# median deviation tells them, are moved there: outliers must not set the scale of anything.
FARTHEST = 3.0


def latent_guesses(likelihood: AbstractLikelihood, table: WeightedTable) -> np.ndarray:
    """Rough latent values that would give these outputs, (N, P), NaN where missing."""
    guesses = np.full(table.y.shape, np.nan)
    for p, column in enumerate(table.y.T):
        seen = ~np.isnan(column)
        if not np.any(seen):
            continue
        known = {name: np.asarray(values)[seen] for name, values in table.side.items()}
        found = np.asarray(initial_latents(likelihood, column[seen], **known), np.float64)
        if likelihood.support is Support.REAL:
            middle = _median(found, weights_of(known))
            reach = FARTHEST * NORMAL_MAD * _median(np.abs(found - middle), weights_of(known))
            found = np.clip(found, middle - reach, middle + reach) if reach > 0.0 else found
        guesses[seen, p] = found
    return guesses


def _median(values: np.ndarray, weights: np.ndarray | None) -> float:
    return float(quantile(values[:, None], 0.5, weights)[0])


def starting_kernel(kernel: AbstractKernel, scales: Scales) -> AbstractKernel:
    """A kernel in standardised units, with its parameters moved to the units of the data.

    A typical distance between inputs counts as one unit: the spreads of the columns that a
    kernel sees times the square root of their number.
    """
    return in_data_units(kernel, dataclasses.replace(scales, distances=True))


def screen(
    model: GP,
    table: WeightedTable,
    *,
    points: int | None = None,
    noise: float | None = None,
    seed: int = 0,
    given: Mapping[str, np.ndarray] = types.MappingProxyType({}),
) -> GP:
    r"""The model with the best of a few lengthscales and periods, and variances that go with them.

    They are compared by the evidence of a random subset of the rows, which finds the right order
    of magnitude where the evidence has several maxima: the exact evidence of a full GP, the
    variational bound where there are inducing points, since they cannot follow a function of
    short lengthscales. Of equals the first counts, and more noise comes first: short
    lengthscales can imitate noise, and must not.

    The evidence has a maximum near every period that may be, and the right one is found only from
    close by: where a kernel has periods, those of `candidate_periods` are compared as well, one
    part and column after the other, with all lengthscales, which they let grow.

    Args:
        model: the model in the units of the data, with Gaussian noise; its inducing variables
            play no part.
        table: the rows.
        points: the number of inducing points that are to come; None for a full GP.
        noise: the noise variance where it is known and stays as it is.
        seed: of the subset.
        given: numbers of the kernel, by dotted name, that are not to be chosen.

    References:
        van der Wilk (2018), item 47; Titsias (2009) for the bound.
    """
    random, (X, y, _), weights = np.random.default_rng(seed), table, table.weights
    kept = np.sort(random.choice(len(X), min(SCREENED, len(X)), replace=False))
    count = len(X) if points is None else min(points, len(X))
    others = X[:0] if count == len(X) else X[random.choice(len(X), count, replace=False)]
    both = np.concatenate([X[kept], others])
    heavy = np.ones(len(kept)) if weights is None else weights[kept]
    rows = _Rows(model, _padded(both), len(both), y[kept], heavy, noise, given)
    best = rows.best(())
    if best is None:
        return model
    candidates = candidate_periods(model.kernels[0], X, y, seed, weights)
    candidates = [each for each in candidates if ".".join(each.cycle.path) not in given]
    for cycle, periods in candidates * (2 if len(candidates) > 1 else 1):
        best = _with_period(rows, best, cycle, periods)
    found = _with_scale(model, best.kernel, best.scale, best.noise, X.shape[1])
    return eqx.tree_at(lambda m: m.kernel, found, with_named(found.kernels[0], given))


class _Start(NamedTuple):
    """Starting values that were tried.

    Attributes:
        kernel: the kernel, in the units of the inputs.
        place: that of the factor of its lengths.
        periods: lengths of cycles that have no part in that factor.
        evidence: of the rows that are looked at, constants left out.
        scale: what variances of the kernel are to be multiplied by.
        noise: the noise variance; None where it stays as it is.
    """

    kernel: AbstractKernel
    place: int
    periods: Periods
    evidence: float
    scale: float
    noise: float | None


class _Rows(NamedTuple):
    """The rows by which starting values are compared.

    Attributes:
        model: what starts, in typical lengths.
        inputs: of these rows, and of the places of inducing points after them, padded.
        count: the number of both.
        y: outputs of these rows, NaN where missing.
        weights: of these rows.
        noise: the noise variance where it is known.
        given: numbers of the kernel that stay as they are, by dotted name.
    """

    model: GP
    inputs: np.ndarray
    count: int
    y: np.ndarray
    weights: np.ndarray
    noise: float | None
    given: Mapping[str, np.ndarray]

    def best(self, periods: Periods, places: Sequence[int] = range(len(FACTORS))) -> _Start | None:
        """The best of some factors of all lengths but known periods, of equals the first.

        None where the mean explains everything, and where no evidence is defined.
        """
        best, tried = None, None
        for place in places:
            kernel = with_cycles(_stretched(self.model.kernels[0], FACTORS[place]), periods)
            kernel = with_named(kernel, self.given)
            if tried is not None and eqx.tree_equal(kernel, tried):
                break  # it has no other lengths
            tried, found = kernel, self._started(kernel, place, periods)
            if found is not None and (best is None or found.evidence > best.evidence + TIE):
                best = found
        return best

    def _started(self, kernel: AbstractKernel, place: int, periods: Periods) -> _Start | None:
        """The scale and the noise that go with a kernel; None where there is nothing to tell."""
        n = len(self.y)
        prior = _prior(kernel, OutputMean(self.model.means[0], self.y.shape[1]), self.inputs)
        K, mean = (np.asarray(a)[: self.count] for a in prior)
        residual = self.y - mean[:n]
        if _largest(residual) <= ROUNDING * _largest(self.y):
            return None
        K = K[:, : len(K)]
        heavy = np.append(self.weights, np.ones(self.count - n))
        unit = float(np.average(np.diagonal(K), weights=heavy))
        seen, lost = _explained(K / unit, n)
        left = residual, self.weights
        evidence, scale = _evidences(seen, lost, *left, self.noise, self._trends())
        first = int(np.argmax(evidence > np.max(evidence) - TIE))
        if evidence[first] == -np.inf:
            return None
        presence = presence_of(residual, self.weights)
        least = LEAST_NOISE * float(np.average(np.nan_to_num(residual) ** 2, weights=presence))
        variance = max(scale[first] * RATIOS[first], least) if self.noise is None else None
        return _Start(kernel, place, periods, evidence[first], scale[first] / unit, variance)

    def _trends(self) -> np.ndarray:
        """Basis of possible means at the rows, of full rank; no columns if the mean is known."""
        covariance = self.model.means[0].covariance
        if covariance is None:
            return np.zeros((len(self.y), 0))
        seen: Any = self.inputs[: len(self.y)]
        values, vectors = np.linalg.eigh(np.asarray(covariance.cross(seen, seen)))
        return vectors[:, values > RANK * values[-1]]


def _with_period(rows: _Rows, start: _Start, cycle: Cycle, periods: Sequence[float]) -> _Start:
    """The start with the best of some periods in one place of its kernel, or as it is.

    With a first period all factors of other lengths are tried again; with more of them those
    next to the best. Parts that see a column start at different periods: equal ones stay equal.
    """
    others = tuple(known for known in start.periods if known[0] != cycle)
    taken = {period for other, period in others if other.column == cycle.column}
    places = range(len(FACTORS))
    if start.periods:
        places = places[max(start.place - 1, 0) : start.place + 2]
    best = start
    for period in periods:
        found = None if period in taken else rows.best((*others, (cycle, period)), places)
        more = TIE if best is start else LATER
        if found is not None and found.evidence > best.evidence + more:
            best = found
    return best


def _padded(X: np.ndarray) -> np.ndarray:
    return np.concatenate([X, np.repeat(X[:1], padded_size(len(X)) - len(X), axis=0)])


def _explained(K: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Covariance of the first n rows that later rows explain, and the variances that they miss.

    Everything where there are no later rows.
    """
    if len(K) == n or not np.all(np.isfinite(K)):
        return K[:n, :n], np.zeros(n)
    values, vectors = np.linalg.eigh(K[n:, n:])
    clear = values > RANK * values[-1]
    A = (vectors[:, clear] / np.sqrt(values[clear])).T @ K[n:, :n]
    seen = A.T @ A
    return seen, np.maximum(np.diagonal(K)[:n] - np.diagonal(seen), 0.0)


def _largest(values: np.ndarray) -> float:
    return float(np.max(np.abs(np.nan_to_num(values))))


@compiled
def _prior(kernel: AbstractKernel, mean: OutputMean, X: Any) -> tuple[Array, Array]:
    return kernel.cross(X, X), mean(X)


def _evidences(
    K: np.ndarray,
    lost: np.ndarray,
    residual: np.ndarray,
    weights: np.ndarray,
    noise: float | None,
    trends: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Log evidence of $\mathcal N(0, s (\mathbf K + r \mathbf I))$ at each ratio r, and s.

    With half of the lost variances over the noise variance taken off, as in the variational
    bound. The scale s is the best one, $\tfrac1N \mathbf y^\top (\mathbf K + r \mathbf I)^{-1}
    \mathbf y$, or makes the noise s r what it is known to be. -inf where there is no answer.
    Of outputs with trends it is that of all contrasts in which these play no part. A row of weight
    w has the w-th part of the noise, and w - 1 more contrasts, which are noise alone and zero.
    """
    present, count = ~np.isnan(residual), 0.0
    volume, quadratic = np.zeros(len(RATIOS)), np.zeros(len(RATIOS))
    patterns, which = np.unique(present, axis=1, return_inverse=True)
    if not np.all(np.isfinite(K)):
        return np.full(len(RATIOS), -np.inf), np.ones(len(RATIOS))
    for number, rows in enumerate(patterns.T):
        heavy, root = weights[rows], np.sqrt(weights[rows])[:, None]
        outputs = root * residual[rows][:, which.ravel() == number]
        inner = root * K[rows][:, rows] * root.T
        if trends.shape[1]:
            free = np.linalg.qr(root * trends[rows], mode="complete")[0][:, trends.shape[1] :]
            inner, outputs = free.T @ inner @ free, free.T @ outputs
        more = np.sum(heavy) - len(heavy)
        count += outputs.size + more * outputs.shape[1]
        values, vectors = np.linalg.eigh(inner)
        total = np.maximum(values, 0.0) + RATIOS[:, None]
        logs = np.log(total).sum(axis=1) + more * np.log(RATIOS)
        volume += outputs.shape[1] * (logs + (heavy @ lost[rows]) / RATIOS)
        quadratic += (((vectors.T @ outputs) ** 2).sum(axis=1) / total).sum(axis=1)
    scale = quadratic / (count if count > 0.0 else 1.0) if noise is None else noise / RATIOS
    usable = (scale > 0.0) & np.isfinite(scale)
    scale = np.where(usable, scale, 1.0)
    # -½ (log|s (K + rI)| + yᵀ(s (K + rI))⁻¹y), constants left out
    evidence = -0.5 * (volume + count * np.log(scale) + quadratic / scale)
    return np.where(usable, evidence, -np.inf), scale


def _stretched(kernel: AbstractKernel, factor: float) -> AbstractKernel:
    """The kernel with every parameter in units of the inputs scaled as a length is."""

    def stretch(declared: Mapping[str, Any], value: Any) -> np.ndarray:
        unit = declared.get("units", Units())
        return np.asarray(value if unit.location else value * factor**unit.input)

    return describe(kernel, stretch)


def _with_scale(
    model: GP, kernel: AbstractKernel, scale: float, noise: float | None, columns: int
) -> GP:
    """The model with a kernel times a number, and with a noise variance unless None."""
    amplitude = Scales(np.zeros(columns), np.ones(columns), np.zeros(1), float(np.sqrt(scale)))
    model = eqx.tree_at(lambda m: m.kernel, model, in_data_units(kernel, amplitude))
    if noise is None:
        return model
    return eqx.tree_at(lambda m: m.likelihood.variance, model, np.asarray(noise))
