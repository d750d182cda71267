r"""Corrected marginals: the factorised correction of a Gaussian posterior by its own sites.

The posterior has a site t in place of each likelihood term. Given a value of the function at
one input, the other values are still Gaussian, and the error of each site can be averaged:

$$\tilde p(f_*) \propto q(f_*) \prod_n
\Big( \mathbb E_{q(f_n \mid f_*)}\Big[\frac{p(y_n \mid f_n)^a}{t_n(f_n)^a}\Big] \Big)^{1/a}$$

The factors are the scales of the sites at the conditional marginals, as in the energy.
"""

import dataclasses
from collections.abc import Mapping
from typing import NoReturn, cast

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.approximations.local_terms import EvaluationPoint, PowerMeanTerm
from cavity.inference.energy import Sites, beliefs, projected
from cavity.inference.factors.local import LocalFactor
from cavity.inference.graph.base import AbstractProjectedBelief, AbstractProjectedView
from cavity.inference.graph.rows import Rows
from cavity.inference.problem import Problem
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.validation import check_model
from cavity.learning.dispatch import dispatch
from cavity.learning.infer import (
    NumericalError,
    checked_start,
    infer_from,
)
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.predictive.base import check_outputs, possible
from cavity.models.base import AbstractModel
from cavity.models.posterior import AbstractPosterior
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.numerics.validation import (
    check_columns,
    check_finite,
    check_side,
    check_side_names,
    float_array,
)

# Values of the function, in deviations of its Gaussian marginal.
GRID = np.linspace(-8.0, 8.0, 65)
# What is left of a row's variance where the place is the row itself.
LEAST = 1e-10


@dataclasses.dataclass(frozen=True)
class ImprovedMarginals:
    """Marginal densities of the latent function on grids.

    Attributes:
        grid: values of f, (n, S), evenly spaced.
        log_density: log densities there, normalised, (n, S).
        gaussian_mean: means of the Gaussian marginals that were improved, (n,).
        gaussian_var: their variances, (n,).
        model: the model.
        converged: whether the sites that were used had converged.
        message: how they came about.
    """

    grid: np.ndarray
    log_density: np.ndarray
    gaussian_mean: np.ndarray
    gaussian_var: np.ndarray
    model: AbstractModel
    converged: bool
    message: str

    @property
    def weights(self) -> np.ndarray:
        """Probabilities of the values of the grid, (n, S), summing to one."""
        return np.exp(self.log_density) * (self.grid[:, 1:2] - self.grid[:, :1])

    @property
    def mean(self) -> np.ndarray:
        """Means of f, (n,)."""
        return np.sum(self.weights * self.grid, axis=1)

    @property
    def var(self) -> np.ndarray:
        """Variances of f, (n,)."""
        return np.sum(self.weights * (self.grid - self.mean[:, None]) ** 2, axis=1)

    def log_predictive_density(
        self, y: ArrayLike, *, rows: Mapping[str, ArrayLike] | None = None
    ) -> np.ndarray:
        """Log density of an output at each place under its improved marginal, (n,).

        Args:
            y: outputs, (n,).
            rows: side data of the places, as in `posterior.predict`.

        Raises:
            ValueError: for outputs or side data that do not suit the places.
        """
        likelihood, dtype = self.model.likelihood, self.grid.dtype
        outputs = np.asarray(y, dtype)
        check_outputs(jnp.asarray(outputs), jnp.asarray(self.gaussian_mean))
        columns = check_side(rows, len(outputs))
        side = {name: jnp.asarray(v)[:, None] for name, v in columns.items()}
        check_side_names(side, likelihood.side, "this likelihood")
        inside, safe = possible(likelihood, jnp.asarray(outputs))
        log = np.asarray(likelihood.log_prob(jnp.asarray(self.grid), safe[:, None], **side))
        with np.errstate(divide="ignore"):
            terms = np.log(self.weights) + log
        return np.where(np.asarray(inside), np.logaddexp.reduce(terms, axis=1), -np.inf)


