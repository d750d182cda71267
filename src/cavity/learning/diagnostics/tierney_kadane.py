r"""Tierney-Kadane probabilities: Laplace predictions as ratios of two evidences.

$$p(y_* \mid \mathbf y) = \frac{p(y_*, \mathbf y)}{p(\mathbf y)} \approx
\frac{Z_{LA}(\mathbf y, y_*)}{Z_{LA}(\mathbf y)}$$

Each evidence is Laplace's approximation about its own mode; the mode of the numerator has the new
row as one more row of the data. The errors of the two largely cancel. The Gaussian about the mode
of the data alone, over which the plain prediction averages, is not needed.
"""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.energy import Sites, energy
from cavity.inference.solvers.driver import Limits
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.inference.solvers.parallel import Parallel
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Data
from cavity.learning.data.validation import check_model
from cavity.learning.infer import NumericalError, checked_start
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import Laplace
from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.support import Support
from cavity.models.base import AbstractModel
from cavity.numerics.jit import compiled
from cavity.numerics.types import Array, Float
from cavity.numerics.validation import check_columns, check_finite, float_array


@with_one_blas_thread
def tierney_kadane(
    model: AbstractModel,
    X: ArrayLike,
    y: ArrayLike,
    X_new: ArrayLike,
    *,
    method: AbstractMethod | MCMC = Laplace(),
    rows: Mapping[str, ArrayLike] | None = None,
) -> np.ndarray:
    """Log predictive probabilities of classes by the correction of Tierney and Kadane.

    For classification by Laplace's method in a full GP, of two classes or, with a softmax, of
    many. It costs a search for a mode for each new row and class, from the mode of the data.

    Args:
        model: the model; its parameters are used as they are.
        X: inputs, (N, D).
        y: labels 0 to C - 1, (N,).
        X_new: new inputs, (n, D).
        method: Laplace's method, with its settings.
        rows: side data of the rows, as in `infer`.

    Returns:
        Log probabilities, (n, C), normalised over the classes.

    Raises:
        ValueError: for a model or data that this is not for.
        NumericalError: where a mode was not found.

    References:
        Tierney and Kadane (1986), eq. 2.2; Jylanki (2013), S54.
    """
    if not isinstance(method, Laplace) or model.sparse:
        raise ValueError("the correction is of Laplace() in a full GP: leave inducing=None")
    check_model(model, None, method)
    if model.likelihood.support is not Support.LABELS:
        raise ValueError("the correction gives probabilities of classes, and y are no labels")
    data, where = _with_room(model, X, y, X_new, rows)
    model, _, _ = checked_start(model, data, 0.0)
    jitter = jnp.zeros((), data.rows.x.dtype)
    labels = jnp.arange(number_of_classes(model.likelihood))
    problem = data.problem(model, method.approximation, jitter)
    sites, report = find_fixed_point(problem, method.solver)
    labels = labels.astype(data.rows.y.dtype)
    evidences = _log_evidences(model, data, method, sites, where, labels)
    log_evidence, settled = (np.asarray(x) for x in evidences)
    if not (report.converged and np.all(settled) and np.all(np.isfinite(log_evidence))):
        raise NumericalError(
            "Laplace's method found no mode for a new row; allow more max_sweeps, or look at the "
            "parameters (print the model)"
        )
    return log_evidence - np.logaddexp.reduce(log_evidence, axis=1, keepdims=True)


def _with_room(
    model: AbstractModel,
    X: ArrayLike,
    y: ArrayLike,
    X_new: ArrayLike,
    rows: Mapping[str, ArrayLike] | None,
) -> tuple[Data, Float[Array, "n D"]]:
    """Data with one more row, which is absent, and the new inputs."""
    prepare(X, y, rows=rows)
    inputs, outputs = float_array("X", X), float_array("y", y)
    if outputs.ndim != 1:
        raise ValueError(f"y must be one label per row, (N,), given shape {outputs.shape}")
    more = np.concatenate([np.asarray(inputs), np.asarray(inputs)[:1]])
    labels = np.append(np.asarray(outputs), np.nan).astype(outputs.dtype)
    side = None
    if rows is not None:
        side = {k: np.append(np.asarray(v), np.asarray(v)[0]) for k, v in rows.items()}
    data = prepare(more, labels, rows=side, missing="skip")
    where = float_array("X_new", X_new)
    check_columns("X_new", where, more.shape[1])
    check_finite("X_new", where)
    return data, jnp.asarray(where, data.rows.x.dtype)


@compiled
def _log_evidences(
    model: AbstractModel,
    data: Data,
    method: Laplace,
    sites: Sites,
    where: Float[Array, "n D"],
    labels: Float[Array, " C"],
) -> tuple[Float[Array, "n C"], Array]:
    """Log evidences of the data with each new row and label, and whether modes were found."""
    last = data.length - 1
    jitter = jnp.zeros((), data.rows.x.dtype)

    def one(place: Array, label: Array) -> tuple[Array, Array]:
        extended = eqx.tree_at(
            lambda d: (d.rows.x, d.rows.y, d.rows.presence),
            data,
            (
                data.rows.x.at[last].set(place),
                data.rows.y.at[last].set(label),
                data.rows.presence.at[last].set(1.0),
            ),
        )
        graph = extended.problem(model, method.approximation, jitter).graph()
        solver = method.solver
        limits = Limits(solver.tolerance, solver.max_sweeps, solver.step)
        found, record = Parallel(graph, limits).run(sites)
        return -energy(graph, found), record.converged

    def of_row(place: Array) -> tuple[Array, Array]:
        return jax.lax.map(lambda label: one(place, label), labels)

    return jax.lax.map(of_row, where)
