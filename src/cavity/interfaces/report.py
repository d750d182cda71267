"""A fitted model and what it makes of a table, on one HTML page that needs nothing else."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.inducing.base import Points
from cavity.interfaces import figures
from cavity.interfaces.errors import DataError
from cavity.interfaces.figures import BANDS, Outcome, Picture
from cavity.interfaces.files import reason, whole_file, why_not_writable
from cavity.interfaces.fitted import Fitted
from cavity.interfaces.kernel_parts import parameter_rows, relevances
from cavity.interfaces.predictions import Predictions
from cavity.interfaces.schema import Column, Encoded
from cavity.interfaces.slices import Slice, blocks, slices
from cavity.learning.metrics import average_metrics

MOST_SLICES = 8
FEW_ROWS = 10  # below, histograms and coverage say nothing

METRICS = {
    "rmse": "root mean squared error of the predictive means; in units of the target",
    "mae": "mean absolute error of the predictive means; in units of the target",
    "nlpd": "mean negative log predictive density, in nats per row; lower is better, and only "
    "differences mean something, because the value depends on the units of the target",
    "smse": "mean squared error over the variance of these targets; 0 is perfect, 1 is no better "
    "than their mean",
    "smll": "log loss relative to a normal distribution with the mean and variance of the "
    "training targets, in nats per row; below 0 is better than knowing nothing of the inputs",
    "crps": "continuous ranked probability score, the mean absolute error of a distribution; in "
    "units of the target, lower is better",
    "coverage_50": "share of rows inside their central 50 % interval; near 0.5 is right",
    "coverage_90": "share of rows inside their central 90 % interval; near 0.9 is right",
    "coverage_95": "share of rows inside their central 95 % interval; near 0.95 is right",
}


class ColumnRow(NamedTuple):
    """A column of the table in the summary of the data."""

    name: str
    role: str
    kind: str
    low: float | None
    mean: float | None
    high: float | None
    note: str = ""


class Section(NamedTuple):
    """What the page says of one target."""

    target: str
    metrics: dict[str, float]
    pictures: list[Picture]
    notes: list[str]


def write_report(path: str | Path, fitted: Fitted, encoded: Encoded) -> list[str]:
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
    path = Path(path)
    trouble = why_not_writable(path)
    if trouble:
        raise DataError(trouble, kind="io")
    page = Page(fitted, encoded)
    sections = page.sections()
    common, notes = page.inputs()
    text = _render(page, sections, common, notes)
    try:
        with whole_file(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise DataError(f"cannot write {path}: {reason(error)}", kind="io") from None
    several = len(sections) > 1
    names = [
        f"{picture.name}_{section.target}" if several else picture.name
        for section in sections
        for picture in section.pictures
    ]
    return names + [picture.name for picture in common]


def _render(page: "Page", sections: list[Section], common: list[Picture], notes: list[str]) -> str:
    from importlib.metadata import version

    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cavity.interfaces"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    metrics = [section.metrics for section in sections if section.metrics]
    posterior = page.fitted.posterior
    return environment.get_template("report.html").render(
        version=version("cavity"),
        record=page.fitted.record,
        fitted=page.fitted,
        encoded=page.encoded,
        columns=page.columns(),
        parameters=parameter_rows(
            posterior.model,
            page.fitted.record["parameters"],
            page.fitted.schema.features,
            page.fitted.targets,
        ),
        known_noise=posterior.known_noise,
        average=average_metrics(metrics) if metrics else {},
        explanations=METRICS,
        sections=sections,
        common=common,
        notes=notes,
    )


def number(value: Any, digits: int = 4) -> str:
    """A number for a reader; a dash where there is none."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return "–"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    return f"{float(value):.{digits}g}"


