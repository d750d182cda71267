"""The command line: its commands and options. The work is imported when a command runs."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cavity.interfaces.cli_session import Outcome, Session, run

app = typer.Typer(
    name="cavity",
    help="Gaussian-process models from tables: fit, predict, evaluate, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Table = Annotated[str, typer.Argument(metavar="TABLE", help="A .csv or .parquet table.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model that fit has written.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with a missing cell.")
]


def _show_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cavity {version('cavity')}")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Gaussian-process models from tables: fit, predict, evaluate, report."""


@app.command()
def fit(
    table: Table,
    *,
    target: Annotated[
        list[str], typer.Option(metavar="COLUMN", help="Column to predict; repeatable.")
    ],
    out: Annotated[str, typer.Option(metavar="MODEL", help="The model file to write.")],
    task: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="regression; without it, what the target asks for."),
    ] = None,
    likelihood: Annotated[str, typer.Option(metavar="NAME", help="Noise: gaussian.")] = "gaussian",
    kernel: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help='Such as "rbf + linear" or "matern52[age,bmi] * periodic[0]".'
        ),
    ] = "rbf",
    method: Annotated[str, typer.Option(metavar="NAME", help="Inference: power_ep.")] = "power_ep",
    power: Annotated[
        float,
        typer.Option(
            metavar="NUMBER", help="From 0, variational, to 1, EP; no matter in a full GP."
        ),
    ] = 0.5,
    inducing: Annotated[
        str,
        typer.Option(
            metavar="N|auto|full",
            help="Number of inducing points; auto is full up to 1,000 rows and 200 beyond.",
        ),
    ] = "auto",
    mean: Annotated[
        str, typer.Option(metavar="NAME", help="Prior mean: constant, zero or linear.")
    ] = "constant",
    test: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Evaluate on this table at the end.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column that is no input; repeatable."),
    ] = None,
    noise_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of known noise variances.")
    ] = None,
    exposure_column: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column of exposures, for counts.")
    ] = None,
    drop_missing: DropMissing = False,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Of everything random.")
    ] = 0,
    restarts: Annotated[
        int, typer.Option(metavar="N", min=0, help="Further runs from other starting values.")
    ] = 0,
    max_iterations: Annotated[
        int, typer.Option(metavar="N", min=1, help="Of one run, at the most.")
    ] = 1000,
    json: Json = False,
) -> None:
    """Fit a model to TABLE and write it; every column with no other role is an input."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces import cli_fit

        request = cli_fit.Request(
            table=table,
            targets=tuple(target),
            out=out,
            task=task,
            likelihood=likelihood,
            kernel=kernel,
            method=method,
            power=power,
            inducing=inducing,
            seed=seed,
            test=test,
            ignore=tuple(ignore or ()),
            noise_column=noise_column,
            exposure_column=exposure_column,
            drop_missing=drop_missing,
            restarts=restarts,
            max_iterations=max_iterations,
            mean=mean,
        )
        return cli_fit.fit_table(session, request)

    run("fit", work, as_json=json)


@app.command()
def predict(
    model: Model,
    table: Table,
    *,
    out: Annotated[str, typer.Option(metavar="FILE", help="The .csv or .parquet file to write.")],
    quantiles: Annotated[
        str | None, typer.Option(metavar="P,P,...", help="Such as 0.05,0.95.")
    ] = None,
    density: Annotated[
        bool, typer.Option("--density", help="Add the log density of the target column.")
    ] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Leave the outputs of such rows blank.")
    ] = False,
    json: Json = False,
) -> None:
    """Predict the target for every row of TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces import cli_use

        return cli_use.predict(
            session,
            model,
            table,
            out,
            quantiles=quantiles,
            density=density,
            drop_missing=drop_missing,
        )

    run("predict", work, as_json=json)


@app.command()
def evaluate(
    model: Model, table: Table, *, drop_missing: DropMissing = False, json: Json = False
) -> None:
    """Compare predictions with the target column of TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces import cli_use

        return cli_use.evaluate(session, model, table, drop_missing=drop_missing)

    run("evaluate", work, as_json=json)


@app.command()
def report(
    model: Model,
    table: Table,
    *,
    out: Annotated[str, typer.Option(metavar="FILE", help="The HTML file to write.")],
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Write an HTML page on a model and how it does on TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces import cli_use

        return cli_use.report(session, model, table, out, drop_missing=drop_missing)

    run("report", work, as_json=json)


@app.command()
def show(model: Model, *, json: Json = False) -> None:
    """Say what a model file holds."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces import cli_use

        return cli_use.show(session, model)

    run("show", work, as_json=json)


@app.command()
def demo(
    *,
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where to write; made if need be.")
    ] = "cavity-demo",
    json: Json = False,
) -> None:
    """Do all of it on the diabetes data that come with scikit-learn."""

    def work(session: Session) -> Outcome:
        from cavity.interfaces.demo import demonstrate

        return demonstrate(session, folder)

    run("demo", work, as_json=json)


def main() -> None:
    """The command line in a process of its own, which may set what is global."""
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cavity"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and _usable(cache):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    app(prog_name="cavity")


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
