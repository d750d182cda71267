"""From an estimator's settings and data to models with starting values."""

import dataclasses
from collections.abc import Mapping
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np

from cavity import likelihoods
from cavity.estimators.asked_constraints import constraints, fixed_in_kernel
from cavity.estimators.asked_settings import (
    Settings,
    check_growth,
    check_power,
    is_auto,
    is_enough,
    most_variables,
)
from cavity.estimators.prior_means import prior_mean
from cavity.estimators.registry import (
    Method,
    allows,
    as_asked,
    build_likelihood,
    build_method,
    suited,
    suits,
    task_of,
)
from cavity.families.values import one_of, whole
from cavity.inducing.base import AbstractInducing, Points
from cavity.inference.graph.rows import WEIGHT
from cavity.kernels.base import AbstractKernel
from cavity.kernels.random_fourier import feature_count
from cavity.kernels.text_form import Written, written
from cavity.learning.data.arrays import prepare
from cavity.learning.data.row_weights import WeightedTable, weights_of
from cavity.learning.data.validation import check_outputs
from cavity.learning.initialisation.inducing_kinds import KINDS, initial_inducing
from cavity.learning.initialisation.inducing_points import CHOICES
from cavity.learning.initialisation.models import Given, started
from cavity.learning.mcmc.kernels import blackjax
from cavity.learning.plans.growth import FIRST
from cavity.likelihoods.base import AbstractLikelihood
from cavity.likelihoods.capabilities import GaussianInLatent, capability, number_of_classes
from cavity.likelihoods.support import Support
from cavity.means import AbstractMean, BayesianLinear, Constant, Zero
from cavity.models.gp import GP
from cavity.numerics.tree import named
from cavity.parameters import FIXED, Bijection

FULL_ROWS = 1_000  # "auto" is the full GP up to here
AUTO_INDUCING = 200
MOST_FULL_ROWS = 20_000

Tree = TypeVar("Tree")


def check(
    settings: Settings, X: np.ndarray, y: np.ndarray, side: Mapping[str, np.ndarray]
) -> AbstractLikelihood:
    """Refuses impossible data and settings before any work; gives the likelihood.

    Raises:
        ValueError: saying what is wanted, and what was given.
    """
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    check_side(side, likelihood, settings.likelihood)
    check_power(settings)
    power, missing = settings.fixed_power, settings.missing
    data = prepare(X, y, power=power, rows=dict(side), missing=missing)
    check_outputs(likelihood, data)
    outputs = data.rows.y.shape[-1]
    if likelihood.latents > 1 and outputs > 1:
        raise ValueError(
            f"the likelihood {as_asked(settings.likelihood)} takes one output, y has "
            f"{outputs}: fit each one alone"
        )
    _check_method(settings, likelihood)
    if outputs > 1 and build_method(settings.method).samples:
        raise ValueError(
            f"the method 'mcmc' takes one output, y has {outputs}: fit each one alone"
        )
    check_growth(settings, likelihood)
    if settings.block_size is not None:
        whole("block_size", settings.block_size, 1, "None or ")
        if capability(likelihood, GaussianInLatent) is None:
            raise ValueError(
                "block_size is for Gaussian noise: with any other likelihood the term of a block "
                "is an integral over all its rows; leave block_size=None"
            )
    return likelihood


def check_side(
    side: Mapping[str, np.ndarray], likelihood: AbstractLikelihood, asked: object
) -> None:
    """Refuses side data that a likelihood, which was asked for like this, does not read."""
    for name in set(side) - {*likelihood.side, WEIGHT}:
        read = likelihood.side
        reads = f"reads {' and '.join(read)} only" if read else "reads no side data"
        raise ValueError(
            f"{name} was given, but the likelihood {as_asked(asked)} {reads}; leave "
            f"{name}=None, or choose a likelihood that has it"
        )


def _check_method(settings: Settings, likelihood: AbstractLikelihood) -> None:
    """Refuses a method that does not go with the likelihood or with the other settings."""
    method, n_inducing = settings.method, settings.n_inducing
    chosen = build_method(method)
    _check_suits(chosen, likelihood)
    if chosen.samples:
        blackjax()
    name = as_asked(method)
    chooses = settings.starts_by_name
    if chooses and n_inducing is None and not allows(chosen, likelihood, sparse=False):
        raise ValueError(
            f"the method {name} gives all rows one site on the inducing points, and "
            'n_inducing=None is the full GP: leave n_inducing="auto", or set a number'
        )
    if (settings.counts_points or not chooses) and not allows(chosen, likelihood, sparse=True):
        raise ValueError(
            f"the method {name} is for the full GP with this likelihood: leave n_inducing and "
            "inducing as they are"
        )
    if settings.block_size is not None and not allows(
        chosen, likelihood, sparse=True, blocked=True
    ):
        raise ValueError(f"the method {name} takes no blocks of rows: leave block_size=None")
    if chosen.tied and not is_auto(settings.power) and np.ndim(np.asarray(settings.power)):
        raise ValueError(f"the method {name} has one power for all rows: give one number")