@with_one_blas_thread
def improve_marginals(
    model: AbstractModel,
    X: ArrayLike,
    y: ArrayLike,
    X_new: ArrayLike,
    *,
    power: ArrayLike = 1.0,
    method: AbstractMethod | MCMC = PowerEP(),
    jitter: float = 1e-8,
    rows: Mapping[str, ArrayLike] | None = None,
) -> ImprovedMarginals:
    """Marginals of the latent function at some places, corrected for what sites get wrong.

    They are skewed where the posterior is, and much closer to it than the Gaussian ones where
    data are few; the cost is N one-dimensional integrals for each place and each of 65 values.

    Args:
        model: the model; its parameters are used as they are.
        X: inputs, (N, D).
        y: outputs, (N,).
        X_new: where the marginals are wanted, (n, D); rows of X among them.
        power: a number in [0, 1]; for other methods than `PowerEP` the correction takes 1.
        method: any but `TiedPowerEP`.
        jitter: as in `infer`.
        rows: side data of the rows, as in `infer`.

    Returns:
        Densities on grids, their means and variances.

    Raises:
        ValueError: for a method or data that this is not for.
        NumericalError: where a correction is not finite.

    References:
        Jylanki (2013), S53; Cseke and Heskes (2011), the factorised corrections.
    """
    method = dispatch(method, lambda approximate: approximate, _refuse_chains)
    check_model(model, None, method)
    if method.approximation.tied or model.likelihood.latents > 1:
        raise ValueError(
            "improved marginals are for a site per row and one latent function: use PowerEP() or "
            "Laplace()"
        )
    data = prepare(X, y, power=power, rows=rows)
    if not data.single or data.rows.power is not None:
        raise ValueError("improved marginals take one output and one power for all rows")
    model, _, first = checked_start(model, data, jitter)
    where = float_array("X_new", X_new)
    check_columns("X_new", where, data.rows.x.shape[-1])
    check_finite("X_new", where)
    result = infer_from(model, data, method, first)
    if result.found is None:
        raise ValueError("the posterior is exact with Gaussian noise: there is nothing to improve")
    problem = data.problem(model, method.approximation, result.jitter)
    places = jnp.asarray(where, data.rows.x.dtype)
    corrections = [
        _corrected(problem, model.likelihood, result.found, result.posterior, place)
        for place in places[:, None]
    ]
    grid, log, mean, var = (np.stack([np.asarray(c[i]) for c in corrections]) for i in range(4))
    log = _normalised(log, grid)
    if not np.all(np.isfinite(log)):
        raise NumericalError(
            "a correction is not finite: a site is more certain than what the others leave at "
            "some value of the function; use a smaller power"
        )
    return ImprovedMarginals(grid, log, mean, var, model, result.converged, result.message)


def _refuse_chains(sampler: MCMC) -> NoReturn:
    raise ValueError(
        "MCMC() draws from the posterior and has no sites, which this needs; use PowerEP() or "
        "Laplace()"
    )


@compiled
def _corrected(
    problem: Problem,
    likelihood: AbstractLikelihood,
    sites: Sites,
    posterior: AbstractPosterior,
    place: Float[Array, "1 D"],
) -> tuple[Array, Array, Array, Array]:
    """Values of f at a place, their log densities up to a constant, and the Gaussian moments."""
    graph = problem.graph()
    (belief,) = q = projected(beliefs(graph, sites))
    factor, (store,) = graph.only_factor(), sites
    power = factor.power if factor.evaluation_point is EvaluationPoint.CAVITY else 1.0
    term = PowerMeanTerm(likelihood)
    plain = LocalFactor(factor.edges, factor.rows, factor.chunk, term, power)
    mean, var = (x[0, 0] for x in posterior.moments(place))
    ((z, spread),) = plain.moments(q)
    cross = _with_place(posterior, belief, plain, place)

    def gain(value: Array) -> Array:
        # the rows given the value: Gaussian, and narrower
        moved = z[:, 0] + cross * (value - mean) / var
        left = jnp.maximum(spread[:, 0] - cross**2 / var, LEAST * spread[:, 0])
        return plain.log_scale(q, store, ((moved[:, None], left[:, None]),))

    values = mean + jnp.sqrt(var) * jnp.asarray(GRID, var.dtype)
    return values, -0.5 * (values - mean) ** 2 / var + jax.lax.map(gain, values), mean, var


def _with_place(
    posterior: AbstractPosterior,
    belief: AbstractProjectedBelief,
    factor: LocalFactor,
    place: Float[Array, "1 D"],
) -> Float[Array, " N"]:
    """Covariances of what the rows see with the function at a place."""
    rows = factor.rows
    view = cast(AbstractProjectedView, factor.edges[0].view)
    A = view.project(rows).loadings
    if A is None:  # rows see values of the function
        return posterior.covariance(jnp.concatenate([place, rows.x]))[0, 0, 1:]
    a = view.project(Rows(place, jnp.zeros((1, 1)), jnp.ones((1, 1)))).loadings
    assert a is not None
    _, cov = belief.dense()
    # aᵀ B⁻¹ a*
    return A.T @ (cov[0] @ a[:, 0])


def _normalised(log: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Log densities on evenly spaced values that integrate to one."""
    log = log - log.max(axis=1, keepdims=True)
    step = grid[:, 1:2] - grid[:, :1]
    return log - np.log(np.sum(np.exp(log), axis=1, keepdims=True) * step)
