r"""The evidence of noise alone: what a model of the data without any function would have.

It is the largest density of the outputs under a constant and noise,
$\max_{c, \theta} \sum_n \log p(y_n \mid f = c, \theta)$ over the parameters of the likelihood: the
point at which a model takes everything for noise. A bracket at that point has no width, so that
evidences are judged by their distance from this one.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.graph.rows import SLOPES
from cavity.learning.data.training_data import Data
from cavity.learning.diagnostics.examined import Examined
from cavity.learning.infer import infer_from
from cavity.learning.methods.methods import PowerEP
from cavity.learning.optimisers.lbfgs import StartFailed, minimise
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.latent_values import initial_latents
from cavity.likelihoods.support import Support
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float, Scalar
from cavity.parameters import bijections, from_real, to_real

ITERATIONS = 200
# Where the search for the constant ends, nats per iteration.
TOLERANCE = 1e-6


def varying(case: Examined) -> Examined:
    """A case without outputs that do not vary, which no function explains better than none.

    Returns:
        The case by which verdicts are made: itself where noise is not Gaussian, and where all
        outputs vary or none does.
    """
    rows = case.data.rows
    y, presence = _observed(case.data)
    moving = [i for i, c, p in _columns(y, presence) if _differs(c[p > 0.0])]
    if case.noise is None or len(moving) in (0, len(_columns(y, presence))):
        return case
    mask = jnp.zeros(y.shape[1], rows.y.dtype).at[jnp.asarray(moving)].set(1.0)
    data = eqx.tree_at(lambda d: d.rows.presence, case.data, rows.presence * mask)
    result, observed = case.result, case.observed
    if observed is not None:
        noise = jnp.broadcast_to(observed.noise, observed.y.shape)
        there = {"y": observed.y * mask, "presence": observed.presence * mask}
        observed = dataclasses.replace(observed, noise=noise, **there)
    if not case.approximate:
        result = infer_from(case.gp, data, PowerEP(), result.jitter)
    return dataclasses.replace(case, result=result, data=data, observed=observed)


def noise_alone(likelihood: AbstractLikelihood, data: Data) -> float:
    """The largest log density of outputs under one constant and noise, in nats.

    With Gaussian noise in closed form, with the noise variance that it is largest at, or the
    known ones of the rows. Each output, or each latent function, has a constant of its own; the
    parameters of other likelihoods are learned from where they are. An output that does not vary,
    beside others that do, is given the noise variance of its own that the model has: the best one
    would be zero.

    Args:
        likelihood: of the model.
        data: prepared data, as a result has them.

    Returns:
        The value; infinite where no real output varies, so that no noise would be best.

    Raises:
        ValueError: for rows that observe slopes.
    """
    if SLOPES in data.rows.side:
        raise ValueError("noise alone is for rows that observe values of the function, no slopes")
    y, presence = _observed(data)
    real = likelihood.support is Support.REAL
    gaussian = likelihood.gaussian_noise
    known = "noise_variance" in data.rows.side
    learned = likelihood.noise_parameter
    if real and not known and not _varies(y, presence):
        return float("inf")
    if learned is not None and not known:
        return _learned_noise(y, presence, np.asarray(learned.variance, float))
    if gaussian is not None:
        noise = np.asarray(gaussian.noise_variance(**data.rows.columns), float)
        return _known_noise(y, presence, np.broadcast_to(noise, data.rows.y.shape))
    return _searched_evidence(likelihood, data, y, presence)


def _observed(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and their presence, (N, P) each, blocks taken apart."""
    y = np.asarray(data.rows.y, float)
    presence = np.broadcast_to(np.asarray(data.rows.presence, float), y.shape)
    return y.reshape(-1, y.shape[-1]), presence.reshape(-1, y.shape[-1])


def _varies(y: np.ndarray, presence: np.ndarray) -> bool:
    """True if the values of any output differ."""
    return any(_differs(c[p > 0.0]) for _, c, p in _columns(y, presence))


def _differs(values: np.ndarray) -> bool:
    """True if some values differ; their variance would be a rounding error otherwise."""
    return bool(np.ptp(values) > 0.0)


