"""Networks by expectation propagation, with scikit-learn's interface."""

import dataclasses
from typing import Any, TypeVar

import numpy as np

from cavity.estimators.base import given
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.registry import CLASSIFICATION, REGRESSION, build_likelihood, one_of, whole
from cavity.estimators.regression import AbstractRegressor
from cavity.inference.networks.activations import activation_of
from cavity.learning.fit import fit
from cavity.learning.infer import NumericalError, infer
from cavity.learning.initialisation.linear import PRIORS
from cavity.learning.initialisation.network import (
    held_output,
    network_at_mode,
    starting_network,
)
from cavity.learning.methods import TiedPowerEP
from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.result import FitResult, Inference
from cavity.models.base import AbstractModel
from cavity.models.network.checks import checked_widths
from cavity.models.network.network import Network
from cavity.numerics.text import plural
from cavity.weights.base import AbstractWeightPrior

R = TypeVar("R", bound=Inference)

# Residuals from which on sites are far from settled, in deviations, and a power at which sweeps
# of networks mostly settle.
FAR, LESS = 0.1, 0.5
# With minibatches: of Adam, and rows that the start is found by at the most.
LEARNING_RATE, ROWS_OF_START = 0.01, 5000


@dataclasses.dataclass(eq=False, repr=False)
class AbstractNetworkSettings:
    """Settings of a network; see `NetworkRegressor` for each."""

    hidden: object = 10
    prior: object = "ard"
    likelihood: object = "gaussian"
    activation: object = "erf"
    linear: object = False
    power: object = 1.0
    groups: object = None
    n_starts: object = 3
    batch: object = None
    steps: object = 2000
    standardise: object = True
    max_iterations: object = 100
    tolerance: object = 1e-2
    random_state: object = None


class HasRelevance:
    """What fitted networks have, beside predictions.

    Attributes:
        relevance_: how strongly the units follow each column, (D,).
    """

    relevance_: np.ndarray

    def _keep_parts(self, model: AbstractModel) -> None:
        asked: Any = self
        fitted: Any = model
        self.prior_, self.likelihood_ = fitted.prior, model.likelihood
        self.relevance_ = np.asarray(asked.posterior_.process.relevance())


@dataclasses.dataclass(eq=False, repr=False)
class NetworkRegressor(HasRelevance, AbstractRegressor, AbstractNetworkSettings):
    r"""Regression by a network with hidden units, by expectation propagation. Experimental.

    Weights are integrated over; noise and the prior of the units' weights are learned by maximum
    evidence. With "ard" each column has a variance of its own, and those of columns that play no
    part vanish. One output.

    All work is done in float64 and JAX's own settings are left as they are.

    Args:
        hidden: the number of hidden units, or one for each layer, such as (10, 5).
        prior: of the weights of the units: "ard", a variance for each column; "gaussian", one for
            all; "laplace", "student_t", "horseshoe", "spike_slab"; or an object of
            `cavity.weights`, per deviation of the columns, which is taken as it is to start from.
        likelihood: as in `GPRegressor`, of one latent function: "gaussian", "student_t",
            "poisson" and so on, or an object.
        activation: "erf", "tanh", "sine", "softplus", "identity", or a function of an array.
        linear: whether there is a linear part beside.
        power: in [0, 1], of the rows' sites; 1 is expectation propagation.
        groups: the group of each column, whole numbers from 0, for a prior with a parameter per
            group; None for none.
        n_starts: modes that are tried as starts; learning goes on from one whose sites settle, if
            any do, and of these from the one with the largest evidence.
        batch: rows of a minibatch, for long tables: all rows share one site on the weights of
            each unit, so that nothing is stored per row. For "ard" and "gaussian", from one start.
            None for sites of single rows.
        steps: of Adam, one for each minibatch; in the place of `max_iterations`.
        standardise: columns about their mean in units of their deviation, and starting values
            from the spread of the outputs; otherwise columns as they are and unit values.
        max_iterations: iterations of learning at the most; 0 keeps the starting values. Where
            sites do not settle at a power above 0.5, learning begins again at 0.5, and goes on
            from there at the power asked for, each with so many.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator, of the starts.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Attributes:
        relevance_: of each column, (D,): the root of the sum over units of squared output weights
            times expected squared weights of the column, in deviations of the column; with
            several layers summed over the ways to the output.
        prior_: the fitted prior of the units' weights.
        likelihood_: the fitted likelihood.
        log_evidence_: approximate log marginal likelihood of the mode, nats, outputs in their own
            units.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the function, its arrays numpy float64.
        output_scale_: as of `GPRegressor`.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if X had names.

    References:
        Jylanki (2013), S89 to S109; Jylanki, Nummenmaa and Vehtari (2014).
    """

    missing: object = "error"
    kernel = "network"
    mean = "constant"

    def fit(self, X, y, noise_variance=None, exposure=None, callback=None, checkpoint=None):
        """Learns noise and prior, and infers the weights.

        Args:
            X: inputs, (N, D); arrays or data frames of numbers; dates are days since 1970-01-01.
            y: outputs, (N,).
            noise_variance: known noise variance of each row, (N,), in squared units of y.
            exposure: exposure of each row, (N,), for likelihoods of counts.
            callback: called with a `Progress` after every iteration.
            checkpoint: a `cavity.Checkpoint`; `random_state` must be a number.

        Returns:
            The estimator itself.

        Raises:
            ValueError: for unusable data or settings.
        """
        _check(self)
        side = given(noise_variance=noise_variance, exposure=exposure)
        self._fit_outputs(X, y, side, callback, checkpoint)
        return self

    def _learned(self, problem: Problem) -> Learned:
        return learn_network(self, problem, REGRESSION)


