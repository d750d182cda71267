"""Learning of convolutional classifiers: the kernel by regression on labels, then the classes.

With Gaussian noise the energy is in closed form, and one matrix serves all classes, so that kernel
and patches are learned on a part of the images in a fraction of the time that sweeps would take.
What the likelihood needs to know beside is how large its functions are: one factor. Steps of
minibatches may follow, in which kernel, patches and beliefs are learned together.
"""

import dataclasses
import warnings
from collections.abc import Callable, Iterable
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import AbstractInducing
from cavity.inducing.tabulated import Tabulated, TabulatedVariables
from cavity.kernels.base import AbstractKernel, Scaled
from cavity.learning.data.validation import all_fixed
from cavity.learning.infer import NumericalError, infer
from cavity.learning.initialisation.images import tabulated_values
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import TiedPowerEP
from cavity.learning.optimisers.lbfgs import INTERRUPTED, GracefulStop, Progress
from cavity.learning.results.result import FitResult, Inference
from cavity.learning.run.fit import fit
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import Constant
from cavity.models.gp import GP
from cavity.models.remembered import tied_sites_of
from cavity.numerics.text import plural
from cavity.parameters import bijections
from cavity.parameters.priors import flat

# Images, and iterations of regression on their labels, by which kernels are compared.
COMPARED, TRIED = 300, 15
# Images held out to see whether learning helped, at the most, and as a share of those there are.
HELD_OUT, SHARE = 1000, 0.2
# The noise variance of labels of -1 and 1 to begin with, and the first guess of the factor.
NOISE, FACTOR = 0.1, 4.0
# The step of natural gradients for beliefs, and that of Adam for kernel and patches.
NATURAL, RATE = 0.05, 0.01


@dataclasses.dataclass(frozen=True)
class ImageSearch:
    """How a convolutional classifier is learned.

    Attributes:
        method: of the classes.
        power: of regression, by which the kernel is learned.
        class_power: of the classes.
        images: images that the kernel is learned on at the most, and those that the factor is.
        iterations: of L-BFGS-B for the kernel.
        scale_iterations: of L-BFGS-B for the factor of the functions.
        jitter: share of the mean prior variance added to the inducing covariance.
        seed: of the choice of images.
        steps: of Adam with minibatches for everything together, at the end.
        batch: images of a minibatch.
    """

    method: AbstractMethod
    power: float
    class_power: float
    images: int
    iterations: int
    scale_iterations: int
    jitter: float
    seed: int
    steps: int = 0
    batch: int = 200


def fit_images(
    start: tuple[AbstractKernel, AbstractInducing],
    likelihood: AbstractLikelihood,
    X: np.ndarray,
    labels: np.ndarray,
    search: ImageSearch,
    callback: Callable[[Progress], None] | None = None,
) -> tuple[FitResult, str]:
    """A classifier of images, and a sentence on how its kernel was learned.

    Args:
        start: kernel and inducing variables to start from.
        likelihood: of the classes.
        X: images as rows of pixels, (N, D).
        labels: numbers of the classes, (N,).
        search: how to learn.
        callback: called after every iteration.

    Raises:
        ValueError: for unusable data.
        NumericalError: where the energy is not finite.
    """
    (kernel, inducing), said, stopped = _by_regression(start, X, labels, search, callback)
    some = np.random.default_rng(search.seed).permutation(len(X))[: search.images]
    options: dict[str, Any] = {
        "power": search.class_power,
        "method": search.method,
        "jitter": search.jitter,
        "callback": callback,
    }
    scaled = _scaled(kernel, inducing, likelihood, (X[some], labels[some]), search, options)
    scaled = dataclasses.replace(scaled, interrupted=stopped or scaled.interrupted)
    found: Any = scaled.model
    model = GP(Scaled(kernel, found.kernel.factor), found.likelihood, inducing, found.mean)
    result = _classes_of(model, X, labels, scaled, options)
    if not search.steps or result.interrupted:
        return result, said
    further, ended = _together(result, X, labels, search, callback)
    if further is not None:
        stopped = scaled.interrupted or further.interrupted
        scaled = dataclasses.replace(scaled, interrupted=stopped)
        learned = _classes_of(cast(GP, further.model), X, labels, scaled, options)
        if learned.log_evidence >= result.log_evidence:
            return learned, f"{said}; then {ended}"
        ended = (
            f"{ended} lowered the log evidence from {result.log_evidence:.6g} to "
            f"{learned.log_evidence:.6g}"
        )
    warnings.warn(
        f"{ended}, so that the model stays as it was: give larger batches, or fewer steps",
        stacklevel=2,
    )
    return result, said


def likeliest(
    starts: Iterable[tuple[AbstractKernel, AbstractInducing]],
    X: np.ndarray,
    labels: np.ndarray,
    search: ImageSearch,
) -> tuple[int, list[float]]:
    """Which of several kernels tells the labels of some images best, and the evidence of each.

    Kernels are compared by regression on the labels after a few iterations of learning; the
    evidence of one that cannot be computed is -inf. An interrupt leaves out those that follow.

    Args:
        starts: kernels and inducing variables to start from.
        X: images as rows of pixels, (N, D).
        labels: numbers of the classes, (N,).
        search: how to learn.

    Raises:
        NumericalError: where none can be computed.
    """
    some = np.random.default_rng(search.seed).permutation(len(X))[:COMPARED]
    Y, evidences, failure = targets(labels)[some], [], None
    options: dict[str, Any] = {"power": search.power, "jitter": search.jitter}
    most = min(TRIED, search.iterations)
    for kernel, inducing in starts:
        model = GP(kernel, Gaussian(NOISE), inducing, Constant(np.mean(Y, axis=0)))
        try:
            learned = fit(model, X[some], Y, max_iterations=most, **options)
            evidences.append(learned.log_evidence)
            if learned.interrupted:
                break
        except NumericalError as error:
            evidences.append(-np.inf)
            failure = error
    best = int(np.argmax(evidences))
    if failure is not None and evidences[best] == -np.inf:
        raise failure
    return best, evidences


