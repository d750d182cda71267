"""Starting values of a whole model: mean, scale and lengthscales, and alternatives to try."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import AbstractKernel
from cavity.learning.data.cycles import cycles_of, with_cycles
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.initialisation.screening import latent_guesses, screen, starting_kernel
from cavity.likelihoods.gaussian import Gaussian
from cavity.likelihoods.latent_values import initial_latents
from cavity.means import AbstractMean, BayesianLinear, Constant, Zero
from cavity.models.gp import GP
from cavity.numerics.tree import with_named

# The noise variance of a regression on latent guesses to begin with, as a share of their
# variance; the defaults of likelihoods with a scale suit it.
NOISE = 0.1


@dataclasses.dataclass(frozen=True)
class Given:
    """Parts of a model given by the user, which initialisation leaves unchanged.

    Attributes:
        kernel: whether the whole kernel is given.
        likelihood: whether the likelihood is.
        mean: whether the mean is.
        values: numbers of a kernel that are given, by dotted name: the first function's kernel.
    """

    kernel: bool = False
    likelihood: bool = False
    mean: bool = False
    values: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def held(self, kernel: AbstractKernel) -> AbstractKernel:
        """The kernel with the numbers that are given."""
        return with_named(kernel, self.values)

    def names(self, model: GP) -> tuple[str, ...]:
        """Beginnings of the dotted names of what is given of a model."""
        first = first_kernel(model.kernel)
        given = {"kernel.": self.kernel, "likelihood.": self.likelihood, "mean.": self.mean}
        parts = [part for part, whole in given.items() if whole]
        return (*parts, *(f"{first}{name}" for name in self.values))


def first_kernel(kernel: object) -> str:
    """The beginning of the names of parameters of the first of a model's kernels."""
    return "kernel.0." if isinstance(kernel, tuple) else "kernel."


def started(
    model: GP,
    given: Given,
    table: WeightedTable,
    *,
    points: int | None = None,
    seed: int = 0,
) -> list[GP]:
    """Models with starting values from the data, the likeliest first.

    With Gaussian noise they come from the outputs, otherwise from the latent values that would
    roughly give them. Sparse models with Gaussian noise get others to try beside the best: the
    typical lengthscale with much and with little noise. A full GP is dearer to try, and needs it
    less. With any other likelihood trials of the typical lengthscale gained nothing over the
    screened one where they were measured, and sweeps make them dear. Latent functions beside the
    first, such as a log noise variance, start as constants.

    Args:
        model: in standardised units, but for what was given; without inducing variables.
        given: what stays as it is.
        table: the rows.
        points: the number of inducing points that are to come; None for a full GP.
        seed: of everything random.
    """
    if model.likelihood.noise_parameter is not None:
        noise = table.side.get("noise_variance")
        return _gaussian(model, given, table, noise, points, seed)
    if model.likelihood.class_probabilities is not None:
        return [_classes(model, given, table, points, seed)]
    guesses = table._replace(y=latent_guesses(model.likelihood, table))
    if model.likelihood.latents > 1:
        return [_several(model, given, guesses, points, seed)]
    return [_others(model, given, guesses, points, seed)]


def _gaussian(
    model: GP,
    given: Given,
    table: WeightedTable,
    noise: np.ndarray | None,
    points: int | None,
    seed: int,
) -> list[GP]:
    scales, weights = table.scales, table.weights
    model = _centred(model, given, scales)
    if not given.likelihood:
        likelihood = in_data_units(model.likelihood, scales)
        model = eqx.tree_at(lambda m: m.likelihood, model, likelihood)
    if given.kernel:
        return [model]
    model = _with_kernel(model, given.held(starting_kernel(model.kernels[0], scales)))
    variance = model.likelihood.variance  # type: ignore[attr-defined]
    known = variance if noise is None and given.likelihood else noise
    of_rows = weights if known is noise else None
    level = None if known is None else float(np.average(known, weights=of_rows))
    how: dict[str, Any] = {"points": points, "seed": seed, "given": given.values}
    found = screen(model, table, noise=level, **how)
    if points is None:
        return [found]
    cycles = cycles_of(found.kernels[0], range(table.X.shape[1]))
    periods = tuple((cycle, cycle.period) for cycle in cycles)
    model = _with_kernel(model, given.held(with_cycles(model.kernels[0], periods)))
    if known is not None:
        return [found, model]
    quiet = eqx.tree_at(lambda m: m.likelihood.variance, model, variance / 10)
    return [found, model, quiet]