def _check_suits(method: Method, likelihood: AbstractLikelihood) -> None:
    """Refuses a method that the likelihood does not suit, naming those that would."""
    task, classes = task_of(likelihood), number_of_classes(likelihood)
    try:
        method.check(likelihood)
    except ValueError as error:
        names = suited(method, task, classes)
        if suits(type(method)(), likelihood) or not names:
            raise  # another setting of the method is in the way
        listed = ", ".join(f'"{name}"' for name in names)
        remedy = f"likelihood={listed}" if len(names) == 1 else f"one of the likelihoods {listed}"
        raise ValueError(f"{error}, or {remedy}") from None


def automatic_inducing(method: Method, likelihood: AbstractLikelihood, rows: int) -> int | None:
    """Number of inducing points that "auto" stands for; None for the full GP.

    Raises:
        ValueError: for draws from so many rows that they would take days.
    """
    if not allows(method, likelihood, sparse=False):
        return AUTO_INDUCING
    if allows(method, likelihood, sparse=True):
        return AUTO_INDUCING if rows > FULL_ROWS else None
    if method.samples and rows > FULL_ROWS:
        raise ValueError(
            f"the method 'mcmc' draws from a full GP, and {rows} rows would take it many hours "
            f"(the limit is {FULL_ROWS}): use another method, or ask for the full GP "
            "(n_inducing=None, --inducing full) to wait for it"
        )
    return None


def check_full_rows(rows: int) -> None:
    """Refuses a full GP on more rows than fit into memory."""
    if rows > MOST_FULL_ROWS:
        raise ValueError(
            f"a full GP on {rows} rows needs about {10 * rows**2 * 8e-9:.0f} GB of memory (the "
            f"limit is {MOST_FULL_ROWS} rows): set n_inducing to a number such as 500 (on the "
            "command line --inducing 500)"
        )


def build(
    settings: Settings,
    X: np.ndarray,
    y: np.ndarray,
    side: Mapping[str, np.ndarray],
    *,
    learn_mean: bool = False,
) -> tuple[list[GP], GP]:
    """Models with starting values, the likeliest first, and the bijections to learn them in.

    Args:
        settings: what was asked for.
        X: inputs, (N, D).
        y: outputs, (N, P), NaN where missing.
        side: side data by name, (N,) each.
        learn_mean: whether weights of a linear mean are learned and not integrated out.

    Raises:
        ValueError: for unknown names or impossible numbers, before any work.
    """
    kernel, given_values, held = _kernel(settings, X.shape[1])
    likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
    given, count = _check_inducing(settings, *X.shape)
    # few inducing points would have to carry the weights too
    full = given is None and count is None and feature_count(kernel) is None
    mean = prior_mean(
        settings.mean,
        X,
        y.shape[1],
        weights_of(side),
        standardise=bool(settings.standardise),
        integrated=full and not (learn_mean or build_method(settings.method).samples),
    )
    model = _laid_out(kernel, likelihood, mean)
    said = constraints(settings.fixed, settings.bounds, settings.priors, model, held)
    points = count if given is None else given.size
    values = {name: named(kernel)[name] for name in given_values}
    values |= fixed_in_kernel(model, said)
    known = dataclasses.replace(parts_given(settings), values=values)
    starts = [model]
    if settings.standardise:
        table = WeightedTable(X, y, side)
        starts = started(model, known, table, points=points, seed=settings.seed)
    learned = bool(settings.variables.learn)
    if count is not None:
        learned = learned and count < len(np.unique(X, axis=0))
        starts = [_with_inducing(m, _chosen(settings, m, X, count)) for m in starts]
    elif given is not None:
        starts = [_with_inducing(m, given) for m in starts]
    starts = [said.started(each, known.names(each)) for each in starts]
    maps = said.maps(starts[0], None)
    if points is not None and not learned:
        maps = eqx.tree_at(lambda m: m.inducing, maps, _frozen(maps.inducing))
    return starts, maps


def _chosen(settings: Settings, model: GP, X: np.ndarray, count: int) -> AbstractInducing:
    """So many inducing variables, at points chosen among the inputs."""
    asked = settings.variables
    kind = one_of("the kind of inducing variables", asked.kind, KINDS)
    choice = one_of("inducing", asked.start, CHOICES)
    kernel = model.latents[0].kernel
    return initial_inducing(kernel, X, count, kind=kind, choice=choice, seed=settings.seed)


