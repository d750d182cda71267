"""From an estimator's settings and data to a model with starting values."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from cavity.inducing.base import AbstractInducing, Points
from cavity.inference.methods import PowerEP
from cavity.kernels.base import AbstractKernel
from cavity.kernels.formula import parse
from cavity.learning.inducing_points import CHOICES, select_inducing
from cavity.learning.initialise import screen, starting_kernel
from cavity.learning.scales import Scales, in_data_units, measure
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import AbstractMean, Constant, Linear, Zero
from cavity.models.gp import GP
from cavity.parameters import FIXED, Bijection, bijections

FULL_ROWS = 1_000  # "auto" is the full GP up to here
AUTO_INDUCING = 200
MOST_FULL_ROWS = 20_000

LIKELIHOODS = {"gaussian": Gaussian}
METHODS = {"power_ep": PowerEP}
MEANS = ("zero", "constant", "linear")


@dataclasses.dataclass(frozen=True)
class Settings:
    """What an estimator was asked for; see `GPRegressor` for the meaning of each."""

    kernel: Any
    likelihood: Any
    mean: Any
    n_inducing: Any
    inducing: Any
    learn_inducing: bool
    block_size: int | None
    standardise: bool
    seed: int
    names: tuple[str, ...] | None = None


def one_of(name: str, value: str, known: Any) -> str:
    """The value, if it is a known one.

    Raises:
        ValueError: naming the known values.
    """
    if value not in known:
        raise ValueError(f"{name} must be one of {sorted(known)}, given {value!r}")
    return value


def whole(name: str, value: Any, least: int, otherwise: str = "") -> int:
    """The value as an int, if it is a whole number that is large enough.

    Raises:
        ValueError: saying what is wanted (or `otherwise`), and what was given.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        wanted = f"{otherwise}a whole number of at least {least}"
        raise ValueError(f"{name} must be {wanted}, given {value!r}")
    return int(value)


