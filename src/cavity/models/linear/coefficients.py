"""Posterior summaries of the coefficients of a linear model, one by one."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.weights.blocks import Blocks
from cavity.likelihoods.capabilities import capability
from cavity.models.linear.drawn_weights import HasNamedWeights, KnownWeights
from cavity.models.linear.linear_model import LinearModel
from cavity.models.linear.process import LinearProcess
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
    if not isinstance(posterior, Posterior | MixturePosterior) or not isinstance(
        posterior.model, LinearModel
    ):
        raise TypeError(
            "coefficients are those of a LinearModel: give result.posterior of one, given "
            f"{_what(posterior)}"
        )
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, given {level}")
    model = posterior.model
    if isinstance(posterior, MixturePosterior) and _drawn(posterior) is not None:
        return coefficients_of_draws(posterior, level)
    if isinstance(posterior, MixturePosterior):
        parts, shares = posterior.parts, jnp.asarray(posterior.shares)
    else:
        parts: Any = jax.tree.map(lambda x: jnp.asarray(x)[None], posterior)
        shares = jnp.ones(1, jnp.asarray(jax.tree.leaves(posterior.process)[0]).dtype)
    each = [
        _function_summary(parts, shares, level, model.scale, i) for i in range(len(model.priors))
    ]
    joined = [
        None if rows[0] is None else np.concatenate([np.asarray(row) for row in rows], axis=1)
        for rows in zip(*each, strict=True)
    ]
    names = ("mean", "deviation", "lower", "upper", "negative", "positive", "inclusion")
    vector = posterior.single and len(model.priors) == 1
    columns = [x[:, 0] if vector and x is not None else x for x in joined]
    found: dict[str, Any] = dict(zip(names, columns, strict=True))
    intercept = _intercept(posterior)
    if intercept is not None and vector and intercept[0].ndim:  # beside parameters
        intercept = intercept[0][:1].squeeze(), intercept[1][:1].squeeze()
    return Coefficients(**found, intercept=intercept)


def _what(posterior: object) -> str:
    """Description of a posterior for messages, by its model where it has one."""
    if isinstance(posterior, Posterior | MixturePosterior):
        return f"that of a {type(posterior.model).__name__}"
    return type(posterior).__name__


def _drawn(posterior: MixturePosterior) -> HasNamedWeights | None:
    """The processes of draws, in which weights are known."""
    return capability(cast(Posterior, posterior.parts).process, HasNamedWeights)


def coefficients_of_draws(posterior: MixturePosterior, level: float) -> Coefficients:
    """Posterior marginals from draws of the weights; see `coefficients`."""
    process, model = cast(Any, posterior.parts).process, cast(LinearModel, posterior.model)
    weights, inclusion = _drawn_weights(process)
    weights = np.asarray(weights)
    share = np.ones_like(weights) if inclusion is None else np.asarray(inclusion)
    unit: Any = 1.0
    if model.scale is not None:
        unit = (1.0 / np.asarray(model.scale)).reshape(-1, *[1] * (weights.ndim - 2))
    if not posterior.single and weights.ndim == 2:
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
        intercept=_intercept(posterior),
    )


@compiled
def _drawn_weights(processes: KnownWeights) -> tuple[Array, Array | None]:
    """Weights of draws, and their probabilities of not being (nearly) zero, of equal shapes."""

    def one(process: KnownWeights) -> tuple[Array, Array | None]:
        model, weights = cast(LinearModel, process.model), process.named_weights()["weights"]
        columns = weights.reshape(len(weights), -1)
        every = model.weight_parts(len(weights))
        # an intercept follows the weights of each function
        parts = every if model.intercept is None else every[::2]
        found = [part.inclusion(w[:, None]) for part, w in zip(parts, columns.T, strict=True)]
        known = [x for x in found if x is not None]
        if len(known) < len(found):
            return weights, None
        return weights, jnp.concatenate(known, axis=1).reshape(weights.shape)

    return jax.lax.map(one, processes)


def _intercept(
    posterior: Posterior | MixturePosterior,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The function where all columns are zero."""
    if cast(LinearModel, posterior.model).intercept is None:
        return None
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
        parts: the products of priors and cavities, where some weights are in blocks; else None.
    """

    prior: AbstractWeightPrior
    about: Float[Array, "p P"]
    width: Float[Array, "p P"]
    mean: Float[Array, "p P"]
    var: Float[Array, "p P"]
    parts: Components | None = None

    def below(self, weight: Float[Array, "p P"]) -> Float[Array, "p P"]:
        """The probability of less."""
        if self.parts is None:
            return self.prior.cdf(weight, self.about, self.width)
        return self.parts.cdf(weight)

    def ends(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Values below and above all quantiles."""
        if self.parts is None:
            reach = _REACH * jnp.sqrt(self.width)
            low = jnp.minimum(self.about - reach, -reach)
            return low, jnp.maximum(self.about + reach, reach)
        reach = _REACH * jnp.sqrt(self.parts.var)
        low = jnp.min(self.parts.mean - reach, axis=0)
        return low, jnp.max(self.parts.mean + reach, axis=0)

    def signs(self) -> tuple[Float[Array, "p P"], Float[Array, "p P"]]:
        """Probabilities of a negative and of a positive weight."""
        if self.parts is None:
            return weight_by_weight(
                lambda prior, m, v: prior.signs(m, v), self.prior, self.about, self.width
            )
        return cast(AbstractScaleMixture, self.prior).signs_of(self.parts)

    def inclusion(self) -> Float[Array, "p P"] | None:
        """The probability of one that is not (nearly) zero."""
        if self.parts is None:
            return weight_by_weight(
                lambda prior, m, v: prior.inclusion(m, v), self.prior, self.about, self.width
            )
        return cast(AbstractScaleMixture, self.prior).inclusion_of(self.parts)


