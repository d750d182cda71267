"""Networks with priors on their weights."""

from cavity.families.base import Family, Rule
from cavity.families.weights import ONE_FUNCTION, PRIORS, unused

NETWORK = Family(
    name="network",
    called="a network",
    several="networks",
    options={
        "prior": "--prior",
        "units": "--hidden",
        "batch": "--batch",
        "steps": "--steps",
    },
    unused={
        setting: reason
        for setting, reason in unused("a network").items()
        if setting != "restarts"  # which with minibatches is refused for another reason
    }
    | {"mean": "a network has a bias: leave it out"},
    values={"prior": PRIORS},
    rules=(
        Rule(
            lambda asked: asked.batch is None and asked.steps is not None,
            "--steps",
            "a network is learned in steps with --batch ROWS: add it",
        ),
        Rule(
            lambda asked: asked.batch is not None and asked.restarts > 0,
            "--restarts",
            "with --batch a network is learned from one start: leave it out",
        ),
        Rule(
            lambda asked: asked.restarts > 0,
            "--restarts",
            unused("a network")["restarts"],
        ),
        Rule(
            lambda asked: asked.batch is not None and asked.given("max_iterations"),
            "--max-iterations",
            "with --batch a network is learned in --steps: give these",
        ),
        Rule(
            lambda asked: asked.batch is not None and asked.prior not in (None, "ard", "gaussian"),
            "--batch",
            "it is for --prior ard or gaussian, given {prior}",
        ),
        ONE_FUNCTION,
        Rule(
            lambda asked: len(asked.targets or ()) > 1,
            "--target",
            "a network takes one target; fit each one alone",
        ),
    ),
)
