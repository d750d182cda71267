"""Gaussian processes of one layer."""

from collections.abc import Callable, Mapping
from typing import Any

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    BOUNDS,
    BY_TASK,
    CLASS_WEIGHTS,
    CLASSIFICATION,
    FIXED,
    INDUCING,
    JITTER,
    KERNEL,
    MAX_ITERATIONS,
    MEAN,
    METHOD,
    PRIOR,
    RANDOM_STATE,
    REGRESSION,
    RESTARTS,
    STANDARDISE,
    TOLERANCE,
    points_of,
    power_of,
)
from cavity.families.values import Names

METHODS = ("power_ep", "laplace", "local_bound", "mean_field", "tied", "mcmc")
KINDS = ("points", "windows", "waves", "slopes")
PRIORS = ("weak", "none")
# Options by which the table is read in parts, for what needs all rows at once.
IN_PARTS = {"batch_rows": "--batch-rows", "processes": "--processes", "scheduler": "--scheduler"}


def in_parts(asked: Mapping[str, Any]) -> bool:
    """True if the table is to be read in parts."""
    return any(asked[name] is not None for name in IN_PARTS)


def _whole(applies: Callable[[Mapping[str, Any]], bool], needing: str) -> tuple[Rule, ...]:
    """Rules for settings that need all rows, one to blame each option of parts."""

    def rule(name: str) -> Rule:
        message = f"{needing} needs all rows in memory: leave it out"
        return Rule(
            lambda asked: asked[name] is not None and applies(asked), IN_PARTS[name], message
        )

    return tuple(rule(name) for name in IN_PARTS)


GP = Family(
    name="gp",
    called="a Gaussian process",
    several="Gaussian processes",
    estimators={
        REGRESSION: "cavity.estimators.regressor:GPRegressor",
        CLASSIFICATION: "cavity.estimators.classifier:GPClassifier",
    },
    fitting="cavity.cli.gp:FitGP",
    record="cavity.tables.records:gp_record",
    settings=(
        KERNEL,
        Setting(
            "method",
            "power_ep",
            Names(METHODS, objects=True),
            Option(
                METHOD.name,
                METHOD.metavar,
                "Inference: power_ep; laplace; local_bound or mean_field, of student_t, laplace "
                "and logit; tied, for long tables; mcmc, draws, for small ones.",
            ),
        ),
        Setting(
            "power",
            0.5,
            option=Option(
                "--power",
                "NUMBER|auto",
                "From 0, variational, to 1, EP. No matter in a full GP with Gaussian noise. auto: "
                "that of 0, 0.5 and 1 which gives rows that were left out the largest density.",
                read=power_of,
            ),
        ),
        Setting(
            "n_inducing",
            "auto",
            option=Option(
                *INDUCING,
                "Inducing points; auto: a full GP up to 1,000 rows, 200 points beyond. enough: a "
                "full GP up to 1,000 rows, beyond as many as the evidence needs, 1,000 at the "
                "most.",
                read=points_of,
            ),
        ),
        Setting("inducing", "greedy"),
        MEAN,
        STANDARDISE,
        FIXED,
        BOUNDS,
        Setting(
            "priors",
            "weak",
            Names(PRIORS, objects=True),
            Option(
                "--priors",
                "weak|none",
                "Of variances, lengthscales and noise, in units of the data; they matter where "
                "rows are few.",
            ),
        ),
        RESTARTS,
        MAX_ITERATIONS,
        TOLERANCE,
        JITTER,
        RANDOM_STATE,
    ),
    only=BY_TASK | {REGRESSION: (*BY_TASK[REGRESSION], Setting("block_size"))},
    command=(
        PRIOR,
        CLASS_WEIGHTS,
        Setting(
            "inducing_kind",
            "points",
            Names(KINDS),
            Option(
                "--inducing-kind",
                "NAME",
                "What inducing variables are, with --inducing N: points, windows, waves or "
                "slopes.",
            ),
        ),
        Setting(
            "draws",
            1000,
            option=Option(
                "--draws", "N", "Of each of four chains, with --method mcmc.", "whole", 20
            ),
        ),
    ),
    rules=(
        Rule(
            lambda asked: asked["method"] == "mcmc" and asked["n_inducing"] not in ("auto", None),
            "--inducing",
            "'mcmc' is for the full GP: leave --inducing out",
        ),
        Rule(
            lambda asked: asked["method"] == "mcmc" and len(asked["targets"]) > 1,
            "--target",
            "'mcmc' takes one target; fit each one alone",
        ),
        Rule(
            lambda asked: asked["method"] != "mcmc" and "draws" in asked["given"],
            "--draws",
            "draws are made with --method mcmc only",
        ),
        Rule(
            lambda asked: "prior" in asked["given"] and asked["priors"] == "none",
            "--prior",
            "the others are weak then: leave --priors out",
        ),
        Rule(
            lambda asked: asked["method"] == "tied" and asked["n_inducing"] is None,
            "--inducing",
            "'tied' needs inducing points: a number, or auto",
        ),
        Rule(
            lambda asked: asked["power"] == "auto" and asked["method"] == "mcmc",
            "--power",
            "'mcmc' draws at no power: leave --power out",
        ),
        Rule(
            lambda asked: asked["power"] == "auto" and in_parts(asked),
            "--power",
            "auto needs all rows in memory: give a number, or no --batch-rows and no processes",
        ),
        Rule(
            lambda asked: (
                asked["inducing_kind"] != "points"
                and asked["n_inducing"] in ("auto", "enough", None)
            ),
            "--inducing-kind",
            "'{inducing_kind}' needs --inducing with a number",
        ),
        Rule(
            lambda asked: asked["n_inducing"] == "enough" and asked["method"] == "tied",
            "--inducing",
            "enough needs a site for every row: not --method tied",
        ),
        Rule(
            lambda asked: asked["n_inducing"] == "enough" and in_parts(asked),
            "--inducing",
            "enough needs all rows in memory: a number, or no --batch-rows and no processes",
        ),
        *_whole(lambda asked: asked["method"] not in ("power_ep", "tied"), "'{method}'"),
        *_whole(lambda asked: asked["n_inducing"] is None, "a full GP"),
    ),
)
