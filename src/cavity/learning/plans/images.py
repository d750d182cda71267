"""Learning of convolutional classifiers: the kernel by regression on labels, then the classes.

With Gaussian noise the energy is in closed form, and one matrix serves all classes, so that kernel
and patches are learned on a part of the images in a fraction of the time that sweeps would take.
What the likelihood needs to know beside is how large its functions are: one factor. Steps of
minibatches may follow, in which kernel, patches and beliefs are learned together.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from cavity.inducing.base import AbstractInducing
from cavity.inducing.tabulated import Tabulated, TabulatedVariables
from cavity.kernels.base import AbstractKernel, Scaled
from cavity.learning.data.validation import all_fixed
from cavity.learning.initialisation.images import tabulated_values
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers.lbfgs import INTERRUPTED, Progress
from cavity.learning.results.result import FitResult, Inference
from cavity.learning.run.fits import fits
from cavity.learning.run.stages import Run
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import Constant
from cavity.models.gp import GP
from cavity.models.remembered import tied_sites_of
from cavity.numerics.callers import warn_caller
from cavity.numerics.text import plural
from cavity.parameters import bijections

# Images, and iterations of regression on their labels, by which kernels are compared.
COMPARED, TRIED = 300, 15
# Images held out to see whether learning helped, at the most, and as a share of those there are.
HELD_OUT, SHARE = 1000, 0.2
# The noise variance of labels of -1 and 1 to begin with, and the first guess of the factor.
NOISE, FACTOR = 0.1, 4.0
# Where its kernel has the values that it started from.
UNLEARNED = "kernel not learned"
# The step of natural gradients for beliefs, and that of Adam for kernel and patches.
NATURAL, RATE = 0.05, 0.01


# A kernel and inducing variables.
Parts = tuple[AbstractKernel, AbstractInducing]


@dataclasses.dataclass(frozen=True)
class ImageSearch:
    """Settings by which a convolutional classifier is learned.

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
    start: Parts,
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
    run = fits(X, labels, {"jitter": search.jitter, "callback": callback})
    return run.carry_out(lambda run: image_plan(run, start, likelihood, search))


def image_plan(
    run: Run, start: Parts, likelihood: AbstractLikelihood, search: ImageSearch
) -> tuple[FitResult, str]:
    """The plan of `fit_images`: the kernel, the classes, and steps for everything together."""
    run = run.with_options(power=search.class_power, method=search.method)

    def stopped(parts: Parts, said: str) -> tuple[FitResult, str]:
        result, _ = _classes(run, parts, likelihood, search, said)
        return result.stopped(INTERRUPTED), said

    parts, said = _regression(run, start, search, stopped)
    result, scaled = _classes(run, parts, likelihood, search, said)
    return _together(run, result, scaled, search, said) if search.steps else (result, said)


