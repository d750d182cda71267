"""From an estimator's settings and data to models with starting values."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from cavity import likelihoods
from cavity.inducing.base import AbstractInducing, Points
from cavity.kernels.base import AbstractKernel
from cavity.kernels.text_form import parse
from cavity.learning.initialisation.inducing_points import CHOICES, select_inducing
from cavity.learning.initialisation.models import Given, started
from cavity.learning.mcmc.kernels import blackjax
from cavity.learning.mcmc.settings import MCMC
from cavity.learning.methods import (
    AbstractMethod,
    Laplace,
    LocalBound,
    MeanField,
    PowerEP,
    TiedPowerEP,
)
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.support import Support
from cavity.means import AbstractMean, Constant, Linear, Zero
from cavity.models.gp import GP
from cavity.parameters import FIXED, Bijection, bijections

FULL_ROWS = 1_000  # "auto" is the full GP up to here
AUTO_INDUCING = 200
MOST_FULL_ROWS = 20_000

# By task and name; the first of a task is its default.
LIKELIHOODS: dict[str, dict[str, Callable[[], AbstractLikelihood]]] = {
    "regression": {
        "gaussian": likelihoods.Gaussian,
        "heteroscedastic": likelihoods.HeteroscedasticGaussian,
        "student_t": likelihoods.StudentT,
        "laplace": likelihoods.Laplace,
        "poisson": likelihoods.Poisson,
        "negative_binomial": likelihoods.NegativeBinomial,
        "gamma": likelihoods.Gamma,
        "exponential": likelihoods.Exponential,
        "beta": likelihoods.Beta,
    },
    "classification": {
        "bernoulli": likelihoods.Bernoulli,
        "probit": likelihoods.Bernoulli,
        "logit": functools.partial(likelihoods.Bernoulli, "logit"),
        "multinomial_probit": functools.partial(likelihoods.MultinomialProbit, 2),
        "softmax": functools.partial(likelihoods.Softmax, 2),
        "robust_max": functools.partial(likelihoods.RobustMax, 2),
    },
}
# Of more than two classes, given their number; names of links are those of what extends them.
CLASSES: dict[str, Callable[[int], AbstractLikelihood]] = {
    "bernoulli": likelihoods.MultinomialProbit,
    "probit": likelihoods.MultinomialProbit,
    "logit": likelihoods.Softmax,
    "multinomial_probit": likelihoods.MultinomialProbit,
    "softmax": likelihoods.Softmax,
    "robust_max": likelihoods.RobustMax,
}
MANY = ("multinomial_probit", "softmax", "robust_max")  # each of them once, by its own name
ESTIMATORS = {"regression": "GPRegressor", "classification": "GPClassifier"}
METHODS = {
    "power_ep": PowerEP,
    "laplace": Laplace,
    "local_bound": LocalBound,
    "mean_field": MeanField,
    "tied": TiedPowerEP,
    "mcmc": MCMC,
}
MEANS = ("zero", "constant", "linear")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator was asked for; see `GPRegressor` for the meaning of each.

    `task` is "regression" or "classification", `names` are those of the columns.
    """

    kernel: Any
    likelihood: Any
    mean: Any
    n_inducing: Any
    inducing: Any
    learn_inducing: bool
    standardise: bool
    seed: int
    block_size: int | None = None
    method: Any = "power_ep"
    task: str = "regression"
    classes: int = 2
    names: tuple[str, ...] | None = None


def one_of(name: str, value: str, known: Any) -> str:
    """The value, if it is a known one.

    Raises:
        ValueError: naming the known values.
    """
    if value not in known:
        raise ValueError(f"{name} must be one of {sorted(known)}, given {value!r}")
    return value


def whole(name: str, value: Any, least: int, otherwise: str = "") -> int:
    """The value as an int, if it is a whole number that is large enough.

    Raises:
        ValueError: saying what is wanted (or `otherwise`), and what was given.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        wanted = f"{otherwise}a whole number of at least {least}"
        raise ValueError(f"{name} must be {wanted}, given {value!r}")
    return int(value)


def build_method(method: Any, seed: int = 0) -> AbstractMethod | MCMC:
    """An inference method from its name, or itself.

    Args:
        method: what was asked for.
        seed: of draws, where a name was given.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(method, AbstractMethod | MCMC):
        return method
    make = METHODS[one_of("method", method, METHODS)]
    return MCMC(seed=seed) if make is MCMC else make()


