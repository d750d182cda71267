"""Posterior summaries of the coefficients of a linear model, one by one."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.weights.blocks import Blocks
from cavity.models.drawn_weights import KnownWeights
from cavity.models.linear.linear_model import LinearModel
from cavity.models.linear.process import LinearProcess, linear_functions
from cavity.models.mixture_posterior import MixturePosterior
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.weights.base import (
    AbstractScaleMixture,
    AbstractWeightPrior,
    Components,
    weight_by_weight,
)
from cavity.weights.blocks import Cavities, block_components

# Halvings of the interval in which a quantile lies.
_HALVINGS = 50
# The variance of a cavity that says nothing, over that of the prior.
_FLAT = 1e8
# Deviations of the cavity in which quantiles are looked for.
_REACH = 12.0


@dataclasses.dataclass(frozen=True)
class Coefficients:
    """Posterior marginals of coefficients, those of the prior times all else that is known.

    Intervals and probabilities keep what a Gaussian has not: a spike at zero, skewness, heavy
    tails. Means and deviations are those of the Gaussian, which has them right where sites
    converged, at power 1 of the prior.

    Attributes:
        mean: means, (D,), or (D, P) of several outputs or latent functions.
        deviation: standard deviations.
        lower: lower ends of the central intervals.
        upper: upper ends.
        negative: probabilities of a coefficient below zero; a spike at zero counts for neither.
        positive: probabilities of one above zero.
        inclusion: probabilities that it is not (nearly) zero, of a prior with a spike; else None.
        intercept: mean and standard deviation of the intercept; None for a model without.
    """

    mean: np.ndarray
    deviation: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    negative: np.ndarray
    positive: np.ndarray
    inclusion: np.ndarray | Any
    intercept: tuple[np.ndarray, np.ndarray] | None

    def select(self, fdr: float = 0.1, output: int | None = None) -> np.ndarray:
        """The columns of the largest set in which errors of sign are expected to be few.

        Args:
            fdr: the expected share of the chosen that are zero or of the other sign, at the most.
            output: of several outputs or latent functions, which one, counted from 0.

        Returns:
            Column numbers, most certain first.

        Raises:
            ValueError: for a share outside (0, 1), and several outputs of which none is chosen.
        """
        if not 0.0 < fdr < 1.0:
            raise ValueError(f"fdr must lie strictly between 0 and 1, given {fdr}")
        certain = np.maximum(self.negative, self.positive)
        if certain.ndim > 1:
            if output is None:
                raise ValueError(
                    f"these are coefficients of {certain.shape[1]} outputs: say which one, as in "
                    "select(output=0)"
                )
            certain = certain[:, output]
        error = 1.0 - certain
        order = np.argsort(error, kind="stable")
        shares = np.cumsum(error[order]) / np.arange(1, len(order) + 1)
        within = np.flatnonzero(shares <= fdr)
        return order[: within[-1] + 1] if len(within) else order[:0]


def coefficients(posterior: AbstractPosterior, level: float = 0.9) -> Coefficients:
    """Posterior marginals of the coefficients of a linear model.

    Those of draws, by `MCMC`, are means, shares and quantiles of the draws that were kept. With a
    spike a draw counts for its sign with the probability that it is not (nearly) zero.

    Args:
        posterior: `result.posterior` of a `LinearModel`, or that of `cavity.integrate`.
        level: the probability in the central intervals.

    Raises:
        TypeError: for the posterior of another model.
        ValueError: for a level outside (0, 1).

    References:
        Jylanki (2013), S2 and S53: the tilted distributions.
    """
    mixture = posterior if isinstance(posterior, MixturePosterior) else None
    whole = posterior if mixture is None else mixture.parts
    if not isinstance(whole, Posterior) or not isinstance(whole.model, LinearModel):
        kind = type(posterior).__name__
        raise TypeError(
            "coefficients are those of a LinearModel: give result.posterior of one, given "
            + (f"that of a {type(whole.model).__name__}" if isinstance(whole, Posterior) else kind)
        )
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, given {level}")
    intercept = None if whole.model.intercept is None else _intercept(posterior)
    scale = whole.model.scale
    if scale is not None and mixture is not None:
        scale = scale[0]
    functions = linear_functions(whole.process)
    if not functions:
        process: Any = whole.process
        return _of_draws(process, scale, intercept, level, single=posterior.single)
    parts = _Part(whole.model, functions, posterior.n_inputs)
    if mixture is None:
        parts = jax.tree.map(lambda x: jnp.asarray(x)[None], parts)
        shares = jnp.ones(1, jnp.asarray(jax.tree.leaves(whole.process)[0]).dtype)
    else:
        shares = jnp.asarray(mixture.shares)
    each = [_function_summary(parts, shares, level, scale, i) for i in range(len(functions))]
    vector = posterior.single and len(functions) == 1

    def joined(rows: Iterable[Array]) -> np.ndarray:
        found = np.concatenate([np.asarray(row) for row in rows], axis=1)
        return found[:, 0] if vector else found

    columns = [joined(rows) for rows in zip(*(summary for summary, _ in each), strict=True)]
    known = [inclusion for _, inclusion in each if inclusion is not None]
    inclusion = joined(known) if known else None
    if intercept is not None and vector and intercept[0].ndim:  # beside parameters
        intercept = intercept[0][:1].squeeze(), intercept[1][:1].squeeze()
    return Coefficients(*columns, inclusion=inclusion, intercept=intercept)


class _Part(eqx.Module):
    """A linear model and its functions; of several nodes along a first axis of every array."""

    model: LinearModel
    functions: tuple[LinearProcess, ...]
    columns: int = eqx.field(static=True)


def _of_draws(
    process: KnownWeights,
    scale: Array | None,
    intercept: tuple[np.ndarray, np.ndarray] | None,
    level: float,
    *,
    single: bool,
) -> Coefficients:
    """Posterior marginals from draws of the weights; see `coefficients`."""
    weights, inclusion = _drawn_weights(process, intercept=intercept is not None)
    weights = np.asarray(weights)
    share = np.ones_like(weights) if inclusion is None else np.asarray(inclusion)
    unit = np.ones(())
    if scale is not None:
        unit = (1.0 / np.asarray(scale)).reshape(-1, *[1] * (weights.ndim - 2))
    if not single and weights.ndim == 2:
        weights, share = weights[..., None], share[..., None]
        unit = np.reshape(unit, (-1, 1))
    tail = 0.5 * (1.0 - level)
    lower, upper = np.quantile(weights, (tail, 1.0 - tail), axis=0)
    return Coefficients(
        mean=unit * weights.mean(axis=0),
        deviation=unit * weights.std(axis=0),
        lower=unit * lower,
        upper=unit * upper,
        negative=np.mean(share * (weights < 0.0), axis=0),
        positive=np.mean(share * (weights > 0.0), axis=0),
        inclusion=None if inclusion is None else share.mean(axis=0),
        intercept=intercept,
    )


@compiled
def _drawn_weights(processes: KnownWeights, *, intercept: bool) -> tuple[Array, Array | None]:
    """Weights of draws, and their probabilities of not being (nearly) zero, of equal shapes."""

    def one(process: KnownWeights) -> tuple[Array, Array | None]:
        weights = process.named_weights()["weights"]
        columns = weights.reshape(len(weights), -1)
        every = process.model.weight_parts(len(weights))
        # an intercept follows the weights of each function
        parts = every[::2] if intercept else every
        found = [part.inclusion(w[:, None]) for part, w in zip(parts, columns.T, strict=True)]
        known = [x for x in found if x is not None]
        if len(known) < len(found):
            return weights, None
        return weights, jnp.concatenate(known, axis=1).reshape(weights.shape)

    return jax.lax.map(one, processes)


def _intercept(posterior: AbstractPosterior) -> tuple[np.ndarray, np.ndarray]:
    """The function where all columns are zero."""
    dtype = jax.tree.leaves(posterior)[0].dtype
    mean, var = posterior.marginals(np.zeros((1, posterior.n_inputs), dtype))
    return np.asarray(mean[0]), np.asarray(np.sqrt(var[0]))


class _Marginal(NamedTuple):
    """Marginals of weights: a prior, and the cavity of each weight.

    Attributes:
        prior: with parameters for every weight.
        about: means of the cavities.
        width: their variances.
        mean: means of the posterior.
        var: its variances.
    """

    prior: AbstractWeightPrior
    about: Float[Array, "p P"]
    width: Float[Array, "p P"]
    mean: Float[Array, "p P"]
    var: Float[Array, "p P"]

    def below(self, weight: Float[Array, "p P"]) -> Float[Array, "p P"]:
        """The probability of less."""
        return self.prior.cdf(weight, self.about, self.width)

    def ends(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Values below and above all quantiles."""
        reach = _REACH * jnp.sqrt(self.width)
        low = jnp.minimum(self.about - reach, -reach)
        return low, jnp.maximum(self.about + reach, reach)

    def signs(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Probabilities of a negative and of a positive weight."""
        own = self.prior, self.about, self.width
        return weight_by_weight(lambda prior, m, v: prior.signs(m, v), *own)

    def inclusion(self) -> Float[Array, "p P"] | None:
        """The probability of one that is not (nearly) zero."""
        own = self.prior, self.about, self.width
        return weight_by_weight(lambda prior, m, v: prior.inclusion(m, v), *own)


class _BlockMarginal(NamedTuple):
    """The same where some weights are in blocks.

    Attributes:
        prior: with parameters for every weight.
        parts: the products of priors and cavities.
        mean: means of the posterior.
        var: its variances.
    """

    prior: AbstractScaleMixture
    parts: Components
    mean: Float[Array, "p P"]
    var: Float[Array, "p P"]

    def below(self, weight: Float[Array, "p P"]) -> Float[Array, "p P"]:
        """The probability of less."""
        return self.parts.cdf(weight)

    def ends(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Values below and above all quantiles."""
        reach = _REACH * jnp.sqrt(self.parts.var)
        low = jnp.min(self.parts.mean - reach, axis=0)
        return low, jnp.max(self.parts.mean + reach, axis=0)

    def signs(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Probabilities of a negative and of a positive weight."""
        return self.prior.signs_of(self.parts)

    def inclusion(self) -> Float[Array, "p P"] | None:
        """The probability of one that is not (nearly) zero."""
        return self.prior.inclusion_of(self.parts)


@compiled
def _function_summary(
    parts: _Part,
    shares: Float[Array, " S"],
    level: float,
    scale: Float[Array, " D"] | None,
    function: int,
) -> tuple[tuple[Array, ...], Array | None]:
    """Moments, intervals, signs and inclusion of the weights, per unit of their column.

    Args:
        parts: posteriors at several values of the parameters, along a first axis.
        shares: their shares.
        level: the probability in the intervals.
        scale: the unit of each column.
        function: which latent function.
    """
    marginals = jax.lax.map(lambda part: _marginal(part, function), parts)

    def averaged(value: Callable[[_Marginal | _BlockMarginal], Any]) -> Any:
        each = jax.lax.map(value, marginals)
        return jax.tree.map(lambda x: jnp.tensordot(shares, x, axes=1), each)

    mean = jnp.tensordot(shares, marginals.mean, axes=1)
    spread = marginals.var + (marginals.mean - mean) ** 2
    deviation = jnp.sqrt(jnp.tensordot(shares, spread, axes=1))
    lower, upper = jax.lax.map(lambda part: part.ends(), marginals)
    low, high = jnp.min(lower, axis=0), jnp.max(upper, axis=0)

    def below(weight: Array) -> Array:
        return averaged(lambda part: part.below(weight))

    tail = 0.5 * (1.0 - level)
    ends = [_quantile(below, q, low, high) for q in (tail, 1.0 - tail)]
    negative, positive = averaged(lambda part: part.signs())
    inclusion = averaged(lambda part: part.inclusion())
    # sums over shares, which add up to one but for rounding
    negative, positive, inclusion = (
        jax.tree.map(lambda x: jnp.minimum(x, 1.0), x) for x in (negative, positive, inclusion)
    )
    unit = 1.0 if scale is None else 1.0 / scale[:, None]
    return (*(unit * x for x in (mean, deviation, *ends)), negative, positive), inclusion


def _marginal(part: _Part, function: int) -> _Marginal | _BlockMarginal:
    own, blocks = part.functions[function], part.model.blocks
    prior = part.model.prior_of_weights(function, part.columns)
    count = prior_size(prior)
    mean, var = (x[:count] for x in own.weights())
    if own.scales is not None:
        prior = own.scales.averaged(prior, mean.shape[1])
    about, width, proper = (x[:count] for x in own.cavities())
    # nothing but the prior knows of a weight that no row sees
    about = jnp.where(proper, about, 0.0)
    width = jnp.where(proper, width, _FLAT * prior.starting_variance())
    found = _Marginal(prior, about, width, mean, var)
    return found if blocks is None or prior.gaussian else _block_marginal(found, own, blocks)


def _block_marginal(
    alone: _Marginal, process: LinearProcess, columns: Sequence[Sequence[int]]
) -> _BlockMarginal:
    """The marginals where some weights are in blocks, from those as if all were alone."""
    prior = alone.prior
    assert isinstance(prior, AbstractScaleMixture)
    blocks = Blocks.from_columns(columns, alone.mean.dtype)
    of_blocks = jax.tree.map(lambda x: x[blocks.index[:, 0]], prior)
    shift, precision, proper = process.block_cavities()
    # nothing but the prior knows of weights that no row sees
    shift, precision = (
        jnp.where(proper.reshape(*proper.shape, *[1] * (x.ndim - 2)), x, 0.0)
        for x in (shift, precision)
    )
    own = block_components(of_blocks, Cavities(precision, shift, blocks.present))
    single = prior.components(alone.about, alone.width)
    shape = own.mean.shape[0], *alone.mean.shape
    parts = Components(
        *(blocks.put(jnp.broadcast_to(x, shape), y) for x, y in zip(single, own, strict=True))
    )
    return _BlockMarginal(prior, parts, alone.mean, alone.var)


def prior_size(prior: AbstractWeightPrior) -> int:
    """The number of weights that a prior has parameters for."""
    return jax.tree.leaves(prior)[0].shape[0]


def _quantile(
    below: Callable[[Array], Array], p: float, low: Array, high: Array
) -> Float[Array, "..."]:
    def halved(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        less = below(middle) < p
        return jnp.where(less, middle, low), jnp.where(less, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halved, (low, high))
    return 0.5 * (low + high)
