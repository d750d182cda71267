"""Settings and rules that several families share, and how their options are read."""

import math
import re

from cavity.families.base import Option, Setting
from cavity.families.values import Names, Number, Whole

REGRESSION, CLASSIFICATION = "regression", "classification"
MEANS = ("zero", "constant", "linear")
# The largest jitter, which is that of the library's Cholesky factors.
MOST_JITTER = 1e-3


def power_of(typed: str) -> float | str:
    """The power as it is typed: a number from 0 to 1, or "auto".

    Raises:
        ValueError: for anything else.
    """
    if typed == "auto":
        return typed
    try:
        power = float(typed)
    except ValueError:
        text = f"the power is auto, or a number between 0 and 1, given '{typed}'"
        raise ValueError(text) from None
    if not 0.0 <= power <= 1.0:
        raise ValueError(f"the power lies between 0 and 1, given {power:g}")
    return power


def number_of(typed: str) -> float | str:
    """The power as it is typed, of a family that does not choose it.

    Raises:
        ValueError: for what is no number from 0 to 1.
    """
    if typed == "auto":
        raise ValueError("auto is for Gaussian processes of one layer: give a number")
    return power_of(typed)


def points_of(typed: str) -> int | str | None:
    """The number of inducing points as it is typed; None for the full GP.

    Raises:
        ValueError: for what is neither a number nor auto, enough or full.
    """
    if typed in ("auto", "enough", "full"):
        return None if typed == "full" else typed
    if not re.fullmatch(r"\d{1,9}", typed) or int(typed) < 1:
        raise ValueError(f"'{typed}' is not auto, enough, full or a whole number from 1 on")
    return int(typed)


def by_name(typed: list[str]) -> dict[str, str]:
    """Texts that were typed for parameters, such as `likelihood.variance=0.1`, by name.

    Raises:
        ValueError: for what is not written so, and for a name that is given twice.
    """
    found: dict[str, str] = {}
    for each in typed:
        name, sign, value = each.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise ValueError(f"'{each}' is not a name and a value, with = between them")
        if name.strip() in found:
            raise ValueError(f"{name.strip()} is given twice")
        found[name.strip()] = value.strip()
    return found


def prior_texts(typed: list[str]) -> dict[str, str]:
    """Texts of priors by name of parameter.

    Raises:
        ValueError: for what is not written so; of names alone, which priors of weights have.
    """
    try:
        return by_name(typed)
    except ValueError as error:
        if any("=" in each for each in typed):
            raise
        weights = "priors of weights are for linear models and networks: add --model linear"
        raise ValueError(f"{error}; {weights} (or network)") from None


def fixed_of(typed: list[str]) -> dict[str, float | list[float] | None]:
    """Values of parameters by name; several for several columns, with commas between them.

    A name alone keeps its parameter where it starts, which is None.

    Raises:
        ValueError: for what is no number.
    """
    alone = [each for each in typed if each.strip() and "=" not in each]
    others = by_name([each for each in typed if each not in alone])
    found: dict[str, float | list[float] | None] = {}
    for name in alone:
        if name.strip() in (*found, *others):
            raise ValueError(f"{name.strip()} is given twice")
        found[name.strip()] = None
    for name, text in others.items():
        numbers = [_finite(name, each) for each in text.strip("()[]").split(",")]
        found[name] = numbers[0] if len(numbers) == 1 else numbers
    return found


def bounds_of(typed: list[str]) -> dict[str, tuple[float | None, float | None]]:
    """Bounds of parameters by name; None where there is none.

    Raises:
        ValueError: for what is no pair of numbers.
    """
    found: dict[str, tuple[float | None, float | None]] = {}
    for name, text in by_name(typed).items():
        low, sign, high = text.partition(":")
        if not sign:
            raise ValueError(f"bounds of {name} are LOW:HIGH, such as 0.1:10, given '{text}'")
        both = [None if not end.strip() else _finite(name, end) for end in (low, high)]
        found[name] = (both[0], both[1])
    return found


def class_weights_of(typed: list[str]) -> str | dict[str, float]:
    """Weights of classes by label, or "balanced".

    Raises:
        ValueError: for what is neither, and for weights that are not above 0.
    """
    if "balanced" in typed:
        if len(typed) > 1:
            raise ValueError("balanced gives all classes a weight, and stands alone")
        return "balanced"
    found = {name: _finite(name, text) for name, text in by_name(typed).items()}
    for name, weight in found.items():
        if weight <= 0.0:
            raise ValueError(
                f"weights are above 0, that of {name} is {weight:g}; to leave a class out, leave "
                "its rows out of the table"
            )
    return found