def parts_given(settings: Settings) -> Given:
    """Parts of the model that were given as objects, whose values stay as they are."""
    return Given(
        kernel=isinstance(settings.kernel, AbstractKernel),
        likelihood=not isinstance(settings.likelihood, str),
        mean=isinstance(settings.mean, AbstractMean),
    )


def check_held(likelihood: AbstractLikelihood) -> None:
    """Raises ValueError for a likelihood with parameters that are integrated out."""
    if likelihood.shared_priors:
        raise ValueError(
            "estimators learn the parameters of a likelihood: give it itself, not Integrated; "
            "cavity.fit integrates parameters whose bijection is INTEGRATED"
        )


def _laid_out(kernel: AbstractKernel, likelihood: AbstractLikelihood, mean: AbstractMean) -> GP:
    """The model: latent functions beside the first have its kernel and a constant mean.

    The functions of classes share a kernel and have a mean each.
    """
    check_held(likelihood)
    if likelihood.latents == 1:
        return GP(kernel, likelihood, None, mean)
    if likelihood.support is Support.LABELS:
        alike = isinstance(mean, Zero | BayesianLinear)
        each = mean if alike else (mean,) * number_of_classes(likelihood)
        return GP(kernel, likelihood, None, each)
    noise = float(likelihoods.Gaussian().variance)
    beside = (Constant(latent.prior_mean(noise)) for latent in likelihood.latent_functions[1:])
    return GP((kernel,) * likelihood.latents, likelihood, None, (mean, *beside))


def _with_inducing(model: GP, inducing: AbstractInducing) -> GP:
    return eqx.tree_at(lambda m: m.inducing, model, inducing, is_leaf=lambda x: x is None)


def _frozen(maps: Tree) -> Tree:
    return jax.tree.map(lambda _: FIXED, maps, is_leaf=lambda b: isinstance(b, Bijection))


def _kernel(settings: Settings, n_inputs: int) -> Written:
    return written(settings.kernel, n_inputs, settings.names, settings.feature_groups)


def _check_inducing(
    settings: Settings, rows: int, columns: int
) -> tuple[AbstractInducing | None, int | None]:
    """The inducing variables where they were given, or how many to choose; both None: full GP."""
    asked, wanted = settings.variables, settings.n_inducing
    given, kind = asked.start, one_of("the kind of inducing variables", asked.kind, KINDS)
    if kind != "points" and not (settings.starts_by_name and settings.counts_points):
        raise ValueError(
            f"kind={kind!r} of Inducing says what stands at points that are chosen: set "
            "n_inducing to a number, and let these start by greedy, kmeans or random (on the "
            "command line --inducing 200)"
        )
    if isinstance(given, AbstractInducing):
        return given, None
    if not settings.starts_by_name:
        return Points(_points(given, columns)), None
    one_of("inducing", given, CHOICES)
    explicit = feature_count(_kernel(settings, columns).kernel) is not None
    if explicit and not settings.counts_points:  # the full GP at the cost of the features
        return None, None
    if wanted is not None and not settings.counts_points:
        one_of("n_inducing", wanted, ("auto", "enough"))
        likelihood = build_likelihood(settings.likelihood, settings.task, settings.classes)
        found = automatic_inducing(build_method(settings.method), likelihood, rows)
        most = most_variables(asked)
        wanted = min(FIRST, most) if found and is_enough(wanted) else found
    if wanted is not None:
        return None, whole("n_inducing", wanted, 1, '"auto", "enough", None (the full GP) or ')
    if settings.block_size is not None:
        raise ValueError(
            "block_size changes nothing in a full GP, which is exact: set n_inducing to a "
            "number, or leave block_size=None"
        )
    check_full_rows(rows)
    return None, None


def inducing_count(settings: Settings, rows: int, columns: int) -> int | None:
    """Number of inducing points; None for the full GP."""
    inducing, count = _check_inducing(settings, rows, columns)
    if inducing is not None:
        return inducing.size
    return None if count is None else min(count, rows)


def _points(given: object, columns: int) -> np.ndarray:
    try:
        Z: np.ndarray = np.array(given, dtype=float)
    except (TypeError, ValueError):
        Z = np.zeros(0)
    if Z.ndim != 2 or Z.shape[1] != columns or not len(Z) or not np.all(np.isfinite(Z)):
        raise ValueError(
            f"inducing must be one of {CHOICES}, or finite points of shape (M, {columns}), given "
            f"{given!r}"
        )
    return Z
