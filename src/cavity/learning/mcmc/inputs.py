"""Draws of inputs that are known up to Gaussian noise, with the function's values there."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike

from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.validation import check_domains
from cavity.learning.dispatch import check_sampler
from cavity.learning.failures import NumericalError
from cavity.learning.mcmc.chains import diagnosed
from cavity.learning.mcmc.problem import precision_times
from cavity.learning.methods.mcmc import MCMC
from cavity.models.gp import GP
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import cholesky, log_determinant
from cavity.numerics.text import plural
from cavity.numerics.types import Array, Bool, Float, Key, PRNGKeyArray, Scalar
from cavity.numerics.validation import check_columns, check_finite, check_magnitude, float_array

HELD = ("function", "values")
# Random walks are adapted to this acceptance, by steps that shrink with this power of the sweeps.
ACCEPTANCE, SHRINKING = 0.4, 0.6


@dataclasses.dataclass(frozen=True, eq=False)
class InputDraws:
    """Draws of the inputs of C chains, after the warm-up.

    Attributes:
        inputs: (C, S, N, D).
        values: of the function at these inputs, (C, S, N), or (C, S, N, P) of a matrix of outputs.
        acceptance: share of random walks accepted, by chain and row, (C, N).
        known: which inputs are known, because their variance is 0, (N, D).
    """

    inputs: np.ndarray
    values: np.ndarray
    acceptance: np.ndarray
    known: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Posterior means of the inputs, (N, D)."""
        return self.inputs.mean(axis=(0, 1))

    @property
    def var(self) -> np.ndarray:
        """Posterior variances of the inputs, (N, D)."""
        return self.inputs.var(axis=(0, 1))

    def rhat(self) -> np.ndarray:
        """Rank-normalised split R-hat of the inputs, (N, D), 1 of known ones; needs blackjax."""
        return np.where(self.known, 1.0, diagnosed(self.inputs)[0])

    def ess(self) -> np.ndarray:
        """Bulk effective sample sizes of the inputs, (N, D); it needs blackjax.

        That of a known input is the number of draws.
        """
        chains, draws = self.inputs.shape[:2]
        return np.where(self.known, float(chains * draws), diagnosed(self.inputs)[1])


@with_one_blas_thread
def draw_inputs(
    model: GP,
    mean: ArrayLike,
    var: ArrayLike,
    y: ArrayLike,
    *,
    hold: str = "function",
    sampler: MCMC = MCMC(),
    jitter: float = 1e-8,
) -> InputDraws:
    r"""Draws inputs $x_n \sim \mathcal N(m_n, v_n)$ given outputs, by Metropolis within Gibbs.

    For regression with the full GP at fixed parameters, on up to some hundred rows: a sweep costs
    2 N Cholesky factors of N x N numbers, or twice as many with values held. With `mean` 0 and
    `var` 1 it is the posterior of the latent inputs of a GPLVM. A sweep moves each input twice,
    by a random walk and by a draw from its prior, and then draws the function's values at all
    inputs given the outputs. What is held while an input moves is a choice of the sampler; the
    posterior is the same:

    - "function": the function itself. Its value at the proposed place is drawn given the values
      that are known (retrospective sampling), and what decides is how well it explains the output.
    - "values": the values that the function has at the inputs. What decides is the prior density
      of these values at the proposed inputs. Chains move little where values pin inputs down.

    Args:
        model: a full GP with Gaussian noise.
        mean: of the inputs, (N, D).
        var: of the inputs, (N, D), 0 for those that are known.
        y: outputs, (N,), or (N, P) of P functions.
        hold: "function" or "values".
        sampler: its `draws`, `warmup`, `chains` and `seed` count.
        jitter: share of the mean prior variance on the diagonal of covariances of values; that
            variance is the mean over inputs at `mean` and one deviation to either side of it.

    Raises:
        ValueError: for unusable data, another `hold`, a negative jitter, models with inducing
            variables, several functions for one output or other noise, and parameters outside
            their domains.
        TypeError: for data that are not numbers, in 32-bit mode, and for another kind of model or
            sampler.
        NumericalError: where the values' covariance is not positive definite with this jitter.

    References:
        van der Wilk (2018), items 76 to 78 with erratum X-22; Adams, Murray and MacKay (2009);
        Papaspiliopoulos and Roberts (2008).
    """
    if hold not in HELD:
        raise ValueError(f'hold must be "function" or "values", given {hold!r}')
    check_sampler(sampler)
    problem = _problem(model, (mean, var, y), jitter)
    keys = jax.random.split(jax.random.key(sampler.seed), sampler.chains)
    inputs, values, accepted = _chains(
        problem, keys, hold=hold, warmup=sampler.warmup, draws=sampler.draws
    )
    _check_draws(inputs, values, jitter)
    found = np.asarray(values)
    return InputDraws(
        np.asarray(inputs),
        found[..., 0] if np.ndim(y) == 1 else found,
        np.asarray(accepted),
        np.asarray(problem.deviation) == 0.0,
    )


