"""The pictures of a report on classes, each with a caption that says how to read it."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from cavity import drawing
from cavity.drawing.axes import Axes, Figure
from cavity.learning.metrics.classification import Reliability, reliability, roc
from cavity.numerics.text import plural
from cavity.report.figures import panels
from cavity.report.sections import Picture
from cavity.report.slices import Slice
from cavity.report.svg import picture

# Charts of single classes at the most, of the most frequent ones.
MOST_PANELS = 9


@dataclasses.dataclass(frozen=True, eq=False)
class ClassOutcome:
    """The classes of a table and what a model says of them.

    Attributes:
        labels: places of the true classes, (N,).
        log_probabilities: (N, C).
        classes: their names.
    """

    labels: np.ndarray
    log_probabilities: np.ndarray
    classes: tuple[str, ...]

    @property
    def predicted(self) -> np.ndarray:
        """Places of the likeliest classes, (N,)."""
        return np.argmax(self.log_probabilities, axis=1)

    def reliability(self, k: int) -> tuple[Reliability, np.ndarray, np.ndarray]:
        """The bins of a class's probability, and the range of shares that chance brings about."""
        from scipy.stats import binom

        bins = reliability(np.exp(self.log_probabilities[:, k]), self.labels == k)
        lower, upper = (
            binom.ppf(p, bins.count, bins.predicted) / bins.count for p in (0.025, 0.975)
        )
        return bins, lower, upper


def reliability_diagram(outcome: ClassOutcome) -> Picture:
    """Probabilities of the last class against how often it came true, and their histogram."""
    chance = np.exp(outcome.log_probabilities[:, -1])
    truth = outcome.labels == len(outcome.classes) - 1
    bins, *ends = outcome.reliability(len(outcome.classes) - 1)
    name = outcome.classes[-1]
    others = outcome.classes[0] if len(outcome.classes) == 2 else "the others"

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        drawing.reliability(left, bins.predicted, bins.observed, *ends)
        drawing.legend_above(left)
        drawing.class_histograms(right, chance, truth, drawing.labels([others, name], 16))

    return Picture(
        "reliability",
        "Reliability",
        f"Two charts of the probability of {name}: how often it came true, and how it is "
        f"distributed over {plural(len(chance), 'row')}.",
        f"Left: rows in bins of one tenth by their predicted probability of {name}, against the "
        "share of them that are of that class. On the dashed line probabilities mean what they "
        "say; points nearer to one half than the line means too confident, further out too "
        "cautious. A grey bar is where a calibrated model would lie 95 times in 100 with so few "
        f"rows. Right: how the probabilities are spread, upwards for rows that are {name}, "
        "downwards for the rest; the further apart the two, the better they are told apart.",
        picture(draw, height=4.0),
    )


