"""Parameters of the prior of a linear model that are integrated out."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inference.variables.inducing import InducingBelief, WhitenedInducing
from cavity.inference.weights.views import ParameterView
from cavity.numerics.tree import named
from cavity.numerics.types import Array
from cavity.parameters import bijections
from cavity.parameters.gaussian_scale import GaussianScales
from cavity.weights.base import AbstractWeightPrior
from cavity.weights.integrated import IntegratedPrior

# Parameters of a prior that one weight sees, at the most.
_MOST = 2


def checked_scales(prior: Any, priors: Mapping[str, Any] | None) -> GaussianScales | None:
    """The scales of the parameters to integrate out.

    Raises:
        ValueError: for parameters that the prior has not, and more than two.
    """
    if not priors:
        return None
    if isinstance(prior, tuple):
        raise ValueError(
            "parameters of several priors cannot be integrated: give one prior for all latent "
            "functions, whose parameters they share"
        )
    known = named(prior)
    for name in priors:
        if name not in known:
            raise ValueError(
                f"{type(prior).__name__} has no parameter {name}: integrate one of "
                f"{', '.join(known)}"
            )
    if len(priors) > _MOST:
        raise ValueError(
            f"one or two parameters of a prior can be integrated, given {len(priors)}"
        )
    return GaussianScales.from_priors(priors, named(bijections(prior)))


class ScaleBeliefs(eqx.Module):
    """Posterior of the integrated parameters of a prior.

    Attributes:
        names: dotted names of the parameters.
        kinds: the scale of each.
        views: what the weights see of each.
        beliefs: the posterior of each.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)
    views: tuple[ParameterView, ...]
    beliefs: tuple[InducingBelief, ...]

    def averaged(self, prior: AbstractWeightPrior, outputs: int) -> IntegratedPrior:
        """The prior of every weight, averaged over its parameters."""
        shape = (self.views[0].index.shape[0], outputs)
        pairs = [
            tuple(jnp.broadcast_to(x, shape) for x in _moments(view, belief, outputs))
            for view, belief in zip(self.views, self.beliefs, strict=True)
        ]
        location, variance = zip(*pairs, strict=True)
        return IntegratedPrior(prior, self.names, self.kinds, location, variance)

    def marginals(self) -> tuple[tuple[Array, Array], ...]:
        """Means and deviations of every parameter, one entry per group."""
        found = []
        for view, belief in zip(self.views, self.beliefs, strict=True):
            mean, var = _moments(view.group_view(), belief, 1)
            found.append((mean[:, 0], jnp.sqrt(var[:, 0])))
        return tuple(found)


def _moments(view: ParameterView, belief: InducingBelief, outputs: int) -> tuple[Array, Array]:
    projection = view.projection(outputs)
    mean, var = belief.marginal(projection)
    return mean + projection.offset, var


def parameter_views(
    prior: AbstractWeightPrior, scales: GaussianScales, groups: Any, count: int
) -> tuple[tuple[WhitenedInducing, ParameterView], ...]:
    """A variable for each integrated parameter, and what weights see of it.

    A parameter with one number is the same for all weights; others have one for each group, or
    each weight.
    """
    values, found = named(prior), []
    for i, name in enumerate(scales.names):
        shape = np.shape(values[name])
        size = shape[0] if shape else 1
        index: Any = np.zeros(count, int)
        if shape:
            index = np.arange(count) if groups is None else groups
        view = ParameterView(jnp.asarray(index), scales.location[i], scales.deviation[i], size)
        found.append((WhitenedInducing(size), view))
    return tuple(found)
