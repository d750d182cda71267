"""GPJax: see the package for what the functions are."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import gpjax as gpx
import jax
import jax.numpy as jnp
import numpy as np
import optax

jax.config.update("jax_enable_x64", True)
Problem = dict[str, np.ndarray]


def _data(p: Problem) -> Any:
    return gpx.Dataset(X=jnp.asarray(p["X"]), y=jnp.asarray(p["y"][:, None]))


def _joint(p: Problem) -> Any:
    kernel = gpx.kernels.RBF(
        lengthscale=jnp.asarray(p["lengthscale"]), variance=jnp.asarray(float(p["variance"]))
    )
    prior = gpx.gps.Prior(
        mean_function=gpx.mean_functions.Zero(), kernel=kernel, jitter=float(p["jitter"])
    )
    deviation = jnp.asarray(float(np.sqrt(p["noise"])))
    return prior * gpx.likelihoods.Gaussian(obs_stddev=deviation)


def _model(p: Problem, method: str) -> tuple[Any, Any]:
    """The model, and its log evidence or bound as a function of model and data."""
    if method == "exact":
        return _joint(p), gpx.objectives.conjugate_mll
    family = gpx.variational_families.CollapsedVariationalGaussian
    model = family(model=_joint(p), inducing_inputs=jnp.asarray(p["Z"]))
    return model, gpx.objectives.collapsed_elbo


def evaluation(p: Problem, method: str) -> Callable[[], float]:
    model, objective = _model(p, method)
    data = _data(p)
    both = eqx.filter_jit(eqx.filter_value_and_grad(objective))

    def call() -> float:
        value, _ = jax.block_until_ready(both(model, data))
        return float(value)

    return call


def step(p: Problem) -> Callable[[], float]:
    """One iteration of the library's `fit`, compiled by itself."""
    family = gpx.variational_families.WhitenedVariationalGaussian
    model = family(model=_joint(p), inducing_inputs=jnp.asarray(p["Z"]))
    adam, N = optax.adam(float(p["rate"])), len(p["X"])
    X, y, batches = p["X"], p["y"][:, None], iter(p["batches"])

    def move(model: Any, state: Any, X: Any, y: Any) -> Any:
        def loss(model: Any) -> Any:
            return -gpx.objectives.elbo(model, gpx.Dataset(X=X, y=y, n_total=N))

        value, slope = eqx.filter_value_and_grad(loss)(model)
        updates, state = adam.update(slope, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, value

    # weakly typed leaves would be compiled for anew after the first step
    model = jax.tree.map(lambda a: jnp.asarray(a, a.dtype) if eqx.is_array(a) else a, model)
    compiled: Any = eqx.filter_jit(move)
    now = [model, adam.init(eqx.filter(model, eqx.is_array))]

    def call() -> float:
        rows = next(batches)
        *now[:], value = jax.block_until_ready(compiled(*now, X[rows], y[rows]))
        return -float(value)

    return call


def _predict(model: Any, data: Any, X: Any) -> tuple[Any, Any]:
    f = model.condition(data)(X, covariance="diagonal")
    return f.mean, f.variance


def prediction(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    model, data, X = _model(p, method)[0], _data(p), jnp.asarray(p["X_test"])
    posterior = eqx.filter_jit(lambda m, d: m.condition(d))(model, data)

    @eqx.filter_jit
    def marginals(posterior: Any, X: Any) -> tuple[Any, Any]:
        f = posterior(X, covariance="diagonal")
        return f.mean, f.variance

    def call() -> tuple[np.ndarray, np.ndarray]:
        mean, var = marginals(posterior, X)
        return np.asarray(mean), np.asarray(var)

    return call


def fit(
    p: Problem, record: Callable[[float], bool], iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """By `fit_lbfgs`: `fit_scipy` is BFGS on a dense matrix over all parameters."""
    model, objective = _model(p, "vfe")
    data = _data(p)
    record(float(objective(model, data)))

    def loss(model: Any, data: Any) -> Any:
        return -objective(model, data)

    model, last = gpx.fit_lbfgs(model=model, objective=loss, train_data=data, max_iters=iterations)
    record(-float(last))
    mean, var = eqx.filter_jit(_predict)(model, data, jnp.asarray(p["X_test"]))
    noise = float(gpx.parameters.val(model.model.likelihood.obs_stddev)) ** 2
    return np.asarray(mean), np.asarray(var) + noise