def likeliest(
    starts: Iterable[Parts], X: np.ndarray, labels: np.ndarray, search: ImageSearch
) -> tuple[int, list[float]]:
    """The index of the kernel that explains the labels of some images best, and each evidence.

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
    options = {"power": search.power, "jitter": search.jitter}
    run = fits(X[some], targets(labels)[some], options)
    budget = min(TRIED, search.iterations)
    return run.carry_out(lambda run: compare_kernels(run, starts, budget))


def compare_kernels(run: Run, starts: Iterable[Parts], budget: int) -> tuple[int, list[float]]:
    """The plan of `likeliest`, on outputs that stand for labels."""
    evidences: list[float] = []
    learned: list[FitResult] = []

    def ended(last: FitResult) -> tuple[int, list[float]]:
        return _highest([*evidences, last.log_evidence])

    for number, (kernel, inducing) in enumerate(starts, 1):
        model = GP(kernel, Gaussian(NOISE), inducing, Constant(np.mean(run.y, axis=0)))
        found = run.try_stage(f"kernel-{number}", model, budget=budget, ended=ended)
        evidences.append(-np.inf if found is None else found.log_evidence)
        learned += [] if found is None else [found]
    run.best(learned)  # raises what was wrong where nothing could be computed
    return _highest(evidences)


def _highest(evidences: list[float]) -> tuple[int, list[float]]:
    """The place of the highest, and all."""
    return int(np.argmax(evidences)), evidences


def _classes(
    run: Run, parts: Parts, likelihood: AbstractLikelihood, search: ImageSearch, said: str
) -> tuple[FitResult, FitResult]:
    """The classes of all images, and the fit of a factor and a mean that they rest on.

    That fit is to some of the images, and from covariances that are computed once. Kernel and
    patches stay, so that gradients in them are not computed.
    """
    kernel, inducing = parts
    some = np.random.default_rng(search.seed).permutation(len(run.X))[: search.images]
    cov, rows = tabulated_values(kernel, inducing, jnp.asarray(run.X[some]))
    model = GP(Scaled(Tabulated(), FACTOR), likelihood, TabulatedVariables(cov), Constant(0.0))
    free: Any = bijections(model)
    maps: Any = all_fixed(free)
    maps = eqx.tree_at(
        lambda m: (m.kernel.factor, m.mean.value), maps, (free.kernel.factor, free.mean.value)
    )

    def whole(scaled: FitResult) -> FitResult:
        found: Any = scaled.model
        model = GP(Scaled(kernel, found.kernel.factor), found.likelihood, inducing, found.mean)
        return run.at_rest(scaled, model, ended=lambda best: (best, said))

    scaled = run.with_table(np.asarray(rows), run.y[some]).stage(
        "scale",
        model,
        budget=search.scale_iterations,
        bijections=maps,
        ended=lambda best: (whole(best).stopped(INTERRUPTED), said),
    )
    return whole(scaled), scaled


def _together(
    run: Run, result: FitResult, scaled: FitResult, search: ImageSearch, said: str
) -> tuple[FitResult, str]:
    """The better of the classes, and of those after steps of minibatches for everything."""
    batch = min(search.batch, len(run.X))
    settings: dict[str, Any] = {"batch": batch, "max_sweeps": search.steps, "seed": search.seed}
    method = TiedPowerEP(natural=NATURAL, learning_rate=RATE, **settings)
    posterior: Any = result.posterior
    sites = (tied_sites_of(posterior.process),)
    each = f"with {plural(batch, 'image')} each"

    def better(after: FitResult, done: str) -> tuple[FitResult, str]:
        learned = run.at_rest(
            scaled, after.model, ended=lambda best: (best, f"{said}; then {done}")
        )
        if learned.log_evidence >= result.log_evidence:
            return learned, f"{said}; then {done}"
        _warn_of_steps(
            f"{done} lowered the log evidence from {result.log_evidence:.6g} to "
            f"{learned.log_evidence:.6g}"
        )
        return run.best([result]), said

    def stopped(after: FitResult) -> tuple[FitResult, str]:
        found, text = better(after, f"{plural(after.n_iterations, 'step')} {each}, interrupted")
        return found.stopped(INTERRUPTED), text

    how: dict[str, Any] = {"method": method, "sites": sites, "ended": stopped}
    after = run.try_stage("steps", result.model, **how)
    done = f"{plural(search.steps, 'step')} {each}"
    if after is not None:
        return better(after, done)
    _warn_of_steps(f"{done} led to an energy that is not finite")
    return run.best([result]), said


def _warn_of_steps(why: str) -> None:
    warn_caller(f"{why}, so that the model stays as it was: give larger batches, or fewer steps")


def _regression(
    run: Run,
    start: Parts,
    search: ImageSearch,
    stopped: Callable[[Parts, str], tuple[FitResult, str]],
) -> tuple[Parts, str]:
    """Kernel and inducing variables, and how they were learned.

    They are kept where they predict other images better than those that learning started from.

    Args:
        run: on all images.
        start: kernel and inducing variables.
        search: how to learn.
        stopped: what the plan gives where an interrupt ends the learning.
    """
    kernel, inducing = start
    if search.iterations == 0:
        return start, UNLEARNED
    X, Y = run.X, targets(run.y)
    order = np.random.default_rng(search.seed).permutation(len(X))
    held = min(HELD_OUT, int(SHARE * len(X)))
    test, train = order[:held], order[held:][: search.images]
    before = GP(kernel, Gaussian(NOISE), inducing, Constant(np.mean(Y, axis=0)))
    run = run.with_table(X[train], Y[train], power=search.power, method=PowerEP())

    first = run.try_infer(before)
    if first is None:
        return _unlearned(run, start)

    def judged(learned: FitResult) -> tuple[Parts, str]:
        others = X[test], Y[test]
        if held and _density(learned, *others) < _density(first, *others):
            warn_caller(
                f"learning on {len(train)} images made predictions of {held} others worse, so "
                "that the kernel keeps its starting values: give more images or more inducing "
                "patches"
            )
            return start, UNLEARNED
        found: Any = learned.model
        said = f"kernel learned on {len(train)} images, {learned.message}"
        return (found.kernel, found.inducing), said

    learned = run.try_stage(
        "regression",
        before,
        budget=search.iterations,
        ended=lambda best: stopped(*judged(best)),
    )
    return _unlearned(run, start) if learned is None else judged(learned)


def _unlearned(run: Run, start: Parts) -> tuple[Parts, str]:
    """The start, where learning failed."""
    failure = run.account.failure
    warn_caller(f"the kernel keeps its starting values: {failure}")
    return start, UNLEARNED


def targets(labels: np.ndarray) -> np.ndarray:
    """Labels as outputs of -1 and 1: one column for two classes, one for each of more, (N, P)."""
    classes = int(np.max(labels)) + 1
    if classes == 2:
        return 2.0 * labels[:, None] - 1.0
    return 2.0 * (labels[:, None] == np.arange(classes)) - 1.0


def _density(result: Inference, X: np.ndarray, Y: np.ndarray) -> float:
    """Mean log density of outputs."""
    return float(jnp.mean(result.posterior.predict(X).log_density(jnp.asarray(Y))))
