"""Deep Gaussian processes with scikit-learn's interface."""

import dataclasses
from collections.abc import Sequence
from numbers import Real
from typing import ClassVar

import numpy as np

from cavity.estimators.asked_types import (
    Amount,
    ClassWeightAsked,
    Count,
    KernelAsked,
    LikelihoodAsked,
    PowerAsked,
)
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.layers import layers_of
from cavity.estimators.learning import Learned, Problem
from cavity.estimators.regression import AbstractRegressor
from cavity.estimators.settings import build, build_likelihood
from cavity.families.base import Family
from cavity.families.deep import DEEP
from cavity.families.values import is_word, whole
from cavity.inference.propagation import AbstractPropagation, Linearised, Moments, Nodes
from cavity.kernels.text_form import written
from cavity.learning.initialisation.deep import chosen_start
from cavity.learning.methods.methods import TiedPowerEP
from cavity.learning.plans.deep import STANDSTILL, fit_deep
from cavity.models.base import AbstractModel
from cavity.models.deep.layer import Layer
from cavity.numerics.text import plural

# Functions of a hidden layer at the most, where "auto" chooses.
MOST_WIDTH = 30
BY_NAME = {"moments": Moments(), "linearised": Linearised()}


@dataclasses.dataclass(eq=False, repr=False)
class AbstractDeepSettings:
    """Settings of a deep model and of learning it; see `DeepGPRegressor` for each."""

    kernel: KernelAsked = "rbf"
    likelihood: LikelihoodAsked = "gaussian"
    n_layers: Count = 2
    width: object = "auto"
    n_inducing: object = 100
    power: PowerAsked = 0.5
    mean: object = "constant"
    propagation: object = 2
    steps: object = 2500
    batch: object = 500
    learning_rate: Amount = 0.02
    standardise: object = True
    jitter: Amount = 1e-8
    random_state: object = None


class HasLayers(AbstractPredictor, AbstractDeepSettings):
    """Fitted attributes of deep models, beside predictions.

    Attributes:
        layers_: the fitted layers, from the inputs to the outputs.
    """

    family: ClassVar[Family] = DEEP
    layers_: tuple[Layer, ...]

    def _check_settings(self) -> None:
        check_layers(self)

    def _learned(self, problem: Problem) -> Learned:
        return learn_deep(self, problem)

    def _keep_parts(self, model: AbstractModel) -> None:
        super()._keep_parts(model)
        self.layers_ = layers_of(self.posterior_.model)


@dataclasses.dataclass(eq=False, repr=False)
class DeepGPRegressor(HasLayers, AbstractRegressor):
    r"""Deep Gaussian process regression: Gaussian processes of Gaussian processes, by Power EP.

    Hidden layers are functions of the inputs, whose outputs are the inputs of the layer above; the
    last layer gives the outputs. That suits functions which are smooth here and rough there, have
    jumps, or depend on a few combinations of many columns; it takes minutes where `GPRegressor`
    takes seconds. Learning starts from a sparse Gaussian process, and a model that ends with less
    evidence than that says so in `message_`.

    All work is done in float64 and JAX's own settings are left as they are. Predictions and
    evidence are in the units of the data, as with `GPRegressor`.

    Args:
        kernel: of the layer that begins as the sparse Gaussian process: the last, or the first
            where hidden layers are narrower than the inputs and noise is Gaussian. It has a
            lengthscale per input of that layer. Text such as "rbf" or "matern52 + linear", or a
            kernel object. The others have RBF kernels.
        likelihood: as in `GPRegressor`.
        n_layers: layers, the last one included; 1 is a sparse Gaussian process.
        width: functions of every hidden layer, or a sequence with a number for each of them;
            "auto" is the number of columns, 30 at the most. Hidden layers as wide as the inputs
            pass these on at first to a sparse Gaussian process in the last layer. Narrower ones
            pass on what one in the first layer says if noise is Gaussian, and otherwise principal
            components.
        n_inducing: inducing points of every layer; at or above the number of distinct rows all of
            them are used.
        power: in [0, 1]. 0 is the doubly stochastic variational bound.
        mean: prior mean of the layer that `kernel` is of: "constant", "zero", "linear", or a mean
            object.
        propagation: how hidden values go through layers: by so many points for each row in a step
            of learning, by "moments" or "linearised"; or an object, `cavity.fitting.Nodes`,
            `Moments` or `Linearised`.
        steps: steps of Adam, after which L-BFGS-B goes on where all rows are few enough; 0 keeps
            the starting values.
        batch: rows of a minibatch, one for each step; None for all of them.
        learning_rate: of Adam; it falls to zero along a cosine.
        standardise: as in `GPRegressor`.
        jitter: share of the mean prior variance added to the inducing covariances.
        random_state: seed or generator for everything random.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Attributes:
        log_evidence_: approximate log marginal likelihood, nats, outputs in their own units.
        layers_: the fitted layers, from the inputs to the outputs; each is a `cavity.Layer`.
        kernel_: the fitted kernel of the last layer, or a tuple where its functions have one each;
            those of all layers are in `layers_`.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean of the last layer.
        inducing_: the fitted inducing variables of the last layer, in the space of hidden values.
        converged_: whether the objective had stopped falling, above that of a sparse GP.
        message_: why learning ended.
        n_iter_: steps, and iterations of L-BFGS-B.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        output_scale_: as of `GPRegressor`.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Bui (2017), S53, S59, S60 and S62; Salimbeni and Deisenroth (2017).
    """

    missing: object = "error"


