"""Settings that are left to be chosen from the data, and where that cannot be done."""

from cavity.estimators.registry import build_method
from cavity.families.values import whole
from cavity.learning.initialisation.asked_inducing import Inducing
from cavity.learning.plans.trials import has_volume
from cavity.likelihoods.base import AbstractLikelihood


def is_auto(setting: object) -> bool:
    """True if a setting is left to be chosen from the data."""
    return isinstance(setting, str) and setting == "auto"


def is_enough(setting: object) -> bool:
    """True if as many inducing points as are enough are asked for."""
    return isinstance(setting, str) and setting == "enough"


def check_power(power: object, method: object) -> None:
    """Refuses a power in words other than "auto", and draws, which have none to choose.

    Args:
        power: what was asked for.
        method: what was asked for.
    """
    if isinstance(power, str) and not is_auto(power):
        raise ValueError(
            f'power must be a number in [0, 1], one per row, or "auto", given {power!r}'
        )
    if not is_auto(power):
        return
    chosen = build_method(method)
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


def check_growth(
    n_inducing: object,
    variables: Inducing,
    method: object,
    likelihood: AbstractLikelihood,
    *,
    blocked: bool,
) -> None:
    """Refuses growth of the number of inducing points where no criterion can end it.

    Args:
        n_inducing: what was asked for.
        variables: those that were asked for.
        method: what was asked for.
        likelihood: of the model.
        blocked: whether rows share sites.
    """
    most_variables(variables)
    if not is_enough(n_inducing):
        return
    if not isinstance(variables.start, str):
        raise ValueError(
            'n_inducing="enough" chooses the points: leave inducing="greedy", or give a number '
            "with inducing variables of your own"
        )
    chosen = build_method(method)
    if chosen.samples or chosen.tied or blocked:
        raise ValueError(
            'n_inducing="enough" needs a site for every row: leave method="power_ep" and '
            "block_size=None, or set n_inducing to a number"
        )
    if likelihood.latents > 1:
        raise ValueError(
            'n_inducing="enough" is for likelihoods of one latent function, and '
            f"{type(likelihood).__name__} has {likelihood.latents}: set n_inducing to a number"
        )
