"""The options of `cavity plot`; what does the work is imported when it runs."""

from typing import Annotated, Any

import typer

from cavity.cli.request import DropMissing, option
from cavity.cli.session import File, Outcome, Session, refuse_overwriting, run

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model that fit has written."), File("model")
]
Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="What to draw: function, slices, partial-effects, predictions, residuals, "
        "calibration, relevance, evidence, inducing-points, components, forecast, embedding or "
        "patches.",
    ),
]
Table = Annotated[
    str | None,
    typer.Argument(
        metavar="TABLE",
        help="A .csv or .parquet table of rows to draw it on, where the picture needs some; of a "
        "time series the rows that follow.",
    ),
    File("table"),
]
Out = Annotated[
    str,
    option("FILE", "The .svg, .png or .pdf file to write."),
    File("picture", written=True),
]
Columns = Annotated[
    list[str] | None, option("COLUMN", "A column to draw along; repeatable.", "--column")
]
Target = Annotated[
    str | None, option("NAME", "The target, where there are several, or the class.")
]
Level = Annotated[float | None, option("SHARE", "What bands hold; default 0.9.", min=0.0, max=1.0)]
Steps = Annotated[int | None, option("N", "Of a forecast: rows ahead.", min=1)]
Series = Annotated[str | None, option("LABEL", "Of a forecast: the series.")]
Patches = Annotated[int | None, option("N", "Patches of each class.", min=1)]
Colour = Annotated[
    str | None, option("COLUMN", "Of an embedding: the column that colours the map.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def plot(
    model: Model,
    kind: Kind,
    table: Table = None,
    *,
    out: Out,
    columns: Columns = None,
    target: Target = None,
    level: Level = None,
    steps: Steps = None,
    series: Series = None,
    patches: Patches = None,
    colour: Colour = None,
    drop_missing: DropMissing = False,
    json: Json = False,
) -> None:
    """Draw one picture of MODEL, such as its function or its calibration on TABLE."""
    given: Any = {"model": model, "table": table, "out": out}

    def work(session: Session) -> Outcome:
        refuse_overwriting(plot.__annotations__, given | {"kind": kind})
        from cavity.cli.plotting import Files, draw

        options = {
            "columns": columns,
            "target": target,
            "level": level,
            "steps": steps,
            "series": series,
            "patches": patches,
            "colour": colour,
        }
        return draw(session, kind, Files(**given), options=options, drop_missing=drop_missing)

    run("plot", work, as_json=json)
