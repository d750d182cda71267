"""Starting values of state-space models: states that predict the future from the past."""

import dataclasses
from typing import NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import Points
from cavity.inference.energy import Sites
from cavity.inference.factors.tied import TiedSite, raw_of
from cavity.inference.variables.chain import ChainMoments
from cavity.kernels.base import AbstractKernel
from cavity.kernels.stationary import RBF
from cavity.learning.data.scales import Scales, in_data_units
from cavity.learning.initialisation.deep import tied_site
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import Identity, Linear
from cavity.models.deep.layer import Layer, LayerProcess
from cavity.models.process import TakesGaussianInputs
from cavity.models.state_space.conditional import sites_towards
from cavity.models.state_space.gpssm import GPSSM
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.numerics.chunking import padded_size
from cavity.numerics.types import Array

# Rows of the past and of the future that states are found from, per state.
LAGS = 3
# Ridge of regressions, as a share of the mean square of their columns.
RIDGE = 1e-4
# The least share of its variance that is called noise, of a state and of an output.
LEAST_NOISE = 1e-3
# Linear transitions keep at most this share of a state from row to row.
MOST_GROWTH = 0.995
# The least log width of sites on states that a search starts from.
LEAST_WIDTH = 0.01
# Variances of the functions beside linear ones that are tried.
SHARES = (0.3, 0.03)
# Deviations of states that a search starts from, in deviations of the process noise.
DEVIATION = 0.5


@dataclasses.dataclass(frozen=True)
class StateSpaceStart:
    """A state-space model as it was asked for, where it is learned from a linear one.

    Attributes:
        states: hidden states.
        points: inducing points at the most.
        emission: "linear", or "identity" where outputs observe the states themselves.
        kernel: covariance function, for states and controls of unit variance; None for an RBF.
        likelihood: density of an output; None for Gaussian noise, one variance per output.
        seed: of the clusters that place inducing points.
    """

    states: int
    points: int = 30
    emission: str = "linear"
    kernel: AbstractKernel | None = None
    likelihood: AbstractLikelihood | None = None
    seed: int = 0

    def observes_states(self, outputs: int) -> bool:
        """True where outputs observe the states themselves.

        Raises:
            ValueError: for another word, and for an identity with other than one state per output.
        """
        if self.emission not in ("linear", "identity"):
            raise ValueError(f'emission must be "linear" or "identity", given {self.emission!r}')
        if self.emission == "identity" and self.states != outputs:
            raise ValueError(
                f"where outputs observe the states, there is one state per output: {outputs}, "
                f"given {self.states}"
            )
        return self.emission == "identity"


class LinearStart(NamedTuple):
    """A linear state-space model by regression.

    Attributes:
        states: of every row (T, D), each of unit variance.
        transition: weights of the next state, of the states and controls (D + C, D), and its
            bias; scaled down where states would grow without limit.
        process_noise: variances of what these leave.
        emission: weights of the outputs (D, P), and their bias.
        noise: variances of what these leave.
    """

    states: np.ndarray
    transition: tuple[np.ndarray, np.ndarray]
    process_noise: np.ndarray
    emission: tuple[np.ndarray, np.ndarray]
    noise: np.ndarray


