"""A fitted model and what it makes of a table, on one HTML page that needs nothing else."""

from pathlib import Path

import numpy as np

from cavity.estimators.layers import last_functions, layers_of, weight_priors
from cavity.kernels.sum_over import plain_columns
from cavity.learning.metrics.regression import average_metrics
from cavity.report import figures
from cavity.report.coefficients import coefficient_section
from cavity.report.columns import data_section
from cavity.report.examination import examined
from cavity.report.image_figures import image_pictures
from cavity.report.model_section import lead, model_section
from cavity.report.parameters import of_units, relevances
from cavity.report.rendering import check_page, write_page
from cavity.report.sections import (
    Head,
    Paragraph,
    Picture,
    Section,
    figure_names,
    number,
    percent,
)
from cavity.report.subject import Subject
from cavity.report.targets import target_sections
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel


def write_report(path: str | Path, fitted: TableModel, encoded: Encoded) -> list[str]:
    """Writes the page, whole or not at all.

    Args:
        path: the file; what it held before is replaced.
        fitted: the model.
        encoded: the table to report on; without targets, less can be shown.

    Returns:
        The names of the page's figures; with several targets, those of one target end in its
        name.

    Raises:
        DataError: of kind "io", if the file cannot be written.
    """
    check_page(path)
    subject = Subject(fitted, encoded)
    targets = target_sections(subject)
    examination, coefficients = examined(subject), coefficient_section(fitted)
    inputs = _inputs(subject)
    about = [data_section(fitted, encoded), model_section(subject), coefficients, examination]
    write_page(path, fitted.record, _head(subject), [*about, *targets, inputs])
    return figure_names([*targets, inputs, examination, coefficients])


def _head(subject: Subject) -> Head:
    """The top of the page."""
    fitted, record = subject.fitted, subject.fitted.record
    more = len(fitted.targets) - 4
    of = ", ".join(fitted.targets[:4]) + (f" and {more} more" if more > 0 else "")
    words = {"hidden": "Network", "prior": "Linear"}
    kind = [*(word for entry, word in words.items() if entry in record), "Gaussian process"][0]
    about = lead(f"{kind} {record['task']}", record, ". Everything is in the units of the table.")
    notes = [Paragraph(warning, "note") for warning in subject.encoded.warnings]
    return Head(f"Report on {of}", about, _tiles(subject), notes)


def _tiles(subject: Subject) -> list[tuple[str, str]]:
    """The most important numbers."""
    fitted, record = subject.fitted, subject.fitted.record
    tiles = [("rows of this table", number(len(subject.encoded.X)))]
    if record["log_evidence"] is None:
        draws = record["mcmc"]["chains"] * record["mcmc"]["draws"]
        tiles.append(("draws of the posterior", number(draws)))
    else:
        tiles.append(("log evidence of the fit", f"{number(record['log_evidence'], 6)} nats"))
    each = [metrics for metrics in subject.metrics.values() if metrics]
    if not each:
        return tiles
    average, several = average_metrics(each), len(fitted.targets) > 1
    if fitted.classes:
        tiles.append(("share of rows wrong", percent(average["error"], 1)))
        tiles.append(("log loss, nats per row", number(average["nlpp"], 3)))
        if len(fitted.classes) == 2:
            tiles.append(("area under the ROC curve", number(average["auc"], 3)))
        return tiles
    if not several:
        tiles.append(("root mean squared error", number(average["rmse"])))
    mean = "mean " if several else ""
    tiles.append((f"{mean}standardised error (SMSE)", number(average["smse"], 3)))
    return [*tiles, ("inside 90 % intervals", percent(average["coverage_90"]))]


def _inputs(subject: Subject) -> Section | None:
    """The relevance of the inputs, or why it is not shown; None for a single one."""
    pictures, notes = _relevance(subject)
    small = [Paragraph(note, "small") for note in notes]
    return Section("The inputs", [*small, *pictures]) if pictures or notes else None


def _relevance(subject: Subject) -> tuple[list[Picture], list[str]]:
    """Pictures of the inputs, and what to say where some are not drawn."""
    fitted, encoded = subject.fitted, subject.encoded
    features, model = fitted.schema.features, fitted.posterior.model
    if len(features) < 2:
        return [], []
    if len(encoded.X) < 2:
        return [], ["The relevance of the inputs needs a table of at least two rows."]
    if plain_columns(model) is not None:
        labelled = fitted.classes and subject.judged
        return image_pictures(fitted, encoded, subject.log_probabilities if labelled else None)
    if weight_priors(model):
        return [figures.relevance([r], features) for r in of_units(fitted.record)], []
    below = "the slices above show what each one does."
    if layers_of(model):
        text = "The lengthscales of a deep model do not say how relevant each input is"
        return [], [f"{text}; {below}"]
    spread = np.std(encoded.X, axis=0)
    found = relevances(last_functions(model).kernel, spread, model.likelihood.latent_functions)
    if not found:
        text = "The kernel has no lengthscale of its own for each column, so it does not say how "
        return [], [f"{text}relevant each is; {below}"]
    return [figures.relevance(found, features)], []
