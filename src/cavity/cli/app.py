"""The command line: its commands and options. The work is imported when a command runs."""

import importlib
import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from cavity.cli.grouped_help import Grouped
from cavity.cli.plot_options import plot
from cavity.cli.request import (
    BatchRows,
    DropMissing,
    Processes,
    Request,
    Scheduler,
    Table,
    Tables,
    WeightColumn,
    name_of,
    option,
    options_of,
    parameters_of,
)
from cavity.cli.session import File, Outcome, Session, refuse_overwriting, run
from cavity.cli.use_options import (
    BlankMissing,
    Colour,
    Controls,
    Costs,
    Density,
    Keep,
    Quantiles,
    RowDensity,
    Std,
    Steps,
)
from cavity.families.base import Family
from cavity.families.table import FAMILIES

app = typer.Typer(
    name="cavity",
    help="Gaussian-process models from tables: fit, predict, evaluate, examine, report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model that fit has written."), File("model")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
TableOut = Annotated[
    str, option("FILE", "The .csv or .parquet file to write."), File("table", written=True)
]
ModelOut = Annotated[
    str,
    typer.Argument(metavar="OUT", help="The model file to write."),
    File("model", written=True),
]
PageOut = Annotated[str, option("FILE", "The HTML file to write."), File("page", written=True)]
Folder = Annotated[str, option("FOLDER", "Where to write; made if need be.")]


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


def fit_with(families: Sequence[Family]) -> Callable[..., None]:
    """The command `cavity fit` of some families.

    Args:
        families: those that can be asked for; their options are the command's.
    """

    def fit(*, json: bool, **given: Any) -> None:
        """Fit a model to TABLE and write it; every column with no other role is an input.

        With --model latent there is no target, and every column is embedded. With --model
        state-space rows are times in their order, and columns without a role are left out.
        """

        def work(session: Session) -> Outcome:
            names = {name_of(option): option for option in options_of(families)}
            own = {name: value for name, value in given.items() if name not in names}
            refuse_overwriting(inspect.get_annotations(Request), own)
            typed = {
                option: given[name]
                for name, option in names.items()
                if not (given[name] is None or given[name] is False or given[name] == [])
            }
            from cavity.cli.fit import run_fit

            return run_fit(session, Request(**own, options=typed), families)

        run("fit", work, as_json=json)

    # its options are the fields of a request, those of families, and --json
    as_json = inspect.Parameter(
        "json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json
    )
    fit.__dict__["__signature__"] = inspect.Signature([*parameters_of(families), as_json])
    return fit


app.command(cls=Grouped)(fit_with(FAMILIES))


def _use(command: str, options: dict[str, Any], module: str = "use") -> None:
    """Runs the function of this name in a module with a command's options but for --json."""
    as_json = options.pop("json")

    def work(session: Session) -> Outcome:
        refuse_overwriting(inspect.get_annotations(globals()[command]), options)
        home = importlib.import_module(f"cavity.cli.{module}")
        return getattr(home, command)(session, **options)

    run(command, work, as_json=as_json)


