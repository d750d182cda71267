"""Choices made from the table: checks of asking for them, and their records."""

from typing import Any, cast

from cavity.cli.request import Request
from cavity.cli.session import usage
from cavity.estimators.classifier import GPClassifier
from cavity.estimators.regressor import GPRegressor


def check_power(request: Request) -> None:
    """A usage error for a power that is none."""
    try:
        power = request.used_power
    except ValueError:
        text = f"the power is auto, or a number between 0 and 1, given '{request.power}'"
        raise usage("--power", text) from None
    if isinstance(power, str):
        _check_chosen_power(request)
    elif not 0.0 <= power <= 1.0:
        raise usage("--power", f"the power lies between 0 and 1, given {power:g}")


def _check_chosen_power(request: Request) -> None:
    """A usage error for a power to be chosen where that is not done."""
    if request.model != "gp":
        raise usage("--power", "auto is for Gaussian processes of one layer: give a number")
    if request.method == "mcmc":
        raise usage("--power", "'mcmc' draws at no power: leave --power out")
    if request.batch_rows is not None:
        raise usage("--power", "auto needs all rows in memory: give a number, or no --batch-rows")


def chosen_power(estimator: GPRegressor | GPClassifier) -> dict[str, Any]:
    """The power that was used, and how it was chosen."""
    table = estimator.power_table_
    trials = None if table is None else [trial._asdict() for trial in table]
    return {"power": float(cast(float, estimator.power_)), "power_table": trials}


def class_form(estimator: GPClassifier, method: str) -> dict[str, Any]:
    """Record of whether several classes by Power EP are coupled, and why learning ended.

    The sentence on the form that the fit chose is left out of the message: it is reported
    elsewhere.
    """
    reason = estimator.message_.removesuffix(f"; {estimator.choice_}")
    form: dict[str, Any] = {"message": reason}
    if method == "power_ep" and estimator.likelihood_.couples:
        form["coupled"] = not estimator.choice_
    return form


def check_enough(request: Request) -> None:
    """Usage error for `--inducing enough` where the number of points cannot be chosen."""
    if request.inducing != "enough":
        return
    if request.model != "gp":
        text = "enough is for Gaussian processes of one layer: a number, or auto"
        raise usage("--inducing", text)
    if request.method == "tied":
        raise usage("--inducing", "enough needs a site for every row: not --method tied")
    if request.batch_rows is not None:
        raise usage("--inducing", "enough needs all rows in memory: a number, or no --batch-rows")


def grown_points(estimator: GPRegressor | GPClassifier) -> dict[str, Any]:
    """The bracket of the evidence and the verdict, where points were to be enough."""
    found = estimator.bracket_
    names = ("lower", "upper", "per_row", "proved")
    bracket = None if found is None else {name: getattr(found, name) for name in names}
    return {"bracket": bracket, "verdict": estimator.verdict_ or None}
