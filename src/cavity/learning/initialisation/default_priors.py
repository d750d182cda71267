"""Default priors of kernels and likelihoods: weak ones, in the units of the data.

With few rows, noise and function are hardly distinguishable, and the evidence is often largest
where the noise vanishes or the function is constant. These priors use only the spread of outputs
and the distances between inputs; those of variances have power-law tails, so that data can
overrule them.
"""

import dataclasses
from typing import Any

import numpy as np

from cavity.learning.data.row_weights import WeightedTable, quantile
from cavity.learning.data.scales import Scales, Tallies, in_data_units, scales_of
from cavity.learning.initialisation.models import Given
from cavity.learning.initialisation.screening import latent_guesses
from cavity.likelihoods.latent_values import initial_latents
from cavity.models.gp import GP
from cavity.numerics.tree import named, with_named
from cavity.parameters import Positive, Units, bijections, describe, units
from cavity.parameters.priors import LogInverseGamma, LogStudentT, flat

# Scales of the logarithms of variances and of noise variances; those of deviations are half of
# those of variances.
VARIANCE, NOISE = 1.0, 1.0
# The shape of lengthscales, of all columns together. Of noise alone, a function of a lengthscale
# shorter than any distance would do as well as noise, and remember each row: the density falls at
# once below typical ones. Long ones say that a column does not matter, as many do not: they cost
# little, however many they are.
SHAPE = 1.0
# Tables of more columns per row have no priors: all their rows are about as far from each other,
# so that a function of the length that lengthscales are centred at is as good as noise.
WIDEST = 3
# The noise variance at which its prior is centred, as a share of the outputs' variance.
SHARE = 0.2
# The width of the middle half of a standard normal distribution, and how much larger than by it
# the spread of a column must be for that to be of a few distant rows.
MIDDLE, FAR = 1.349, 5.0
# The probability below the upper end of a 90 % interval, and that end of a standard normal one.
HELD, NORMAL = 0.95, 1.6448536269514722


def default_priors(model: GP, given: Given, table: WeightedTable) -> GP:
    """A tree of priors of the model's parameters, flat for those that came with values.

    All are flat of a table with more than three columns for each row.

    Variances of kernels are centred at that of the outputs (of the latent values that would
    roughly give them), noise variances at a fifth of that of the outputs. Lengthscales are hardly
    shorter than the spread of their column, without a few distant rows, times the square root of
    the number of columns. Shapes, degrees of freedom, periods, frequencies and means have flat
    priors.

    Args:
        model: the model, with inducing variables or without.
        given: which parts came with values of their own.
        table: the rows.
    """
    table = table._replace(y=_heights(model, table))
    spread = _spread_of_most(table, np.asarray(table.scales.x_spread))
    scales = dataclasses.replace(table.scales, x_spread=spread)
    return _about(model, given, scales, np.sum(table.presence, axis=0))


def priors_of_stream(given: Given, model: GP, tallies: Tallies) -> GP:
    """`default_priors` from what was counted of the rows.

    Args:
        given: which parts came with values of their own.
        model: the model.
        tallies: of inputs and outputs.
    """
    return _about(model, given, scales_of(*tallies), tallies[1].count)


def _about(model: GP, given: Given, scales: Scales, counts: np.ndarray) -> GP:
    if len(scales.x_spread) > WIDEST * np.max(counts):
        return flat(model)
    scales = _wider(scales, counts)
    chosen: dict[str, LogStudentT | LogInverseGamma] = {}
    if not given.likelihood:
        chosen |= _part_priors(model.likelihood, "likelihood", scales, SHARE, NOISE)
    if not given.kernel:
        for i, (name, kernel) in enumerate(model.input_kernels.items()):
            # functions beside the first, such as a log noise variance, have units of their own
            own = dataclasses.replace(scales, y_spread=1.0) if i else scales
            chosen |= _part_priors(kernel, name, own, 1.0, VARIANCE)
    return with_named(flat(model), chosen)


def _spread_of_most(table: WeightedTable, spread: np.ndarray) -> np.ndarray:
    """Spreads of columns (D,), those of their middle halves where a few distant rows make them."""
    below, above = (quantile(table.X, share, table.weights) for share in (0.25, 0.75))
    middle = (above - below) / MIDDLE
    return np.where((middle > 0.0) & (spread > FAR * middle), middle, spread)


def _heights(model: GP, table: WeightedTable) -> np.ndarray:
    """The outputs, or the latent values that would roughly give them, (N, P)."""
    if model.likelihood.noise_parameter is not None:
        return table.y
    if model.likelihood.class_probabilities is not None:
        return np.asarray(initial_latents(model.likelihood, table.y[:, 0]))
    return latent_guesses(model.likelihood, table)


def _wider(scales: Scales, counts: np.ndarray) -> Scales:
    """Scales with a distance between rows as the unit of inputs, and outputs that spread more.

    The variance of few outputs is likely too small: it is raised so far that the 90 % interval of
    a normal distribution is that of Student's t, which is right where it is not known.

    Args:
        scales: of the data.
        counts: of outputs, (P,).
    """
    from scipy.special import stdtrit

    degrees = max(float(np.sum(counts)) - len(counts), 1.0)
    wider = stdtrit(degrees, HELD) / NORMAL
    spread = scales.y_spread * float(wider * np.sqrt(1.0 + len(counts) / degrees))
    return dataclasses.replace(scales, distances=True, y_spread=spread)


def _part_priors(
    part: Any, name: str, scales: Scales, share: float, spread: float
) -> dict[str, LogStudentT | LogInverseGamma]:
    """Priors of a kernel or a likelihood by dotted name.

    Args:
        part: the kernel or the likelihood.
        name: its name in the model.
        scales: of the data.
        share: of the variance of the data, at which variances are centred.
        spread: the scale of the logarithm of a variance.
    """
    maps, measured_in = named(bijections(part)), named(units(part))
    ones = describe(part, lambda _, value: np.ones(np.shape(value)))
    unit = named(in_data_units(ones, scales))
    found = {}
    for entry, own in measured_in.items():
        if maps.get(entry) != Positive():
            continue
        value = np.asarray(unit[entry])
        if own.output:
            half = own.output / 2.0
            prior: Any = LogStudentT(value * share**half, np.asarray(spread * half))
        elif own == Units(input=1):
            prior = LogInverseGamma(np.asarray(SHAPE / value.size), value)
        else:
            continue
        found[f"{name}.{entry}"] = prior
    return found
