"""Record of a stream beside its messages: counts of its columns, and the noise of its past."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from cavity.inference.past import Past
from cavity.learning.data.scales import (
    Tallies,
    Tally,
    coordinates_of,
    model_at,
    scales_of,
)
from cavity.learning.results.result import Inference
from cavity.models.base import AbstractGP
from cavity.models.posterior import AbstractPosterior
from cavity.parameters import Positive, free_parts, units

# The factor by which scales of the data change before parameters are moved along with them.
APART = 3.0


def tallies_of(result: Inference) -> Tallies | None:
    """Counts and moments of the rows of a result; None where nothing is known of them."""
    if result.tallies is not None or result.data is None:
        return result.tallies
    return result.data.tallies(result.posterior.model.likelihood)


def joined(before: Tallies | None, new: Tallies, share: float = 1.0) -> Tallies | None:
    """The tallies of rows from before, each of which counts as a share of one, and new ones."""
    if before is None:
        return None
    x, y = before
    return x.fading(share) + new[0], y.fading(share) + new[1]


def outputs_of(tallies: Tallies | None) -> float | None:
    """The number of outputs that were counted."""
    return None if tallies is None else float(np.sum(tallies[1].count))


def moved_along(
    model: AbstractGP, maps: AbstractGP, before: Tallies | None, now: Tallies | None
) -> AbstractGP | None:
    """The model with positive parameters rescaled as the scales of the data have changed.

    None where these have hardly changed. It is a start for data whose earlier rows were not
    representative of the scales of later ones.
    """
    if before is None or now is None:
        return None
    first, last = scales_of(*before), scales_of(*now)
    outputs = float(np.log(last.y_spread / first.y_spread))
    inputs = np.log(last.x_spread / first.x_spread)
    if max(abs(outputs), np.max(np.abs(inputs), initial=0.0)) < np.log(APART):
        return None
    moves = []
    for value, domain, unit in free_parts(model, maps, units(model)):
        move = np.zeros(np.shape(value))
        if domain == Positive():
            own = inputs if move.shape[-1:] == inputs.shape else np.mean(inputs)
            move = move + outputs * unit.output + own * unit.input
        moves.append(np.ravel(move))
    real = np.asarray(coordinates_of(model, maps))
    moved = real + np.concatenate([*moves, np.zeros(0)])
    return model_at(jnp.asarray(moved, real.dtype), model, maps)


def noted(past: Past, posterior: AbstractPosterior, count: float | None) -> Past:
    """A past that knows which noise its messages were found with.

    Args:
        past: of rows that the posterior saw.
        posterior: the posterior.
        count: the outputs that its messages are of; None where that is not known.
    """
    likelihood = posterior.model.likelihood
    learned = likelihood.noise_parameter
    if learned is None or count is None or posterior.known_noise or np.ndim(learned.variance):
        return dataclasses.replace(past, noise=None, count=jnp.zeros(()))
    noise = jnp.asarray(learned.variance)
    return dataclasses.replace(past, noise=noise, count=jnp.asarray(count, noise.dtype))


def described(tallies: Tallies | None) -> list[dict[str, Any]] | None:
    """Tallies as JSON values."""
    if tallies is None:
        return None
    return [{name: x.tolist() for name, x in vars(each).items()} for each in tallies]


def as_tallies(values: Sequence[Mapping[str, Any]] | None) -> Tallies | None:
    """Tallies from JSON values."""
    if values is None:
        return None
    x, y = (Tally(**{k: np.asarray(v, float) for k, v in each.items()}) for each in values)
    return x, y