@dataclasses.dataclass(frozen=True, eq=False)
class Page:
    """Gathers what the page shows."""

    fitted: Fitted
    encoded: Encoded

    def predict(self, X: np.ndarray) -> Predictions:
        """Predictions at inputs that are no rows of the table, with a typical known noise."""
        noise = self.encoded.noise
        typical = None if noise is None else np.full(len(X), np.median(noise))
        return self.fitted.predictive(X, typical)

    # -------------------------------------------------------------------------- the data

    def columns(self) -> list[ColumnRow]:
        """The summary of every column that the model reads."""
        schema, X, y = self.fitted.schema, self.encoded.X, self.encoded.y
        where = blocks(schema)
        rows = [
            _summary(column, "input", X[:, block])
            for column, block in zip(schema.inputs, where, strict=True)
        ]
        if y is not None:
            targets = enumerate(schema.targets)
            rows += [_summary(column, "target", y[:, i : i + 1]) for i, column in targets]
        if schema.noise_column is not None and self.encoded.noise is not None:
            column = Column(schema.noise_column, "numeric")
            rows.append(_summary(column, "noise variance", self.encoded.noise[:, None]))
        return rows

    # ----------------------------------------------------------------------- the targets

    def sections(self) -> list[Section]:
        """Metrics and pictures of each target."""
        curves, notes = self.curves()
        outcomes, each = self.outcomes(), self.metrics()
        sections = []
        for target, pictures in zip(self.fitted.targets, curves, strict=True):
            if target in outcomes:
                quality, more = _quality(outcomes[target])
                place = 1 if pictures and pictures[0].name == "fit" else 0
                pictures[place:place] = quality
                notes = notes + more if not sections else notes
            sections.append(Section(target, each.get(target, {}), pictures, notes))
        return sections

    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each target by name, none where the table has no targets."""
        if self.encoded.y is None:
            return {}
        found = self.fitted.metrics(self.encoded)
        return found.get("per_target", {self.fitted.targets[0]: found})

    def outcomes(self) -> dict[str, Outcome]:
        """What came of each target by name, none where the table has no targets."""
        X, y = self.encoded.X, self.encoded.y
        if y is None:
            return {}
        out = self.fitted.predictive(X, self.encoded.noise)
        quantiles = out.quantiles(BANDS)
        rows = np.flatnonzero(self.encoded.kept) + 1
        return {
            target: Outcome(y[:, i], out.mean[:, i], out.std[:, i], quantiles[:, i], rows)
            for i, target in enumerate(self.fitted.targets)
        }

    # ------------------------------------------------------------------------ the inputs

    def inputs(self) -> tuple[list[Picture], list[str]]:
        """The relevance of the inputs, or why it is not shown."""
        features = self.fitted.schema.features
        if len(features) < 2:
            return [], []
        if len(self.encoded.X) < 2:
            return [], ["The relevance of the inputs needs a table of at least two rows."]
        found = relevances(self.fitted.posterior.model.kernel, np.std(self.encoded.X, axis=0))
        if not found:
            text = "The kernel has no lengthscale of its own for each column, so it does not say "
            return [], [text + "how relevant each is; the slices above show what each one does."]
        return [figures.relevance(found, features)], []

    def curves(self) -> tuple[list[list[Picture]], list[str]]:
        """For each target the fit, or slices along inputs; and why there are none."""
        schema, targets = self.fitted.schema, self.fitted.targets
        single = len(schema.inputs) == 1 and schema.inputs[0].kind == "numeric"
        if single:
            return [[picture] for picture in self.fits()], []
        coarse = slices(schema, self.encoded.X, points=5)
        if not coarse:
            note = "Slices along the inputs need a column with at least two different values."
            return [[] for _ in targets], [note]
        means = _in_one_go(coarse, self.predict)
        swings = np.array([np.ptp(mean, axis=0) for mean, _ in means])
        orders = np.argsort(-swings, axis=0, kind="stable")[:MOST_SLICES]
        fine = {s.column.name: s for s in slices(schema, self.encoded.X, points=60)}
        pictures = []
        for i, target in enumerate(targets):
            chosen = [fine[coarse[k].column.name] for k in orders[:, i]]
            results = _in_one_go(chosen, self.predict)
            shown = [
                (s, mean[:, i], quantiles[:, i])
                for s, (mean, quantiles) in zip(chosen, results, strict=True)
            ]
            pictures.append([figures.along_inputs(shown, target, [c.name for c in schema.inputs])])
        return pictures, []

    def fits(self) -> list[Picture]:
        """The whole fit of each target, where the only input is one number."""
        column, x = self.fitted.schema.inputs[0], self.encoded.X[:, 0]
        inducing = self.fitted.posterior.model.inducing
        Z = np.asarray(inducing.Z)[:, 0] if isinstance(inducing, Points) else None
        ends = np.array([x.min(), x.max()])
        if ends[0] == ends[1] and Z is not None:
            ends = np.array([min(ends[0], Z.min()), max(ends[1], Z.max())])
        room = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[0]) or 1.0
        places = np.linspace(ends[0] - room, ends[1] + room, 400)
        cut = Slice(column, places[:, None], places, (), x)
        out = self.predict(cut.X)
        quantiles = out.quantiles(BANDS)
        if Z is not None:
            Z = Z[(places[0] <= Z) & (places[-1] >= Z)]
        y = self.encoded.y
        return [
            figures.fit(
                cut, out.mean[:, i], quantiles[:, i], None if y is None else y[:, i], Z, target
            )
            for i, target in enumerate(self.fitted.targets)
        ]


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
    if column.kind == "boolean":
        note = f"true in {100 * x.mean():.0f} %"
        return ColumnRow(column.name, role, column.kind, None, None, None, note)
    note = "constant" if len(x) > 1 and np.all(x == x[0]) else ""
    low, mean, high = float(x.min()), float(x.mean()), float(x.max())
    return ColumnRow(column.name, role, column.kind, low, mean, high, note)


def _quality(outcome: Outcome) -> tuple[list[Picture], list[str]]:
    """Pictures of how good predictions are, as far as the rows suffice."""
    pictures = [figures.predictions(outcome)]
    if len(outcome.observed) < FEW_ROWS:
        note = f"Calibration and residuals are not drawn for fewer than {FEW_ROWS} rows."
        return pictures, [note]
    return [figures.calibration(outcome), *pictures, figures.residuals(outcome)], []


def _in_one_go(cuts: Sequence[Slice], predict: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means (n, P) and quantiles (n, P, 4) of each slice, from one prediction."""
    out = predict(np.concatenate([cut.X for cut in cuts]))
    ends = np.cumsum([len(cut.X) for cut in cuts])[:-1]
    means, quantiles = np.split(out.mean, ends), np.split(out.quantiles(BANDS), ends)
    return list(zip(means, quantiles, strict=True))