@dataclasses.dataclass(eq=False, repr=False)
class NetworkClassifier(HasRelevance, AbstractClassifier, AbstractNetworkSettings):
    r"""Classification into two classes by a network, by expectation propagation. Experimental.

    See `NetworkRegressor`.

    Args:
        hidden: as in `NetworkRegressor`.
        prior: as in `NetworkRegressor`.
        likelihood: as in `GPClassifier`, of one latent function: "bernoulli" (probit) and so on,
            or an object.
        activation: as in `NetworkRegressor`.
        linear: whether there is a linear part beside.
        power: in [0, 1], of the rows' sites.
        groups: as in `NetworkRegressor`.
        n_starts: as in `NetworkRegressor`.
        batch: as in `NetworkRegressor`.
        steps: as in `NetworkRegressor`.
        standardise: columns about their mean in units of their deviation.
        max_iterations: iterations of learning at the most; 0 keeps the starting values.
        tolerance: learning ends when the objective falls by less than this many nats.
        random_state: seed or generator, of the starts.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        relevance_: as of `NetworkRegressor`.
        prior_: the fitted prior of the units' weights.
        likelihood_: the fitted likelihood.
        log_evidence_: approximate log marginal likelihood of the mode, nats.
        converged_: whether learning and inference converged.
        message_: why learning ended.
        n_iter_: iterations.
        posterior_: the posterior of the function, its arrays numpy float64.
        n_features_in_: number of input columns.
        feature_names_in_: their names, if X had names.

    References:
        Jylanki (2013), S89 to S109.
    """

    likelihood: object = "bernoulli"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X, y, callback=None, checkpoint=None):
        """Learns the prior, and infers the weights.

        Args:
            X: inputs, (N, D); arrays or data frames of numbers; dates are days since 1970-01-01.
            y: labels, (N,), of two classes.
            callback: called with a `Progress` after every iteration.
            checkpoint: a `cavity.Checkpoint`; `random_state` must be a number.

        Returns:
            The estimator itself.

        Raises:
            ValueError: for unusable data or settings, and for more than two classes.
        """
        _check(self)
        classes = len(np.unique(np.asarray(y)))
        if classes > 2:
            raise ValueError(
                f"Only binary classification is supported. A network has one latent function and "
                f"y has {classes} classes: use GPClassifier, or "
                "sklearn.multiclass.OneVsRestClassifier(NetworkClassifier())"
            )
        self._fit_labels(X, y, callback, checkpoint)
        return self

    def _learned(self, problem: Problem) -> Learned:
        return learn_network(self, problem, CLASSIFICATION)


def _check(asked: AbstractNetworkSettings) -> None:
    """Refuses impossible settings before any work."""
    checked_widths(asked.hidden)
    whole("n_starts", asked.n_starts, 1)
    whole("max_iterations", asked.max_iterations, 0)
    whole("steps", asked.steps, 0)
    if asked.batch is not None:
        whole("batch", asked.batch, 1, "None (all rows, with sites of their own) or ")
    activation: Any = asked.activation
    activation_of(activation)
    if not isinstance(asked.prior, AbstractWeightPrior):
        one_of("prior", asked.prior, PRIORS)