def filled_in_time(Y: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Outputs, linear in time between observed ones of their series; zero where there are none."""
    filled = np.array(Y, float)
    for label in np.unique(series):
        rows = np.flatnonzero(series == label)
        for column in range(Y.shape[1]):
            seen = rows[~np.isnan(Y[rows, column])]
            values = np.interp(rows, seen, Y[seen, column]) if len(seen) else 0.0
            filled[rows, column] = values
    return filled


def subspace_states(Y: np.ndarray, X: np.ndarray, series: np.ndarray, dims: int) -> np.ndarray:
    """States of every row (T, D): leading components of the future as the past predicts it.

    The future is the outputs of some rows from the row on. It is regressed on the outputs and
    controls up to the row and on the controls that come; the part that the former predict spans
    the states, as in subspace identification.

    Args:
        Y: outputs (T, P), none missing.
        X: controls (T, C).
        series: labels of series.
        dims: states.

    References:
        Van Overschee and De Moor (1996).
    """
    lags = max(1, LAGS * -(-dims // Y.shape[1]))
    past = [_moved(a, series, -k) for k in range(lags) for a in (Y, X)]
    future = np.concatenate([_moved(Y, series, k) for k in range(lags)], axis=1)
    coming = [_moved(X, series, k) for k in range(1, lags)]
    before = np.concatenate(past, axis=1)
    after = np.concatenate([*coming, np.ones((len(Y), 1))], axis=1)
    weights = ridge(np.concatenate([before, after], axis=1), future)
    predicted = before @ weights[: before.shape[1]]
    predicted = predicted - predicted.mean(axis=0)
    _, sizes, directions = np.linalg.svd(predicted, full_matrices=False)
    states = predicted @ directions[:dims].T
    if states.shape[1] < dims:
        states = np.pad(states, [(0, 0), (0, dims - states.shape[1])])
    spread = states.std(axis=0)
    usable = spread > 1e-8 * max(float(sizes[0]), np.finfo(float).tiny)
    random = np.random.default_rng(0).standard_normal(states.shape)
    return np.where(usable, states / np.where(usable, spread, 1.0), 0.1 * random)


def lagged_states(Y: np.ndarray, series: np.ndarray, dims: int) -> np.ndarray:
    """States of every row (T, D): its outputs and the ones before, of unit variance.

    Functions of them are those of an autoregression. Of the longest lag there may be only the
    first outputs.

    Args:
        Y: outputs (T, P), none missing.
        series: labels of series.
        dims: states.
    """
    lags = -(-dims // Y.shape[1])
    states = np.concatenate([_moved(Y, series, -k) for k in range(lags)], axis=1)[:, :dims]
    spread = states.std(axis=0)
    return (states - states.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def linear_start(
    Y: np.ndarray, X: np.ndarray, series: np.ndarray, states: np.ndarray
) -> LinearStart:
    """The linear state-space model that goes with some states.

    Args:
        Y: outputs (T, P), none missing.
        X: controls (T, C).
        series: labels of series.
        states: of every row (T, D).
    """
    linked = np.flatnonzero(series[1:] == series[:-1]) + 1
    ones = np.ones((len(Y), 1))
    inputs = np.concatenate([states[linked - 1], X[linked], ones[linked]], axis=1)
    moves = ridge(inputs, states[linked])
    left = states[linked] - inputs @ moves
    process = np.mean(left**2, axis=0) if len(linked) else np.ones(states.shape[1])
    outputs = np.concatenate([states, ones], axis=1)
    weights = ridge(outputs, Y)
    noise = np.mean((Y - outputs @ weights) ** 2, axis=0)
    scale = Y.var(axis=0) + np.finfo(float).tiny
    return LinearStart(
        states,
        (_stable(moves[:-1]), moves[-1]),
        np.maximum(process, LEAST_NOISE),
        (weights[:-1], weights[-1]),
        np.maximum(noise, LEAST_NOISE * scale),
    )


def state_space_starts(
    asked: StateSpaceStart, Y: np.ndarray, X: np.ndarray, series: np.ndarray
) -> list[tuple[GPSSM, LinearStart]]:
    """Models to start from, each with the linear one that it is about.

    Args:
        asked: the model.
        Y: outputs (T, P), NaN where missing.
        X: controls (T, C).
        series: labels of series.
    """
    identity, states, kernel = asked.observes_states(Y.shape[1]), asked.states, asked.kernel
    filled = filled_in_time(Y, series)
    found = [filled] if identity else [subspace_states(filled, X, series, states)]
    if not identity and states >= Y.shape[1]:
        found.append(lagged_states(filled, series, states))
    columns = states + X.shape[1]
    if kernel is None:
        kernel = RBF(lengthscale=np.full(columns, columns**0.5))
    starts = list[tuple[GPSSM, LinearStart]]()
    for each in found:
        start = linear_start(filled, X, series, each)
        noise = Gaussian(start.noise) if asked.likelihood is None else asked.likelihood
        inputs = _inputs(start.states, X, series)
        chosen = select_inducing(kernel, inputs, asked.points, choice="kmeans", seed=asked.seed)
        Z = Points(chosen)
        emission = Identity(states) if identity else Linear(*start.emission)
        starts += [
            (GPSSM(_transition(start, X, Z, kernel, share), noise, emission), start)
            for share in SHARES
        ]
    return starts


def _inputs(states: np.ndarray, X: np.ndarray, series: np.ndarray) -> np.ndarray:
    """States and the controls that come; of all rows where none follows another."""
    linked = np.flatnonzero(series[1:] == series[:-1]) + 1
    if not len(linked):
        return np.concatenate([states, X], axis=1)
    return np.concatenate([states[linked - 1], X[linked]], axis=1)


def _transition(
    start: LinearStart, X: np.ndarray, Z: Points, kernel: AbstractKernel, share: float
) -> Layer:
    """Functions about those of a linear model, of a share of the states' variance."""
    zero, one = np.zeros(Z.Z.shape[1]), np.ones(Z.Z.shape[1])
    return Layer(
        in_data_units(kernel, Scales(zero, one, zero, share**0.5)),
        Z,
        start.states.shape[1],
        Linear(*start.transition),
        noise_variance=start.process_noise,
        skip_connection=X.shape[1] > 0,
    )


def starting_sites(start: LinearStart, *, coupled: bool) -> Sites:
    """The chain that a search starts from."""
    count, dims = start.states.shape
    more = padded_size(count) - count
    deviation = DEVIATION * np.sqrt(np.minimum(start.process_noise, 1.0))
    raw = np.broadcast_to(np.diag(np.log(deviation)), (count + more, dims, dims))
    mean = jnp.asarray(np.pad(start.states, [(0, more), (0, 0)]))
    chain = ChainMoments(mean, jnp.asarray(raw), jnp.zeros(raw.shape) if coupled else None)
    return ((chain,),)


def closed_form_before(method: PowerEP | TiedPowerEP) -> PowerEP | None:
    """The method from whose posterior the search starts; None where it starts from its own."""
    if method.hidden == "conditional":
        return PowerEP()
    tied = method.tied and not method.solver.rowwise
    return PowerEP(hidden="factorised") if tied else None


def sites_after(
    posterior: StateSpacePosterior, X: np.ndarray, method: PowerEP | TiedPowerEP
) -> Sites:
    """Initial sites of a search that continues from the posterior of `closed_form_before`.

    Args:
        posterior: with a chain of states.
        X: controls (T, C).
        method: how the search goes on.
    """
    if method.hidden == "conditional":
        return conditional_sites(posterior, X)
    transition, outputs = _tied_functions(posterior)
    raw = raw_of(jnp.linalg.cholesky(posterior.chain.cov))
    states = ChainMoments(posterior.chain.mean, raw, None)
    return ((*transition, None, states), (*outputs, None))


def conditional_sites(posterior: StateSpacePosterior, X: np.ndarray) -> Sites:
    """Tied sites, and sites on states given their functions, that make about the same posterior.

    Args:
        posterior: with a chain of states.
        X: controls (T, C).
    """
    chain, transition = posterior.chain, posterior.transition
    tied = [site for part in _tied_functions(posterior) for site in part]
    controls = jnp.asarray(np.pad(X, [(0, len(chain.mean) - len(X)), (0, 0)]))
    before, spread = (jnp.roll(a, 1, axis=0) for a in (chain.mean, chain.cov))
    f, _ = transition.moments(transition.with_inputs(before, controls))
    gain = jnp.linalg.solve(spread, chain.cross)
    left = chain.cov - jnp.swapaxes(chain.cross, 1, 2) @ gain  # cross is zero in first rows
    own = jnp.maximum(jnp.diagonal(left, axis1=1, axis2=2), jnp.finfo(f.dtype).tiny)
    labels, model = np.asarray(posterior.series), cast(GPSSM, posterior.model)
    linked = jnp.asarray(np.append(False, labels[1:] == labels[:-1]))[:, None]
    f = jnp.where(linked, f, model.initial_mean)
    noise = jnp.where(linked, cast(Array, transition.noise_variance), model.initial_variance)
    widths = jnp.clip(jnp.log(noise / own), LEAST_WIDTH, None)
    return ((*tied, sites_towards(f, chain.mean, widths, noise)),)


def _tied_functions(posterior: StateSpacePosterior) -> list[list[TiedSite]]:
    """Tied sites that make the beliefs about functions, of the transition and of the emission."""
    processes = [posterior.transition.process]
    if cast(GPSSM, posterior.model).emission.layers:
        processes.append(cast(LayerProcess, posterior.emission).process)
    sites = [
        [tied_site(belief) for _, belief in cast(TakesGaussianInputs, p).sparse_functions()]
        for p in processes
    ]
    return sites if len(sites) == 2 else [*sites, []]


def _stable(weights: np.ndarray) -> np.ndarray:
    """Weights of the next state whose powers do not grow."""
    size = weights.shape[1]
    growth = float(np.max(np.abs(np.linalg.eigvals(weights[:size]))))
    if growth <= MOST_GROWTH:
        return weights
    return np.concatenate([weights[:size] * (MOST_GROWTH / growth), weights[size:]])


def ridge(inputs: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    """Weights of a regression with a small penalty."""
    size = RIDGE * np.sum(inputs**2) / inputs.shape[1] + np.finfo(float).tiny
    gram = inputs.T @ inputs + size * np.eye(inputs.shape[1])
    return np.linalg.solve(gram, inputs.T @ outputs)


def _moved(values: np.ndarray, series: np.ndarray, by: int) -> np.ndarray:
    """The values of the row so many rows on; the nearest of the series where it ends before."""
    places = np.arange(len(values)) + by
    first = np.searchsorted(series, series, side="left")
    last = np.searchsorted(series, series, side="right") - 1
    return values[np.clip(places, first, last)]
