"""Classification of images by convolutional Gaussian processes, with scikit-learn's interface."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.estimators.asked_types import (
    Amount,
    Count,
    KernelAsked,
    LikelihoodAsked,
    MethodAsked,
    PowerAsked,
    ShapeAsked,
)
from cavity.estimators.classification import AbstractClassifier
from cavity.estimators.learning import Course, Learned, Problem
from cavity.estimators.registry import CLASSIFICATION, build_likelihood, build_method
from cavity.estimators.settings import Settings, is_auto
from cavity.families.base import Family
from cavity.families.images import IMAGES, patches_of
from cavity.families.values import is_word, one_of, whole
from cavity.inducing.base import AbstractInducing
from cavity.kernels.base import AbstractKernel
from cavity.kernels.part_counts import count_parts
from cavity.kernels.parts import AbstractParts, Patches
from cavity.learning.double_precision import in_double
from cavity.learning.initialisation.images import BESIDE, SUMS, Convolution, convolution_start
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.images import ImageSearch, fit_images, likeliest
from cavity.numerics.text import plural

# Sums over distinct patches are used where they are at most this share of all patches.
FEW = 0.8
# Images that the kernel, and then the scale of the functions, is learned on at the most, and
# iterations of that scale.
LEARNED_ON, SCALE_ITERATIONS = 5000, 30
# The sum, and what stands beside it, by the evidence.
AUTO = "auto"


@dataclasses.dataclass(eq=False, repr=False)
class ConvGPClassifier(AbstractClassifier):
    r"""Classification of images by a convolutional Gaussian process, by Power EP.

    The function of an image is a sum over its patches, so that what is learned at one place is
    known at others. Kernel and inducing patches are learned by regression on the labels, on a part
    of the images; then all images have the likelihood, and its functions one more factor, their
    scale. All work is done in float64 and JAX's own settings are left as they are. Experimental:
    of published images USPS and MNIST have been measured.

    Args:
        image_shape: (H, W) or (H, W, C), where images come as rows of pixels; None for arrays
            (N, H, W) or (N, H, W, C), which have it.
        kernel: "conv5", of patches of 5 x 5 pixels, "conv3x7", or "conv5 + rbf" with a kernel of
            whole images beside the sum; without it parts="auto" tries both.
        stride: pixels between one patch and the next.
        channels: "joint", where patches see all channels, or "pooled", where every channel has
            patches of its own.
        parts: "position", where patches know where they are and neighbours are alike; "weighted",
            a weight for each place; "invariant", places do not matter; "auto", the one of these,
            each without and with a kernel of whole images, with the largest evidence on 300 of
            the images, which `message_` says. Or what takes images apart itself, such as
            `kernels.Warps((28, 28), rotation=20.0)`, whose ranges are learned: the size of a
            patch, `stride` and `channels` are of no account then, and inducing patches are whole
            images.
        likelihood: as in `GPClassifier`.
        method: "power_ep"; with it the functions of more than two classes are independent in the
            posterior, at power 1, which `message_` says, because coupled ones and other powers
            take long; or "tied", or a method object, which is taken as it is.
        power: in [0, 1]; 0 is variational inference, 1 is EP.
        n_inducing: number of inducing patches, and with "+ rbf" of inducing images; where there
            are fewer distinct patches, or the others are combinations of some, these are all
            that is used, which `message_` says.
        max_iterations: iterations that the kernel is learned for, on 5,000 images at the most; 0
            keeps starting values. The scale of the functions is learned for 30 more.
        steps: steps of minibatches of all images in which kernel, patches and functions are
            learned together after that, with one tied site (`TiedPowerEP`); then the classes are
            inferred again. Where that lowers the evidence the model stays as it was, with a
            warning; predictions of other images are not looked at. 0 for none.
        batch: images of a minibatch.
        jitter: share of the mean prior variance added to the inducing covariance.
        random_state: seed or generator for everything random.
        verbose: 1 to show the progress of a fit, 0 for nothing; the fit is the same.

    Attributes:
        classes_: the labels, sorted; columns of probabilities are in this order.
        image_shape_: the shape of an image.
        log_evidence_: approximate log marginal likelihood, nats.
        parts_: how patches count, as `parts`.
        plus_: the kernel of whole images beside the sum, or None.
        kernel_: the fitted kernel.
        inducing_: the fitted inducing variables.
        likelihood_: the likelihood.
        mean_: the fitted prior mean.
        converged_: whether learning and inference converged.
        message_: how the kernel was learned, and why learning ended.
        n_iter_: iterations in which the scale of the functions was learned.
        history_: what learning minimised after each iteration, in nats, of data in their units:
            the negative log evidence less log priors.
        n_evaluations_: evaluations of the energy in all that was learned and inferred.
        jitter_: the jitter that was used.
        sites_: how the sites came about.
        interrupted_: whether fit was interrupted from the keyboard.
        posterior_: the posterior process, its arrays numpy float64.
        n_features_in_: number of pixels.

    References:
        van der Wilk (2018), chapter 5; van der Wilk, Rasmussen and Hensman (2017); Dutordoir et
        al. (2020) for positions.
    """

    family: ClassVar[Family] = IMAGES
    remembered: ClassVar[Mapping[str, Any]] = {
        **AbstractClassifier.remembered,
        "image_shape_": tuple[int, ...],
        "parts_": str | AbstractParts,
        "plus_": str | None,
    }

    image_shape: ShapeAsked = None
    kernel: KernelAsked = "conv5"
    stride: object = 1
    channels: object = "joint"
    parts: object = "auto"
    likelihood: LikelihoodAsked = "bernoulli"
    method: MethodAsked = "power_ep"
    power: PowerAsked = 0.5
    n_inducing: object = 100
    max_iterations: Count = 50
    steps: object = 0
    batch: object = 200
    jitter: Amount = 1e-8
    random_state: object = None

    @in_double
    def fit(self, X, y, callback=None):
        """Learns the parameters and infers the posterior.

        Args:
            X: images, (N, H, W) or (N, H, W, C); or rows of pixels, (N, D), with `image_shape`.
            y: labels, (N,), of two classes or more.
            callback: called with a `Progress` after every iteration.

        Returns:
            The estimator itself.

        Raises:
            ValueError: for unusable data or settings.
        """
        self._check_settings()
        self._patches()
        X = np.asarray(X)
        self.image_shape_ = self._shape(X)
        self._fit_labels(X.reshape(len(X), -1), y, None, Course(callback))
        # ranges of pixels say nothing
        self.rows_of_fit_ = dataclasses.replace(self.rows_of_fit_, ranges={})
        return self

    def _shape(self, X: np.ndarray) -> tuple[int, ...]:
        """The shape of an image."""
        if X.ndim in (3, 4):
            found = X.shape[1:]
            if self.image_shape is not None and tuple(self.image_shape) != found:
                raise ValueError(
                    f"X has images of shape {found}, image_shape is {self.image_shape}: leave it "
                    "out, or give images of that shape"
                )
            return found
        if X.ndim != 2 or self.image_shape is None:
            raise ValueError(
                "X must be images, (N, H, W) or (N, H, W, C), or rows of pixels with "
                f"image_shape=(H, W) given; given an array of shape {X.shape}"
            )
        shape = tuple(whole("image_shape", n, 1) for n in self.image_shape)
        if math.prod(shape) != X.shape[1]:
            raise ValueError(
                f"image_shape {shape} is {math.prod(shape)} pixels, X has "
                f"{plural(X.shape[1], 'column')}"
            )
        return shape

    def _inputs(self, X) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        X, shape = np.asarray(X), self.image_shape_
        if X.ndim in (3, 4) and X.shape[1:] != shape:
            raise ValueError(f"the fit had images of shape {shape}, given {X.shape[1:]}")
        return super()._inputs(X.reshape(len(X), -1) if X.ndim in (3, 4) else X)

    def _forms(self) -> list[tuple[Any, str | None]]:
        """Candidate forms of the model: sums of patches, and a kernel added to each."""
        _, plus = self._patches()
        asked: Any = self.parts
        kinds, beside = [asked], [plus]
        named = not isinstance(asked, AbstractParts)
        if named and one_of("parts", asked, (*SUMS, AUTO)) == AUTO:
            kinds, beside = list(SUMS), [None, *BESIDE] if plus is None else [plus]
        return [(kind, one) for kind in kinds for one in beside]

    def _patches(self) -> tuple[tuple[int, int], str | None]:
        """The size of a patch, and the kernel of whole images."""
        if not isinstance(self.kernel, str):
            raise ValueError(
                f"kernel must be text, such as 'conv5' or 'conv5 + rbf', given {self.kernel!r}"
            )
        return patches_of(self.kernel)

    def _chosen(
        self, problem: Problem, search: ImageSearch
    ) -> tuple[Convolution, tuple[AbstractKernel, AbstractInducing], str]:
        """The model, where its learning starts, and a sentence on how it was chosen."""
        forms, count = self._forms(), whole("n_inducing", self.n_inducing, 1)
        asked = [
            Convolution(self._parts(kind), is_word(kind, "weighted"), plus, count)
            for kind, plus in forms
        ]
        starts = [convolution_start(one, problem.X, search.seed) for one in asked]
        best, said = 0, ""
        if len(asked) > 1:
            best, evidences = likeliest(starts, problem.X, problem.y.reshape(-1), search)
            each = (
                f"{_words(*form)} {evidence:.4g}"
                for form, evidence in zip(forms, evidences, strict=False)
            )
            said = f"{_words(*forms[best])}, chosen by log evidence: {', '.join(each)}; "
        self.parts_, self.plus_ = forms[best]
        return asked[best], starts[best], said

    def _parts(self, kind: str | AbstractParts) -> AbstractParts:
        """Division of images into parts."""
        if isinstance(kind, AbstractParts):
            shape, columns = kind.shape, kind.columns
            pixels = math.prod(self.image_shape_)
            if columns != pixels if shape is None else shape != self.image_shape_:
                raise ValueError(
                    f"parts are {kind}, of {plural(columns, 'pixel')}; images are "
                    f"{self.image_shape_}: give parts of that shape"
                )
            return kind
        return Patches(
            self.image_shape_,
            self._patches()[0],
            self.stride,  # type: ignore[arg-type]
            channels=self.channels,  # type: ignore[arg-type]
            positions=kind == "position",
        )

    def _settings(self, task: str, classes: int = 2) -> Settings:
        # checked beside the convolution: inducing variables are patches, not rows of X
        settings = super()._settings(task, classes)
        return dataclasses.replace(settings, kernel="rbf", n_inducing="auto")

    def _learned(self, problem: Problem) -> Learned:
        settings = problem.settings
        likelihood = build_likelihood(settings.likelihood, CLASSIFICATION, settings.classes)
        method, class_power = build_method(settings.method, settings.seed), settings.power
        independent = settings.method == "power_ep" and likelihood.couples
        if independent:
            method, class_power = PowerEP(coupled=False), 1.0
        if method.samples:
            raise ValueError("the method 'mcmc' is not for images: leave method=\"power_ep\"")
        if is_auto(settings.power):
            raise ValueError(
                'power="auto" is not for images: give a number in [0, 1], such as 0.5'
            )
        search = ImageSearch(
            method=cast(AbstractMethod, method),
            power=float(settings.power),
            class_power=float(class_power),
            images=LEARNED_ON,
            iterations=whole("max_iterations", self.max_iterations, 0),
            scale_iterations=SCALE_ITERATIONS,
            steps=whole("steps", self.steps, 0),
            batch=whole("batch", self.batch, 1),
            jitter=float(settings.jitter),
            seed=settings.seed,
        )
        labels = problem.y.reshape(-1)
        asked, start, chosen = self._chosen(problem, search)
        rows = _rows(asked, problem.X)
        result, said = fit_images(start, likelihood, rows, labels, search, problem.course.callback)
        said = chosen + said
        inside: Any = start[1]
        found = (inside if asked.plus is None else inside.each[0]).size
        if found < asked.count:
            used = plural(found, "distinct patch", "distinct patches")
            said = f"{said}; {used} are used, which explain all that others would"
        if independent:
            said = f"{said}; classes are independent in the posterior, at power 1"
        # it was fitted to counted rows, and predicts from images
        posterior: Any = result.posterior
        posterior = dataclasses.replace(posterior, n_inputs=problem.X.shape[1])
        result = dataclasses.replace(result, posterior=posterior)
        result = result.judged(f"{said}; {result.message}", converged=result.converged)
        return Learned(result, np.array([len(labels)]), len(labels))


def _words(parts: object, plus: str | None) -> str:
    """Name of a form: the sum of patches, and the kernel added to it."""
    return f"{parts} + {plus}" if plus else f"{parts}"


def _rows(asked: Convolution, X: np.ndarray) -> np.ndarray:
    """Images as rows of pixels, or as counted rows where few of their patches are distinct."""
    if not asked.patches.countable or asked.patches.reach is not None or asked.plus is not None:
        return X  # no two patches stay equal, or another kernel sees the columns
    counted = count_parts(asked.patches, X)
    size = counted.shape[1] - X.shape[1] - 1 - asked.patches.size
    return counted if size <= FEW * asked.patches.size else X
