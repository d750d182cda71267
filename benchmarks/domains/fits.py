"""One fit: M inducing variables of a kind, learned at power 0, judged on the test rows."""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods, parameters
from cavity.learning.optimisers.lbfgs import GracefulStop, Progress

# Rows on which the parameters of fixed ones are learned, by a full GP.
FIXED_ROWS = 1000


def start_inducing(
    kind: str, kernel: kernels.AbstractKernel, X: np.ndarray, M: int, C: int, seed: int
) -> inducing.AbstractInducing:
    """M variables of a kind; sums have C members of each of M clusters, with equal weights."""
    if kind != "sums":
        return cavity.initialisation.initial_inducing(kernel, X, M, kind=kind, seed=seed)
    random = np.random.default_rng(seed)
    centres = cavity.initialisation.select_inducing(kernel, X, M, choice="kmeans", seed=seed)
    distance = np.sum(X**2, axis=1)[:, None] - 2.0 * X @ centres.T + np.sum(centres**2, axis=1)
    nearest = np.argmin(distance, axis=1)
    members = []
    for m in range(M):
        own = np.flatnonzero(nearest == m)
        members.append(random.choice(own, C, replace=len(own) < C))
    places = X[np.concatenate(members)] + 1e-3 * random.standard_normal((M * C, X.shape[1]))
    return inducing.Combinations(inducing.Points(places), np.ones((M, C)))


def time_limit(seconds: float) -> Callable[[Progress], None]:
    """Ends learning after so many processor seconds, with the best model so far."""
    begun = time.process_time()

    def callback(_: Progress) -> None:
        if time.process_time() - begun > seconds:
            raise GracefulStop

    return callback


def fixed_parameters(X: np.ndarray, y: np.ndarray, seed: int = 0) -> cavity.GP:
    """A full GP learned on some of the rows, for its parameters."""
    some = np.random.default_rng(seed).permutation(len(y))[:FIXED_ROWS]
    start = cavity.GP(
        kernels.RBF(1.0, np.full(X.shape[1], np.sqrt(X.shape[1]))), likelihoods.Gaussian(0.1)
    )
    result = cavity.fit(start, X[some], y[some], callback=time_limit(30.0), tolerance=0.05)
    model: Any = result.model
    return model


def learned(
    table: tuple[np.ndarray, ...],
    *,
    kind: str,
    M: int,
    C: int,
    seconds: float,
    model: cavity.GP | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """What a fit gives, for a row of the table of results.

    Args:
        table: training inputs and targets, test inputs and targets.
        kind: "points", "windows", "waves", "slopes", or "sums" of points.
        M: variables.
        C: points in each sum.
        seconds: of processor time, after which learning ends.
        model: a GP whose parameters are kept; None to learn them.
        seed: of the start.
    """
    X, y, X_test, y_test = table
    D = X.shape[1]
    held = model is not None
    given = model or cavity.GP(kernels.RBF(1.0, np.full(D, np.sqrt(D))), likelihoods.Gaussian(0.1))
    kernel: Any = given.kernel
    variables = start_inducing(kind, kernel, X, M, C, seed)
    start: Any = cavity.GP(kernel, given.likelihood, variables)
    maps: Any = parameters.bijections(start)
    if held:
        fixed = jax.tree.map(lambda _: parameters.FIXED, (maps.kernel, maps.likelihood))
        maps = eqx.tree_at(lambda m: (m.kernel, m.likelihood), maps, fixed)
    begun = time.process_time()
    result = cavity.fit(
        *(start, X, y),
        power=0.0,
        bijections=maps,
        callback=time_limit(seconds),
        tolerance=1e-4,
        seed=seed,
    )
    took = time.process_time() - begun
    found = result.posterior.predict(X_test)
    density = np.asarray(found.log_density(jnp.asarray(y_test)))
    fitted: Any = result.model
    return {
        "bound_per_row": float(result.log_evidence) / len(y),
        "rmse": float(np.sqrt(np.mean((np.asarray(found.mean) - y_test) ** 2))),
        "nlpd": -float(np.mean(density)),
        "noise": float(np.sqrt(fitted.likelihood.noise_variance())),
        "numbers": M + M**2 + M * C * (D + 1),
        "iterations": result.n_iterations,
        "converged": result.converged,
        "seconds": took,
    }
