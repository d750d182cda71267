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
from cavity.learning.initialise import screen, starting_model
from cavity.learning.scales import Scales, measure
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.gaussian import Gaussian
from cavity.means import AbstractMean, Constant, Linear, Zero
from cavity.models.gp import GP
from cavity.numerics.parameters import FIXED, Real, bijections

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


def build_method(method: Any) -> PowerEP:
    """An inference method from its name, or itself.

    Raises:
        ValueError: for an unknown name.
    """
    if isinstance(method, PowerEP):
        return method
    return METHODS[one_of("method", method, METHODS)]()


def build(settings: Settings, X: np.ndarray, y: np.ndarray) -> tuple[GP, Any]:
    """A model with starting values, and the bijections to learn it in.

    Args:
        settings: what was asked for.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.

    Raises:
        ValueError: for unknown names or impossible numbers.
    """
    present = ~np.isnan(y)
    scales = measure(X, np.where(present, y, 0.0), present.astype(float))
    kernel, named = _kernel(settings, X.shape[1])
    model = GP(kernel, _likelihood(settings), None, _mean(settings, X, y.shape[1]))
    if settings.standardise and named:
        model = starting_model(model, scales)
        model = screen(_centred(model, scales), X, y, seed=settings.seed)
    elif settings.standardise:
        model = _centred(model, scales)
    inducing, learned = _inducing(settings, model, X)
    model = eqx.tree_at(lambda m: m.inducing, model, inducing, is_leaf=lambda x: x is None)
    maps = bijections(model)
    if inducing is not None and not learned:
        fixed = jax.tree.map(lambda _: FIXED, maps.inducing, is_leaf=lambda b: isinstance(b, Real))
        maps = eqx.tree_at(lambda m: m.inducing, maps, fixed)
    return model, maps


def _kernel(settings: Settings, n_inputs: int) -> tuple[AbstractKernel, bool]:
    """The kernel, and whether it was given as text (and so has no values of its own)."""
    if isinstance(settings.kernel, AbstractKernel):
        return settings.kernel, False
    if not isinstance(settings.kernel, str):
        raise ValueError(
            f"kernel must be text such as 'rbf + linear' or a kernel, given {settings.kernel!r}"
        )
    return parse(settings.kernel, n_inputs, settings.names), True


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
    shape = (X.shape[1], outputs) if outputs > 1 else (X.shape[1],)
    centre = X.mean(axis=0) if settings.standardise else np.zeros(X.shape[1])
    return Linear(np.zeros(shape), np.zeros(shape[1:]), centre)


def _centred(model: GP, scales: Scales) -> GP:
    """The model with its mean started at the mean of the outputs."""
    if isinstance(model.mean, Constant):
        start = np.broadcast_to(scales.y_centre, model.mean.value.shape or (1,))
        value = start.reshape(model.mean.value.shape) if start.size == model.mean.value.size else 0
        return eqx.tree_at(lambda m: m.mean.value, model, np.asarray(value, float))
    if isinstance(model.mean, Linear) and np.size(model.mean.bias) == len(scales.y_centre):
        bias = scales.y_centre.reshape(np.shape(model.mean.bias))
        return eqx.tree_at(lambda m: m.mean.bias, model, bias)
    return model


def _inducing(
    settings: Settings, model: GP, X: np.ndarray
) -> tuple[AbstractInducing | None, bool]:
    """The inducing variables (None: full GP), and whether they are learned."""
    given, wanted = settings.inducing, settings.n_inducing
    if isinstance(given, AbstractInducing):
        return given, settings.learn_inducing
    if not isinstance(given, str):
        Z = np.array(given, dtype=float)
        if Z.ndim != 2 or Z.shape[1] != X.shape[1] or not np.all(np.isfinite(Z)):
            raise ValueError(
                f"inducing points must be finite, of shape (M, {X.shape[1]}), given {Z.shape}"
            )
        return Points(Z), settings.learn_inducing
    one_of("inducing", given, CHOICES)
    if isinstance(wanted, str):
        one_of("n_inducing", wanted, ("auto",))
        wanted = None if len(X) <= FULL_ROWS else AUTO_INDUCING
    if wanted is None:
        if len(X) > MOST_FULL_ROWS:
            gigabytes = 10 * len(X) ** 2 * 8e-9
            raise ValueError(
                f"a full GP on {len(X)} rows needs about {gigabytes:.0f} GB of memory (the limit "
                f"is {MOST_FULL_ROWS} rows); set n_inducing to a number such as 500"
            )
        return None, False
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or wanted < 1:
        raise ValueError(
            f'n_inducing must be "auto", None or a whole number of at least 1, given {wanted!r}'
        )
    Z = select_inducing(model.kernel, X, int(wanted), choice=given, seed=settings.seed)
    everything = len(Z) <= int(wanted) and len(Z) == len(np.unique(X, axis=0))
    return Points(Z), settings.learn_inducing and not everything
