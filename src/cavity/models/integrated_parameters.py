"""The posterior of parameters that were integrated out."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.scipy.special import ndtri

from cavity.likelihoods.capabilities import HasHeldParameters, capability
from cavity.models.linear.process import linear_functions
from cavity.models.mixture_posterior import MixturePosterior
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import functions_of
from cavity.numerics.tree import named
from cavity.parameters import Fixed, Interval, Positive, Real, bijections
from cavity.parameters.gaussian_scale import values_on

# The scale on which a parameter of each domain is unconstrained.
_SCALES = {Real: "real", Positive: "log", Interval: "logit", Fixed: "real"}


@dataclasses.dataclass(frozen=True)
class ParameterMarginal:
    """The posterior of a parameter, or of one per group, which is Gaussian on its own scale.

    Attributes:
        median: posterior medians, (), or (G,) of G groups or weights.
        lower: lower ends of the central intervals.
        upper: upper ends.
        scale: where it is Gaussian: "real", the parameter itself; "log", "logit".
    """

    median: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    scale: str


def integrated_parameters(
    posterior: AbstractPosterior, level: float = 0.9
) -> dict[str, ParameterMarginal]:
    """The posterior of every parameter that was integrated out, by its name in the model.

    Args:
        posterior: `result.posterior` of a fit with `INTEGRATED` parameters, or of a model with an
            `Integrated` likelihood or `integrated` parameters of its prior; or that of
            `cavity.integrate`. Empty for others.
        level: the probability in the central intervals.

    Raises:
        ValueError: for a level outside (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, given {level}")
    reach, parts = float(ndtri(0.5 * (1.0 + level))), [posterior]
    found, shares = {}, np.ones(1)
    if isinstance(posterior, MixturePosterior):
        found, shares = _mixture_marginals(posterior, reach), np.asarray(posterior.shares)
        parts = [
            jax.tree.map(lambda a, i=i: np.asarray(a)[i], posterior.parts)
            for i in range(len(shares))
        ]
    several = [_every(part) for part in parts if isinstance(part, Posterior)]
    for same in zip(*several, strict=True):
        name, kind = same[0][:2]
        means, deviations = (np.stack([np.asarray(one[i]) for one in same]) for i in (2, 3))
        mean = np.tensordot(shares, means, axes=1)
        spread = np.sqrt(np.tensordot(shares, deviations**2 + (means - mean) ** 2, axes=1))
        low, middle, high = (
            np.asarray(values_on((name,), (kind,), (np.asarray(mean + z * spread),))[name])
            for z in (-reach, 0.0, reach)
        )
        found[name] = ParameterMarginal(middle, low, high, kind)
    return found


def _mixture_marginals(posterior: MixturePosterior, reach: float) -> dict[str, ParameterMarginal]:
    """The parameters that differ between the parts of a mixture."""
    shares, domains = np.asarray(posterior.shares), named(bijections(posterior.model))
    found = {}
    for name, values in named(posterior.parts.model).items():
        if name not in domains or np.all(np.ptp(values, axis=0) == 0.0):
            continue
        domain = domains[name]
        real = np.asarray(domain.to_real(np.asarray(values)))
        mean = np.tensordot(shares, real, axes=1)
        spread = np.sqrt(np.tensordot(shares, (real - mean) ** 2, axes=1))
        ends = (np.asarray(mean + z * spread) for z in (0.0, -reach, reach))
        numbers = (np.asarray(domain.from_real(end)) for end in ends)
        found[name] = ParameterMarginal(*numbers, scale=_SCALES[type(domain)])
    return found


def _every(posterior: Posterior) -> list["Marginal"]:
    return [*_likelihood_marginals(posterior), *_prior_marginals(posterior)]


Marginal = tuple[str, str, np.ndarray, np.ndarray]


def _likelihood_marginals(posterior: Posterior) -> Iterator[Marginal]:
    integrated: Any = capability(posterior.model.likelihood, HasHeldParameters)
    if integrated is None:
        return
    scales = integrated.scales
    own = functions_of(posterior.process)[-len(scales.names) :]
    anywhere: Any = np.zeros((1, posterior.n_inputs), scales.location.dtype)
    for name, kind, function in zip(scales.names, scales.kinds, own, strict=True):
        mean, var = function.moments(anywhere)
        yield f"likelihood.{name}", kind, np.asarray(mean)[0, 0], np.sqrt(np.asarray(var))[0, 0]


def _prior_marginals(posterior: Posterior) -> Iterator[Marginal]:
    scales = next((f.scales for f in linear_functions(posterior.process)), None)
    if scales is None:
        return
    for name, kind, (mean, deviation) in zip(
        scales.names, scales.kinds, scales.marginals(), strict=True
    ):
        one = np.size(mean) == 1
        mean, deviation = (np.asarray(x)[0] if one else np.asarray(x) for x in (mean, deviation))
        yield f"prior.{name}", kind, mean, deviation
