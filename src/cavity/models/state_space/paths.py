r"""Paths of states: particles that go through functions drawn from their posterior.

How much of a function a path keeps is a choice. With a new draw of the functions at every step
("fresh") a path visits values that no single function has. With "inducing" the inducing variables
are drawn once per path, and what they leave unexplained at every step. With "exact" the values at
every step are conditioned on all earlier ones of the path, which takes a triangle per path.

References:
    Bui (2017), S44; van der Wilk (2018), item 81.
"""

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from cavity.inference.graph.rows import Rows
from cavity.inference.variables.inducing import InducingBelief
from cavity.inference.variables.inducing_view import InducingView
from cavity.kernels.base import AbstractKernel
from cavity.models.deep.layer import LayerProcess
from cavity.models.process import TakesGaussianInputs
from cavity.models.state_space.propagation import StateBelief
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import safe_sqrt, semidefinite_root
from cavity.numerics.types import Array, Float, Int, PRNGKeyArray, PyTree, Scalar

# The least variance of a value given earlier ones, as a share of its own.
LEAST_SHARE = 1e-12
# Bytes that triangles of exact draws may take.
MOST_BYTES = 1 << 31


def sampled_paths(
    functions: LayerProcess,
    start: StateBelief,
    controls: Float[Array, "S K C"],
    count: int,
    draws: str = "inducing",
    *,
    key: PRNGKeyArray,
) -> Float[Array, "count S K D"]:
    """Paths of the next K states of S series, which share the functions drawn for a path.

    Args:
        functions: the transition, with process noise.
        start: beliefs about the last states.
        controls: of the K steps; C may be zero.
        count: the number of paths.
        draws: `fresh`, `inducing` or `exact`: how much of a function a path keeps.
        key: `jax.random.key(...)`.

    Raises:
        ValueError: for an unknown name of draws, and for exact draws that need too much memory.
    """
    if draws not in DRAWS:
        raise ValueError(f"draws must be one of {', '.join(DRAWS)}, given {draws!r}")
    series, steps = controls.shape[:2]
    if draws == "exact":
        groups = len(cast(TakesGaussianInputs, functions.process).sparse_functions())
        needed = count * series * steps**2 * groups * controls.dtype.itemsize
        if needed > MOST_BYTES:
            raise ValueError(
                f'{count} paths of {steps} steps with draws="exact" need {needed:,} bytes: use '
                'fewer paths or steps, or draws="inducing"'
            )
    return _sampled(functions, StateBelief(*start), controls, count, draws, key)


@compiled
def _sampled(
    functions: LayerProcess,
    start: StateBelief,
    controls: Array,
    count: int,
    draws: str,
    key: PRNGKeyArray,
) -> Float[Array, "count S K D"]:
    began, steps_key = _particles(functions, start, (count, controls.shape[1]), draws, key)

    def advance(particles: Particles, step: tuple[Array, Array]) -> tuple[Particles, Array]:
        particles = _advanced(functions, particles, *step)
        return particles, particles.states

    keys = jax.random.split(steps_key, controls.shape[1])
    _, paths = jax.lax.scan(advance, began, (jnp.swapaxes(controls, 0, 1), keys))
    return jnp.moveaxis(paths, 0, 2)


class Particles(NamedTuple):
    """States at one time, and what paths keep of the functions drawn for them.

    Attributes:
        states: of every path and series.
        drawn: of every path.
    """

    states: Float[Array, "N S D"]
    drawn: "AbstractDraws"


def _particles(
    functions: LayerProcess, start: StateBelief, shape: tuple[int, int], draws: str, key: Any
) -> tuple[Particles, PRNGKeyArray]:
    """Initial particles of `shape`, (paths, steps), and a key for their steps."""
    (count, steps), (series, size) = shape, start.mean.shape
    first, functions_key, steps_key = jax.random.split(key, 3)
    z = jax.random.normal(first, (count, series, size), start.mean.dtype)
    states = start.mean + jnp.einsum("sde,nse->nsd", semidefinite_root(start.cov), z)
    drawn = DRAWS[draws].start(functions, (count, series, steps), functions_key)
    return Particles(states, drawn), steps_key


