"""Choice of coupled or independent classes, where a user left it open."""

import dataclasses
from numbers import Real

from cavity.estimators.registry import build_likelihood
from cavity.estimators.settings import Settings, inducing_count
from cavity.learning.cost import coupled_seconds, duration
from cavity.learning.methods.methods import PowerEP
from cavity.likelihoods.capabilities import number_of_classes

# Seconds of processor time beyond which classes are coupled only where that is asked for. Up to
# there independent ones save less than half of it (benchmarks/results/class_forms.csv).
AFFORDABLE = 180.0
# Powers at which independent classes take the place of coupled ones: the default and EP's.
REPLACED = (0.5, 1.0)


@dataclasses.dataclass(frozen=True)
class IndependentClasses:
    """Independent classes in the place of coupled ones, which would take long.

    Attributes:
        seconds: processor time that coupled ones would take.
        points: the most inducing points with which coupled ones are affordable.
        method: the method.
        power: its power: at others it averages over points, which takes longer still.
    """

    seconds: float
    points: int
    method: PowerEP = PowerEP(coupled=False)
    power: float = 1.0

    def __str__(self) -> str:
        fewer = f"up to {self.points} inducing points, or " if self.points else ""
        return (
            f"classes are independent in the posterior, at power {self.power:g}: coupled ones "
            f"would take about {duration(self.seconds)} of processor time; for these give "
            f"{fewer}method=cavity.PowerEP(coupled=True)"
        )


def with_affordable_form(settings: Settings, rows: int, columns: int) -> tuple[Settings, str]:
    """Settings with an affordable form of classes, and a message if it is not the requested one.

    Args:
        settings: what was asked for, checked.
        rows: of the data.
        columns: inputs.
    """
    cheaper = affordable_form(settings, rows, columns)
    if cheaper is None:
        return settings, ""
    chosen = dataclasses.replace(settings, method=cheaper.method, power=cheaper.power)
    return chosen, str(cheaper)


def affordable_form(settings: Settings, rows: int, columns: int) -> IndependentClasses | None:
    """Replacement for coupled classes that take too long; None where settings stay as they are.

    It is for the method's name alone: a method object is taken as it is.

    Args:
        settings: what was asked for, checked.
        rows: of the data.
        columns: inputs.
    """
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    power, iterations = settings.fixed_power, settings.max_iterations
    if settings.method != "power_ep" or not likelihood.couples:
        return None
    if not isinstance(power, Real) or power not in REPLACED or not isinstance(iterations, int):
        return None
    points = inducing_count(settings, rows, columns)
    if points is None:
        return None
    classes = number_of_classes(likelihood)

    def seconds(points: int) -> float:
        return coupled_seconds(rows, classes, points, max_iterations=iterations)

    if seconds(points) <= AFFORDABLE:
        return None
    fewer = max(m for m in range(points) if seconds(m) <= AFFORDABLE)
    return IndependentClasses(seconds(points), fewer)
