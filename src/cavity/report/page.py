"""A fitted model and what it makes of a table, on one HTML page that needs nothing else."""

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cavity.estimators.layers import first_functions, last_functions, layers_of, weight_priors
from cavity.estimators.predictions import Predictions, binary_probabilities
from cavity.inducing.base import Points
from cavity.kernels.sum_over import plain_columns
from cavity.learning.metrics.regression import average_metrics
from cavity.learning.results.result import Inference
from cavity.likelihoods.capabilities import HasHeavyTails, capability
from cavity.plots import BANDS
from cavity.report import class_figures, figures
from cavity.report.class_figures import ClassOutcome
from cavity.report.coefficients import CoefficientSection, coefficient_section
from cavity.report.columns import column_rows, row_dates
from cavity.report.convergence import unconverged
from cavity.report.examination import Examined, examined
from cavity.report.figures import Outcome, Picture, Shown
from cavity.report.image_figures import image_pictures
from cavity.report.layers import layer_summaries
from cavity.report.leave_one_out import (
    LeftOutRows,
    SingleRows,
    left_out_rows,
    quick_inference_on,
    single_rows,
)
from cavity.report.metric_descriptions import METRICS
from cavity.report.outliers import Outliers, outliers
from cavity.report.parameters import class_of, of_units, parameter_rows, relevances
from cavity.report.rendering import check_page, templates, write_page
from cavity.report.rough_predictions import RoughPredictions
from cavity.report.slices import Slice, in_one_go, slices
from cavity.tables.schema import Encoded
from cavity.tables.table_model import TableModel

MOST_SLICES = 8
PIXELS = "The inputs are the pixels of images, which say little one by one: no slices are drawn."
FEW_ROWS = 10  # below, histograms and coverage say nothing


class Section(NamedTuple):
    """Section on one target."""

    target: str
    metrics: dict[str, float]
    pictures: list[Picture]
    notes: list[str]
    outliers: Outliers | None = None
    left_out: LeftOutRows | None = None


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
    page = Page(fitted, encoded)
    sections = page.sections()
    inputs, linear = page.inputs(), coefficient_section(fitted)
    write_page(path, _render(page, sections, inputs, linear))
    several = len(sections) > 1
    names = [
        f"{picture.name}_{section.target}" if several else picture.name
        for section in sections
        for picture in section.pictures
    ]
    more = [part.pictures for part in (page.examined, linear) if part]
    return names + [picture.name for picture in sum(more, inputs[0])]