def _advanced(
    functions: LayerProcess, particles: Particles, x: Float[Array, "S C"], key: Any
) -> Particles:
    """Particles one step on."""
    count, series, size = particles.states.shape
    flat = particles.states.reshape(count * series, size)
    inputs = functions.with_inputs(flat, jnp.tile(x, (count, 1)))
    return Particles(*particles.drawn.values(functions, inputs.reshape(count, series, -1), key))


def filtered_densities(
    functions: LayerProcess,
    start: StateBelief,
    controls: Float[Array, "S K C"],
    densities: Callable[[Float[Array, "N D"], PyTree], Float[Array, " N"]],
    observed: PyTree,
    count: int,
    draws: str,
    key: PRNGKeyArray,
) -> Float[Array, "S K"]:
    """Log densities of all that is observed of a series up to each step, by particle filters.

    The same quantity as the average over paths of products over steps, which few of many paths
    would decide: here paths go on from those that explain what is observed, with what they keep
    of their functions.

    Args:
        functions: the transition, with process noise.
        start: beliefs about the last states.
        controls: of the K steps.
        densities: of what is observed at a step given states, in logarithms.
        observed: arrays with leading axes S and K.
        count: particles.
        draws: as in `sampled_paths`.
        key: `jax.random.key(...)`.
    """

    def series_density(series: tuple[StateBelief, Array, PyTree, Array]) -> Float[Array, " K"]:
        belief, x, rows, key = series
        belief = StateBelief(belief.mean[None], belief.cov[None])
        began, steps_key = _particles(functions, belief, (count, len(x)), draws, key)

        def advance(particles: Particles, step: tuple[Array, PyTree, Array]) -> Any:
            x, row, key = step
            step_key, chosen_key = jax.random.split(key)
            particles = _advanced(functions, particles, x[None], step_key)
            logs = densities(particles.states[:, 0], row)
            chosen = _resampled(logs, chosen_key)
            following = jax.tree.map(lambda a: a[chosen] if a.ndim else a, particles)
            return following, logsumexp(logs) - jnp.log(count)

        keys = jax.random.split(steps_key, len(x))
        _, terms = jax.lax.scan(advance, began, (x, rows, keys))
        return jnp.cumsum(terms)

    keys = jax.random.split(key, len(controls))
    return jax.lax.map(series_density, (start, controls, observed, keys))


def _resampled(logs: Float[Array, " N"], key: PRNGKeyArray) -> Int[Array, " N"]:
    """Particles in proportion to their densities, by one stratified draw."""
    share = jnp.cumsum(jax.nn.softmax(logs))
    at = (jnp.arange(len(logs)) + jax.random.uniform(key, dtype=share.dtype)) / len(logs)
    return jnp.minimum(jnp.searchsorted(share, at * share[-1]), len(logs) - 1)


class AbstractDraws(eqx.Module):
    """Function draws of paths, and the parts of them that a path keeps.

    To implement:
        `start(functions, shape, key)` and `values(functions, inputs, key)`.
    """

    @staticmethod
    @abc.abstractmethod
    def start(
        functions: LayerProcess, shape: tuple[int, int, int], key: PRNGKeyArray
    ) -> "AbstractDraws":
        """Before the first step.

        Args:
            functions: under their posterior.
            shape: numbers of paths, series and steps.
            key: of what is drawn once.
        """

    @abc.abstractmethod
    def values(
        self, functions: LayerProcess, inputs: Float[Array, "N S E"], key: PRNGKeyArray
    ) -> tuple[Float[Array, "N S W"], "AbstractDraws"]:
        """Values of the functions with process noise, and what paths keep after them."""


