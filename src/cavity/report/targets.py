"""Sections on the targets of a table: curves, metrics, pictures of quality, single rows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.drawing import BANDS
from cavity.kernels.sum_over import plain_columns
from cavity.likelihoods.capabilities import HasHeavyTails, capability
from cavity.report import class_figures, figures
from cavity.report.figure_data import along_only_input, order_of_swings
from cavity.report.leave_one_out import left_out_parts, left_out_rows
from cavity.report.metric_descriptions import METRICS
from cavity.report.outliers import outlier_parts, outliers
from cavity.report.sections import Code, Paragraph, Part, Picture, Section, Table
from cavity.report.slices import Slice, in_one_go, slices
from cavity.report.subject import Subject

MOST_SLICES = 8
PIXELS = "The inputs are the pixels of images, which say little one by one: no slices are drawn."
FEW_ROWS = 10  # below, histograms and coverage say nothing


def target_sections(subject: Subject) -> list[Section]:
    """A section on each target; with several, the names of its figures end in its name."""
    targets = subject.fitted.targets
    curves, notes = _curves(subject)
    sections = []
    for i, (target, pictures) in enumerate(zip(targets, curves, strict=True)):
        own = list(notes)
        parts: list[Part] = []
        if subject.judged:
            quality, more = _quality(subject, i)
            place = 1 if pictures and pictures[0].name == "fit" else 0
            pictures[place:place] = quality
            own += more
            parts = [*_outliers(subject, i), *_left_out(subject, i)]
        if len(targets) > 1:
            pictures = [dataclasses.replace(p, name=f"{p.name}_{target}") for p in pictures]
        of = "Predictions of" if subject.judged else "What the model says of"
        small = [Paragraph(note, "small") for note in own]
        parts = [*_metrics(subject, target), *small, *pictures, *parts]
        sections.append(Section(f"{of} {target}", parts))
    return sections


def _metrics(subject: Subject, target: str) -> list[Part]:
    """The metrics of a target, each with its meaning."""
    if not subject.judged:
        return []
    same = "all of one class" if subject.fitted.classes else "constant"
    undefined = f" (undefined: the targets are {same})"
    rows = [
        (Code(name), value, METRICS[name] + (undefined if np.isnan(value) else ""))
        for name, value in subject.metrics[target].items()
    ]
    text = (
        "Measured on this table. If it is the one that the model was fitted to, expect worse on "
        "new rows."
    )
    return [Table(("metric", ">value", "meaning"), rows), Paragraph(text, "small")]


def _quality(subject: Subject, i: int) -> tuple[list[Picture], list[str]]:
    """Pictures of how good predictions are, as far as the rows suffice, and notes."""
    few = len(subject.encoded.X) < FEW_ROWS
    if subject.fitted.classes:
        pictures, notes = _class_quality(subject.class_outcome, few=few)
    else:
        outcome = subject.outcomes[i]
        pictures, notes = [figures.predictions(outcome)], []
        if few:
            notes = [f"Calibration and residuals are not drawn for fewer than {FEW_ROWS} rows."]
        else:
            pictures = [figures.calibration(outcome), *pictures, figures.residuals(outcome)]
    single, reason = subject.single_rows
    return pictures, [*notes, reason] if single is None else notes


def _class_quality(
    outcome: class_figures.ClassOutcome, *, few: bool
) -> tuple[list[Picture], list[str]]:
    """Pictures of how good probabilities of classes are, and notes."""
    pictures, notes = [class_figures.confusion(outcome)], []
    if few:
        notes.append(f"Reliability is not drawn for fewer than {FEW_ROWS} rows.")
    else:
        many = len(outcome.classes) > 2
        draw = class_figures.class_reliability if many else class_figures.reliability_diagram
        pictures.insert(0, draw(outcome))
    curve = class_figures.roc_curve(outcome)
    if curve is None and len(outcome.classes) == 2:
        notes.append("There is no ROC curve, because the rows of this table are all of one class.")
    return pictures + ([] if curve is None else [curve]), notes


def _outliers(subject: Subject, i: int) -> list[Part]:
    """The outlying rows of a target, where the likelihood has heavy tails."""
    likelihood, scale = subject.fitted.posterior.model.likelihood, subject.fitted.output_scale
    if capability(likelihood, HasHeavyTails) is None:
        return []
    single, precisions = subject.single_rows[0], None
    if single is not None and single.precisions is not None:
        precisions = single.precisions[:, i]
    found = outliers(likelihood, float(scale[i]), subject.outcomes[i], precisions)
    return outlier_parts(found, subject.dates)


def _left_out(subject: Subject, i: int) -> list[Part]:
    """The rows of a target given each other, beside their predictions."""
    single, y, classes = subject.single_rows[0], subject.encoded.y, subject.fitted.classes
    if single is None:
        return []
    assert y is not None
    said: dict[str, str] = {"caution": single.caution}
    observed: Sequence[Any] = y[:, i].tolist()
    if classes:
        places = y[:, i].astype(int)
        predicted = subject.log_probabilities[np.arange(len(y)), places]
        observed = [classes[place] for place in places]
        said["noun"] = "probability"
    else:
        predicted = subject.log_densities[:, i]
    densities, numbers = single.densities[:, i], subject.encoded.numbers
    found = left_out_rows(densities, predicted, observed, numbers, **said)
    return left_out_parts(found, subject.dates)


# ---------------------------------------------------------------------------- curves


def _curves(subject: Subject) -> tuple[list[list[Picture]], list[str]]:
    """Pictures of the fit to each target, or of slices along inputs; and reasons for none."""
    schema, targets = subject.fitted.schema, subject.fitted.targets
    none: list[list[Picture]] = [[] for _ in targets]
    if plain_columns(subject.fitted.posterior.model) is not None:
        return none, [PIXELS]
    many = len(subject.fitted.classes) > 2
    if len(schema.inputs) == 1 and schema.inputs[0].kind == "numeric" and not many:
        return [[picture] for picture in _fits(subject)], []
    fine = slices(schema, subject.encoded.X, points=60)
    if not fine:
        return none, ["Slices along the inputs need a column with at least two different values."]
    return [[_class_slices(subject, fine)]] if many else _slices(subject, fine), []


def _slices(subject: Subject, fine: list[Slice]) -> list[list[Picture]]:
    """Slices along the inputs that move each target most."""
    schema = subject.fitted.schema
    coarse = slices(schema, subject.encoded.X, points=5)
    orders = order_of_swings(coarse, subject.predict)[:MOST_SLICES]
    by_name = {cut.column.name: cut for cut in fine}
    names = [column.name for column in schema.inputs]
    pictures = []
    for i, target in enumerate(subject.fitted.targets):
        chosen = [by_name[coarse[k].column.name] for k in orders[:, i]]
        results = in_one_go(chosen, subject.predict, BANDS)
        shown = [
            (cut, mean[:, i], quantiles[:, i])
            for cut, (mean, quantiles) in zip(chosen, results, strict=True)
        ]
        axis, words = subject.shown(target)
        pictures.append([figures.along_inputs(shown, axis, names, words)])
    return pictures


def _class_slices(subject: Subject, cuts: list[Slice]) -> Picture:
    """The probabilities of many classes along the inputs that move them most."""
    X = np.concatenate([cut.X for cut in cuts])
    shares = np.exp(subject.fitted.log_probabilities(X))
    chosen = class_figures.most_moving(cuts, shares, MOST_SLICES)
    names = [column.name for column in subject.fitted.schema.inputs]
    return class_figures.along_inputs(chosen, subject.fitted.classes, names)


def _fits(subject: Subject) -> list[Picture]:
    """The whole fit of each target, where the only input is one number."""
    cut, Z = along_only_input(subject.fitted, subject.encoded.X[:, 0])
    out = subject.predict(cut.X)
    quantiles = out.quantiles(BANDS)
    y = subject.encoded.y
    return [
        figures.fit(
            (cut, out.mean[:, i], quantiles[:, i]),
            None if y is None else y[:, i],
            Z,
            *subject.shown(target),
        )
        for i, target in enumerate(subject.fitted.targets)
    ]