@compiled
def _function_summary(
    parts: Posterior,
    shares: Float[Array, " S"],
    level: float,
    scale: Float[Array, " D"] | None,
    function: int,
) -> tuple[Array | None, ...]:
    """Moments, intervals, signs and inclusion of the weights, per unit of their column.

    Args:
        parts: posteriors at several values of the parameters, along a first axis.
        shares: their shares.
        level: the probability in the intervals.
        scale: the unit of each column.
        function: which latent function.
    """
    marginals = jax.lax.map(lambda part: _marginal(part, function), parts)

    def averaged(value: Callable[[_Marginal], Any]) -> Any:
        each = jax.lax.map(value, marginals)
        return jax.tree.map(lambda x: jnp.tensordot(shares, x, axes=1), each)

    mean = jnp.tensordot(shares, marginals.mean, axes=1)
    spread = marginals.var + (marginals.mean - mean) ** 2
    deviation = jnp.sqrt(jnp.tensordot(shares, spread, axes=1))
    lower, upper = jax.lax.map(_Marginal.ends, marginals)
    low, high = jnp.min(lower, axis=0), jnp.max(upper, axis=0)

    def below(weight: Array) -> Array:
        return averaged(lambda part: part.below(weight))

    tail = 0.5 * (1.0 - level)
    ends = [_quantile(below, q, low, high) for q in (tail, 1.0 - tail)]
    negative, positive = averaged(_Marginal.signs)
    inclusion = averaged(_Marginal.inclusion)
    # sums over shares, which add up to one but for rounding
    negative, positive, inclusion = (
        jax.tree.map(lambda x: jnp.minimum(x, 1.0), x) for x in (negative, positive, inclusion)
    )
    unit = 1.0 if scale is None else 1.0 / scale[:, None]
    return (*(unit * x for x in (mean, deviation, *ends)), negative, positive, inclusion)


def _marginal(part: Posterior, function: int) -> _Marginal:
    model = cast(LinearModel, part.model)
    process: Any = part.process
    own = process.functions[function] if model.likelihood.latents > 1 else process
    prior = model.prior_of_weights(function, part.n_inputs)
    count = prior_size(prior)
    mean, var = (x[:count] for x in own.weights())
    if own.scales is not None:
        prior = own.scales.averaged(prior, mean.shape[1])
    about, width, proper = (x[:count] for x in own.cavities())
    # nothing but the prior knows of a weight that no row sees
    about = cast(Array, jnp.where(proper, about, 0.0))
    width = cast(Array, jnp.where(proper, width, _FLAT * prior.starting_variance()))
    found = _Marginal(prior, about, width, mean, var)
    return (
        found
        if model.blocks is None or prior.gaussian
        else _block_marginals(found, own, model.blocks)
    )


def _block_marginals(
    alone: _Marginal, process: LinearProcess, columns: Sequence[Sequence[int]]
) -> _Marginal:
    """The marginals where some weights are in blocks, from those as if all were alone."""
    prior = cast(AbstractScaleMixture, alone.prior)
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
    return alone._replace(parts=parts)


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