def _finite(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{name} takes numbers, given '{text.strip()}'")
    return number


def inducing(default: int, called: str, help: str) -> Setting:
    """The number of inducing points of a family that has no full GP.

    Args:
        default: for which auto stands.
        called: one of the models in words.
        help: of the option.
    """

    def read(typed: str) -> int | str:
        points = points_of(typed)
        if points is None:
            raise ValueError(f"{called} needs inducing points: a number, or auto")
        if points == "enough":
            raise ValueError("enough is for Gaussian processes of one layer: a number, or auto")
        return default if points == "auto" else points

    return Setting("n_inducing", default, Whole(1), Option(*INDUCING, help, read=read))


# Rules by which Gaussians go through functions, beside a number of points or paths.
RULES = ("moments", "linearised")
# Option of the number of inducing points, and its values.
INDUCING = ("--inducing", "N|auto|enough|full")
KERNEL = Setting(
    "kernel",
    "rbf",
    option=Option(
        "--kernel",
        "TEXT",
        'rbf, or such as "rbf + linear" or "matern52[age,bmi] * periodic[0]".',
    ),
)
LIKELIHOOD = Setting(
    "likelihood",
    "gaussian",
    option=Option(
        "--likelihood",
        "NAME",
        "How the target scatters: gaussian, with a level that varies heteroscedastic, with "
        "outliers student_t or laplace; of counts poisson or negative_binomial; above zero gamma "
        "or exponential; between 0 and 1 beta; of classes probit (or bernoulli) or logit.",
    ),
)
OF_CLASSES = LIKELIHOOD.with_default("bernoulli")
POWER = Setting(
    "power",
    0.5,
    option=Option("--power", "NUMBER|auto", "From 0, variational, to 1, EP.", read=number_of),
)
MEAN = Setting(
    "mean",
    "constant",
    Names(MEANS, objects=True),
    Option("--mean", "NAME", "Prior mean: constant, zero or linear."),
)
MAX_ITERATIONS = Setting(
    "max_iterations",
    1000,
    Whole(0),
    Option("--max-iterations", "N", "Of one run, at the most.", "whole"),
)
FIXED = Setting(
    "fixed",
    option=Option(
        "--fix",
        "NAME=VALUE",
        'Keeps a parameter at a value in the units of the data, such as "likelihood.variance=0.1",'
        " or, by its name alone, where it starts; show has the names. Repeatable.",
        "texts",
        read=fixed_of,
    ),
)
BOUNDS = Setting(
    "bounds",
    option=Option(
        "--bound",
        "NAME=LOW:HIGH",
        'Keeps a parameter within bounds, such as "kernel.lengthscale=0.1:10" or "=0.1:". '
        "Repeatable.",
        "texts",
        read=bounds_of,
    ),
)
PRIOR = Setting(
    "prior",
    option=Option(
        "--prior",
        "NAME=PRIOR",
        'Prior of a parameter, such as "kernel.lengthscale=lognormal(1, 0.5)", in place of its '
        "weak one. Repeatable.",
        "texts",
        read=prior_texts,
    ),
)
RESTARTS = Setting(
    "n_restarts",
    0,
    Whole(0),
    Option("--restarts", "N", "Further runs from other starting values.", "whole", 0),
)
METHOD = Option("--method", "NAME", "")
JITTER = Setting("jitter", 1e-8, Number(MOST_JITTER))
# Of the fall of the objective, in nats.
TOLERANCE = Setting("tolerance", 1e-3, Number(math.inf))
STANDARDISE = Setting("standardise", True)
RANDOM_STATE = Setting("random_state")
MISSING = Setting("missing", "error")
# What estimators of one task have alone.
# In files a weight of a class is in those of its rows.
CLASS_WEIGHTS = Setting(
    "class_weights",
    option=Option(
        "--class-weight",
        "LABEL=WEIGHT|balanced",
        "Weight of the rows of a class, beside those of --weight-column; repeatable. balanced: "
        "all classes have the same weight together.",
        "texts",
        read=class_weights_of,
    ),
)
BY_TASK = {
    REGRESSION: (LIKELIHOOD, MISSING),
    CLASSIFICATION: (OF_CLASSES, Setting("class_weight")),
}

# What is said where draws are asked for and not made.
NO_DRAWS = {"--draws": "draws are of Gaussian processes of one layer alone: leave it out"}