def learn_network(asked: AbstractNetworkSettings, problem: Problem, task: str) -> Learned:
    """The network that was asked for, by maximum evidence from the best of several starts."""
    settings, X, outputs = problem.settings, problem.X, problem.outputs
    likelihood = build_likelihood(settings.likelihood, task, settings.classes)
    if outputs.shape[1] != 1:
        raise ValueError(
            f"a network has one output, y has {outputs.shape[1]}: fit one to each column, as "
            "sklearn.multioutput.MultiOutputRegressor does"
        )
    groups: Any = None if asked.groups is None else np.asarray(asked.groups)
    if groups is not None and groups.shape != (X.shape[1],):
        raise ValueError(
            f"groups must have one entry for each of {plural(X.shape[1], 'column')}, given shape "
            f"{groups.shape}"
        )
    units, prior, activation = _parts(asked)
    model = starting_network(
        units,
        prior,
        activation,
        likelihood,
        X,
        outputs,
        linear=bool(asked.linear),
        groups=groups,
        standardise=bool(asked.standardise),
        keep_likelihood=not isinstance(settings.likelihood, str),
    )
    data: dict[str, Any] = {"rows": problem.side or None, "missing": settings.missing}
    options: Any = {
        "power": settings.power,
        **data,
        "tolerance": asked.tolerance,
        "seed": settings.seed,
        "callback": problem.callback,
        "checkpoint": problem.checkpoint,
    }
    observed = np.sum(~np.isnan(outputs), axis=0)
    if asked.batch is not None:
        options["method"] = _of_minibatches(asked, problem)
        start = network_at_mode(
            model, problem.X, problem.y, seed=settings.seed, at_most=ROWS_OF_START, **data
        )
        result = fit(start, X, problem.y, bijections=held_output(start), **options)
        return Learned(result, observed, len(X), settings.power)
    options["max_iterations"] = whole("max_iterations", asked.max_iterations, 0)
    starts = _ranked(model, problem, whole("n_starts", asked.n_starts, 1), data)
    options["bijections"] = held_output(starts[0])
    result = _settled(starts[0], problem, options)
    result = result if result.interrupted else with_advice(result, settings.power)
    return Learned(result, observed, len(X), settings.power)


def _of_minibatches(asked: AbstractNetworkSettings, problem: Problem) -> TiedPowerEP:
    """The method with one site for all rows."""
    size = min(whole("batch", asked.batch, 1), len(problem.X))
    steps = whole("steps", asked.steps, 0)
    return TiedPowerEP(
        batch=size, max_sweeps=steps, learning_rate=LEARNING_RATE, seed=problem.settings.seed
    )


def _settled(start: Network, problem: Problem, options: dict[str, Any]) -> FitResult:
    """The fit; where sites do not settle at a large power, from what a smaller one learned.

    With many columns a large power may have no fixed point near the starting parameters, and have
    one where noise and prior suit the data.
    """
    own, smaller, again = (_part(options, problem, name) for name in ("own", "smaller", "again"))
    power = np.max(options["power"])
    first, error = _tried(start, problem, own)
    if power <= LESS or (first is not None and (first.interrupted or not _is_far(first))):
        return _or_raise(first, error)
    near, _ = _tried(start, problem, smaller | {"power": LESS})
    if near is None or (_is_far(near) and not near.interrupted):
        return _or_raise(first, error)
    last = None if near.interrupted else _tried(near.model, problem, again)[0]
    if last is not None and not _is_far(last):
        evaluations = (0 if first is None else first.n_evaluations) + near.n_evaluations
        return dataclasses.replace(last, n_evaluations=last.n_evaluations + evaluations)
    interrupted = near.interrupted or (last is not None and last.interrupted)
    why = INTERRUPTED if interrupted else f"sites did not settle at power {power:g}"
    message = f"{why}; the posterior is that of power {LESS:g}"
    return dataclasses.replace(near, converged=False, interrupted=interrupted, message=message)


def _part(options: dict[str, Any], problem: Problem, name: str) -> dict[str, Any]:
    """Options of a fit that keeps what it has done in a part of the checkpoint."""
    store = problem.checkpoint
    return options if store is None else options | {"checkpoint": store.part(name)}


def _tried(
    start: AbstractModel, problem: Problem, options: dict[str, Any]
) -> tuple[FitResult | None, NumericalError | None]:
    """The fit, or the error that ended it."""
    try:
        return fit(start, problem.X, problem.y, **options), None
    except NumericalError as error:
        return None, error


def _or_raise(result: FitResult | None, error: NumericalError | None) -> FitResult:
    if result is None:
        assert error is not None
        raise error
    return result


def _is_far(result: Inference) -> bool:
    """Whether sites are far from settled."""
    return not result.converged and not result.sites.residual < FAR


def with_advice(result: R, power: Any) -> R:
    """The result, with a word on the power where sites are far from settled at a large one."""
    if not _is_far(result) or np.max(power) <= LESS:
        return result
    message = f"{result.message}; at power={LESS:g} sites of networks settle more often"
    return dataclasses.replace(result, message=message)


def _parts(asked: AbstractNetworkSettings) -> tuple[Any, Any, Any]:
    """Units, prior and activation, which were checked."""
    return asked.hidden, asked.prior, asked.activation


def _ranked(model: Network, problem: Problem, count: int, data: dict[str, Any]) -> list[Network]:
    """Starts from several modes, those that settle first, and of these the likeliest first."""
    power: Any = problem.settings.power
    ranked = []
    for number in range(count):
        seed = (problem.settings.seed + number) % 2**32
        start = network_at_mode(model, problem.X, problem.y, seed=seed, **data)
        if count == 1:
            return [start]
        try:
            found = infer(start, problem.X, problem.y, power=power, **data)
        except NumericalError:
            continue
        key = (not found.converged, -float(found.log_evidence or -np.inf))
        ranked.append((*key, number, start))
    return [start for *_, start in sorted(ranked, key=lambda each: each[:3])] or [model]
