"""The command line: its commands and options. The work is imported when a command runs."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from cavity.cli.session import Outcome, Session, run

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


def _text(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help)


Targets = Annotated[list[str], _text("COLUMN", "Column to predict; repeatable.")]
Ignored = Annotated[list[str] | None, _text("COLUMN", "Column that is no input; repeatable.")]
ModelOut = Annotated[str, _text("MODEL", "The model file to write.")]
TableOut = Annotated[str, _text("FILE", "The .csv or .parquet file to write.")]
PageOut = Annotated[str, _text("FILE", "The HTML file to write.")]
Task = Annotated[
    str | None,
    _text(
        "NAME",
        "regression or classification; without it, classification for text and truth values.",
    ),
]
Likelihood = Annotated[
    str | None,
    _text(
        "NAME",
        "How the target scatters: gaussian, with a level that varies heteroscedastic, with "
        "outliers student_t or laplace; of counts poisson or negative_binomial; above zero gamma "
        "or exponential; between 0 and 1 beta; of classes probit (or bernoulli) or logit.",
    ),
]
Kernel = Annotated[
    str, _text("TEXT", 'Such as "rbf + linear" or "matern52[age,bmi] * periodic[0]".')
]
Method = Annotated[
    str,
    _text(
        "NAME",
        "Inference: power_ep; laplace; local_bound or mean_field, of student_t, laplace and "
        "logit; tied, for long tables; mcmc, draws, for small ones.",
    ),
]
Power = Annotated[
    float,
    _text("NUMBER", "From 0, variational, to 1, EP; no matter in a full GP with Gaussian noise."),
]
Inducing = Annotated[
    str,
    _text("N|auto|full", "Inducing points; auto: a full GP up to 1,000 rows, 200 points beyond."),
]
Mean = Annotated[str, _text("NAME", "Prior mean: constant, zero or linear.")]
Test = Annotated[str | None, _text("TABLE", "Evaluate on this table at the end.")]
Noise = Annotated[str | None, _text("COLUMN", "Column of known noise variances.")]
Exposure = Annotated[str | None, _text("COLUMN", "Column of exposures, for counts.")]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Of everything random.")
]
Restarts = Annotated[
    int, typer.Option(metavar="N", min=0, help="Further runs from other starting values.")
]
Iterations = Annotated[int, typer.Option(metavar="N", min=1, help="Of one run, at the most.")]
Draws = Annotated[
    int | None,
    typer.Option(metavar="N", min=20, help="Of each of four chains, with --method mcmc: 1000."),
]
Checkpoint = Annotated[
    str | None,
    _text("DIR", "Folder in which the fit keeps what it has done, to go on with --resume."),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on from the checkpoint, if there is one yet: repeat the same command until done.",
    ),
]
Quantiles = Annotated[str | None, _text("P,P,...", "Such as 0.05,0.95.")]
Costs = Annotated[
    str | None,
    _text(
        "TABLE",
        "Costs of wrong decisions, to decide for the label of least expected cost: a row for each "
        "true class, its name in the first column, and a column for each decision.",
    ),
]
Density = Annotated[
    bool, typer.Option("--density", help="Add the log density of the target column.")
]
BlankMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave the outputs of incomplete rows blank.")
]
BatchRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Read the table N rows at a time; without it only a large one is read in parts.",
    ),
]
Folder = Annotated[str, _text("FOLDER", "Where to write; made if need be.")]


def _show_version(*, wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"cavity {version('cavity')}")
        raise typer.Exit
    return wanted


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
    target: Targets,
    out: ModelOut,
    task: Task = None,
    likelihood: Likelihood = None,
    kernel: Kernel = "rbf",
    method: Method = "power_ep",
    power: Power = 0.5,
    inducing: Inducing = "auto",
    mean: Mean = "constant",
    test: Test = None,
    ignore: Ignored = None,
    noise_column: Noise = None,
    exposure_column: Exposure = None,
    drop_missing: DropMissing = False,
    seed: Seed = 0,
    restarts: Restarts = 0,
    max_iterations: Iterations = 1000,
    draws: Draws = None,
    batch_rows: BatchRows = None,
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Fit a model to TABLE and write it; every column with no other role is an input."""

    def work(session: Session) -> Outcome:
        from cavity.cli import fit as cli_fit

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
            mean=mean,
            test=test,
            ignore=tuple(ignore or ()),
            noise_column=noise_column,
            exposure_column=exposure_column,
            drop_missing=drop_missing,
            seed=seed,
            restarts=restarts,
            max_iterations=max_iterations,
            draws=draws,
            batch_rows=batch_rows,
            checkpoint=checkpoint,
            resume=resume,
        )
        return cli_fit.fit_table(session, request)

    run("fit", work, as_json=json)


@app.command()
def predict(
    model: Model,
    table: Table,
    *,
    out: TableOut,
    quantiles: Quantiles = None,
    density: Density = False,
    costs: Costs = None,
    drop_missing: BlankMissing = False,
    batch_rows: BatchRows = None,
    json: Json = False,
) -> None:
    """Predict the target for every row of TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.cli import use as cli_use

        return cli_use.predict(
            session,
            model,
            table,
            out,
            quantiles=quantiles,
            density=density,
            costs=costs,
            drop_missing=drop_missing,
            batch_rows=batch_rows,
        )

    run("predict", work, as_json=json)


@app.command()
def evaluate(
    model: Model,
    table: Table,
    *,
    drop_missing: DropMissing = False,
    batch_rows: BatchRows = None,
    json: Json = False,
) -> None:
    """Compare predictions with the target column of TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.cli import use as cli_use

        options: Any = {"drop_missing": drop_missing, "batch_rows": batch_rows}
        return cli_use.evaluate(session, model, table, **options)

    run("evaluate", work, as_json=json)


@app.command()
def report(
    model: Model,
    table: Table,
    *,
    out: PageOut,
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Write an HTML page on a model and how it does on TABLE."""

    def work(session: Session) -> Outcome:
        from cavity.cli import use as cli_use

        return cli_use.report(session, model, table, out, drop_missing=drop_missing)

    run("report", work, as_json=json)


@app.command()
def show(model: Model, *, json: Json = False) -> None:
    """Say what a model file holds."""

    def work(session: Session) -> Outcome:
        from cavity.cli import use as cli_use

        return cli_use.show(session, model)

    run("show", work, as_json=json)


@app.command()
def demo(*, folder: Folder = "cavity-demo", json: Json = False) -> None:
    """Do all of it on the diabetes data that come with scikit-learn."""

    def work(session: Session) -> Outcome:
        from cavity.cli.demo import demonstrate

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