@dataclasses.dataclass(eq=False, repr=False)
class DeepGPClassifier(HasLayers, AbstractClassifier):
    r"""Deep Gaussian process classification, by Power EP.

    The functions of `GPClassifier` as the last of several layers; see `DeepGPRegressor`. Labels
    may be anything that can be told apart and sorted: text, truth values, numbers.

    Args:
        kernel: as in `DeepGPRegressor`.
        likelihood: as in `GPClassifier`.
        n_layers: layers, the last one included; 1 is a sparse Gaussian process.
        width: functions of every hidden layer, or a sequence with a number for each of them;
            "auto" is the number of columns, 30 at the most.
        n_inducing: inducing points of every layer; at or above the number of distinct rows all of
            them are used.
        power: in [0, 1]. 0 is the doubly stochastic variational bound.
        mean: prior mean of the layer that `kernel` is of: "constant", "zero", "linear", or a mean
            object.
        propagation: as in `DeepGPRegressor`.
        steps: steps of Adam, after which L-BFGS-B goes on where all rows are few enough; 0 keeps
            the starting values.
        batch: rows of a minibatch, one for each step; None for all of them.
        learning_rate: of Adam; it falls to zero along a cosine.
        standardise: as in `GPClassifier`.
        jitter: share of the mean prior variance added to the inducing covariances.
        random_state: seed or generator for everything random.
        class_weight: weights of rows by label, beside `sample_weight`: a dict, or "balanced", by
            which all classes have the same weight together; None for 1.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        log_evidence_: approximate log marginal likelihood, nats.
        layers_: the fitted layers, from the inputs to the outputs; each is a `cavity.Layer`.
        kernel_: the fitted kernel of the last layer, or a tuple where its functions have one each;
            those of all layers are in `layers_`.
        likelihood_: the fitted likelihood.
        mean_: the fitted prior mean of the last layer.
        inducing_: the fitted inducing variables of the last layer, in the space of hidden values.
        converged_: whether the objective had stopped falling, above that of a sparse GP.
        message_: why learning ended.
        n_iter_: steps, and iterations of L-BFGS-B.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the objective.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        n_features_in_: number of input columns, those of each category included.
        feature_names_in_: their names, if X had names; `colour=red` of a category.
        encoder_: as of `GPRegressor`.

    References:
        Bui (2017), S53, S59, S60 and S62; Salimbeni and Deisenroth (2017).
    """

    likelihood: LikelihoodAsked = "bernoulli"
    class_weight: ClassWeightAsked = None


