"""Starting values of linear models, from the spread of outputs and the size of the table."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity import weights
from cavity.inference.graph.rows import WEIGHT
from cavity.inference.weights.blocks import units_of
from cavity.learning.data.row_weights import presence_of
from cavity.learning.data.scales import in_data_units, measure
from cavity.learning.initialisation.screening import latent_guesses
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.linear.linear_model import LinearModel
from cavity.weights.base import AbstractWeightPrior

# Priors by name.
PRIORS = ("spike_slab", "horseshoe", "laplace", "student_t", "gaussian", "ard")
# Shares of the outputs' variance that may be noise to begin with. Sparse priors have several modes
# where columns are correlated, and from little noise learning finds the better ones.
_NOISE = (0.05, 0.3)
# Priors that are also tried as if half of the coefficients were not small: where most columns take
# part, sites need not settle under one that says the contrary.
_SPARSE = ("spike_slab", "horseshoe")
# The variance of functions that have no unit.
_PURE = 4.0


def starting_linear(
    prior: str | AbstractWeightPrior,
    likelihood: AbstractLikelihood,
    X: np.ndarray,
    y: np.ndarray,
    weights_of_rows: np.ndarray | None = None,
    *,
    groups: np.ndarray | None,
    intercept: bool,
    standardise: bool,
    keep_likelihood: bool,
    blocks: Sequence[Sequence[int]] | None = None,
) -> list[LinearModel]:
    """Linear models whose function and noise share the spread of the outputs, to be tried in turn.

    Args:
        prior: a name among `PRIORS`, or a prior, which stays as it is.
        likelihood: the likelihood, in standard units unless it is to stay as it is.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        weights_of_rows: (N,); None where all count once.
        groups: the group of each column; None for none.
        intercept: whether there is an intercept.
        standardise: whether columns count about their mean, in units of their deviation.
        keep_likelihood: whether the likelihood stays as it is.
        blocks: columns whose weights share a scale; None for none.
    """
    spread = output_spread(likelihood, y, weights_of_rows)
    columns = standard_columns(X, weights_of_rows) if standardise else None
    rows = len(X) if weights_of_rows is None else float(np.sum(weights_of_rows))
    scaled = standardise and not keep_likelihood
    found = []
    tried = [(noise, True) for noise in _NOISE]
    if isinstance(prior, str) and prior in _SPARSE:
        tried.append((_NOISE[-1], False))
    for noise, sparse in tried:
        own: Any = prior
        if isinstance(prior, str):
            height = spread.variance if standardise else 1.0
            own = named_prior(
                prior, height, noise, (rows, X.shape[1]), groups, blocks, sparse=sparse
            )
        model = LinearModel(
            own,
            with_noise(likelihood, X, y, noise * spread.variance) if scaled else likelihood,
            10.0 * (spread.variance + spread.height**2) if intercept else False,
            groups,
            centre=columns.centre if columns is not None and intercept else None,
            scale=None if columns is None else columns.scale,
            blocks=blocks,
        )
        found.append(model)
    return found


class Spread(NamedTuple):
    """Prior scale of the function of a likelihood.

    Attributes:
        variance: of the function, noise included.
        height: its largest distance from zero on average.
    """

    variance: float
    height: float


def output_spread(
    likelihood: AbstractLikelihood, y: np.ndarray, weights_of_rows: np.ndarray | None = None
) -> Spread:
    """The spread of the outputs, on the scale of the function."""
    if likelihood.class_probabilities is not None:
        return Spread(_PURE, 0.0)
    noisy = likelihood.noise_parameter is not None
    side = {} if weights_of_rows is None else {WEIGHT: weights_of_rows}
    guesses = y if noisy else latent_guesses(likelihood, y, side)
    presence = presence_of(guesses, weights_of_rows)
    seen = np.nan_to_num(guesses)
    about = np.average(seen, axis=0, weights=presence)
    variance = float(np.average((seen - about) ** 2, weights=presence))
    return Spread(variance or 1.0, float(np.max(np.abs(about))))


def with_noise(
    likelihood: AbstractLikelihood, X: np.ndarray, y: np.ndarray, variance: float
) -> AbstractLikelihood:
    """A likelihood in standard units in those of the data, with noise where it has any."""
    noisy: Any = likelihood.noise_parameter
    if noisy is None:
        return likelihood
    present = ~np.isnan(y)
    scales = measure(X, np.where(present, y, 0.0), present.astype(float))
    moved: Any = in_data_units(likelihood, scales)
    level = np.full(np.shape(moved.variance), variance)
    return eqx.tree_at(lambda m: m.variance, moved, level)


class StandardColumns(NamedTuple):
    """Columns about their mean in units of their deviation; constant ones as they are.

    Attributes:
        centre: means.
        scale: deviations, one for constant columns.
    """

    centre: np.ndarray
    scale: np.ndarray


def standard_columns(X: np.ndarray, weights_of_rows: np.ndarray | None = None) -> StandardColumns:
    """Means and deviations of columns."""
    mean = np.average(X, axis=0, weights=weights_of_rows)
    deviation = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights_of_rows))
    varies = deviation > 1e-12 * np.max(np.abs(X), axis=0, initial=0.0)
    return StandardColumns(mean, np.where(varies, deviation, 1.0))


def named_prior(
    name: str,
    variance: float,
    noise: float,
    shape: tuple[float, int],
    groups: np.ndarray | None,
    blocks: Sequence[Sequence[int]] | None = None,
    *,
    sparse: bool = True,
) -> AbstractWeightPrior:
    """A prior by which all columns together explain what is not noise of a variance.

    Args:
        name: among `PRIORS`.
        variance: of the outputs, on the scale of the function.
        noise: the share of it that is noise.
        shape: rows, each as often as its weight says, and columns.
        groups: the group of each column; None for none.
        blocks: columns whose weights share a scale; None for none.
        sparse: whether few coefficients are not small, where the prior can say so; else half.
    """
    rows, columns = shape
    explained = (1.0 - noise) * variance
    share = float(np.clip(0.1 * rows / columns, 1.0 / max(columns, 2), 0.2)) if sparse else 0.5
    # a parameter for each group, where there are groups
    each = explained / columns * np.ones(() if groups is None else int(groups.max()) + 1)
    share = share * np.ones_like(each)
    if name == "spike_slab":
        return weights.SpikeSlab(share, each / share)
    if name == "horseshoe":
        narrow = share / (1.0 - share) * np.sqrt(noise * variance / rows)
        # without noise that scale would be zero
        scale = narrow if sparse and noise > 0.0 else np.sqrt(each)
        return weights.Horseshoe(scale, np.sqrt(10.0 * variance))
    if name == "laplace":
        return weights.Laplace(np.sqrt(0.5 * each))
    if name == "student_t":
        return weights.StudentT(np.sqrt(0.5 * each), 3.0)
    if name == "gaussian":
        return weights.Gaussian(each)
    if groups is not None:
        return weights.Gaussian(each)
    return weights.Gaussian(np.full(len(np.unique(units_of(blocks or (), columns))), each))
