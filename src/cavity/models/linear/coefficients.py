"""What the posterior of a linear model says of its coefficients, one by one."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from cavity.models.linear.linear_model import LinearModel
from cavity.models.linear.process import LinearProcess
from cavity.models.posterior import AbstractPosterior, Posterior
from cavity.models.process import IndependentProcess
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.weights.base import AbstractWeightPrior, weight_by_weight

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
    inclusion: np.ndarray | None
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

    Args:
        posterior: `result.posterior` of a `LinearModel`.
        level: the probability in the central intervals.

    Raises:
        TypeError: for the posterior of another model.
        ValueError: for a level outside (0, 1).

    References:
        Jylanki (2013), S2 and S53: the tilted distributions.
    """
    if not isinstance(posterior, Posterior) or not isinstance(posterior.model, LinearModel):
        raise TypeError(
            "coefficients are those of a LinearModel: give result.posterior of one, given "
            f"{type(posterior).__name__}"
        )
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie strictly between 0 and 1, given {level}")
    model, process = posterior.model, posterior.process
    several = model.likelihood.latents > 1
    each = cast(IndependentProcess, process).functions if several else (process,)
    parts = [
        _of_function(model.prior_of_weights(i, posterior.n_inputs), one, level, model.scale)
        for i, one in enumerate(cast(tuple[LinearProcess, ...], each[: len(model.priors)]))
    ]
    joined = [
        None if rows[0] is None else np.concatenate([np.asarray(row) for row in rows], axis=1)
        for rows in zip(*parts, strict=True)
    ]
    names = ("mean", "deviation", "lower", "upper", "negative", "positive", "inclusion")
    vector = posterior.single and len(model.priors) == 1
    columns = [x[:, 0] if vector and x is not None else x for x in joined]
    found: dict[str, Any] = dict(zip(names, columns, strict=True))
    intercept = _intercept(posterior)
    if intercept is not None and vector and intercept[0].ndim:  # beside parameters
        intercept = intercept[0][:1].squeeze(), intercept[1][:1].squeeze()
    return Coefficients(**found, intercept=intercept)


def _intercept(posterior: Posterior) -> tuple[np.ndarray, np.ndarray] | None:
    """The function where all columns are zero."""
    if cast(LinearModel, posterior.model).intercept is None:
        return None
    dtype = jax.tree.leaves(posterior.process)[0].dtype
    mean, var = posterior.marginals(np.zeros((1, posterior.n_inputs), dtype))
    return np.asarray(mean[0]), np.asarray(np.sqrt(var[0]))


@compiled
def _of_function(
    prior: AbstractWeightPrior,
    process: LinearProcess,
    level: float,
    scale: Float[Array, " D"] | None,
) -> tuple[Array | None, ...]:
    """Moments, intervals, signs and inclusion of the weights, per unit of their column."""
    count = prior_size(prior)
    mean, var = (x[:count] for x in process.weights())
    if process.scales is not None:
        prior = process.scales.averaged(prior, mean.shape[1])
    about, width, proper = (x[:count] for x in process.cavities())
    # nothing but the prior knows of a weight that no row sees
    about = jnp.where(proper, about, 0.0)
    width = jnp.where(proper, width, _FLAT * prior.starting_variance())

    def of_some(some: AbstractWeightPrior, m: Array, v: Array) -> tuple[Array | None, ...]:
        reach = _REACH * jnp.sqrt(v)
        low, high = jnp.minimum(m - reach, -reach), jnp.maximum(m + reach, reach)
        tail = 0.5 * (1.0 - level)
        ends = [_quantile(some, q, m, v, low, high) for q in (tail, 1.0 - tail)]
        return (*ends, *some.signs(m, v), some.inclusion(m, v))

    found: Any = weight_by_weight(of_some, prior, about, width)
    unit = 1.0 if scale is None else 1.0 / scale[:, None]
    return (*(unit * x for x in (mean, jnp.sqrt(var), *found[:2])), *found[2:])


def prior_size(prior: AbstractWeightPrior) -> int:
    """The number of weights that a prior has parameters for."""
    return jax.tree.leaves(prior)[0].shape[0]


def _quantile(
    prior: AbstractWeightPrior, p: Array | float, mean: Array, var: Array, low: Array, high: Array
) -> Float[Array, "..."]:
    def halved(_: Array | int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        below = prior.cdf(middle, mean, var) < p
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halved, (low, high))
    return 0.5 * (low + high)
