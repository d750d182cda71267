"""The names of likelihoods and methods, for estimators and the command line.

A likelihood or a method is added to the table here, and every interface knows it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal

from cavity import likelihoods
from cavity.families.options import CLASSIFICATION, REGRESSION
from cavity.families.values import one_of
from cavity.learning.methods.base import AbstractMethod
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import Laplace, LocalBound, MeanField, PowerEP, TiedPowerEP
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.support import Support

Method = AbstractMethod | MCMC

ESTIMATORS = {REGRESSION: "GPRegressor", CLASSIFICATION: "GPClassifier"}


@dataclasses.dataclass(frozen=True)
class NamedLikelihood:
    """A likelihood that can be asked for by name.

    Attributes:
        task: what it is for.
        build: makes it, given the number of classes.
        many: the name of the likelihood that takes its place where classes are more than two.
    """

    task: str
    build: Callable[[int], AbstractLikelihood]
    many: str | None = None


def _outputs(build: Callable[[], AbstractLikelihood]) -> NamedLikelihood:
    return NamedLikelihood(REGRESSION, lambda _: build())


def _binary(link: Literal["probit", "logit"], many: str) -> NamedLikelihood:
    return NamedLikelihood(CLASSIFICATION, lambda _: likelihoods.Bernoulli(link), many)


def _classes(build: Callable[[int], AbstractLikelihood]) -> NamedLikelihood:
    return NamedLikelihood(CLASSIFICATION, build)


# The first of a task is its default.
LIKELIHOODS = {
    "gaussian": _outputs(likelihoods.Gaussian),
    "heteroscedastic": _outputs(likelihoods.HeteroscedasticGaussian),
    "student_t": _outputs(likelihoods.StudentT),
    "laplace": _outputs(likelihoods.Laplace),
    "poisson": _outputs(likelihoods.Poisson),
    "negative_binomial": _outputs(likelihoods.NegativeBinomial),
    "gamma": _outputs(likelihoods.Gamma),
    "exponential": _outputs(likelihoods.Exponential),
    "beta": _outputs(likelihoods.Beta),
    "bernoulli": _binary("probit", "multinomial_probit"),
    "probit": _binary("probit", "multinomial_probit"),
    "logit": _binary("logit", "softmax"),
    "multinomial_probit": _classes(likelihoods.MultinomialProbit),
    "softmax": _classes(likelihoods.Softmax),
    "robust_max": _classes(likelihoods.RobustMax),
}
METHODS: dict[str, Callable[[], Method]] = {
    "power_ep": PowerEP,
    "laplace": Laplace,
    "local_bound": LocalBound,
    "mean_field": MeanField,
    "tied": TiedPowerEP,
    "mcmc": MCMC,
}


def as_asked(value: object) -> str:
    """A likelihood or a method as a user asked for it: its name, or that of its class."""
    return repr(value) if isinstance(value, str) else type(value).__name__


# ------------------------------------------------------------------------------- likelihoods


def likelihood_names(task: str) -> list[str]:
    """The names of the likelihoods of a task, its default first."""
    return [name for name, entry in LIKELIHOODS.items() if entry.task == task]


def name_for_classes(name: str, classes: int) -> str:
    """The name of a likelihood of that many classes, given that of two."""
    return (LIKELIHOODS[name].many or name) if classes > 2 else name


def named_likelihood(name: str, classes: int = 2) -> AbstractLikelihood:
    """The likelihood of a known name, for that many classes."""
    return LIKELIHOODS[name_for_classes(name, classes)].build(classes)


def task_of(likelihood: AbstractLikelihood) -> str:
    """Task that a likelihood serves."""
    return CLASSIFICATION if likelihood.support is Support.LABELS else REGRESSION


def likelihood_among(
    known: Sequence[str], likelihood: object, classes: int = 2
) -> AbstractLikelihood:
    """A likelihood from any name, or itself.

    Raises:
        ValueError: for an unknown name, with those of `known`.
    """
    if isinstance(likelihood, AbstractLikelihood):
        return likelihood
    if isinstance(likelihood, str) and likelihood in LIKELIHOODS:
        return named_likelihood(likelihood, classes)
    raise ValueError(
        f"likelihood must be one of {sorted(known)}, or a likelihood such as "
        f"cavity.likelihoods.{type(named_likelihood(known[0])).__name__}(), given {likelihood!r}"
    )


def build_likelihood(likelihood: object, task: str, classes: int = 2) -> AbstractLikelihood:
    """A likelihood from its name, or itself.

    Args:
        likelihood: what was asked for.
        task: "regression" or "classification".
        classes: of a classification, the number of classes.

    Raises:
        ValueError: for an unknown name, for a likelihood of the other task, and for one of
            another number of classes.
    """
    known = likelihood_names(task)
    built = likelihood_among(known, likelihood, classes)
    asked, purpose = as_asked(likelihood), task_of(built)
    if purpose != task:
        raise ValueError(
            f"the likelihood {asked} is for {purpose}: use {ESTIMATORS[purpose]}, or one of "
            f"{sorted(known)}"
        )
    if task == CLASSIFICATION and number_of_classes(built) != classes:
        raise ValueError(
            f"the likelihood {asked} has {number_of_classes(built)} classes, the labels have "
            f"{classes}: give its name instead"
        )
    return built


# ----------------------------------------------------------------------------------- methods


def build_method(method: object, seed: int = 0) -> Method:
    """An inference method from its name, or itself.

    Args:
        method: what was asked for.
        seed: of draws, where a name was given.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(method, AbstractMethod | MCMC):
        return method
    build = METHODS[one_of("method", method, METHODS)]
    return MCMC(seed=seed) if build is MCMC else build()


def suits(method: Method, likelihood: AbstractLikelihood) -> bool:
    """True if a method works with a likelihood."""
    try:
        method.check(likelihood)
    except ValueError:
        return False
    return True


def allows(
    method: Method, likelihood: AbstractLikelihood, *, sparse: bool, blocked: bool = False
) -> bool:
    """True if a method works with inducing variables, or without, and with blocks of rows."""
    try:
        method.check_layout(likelihood, sparse=sparse, blocked=blocked)
    except ValueError:
        return False
    return True


def suited(method: Method, task: str, classes: int = 2) -> list[str]:
    """The names of a task's likelihoods, of so many classes, that a method works with, sorted."""
    names = {name_for_classes(name, classes) for name in likelihood_names(task)}
    return sorted(name for name in names if suits(method, named_likelihood(name, classes)))