def _classes_of(
    model: GP, X: np.ndarray, labels: np.ndarray, scaled: FitResult, options: dict[str, Any]
) -> FitResult:
    """The classes of all images at the parameters of a model, after the search for their scale.

    Kernel and patches stay, so that gradients in them are not computed.
    """
    settings = {name: options[name] for name in ("power", "method", "jitter")}
    stopped = scaled.interrupted
    try:
        found = infer(model, X, labels, **settings)
    except GracefulStop:  # what was learned is kept, and nothing more is
        stopped, found = True, infer(model, X, labels, **settings)
    shared = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    shared["message"] = scaled.message if found.converged else found.message
    shared["converged"] = scaled.converged and found.converged and not stopped
    if stopped:
        shared["message"] = INTERRUPTED
    return dataclasses.replace(
        scaled,
        **shared,
        model=model,
        objective=-found.log_evidence,
        interrupted=stopped,
        n_evaluations=scaled.n_evaluations + 1,
        bijections=bijections(model),
        priors=flat(model),
    )


def _together(
    result: FitResult,
    X: np.ndarray,
    labels: np.ndarray,
    search: ImageSearch,
    callback: Callable[[Progress], None] | None,
) -> tuple[FitResult | None, str]:
    """A fit that goes on by steps of minibatches, None where they fail, and what was done."""
    batch = min(search.batch, len(X))
    settings: dict[str, Any] = {"batch": batch, "max_sweeps": search.steps, "seed": search.seed}
    method = TiedPowerEP(natural=NATURAL, learning_rate=RATE, **settings)
    posterior: Any = result.posterior
    sites = (tied_sites_of(posterior.process),)
    options: dict[str, Any] = {"power": search.class_power, "jitter": search.jitter}
    done = f"{plural(search.steps, 'step')} with {plural(batch, 'image')} each"
    try:
        after = fit(
            result.model, X, labels, method=method, sites=sites, callback=callback, **options
        )
    except NumericalError:
        return None, f"{done} led to an energy that is not finite"
    if after.interrupted:
        done = (
            f"{plural(after.n_iterations, 'step')} with {plural(batch, 'image')} each, interrupted"
        )
    return after, done


def _scaled(
    kernel: AbstractKernel,
    inducing: AbstractInducing,
    likelihood: AbstractLikelihood,
    images: tuple[np.ndarray, np.ndarray],
    search: ImageSearch,
    options: dict[str, Any],
) -> FitResult:
    """A model whose factor and mean are learned, from covariances that are computed once."""
    X, labels = images
    cov, rows = tabulated_values(kernel, inducing, jnp.asarray(X))
    model = GP(Scaled(Tabulated(), FACTOR), likelihood, TabulatedVariables(cov), Constant(0.0))
    free: Any = bijections(model)
    maps: Any = all_fixed(free)
    maps = eqx.tree_at(
        lambda m: (m.kernel.factor, m.mean.value), maps, (free.kernel.factor, free.mean.value)
    )
    iterations = search.scale_iterations
    return fit(
        model, np.asarray(rows), labels, bijections=maps, max_iterations=iterations, **options
    )


def _by_regression(
    start: tuple[AbstractKernel, AbstractInducing],
    X: np.ndarray,
    labels: np.ndarray,
    search: ImageSearch,
    callback: Callable[[Progress], None] | None,
) -> tuple[tuple[AbstractKernel, AbstractInducing], str, bool]:
    """Kernel and inducing variables, learned where that predicts other images better.

    With a sentence on how, and whether an interrupt ended it.
    """
    kernel, inducing = start
    if search.iterations == 0:
        return start, "kernel not learned", False
    order = np.random.default_rng(search.seed).permutation(len(X))
    held = min(HELD_OUT, int(SHARE * len(X)))
    test, train = order[:held], order[held:][: search.images]
    Y = targets(labels)
    options: dict[str, Any] = {"power": search.power, "jitter": search.jitter}
    before = GP(kernel, Gaussian(NOISE), inducing, Constant(np.mean(Y, axis=0)))
    try:
        first = infer(before, X[train], Y[train], **options)
        learned = fit(
            before,
            X[train],
            Y[train],
            max_iterations=search.iterations,
            callback=callback,
            **options,
        )
    except NumericalError as error:
        warnings.warn(f"the kernel keeps its starting values: {error}", stacklevel=2)
        return start, "kernel not learned", False
    model: Any = learned.model
    said = f"kernel learned on {len(train)} images, {learned.message}"
    if held and _density(learned, X[test], Y[test]) < _density(first, X[test], Y[test]):
        warnings.warn(
            f"learning on {len(train)} images made predictions of {held} others worse, so that "
            "the kernel keeps its starting values: give more images or more inducing patches",
            stacklevel=2,
        )
        return start, "kernel not learned", learned.interrupted
    return (model.kernel, model.inducing), said, learned.interrupted


def targets(labels: np.ndarray) -> np.ndarray:
    """Labels as outputs of -1 and 1: one column for two classes, one for each of more, (N, P)."""
    classes = int(np.max(labels)) + 1
    if classes == 2:
        return 2.0 * labels[:, None] - 1.0
    return 2.0 * (labels[:, None] == np.arange(classes)) - 1.0


def _density(result: Inference, X: np.ndarray, Y: np.ndarray) -> float:
    """Mean log density of outputs."""
    return float(jnp.mean(result.posterior.predict(X).log_density(jnp.asarray(Y))))
