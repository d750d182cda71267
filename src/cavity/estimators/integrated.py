"""Parameters of linear models that estimators integrate out, by words."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from cavity.estimators.registry import one_of
from cavity.models.base import AbstractModel
from cavity.numerics.tree import named, with_named
from cavity.parameters import INTEGRATED, Bijection, Interval, Positive, bijections, entries
from cavity.parameters.priors import LogitNormal, LogNormal, Prior, flat

# What can be integrated out, and how the names of these parameters begin.
PARTS = {"noise": "likelihood.", "prior": "prior."}
# Standard deviations of the priors about the starting values: of logarithms, and of logits.
LOG_SPREAD, LOGIT_SPREAD = 2.0, 1.5


class Uncertain(NamedTuple):
    """What a fit is told of parameters that are integrated out.

    Attributes:
        bijections: of all parameters of the model.
        priors: of all of them.
    """

    bijections: AbstractModel
    priors: AbstractModel


def asked_parts(integrate: object) -> tuple[str, ...]:
    """The parts whose parameters are to be integrated out.

    Args:
        integrate: None for none; "noise", "prior", or a list of both.

    Raises:
        ValueError: for anything else.
    """
    if integrate is None:
        return ()
    words = [integrate] if isinstance(integrate, str) else integrate
    if not isinstance(words, Sequence):
        raise ValueError(f"integrate must be None, 'noise', 'prior' or both, given {integrate!r}")
    return tuple(dict.fromkeys(one_of("integrate", word, PARTS) for word in words))


def integrated_out(model: AbstractModel, parts: Sequence[str]) -> Uncertain:
    """The parameters of these parts as variables, with wide priors about their values.

    Args:
        model: the model, at its starting values.
        parts: "noise" for the parameters of the likelihood, "prior" for those of the prior.

    Raises:
        ValueError: for a part without parameters that are learned.
    """
    maps, densities = named(bijections(model)), named(flat(model))
    for part in parts:
        chosen = {
            name: _about(np.asarray(value), domain)
            for name, value, domain in entries(model, bijections(model))
            if name.startswith(PARTS[part]) and isinstance(domain, Bijection) and domain.free
        }
        if not chosen:
            raise ValueError(
                f"{type(getattr(model, PARTS[part][:-1])).__name__} has no parameter that is "
                f"learned: leave '{part}' out of integrate"
            )
        maps |= dict.fromkeys(chosen, INTEGRATED)
        densities |= chosen
    return Uncertain(with_named(bijections(model), maps), with_named(flat(model), densities))


def _about(value: np.ndarray, domain: Bijection) -> Prior:
    """A wide prior about a value, or about the middle of those of several groups."""
    median = float(domain.from_real(jnp.mean(domain.to_real(jnp.asarray(value)))))
    if isinstance(domain, Interval):
        return LogitNormal(median, LOGIT_SPREAD)
    assert isinstance(domain, Positive)
    return LogNormal(median, LOG_SPREAD)
