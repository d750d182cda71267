"""Time series: Gaussian-process state-space models."""

from cavity.families.base import Family, Option, Rule, Setting
from cavity.families.options import (
    JITTER,
    KERNEL,
    LIKELIHOOD,
    MAX_ITERATIONS,
    METHOD,
    NO_DRAWS,
    POWER,
    RANDOM_STATE,
    RESTARTS,
    RULES,
    inducing,
)
from cavity.families.values import Names, Number, Whole, WholeOrNames

STATES = ("chain", "factorised", "conditional", "tied")


def _states_of(typed: str) -> str:
    """The posterior of states, as a method is typed."""
    known = {"power_ep": "chain", "tied": "tied"}
    if typed not in known:
        raise ValueError(
            "a time series is learned by power_ep or tied: name one of these, or leave it out"
        )
    return known[typed]


FORECASTER = Family(
    name="state-space",
    called="a time series",
    several="time series",
    about="a time series with hidden states",
    estimators={"forecast": "cavity.estimators.forecaster:GPForecaster"},
    fitting="cavity.cli.forecast:FitSeries",
    files="cavity.tables.series_files:SeriesFiles",
    report="cavity.report.of_estimators:series_report",
    in_words="cavity.cli.text:describe_forecaster",
    page="cavity.cli.pages:series_page",
    commands=("forecast", "report", "show"),
    settings=(
        Setting("n_states", 2, Whole(1), Option("--state", "N", "Hidden states.", "whole")),
        KERNEL,
        LIKELIHOOD,
        inducing(30, "a time series", "Of a time series 30."),
        Setting("emission", "linear", Names(("linear", "identity"))),
        Setting(
            "hidden",
            "chain",
            Names(STATES),
            Option(
                METHOD.name,
                METHOD.metavar,
                "A time series takes power_ep or tied.",
                read=_states_of,
            ),
        ),
        Setting("power", 0.0, Number(1.0), POWER.option),
        Setting("propagation", 500, WholeOrNames(RULES)),
        RESTARTS,
        Setting("batch", None, Whole(2, none="all rows")),
        MAX_ITERATIONS,
        JITTER,
        RANDOM_STATE,
        Setting("calibrate", True),
    ),
    command=(
        Setting(
            "controls",
            (),
            option=Option("--control", "COLUMN", "Column known ahead; repeatable.", "texts"),
        ),
        Setting(
            "series",
            option=Option("--series", "COLUMN", "Column that tells several series apart."),
        ),
    ),
    unused=NO_DRAWS
    | {
        "--task": "a time series is forecast, so it has no task: leave it out",
        "--test": "forecasts are written by 'cavity forecast': leave it out",
        "--noise-column": "the noise of a time series is learned: leave it out",
        "--exposure-column": "a time series takes no exposures: leave it out",
        "--weight-column": "times have no weights: leave it out",
        "--class-weight": "a time series has no classes: leave it out",
        "--drop-missing": "missing cells are allowed in a time series: leave it out",
        "--batch-rows": "a time series needs all rows in memory: leave it out",
        "--ignore": "columns that are neither --target nor --control are left out anyway",
        "--mean": "the functions of a time series are about linear ones: leave it out",
    },
    rules=(
        Rule(
            lambda asked: asked["series"] in (*asked["targets"], *asked["controls"]),
            "--series",
            "'{series}' is a target or control: name another column",
        ),
    ),
    needs_target="name at least one column to forecast",
)
