"""Networks with priors on their weights."""

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    BY_TASK,
    CLASS_WEIGHTS,
    CLASSIFICATION,
    RANDOM_STATE,
    REGRESSION,
    RESTARTS,
    STANDARDISE,
    TOLERANCE,
)
from cavity.families.values import Whole
from cavity.families.weights import EP, ONE_FUNCTION, iterations, prior, unused


def units_of(typed: str) -> int | tuple[int, ...]:
    """The units of a hidden layer, or of several, as they are typed.

    Raises:
        ValueError: for what is no number of units.
    """
    parts = [part.strip() for part in typed.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(
            f"'{typed}' is not a number of units, such as 10, or one for each layer, such as 10,5"
        )
    widths = tuple(map(int, parts))
    return widths if widths[1:] else widths[0]


NETWORK = Family(
    name="network",
    called="a network",
    several="networks",
    about="a network with hidden units",
    estimators={
        REGRESSION: "cavity.estimators.network:NetworkRegressor",
        CLASSIFICATION: "cavity.estimators.network:NetworkClassifier",
    },
    fitting="cavity.cli.network:FitNetwork",
    record="cavity.tables.records:network_record",
    settings=(
        Setting(
            "hidden",
            10,
            option=Option(
                "--hidden",
                "N",
                "Units, or those of each layer: 10, or 10,5.",
                read=units_of,
            ),
        ),
        prior("ard", "Of a network's weights any of these; ard is the default."),
        Setting("activation", "erf"),
        Setting("linear", False),
        EP,
        Setting("groups"),
        RESTARTS.with_default(2),
        Setting(
            "batch",
            None,
            Whole(1, none="all rows, with sites of their own"),
            Option(
                "--batch",
                "ROWS",
                "Rows of a minibatch: learns from minibatches, with one site for all rows.",
                "whole",
            ),
        ),
        Setting(
            "steps",
            2000,
            Whole(1),
            Option("--steps", "N", "Of a network with --batch, a minibatch each.", "whole"),
        ),
        STANDARDISE,
        iterations(100),
        TOLERANCE.with_default(1e-2),
        RANDOM_STATE,
    ),
    only=BY_TASK,
    command=(CLASS_WEIGHTS,),
    unused=unused("a network") | {"--mean": "a network has a bias: leave it out"},
    rules=(
        Rule(
            lambda asked: asked["batch"] is None and "steps" in asked["given"],
            "--steps",
            "a network is learned in steps with --batch ROWS: add it",
        ),
        Rule(
            lambda asked: asked["batch"] is not None and "n_restarts" in asked["given"],
            "--restarts",
            "with --batch a network is learned from one start: leave it out",
        ),
        Rule(
            lambda asked: asked["batch"] is not None and "max_iterations" in asked["given"],
            "--max-iterations",
            "with --batch a network is learned in --steps: give these",
        ),
        Rule(
            lambda asked: asked["batch"] is not None and asked["prior"] not in ("ard", "gaussian"),
            "--batch",
            "it is for --prior ard or gaussian, given {prior}",
        ),
        ONE_FUNCTION,
        Rule(
            lambda asked: len(asked["targets"]) > 1,
            "--target",
            "a network takes one target; fit each one alone",
        ),
    ),
)
