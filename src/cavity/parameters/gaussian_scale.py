"""Scales on which priors of parameters are Gaussian."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.numerics.types import Array, Float
from cavity.parameters.priors import LogitNormal, LogNormal, Normal, Prior
from cavity.parameters.trees import Bijection, Interval, Positive, Real, fixed

# The domain of the parameters that each scale is for, whose bijection leads to it.
_DOMAINS: dict[str, Bijection] = {
    "real": Real(),
    "log": Positive(),
    "logit": Interval(0.0, 1.0),
}

# The scale on which each prior is Gaussian, and its mean there from the prior's first number.
_KINDS: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Normal: ("real", lambda mean: mean),
    LogNormal: ("log", np.log),
    LogitNormal: ("logit", lambda median: np.log(median) - np.log1p(-np.asarray(median))),
}

# The largest deviation of a prior on a logarithmic scale, and that of one that is all but a point.
WIDEST = 5.0
_POINT = 1e-4


class GaussianScales(eqx.Module):
    """Parameters by name, on the scales where their priors are Gaussian.

    Attributes:
        names: dotted names of the parameters.
        kinds: the scale of each: "real", "log" or "logit".
        location: means of the priors on these scales.
        deviation: their standard deviations.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    kinds: tuple[str, ...] = eqx.field(static=True)
    location: Float[Array, " k"] = fixed()
    deviation: Float[Array, " k"] = fixed()

    @classmethod
    def from_priors(
        cls, priors: Mapping[str, Prior], domains: Mapping[str, Bijection]
    ) -> "GaussianScales":
        """The scales of priors.

        Args:
            priors: by the dotted names of parameters.
            domains: bijections by these names.

        Raises:
            ValueError: for priors that are Gaussian on no scale, and those that do not suit the
                domain of their parameter.
        """
        described = [_described(name, prior, domains[name]) for name, prior in priors.items()]
        kinds = tuple(kind for kind, _, _ in described)
        found: Any = [np.array([x[i] for x in described], float) for i in (1, 2)]
        return cls(tuple(priors), kinds, *found)

    def values(self, z: Any) -> dict[str, Array]:
        """The parameters by name from their values on these scales, (k, ...)."""
        return values_on(self.names, self.kinds, z)

    def held_at(self, values: Mapping[str, Any]) -> "GaussianScales":
        """Scales with priors that are all but points at these values of the parameters.

        Of parameters with several numbers the point is the middle of these on the scale.
        """
        pairs = zip(self.names, self.kinds, strict=True)
        points = [jnp.mean(_DOMAINS[kind].to_real(jnp.asarray(values[n]))) for n, kind in pairs]
        deviation = jnp.full_like(self.deviation, _POINT)
        return GaussianScales(self.names, self.kinds, jnp.stack(points), deviation)


def values_on(names: Sequence[str], kinds: Sequence[str], z: Any) -> dict[str, Array]:
    """Parameters by name from their values on scales of these kinds, (k, ...)."""
    triples = zip(names, kinds, z, strict=True)
    return {name: _DOMAINS[kind].from_real(each) for name, kind, each in triples}


def _described(name: str, prior: Prior, domain: Bijection) -> tuple[str, float, float]:
    """The scale of a prior, and its mean and deviation there."""
    known = _KINDS.get(type(prior))
    if known is None:
        raise ValueError(
            f"{name} is to be integrated, and its prior is {prior}: give it a Normal, "
            "LogNormal or LogitNormal of cavity.parameters.priors"
        )
    (kind, location_of), (median, spread) = known, vars(prior).values()
    if domain != _DOMAINS[kind]:
        raise ValueError(
            f"the domain of {name} is {domain}, and its prior {prior}: parameters are integrated "
            "under a Normal where they are real, a LogNormal where they are positive and a "
            "LogitNormal where they lie between 0 and 1; cavity.integrate takes others"
        )
    if np.ndim(median) or np.ndim(spread):
        raise ValueError(
            f"the prior of {name}, which is to be integrated, must have one number for each of "
            f"its parameters, given {prior}"
        )
    if kind != "real" and float(spread) > WIDEST:
        raise ValueError(
            f"the prior of {name} has a deviation of {spread:g} on the {kind} scale, where nodes "
            f"would be too far apart: give it {WIDEST:g} at the most"
        )
    return kind, float(location_of(median)), float(spread)