def class_reliability(outcome: ClassOutcome) -> Picture:
    """Reliability of the probabilities of each of many classes."""
    count = np.bincount(outcome.labels, minlength=len(outcome.classes))
    chosen = np.sort(np.argsort(-count, kind="stable")[:MOST_PANELS])
    bins = [outcome.reliability(int(k)) for k in chosen]
    names = drawing.labels([outcome.classes[k] for k in chosen], 24)
    height = -(-len(chosen) // 3)

    def draw(figure: Figure) -> None:
        grid = figure.subplots(height, min(len(chosen), 3), squeeze=False).ravel()
        for i, (axes, (found, *ends)) in enumerate(zip(grid, bins, strict=False)):
            drawing.reliability(axes, found.predicted, found.observed, *ends)
            axes.set_title(f"{names[i]} ({plural(int(count[chosen[i]]), 'row')})")
        for axes in grid[len(bins) :]:
            axes.remove()
        handles, names_of_marks = grid[0].get_legend_handles_labels()
        figure.legend(handles, names_of_marks, loc="outside lower center", ncols=3)

    left_out = len(outcome.classes) - len(chosen)
    more = f" The {left_out} rarest classes are not shown." if left_out else ""
    return Picture(
        "reliability",
        "Reliability",
        f"A chart for each of {len(chosen)} classes: how often it came true against its "
        "predicted probability.",
        "A chart for each class: rows in bins of one tenth by their predicted probability of it, "
        "against the share of them that are of it. On the dashed line probabilities mean what "
        "they say; points nearer to one half than the line means too confident, further out too "
        "cautious. A grey bar is where a calibrated model would lie 95 times in 100 with so few "
        "rows." + more,
        picture(draw, height=0.3 + 3.0 * height),
    )


def most_moving(
    cuts: Sequence[Slice], shares: np.ndarray, count: int
) -> list[tuple[Slice, np.ndarray]]:
    """The slices along which probabilities move most, with those of all classes on each.

    Args:
        cuts: slices.
        shares: probabilities at all their inputs in turn, (n, C).
        count: slices at the most.
    """
    each = np.split(shares, np.cumsum([len(cut.X) for cut in cuts])[:-1])
    order = np.argsort([-np.max(np.ptp(p, axis=0)) for p in each], kind="stable")
    return [(cuts[i], each[i]) for i in order[:count]]


def along_inputs(
    chosen: Sequence[tuple[Slice, np.ndarray]], classes: Sequence[str], columns: Sequence[str]
) -> Picture:
    """The probabilities of many classes along one input each, the others at typical values.

    Args:
        chosen: slices with the probabilities of all classes, (n, C).
        classes: their names.
        columns: the names of all columns that there were to choose from.
    """
    cuts, short = [cut for cut, _ in chosen], drawing.labels(classes, 18)

    def draw(axes: Axes, i: int) -> None:
        cut, shares = chosen[i]
        if cut.levels:
            drawing.class_bars(axes, cut.levels, shares, short)
        else:
            drawing.class_areas(axes, cut.places, shares, short)

    listed = ", ".join(cut.column.name for cut in cuts)
    return Picture(
        "slices",
        "Along one input at a time",
        f"The probabilities of {len(classes)} classes along each of: {listed}.",
        "The probability of each class, one upon the other, as one column changes and the others "
        "stay at their median or most frequent value. The columns that move the probabilities "
        "most come first.",
        panels(cuts, columns, draw, "probability", legend=True),
    )


def confusion(outcome: ClassOutcome) -> Picture:
    """Rows by true and by predicted class."""
    size = len(outcome.classes)
    counts = np.zeros((size, size), int)
    np.add.at(counts, (outcome.labels, outcome.predicted), 1)
    every = plural(len(outcome.labels), "row")
    wrong = len(outcome.labels) - int(np.trace(counts))
    each = 1.3 if size <= 6 else 0.8

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        drawing.confusion(axes, counts, drawing.labels(outcome.classes, 16))

    return Picture(
        "confusion",
        "Right and wrong",
        f"A table of true against predicted classes; {wrong} of {every} wrong.",
        "Rows of the table by their true class and by the likeliest class; the share is of the "
        "true class. Those on the falling diagonal are right.",
        picture(draw, width=1.6 + each * size, height=1.0 + 0.92 * each * size),
    )


def roc_curve(outcome: ClassOutcome) -> Picture | None:
    """ROC curve of the second of two classes; None unless the rows have both."""
    if len(outcome.classes) != 2:
        return None
    name, odds = outcome.classes[1], outcome.log_probabilities @ np.array([-1.0, 1.0])
    found = roc(outcome.labels == 1, odds)
    if found is None:
        return None

    def draw(figure: Figure) -> None:
        drawing.roc(figure.subplots(), found.false_positive, found.true_positive, found.area)

    return Picture(
        "roc",
        "Ranking (ROC curve)",
        f"The share of rows of class {name} that are found against the share of the others taken "
        f"for it; the area under the curve is {found.area:.3f}.",
        f"If rows are called {name} from some probability on, and that threshold falls from 1 to "
        "0, the curve says how many of the right rows are found at the price of how many wrong "
        "ones. The area is the probability that a row of the class gets a larger probability than "
        "one that is not of it: 1 is perfect, 0.5 is guessing. It says nothing of whether "
        "probabilities are right, only of their order.",
        picture(draw, width=5.0, height=4.2),
    )