class Fresh(AbstractDraws):
    """Nothing: functions are drawn anew at every step."""

    @staticmethod
    def start(functions: LayerProcess, shape: tuple[int, int, int], key: PRNGKeyArray) -> "Fresh":
        return Fresh()

    def values(
        self, functions: LayerProcess, inputs: Float[Array, "N S E"], key: PRNGKeyArray
    ) -> tuple[Float[Array, "N S W"], "Fresh"]:
        mean, var = functions.moments(inputs.reshape(-1, inputs.shape[2]))
        values = mean + safe_sqrt(var) * jax.random.normal(key, mean.shape, mean.dtype)
        return values.reshape(*inputs.shape[:2], -1), self


class Inducing(AbstractDraws):
    """The inducing variables.

    Attributes:
        drawn: whitened, for each group of functions.
    """

    drawn: tuple[Float[Array, "N W M"], ...]

    @staticmethod
    def start(
        functions: LayerProcess, shape: tuple[int, int, int], key: PRNGKeyArray
    ) -> "Inducing":
        return Inducing(_inducing_draws(functions, shape[0], key))

    def values(
        self, functions: LayerProcess, inputs: Float[Array, "N S E"], key: PRNGKeyArray
    ) -> tuple[Float[Array, "N S W"], "Inducing"]:
        means, residuals = [], []
        for (view, _), drawn in zip(_groups(functions), self.drawn, strict=True):
            mean, residual, _ = _given_inducing(view, drawn, inputs)
            means.append(mean)
            residuals.append(jnp.broadcast_to(residual[..., None], mean.shape))
        mean, var = jnp.concatenate(means, axis=2), jnp.concatenate(residuals, axis=2)
        return _with_noise(functions, inputs, mean, var, key), self


class Earlier(NamedTuple):
    """Earlier inputs of one group of functions, and what their values differ by from the mean.

    Attributes:
        inputs: with zeros for steps that are to come.
        loadings: of the inducing variables.
        root: lower Cholesky factors of the covariances that inducing variables leave, the
            identity for steps that are to come.
        noise: the values are these times the root.
    """

    inputs: Float[Array, "N S K E"]
    loadings: Float[Array, "N S K M"]
    root: Float[Array, "N S K K"]
    noise: Float[Array, "N S K W"]


class Exact(AbstractDraws):
    """All values, on which later ones are conditioned; each series by itself.

    Attributes:
        drawn: whitened inducing variables, for each group of functions.
        earlier: inputs and values, for each group of functions.
        step: how many there are.
    """

    drawn: tuple[Float[Array, "N W M"], ...]
    earlier: tuple[Earlier, ...]
    step: Array

    @staticmethod
    def start(functions: LayerProcess, shape: tuple[int, int, int], key: PRNGKeyArray) -> "Exact":
        drawn, steps = _inducing_draws(functions, shape[0], key), shape[2]
        earlier = []
        for (view, _), values in zip(_groups(functions), drawn, strict=True):
            dtype, columns = values.dtype, view.inducing(lambda x: x).shape[1]
            root = jnp.broadcast_to(jnp.eye(steps, dtype=dtype), (*shape[:2], steps, steps))
            widths = columns, values.shape[2], values.shape[1]
            inputs, loadings, noise = (jnp.zeros((*shape, n), dtype) for n in widths)
            earlier.append(Earlier(inputs, loadings, root, noise))
        return Exact(drawn, tuple(earlier), jnp.zeros((), int))

    def values(
        self, functions: LayerProcess, inputs: Float[Array, "N S E"], key: PRNGKeyArray
    ) -> tuple[Float[Array, "N S W"], "Exact"]:
        values, after = [], []
        groups = _groups(functions)
        noise_key, *keys = jax.random.split(key, 1 + len(groups))
        zipped = zip(groups, self.drawn, self.earlier, keys, strict=True)
        for (view, _), drawn, earlier, group_key in zipped:
            mean, residual, loadings = _given_inducing(view, drawn, inputs)
            z = jax.random.normal(group_key, mean.shape, mean.dtype)
            conditioned = jax.vmap(jax.vmap(_conditioned, (None, None, 0, 0)), (None, None, 0, 0))
            away, grown = conditioned(
                view.kernel, self.step, earlier, (inputs, loadings, residual, z)
            )
            values.append(mean + away)
            after.append(grown)
        mean = jnp.concatenate(values, axis=2)
        noisy = _with_noise(functions, inputs, mean, jnp.zeros_like(mean), noise_key)
        return noisy, Exact(self.drawn, tuple(after), self.step + 1)


