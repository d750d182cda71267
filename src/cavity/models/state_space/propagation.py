r"""Gaussian beliefs about a state, carried from step to step with their full covariances.

A state $\mathbf x \sim \mathcal N(\boldsymbol\mu, \mathbf S)$ becomes $f(\mathbf x, \mathbf c) +
\boldsymbol\epsilon$. Functions are independent of each other at a known input; at a Gaussian one
they are not, because all of them see the same $\mathbf x$: the covariances of their means are what
a forecast of several steps must not leave out.

References:
    Bui (2017), S41 and S44; Deisenroth et al. (2009) for the covariances between functions.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, cast, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import inducing_points
from cavity.inference.variables.inducing_view import OutputMean
from cavity.kernels.expectations import GaussianInputs, covariance_forms
from cavity.kernels.expectations.inputs import map_inputs
from cavity.kernels.expectations.nodes import node_inputs, standard_nodes
from cavity.models.deep.layer import LayerProcess
from cavity.models.process import TakesGaussianInputs
from cavity.models.state_space.views import state_inputs
from cavity.numerics.jit import compiled
from cavity.numerics.linalg import safe_sqrt
from cavity.numerics.types import Array, Float


class StateBelief(NamedTuple):
    """Gaussian beliefs about one state in each of S series.

    Attributes:
        mean: means.
        cov: covariances.
    """

    mean: Float[Array, "*S D"]
    cov: Float[Array, "*S D D"]


@runtime_checkable
class StateFunctions(Protocol):
    """Functions of states and controls that are Gaussian at every known input."""

    @property
    def width(self) -> int:
        """The number of functions."""
        ...

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n W"], Float[Array, "n W"]]:
        """Means and variances of the functions at known inputs, noise included."""
        ...

    def with_inputs(self, values: Float[Array, "n D"], x: Float[Array, "n C"]) -> Array:
        """Inputs of the functions: states, and the controls if they see them."""
        ...


class AffineFunctions(NamedTuple):
    """Known affine functions of the states.

    Attributes:
        mean: the functions.
    """

    mean: OutputMean

    @property
    def width(self) -> int:
        """The number of functions."""
        return self.mean.outputs

    def moments(self, X: Float[Array, "n D"]) -> tuple[Float[Array, "n W"], Float[Array, "n W"]]:
        """The functions at known states, with variance zero."""
        mean = self.mean(X)
        return mean, jnp.zeros_like(mean)

    def with_inputs(self, values: Float[Array, "n D"], x: Float[Array, "n C"]) -> Array:
        """The states: known functions do not see controls."""
        return values


def propagated(
    functions: LayerProcess, start: StateBelief, controls: Float[Array, "S K C"], rule: str
) -> StateBelief:
    """Beliefs about the next K states of S series, (S, K, D) and (S, K, D, D).

    Args:
        functions: the transition, with process noise.
        start: beliefs about the last states.
        controls: of the K steps; C may be zero.
        rule: `moments` for exact means and covariances of each step's outcome, of which only
            these are kept; `linearised` for those of the tangent at the mean.
    """
    return _propagated(functions, StateBelief(*start), controls, rule)


@compiled
def _propagated(
    functions: LayerProcess, start: StateBelief, controls: Array, rule: str
) -> StateBelief:
    step = RULES[rule]

    def advance(belief: StateBelief, x: Array) -> tuple[StateBelief, StateBelief]:
        after = step(functions, inputs_of(functions, belief, x))
        return after, after

    _, beliefs = jax.lax.scan(advance, start, jnp.swapaxes(controls, 0, 1))
    return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), beliefs)


def inputs_of(
    functions: StateFunctions, belief: StateBelief, x: Float[Array, "n C"]
) -> GaussianInputs:
    """Inputs of functions at uncertain states: these, and the controls where they see them."""
    size = belief.mean.shape[1]
    known = functions.with_inputs(belief.mean, x)[:, size:]
    return state_inputs(belief.mean, belief.cov, known)


def moments_under(functions: LayerProcess, inputs: GaussianInputs) -> StateBelief:
    """Means and covariances of the outputs of a layer at Gaussian inputs, which are exact.

    Of functions with kernels or inducing points of their own, correlations are computed at nodes.
    """
    mean, within, between = functions.moments_under(inputs)
    cov = between[:, :, None]
    if functions.width > 1:
        several = len(cast(TakesGaussianInputs, functions.process).sparse_functions()) > 1
        cov = (_node_covariances if several else _closed_form_covariances)(functions, inputs)
        cov = _with_variances(cov, between)
    return StateBelief(mean, cov + _diagonal(within))


def tangent_under(functions: StateFunctions, inputs: GaussianInputs) -> StateBelief:
    r"""The outputs of the tangent at the mean input.

    Covariances are $\mathbf J \mathbf S \mathbf J^\top$ and the variances of the functions at the
    mean input.
    """

    def mean_at(x: Array) -> Array:
        return functions.moments(x[None])[0][0]

    mean, within = functions.moments(inputs.mean)
    slopes = jax.vmap(jax.jacfwd(mean_at))(inputs.mean)
    cov = slopes @ inputs.cov @ jnp.swapaxes(slopes, 1, 2)
    between = jnp.maximum(jnp.diagonal(cov, axis1=1, axis2=2), 0.0)
    return StateBelief(mean, _with_variances(cov, between) + _diagonal(within))


RULES: dict[str, Callable[[LayerProcess, GaussianInputs], StateBelief]] = {
    "moments": moments_under,
    "linearised": tangent_under,
}


def _closed_form_covariances(
    functions: LayerProcess, inputs: GaussianInputs
) -> Float[Array, "n W W"]:
    """Covariances of the means of functions that share a kernel and inducing points."""
    process = cast(TakesGaussianInputs, functions.process)
    ((view, belief),) = process.sparse_functions()
    weights = belief.mean.reshape(-1, view.root.shape[0]) @ view.root
    first, second = np.triu_indices(functions.width)
    pairs = weights[first][:, :, None] * weights[second][:, None, :]
    forms = covariance_forms(view.kernel, inputs, inducing_points(view.inducing), pairs)
    cov = jnp.zeros((len(forms), functions.width, functions.width), forms.dtype)
    cov = cov.at[:, first, second].set(forms).at[:, second, first].set(forms)
    if functions.mean.mean.constant:
        return cov
    slopes = jax.vmap(jax.jacfwd(lambda x: functions.mean(x[None])[0]))(inputs.mean)
    # cov(Wᵀx + g(x)) = Wᵀ S W + Wᵀ S E∇g + (Wᵀ S E∇g)ᵀ + cov(g), by Stein's identity
    both = 0.5 * jnp.swapaxes(slopes, 1, 2) + process.slopes_under(inputs)
    added = slopes @ inputs.cov @ both
    return cov + added + jnp.swapaxes(added, 1, 2)


def _node_covariances(functions: LayerProcess, inputs: GaussianInputs) -> Float[Array, "n W W"]:
    """Covariances of the means of any functions, at nodes that stand for the inputs."""
    columns = inputs.uncertain
    assert columns is not None
    standard, weights = standard_nodes(len(columns))

    def chunk(rows: GaussianInputs) -> Float[Array, "n W W"]:
        places = node_inputs(rows, columns, standard)
        values, _ = functions.moments(places.reshape(-1, places.shape[2]))
        values = values.reshape(*places.shape[:2], -1)
        share = jnp.asarray(weights, values.dtype)
        away = values - jnp.einsum("s,nsp->np", share, values)[:, None]
        return jnp.einsum("s,nsp,nsq->npq", share, away, away)

    return map_inputs(chunk, inputs, len(weights) * functions.process.size)


def _with_variances(
    cov: Float[Array, "n W W"], variances: Float[Array, "n W"]
) -> Float[Array, "n W W"]:
    """The same correlations, at most one in size, with these variances."""
    rounded = jnp.maximum(jnp.diagonal(cov, axis1=1, axis2=2), jnp.finfo(cov.dtype).tiny)
    scale = safe_sqrt(variances / rounded)
    limit = safe_sqrt(variances)
    most = limit[:, :, None] * limit[:, None, :]
    cov = jnp.clip(scale[:, :, None] * cov * scale[:, None, :], -most, most)
    diagonal = jnp.eye(cov.shape[1], dtype=bool)
    return jnp.where(diagonal, variances[:, :, None], 0.5 * (cov + jnp.swapaxes(cov, 1, 2)))


def _diagonal(variances: Float[Array, "n W"]) -> Float[Array, "n W W"]:
    return variances[:, :, None] * jnp.eye(variances.shape[1], dtype=variances.dtype)
