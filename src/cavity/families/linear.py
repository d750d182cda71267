"""Linear models with sparse priors."""

from cavity.families.base import Family, Rule
from cavity.families.weights import ONE_FUNCTION, PRIORS, unused

LINEAR = Family(
    name="linear",
    called="a linear model",
    several="linear models",
    options={"prior": "--prior", "blocks": "--blocks", "integrate": "--integrate"},
    unused=unused("a linear model"),
    values={"prior": PRIORS},
    rules=(
        ONE_FUNCTION,
        Rule(
            lambda asked: asked.blocks and asked.prior == "laplace",
            "--blocks",
            "a Laplace prior is no scale mixture here: take another --prior",
        ),
        Rule(
            lambda asked: asked.mean == "linear",
            "--mean",
            "a linear model has an intercept, or with --mean zero none",
        ),
    ),
)