def build_method(method: Any) -> PowerEP:
    """An inference method from its name, or itself.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(method, PowerEP):
        return method
    return METHODS[one_of("method", method, METHODS)]()


def build(
    settings: Settings, X: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None
) -> tuple[list[GP], Any]:
    """Models with starting values, the likeliest first, and the bijections to learn them in.

    Args:
        settings: what was asked for.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        noise: known noise variance of each row, (N,).

    Raises:
        ValueError: for unknown names or impossible numbers, before any work.
    """
    kernel, likelihood = _kernel(settings, X.shape[1]), _likelihood(settings)
    model = GP(kernel, likelihood, None, _mean(settings, X, y.shape[1]))
    given, count = _check_inducing(settings, *X.shape)
    points = count if given is None else given.size
    starts = [model]
    if settings.standardise:
        starts = _started(settings, model, X, y, noise, points)
    learned = settings.learn_inducing
    if count is not None:
        distinct = len(np.unique(X, axis=0))
        learned = learned and count < distinct
        choice: Any = {"choice": settings.inducing, "seed": settings.seed}
        sets = [select_inducing(m.kernel, X, count, **choice) for m in starts]
        starts = [_with_inducing(m, Points(Z)) for m, Z in zip(starts, sets, strict=True)]
    elif given is not None:
        starts = [_with_inducing(m, given) for m in starts]
    maps = bijections(starts[0])
    if points is not None and not learned:
        maps = eqx.tree_at(lambda m: m.inducing, maps, _frozen(maps.inducing))
    return starts, maps


def _with_inducing(model: GP, inducing: AbstractInducing) -> GP:
    return eqx.tree_at(lambda m: m.inducing, model, inducing, is_leaf=lambda x: x is None)


def _started(
    settings: Settings,
    model: GP,
    X: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray | None,
    points: int | None,
) -> list[GP]:
    """The model with starting values from the data for all that was asked for by name.

    Sparse models get others to try beside the best: the typical lengthscale with much and with
    little noise. A full GP is dearer to try, and needs it less.
    """
    present = ~np.isnan(y)
    scales = measure(X, np.where(present, y, 0.0), present.astype(float))
    model = _centred(settings, model, scales)
    given = isinstance(settings.likelihood, AbstractLikelihood)
    if not given:
        likelihood = in_data_units(model.likelihood, scales)
        model = eqx.tree_at(lambda m: m.likelihood, model, likelihood)
    if isinstance(settings.kernel, AbstractKernel):
        return [model]
    model = eqx.tree_at(lambda m: m.kernel, model, starting_kernel(model.kernel, scales))
    if not isinstance(model.likelihood, Gaussian):
        return [model]
    known = model.likelihood.variance if noise is None and given else noise
    level = None if known is None else float(np.mean(known))
    found = screen(model, X, y, points=points, noise=level, seed=settings.seed)
    if points is None:
        return [found]
    if known is not None:
        return [found, model]
    quiet = eqx.tree_at(lambda m: m.likelihood.variance, model, model.likelihood.variance / 10)
    return [found, model, quiet]


def _frozen(maps: Any) -> Any:
    return jax.tree.map(lambda _: FIXED, maps, is_leaf=lambda b: isinstance(b, Bijection))


def _kernel(settings: Settings, n_inputs: int) -> AbstractKernel:
    if isinstance(settings.kernel, AbstractKernel):
        return settings.kernel
    if not isinstance(settings.kernel, str):
        raise ValueError(
            "kernel must be text such as 'rbf + linear', or a kernel such as "
            f"cavity.kernels.RBF(), given {settings.kernel!r}"
        )
    return parse(settings.kernel, n_inputs, settings.names)


def _likelihood(settings: Settings) -> AbstractLikelihood:
    if isinstance(settings.likelihood, AbstractLikelihood):
        return settings.likelihood
    return LIKELIHOODS[one_of("likelihood", settings.likelihood, LIKELIHOODS)]()


def _mean(settings: Settings, X: np.ndarray, outputs: int) -> AbstractMean:
    if isinstance(settings.mean, AbstractMean):
        return settings.mean
    kind = one_of("mean", settings.mean, MEANS)
    if kind == "zero":
        return Zero()
    if kind == "constant":
        return Constant(np.zeros(outputs) if outputs > 1 else 0.0)
    shape = X.shape[1:] if outputs == 1 else (X.shape[1], outputs)
    centre = X.mean(axis=0) if settings.standardise else np.zeros(X.shape[1])
    return Linear(np.zeros(shape), np.zeros(outputs if outputs > 1 else ()), centre)


def _centred(settings: Settings, model: GP, scales: Scales) -> GP:
    """The model with its mean started at the means of the outputs, unless it was given."""
    mean = model.mean
    if isinstance(settings.mean, AbstractMean) or isinstance(mean, Zero):
        return model
    height = scales.y_centre if len(scales.y_centre) > 1 else scales.y_centre[0]
    where = (lambda m: m.mean.value) if isinstance(mean, Constant) else (lambda m: m.mean.bias)
    return eqx.tree_at(where, model, np.asarray(height))


def _check_inducing(
    settings: Settings, rows: int, columns: int
) -> tuple[AbstractInducing | None, int | None]:
    """The inducing variables where they were given, or how many to choose; both None: full GP."""
    given, wanted = settings.inducing, settings.n_inducing
    if isinstance(given, AbstractInducing):
        return given, None
    if not isinstance(given, str):
        return Points(_points(given, columns)), None
    one_of("inducing", given, CHOICES)
    if isinstance(wanted, str):
        one_of("n_inducing", wanted, ("auto",))
        wanted = None if rows <= FULL_ROWS else AUTO_INDUCING
    if wanted is not None:
        return None, whole("n_inducing", wanted, 1, '"auto", None (the full GP) or ')
    if settings.block_size is not None:
        raise ValueError(
            "block_size changes nothing in a full GP, which is exact: set n_inducing to a "
            "number, or leave block_size=None"
        )
    if rows > MOST_FULL_ROWS:
        raise ValueError(
            f"a full GP on {rows} rows needs about {10 * rows**2 * 8e-9:.0f} GB of memory (the "
            f"limit is {MOST_FULL_ROWS} rows): set n_inducing to a number such as 500"
        )
    return None, None


def _points(given: Any, columns: int) -> Any:
    try:
        Z: Any = np.array(given, dtype=float)
    except (TypeError, ValueError):
        Z = np.zeros(0)
    if Z.ndim != 2 or Z.shape[1] != columns or not len(Z) or not np.all(np.isfinite(Z)):
        raise ValueError(
            f"inducing must be one of {CHOICES}, or finite points of shape (M, {columns}), given "
            f"{given!r}"
        )
    return Z