def _render(
    page: "Page",
    sections: list[Section],
    inputs: tuple[list[Picture], list[str]],
    linear: CoefficientSection | None,
) -> str:
    from importlib.metadata import version

    environment = templates()
    environment.filters["class_of"] = class_of
    metrics = [section.metrics for section in sections if section.metrics]
    posterior = page.fitted.posterior
    return environment.get_template("report.html").render(
        version=version("cavity"),
        record=page.fitted.record,
        unconverged=unconverged(page.fitted.record),
        fitted=page.fitted,
        encoded=page.encoded,
        columns=column_rows(page.fitted.schema, page.encoded),
        parameters=parameter_rows(
            posterior.model,
            page.fitted.record["parameters"],
            page.fitted.schema.features,
            page.fitted.targets,
            page.fitted.classes,
            {name: dates.unit for name, dates in page.fitted.schema.dates.items()},
        ),
        row_dates=functools.partial(row_dates, page.fitted.schema, page.encoded),
        known_noise=posterior.known_noise,
        layers=layer_summaries(posterior, page.encoded.X),
        examined=page.examined,
        coefficients=linear,
        average=average_metrics(metrics) if metrics else {},
        explanations=METRICS,
        sections=sections,
        common=inputs[0],
        notes=inputs[1],
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Page:
    """Gathers what the page shows."""

    fitted: TableModel
    encoded: Encoded

    def predict(self, X: np.ndarray) -> Any:
        """Means and quantiles at inputs that are no rows of the table, with typical side data."""
        if self.fitted.classes:
            return binary_probabilities(self.fitted.posterior, X)
        side = {k: np.full(len(X), np.median(v)) for k, v in self.encoded.side.items()}
        out = self.fitted.predictive(X, side)
        return (
            out if self.fitted.normal else RoughPredictions(out.mean, out.numerical_predictive())
        )

    def shown(self, target: str) -> tuple[str, Shown]:
        """Name of the axis of a target's curves, and descriptions of them."""
        classes = self.fitted.classes
        if not classes:
            return target, Shown(f"Predictions of {target}")
        name = f"probability of {classes[-1]}"
        return name, Shown(
            f"The {name}",
            f"The {name}",
            "this probability itself with 50 % and 95 % certainty",
            f"A point at 1 is a row that is {classes[-1]}, at 0 one that is {classes[0]}.",
        )

    # ----------------------------------------------------------------------- the targets

    def sections(self) -> list[Section]:
        """Metrics and pictures of each target."""
        curves, notes = self.curves()
        each, sections = self.metrics(), []
        for i, (target, pictures) in enumerate(zip(self.fitted.targets, curves, strict=True)):
            quality, more = self.quality(i) if each else ([], [])
            place = 1 if pictures and pictures[0].name == "fit" else 0
            pictures[place:place] = quality
            notes = notes + more if not sections else notes
            section = Section(target, each.get(target, {}), pictures, notes)
            if each:
                left_out = self.left_out(i)
                section = section._replace(outliers=self.outliers(i), left_out=left_out)
            sections.append(section)
        return sections

    def quality(self, i: int) -> tuple[list[Picture], list[str]]:
        """Pictures of how good the predictions of a target are, and notes."""
        assert self.encoded.y is not None
        if self.fitted.classes:
            labels = self.encoded.y[:, i].astype(int)
            outcome = ClassOutcome(labels, self.log_probabilities, self.fitted.classes)
            found, notes = _class_quality(outcome)
        else:
            found, notes = _quality(self.outcomes[i])
        single = self.single_rows
        return found, [*notes, single] if isinstance(single, str) else notes

    def outliers(self, i: int) -> Outliers | None:
        """The outlying rows of a target, where the likelihood has heavy tails."""
        likelihood, scale = self.fitted.posterior.model.likelihood, self.fitted.output_scale
        if capability(likelihood, HasHeavyTails) is None:
            return None
        outcome, single = self.outcomes[i], self.single_rows
        assert outcome.table is not None
        precisions = None
        if not isinstance(single, str) and single.precisions is not None:
            precisions = single.precisions[:, i]
        what = (outcome.observed, outcome.mean, outcome.table, outcome.rows)
        return outliers(likelihood, float(scale[i]), *what, precisions=precisions)

    def left_out(self, i: int) -> LeftOutRows | None:
        """The rows of a target given each other, beside their predictions."""
        single, y = self.single_rows, self.encoded.y
        if isinstance(single, str):
            return None
        assert y is not None
        said: dict[str, str] = {"caution": single.caution}
        observed: Sequence[Any] = y[:, i].tolist()
        if self.fitted.classes:
            places = y[:, i].astype(int)
            predicted = self.log_probabilities[np.arange(len(y)), places]
            observed = [self.fitted.classes[place] for place in places]
            said["noun"] = "probability"
        else:
            predicted = self.log_densities[:, i]
        what = (single.densities[:, i], predicted, observed, self.encoded.numbers)
        return left_out_rows(*what, **said)

    @functools.cached_property
    def inference(self) -> Inference | str:
        """Inference on the rows at the learned parameters, or why there is none."""
        return quick_inference_on(self.fitted, self.encoded)

    @functools.cached_property
    def single_rows(self) -> SingleRows | str:
        """Leave-one-out results, or the reason why they are not shown."""
        return single_rows(self.fitted, self.encoded, self.inference)

    @functools.cached_property
    def examined(self) -> Examined | None:
        """Section on approximation quality; None without targets, or where it does not apply."""
        if self.encoded.y is None:
            return None
        return examined(self.fitted, self.encoded, self.inference)

    @functools.cached_property
    def log_probabilities(self) -> np.ndarray:
        """Log probabilities of the classes of the rows, (N, C)."""
        return self.fitted.log_probabilities(self.encoded.X)

    @functools.cached_property
    def log_densities(self) -> np.ndarray:
        """Log densities of the targets of a regression under the predictions, (N, P)."""
        assert self.encoded.y is not None
        return self.predictions.log_density(self.encoded.y)

    @functools.cached_property
    def predictions(self) -> Predictions:
        """Predictions of the targets of a regression at the rows."""
        return self.fitted.predictive(self.encoded.X, self.encoded.side)

    def metrics(self) -> dict[str, dict[str, float]]:
        """The metrics of each target by name, none where the table has no targets."""
        if self.encoded.y is None:
            return {}
        found = self.fitted.metrics(self.encoded)
        if len(self.fitted.classes) > 2:
            found.pop("auc")  # of two classes
        return found.get("per_target", {self.fitted.targets[0]: found})

    @functools.cached_property
    def outcomes(self) -> list[Outcome]:
        """Outputs and predictions of each target of a regression."""
        y, out, rows = self.encoded.y, self.predictions, self.encoded.numbers
        assert y is not None
        several = range(len(self.fitted.targets))
        if self.fitted.normal:
            quantiles = out.quantiles(BANDS)
            return [
                Outcome(y[:, i], out.mean[:, i], out.std[:, i], quantiles[:, i], rows)
                for i in several
            ]
        return [
            Outcome(y[:, i], out.mean[:, i], out.std[:, i], t.quantiles(np.array(BANDS)), rows, t)
            for i, t in zip(several, out.numerical_predictive(), strict=True)
        ]

    def inputs(self) -> tuple[list[Picture], list[str]]:
        """The relevance of the inputs, or why it is not shown."""
        features = self.fitted.schema.features
        if len(features) < 2:
            return [], []
        if len(self.encoded.X) < 2:
            return [], ["The relevance of the inputs needs a table of at least two rows."]
        model = self.fitted.posterior.model
        if plain_columns(model) is not None:
            labelled = self.fitted.classes and self.encoded.y is not None
            probabilities = self.log_probabilities if labelled else None
            return image_pictures(self.fitted, self.encoded, probabilities)
        if weight_priors(model):
            return [figures.relevance([r], features) for r in of_units(self.fitted.record)], []
        if layers_of(model):
            text = "The lengthscales of a deep model do not say how relevant each input is; "
            return [], [text + "the slices above show what each one does."]
        spread = np.std(self.encoded.X, axis=0)
        kernel = last_functions(model).kernel
        found = relevances(kernel, spread, model.likelihood.latent_functions)
        if not found:
            text = "The kernel has no lengthscale of its own for each column, so it does not say "
            return [], [text + "how relevant each is; the slices above show what each one does."]
        return [figures.relevance(found, features)], []

    def curves(self) -> tuple[list[list[Picture]], list[str]]:
        """Pictures of the fit to each target, or of slices along inputs; and reasons for none."""
        schema, targets = self.fitted.schema, self.fitted.targets
        if plain_columns(self.fitted.posterior.model) is not None:
            return [[] for _ in targets], [PIXELS]
        if len(self.fitted.classes) > 2:
            return self.class_curves()
        single = len(schema.inputs) == 1 and schema.inputs[0].kind == "numeric"
        if single:
            return [[picture] for picture in self.fits()], []
        coarse = slices(schema, self.encoded.X, points=5)
        if not coarse:
            note = "Slices along the inputs need a column with at least two different values."
            return [[] for _ in targets], [note]
        means = in_one_go(coarse, self.predict, BANDS)
        swings = np.array([np.ptp(mean, axis=0) for mean, _ in means])
        orders = np.argsort(-swings, axis=0, kind="stable")[:MOST_SLICES]
        fine = {s.column.name: s for s in slices(schema, self.encoded.X, points=60)}
        pictures = []
        for i, target in enumerate(targets):
            chosen = [fine[coarse[k].column.name] for k in orders[:, i]]
            results = in_one_go(chosen, self.predict, BANDS)
            shown = [
                (s, mean[:, i], quantiles[:, i])
                for s, (mean, quantiles) in zip(chosen, results, strict=True)
            ]
            axis, words = self.shown(target)
            names = [c.name for c in schema.inputs]
            pictures.append([figures.along_inputs(shown, axis, names, words)])
        return pictures, []

    def class_curves(self) -> tuple[list[list[Picture]], list[str]]:
        """The probabilities of many classes along the inputs that move them most."""
        schema = self.fitted.schema
        cuts = slices(schema, self.encoded.X, points=60)
        if not cuts:
            return [[]], ["Slices along the inputs need a column with at least two values."]
        shares = np.exp(self.fitted.log_probabilities(np.concatenate([cut.X for cut in cuts])))
        chosen = class_figures.most_moving(cuts, shares, MOST_SLICES)
        names = [c.name for c in schema.inputs]
        return [[class_figures.along_inputs(chosen, self.fitted.classes, names)]], []

    def fits(self) -> list[Picture]:
        """The whole fit of each target, where the only input is one number."""
        column, x = self.fitted.schema.inputs[0], self.encoded.X[:, 0]
        model = self.fitted.posterior.model
        inducing = None if weight_priors(model) else first_functions(model).inducing
        Z = np.asarray(inducing.Z)[:, 0] if isinstance(inducing, Points) else None
        ends = np.array([x.min(), x.max()])
        if ends[0] == ends[1] and Z is not None:
            ends = np.array([min(ends[0], Z.min()), max(ends[1], Z.max())])
        room = 0.05 * (ends[1] - ends[0]) or 0.05 * abs(ends[0]) or 1.0
        places = np.linspace(ends[0] - room, ends[1] + room, 400)
        shown = functools.partial(self.fitted.schema.shown, column.name)
        cut = Slice(column, places[:, None], shown(places), (), shown(x))
        out = self.predict(cut.X)
        quantiles = out.quantiles(BANDS)
        if Z is not None:
            Z = shown(Z[(places[0] <= Z) & (places[-1] >= Z)])
        y = self.encoded.y
        return [
            figures.fit(
                cut,
                out.mean[:, i],
                quantiles[:, i],
                None if y is None else y[:, i],
                Z,
                *self.shown(target),
            )
            for i, target in enumerate(self.fitted.targets)
        ]


def _quality(outcome: Outcome) -> tuple[list[Picture], list[str]]:
    """Pictures of how good predictions are, as far as the rows suffice."""
    pictures = [figures.predictions(outcome)]
    if len(outcome.observed) < FEW_ROWS:
        note = f"Calibration and residuals are not drawn for fewer than {FEW_ROWS} rows."
        return pictures, [note]
    return [figures.calibration(outcome), *pictures, figures.residuals(outcome)], []


def _class_quality(outcome: ClassOutcome) -> tuple[list[Picture], list[str]]:
    """Pictures of how good probabilities of classes are, as far as the rows suffice."""
    pictures, notes = [class_figures.confusion(outcome)], []
    if len(outcome.labels) < FEW_ROWS:
        notes.append(f"Reliability is not drawn for fewer than {FEW_ROWS} rows.")
    else:
        many = len(outcome.classes) > 2
        draw = class_figures.class_reliability if many else class_figures.reliability_diagram
        pictures.insert(0, draw(outcome))
    curve = class_figures.roc_curve(outcome)
    if curve is None and len(outcome.classes) == 2:
        notes.append("There is no ROC curve, because the rows of this table are all of one class.")
    return pictures + ([] if curve is None else [curve]), notes