def check_method(
    method: Any,
    likelihood: AbstractLikelihood,
    *,
    power: Any,
    n_inducing: Any,
    inducing: Any,
    block_size: Any,
) -> None:
    """Refuses a method that does not go with the other settings; see `GPRegressor` for each.

    Raises:
        ValueError: for an unknown name, and for settings that do not go together.
        ImportError: for draws, where the extra is not installed.
    """
    found = build_method(method)
    _check_suits(found, likelihood)
    if isinstance(found, MCMC):
        blackjax()
        if not (n_inducing is None or isinstance(n_inducing, str)) or not isinstance(
            inducing, str
        ):
            raise ValueError(
                "the method 'mcmc' is for the full GP: leave n_inducing and inducing as they are"
            )
        if block_size is not None:
            raise ValueError("the method 'mcmc' is for the full GP: leave block_size=None")
    if not isinstance(found, TiedPowerEP):
        return
    if n_inducing is None and isinstance(inducing, str):
        raise ValueError(
            "the method 'tied' gives all rows one site on the inducing points, and "
            'n_inducing=None is the full GP: leave n_inducing="auto", or set a number'
        )
    if block_size is not None:
        raise ValueError("with the method 'tied' all rows share one site: leave block_size=None")
    if np.ndim(power):
        raise ValueError("the method 'tied' has one power for all rows: give one number")


def _check_suits(method: AbstractMethod | MCMC, likelihood: AbstractLikelihood) -> None:
    """Refuses a method that the likelihood does not suit, naming those that would."""
    labels = likelihood.support is Support.LABELS
    task = "classification" if labels else "regression"
    classes = number_of_classes(likelihood)
    try:
        method.check(likelihood)
    except ValueError as error:
        names = suited(method, task, classes)
        if isinstance(method, PowerEP) or not names:
            raise  # Power EP takes them all, but another of its settings is in the way
        listed = ", ".join(f'"{name}"' for name in names)
        remedy = f"likelihood={listed}" if len(names) == 1 else f"one of the likelihoods {listed}"
        raise ValueError(f"{error}, or {remedy}") from None


def suited(method: AbstractMethod | MCMC, task: str, classes: int = 2) -> list[str]:
    """The names of a task's likelihoods, of so many classes, that a method works with, sorted."""

    def suits(name: str) -> bool:
        try:
            method.check(LIKELIHOODS[task][name]() if classes <= 2 else CLASSES[name](classes))
        except ValueError:
            return False
        return True

    return sorted(filter(suits, LIKELIHOODS[task] if classes <= 2 else MANY))


def build_likelihood(likelihood: Any, task: str, classes: int = 2) -> AbstractLikelihood:
    """A likelihood from its name, or itself.

    Args:
        likelihood: what was asked for.
        task: "regression" or "classification".
        classes: of a classification, the number of classes.

    Raises:
        ValueError: for an unknown name, for a likelihood of the other task, and for one of
            another number of classes.
    """
    known = LIKELIHOODS[task]
    if not isinstance(likelihood, AbstractLikelihood):
        elsewhere = [t for t, names in LIKELIHOODS.items() if _among(likelihood, names)]
        if elsewhere and task not in elsewhere:
            raise ValueError(
                f"the likelihood {likelihood!r} is for {elsewhere[0]}: use "
                f"{ESTIMATORS[elsewhere[0]]}, or one of {sorted(known)}"
            )
        if not _among(likelihood, known):
            raise ValueError(
                f"likelihood must be one of {sorted(known)}, or a likelihood such as "
                f"cavity.likelihoods.{type(next(iter(known.values()))()).__name__}(), given "
                f"{likelihood!r}"
            )
        return known[likelihood]() if classes <= 2 else CLASSES[likelihood](classes)
    labels = likelihood.support is Support.LABELS
    if labels and task == "classification" and number_of_classes(likelihood) != classes:
        raise ValueError(
            f"the likelihood {type(likelihood).__name__} has {number_of_classes(likelihood)} "
            "classes, the "
            f"labels have {classes}: give its name instead"
        )
    found = "classification" if labels else "regression"
    if found != task:
        raise ValueError(
            f"the likelihood {type(likelihood).__name__} is for {found}: use "
            f"{ESTIMATORS[found]}, or one of {sorted(known)}"
        )
    return likelihood


def _among(name: Any, names: Collection[str]) -> bool:
    return isinstance(name, str) and name in names


def build(
    settings: Settings, X: np.ndarray, y: np.ndarray, side: Mapping[str, np.ndarray]
) -> tuple[list[GP], Any]:
    """Models with starting values, the likeliest first, and the bijections to learn them in.

    Args:
        settings: what was asked for.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        side: side data by name, (N,) each.

    Raises:
        ValueError: for unknown names or impossible numbers, before any work.
    """
    kernel = _kernel(settings, X.shape[1])
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    model = _laid_out(kernel, likelihood, _mean(settings, X, y.shape[1]))
    given, count = _check_inducing(settings, *X.shape)
    points = count if given is None else given.size
    starts = [model]
    if settings.standardise:
        known = Given(
            kernel=isinstance(settings.kernel, AbstractKernel),
            likelihood=isinstance(settings.likelihood, AbstractLikelihood),
            mean=isinstance(settings.mean, AbstractMean),
        )
        starts = started(model, known, X, y, side, points=points, seed=settings.seed)
    learned = settings.learn_inducing
    if count is not None:
        distinct = len(np.unique(X, axis=0))
        learned = learned and count < distinct
        choice: Any = {"choice": settings.inducing, "seed": settings.seed}
        sets = [select_inducing(m.latents[0].kernel, X, count, **choice) for m in starts]
        starts = [_with_inducing(m, Points(Z)) for m, Z in zip(starts, sets, strict=True)]
    elif given is not None:
        starts = [_with_inducing(m, given) for m in starts]
    maps = bijections(starts[0])
    if points is not None and not learned:
        maps = eqx.tree_at(lambda m: m.inducing, maps, _frozen(maps.inducing))
    return starts, maps