@app.command()
def predict(
    model: Model,
    table: Tables,
    *,
    out: TableOut,
    quantiles: Quantiles = None,
    density: Density = False,
    costs: Costs = None,
    keep: Keep = None,
    drop_missing: BlankMissing = False,
    batch_rows: BatchRows = None,
    processes: Processes = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Predict the target for every row of TABLE."""
    _use("predict", locals())


@app.command()
def evaluate(
    model: Model,
    table: Tables,
    *,
    drop_missing: DropMissing = False,
    weight_column: WeightColumn = None,
    batch_rows: BatchRows = None,
    processes: Processes = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Compare predictions with the target column of TABLE."""
    _use("evaluate", locals())


@app.command()
def examine(
    model: Model,
    table: Table,
    *,
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Say whether the approximation of a model is good enough, on the rows of TABLE.

    TABLE is best the one of the fit: are there enough inducing points, is the noise to be
    trusted, and has learning found more than noise?
    """
    _use("examine", locals())


@app.command()
def update(
    model: Model,
    table: Table,
    *,
    out: Annotated[
        str,
        option("FILE", "The model file to write, which may be MODEL."),
        File("model", written=True, replaces="model"),
    ],
    power: Annotated[
        float | None, option("P", "Of these rows; default that of the fit.", min=0, max=1)
    ] = None,
    inducing: Annotated[
        str, option("HOW", "What inducing points do: keep, move or grow.")
    ] = "move",
    half_life: Annotated[
        float | None, option("ROWS", "Rows after which what was learned before counts half.")
    ] = None,
    memory: Annotated[
        int, option("N", "Rows to keep, whose share follows the parameters.", min=0)
    ] = 0,
    learn: Annotated[
        bool, typer.Option("--learn/--no-learn", help="Learn parameters, or hold them.")
    ] = True,
    batch_id: Annotated[
        str | None, option("ID", "A name for these rows; one that was learned from is skipped.")
    ] = None,
    max_iterations: Annotated[int, option("N", "Of learning, at the most.", min=1)] = 1000,
    drop_missing: DropMissing = False,
    weight_column: WeightColumn = None,
    json: Json = False,
) -> None:
    """Go on learning from the rows of TABLE, without those from before."""
    _use("update", locals(), "update")


@app.command()
def coefficients(
    model: Model,
    *,
    out: TableOut,
    fdr: Annotated[
        float,
        option("Q", "The share of the selected that may be zero or of the other sign."),
    ] = 0.1,
    json: Json = False,
) -> None:
    """Write the coefficients of a linear model, and select columns."""
    _use("coefficients", locals(), "coefficients")


@app.command()
def suggest(
    model: Model,
    candidates: Annotated[
        str,
        typer.Argument(metavar="CANDIDATES", help="A table of rows that could be measured."),
        File("table of candidates"),
    ],
    *,
    out: TableOut,
    n: Annotated[int, option("N", "How many rows to choose.", "--n", min=1)] = 10,
    criterion: Annotated[
        str, option("NAME", "What counts: information, variance, integrated or improvement.")
    ] = "information",
    reference: Annotated[
        str | None,
        option(
            "TABLE",
            "Rows where the function matters, for integrated; rows that were measured, for "
            "improvement, where the model does not hold them.",
        ),
        File("reference table"),
    ] = None,
    goal: Annotated[
        str | None,
        option("NAME", "For improvement: minimise (the default) or maximise the target."),
    ] = None,
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Choose the rows of CANDIDATES whose targets are worth measuring next."""
    _use("suggest", locals(), "suggest")


@app.command()
def embed(
    model: Model,
    table: Table,
    *,
    out: TableOut,
    density: RowDensity = False,
    keep: Keep = None,
    json: Json = False,
) -> None:
    """Place every row of TABLE in the latent space of an embedding."""
    _use("embed", locals(), "embed")


@app.command()
def impute(
    model: Model,
    table: Table,
    *,
    out: TableOut,
    std: Std = False,
    json: Json = False,
) -> None:
    """Fill in the missing cells of TABLE by an embedding."""
    _use("impute", locals(), "embed")


@app.command()
def forecast(
    model: Model,
    *,
    steps: Steps,
    out: TableOut,
    controls: Controls = None,
    quantiles: Quantiles = None,
    json: Json = False,
) -> None:
    """Forecast the rows that follow the last one of a time series."""
    _use("forecast", locals(), "forecast")


@app.command()
def report(
    model: Model,
    table: Table,
    *,
    out: PageOut,
    colour: Colour = None,
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Write an HTML page on a model and how it does on TABLE."""
    _use("report", locals())


app.command()(plot)


@app.command()
def show(model: Model, *, json: Json = False) -> None:
    """Say what a model file holds."""
    _use("show", locals())


@app.command()
def compress(model: Model, out: ModelOut, *, json: Json = False) -> None:
    """Write a copy of a sparse MODEL for predictions alone, in as few numbers as there are."""
    _use("compress", locals(), "compress")


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
    # jaxlib 0.9 lists the features of the processor for every program that it reads again
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cavity"
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ and _usable(cache):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    # a folder that is full costs time, and nothing that a user would have to know
    of_cache = "Error (reading|writing) persistent compilation cache entry"
    warnings.filterwarnings("ignore", message=of_cache)
    app(prog_name="cavity")


def _usable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
