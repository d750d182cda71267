"""cavity: see the package for what the functions are."""

import contextlib
import dataclasses
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.deep_steps import products
from benchmarks.streaming import scores, streamed
from cavity.inference.factors.tied import TiedSite, raw_of
from cavity.inference.solvers.settings import (
    RUNGS,
    FixedPointSolver,
    LayerSettings,
    SweepSettings,
)
from cavity.inference.solvers.steps import run_sweeps
from cavity.inference.variables.inputs import InputMoments
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.data.training_data import Minibatch
from cavity.learning.infer import as_dtype
from cavity.learning.initialisation.network import (
    AskedNetwork,
    held_output,
    network_at_mode,
    starting_network,
)
from cavity.learning.methods.base import AbstractMethod, Training
from cavity.learning.objectives.evidence import Objective
from cavity.learning.search.adam import Adam
from cavity.models.remembered import posterior_past

jax.config.update("jax_enable_x64", True)
Problem = dict[str, np.ndarray]
# As inside a fit, until the process ends: a context that nothing refers to would end at once.
ONE_THREAD = contextlib.ExitStack()
# Rows that are enough to find weights from which sweeps of a network start.
FEW = 1_000
# Points for each row of a deep GP, where they are several.
NODES = {"two": 2, "many": 64}
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


def past(p: Problem, method: str) -> Callable[[], float]:
    """The evidence of new rows after those of before, each at the power of the method."""
    power = POWERS[method]
    options: Any = {"power": power, "jitter": _jitter(p)}
    before = p | {"Z": p["Z_before"]}
    earlier = cavity.infer(_model(before, full=False), p["X_before"], p["y_before"], **options)
    told = posterior_past(earlier.posterior, 0.0, jnp.asarray(power) if power else 0.0)
    data = dataclasses.replace(prepare(p["X"], p["y"], power=power), past=told)
    model: Any = as_dtype(_model(p, full=False), data)
    objective = Objective(model, data, jitter=_jitter(p))
    ONE_THREAD.enter_context(one_blas_thread())
    return lambda: -objective(objective.first)[0]


