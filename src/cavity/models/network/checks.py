"""Checks of the parts of a network."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cavity.inference.approximations.approximations import TiedPowerMeans
from cavity.likelihoods.base import AbstractLikelihood
from cavity.models.base import check_part
from cavity.models.network.start import NetworkStart
from cavity.numerics.text import plural
from cavity.numerics.validation import is_whole
from cavity.weights.base import AbstractWeightPrior


def checked_widths(hidden: Any) -> tuple[int, ...]:
    """The number of units of every layer."""
    several = isinstance(hidden, Sequence | np.ndarray) and np.ndim(hidden) == 1
    widths: tuple[Any, ...] = tuple(hidden) if several else (hidden,)
    if not widths or not all(map(is_whole, widths)) or min(widths) < 1:
        raise ValueError(
            "hidden must be a number of units, 1 or more, or several, one for each layer; given "
            f"{hidden!r}: for a model without any, use cavity.LinearModel"
        )
    return tuple(map(int, widths))


def check_parts(likelihood: Any, bias: Any, intercept: Any) -> None:
    """Raises unless the likelihood has one latent function and prior variances are positive."""
    check_part("likelihood of a Network", likelihood, AbstractLikelihood)
    if likelihood.latents - len(likelihood.shared_priors) != 1:
        raise ValueError(
            f"a Network has one latent function, {type(likelihood).__name__} has "
            f"{likelihood.latents}: of several classes fit a network to each against the others"
        )
    for name, value in (("bias", bias), ("intercept", intercept)):
        if not np.all(np.asarray(value) > 0.0):
            raise ValueError(
                f"{name} is the variance of a prior and must be positive, given {value}"
            )


def check_tied(
    tied: TiedPowerMeans, priors: Mapping[str, AbstractWeightPrior], *, natural: bool
) -> None:
    """Raises for what sites that all rows share are not for.

    Args:
        tied: what stands in the place of the likelihood terms.
        priors: of weights, by name.
        natural: whether sites move by natural-gradient steps.
    """
    if tied.input_sites or tied.hidden_sites:
        raise ValueError(
            "a Network has no latent inputs and no hidden values: leave input_sites=False and "
            "hidden_sites=False"
        )
    if natural:
        raise ValueError(
            "natural-gradient steps are for one layer of weights: leave natural=None, with which "
            "the optimiser moves the sites of a Network"
        )
    for name, prior in priors.items():
        if not prior.gaussian:
            raise ValueError(
                f"{name} is {type(prior).__name__}, and sites that all rows share are for "
                "Gaussian priors: give cavity.weights.Gaussian(), with a variance for each column "
                "if need be, or method=cavity.PowerEP()"
            )


def check_sizes(
    output: AbstractWeightPrior, inner: AbstractWeightPrior | None, widths: tuple[int, ...]
) -> None:
    """Raises for priors with a parameter for each of another number of units.

    Args:
        output: prior of the output weights.
        inner: prior of the weights of further layers; None where there are none.
        widths: units of every layer.
    """
    named: list[Any] = [("output weights", output, widths[-1])]
    if inner is not None:
        named += [("inner weights", inner, below) for below in widths[:-1]]
    for what, prior, units in named:
        for size in prior.sizes() - {units}:
            raise ValueError(
                f"the prior of {what} has a parameter with {plural(size, 'value')} for "
                f"{plural(units, 'unit')}: give one value, or one per unit"
            )


def check_start(
    start: NetworkStart | None, columns: int, widths: tuple[int, ...], *, linear: bool
) -> None:
    """Raises for a start with weights of other shapes.

    Args:
        start: the start; None for none.
        columns: of the inputs.
        widths: units of every layer.
        linear: whether there is a linear part.
    """
    if start is None:
        return
    inner = [(below + 1, width) for below, width in itertools.pairwise(widths)]
    wanted = ((columns + 1, widths[0]), *inner, (widths[-1] + 1,))
    given = tuple(map(np.shape, (start.hidden, *start.inner, start.output)))
    if given != wanted or linear != (start.linear is not None):
        raise ValueError(
            f"start must have hidden, inner and output weights of shapes {wanted}, intercepts "
            f"last, and linear ones where there is a linear part; given {given}"
        )
