"""Deep Gaussian processes."""

from cavity.families.base import Family, Rule

DEEP = Family(
    name="deep",
    called="a deep model",
    several="deep models",
    options={"layers": "--layers", "width": "--width", "steps": "--steps"},
    unused={
        "restarts": "a deep model is learned once: leave it out",
        "max_iterations": "a deep model is learned in steps: give --steps instead",
        "batch_rows": "a deep model needs all rows in memory: leave it out",
    },
    rules=(
        Rule(
            lambda asked: asked.method not in ("power_ep", "tied"),
            "--method",
            "a deep model has one method, 'tied', not '{method}': leave --method out",
        ),
        Rule(
            lambda asked: asked.inducing == "full",
            "--inducing",
            "a deep model needs inducing points: a number, or auto",
        ),
    ),
)