def conditioning(p: Problem, method: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    """An update with new rows at given parameters and points, and predictions after it."""
    options: Any = {"power": POWERS[method], "jitter": _jitter(p)}
    X, y = p["X_before"], p["y_before"]
    first = cavity.infer(_model(p, full=False), X[1:], y[1:], **options)
    held: Any = {"power": POWERS[method], "learn": False, "inducing": "keep"}
    earlier = cavity.update(first, X[:1], y[:1], **held)

    def call() -> tuple[np.ndarray, np.ndarray]:
        result = cavity.update(earlier, p["X"], p["y"], **held)
        mean, var = result.posterior.marginals(p["X_test"])
        return np.asarray(mean), np.asarray(var)

    return call


def gains(p: Problem) -> dict[str, Any]:
    """By how much each candidate lowers the mean variance of f over the test rows."""
    result = cavity.infer(_model(p, full=True), p["X"], p["y"])
    settings: Any = {"n": 1, "criterion": "integrated", "reference": p["X_test"]}
    each = [cavity.suggest(result, row[None], **settings) for row in p["candidates"]]
    return {"gains": [float(found.gains[0]) for found in each]}


def linear(p: Problem, method: str) -> dict[str, Any]:
    """`LinearRegressor` with a prior of this name, all else by default."""
    for _ in range(2):
        start = time.perf_counter()
        model = cavity.LinearRegressor(prior=method).fit(p["X"], p["y"])
        seconds = time.perf_counter() - start
    found = {"coef": model.coef_.tolist(), "intercept": float(model.intercept_)}
    return found | {"seconds": seconds, "converged": bool(model.converged_)}


def network(p: Problem) -> dict[str, Any]:
    """`NetworkRegressor` at power 0.5, all else by default: learned twice, compiled before."""
    settings: Any = {"hidden": int(p["units"]), "linear": True, "power": 0.5, "random_state": 0}
    seconds, processor = [], 0.0
    for _ in range(2):
        start, processor = time.perf_counter(), time.process_time()
        model = cavity.NetworkRegressor(**settings).fit(p["X"], p["y"])
        seconds.append(time.perf_counter() - start)
        processor = time.process_time() - processor
    density = model.log_predictive_density(p["X_test"], p["y_test"])
    wrong = model.predict(p["X_test"]) - p["y_test"]
    found = {"density": float(np.mean(density)), "rmse": float(np.sqrt(np.mean(wrong**2)))}
    found |= {"converged": bool(model.converged_), "iterations": int(model.n_iter_)}
    found |= {"seconds": seconds[1], "first_seconds": seconds[0]}
    return found | {"cpu_seconds": processor}


def _network(p: Problem, rows: int | None) -> Any:
    """A network with a linear part, as the estimator starts it, at a mode of some rows."""
    X, y = p["X"], p["y"]
    asked = AskedNetwork("ard", cavity.likelihoods.Gaussian(1.0), hidden=int(p["units"]))
    model = starting_network(asked, WeightedTable(X, y[:, None]))
    return network_at_mode(model, X[:rows], y[:rows])


def sweeps(p: Problem) -> dict[str, Any]:
    """What a plain sweep of all sites of a network takes, parameters held, compiled before."""
    few, many = 1, 1 + int(p["sweeps"])
    data = prepare(p["X"], p["y"], power=0.5)
    model: Any = as_dtype(_network(p, FEW), data)
    problem = data.problem(model, cavity.PowerEP().approximation, 1e-8)
    sites = problem.empty_sites()
    ONE_THREAD.enter_context(one_blas_thread())

    def spent(count: int) -> tuple[float, float]:
        """Seconds by the clock and of the processor."""
        on = SweepSettings(patience=count, shortest=0.0)
        solver = FixedPointSolver(step=0.1, tolerance=0.0, max_sweeps=count, sweeps=on)
        clock, processor = time.perf_counter(), time.process_time()
        made = int(jax.block_until_ready(run_sweeps(problem, solver, sites))[1].sweeps)
        assert made == count
        return time.perf_counter() - clock, time.process_time() - processor

    spent(few)
    found = []
    for _ in range(int(p["repeats"])):
        pairs = zip(spent(many), spent(few), strict=True)
        found.append([(a - b) / (many - few) for a, b in pairs])
    clock, processor = (statistics.median(times) for times in zip(*found, strict=True))
    return {"ms": 1e3 * clock, "cpu_ms": 1e3 * processor}


@dataclasses.dataclass(frozen=True)
class FewSweeps(AbstractMethod):
    """Power EP that leaves out no part of its search for a network's sites, and cuts each short.

    What memory a fit takes does not depend on how many sweeps it makes.
    """

    @property
    def approximation(self) -> Any:
        return cavity.PowerEP().approximation

    @property
    def solver(self) -> FixedPointSolver:
        short: Any = {"round": 3, "rounds": 1, "quick_rounds": 1, "extrapolations": 1}
        layers = LayerSettings(steps=(0.2,), too_far=math.inf, **short)
        return FixedPointSolver(max_sweeps=3, rungs=RUNGS, layers=layers)

    @property
    def training(self) -> Training:
        return Training()

    def check(self, likelihood: Any) -> None:
        pass

    def check_layout(self, likelihood: Any, *, sparse: bool, blocked: bool) -> None:
        pass


def resident(p: Problem) -> dict[str, Any]:
    """Fits a network with few sweeps for each evaluation, by two iterations at the most."""
    model = _network(p, None)
    settings: Any = {"power": 0.5, "method": FewSweeps(), "bijections": held_output(model)}
    start = time.perf_counter()
    found = cavity.fit(model, p["X"], p["y"], **settings, max_iterations=2)
    return {"seconds": time.perf_counter() - start, "evaluations": found.n_evaluations}


def stream(p: Problem) -> dict[str, float]:
    """Batches, with the points given for the first; test error, NLPD and seconds."""
    start, labels = time.perf_counter(), bool(p["labels"])
    likelihoods, D = cavity.likelihoods, p["X"].shape[1]
    kernel = cavity.kernels.RBF(1.0, np.full(D, 1.0 if labels else 2.0))
    likelihood = likelihoods.Bernoulli() if labels else likelihoods.Gaussian(0.1)
    model = cavity.GP(kernel, likelihood, cavity.inducing.Points(p["Z"]))
    power = float(p["power"])
    first = {"power": power, "max_iterations": 200}
    result = streamed(model, p["X"], p["y"], int(p["batches"]), first, power=power)
    seconds = time.perf_counter() - start
    return scores(result, p["X_test"], p["y_test"], labels=labels) | {"spent": seconds}


def step(p: Problem) -> Callable[[], float]:
    data = prepare(p["X"], p["y"], power=0.0)
    model: Any = as_dtype(_model(p, full=False), data)
    method = cavity.TiedPowerEP(batch=p["batches"].shape[1])
    objective = Objective(model, data, method=method, jitter=_jitter(p))
    ONE_THREAD.enter_context(one_blas_thread())
    return _steps(objective, p, p["batches"].shape[1])


def _steps(objective: Objective, p: Problem, batch: int) -> Callable[[], float]:
    """Steps of Adam on one minibatch after another."""
    batches, steps = iter(p["batches"]), len(p["batches"])
    training = Training(steps, batch, float(p["rate"]))
    adam = Adam(objective, objective.first, training, None)

    def call() -> float:
        rows = next(batches)
        adam._step(Minibatch(rows.size, rows))
        return -adam.history[-1]

    return call


def _deep(p: Problem, nodes: int, batch: int) -> Objective:
    """The energy of two layers at power 0, as a search from the given q has it."""
    kernels, Z, D = cavity.kernels, p["Z"], p["X"].shape[1]
    inner = kernels.RBF(float(p["inner_variance"]), p["lengthscale"])
    last = kernels.RBF(float(p["variance"]), p["lengthscale"])
    layers = [
        cavity.Layer(inner, cavity.inducing.Points(Z), D, cavity.means.Identity()),
        cavity.Layer(last, cavity.inducing.Points(Z)),
    ]
    data = prepare(p["X"], p["y"], power=0.0)
    noise = cavity.likelihoods.Gaussian(float(p["noise"]))
    model: Any = as_dtype(cavity.DeepGP(layers, noise), data)
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(nodes), batch=batch)
    raw = raw_of(jnp.asarray(p["q_root"]))
    q = [TiedSite(jnp.asarray(p["q_mean"][i]), raw[i]) for i in (slice(0, D), slice(D, None))]
    return Objective(model, data, method=method, jitter=_jitter(p), sites=(tuple(q),))


def deep(p: Problem, method: str) -> Callable[[], float]:
    if method == "products":
        ONE_THREAD.enter_context(one_blas_thread())
        multiply = products(1)
        return lambda: float(jax.block_until_ready(multiply())[0][0, 0, 0])
    batches, random = p["batches"], np.random.default_rng(0)
    batch = batches.shape[1]
    objective = _deep(p, NODES.get(method, 1), batch)
    ONE_THREAD.enter_context(one_blas_thread())
    if method == "step":
        return _steps(objective, p, batch)
    scale = len(p["X"]) / batch

    def call() -> float:
        # points belong to places in the minibatch, so that a row has others each time
        rows = random.permutation(batches[0])
        return -objective.on_rows(objective.first, Minibatch(batch, rows), scale)[0]

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
