"""Networks by maximum evidence, from the best of several starts."""

from typing import Any

from cavity.estimators.blocks import asked_groups
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.network_settings import AbstractNetworkSettings
from cavity.estimators.registry import build_likelihood
from cavity.estimators.settings import check_held, parts_given
from cavity.families.values import whole
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.initialisation.network import (
    AskedNetwork,
    held_output,
    network_at_mode,
    starting_network,
)
from cavity.learning.methods.methods import TiedPowerEP
from cavity.learning.plans.network import network_plan, ranked, with_advice
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.models.network.network import Network

# With minibatches: of Adam, and rows that the start is found by at the most.
LEARNING_RATE, ROWS_OF_START = 0.01, 5000


def learn_network(asked: AbstractNetworkSettings, problem: Problem) -> Learned:
    """The network that was asked for, by maximum evidence from the best of several starts."""
    settings, X, outputs = problem.settings, problem.X, problem.outputs
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    check_held(likelihood)
    if outputs.shape[1] != 1:
        raise ValueError(
            f"a network has one output, y has {outputs.shape[1]}: fit one to each column, as "
            "sklearn.multioutput.MultiOutputRegressor does"
        )
    units, prior, activation = _parts(asked)
    network = AskedNetwork(
        prior,
        likelihood,
        asked_groups(asked, X.shape[1]),
        standardise=bool(asked.standardise),
        keep_likelihood=parts_given(settings).likelihood,
        hidden=units,
        activation=activation,
        linear=bool(asked.linear),
    )
    model = starting_network(network, WeightedTable(X, outputs, problem.side))
    data: dict[str, Any] = {"rows": problem.side or None, "missing": settings.missing}
    options: Any = {
        "power": settings.power,
        **data,
        "tolerance": asked.tolerance,
        "seed": settings.seed,
        "callback": problem.course.callback,
    }
    observed = problem.observed
    if asked.batch is not None:
        options["method"] = _minibatch_method(asked, problem)
        start = network_at_mode(
            model, problem.X, problem.y, seed=settings.seed, at_most=ROWS_OF_START, **data
        )
        run = fits(
            X, problem.y, options | {"bijections": held_output(start)}, problem.course.checkpoint
        )
        result = run.carry_out(lambda run: run.stage("", start))
        return Learned(result, observed, len(X), settings.power)
    options["max_iterations"] = whole("max_iterations", asked.max_iterations, 0)
    run = fits(X, problem.y, options, problem.course.checkpoint)
    start = _start(run, model, problem, 1 + whole("n_restarts", asked.n_restarts, 0), data)
    run = run.with_options(bijections=held_output(start))
    result = run.carry_out(lambda run: network_plan(run, start))
    result = result if result.interrupted else with_advice(result, settings.power)
    return Learned(result, observed, len(X), settings.power)


def _minibatch_method(asked: AbstractNetworkSettings, problem: Problem) -> TiedPowerEP:
    """The method with one site for all rows."""
    size = min(whole("batch", asked.batch, 1), len(problem.X))
    steps = whole("steps", asked.steps, 1)
    return TiedPowerEP(
        batch=size, max_sweeps=steps, learning_rate=LEARNING_RATE, seed=problem.settings.seed
    )


def _parts(asked: AbstractNetworkSettings) -> tuple[Any, Any, Any]:
    """Units, prior and activation, which were checked."""
    return asked.hidden, asked.prior, asked.activation


def _start(
    run: Run, model: Network, problem: Problem, count: int, data: dict[str, Any]
) -> Network:
    """The best of the starts from several modes; the model as it is where none can be used."""
    seed, modulus = problem.settings.seed, 2**32
    seeds = [(seed + number) % modulus for number in range(count)]
    starts = [network_at_mode(model, run.X, run.y, seed=each, **data) for each in seeds]
    return starts[0] if count == 1 else [*ranked(run, starts), model][0]
