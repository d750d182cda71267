"""Time series: Gaussian-process state-space models."""

from cavity.families.base import Family, Rule

FORECASTER = Family(
    name="state-space",
    called="a time series",
    several="time series",
    options={"states": "--state", "controls": "--control", "series": "--series"},
    unused={
        "task": "a time series is forecast, so it has no task: leave it out",
        "test": "forecasts are written by 'cavity forecast': leave it out",
        "noise_column": "the noise of a time series is learned: leave it out",
        "exposure_column": "a time series takes no exposures: leave it out",
        "drop_missing": "missing cells are allowed in a time series: leave it out",
        "batch_rows": "a time series needs all rows in memory: leave it out",
        "draws": "draws are made with --method mcmc only",
        "ignore": "columns that are neither --target nor --control are left out anyway",
        "mean": "the functions of a time series are about linear ones: leave it out",
    },
    rules=(
        Rule(
            lambda asked: asked.method not in ("power_ep", "tied"),
            "--method",
            "a time series is learned by power_ep or tied: name one of these, or leave it out",
        ),
        Rule(
            lambda asked: asked.inducing == "full",
            "--inducing",
            "a time series needs inducing points: a number, or auto",
        ),
        Rule(
            lambda asked: asked.series in (*asked.targets, *(asked.controls or ())),
            "--series",
            "'{series}' is a target or control: name another column",
        ),
    ),
    needs_target="name at least one column to forecast",
)