def _laid_out(kernel: AbstractKernel, likelihood: AbstractLikelihood, mean: AbstractMean) -> GP:
    """The model: latent functions beside the first have its kernel and a constant mean.

    The functions of classes share a kernel and have a mean each.
    """
    if likelihood.latents == 1:
        return GP(kernel, likelihood, None, mean)
    if likelihood.support is Support.LABELS:
        each = mean if isinstance(mean, Zero) else (mean,) * number_of_classes(likelihood)
        return GP(kernel, likelihood, None, each)
    noise = float(likelihoods.Gaussian().variance)
    beside = (Constant(latent.prior_mean(noise)) for latent in likelihood.latent_functions[1:])
    return GP((kernel,) * likelihood.latents, likelihood, None, (mean, *beside))


def _with_inducing(model: GP, inducing: AbstractInducing) -> GP:
    return eqx.tree_at(lambda m: m.inducing, model, inducing, is_leaf=lambda x: x is None)


def _frozen(maps: Any) -> Any:
    return jax.tree.map(lambda _: FIXED, maps, is_leaf=lambda b: isinstance(b, Bijection))


def _kernel(settings: Settings, n_inputs: int) -> AbstractKernel:
    if isinstance(settings.kernel, AbstractKernel):
        return settings.kernel
    if not isinstance(settings.kernel, str):
        raise ValueError(
            "kernel must be text such as 'rbf + linear', or a kernel such as "
            f"cavity.kernels.RBF(), given {settings.kernel!r}"
        )
    return parse(settings.kernel, n_inputs, settings.names)


def _mean(settings: Settings, X: np.ndarray, outputs: int) -> AbstractMean:
    if isinstance(settings.mean, AbstractMean):
        return settings.mean
    kind = one_of("mean", settings.mean, MEANS)
    if kind == "zero":
        return Zero()
    if kind == "constant":
        return Constant(np.zeros(outputs) if outputs > 1 else 0.0)
    shape = X.shape[1:] if outputs == 1 else (X.shape[1], outputs)
    centre = X.mean(axis=0) if settings.standardise else np.zeros(X.shape[1])
    return Linear(np.zeros(shape), np.zeros(outputs if outputs > 1 else ()), centre)


def _check_inducing(
    settings: Settings, rows: int, columns: int
) -> tuple[AbstractInducing | None, int | None]:
    """The inducing variables where they were given, or how many to choose; both None: full GP."""
    given, wanted = settings.inducing, settings.n_inducing
    if isinstance(given, AbstractInducing):
        return given, None
    if not isinstance(given, str):
        return Points(_points(given, columns)), None
    one_of("inducing", given, CHOICES)
    if isinstance(wanted, str):
        one_of("n_inducing", wanted, ("auto",))
        method = build_method(settings.method)
        tied = isinstance(method, TiedPowerEP)
        # of many classes Laplace's method has no sparse form
        full = isinstance(method, Laplace) and settings.classes > 2
        if isinstance(method, MCMC):
            full = True
            if rows > FULL_ROWS:
                raise ValueError(
                    f"the method 'mcmc' draws from a full GP, and {rows} rows would take it many "
                    f"hours (the limit is {FULL_ROWS}): use another method, or n_inducing=None to "
                    "wait for it"
                )
        wanted = AUTO_INDUCING if tied or (rows > FULL_ROWS and not full) else None
    if wanted is not None:
        return None, whole("n_inducing", wanted, 1, '"auto", None (the full GP) or ')
    if settings.block_size is not None:
        raise ValueError(
            "block_size changes nothing in a full GP, which is exact: set n_inducing to a "
            "number, or leave block_size=None"
        )
    if rows > MOST_FULL_ROWS:
        raise ValueError(
            f"a full GP on {rows} rows needs about {10 * rows**2 * 8e-9:.0f} GB of memory (the "
            f"limit is {MOST_FULL_ROWS} rows): set n_inducing to a number such as 500"
        )
    return None, None


def _points(given: Any, columns: int) -> Any:
    try:
        Z: Any = np.array(given, dtype=float)
    except (TypeError, ValueError):
        Z = np.zeros(0)
    if Z.ndim != 2 or Z.shape[1] != columns or not len(Z) or not np.all(np.isfinite(Z)):
        raise ValueError(
            f"inducing must be one of {CHOICES}, or finite points of shape (M, {columns}), given "
            f"{given!r}"
        )
    return Z
