"""Linear models with sparse priors."""

from collections.abc import Sequence

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    BOUNDS,
    BY_TASK,
    CLASS_WEIGHTS,
    CLASSIFICATION,
    FIXED,
    RANDOM_STATE,
    REGRESSION,
    STANDARDISE,
    TOLERANCE,
)
from cavity.families.values import one_of
from cavity.families.weights import EP, ONE_FUNCTION, iterations, prior, unused

# What can be averaged over, and how the names of these parameters begin.
PARTS = {"noise": "likelihood.", "prior": "prior."}
WORDS = ("all", "none", *PARTS)


def asked_parts(integrate: object) -> tuple[str, ...]:
    """The parts whose parameters are to be averaged over.

    Args:
        integrate: "all", "noise", "prior", a list of the latter; "none" or None for none.

    Raises:
        ValueError: for anything else.
    """
    if integrate is None:
        return ()
    words = [integrate] if isinstance(integrate, str) else integrate
    if not isinstance(words, Sequence):
        raise ValueError(
            f"integrate must be 'all', 'none', 'noise', 'prior' or both of these, given "
            f"{integrate!r}"
        )
    found = [one_of("integrate", word, WORDS) for word in words]
    if len(found) > 1 and not set(found) <= set(PARTS):
        raise ValueError(f"'all' and 'none' stand alone in integrate, given {integrate!r}")
    if "all" in found:
        return tuple(PARTS)
    return tuple(dict.fromkeys(word for word in found if word != "none"))


def _parts(typed: str) -> list[str]:
    """Words between commas, each known."""
    words = typed.split(",")
    asked_parts(words)
    return words


def _intercept(typed: str) -> bool:
    """Presence of an intercept, as a prior mean is typed."""
    if typed == "linear":
        raise ValueError("a linear model has an intercept, or with --mean zero none")
    return one_of("the mean", typed, ("constant", "zero")) == "constant"


LINEAR = Family(
    name="linear",
    called="a linear model",
    several="linear models",
    about="a linear model with a sparse prior",
    estimators={
        REGRESSION: "cavity.estimators.linear:LinearRegressor",
        CLASSIFICATION: "cavity.estimators.linear:LinearClassifier",
    },
    fitting="cavity.cli.linear:FitLinear",
    record="cavity.tables.records:linear_record",
    settings=(
        prior(
            "spike_slab",
            "Of a linear model's coefficients: spike_slab, the default, horseshoe, laplace, "
            "student_t, gaussian or ard.",
        ),
        EP,
        Setting("groups"),
        Setting(
            "blocks",
            option=Option(
                "--blocks",
                "",
                "The columns of one category are zero together or not at all.",
                "flag",
            ),
        ),
        Setting(
            "integrate",
            "all",
            option=Option(
                "--integrate",
                "PARTS",
                "Parameters to average over: all, the default, none, noise, prior.",
                read=_parts,
            ),
        ),
        Setting(
            "fit_intercept",
            True,
            option=Option(
                "--mean",
                "NAME",
                "Of a linear model: zero for none, in place of an intercept.",
                read=_intercept,
            ),
        ),
        STANDARDISE,
        FIXED,
        BOUNDS,
        iterations(200),
        TOLERANCE,
        RANDOM_STATE,
    ),
    only=BY_TASK,
    command=(CLASS_WEIGHTS,),
    unused=unused("a linear model")
    | {"--restarts": "a linear model tries several starts anyway: leave it out"},
    rules=(
        ONE_FUNCTION,
        Rule(
            lambda asked: bool(asked["blocks"]) and asked["prior"] == "laplace",
            "--blocks",
            "a Laplace prior is no scale mixture here: take another --prior",
        ),
    ),
)