def check_layers(settings: AbstractDeepSettings) -> None:
    """Refuses impossible settings of layers, and of learning them.

    Raises:
        ValueError: saying what is wanted, and what was given.
    """
    DEEP.check(settings)
    _widths(settings.width, int(settings.n_layers), 1)
    _propagation(settings.propagation)
    if isinstance(settings.power, str):
        raise ValueError(f"a deep GP takes a number in [0, 1] as power, given {settings.power!r}")
    if np.ndim(settings.power):
        raise ValueError("a deep GP has one power for all rows: give one number")
    rate = settings.learning_rate
    if isinstance(rate, bool) or not isinstance(rate, Real) or not 0.0 < float(rate) < np.inf:
        raise ValueError(f"learning_rate must be a positive number, given {rate!r}")


def _widths(width: object, layers: int, columns: int) -> list[int]:
    """The number of functions of every hidden layer."""
    if is_word(width, "auto"):
        return [min(columns, MOST_WIDTH)] * (layers - 1)
    otherwise = f'"auto", {layers - 1} of them in a sequence or '
    if not isinstance(width, Sequence | np.ndarray) or isinstance(width, str):
        return [whole("width", width, 1, otherwise)] * (layers - 1)
    if len(width) != layers - 1:
        raise ValueError(
            f"width must have one entry per hidden layer, {layers - 1} with n_layers={layers}, "
            f"given {width!r}"
        )
    return [whole("width", entry, 1, otherwise) for entry in width]


def _propagation(asked: object) -> AbstractPropagation:
    """The rule that was asked for by a number of points, a name or an object."""
    if isinstance(asked, AbstractPropagation):
        return asked
    if isinstance(asked, str):
        return BY_NAME[asked]
    return Nodes(whole("propagation", asked, 1, "an object of cavity.fitting, a name or "))


def learn_deep(asked: AbstractDeepSettings, problem: Problem) -> Learned:
    """The deep Gaussian process that was asked for, from a sparse one."""
    X, settings = problem.X, problem.settings
    steps = whole("steps", asked.steps, 0)
    method = TiedPowerEP(
        propagation=_propagation(asked.propagation),
        batch=len(X) if asked.batch is None else whole("batch", asked.batch, 1),
        max_sweeps=max(steps, 1),
        # inference makes one step even where none are asked for
        learning_rate=float(asked.learning_rate) if steps else STANDSTILL,
    )
    widths = _widths(asked.width, whole("n_layers", asked.n_layers, 1), X.shape[1])
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    outputs = problem.outputs.shape[1]
    points = whole("n_inducing", asked.n_inducing, 1)
    hidden = chosen_start(X, widths, likelihood, outputs, points, settings.seed)
    inputs = hidden.inputs[-1]
    if inputs.shape[1] != X.shape[1]:  # names are of columns, not of hidden values
        if isinstance(settings.kernel, str) and "[" in settings.kernel:
            raise ValueError(
                f"the kernel {settings.kernel!r} chooses columns, but the last layer sees "
                f"{plural(inputs.shape[1], 'hidden value')}: leave the columns out, or the width "
                "at that of the inputs"
            )
        settings = dataclasses.replace(settings, names=None, feature_groups=None)
    if written(settings.kernel, inputs.shape[1], settings.names).fixed:
        raise ValueError(
            f"the kernel {settings.kernel!r} holds a value, and a deep model learns those of all "
            "layers: leave fixed=True out"
        )
    starts, _ = build(settings, inputs, problem.outputs, problem.side, learn_mean=True)
    result = fit_deep(
        starts,
        hidden,
        X,
        problem.y,
        power=settings.power,
        method=method,
        jitter=float(settings.jitter),
        rows=problem.side or None,
        missing=settings.missing,
        max_iterations=1000 if steps else 0,
        callback=problem.course.callback,
        checkpoint=problem.course.checkpoint,
    )
    if not steps:
        result = result.judged("nothing was to be learned", converged=True)
    return Learned(result, problem.observed, len(X))
