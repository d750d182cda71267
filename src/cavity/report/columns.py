"""The columns of a table in short, and the section on the data."""

from typing import NamedTuple

import numpy as np

from cavity.columns.dates import Dates
from cavity.columns.encoder import Column
from cavity.report.sections import Paragraph, Section, Table, counted
from cavity.report.slices import blocks
from cavity.tables.schema import Encoded, Schema
from cavity.tables.table_model import TableModel


class ColumnRow(NamedTuple):
    """A column of the table in the summary of the data."""

    name: str
    role: str
    kind: str
    low: float | str | None
    mean: float | str | None
    high: float | str | None
    note: str = ""


def column_rows(schema: Schema, table: Encoded) -> list[ColumnRow]:
    """The summary of every column that a model reads.

    Args:
        schema: which columns these are.
        table: the table as numbers.
    """
    X, y = table.X, table.y
    where = blocks(schema)
    rows = [
        _dated(_summary(column, "input", X[:, block]), schema.dates.get(column.name))
        for column, block in zip(schema.inputs, where, strict=True)
    ]
    if y is not None:
        targets = enumerate(schema.targets)
        rows += [_summary(column, "target", y[:, i : i + 1]) for i, column in targets]
    sides = {"noise_variance": schema.noise_column, "exposure": schema.exposure_column}
    for side, values in table.side.items():
        column = Column(str(sides[side]), "numeric")
        rows.append(_summary(column, side.replace("_", " "), values[:, None]))
    return rows


def _dated(row: ColumnRow, dates: Dates | None) -> ColumnRow:
    """The summary of a column of dates with dates for its numbers."""
    if dates is None:
        return row
    numbers = (row.low, row.mean, row.high)
    low, mean, high = (dates.text(n) if isinstance(n, float) else n for n in numbers)
    note = "; ".join(filter(None, [row.note, f"used as {dates.since}"]))
    return row._replace(kind=dates.noun, low=low, mean=mean, high=high, note=note)


def _summary(column: Column, role: str, values: np.ndarray) -> ColumnRow:
    """One column of the table, from its columns in X or y."""
    if column.kind == "categorical" and role == "input":
        share = values.mean(axis=0)
        top = np.argsort(-share, kind="stable")[:4]
        listed = ", ".join(f"{column.categories[i]} {100 * share[i]:.0f} %" for i in top)
        count = len(column.categories)
        note = f"{count} categories: {listed}" + (", …" if count > len(top) else "")
        return ColumnRow(column.name, role, column.kind, None, None, None, note)
    x = values[:, 0]
    if role == "target" and column.categories:
        listed = (
            f"{name} {100 * np.mean(x == i):.0f} %" for i, name in enumerate(column.categories)
        )
        note = f"{len(column.categories)} classes: {', '.join(listed)}"
        return ColumnRow(column.name, role, column.kind, None, None, None, note)
    if column.kind == "boolean":
        note = f"true in {100 * x.mean():.0f} %"
        return ColumnRow(column.name, role, column.kind, None, None, None, note)
    note = "constant" if len(x) > 1 and np.all(x == x[0]) else ""
    low, mean, high = float(x.min()), float(x.mean()), float(x.max())
    return ColumnRow(column.name, role, column.kind, low, mean, high, note)


def row_dates(schema: Schema, table: Encoded, row: int) -> dict[str, str]:
    """The dates of a row by the names of their columns.

    Args:
        schema: which columns these are.
        table: the table as numbers.
        row: its number in the table, from 1 on.
    """
    i = int(np.searchsorted(table.numbers, row))
    return {
        column.name: schema.dates[column.name].text(float(table.X[i, block.start]))
        for column, block in zip(schema.inputs, blocks(schema), strict=True)
        if column.name in schema.dates
    }


def data_section(fitted: TableModel, encoded: Encoded) -> Section:
    """The columns of the table, and its rows.

    Args:
        fitted: the model.
        encoded: the table as numbers.
    """
    schema, count = fitted.schema, len(encoded.X)
    left_out = len(encoded.kept) - count
    verbs = "has missing cells and was" if left_out == 1 else "have missing cells and were"
    more = f"({left_out:,} more {verbs} left out) " if left_out else ""
    text = (
        f"{counted(count, 'row')} of this table {more}with "
        f"{counted(len(schema.inputs), 'input column')}; the model was fitted to "
        f"{counted(fitted.record['n_rows'], 'row')}."
    )
    if encoded.y is None:
        text += (
            " The table was read without targets, so nothing here says how good predictions are."
        )
    rows = [
        (
            c.name,
            c.role,
            c.kind,
            *((c.note,) if c.low is None else (c.low, c.mean, c.high, c.note)),
        )
        for c in column_rows(schema, encoded)
    ]
    head = ("column", "role", "kind", ">minimum", ">mean", ">maximum", "")
    table = Table(head, rows, f"All {len(rows)} columns", 24)
    return Section("The data", [Paragraph(text), table])
