"""The pictures of a report on classes, each with a caption that says how to read it."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.interfaces import class_plots, plots
from cavity.interfaces.figures import Picture
from cavity.learning.classification_metrics import reliability, roc
from cavity.numerics.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
else:
    Figure = Any


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


def reliability_diagram(outcome: ClassOutcome) -> Picture:
    """Probabilities of the last class against how often it came true, and their histogram."""
    from scipy.stats import binom

    chance = np.exp(outcome.log_probabilities[:, -1])
    truth = outcome.labels == len(outcome.classes) - 1
    found = reliability(chance, truth)
    lower, upper = (
        binom.ppf(p, found.count, found.predicted) / found.count for p in (0.025, 0.975)
    )
    name = outcome.classes[-1]
    others = outcome.classes[0] if len(outcome.classes) == 2 else "the others"

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        class_plots.draw_reliability(left, found, lower, upper)
        class_plots.draw_chances(right, chance, truth, plots.labels([others, name], 16))

    return Picture(
        "reliability",
        "Reliability",
        f"Two charts of the probability of {name}: how often it came true, and how it is "
        f"distributed over {counted(len(chance), 'row')}.",
        f"Left: rows in bins of one tenth by their predicted probability of {name}, against the "
        "share of them that are of that class. On the dashed line probabilities mean what they "
        "say; points nearer to one half than the line means too confident, further out too "
        "cautious. A grey bar is where a calibrated model would lie 95 times in 100 with so few "
        f"rows. Right: how the probabilities are spread, upwards for rows that are {name}, "
        "downwards for the rest; the further apart the two, the better they are told apart.",
        plots.picture(draw, height=4.0),
    )


def confusion(outcome: ClassOutcome) -> Picture:
    """Rows by true and by predicted class."""
    size = len(outcome.classes)
    counts = np.zeros((size, size), int)
    np.add.at(counts, (outcome.labels, outcome.predicted), 1)
    every = counted(len(outcome.labels), "row")
    wrong = len(outcome.labels) - int(np.trace(counts))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        class_plots.draw_confusion(axes, counts, plots.labels(outcome.classes, 16))

    return Picture(
        "confusion",
        "Right and wrong",
        f"A table of true against predicted classes; {wrong} of {every} wrong.",
        "Rows of the table by their true class and by the likeliest class; the share is of the "
        "true class. Those on the falling diagonal are right.",
        plots.picture(draw, width=1.6 + 1.3 * size, height=1.0 + 1.2 * size),
    )


def roc_curve(outcome: ClassOutcome) -> Picture | None:
    """How well the second of two classes is ranked; None unless the rows have both."""
    if len(outcome.classes) != 2:
        return None
    name, odds = outcome.classes[1], outcome.log_probabilities @ np.array([-1.0, 1.0])
    found = roc(outcome.labels == 1, odds)
    if found is None:
        return None

    def draw(figure: Figure) -> None:
        class_plots.draw_roc(figure.subplots(), found)

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
        plots.picture(draw, width=5.0, height=4.2),
    )