class _Problem(NamedTuple):
    """A model and its rows; `nugget` is put on the diagonal of covariances."""

    model: GP
    mean: Float[Array, "N D"]
    deviation: Float[Array, "N D"]
    y: Float[Array, "N P"]
    noise: Float[Array, " P"]
    nugget: Scalar


class _State(NamedTuple):
    """A chain: inputs in deviations from their means, values there, logarithms of steps."""

    units: Float[Array, "N D"]
    values: Float[Array, "N P"]
    log_step: Float[Array, " N"]


class _Step(NamedTuple):
    """Result of a move: whether it was accepted, and the probability of that."""

    accepted: Bool[Array, ""]
    acceptance_probability: Scalar


def _problem(model: GP, given: tuple[Any, Any, Any], jitter: float) -> _Problem:
    """Checked data, with a model that chains of inputs are for."""
    _check_model(model)
    if not isinstance(jitter, float | int | np.number) or not 0.0 <= jitter < np.inf:
        raise ValueError(f"jitter must be a finite number of at least 0, given {jitter!r}")
    mean, var, y = (float_array(n, a) for n, a in zip(("mean", "var", "y"), given, strict=True))
    check_columns("mean", mean)
    for name, array in (("mean", mean), ("var", var), ("y", y)):
        check_finite(name, array)
        check_magnitude(name, array, small=False)
    if var.shape != mean.shape or np.any(np.asarray(var) < 0.0):
        raise ValueError(
            f"var must be of the shape of mean, {mean.shape}, and not negative; given shape "
            f"{var.shape} with {float(np.min(np.asarray(var), initial=0.0)):.3g} the smallest"
        )
    if y.ndim not in (1, 2) or len(y) != len(mean):
        raise ValueError(f"y must have {len(mean)} rows as mean has, given shape {y.shape}")
    wide = np.result_type(mean.dtype, var.dtype, y.dtype)
    if wide != np.float64:
        raise TypeError(
            "inputs are drawn with 64-bit numbers: give float64 inside "
            "`with jax.enable_x64(True):`"
        )
    mean, var, y = (jnp.asarray(a, wide) for a in (mean, var, y))
    Y = y if y.ndim == 2 else y[:, None]
    kernel = model.covariances[0]
    deviation = jnp.sqrt(var)
    spread = [kernel.diag(X) for X in (mean, mean - deviation, mean + deviation)]
    problem = _Problem(
        model, mean, deviation, Y, _noise(model, Y.shape[1]), jitter * jnp.mean(jnp.stack(spread))
    )
    means = _prior_mean(problem, mean).shape[1]
    if means not in (1, Y.shape[1]):
        raise ValueError(
            f"the mean has {plural(means, 'value')} for each input, y has "
            f"{plural(Y.shape[1], 'output')}: give a mean of one value, or of one per output"
        )
    return problem


def _check_model(model: GP) -> None:
    if not isinstance(model, GP):
        raise TypeError(
            f"inputs are drawn for a Gaussian process, given {type(model).__name__}: give "
            "cavity.GP(kernel, likelihoods.Gaussian())"
        )
    if model.inducing is not None or len(model.kernels) > 1 or len(model.means) > 1:
        raise ValueError(
            "inputs are drawn for the full GP with one kernel and mean: leave inducing out"
        )
    if model.likelihood.gaussian_noise is None:
        raise ValueError(
            f"inputs are drawn for Gaussian noise, given {type(model.likelihood).__name__}: give "
            "the model likelihoods.Gaussian()"
        )
    check_domains(model)


