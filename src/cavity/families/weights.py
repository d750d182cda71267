"""Settings that linear models and networks share: those of weights and their priors."""

from cavity.families.base import Rule

PRIORS = ("spike_slab", "horseshoe", "laplace", "student_t", "gaussian", "ard")
# Likelihoods of several latent functions.
SEVERAL = ("heteroscedastic",)


def unused(called: str) -> dict[str, str]:
    """Settings that models of weights have no use for, and what to say.

    Args:
        called: one of the models in words.
    """
    return {
        "kernel": f"{called} has no kernel: leave it out",
        "method": f"{called} has one method, 'power_ep': leave it out",
        "inducing": f"{called} has no inducing points: leave it out",
        "restarts": f"{called} tries several starts anyway: leave it out",
        "batch_rows": f"{called} needs all rows in memory: leave it out",
    }


# A rule of both families.
ONE_FUNCTION = Rule(
    lambda asked: asked.likelihood in SEVERAL,
    "--likelihood",
    "'{likelihood}' has several functions: leave --model {model} out",
)