def _columns(y: np.ndarray, presence: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """The number of each output, its values and its presence, those never observed left out."""
    pairs = enumerate(zip(y.T, presence.T, strict=True))
    return [(i, c, p) for i, (c, p) in pairs if np.any(p)]


def _learned_noise(y: np.ndarray, presence: np.ndarray, own: np.ndarray) -> float:
    """Gaussian noise of the best variance, one for all outputs or one each.

    Args:
        y: outputs, (N, P), of which one varies at the least.
        presence: their weights, 0 where they are missing, (N, P).
        own: noise variances of the model, one or P.
    """
    seen = _columns(y, presence)
    counts = np.array([np.sum(p) for *_, p in seen])
    squares = np.array([_squares(c[p > 0.0], p[p > 0.0]) for _, c, p in seen])
    if own.size == 1:
        counts, squares = counts.sum(keepdims=True), squares.sum(keepdims=True)
        given = own.reshape(1)
    else:
        given = own.reshape(-1)[[i for i, *_ in seen]]
    variance = np.where(squares > 0.0, squares / counts, given)
    return float(-0.5 * np.sum(counts * np.log(2.0 * np.pi * variance) + squares / variance))


def _squares(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted sum of squares of values about their mean."""
    if not _differs(values):
        return 0.0
    return float(np.sum(weights * (values - np.average(values, weights=weights)) ** 2))


def _known_noise(y: np.ndarray, presence: np.ndarray, noise: np.ndarray) -> float:
    """Gaussian noise of known variances, with the best constant of each output."""
    noise = noise.reshape(y.shape)
    weight = presence / noise
    mean = np.sum(weight * y, axis=0) / np.maximum(np.sum(weight, axis=0), np.finfo(float).tiny)
    terms = np.log(2.0 * np.pi * noise) + (y - mean) ** 2 / noise
    return float(-0.5 * np.sum(presence * terms))


def _searched_evidence(
    likelihood: AbstractLikelihood, data: Data, y: np.ndarray, presence: np.ndarray
) -> float:
    """Any likelihood: its parameters and the constants by L-BFGS."""
    side = {name: np.asarray(values).reshape(-1) for name, values in data.rows.side.items()}
    several = likelihood.latents > 1
    constants = np.zeros(likelihood.latents if several else y.shape[1])
    for i, column, there in _columns(y, presence)[: 1 if several else None]:
        seen = there > 0.0
        known = {name: values[seen] for name, values in side.items()}
        guesses = np.asarray(initial_latents(likelihood, column[seen], **known), float)
        if several and guesses.ndim == 2:
            constants[:] = guesses.mean(axis=0)
        else:
            constants[i] = guesses.mean()
    maps = bijections(likelihood)
    start = np.concatenate([constants, np.asarray(to_real(likelihood, maps), float)])
    dtype = data.rows.y.dtype

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _slope(jnp.asarray(x, dtype), likelihood, data, len(constants))
        return float(value), np.asarray(slope, float)

    bounds = np.tile([-np.inf, np.inf], (start.size, 1))
    options = {"bounds": bounds, "max_iterations": ITERATIONS, "tolerance": TOLERANCE}
    try:
        return -minimise(objective, start, **options).objective
    except StartFailed:
        return float("-inf")


@compiled
def _slope(
    x: Float[Array, " C"], likelihood: AbstractLikelihood, data: Data, count: int
) -> tuple[Scalar, Array]:
    def negative(x: Array) -> Scalar:
        rows, noise = data.rows, from_real(x[count:], likelihood, bijections(likelihood))
        constants = x[:count]
        f = constants
        if likelihood.latents > 1:
            f = constants.reshape(-1, *([1] * rows.y.ndim))
            f = jnp.broadcast_to(f, (count, *rows.y.shape))
        else:
            f = jnp.broadcast_to(f, rows.y.shape)
        terms = noise.log_prob(f, rows.y, **rows.columns)
        return -jnp.sum(rows.presence * jnp.where(rows.presence > 0.0, terms, 0.0))

    return jax.value_and_grad(negative)(x)