def _noise(model: GP, outputs: int) -> Float[Array, " P"]:
    """The noise variance of each output."""
    found = model.likelihood.gaussian_noise
    assert found is not None
    variance = jnp.asarray(found.noise_variance(), float)
    if variance.shape not in ((), (1,), (outputs,)):
        raise ValueError(
            f"the likelihood has noise variances of shape {variance.shape}, y has "
            f"{plural(outputs, 'output')}: give one variance, or one per output"
        )
    return jnp.broadcast_to(variance, (outputs,))


def _check_draws(inputs: Array, values: Array, jitter: float) -> None:
    """Raises NumericalError for draws that are not finite."""
    if np.all(np.isfinite(np.asarray(inputs))) and np.all(np.isfinite(np.asarray(values))):
        return
    raise NumericalError(
        "the covariance of the function's values is not positive definite at inputs that a chain "
        f"came to, with a jitter of {jitter:g} of the mean prior variance: give a larger jitter "
        "(1e-6, say), leave out all but one of equal inputs that are known, and see that the "
        "kernel is not zero at all inputs"
    )


@compiled
def _chains(
    problem: _Problem, keys: Key[Array, " C"], *, hold: str, warmup: int, draws: int
) -> tuple[Array, Array, Array]:
    """Inputs, values and acceptance of all chains."""
    rows = problem.mean.shape[0]

    def chain(key: PRNGKeyArray) -> tuple[Array, Array, Array]:
        first, second, loop = jax.random.split(key, 3)
        units = jax.random.normal(first, problem.mean.shape, problem.mean.dtype)
        values = _values(problem, units, second)
        state = _State(units, values, jnp.zeros(rows, units.dtype))

        def sweep(state: _State, at: tuple[Array, Array]) -> tuple[_State, tuple]:
            key, rate = at
            state, accepted = _sweep(problem, state, key, rate, hold)
            return state, (problem.mean + problem.deviation * state.units, state.values, accepted)

        adaptation_rates = jnp.arange(1.0, warmup + 1.0) ** -SHRINKING
        rates = jnp.concatenate([adaptation_rates, jnp.zeros(draws)]).astype(units.dtype)
        _, found = jax.lax.scan(sweep, state, (jax.random.split(loop, warmup + draws), rates))
        inputs, values, accepted = (a[warmup:] for a in found)
        return inputs, values, jnp.mean(accepted.astype(units.dtype), axis=0)

    return jax.vmap(chain)(keys)


def _sweep(
    problem: _Problem, state: _State, key: PRNGKeyArray, rate: Scalar, hold: str
) -> tuple[_State, Bool[Array, " N"]]:
    """Every input by a random walk and by a draw from its prior, then the values."""
    rows = problem.mean.shape[0]
    last, own = jax.random.split(key)

    def row(state: _State, at: tuple[Array, Array]) -> tuple[_State, Array]:
        n, keys = at
        state, walk = _move(problem, state, n, keys[0], hold, independent=False)
        step = state.log_step.at[n].add(rate * (walk.acceptance_probability - ACCEPTANCE))
        state, _ = _move(
            problem, state._replace(log_step=step), n, keys[1], hold, independent=True
        )
        return state, walk.accepted

    each = (jnp.arange(rows), jax.random.split(own, (rows, 2)))
    state, accepted = jax.lax.scan(row, state, each)
    return state._replace(values=_values(problem, state.units, last)), accepted


