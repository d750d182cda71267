"""Settings that linear models and networks share: those of weights and their priors."""

from cavity.families.base import Option, Rule, Setting
from cavity.families.options import MAX_ITERATIONS, NO_DRAWS, POWER
from cavity.families.values import Names

PRIORS = ("spike_slab", "horseshoe", "laplace", "student_t", "gaussian", "ard")
# Likelihoods of several latent functions.
SEVERAL = ("heteroscedastic",)


def prior(default: str, help: str) -> Setting:
    """The prior of a family's weights.

    Args:
        default: its name.
        help: of the option.
    """
    values = Names(PRIORS, objects=True)
    return Setting("prior", default, values, Option("--prior", "NAME", help, "texts", read=_one))


def _one(typed: list[str]) -> str:
    """The one name that was typed.

    Raises:
        ValueError: for several.
    """
    if len(typed) > 1:
        raise ValueError(f"one prior is for all weights, given {' and '.join(typed)}")
    return typed[0]


EP = POWER.with_default(1.0)


def iterations(default: int) -> Setting:
    """The iterations of a family of so many."""
    return MAX_ITERATIONS.with_default(default)


def unused(called: str) -> dict[str, str]:
    """Options that models of weights have no use for, and what to say.

    Args:
        called: one of the models in words.
    """
    return {
        "--kernel": f"{called} has no kernel: leave it out",
        "--method": f"{called} has one method, 'power_ep': leave it out",
        "--inducing": f"{called} has no inducing points: leave it out",
        "--batch-rows": f"{called} needs all rows in memory: leave it out",
        **NO_DRAWS,
    }


# A rule of both families.
ONE_FUNCTION = Rule(
    lambda asked: asked["likelihood"] in SEVERAL,
    "--likelihood",
    "'{likelihood}' has several functions: leave --model {model} out",
)
