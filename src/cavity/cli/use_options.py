"""Options of the commands that use a model file."""

from typing import Annotated

import typer

from cavity.cli.request import option
from cavity.cli.session import File

Quantiles = Annotated[str | None, option("P,P,...", "Such as 0.05,0.95.")]
Costs = Annotated[
    str | None,
    option(
        "TABLE",
        "Costs of wrong decisions, to decide for the label of least expected cost: a row for each "
        "true class, its name in the first column, and a column for each decision.",
    ),
    File("table of costs"),
]
Keep = Annotated[
    list[str] | None,
    option("COLUMN", "Column of the table to put before the others, such as an ID; repeatable."),
]
Density = Annotated[
    bool, typer.Option("--density", help="Add the log density of the target column.")
]
RowDensity = Annotated[
    bool, typer.Option("--density", help="Add a bound on the log density of each row.")
]
Std = Annotated[
    bool, typer.Option("--std", help="Add the standard deviations of what is filled in.")
]
Colour = Annotated[
    str | None, option("COLUMN", "Of an embedding: the column that colours the map.")
]
Steps = Annotated[int, option("N", "Rows after the last one of the fit.", min=1)]
Controls = Annotated[
    str | None,
    option("TABLE", "Controls of these rows, where the model has some."),
    File("table of controls"),
]
BlankMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave the outputs of incomplete rows blank.")
]