def _move(
    problem: _Problem, state: _State, n: Array, key: PRNGKeyArray, hold: str, *, independent: bool
) -> tuple[_State, _Step]:
    """One input to another place, or not."""
    by, values_key, decision = jax.random.split(key, 3)
    old = state.units[n]
    noise = jax.random.normal(by, old.shape, old.dtype)
    new = noise if independent else old + jnp.exp(state.log_step[n]) * noise
    units = state.units.at[n].set(new)
    if hold == "function":
        values = state.values.at[n].set(_value_at(problem, state, n, new, values_key))
        change = _log_likelihood(problem, n, values[n]) - _log_likelihood(
            problem, n, state.values[n]
        )
    else:
        values = state.values
        change = _log_prior(problem, units, values) - _log_prior(problem, state.units, values)
    # a draw from the prior has its density in the proposal, which cancels that of the prior
    if not independent:
        change = change + 0.5 * (jnp.sum(old**2) - jnp.sum(new**2))
    accepted = jnp.log(jax.random.uniform(decision, (), old.dtype)) < change
    moved = state._replace(
        # where the decision is undefined the chain ends in NaN: a move refused would hide it
        units=jnp.where(jnp.isnan(change), change, jnp.where(accepted, units, state.units)),
        values=jnp.where(accepted, values, state.values),
    )
    return moved, _Step(accepted, jnp.exp(jnp.minimum(change, 0.0)))


def _factor(
    problem: _Problem, units: Float[Array, "N D"]
) -> tuple[Float[Array, "N N"], Float[Array, "N 1"], Float[Array, "N D"]]:
    """The Cholesky factor of the values' prior covariance, their prior mean, and the inputs."""
    kernel = problem.model.covariances[0]
    X = problem.mean + problem.deviation * units
    index = jnp.arange(X.shape[0])
    K = kernel.cross(X, X).at[index, index].set(kernel.diag(X) + problem.nugget)
    return cholesky(K), _prior_mean(problem, X), X


def _prior_mean(problem: _Problem, X: Float[Array, "N D"]) -> Float[Array, "N Q"]:
    found = problem.model.means[0](X)
    return found[:, None] if found.ndim == 1 else found


def _value_at(
    problem: _Problem,
    state: _State,
    n: Array,
    new: Float[Array, " D"],
    key: PRNGKeyArray,
) -> Float[Array, " P"]:
    """The function at another place, drawn given its values at the inputs."""
    kernel = problem.model.covariances[0]
    L, prior, X = _factor(problem, state.units)
    x = (problem.mean[n] + problem.deviation[n] * new)[None]
    both = jnp.concatenate([kernel.cross(X, x), state.values - prior], axis=1)
    half = solve_triangular(L, both, lower=True)
    weights, known = half[:, 0], half[:, 1:]
    var = jnp.maximum(kernel.diag(x)[0] + problem.nugget - weights @ weights, 0.0)
    noise = jax.random.normal(key, known.shape[1:], known.dtype)
    return _prior_mean(problem, x)[0] + weights @ known + jnp.sqrt(var) * noise


def _values(
    problem: _Problem, units: Float[Array, "N D"], key: PRNGKeyArray
) -> Float[Array, "N P"]:
    """The function's values at the inputs, given these and the outputs."""
    L, prior, _ = _factor(problem, units)
    first, second = jax.random.normal(key, (2, *problem.y.shape), problem.y.dtype)
    drawn = L @ first  # of the prior, to be corrected by what outputs say (Matheron's rule)
    missed = problem.y - prior - drawn - jnp.sqrt(problem.noise) * second
    K = L @ L.T

    def one(noise: Scalar, residual: Float[Array, " N"]) -> Float[Array, " N"]:
        return K @ precision_times(K, jnp.full_like(residual, noise), residual)

    return prior + drawn + jax.vmap(one, (0, 1), 1)(problem.noise, missed)


def _log_likelihood(problem: _Problem, n: Array, values: Float[Array, " P"]) -> Scalar:
    return -0.5 * jnp.sum((problem.y[n] - values) ** 2 / problem.noise)


def _log_prior(
    problem: _Problem, units: Float[Array, "N D"], values: Float[Array, "N P"]
) -> Scalar:
    """The log density of values under the process, up to a constant."""
    L, prior, _ = _factor(problem, units)
    half = solve_triangular(L, values - prior, lower=True)
    return -0.5 * (jnp.sum(half**2) + values.shape[1] * log_determinant(L))
