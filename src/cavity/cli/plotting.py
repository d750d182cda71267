"""`cavity plot`: one picture of a model file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cavity import plots
from cavity.cli.session import Outcome, Session, usage
from cavity.cli.table_parts import report_warnings
from cavity.estimators.embedding import GPEmbedding
from cavity.estimators.forecaster import GPForecaster
from cavity.persistence.atomic_file import whole_file, why_not_writable
from cavity.persistence.errors import DataError
from cavity.plots.kinds import KINDS
from cavity.report.latent_page import colours_of
from cavity.report.svg import in_style, svg_of
from cavity.tables.embedding import outputs
from cavity.tables.embedding_files import EmbeddingFiles
from cavity.tables.files import read_table
from cavity.tables.opened import load
from cavity.tables.rows_files import RowsFiles
from cavity.tables.schema import encode
from cavity.tables.series_files import SeriesFiles

ENDINGS = (".svg", ".png", ".pdf")
# The arguments of pictures by option; of others the option is refused.
TAKEN: dict[str, dict[str, str]] = {
    "columns": {
        "slices": "columns",
        "partial_effects": "columns",
        "inducing_points": "columns",
        "components": "column",
    },
    "target": dict.fromkeys([*KINDS], "target"),
    "level": dict.fromkeys(
        ["function", "slices", "partial_effects", "components", "forecast"], "level"
    ),
    "steps": {"forecast": "fh"},
    "series": {"forecast": "series"},
    "patches": {"patches": "n_patches"},
    "colour": {"embedding": "colour"},
}
for _kind in ("relevance", "evidence", "embedding", "patches"):
    TAKEN["target"].pop(_kind)


class Named(list[Any]):
    """Values of a column, with its name."""

    name = ""


class Files(NamedTuple):
    """The files of a picture: a model, a table of rows where there is one, and what is written."""

    model: str
    table: str | None
    out: str


def draw(
    session: Session,
    kind: str,
    files: Files,
    *,
    options: Mapping[str, Any],
    drop_missing: bool,
) -> Outcome:
    """Draws a picture and writes it, whole or not at all."""
    (model, table, out), word = files, kind.replace("-", "_")
    if word not in KINDS:
        known = ", ".join(name.replace("_", "-") for name in KINDS)
        raise usage("KIND", f"there is no picture '{kind}'; there are {known}")
    ending = Path(out).suffix.lower()
    if ending not in ENDINGS:
        raise usage("--out", f"'{out}' must end in .svg, .png or .pdf")
    arguments = _arguments(word, options)
    trouble = why_not_writable(Path(out))
    if trouble:
        raise DataError(trouble, kind="io")
    estimator = load(model)
    rows = _rows(session, estimator, table, options["colour"], drop_missing=drop_missing)
    if "colour" in arguments:
        arguments["colour"] = rows.pop("colour", None)
    if word in ("evidence", "patches"):
        rows = {}
    elif word != "forecast":
        rows = {"X": rows.get("X")}
    try:
        with in_style():
            display = getattr(plots, word)(estimator, **rows, **arguments)
            _write(display.figure_, Path(out), ending)
    except (ValueError, TypeError) as error:
        raise DataError(str(error)) from None
    record = {"model": model, "table": table, "kind": kind, "out": out}
    return Outcome(record, f"{kind} of {model} drawn in {out}")


def _arguments(word: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a picture from what was typed.

    Raises:
        a usage error for options that the picture has no use for.
    """
    found = {}
    for name, value in options.items():
        if value is None or value == []:
            continue
        if word not in TAKEN[name]:
            typed = "--column" if name == "columns" else f"--{name}"
            kinds = ", ".join(kind.replace("_", "-") for kind in TAKEN[name])
            raise usage(typed, f"it is for {kinds}: leave it out")
        found[TAKEN[name][word]] = value
    if "column" in found:
        if len(found["column"]) > 1:
            raise usage("--column", "components are drawn along one column")
        (found["column"],) = found["column"]
    return found


def _rows(
    session: Session, estimator: Any, table: str | None, colour: str | None, *, drop_missing: bool
) -> dict[str, Any]:
    """The cells of a table as arguments of pictures."""
    if table is None:
        return {}
    data = read_table(table)
    if isinstance(estimator, GPEmbedding):
        rows: dict[str, Any] = {"X": outputs(data, EmbeddingFiles().contents(estimator).schema)}
        if colour is not None:
            rows["colour"] = Named(colours_of(data, colour))
            rows["colour"].name = colour
        return rows
    if isinstance(estimator, GPForecaster):
        schema = SeriesFiles().contents(estimator).schema
        came = all(column.name in data.columns for column in schema.targets)
        X = schema.numbers_in(data, schema.inputs)
        y = schema.numbers_in(data, schema.targets) if came else None
        return {"X": X if schema.inputs else None, "y": y}
    fitted = RowsFiles().contents(estimator)
    judged = all(target in data.columns for target in fitted.targets)
    encoded = encode(data, fitted.schema, drop_missing=drop_missing, need_targets=judged)
    report_warnings(session, table, encoded.noticed)
    return {"X": encoded}


def _write(figure: Any, path: Path, ending: str) -> None:
    """Writes a figure, whole or not at all."""
    from matplotlib import pyplot

    with whole_file(path) as file:
        if ending == ".svg":
            file.write((svg_of(figure) + "\n").encode())
        else:
            figure.savefig(file, format=ending[1:], dpi=200, facecolor="white")
    pyplot.close(figure)
