"""The options of `cavity fit`: those of all families, and those of each."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cavity.cli.session import File
from cavity.families.base import Family, Option

Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="A .csv or .parquet table."), File("table")
]
Tables = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A .csv or .parquet table, or a quoted pattern of several files, 'data/*.parquet'.",
    ),
    File("table"),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with a missing cell.")
]
WeightColumn = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column of weights: a row of weight w is w rows."),
]
BatchRows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Read the table N rows at a time; without it only a large one is read in parts.",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Share the parts of the table among N processes, by Dask where there are several.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Share them among the workers of a Dask cluster, such as tcp://HOST:8786.",
    ),
]


def option(metavar: str, help: str, *names: str, **limits: Any) -> Any:
    """An option that takes a value; named as its parameter where no other name is given."""
    return typer.Option(*names, metavar=metavar, help=help, **limits)


@dataclasses.dataclass(frozen=True)
class Request:
    """Arguments of `cavity fit`; `options` are those that families have, as they were typed."""

    table: Tables
    out: Annotated[str, option("MODEL", "The model file to write."), File("model", written=True)]
    targets: Annotated[
        list[str] | None, option("COLUMN", "Column to predict; repeatable.", "--target")
    ] = None
    model: str = "gp"
    task: Annotated[
        str | None,
        option(
            "NAME",
            "regression or classification; without it, classification for text and truth values.",
        ),
    ] = None
    test: Annotated[
        str | None, option("TABLE", "Evaluate on this table at the end."), File("test table")
    ] = None
    ignore: Annotated[
        list[str] | None, option("COLUMN", "Column that is no input; repeatable.")
    ] = None
    noise_column: Annotated[str | None, option("COLUMN", "Column of known noise variances.")] = (
        None
    )
    exposure_column: Annotated[
        str | None, option("COLUMN", "Column of exposures, for counts.")
    ] = None
    weight_column: WeightColumn = None
    drop_missing: DropMissing = False
    seed: Annotated[int, option("N", "Of everything random.", min=0, max=2**32 - 1)] = 0
    batch_rows: BatchRows = None
    processes: Processes = None
    scheduler: Scheduler = None
    checkpoint: Annotated[
        str | None,
        option("DIR", "Folder in which the fit keeps what it has done, to go on with --resume."),
        File("folder of the checkpoint"),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from the checkpoint, if there is one yet: repeat the same command until "
            "done.",
        ),
    ] = False
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def by_processes(self) -> bool:
        """Whether processes are asked for that share the table."""
        return self.processes is not None or self.scheduler is not None

    @property
    def typed(self) -> dict[str, Any]:
        """Everything that was not left at its default, by option."""
        own = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "options" and getattr(self, field.name) != field.default
        }
        return {option_of(name): value for name, value in own.items()} | dict(self.options)


def option_of(field: str) -> str:
    """The option of a field of a request."""
    return "--target" if field == "targets" else f"--{field.replace('_', '-')}"


# ------------------------------------------------------------------------ options of families


def options_of(families: Sequence[Family]) -> dict[str, Option]:
    """The options of all families by name, each with the help of all that have it."""
    found: dict[str, list[Option]] = {}
    for family in families:
        for name, setting in family.options.items():
            assert setting.option is not None
            found.setdefault(name, []).append(setting.option)
    return {name: _merged(same) for name, same in found.items()}


def _merged(same: Sequence[Option]) -> Option:
    helps: list[str] = []
    for each in same:
        if not any(each.help in earlier for earlier in helps):
            helps.append(each.help)
    return dataclasses.replace(same[0], help=" ".join(helps))


def parameters_of(families: Sequence[Family]) -> list[inspect.Parameter]:
    """The parameters of `cavity fit`: the fields of a request, and the options of families."""
    own = inspect.signature(Request).parameters.values()
    named = {each.name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own}
    named["model"] = named["model"].replace(annotation=_model(families))
    added = [_parameter(each, families) for each in options_of(families).values()]
    added.sort(key=lambda each: len(owners_of(option_of(each.name), families)) == 1)
    return [each for each in named.values() if each.name != "options"] + added


def _model(families: Sequence[Family]) -> object:
    """The option that asks for a family, with a word on each."""
    about = {each.name: each.about or each.called for each in families if not each.chosen_by}
    said = "; ".join(f"{name}: {text}" for name, text in about.items())
    return Annotated[str, option("|".join(about), f"{said}.")]


def _parameter(given: Option, families: Sequence[Family]) -> inspect.Parameter:
    """The parameter of a command that an option is."""
    kinds: dict[str, Any] = {"text": str, "texts": list[str], "whole": int, "flag": bool}
    owners = owners_of(given.name, families)
    about: dict[str, Any] = {"help": f"{given.help}{_default(given.name, owners)}"}
    panel = f"Options of {owners[0].several} ({owners[0].asked_by})"
    about["rich_help_panel"] = panel if len(owners) == 1 else "Options of several models"
    if given.kind != "flag":
        about["metavar"] = given.metavar
    if given.kind == "whole":
        about["min"] = given.least
    return inspect.Parameter(
        name_of(given.name),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kinds[given.kind] | None, typer.Option(given.name, **about)],
    )


def owners_of(option: str, families: Sequence[Family]) -> list[Family]:
    """The families that have an option."""
    return [each for each in families if option in each.options]


def name_of(option: str) -> str:
    """The name of the parameter of an option."""
    return option.removeprefix("--").replace("-", "_")


def _default(option: str, owners: Sequence[Family]) -> str:
    """Defaults of the families that have an option: numbers, or the word of the first."""
    first = owners[0].options[option].default
    if isinstance(first, str):
        return f"  [default: {first}]"
    found: dict[float, list[str]] = {}
    for family in owners:
        value = family.options[option].default
        if isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        found.setdefault(value, []).append(family.several)
    usual = max(found, key=lambda value: len(found[value]))
    others = "".join(
        f"; of {' and '.join(names)} {value:g}" for value, names in found.items() if value != usual
    )
    return f"  [default: {usual:g}{others}]"
