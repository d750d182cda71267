"""The coefficients of a linear model on a page: a table, and a picture of their intervals."""

from typing import Any

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Figure
from cavity.estimators.layers import weight_priors
from cavity.numerics.text import plural
from cavity.report.sections import Paragraph, Picture, Section, Table, number
from cavity.report.svg import picture
from cavity.tables.coefficients import model_coefficients
from cavity.tables.table_model import TableModel

# Outputs with a picture each, and rows of the table.
MOST_PICTURES, MOST_ROWS = 4, 500
FDR = 0.1


def coefficient_section(fitted: TableModel) -> Section | None:
    """The coefficients of a linear model, the most relevant first; None for any other."""
    model: Any = fitted.posterior.model
    if not weight_priors(model) or "relevance" in fitted.record:
        return None
    table, features = model_coefficients(fitted, FDR), fitted.schema.features
    kind = next((name for name in ("class", "target") if name in table), "")
    count = len(table["mean"]) // len(features)
    # what one deviation of the column moves, as far as the model knows deviations
    spread = np.ones(len(features)) if model.scale is None else np.asarray(model.scale)
    effect = table["mean"] * np.tile(spread, count)
    chosen = int(np.sum(table["selected"]))
    text = (
        f"{chosen} of {plural(len(effect), 'coefficient')} {'is' if chosen == 1 else 'are'} "
        "selected: in such a set at most a tenth is expected to be zero or of the other sign. "
    )
    if len(effect) > MOST_ROWS:
        text += f"The {MOST_ROWS} largest are listed. "
    text += "Means and intervals are per unit of the column; "
    spiked = "inclusion_probability" in table
    if spiked:
        text += "“not zero” is the probability of that, and “likelier sign” the probability of "
    else:
        text += "“likelier sign” is the probability of "
    order = np.argsort(-np.abs(effect), kind="stable")[:MOST_ROWS]
    rows = [_row({name: values[i] for name, values in table.items()}, kind) for i in order]
    head = ["column", *([kind] if kind else []), ">mean", ">90 % interval"]
    head += [*([">not zero"] if spiked else []), ">likelier sign", "selected"]
    listed = Table(head, rows, f"All {len(rows)} coefficients", 40)
    pictures = []
    for i in range(min(count, MOST_PICTURES)):
        part = slice(i * len(features), (i + 1) * len(features))
        of = {name: values[part] for name, values in table.items()}
        pictures.append(_picture(of, spread, str(of[kind][0]) if kind else ""))
    return Section("Coefficients", [Paragraph(f"{text}that sign."), listed, *pictures])


def _row(found: dict[str, Any], kind: str) -> tuple[str, ...]:
    """A coefficient in the units of the table."""
    chances = ("inclusion_probability", "sign_probability")
    return (
        str(found["column"]),
        *([str(found[kind])] if kind else []),
        number(float(found["mean"])),
        f"{number(float(found['lower']))} to {number(float(found['upper']))}",
        *(number(float(found[name]), 3) for name in chances if name in found),
        "yes" if found["selected"] else "",
    )


def _picture(table: dict[str, np.ndarray], spread: np.ndarray, output: str) -> Picture:
    """The intervals of the coefficients of one output, per deviation of their column."""
    names = [str(name) for name in table["column"]]
    mean, lower, upper = (table[name] * spread for name in ("mean", "lower", "upper"))
    order = np.argsort(-np.abs(mean), kind="stable")[: drawing.MOST_NAMES]
    short = drawing.labels(names)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        ends = (mean[order], lower[order], upper[order], table["selected"][order])
        drawing.coefficients(axes, [short[i] for i in map(int, order)], *ends)
        axes.set_xlabel("per deviation of the column")

    of = f" of {output}" if output else ""
    more = (
        f" The {len(order)} largest of {len(names)} are drawn." if len(order) < len(names) else ""
    )
    return Picture(
        f"coefficients_{output}" if output else "coefficients",
        f"Intervals{of}",
        f"Coefficients{of} with intervals; the largest: {', '.join(names[i] for i in order[:3])}.",
        "What one standard deviation of a column adds to the function: the posterior mean (dot) "
        "and the interval that holds 90 % (line). Blue ones are selected. An interval that ends "
        f"at zero belongs to a coefficient that may well be zero.{more}",
        picture(draw, height=1.1 + 0.24 * len(order)),
    )
