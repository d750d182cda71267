"""Deep Gaussian processes."""

import dataclasses

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    BY_TASK,
    CLASS_WEIGHTS,
    CLASSIFICATION,
    JITTER,
    KERNEL,
    MEAN,
    METHOD,
    NO_DRAWS,
    POWER,
    RANDOM_STATE,
    REGRESSION,
    RULES,
    STANDARDISE,
    inducing,
)
from cavity.families.values import Whole, WholeOrNames


def _method(typed: str) -> str:
    """The method as it is typed: there is one, for which the usual one of others stands too."""
    return "tied" if typed == "power_ep" else typed


DEEP = Family(
    name="deep",
    called="a deep model",
    several="deep models",
    about="several layers of Gaussian processes",
    estimators={
        REGRESSION: "cavity.estimators.deep:DeepGPRegressor",
        CLASSIFICATION: "cavity.estimators.deep:DeepGPClassifier",
    },
    fitting="cavity.cli.gp:FitDeep",
    record="cavity.tables.records:deep_record",
    settings=(
        KERNEL,
        Setting(
            "n_layers",
            2,
            Whole(1),
            Option("--layers", "N", "Layers, the last one included.", "whole"),
        ),
        Setting(
            "width",
            "auto",
            option=Option(
                "--width",
                "N",
                "Functions of each hidden layer: as many as inputs, 30 at the most.",
                "whole",
            ),
        ),
        inducing(100, "a deep model", "Of a deep model 100 in each layer."),
        POWER,
        MEAN,
        Setting("propagation", 2, WholeOrNames(RULES, objects=True)),
        Setting(
            "steps",
            2500,
            Whole(0),
            Option("--steps", "N", "Of learning a deep model, on 500 rows each.", "whole"),
        ),
        Setting("batch", 500, Whole(1, none="all rows")),
        Setting("learning_rate", 0.02),
        STANDARDISE,
        JITTER,
        RANDOM_STATE,
    ),
    only=BY_TASK,
    command=(
        CLASS_WEIGHTS,
        Setting("method", "tied", option=dataclasses.replace(METHOD, read=_method)),
    ),
    unused=NO_DRAWS
    | {
        "--restarts": "a deep model is learned once: leave it out",
        "--max-iterations": "a deep model is learned in steps: give --steps instead",
        "--batch-rows": "a deep model needs all rows in memory: leave it out",
    },
    rules=(
        Rule(
            lambda asked: asked["method"] != "tied",
            "--method",
            "a deep model has one method, 'tied', not '{method}': leave --method out",
        ),
    ),
)
