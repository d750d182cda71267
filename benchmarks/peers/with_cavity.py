"""cavity: see the package for what the functions are."""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from cavity.inference.variables.inputs import InputMoments
from cavity.learning.data.arrays import prepare
from cavity.learning.data.training_data import Minibatch
from cavity.learning.infer import as_dtype, one_blas_thread
from cavity.learning.objectives.evidence import Objective
from cavity.learning.optimisers.adam import Adam

jax.config.update("jax_enable_x64", True)
Problem = dict[str, np.ndarray]
# As inside a fit, until the process ends: a context that nothing refers to would end at once.
ONE_THREAD = contextlib.ExitStack()
POWERS = {"exact": 1.0, "vfe": 0.0, "fitc": 1.0, "power": 0.5}


def _model(p: Problem, *, full: bool, likelihood: Any = None) -> Any:
    kernel = cavity.kernels.RBF(float(p["variance"]), p["lengthscale"])
    likelihood = likelihood or cavity.likelihoods.Gaussian(float(p["noise"]))
    return cavity.GP(kernel, likelihood, None if full else cavity.inducing.Points(p["Z"]))


def _jitter(p: Problem) -> float:
    """Ours is a share of the prior variance."""
    return float(p["jitter"] / p["variance"])


def _latent(p: Problem) -> Callable[[], float]:
    """The collapsed bound of a GPLVM, at given posteriors of the latent inputs."""
    data = prepare(np.zeros((len(p["y"]), 0)), p["y"], power=0.0)
    kernel = cavity.kernels.RBF(float(p["variance"]), p["lengthscale"])
    likelihood = cavity.likelihoods.Gaussian(float(p["noise"]))
    model = as_dtype(cavity.GPLVM(kernel, likelihood, cavity.inducing.Points(p["Z"])), data)
    (stores,) = data.problem(model, cavity.PowerEP().approximation, 1e-8).empty_sites()
    mean, log_deviation = np.array(stores[1].mean), np.array(stores[1].log_deviation)
    mean[: len(p["X"])] = p["X"]
    log_deviation[: len(p["X"])] = 0.5 * np.log(p["variances"])
    sites = ((stores[0], InputMoments(jnp.asarray(mean), jnp.asarray(log_deviation))),)
    objective = Objective(model, data, jitter=_jitter(p), sites=sites)
    ONE_THREAD.enter_context(one_blas_thread())
    return lambda: -objective(objective.first)[0]


def evaluation(p: Problem, method: str) -> Callable[[], float]:
    if method == "latent":
        return _latent(p)
    data = prepare(p["X"], p["y"], power=POWERS[method])
    model: Any = as_dtype(_model(p, full=method == "exact"), data)
    objective = Objective(model, data, jitter=0.0 if method == "exact" else _jitter(p))
    start = np.zeros(objective.size)
    ONE_THREAD.enter_context(one_blas_thread())
    return lambda: -objective(start)[0]


def step(p: Problem) -> Callable[[], float]:
    data = prepare(p["X"], p["y"], power=0.0)
    model: Any = as_dtype(_model(p, full=False), data)
    method = cavity.TiedPowerEP(batch=p["batches"].shape[1])
    objective = Objective(model, data, method=method, jitter=_jitter(p))
    batches, steps = iter(p["batches"]), len(p["batches"])
    adam = Adam(objective, objective.first, steps, float(p["rate"]), method.batch, 0, None)
    ONE_THREAD.enter_context(one_blas_thread())

    def call() -> float:
        rows = next(batches)
        adam._step(Minibatch(rows.size, rows))
        return -adam.history[-1]

    return call


def classify(p: Problem, method: str) -> Callable[[], float]:
    model = _model(p, full=method == "full", likelihood=cavity.likelihoods.Bernoulli())
    X, labels = p["X"], p["labels"]
    return lambda: cavity.infer(model, X, labels, power=1.0).log_evidence


def prediction(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    options: Any = {"power": POWERS[method], "jitter": _jitter(p)}
    posterior = cavity.infer(_model(p, full=False), p["X"], p["y"], **options).posterior

    def call() -> tuple[np.ndarray, np.ndarray]:
        mean, var = posterior.marginals(p["X_test"])
        return np.asarray(mean), np.asarray(var)

    return call


def fit(
    p: Problem, record: Callable[[float], bool], iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    def after(progress: Any) -> None:
        if record(-progress.objective):
            raise KeyboardInterrupt

    options: Any = {"power": 0.0, "jitter": _jitter(p), "max_iterations": iterations}
    model = _model(p, full=False)
    result = cavity.fit(model, p["X"], p["y"], callback=after, **options)
    mean, var = result.posterior.marginals(p["X_test"])
    learned: Any = result.model
    noise = float(learned.likelihood.variance)
    return np.asarray(mean), np.asarray(var) + noise
