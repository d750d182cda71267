"""Settings of an estimator, and which are left to be chosen from the data."""

import dataclasses

from cavity.estimators.asked_types import (
    Amount,
    Count,
    KernelAsked,
    LikelihoodAsked,
    MethodAsked,
    PointsAsked,
    PowerAsked,
)
from cavity.estimators.registry import REGRESSION, build_method
from cavity.families.values import is_word, whole
from cavity.learning.initialisation.asked_inducing import Inducing, asked_inducing
from cavity.learning.plans.powers import DEFAULT
from cavity.learning.plans.trials import has_volume
from cavity.likelihoods.base import AbstractLikelihood


def is_auto(setting: object) -> bool:
    """True if a setting is left to be chosen from the data."""
    return is_word(setting, "auto")


def is_enough(setting: object) -> bool:
    """True if as many inducing points as are enough are asked for."""
    return is_word(setting, "enough")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of an estimator; see `GPRegressor` for the meaning of each.

    Values may be any object: they are checked where they are used. `task` is "regression" or
    "classification", `names` are those of the columns; those of one category have the same number
    in `feature_groups`.
    """

    kernel: KernelAsked = "rbf"
    likelihood: LikelihoodAsked = "gaussian"
    method: MethodAsked = "power_ep"
    power: PowerAsked = 0.5
    n_inducing: PointsAsked = "auto"
    inducing: object = "greedy"
    mean: object = "constant"
    block_size: object = None
    missing: str = "error"
    standardise: object = True
    fixed: object = None
    bounds: object = None
    priors: object = "weak"
    n_restarts: Count = 0
    max_iterations: Count = 1000
    tolerance: Amount = 1e-3
    jitter: Amount = 1e-8
    seed: int = 0
    task: str = REGRESSION
    classes: int = 2
    names: tuple[str, ...] | None = None
    feature_groups: tuple[int, ...] | None = None

    @property
    def variables(self) -> Inducing:
        """The inducing variables that were asked for."""
        return asked_inducing(self.inducing)

    @property
    def fixed_power(self) -> PowerAsked:
        """The power, or the default one where it is left to be chosen."""
        return DEFAULT if is_auto(self.power) else self.power

    @property
    def counts_points(self) -> bool:
        """True if a number of inducing variables is asked for."""
        return self.n_inducing is not None and not isinstance(self.n_inducing, str)

    @property
    def starts_by_name(self) -> bool:
        """True if the places of inducing variables are to be chosen, in a way that has a name."""
        return isinstance(self.variables.start, str)


def check_power(settings: Settings) -> None:
    """Refuses a power in words other than "auto", and draws, which have none to choose."""
    if not is_auto(settings.power):
        if isinstance(settings.power, str):
            raise ValueError(
                f'power must be a number in [0, 1], one per row, or "auto", given '
                f"{settings.power!r}"
            )
        return
    chosen = build_method(settings.method)
    if chosen.samples:
        raise ValueError("the method 'mcmc' draws at no power: leave power at a number")
    if has_volume(chosen):
        raise ValueError("PowerEP(tight=True) and PowerEP(dtc=True) are for power 0: give power=0")


def most_variables(asked: Inducing) -> int:
    """The number of inducing variables at the most, where they are added until they are enough.

    Raises:
        ValueError: for what is no number of variables.
    """
    return whole("the most inducing variables, most of Inducing,", asked.most, 1)


def check_growth(settings: Settings, likelihood: AbstractLikelihood) -> None:
    """Refuses growth of the number of inducing points where no criterion can end it."""
    most_variables(settings.variables)
    if not is_enough(settings.n_inducing):
        return
    if not settings.starts_by_name:
        raise ValueError(
            'n_inducing="enough" chooses the points: leave inducing="greedy", or give a number '
            "with inducing variables of your own"
        )
    chosen = build_method(settings.method)
    if chosen.samples or chosen.tied or settings.block_size is not None:
        raise ValueError(
            'n_inducing="enough" needs a site for every row: leave method="power_ep" and '
            "block_size=None, or set n_inducing to a number"
        )
    if likelihood.latents > 1:
        raise ValueError(
            'n_inducing="enough" is for likelihoods of one latent function, and '
            f"{type(likelihood).__name__} has {likelihood.latents}: set n_inducing to a number"
        )