def _others(model: GP, given: Given, guesses: WeightedTable, points: int | None, seed: int) -> GP:
    """With the lengthscales of a regression on the guesses, which calls their roughness noise."""
    scales, standard = guesses.scales, model.likelihood
    model = _centred(model, given, scales)
    noise = NOISE * scales.y_spread**2
    if not given.kernel:
        kernel = given.held(starting_kernel(model.kernels[0], scales))
        stand_in = GP(kernel, Gaussian(noise), None, model.mean)
        held = given.values
        found: Any = screen(stand_in, guesses, points=points, seed=seed, given=held)
        model, noise = _with_kernel(model, found.kernel), float(found.likelihood.variance)
    if not given.likelihood:
        spread = dataclasses.replace(scales, y_spread=float(np.sqrt(noise / NOISE)))
        likelihood = in_data_units(standard, spread)
        model = eqx.tree_at(lambda m: m.likelihood, model, likelihood)
    return model


def _several(model: GP, given: Given, guesses: WeightedTable, points: int | None, seed: int) -> GP:
    """The first function from a regression with constant noise, and functions beside it.

    The kernels of these start with typical distances as lengthscales and with variances as they
    are, in the units of their function; their means start where the likelihood says.
    """
    first, *beside = model.latents
    known = dataclasses.replace(given, likelihood=False)
    stand_in = GP(first.kernel, Gaussian(), None, first.mean)
    fitted: Any = _gaussian(stand_in, known, guesses, None, points, seed)[0]
    kernels, means, noise = [fitted.kernel], [fitted.mean], float(fitted.likelihood.variance)
    scales = dataclasses.replace(guesses.scales, y_spread=1.0)
    for part, latent in zip(beside, model.likelihood.latent_functions[1:], strict=True):
        kernels.append(part.kernel if given.kernel else starting_kernel(part.kernel, scales))
        means.append(Constant(latent.prior_mean(noise)))
    return GP(tuple(kernels), model.likelihood, None, tuple(means))


def _classes(model: GP, given: Given, table: WeightedTable, points: int | None, seed: int) -> GP:
    """The kernel of a regression on all classes at once, and means at the logs of their shares."""
    weights, labels = table.weights, table.y[:, 0]
    guesses, means = initial_latents(model.likelihood, labels), model.mean
    if isinstance(means, tuple) and not given.mean:
        least = 0.5 / (len(labels) if weights is None else max(float(np.sum(weights)), 1.0))
        shares = np.average(guesses > 0.0, axis=0, weights=weights)
        share = np.log(np.maximum(shares, least))
        heights = zip(means, share - share.mean(), strict=True)
        means = tuple(_moved(mean, h) for mean, h in heights)
    kernel: Any = model.kernel
    if not given.kernel:
        trend = means if isinstance(means, BayesianLinear) else Zero()
        stand_in = GP(kernel, Gaussian(), None, trend)
        known = dataclasses.replace(given, likelihood=False, mean=True)
        centred = table._replace(y=guesses - np.average(guesses, axis=0, weights=weights))
        kernel = _gaussian(stand_in, known, centred, None, points, seed)[0].kernel
    return GP(kernel, model.likelihood, None, means)


def _with_kernel(model: GP, kernel: object) -> GP:
    return eqx.tree_at(lambda m: m.kernel, model, kernel)


def _centred(model: GP, given: Given, scales: Scales) -> GP:
    """The model with its mean at the means of the outputs and as wide, unless it was given."""
    if given.mean:
        return model
    height = scales.y_centre if len(scales.y_centre) > 1 else scales.y_centre[0]
    return eqx.tree_at(lambda m: m.mean, model, _moved(model.mean, height, scales.y_spread))


@functools.singledispatch
def _moved(mean: AbstractMean, height: ArrayLike, spread: float = 1.0) -> AbstractMean:
    """A mean function about a height, as wide as outputs of a spread."""
    return eqx.tree_at(lambda m: m.bias, mean, np.asarray(height))


@_moved.register
def _(mean: Zero, height: ArrayLike, spread: float = 1.0) -> Zero:
    return mean


@_moved.register
def _(mean: Constant, height: ArrayLike, spread: float = 1.0) -> Constant:
    return eqx.tree_at(lambda m: m.value, mean, np.asarray(height))


@_moved.register
def _(mean: BayesianLinear, height: ArrayLike, spread: float = 1.0) -> BayesianLinear:
    wider = [mean.weight_deviations * spread, mean.bias_deviation * spread]
    return eqx.tree_at(
        lambda m: (m.bias, m.weight_deviations, m.bias_deviation),
        mean,
        (np.asarray(height), *wider),
    )