DRAWS: dict[str, type[AbstractDraws]] = {"fresh": Fresh, "inducing": Inducing, "exact": Exact}


def _conditioned(
    kernel: AbstractKernel,
    step: Array,
    earlier: Earlier,
    new: tuple[Float[Array, " E"], Float[Array, " M"], Scalar, Float[Array, " W"]],
) -> tuple[Float[Array, " W"], Earlier]:
    """Deviations of functions at a new input from their mean given inducing variables."""
    x, a, residual, z = new
    present = jnp.arange(len(earlier.inputs)) < step
    cross = kernel.cross(earlier.inputs, x[None])[:, 0] - earlier.loadings @ a
    row = solve_triangular(earlier.root, jnp.where(present, cross, 0.0), lower=True)
    least = LEAST_SHARE * (residual + jnp.sum(a**2))
    scale = jnp.sqrt(jnp.maximum(residual - jnp.sum(row**2), least))
    away = row @ earlier.noise + scale * z
    # rows from this step on are not used yet, and row is zero there
    return away, Earlier(
        earlier.inputs.at[step].set(x),
        earlier.loadings.at[step].set(a),
        earlier.root.at[step].set(row.at[step].set(scale)),
        earlier.noise.at[step].set(z),
    )


def _groups(functions: LayerProcess) -> Sequence[tuple[InducingView, InducingBelief]]:
    return cast(TakesGaussianInputs, functions.process).sparse_functions()


def _inducing_draws(
    functions: LayerProcess, count: int, key: PRNGKeyArray
) -> tuple[Float[Array, "N W M"], ...]:
    """Draws of the whitened inducing variables of each group of functions."""
    drawn, groups = [], _groups(functions)
    for (_, belief), group_key in zip(groups, jax.random.split(key, len(groups)), strict=True):
        z = jax.random.normal(group_key, (count, *belief.mean.shape), belief.mean.dtype)
        # B⁻¹ = RᵀR
        values = belief.mean + jnp.einsum("gkm,ngrk->ngrm", belief.root, z)
        drawn.append(values.reshape(count, -1, values.shape[-1]))
    return tuple(drawn)


def _given_inducing(
    view: InducingView, drawn: Float[Array, "N W M"], inputs: Float[Array, "N S E"]
) -> tuple[Float[Array, "N S W"], Float[Array, "N S"], Float[Array, "N S M"]]:
    """Means of functions at inputs given inducing variables, their variance, and loadings."""
    flat = inputs.reshape(-1, inputs.shape[2])
    y = jnp.zeros((len(flat), view.mean.outputs), flat.dtype)
    projection = view.project(Rows(flat, y, y))
    assert projection.loadings is not None
    loadings = projection.loadings.T.reshape(*inputs.shape[:2], -1)
    mean = jnp.einsum("nwm,nsm->nsw", drawn, loadings)
    return mean, projection.residual.reshape(inputs.shape[:2]), loadings


def _with_noise(
    functions: LayerProcess, inputs: Float[Array, "N S E"], mean: Array, var: Array, key: Any
) -> Float[Array, "N S W"]:
    """Values with their prior means, variances of their own and process noise."""
    if functions.noise_variance is not None:
        var = var + functions.noise_variance
    prior = functions.mean(inputs.reshape(-1, inputs.shape[2])).reshape(mean.shape)
    return mean + prior + safe_sqrt(var) * jax.random.normal(key, mean.shape, mean.dtype)
