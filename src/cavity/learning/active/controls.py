"""Active learning of dynamics: the controls whose trajectory would tell most of the functions."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.active.sample_entropy import sample_entropy
from cavity.learning.active.suggest import check_joint
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.results.result import posterior_of
from cavity.models.deep.layer import LayerProcess
from cavity.models.process import AbstractProcess, SparseProcess
from cavity.models.state_space.paths import sampled_paths
from cavity.models.state_space.propagation import StateBelief
from cavity.numerics.validation import check_columns, check_finite, float_array


@dataclasses.dataclass(frozen=True)
class ControlSuggestion:
    """The controls to apply next.

    Attributes:
        best: the number of the sequence among the candidates, counted from 0.
        information: of each sequence, mutual information of its trajectory and the functions, an
            estimate in nats; differences count.
    """

    best: int
    information: np.ndarray


@with_one_blas_thread
def suggest_controls(
    posterior: Any,
    start: ArrayLike,
    controls: ArrayLike,
    *,
    paths: int = 500,
    neighbours: int = 3,
    seed: int = 0,
) -> ControlSuggestion:
    r"""Active learning of dynamics: the sequence of controls with the most informative trajectory.

    The model gives the next state from state and control, as in `cavity.GP(kernel,
    likelihoods.Gaussian(), inducing.Points(Z), means.Identity(D))` on rows $(\mathbf x_t, \mathbf
    u_t)$ with outputs $\mathbf x_{t+1}$. The information is the entropy of the trajectory less
    its mean entropy given the functions. The first is estimated from trajectories through
    functions drawn from the posterior, each consistent along its trajectory; the second is that
    of the noise, the same for all sequences.

    Args:
        posterior: of a sparse `GP` with one output for each column of the state; or the result
            that it is of.
        start: the state from which the controls are applied, (D,).
        controls: candidate sequences, (S, K, C), or (S, K) of one control.
        paths: trajectories per sequence.
        neighbours: of the entropy estimator.
        seed: of random numbers; trajectories of all sequences share the functions drawn.

    Raises:
        ValueError: for arrays that do not suit the model, and too few paths.
        TypeError: for a model that is no sparse `GP` with Gaussian noise.

    References:
        Bui (2017), S52; Kozachenko and Leonenko (1987).
    """
    posterior = posterior_of(posterior)
    functions = _next_state(posterior)
    u = float_array("controls", controls)
    u = u[:, :, None] if u.ndim == 2 else u
    if u.ndim != 3 or 0 in u.shape[:2]:
        raise ValueError(
            "controls are sequences, (S, K, C) or (S, K) of one control, at least one of at "
            f"least one step; given shape {np.shape(controls)}"
        )
    check_finite("controls", u)
    x = float_array("start", start).reshape(1, -1)
    check_columns("start", x, functions.width)
    check_finite("start", x)
    columns = posterior.n_inputs - functions.width
    if u.shape[2] != columns:
        raise ValueError(
            f"the model has {posterior.n_inputs} inputs, {functions.width} of them states, so "
            f"{columns} are controls; given {u.shape[2]}"
        )
    count, steps = u.shape[:2]
    mean = jnp.broadcast_to(jnp.asarray(x), (count, functions.width))
    belief = StateBelief(mean, jnp.zeros((count, functions.width, functions.width), mean.dtype))
    key = jax.random.key(seed)
    drawn = sampled_paths(functions, belief, jnp.asarray(u), paths, "exact", key=key)
    trajectories = np.moveaxis(np.asarray(drawn, float), 1, 0).reshape(count, paths, -1)
    entropies = np.array([sample_entropy(each, neighbours) for each in trajectories])
    noise = np.broadcast_to(np.asarray(functions.noise_variance, float), (functions.width,))
    given = 0.5 * steps * float(np.sum(np.log(2.0 * math.pi * math.e * noise)))
    information = entropies - given
    return ControlSuggestion(int(np.argmax(information)), information)


def _next_state(posterior: Any) -> LayerProcess:
    """The functions of a model of next states, with their noise.

    Raises:
        TypeError: for a model that is no sparse `GP` with Gaussian noise.
        ValueError: for outputs that cannot be states.
    """
    check_joint(posterior)
    process = _sparse(posterior.process)
    noise = posterior.model.likelihood.gaussian_noise
    if process is None or noise is None:
        raise TypeError(
            "trajectories are drawn from a sparse cavity.GP with Gaussian noise: give the model "
            "inducing=cavity.inducing.Points(Z), at the inputs of all rows where they are few"
        )
    if posterior.known_noise or posterior.outputs > posterior.n_inputs:
        raise ValueError(
            "the model is to have states and controls as inputs, the next states as outputs, and "
            f"noise of one variance; given {posterior.n_inputs} inputs, {posterior.outputs} "
            "outputs" + (" and a noise variance per row" if posterior.known_noise else "")
        )
    variance = jnp.asarray(noise.noise_variance())
    return LayerProcess(process, process.view.mean, variance, skip_connection=True)


@functools.singledispatch
def _sparse(process: AbstractProcess) -> SparseProcess | None:
    """The process itself where it is that of a sparse GP."""
    return None


@_sparse.register
def _(process: SparseProcess) -> SparseProcess:
    return process
