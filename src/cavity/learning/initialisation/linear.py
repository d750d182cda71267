"""Starting values of linear models, from the spread of outputs and the size of the table."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from cavity import weights
from cavity.inference.graph.rows import WEIGHT
from cavity.inference.weights.blocks import units_of
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.data.scales import in_data_units
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


class Spread(NamedTuple):
    """Prior scale of the function of a likelihood.

    Attributes:
        variance: of the function, noise included.
        height: its largest distance from zero on average.
    """

    variance: float
    height: float


def output_spread(likelihood: AbstractLikelihood, table: WeightedTable) -> Spread:
    """The spread of the outputs, on the scale of the function."""
    if likelihood.class_probabilities is not None:
        return Spread(_PURE, 0.0)
    alone = table._replace(side={} if table.weights is None else {WEIGHT: table.weights})
    if likelihood.noise_parameter is None:
        alone = alone._replace(y=latent_guesses(likelihood, alone))
    presence, seen = alone.presence, np.nan_to_num(alone.y)
    about = np.average(seen, axis=0, weights=presence)
    variance = float(np.average((seen - about) ** 2, weights=presence))
    return Spread(variance or 1.0, float(np.max(np.abs(about))))


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


@dataclasses.dataclass(frozen=True)
class AskedWeights:
    """A model of weights as it was asked for, its parts in standard units unless they stay.

    Attributes:
        prior: a name among `PRIORS`, or a prior, which stays as it is.
        likelihood: the likelihood, in standard units unless it is to stay as it is.
        groups: the group of each column; None for none.
        blocks: columns whose weights share a scale; None for none.
        standardise: whether columns count about their mean, in units of their deviation.
        keep_likelihood: whether the likelihood stays as it is.
    """

    prior: str | AbstractWeightPrior
    likelihood: AbstractLikelihood
    groups: np.ndarray | None = None
    blocks: Sequence[Sequence[int]] | None = None
    standardise: bool = True
    keep_likelihood: bool = False

    def prior_at(
        self, table: WeightedTable, variance: float, noise: float, *, sparse: bool = True
    ) -> AbstractWeightPrior:
        """The prior; by name one by which all columns together explain the outputs.

        Args:
            table: the rows.
            variance: of the outputs, on the scale of the function.
            noise: the share of it that is noise.
            sparse: whether few coefficients are not small, where the prior can say so; else half.
        """
        if not isinstance(self.prior, str):
            return self.prior
        return _named_prior(self, table, variance, noise, sparse=sparse)

    def likelihood_at(self, table: WeightedTable, variance: float) -> AbstractLikelihood:
        """The likelihood in the units of the data, with a variance of noise where it has any."""
        noisy = self.likelihood.noise_parameter is not None
        if self.keep_likelihood or not (self.standardise and noisy):
            return self.likelihood
        moved: Any = in_data_units(self.likelihood, WeightedTable(table.X, table.y).scales)
        level = np.full(np.shape(moved.variance), variance)
        return eqx.tree_at(lambda m: m.variance, moved, level)

    def columns(self, table: WeightedTable) -> StandardColumns | None:
        """Means and deviations of the columns where they count in units of these."""
        return standard_columns(table.X, table.weights) if self.standardise else None


@dataclasses.dataclass(frozen=True)
class AskedLinear(AskedWeights):
    """A linear model as it was asked for.

    Attributes:
        intercept: whether there is an intercept.
    """

    intercept: bool = True


def starting_linear(asked: AskedLinear, table: WeightedTable) -> list[LinearModel]:
    """Linear models whose function and noise share the spread of the outputs, to be tried in turn.

    Args:
        asked: the model.
        table: the rows.
    """
    spread, columns = output_spread(asked.likelihood, table), asked.columns(table)
    height = spread.variance if asked.standardise else 1.0
    tried = [(noise, True) for noise in _NOISE]
    if asked.prior in _SPARSE:
        tried.append((_NOISE[-1], False))
    return [
        LinearModel(
            asked.prior_at(table, height, noise, sparse=sparse),
            asked.likelihood_at(table, noise * spread.variance),
            10.0 * (spread.variance + spread.height**2) if asked.intercept else False,
            asked.groups,
            centre=columns.centre if columns is not None and asked.intercept else None,
            scale=None if columns is None else columns.scale,
            blocks=asked.blocks,
        )
        for noise, sparse in tried
    ]


def _named_prior(
    asked: AskedWeights, table: WeightedTable, variance: float, noise: float, *, sparse: bool
) -> AbstractWeightPrior:
    """A prior by which all columns together explain what is not noise of a variance."""
    rows, columns, name, groups = table.count, table.X.shape[1], asked.prior, asked.groups
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
    return weights.Gaussian(np.full(len(np.unique(units_of(asked.blocks or (), columns))), each))
