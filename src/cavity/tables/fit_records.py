"""Records of fits in model files of the command line, and their checks."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict, TypeVar

import equinox as eqx
import jax
import numpy as np

from cavity.columns.encoder import Column
from cavity.estimators.registry import CLASSIFICATION
from cavity.learning.data.scales import Tallies
from cavity.learning.double_precision import in_double
from cavity.likelihoods.capabilities import number_of_classes
from cavity.numerics.linalg import MOST_JITTER
from cavity.numerics.tree import named
from cavity.parameters import Interval, Positive, bijections
from cavity.persistence.errors import StorageError
from cavity.persistence.model_file import damaged
from cavity.persistence.typed_values import Large, NotNegative, Share, WrongValue, typed
from cavity.tables.row_times import TimesRecord
from cavity.tables.schema import Schema

P = TypeVar("P")
# Rows at which a prediction is tried: no likely length of another axis, which would hide it.
TRIED = 7
# Numbers as `cavity evaluate` gives them: null for what is not finite.
Measure = float | None


class Ended(TypedDict):
    """Result of any fit."""

    likelihood: str
    kernel: str
    converged: bool
    message: str
    log_evidence: float | None
    iterations: Large
    n_rows: Large


class Marginal(TypedDict):
    """A parameter that was integrated out."""

    lower: float | list[Any]
    median: float | list[Any]
    upper: float | list[Any]


class Trial(TypedDict):
    """A power that was tried."""

    power: Share
    log_evidence: float
    log_density: float
    chosen: bool
    left_out: str


class LayerRecord(TypedDict):
    """A layer of a deep model."""

    width: int
    n_inducing: int
    noise_variance: NotNegative | None


class Summary(TypedDict):
    """The draws of a parameter."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    rhat: Measure
    ess: Measure


class Draws(TypedDict):
    """Record of draws."""

    parameters: list[Summary]
    rhat: Measure
    ess: Measure


class Sites(TypedDict):
    """Record of sites."""

    converged: bool


class TableFit(Ended):
    """Record of the fit of a model of targets."""

    task: Literal["regression", "classification"]
    method: str
    power: Share
    power_table: list[Trial] | None
    verdict: str | None
    n_inducing: int | None
    inducing_kind: str | None
    inputs: list[str]
    targets: list[str]
    classes: list[str] | None
    jitter: Annotated[float, (0.0, MOST_JITTER)]
    sites: Sites
    test: dict[str, Measure | dict[str, dict[str, Measure]]] | None
    layers: NotRequired[list[LayerRecord]]
    mcmc: NotRequired[Draws]
    coupled: NotRequired[bool]
    prior: NotRequired[str]
    hidden: NotRequired[int | list[int]]
    batch: NotRequired[int | None]
    selected: NotRequired[list[str] | dict[str, list[str]]]
    relevance: NotRequired[dict[str, float]]
    integrated: NotRequired[dict[str, Marginal]]
    rows_seen: NotRequired[Large]
    batch_ids: NotRequired[list[str]]
    priors: NotRequired[str]
    constraints: NotRequired[dict[str, str]]
    weights: NotRequired[dict[str, str | dict[str, float]]]


class Counts(TypedDict):
    """Counts and moments of columns; see `cavity.learning.data.scales.Tally`."""

    count: list[NotNegative]
    mean: list[float]
    squares: list[NotNegative]
    largest: list[NotNegative]


class MapFit(Ended):
    """Record of the fit of an embedding."""

    power: Share
    components: int
    n_inducing: int
    columns: list[str]
    constant: list[str]
    missing: Large
    relevance: list[float]
    sites: Sites


class Simulated(TypedDict):
    """Record of forecasts of the last rows of a series; see `FreeSimulation`."""

    rows: int
    lags: int
    crps: list[NotNegative]
    crps_lags: list[NotNegative]
    coverage: list[Share]
    coverage_lags: list[Share]
    widening: list[NotNegative]
    better: str


class SeriesFit(Ended):
    """Record of the fit of a model of time series."""

    power: Share
    states: int
    targets: list[str]
    controls: list[str]
    n_inducing: int
    missing: Large
    method: str
    series: str | None
    series_labels: list[str] | None
    growth: NotNegative
    free_simulation: Simulated | None
    times: NotRequired[TimesRecord | None]


class Memory(TypedDict):
    """Rows that `cavity update` keeps."""

    X: list[list[float]]
    y: list[list[float]]
    side: dict[str, list[float]]
    count: NotNegative
    messages: list[dict[str, Any]]


def numbers(value: Any, name: str, count: int, *, least: float = -np.inf) -> np.ndarray:
    """A list of finite numbers.

    Raises:
        WrongValue: if it is not one of so many that are at least `least`.
    """
    found = np.array(typed(value, list[Annotated[float, (least, np.finfo(float).max)]], name))
    if found.shape != (count,):
        raise WrongValue(f"{name} has {found.size} numbers in the place of {count}")
    return found.astype(float)


def task_of(about: Mapping[str, Any]) -> object:
    """Task of the model in a file, as far as it is given."""
    record = about.get("record")
    return record.get("task") if isinstance(record, Mapping) else None


def check_task(path: str | Path, about: Mapping[str, Any], *tasks: str) -> None:
    """Refuses a file of a model with another task than these.

    Raises:
        StorageError: saying which it has.
    """
    task = task_of(about)
    if task in ("regression", "classification", "embedding", "forecast") and task not in tasks:
        raise StorageError(
            f"{path} holds a model of the task {task}, and one of {' or '.join(tasks)} is read "
            "here; 'cavity show' says more of it"
        )


@contextlib.contextmanager
def described_by(path: str | Path, about: Mapping[str, Any]) -> Iterator[None]:
    """Turns errors in the description of a model into errors about its file.

    Raises:
        StorageError: if the file is not of the command line, or is damaged.
    """
    if not {"schema", "record"} & set(about):
        raise StorageError(
            f"{path} holds a model without the description of its table; this command reads "
            "models that 'cavity fit' or an estimator's `save` wrote"
        )
    try:
        yield
    except KeyError as error:
        raise StorageError(damaged(path, f"its description has no {error}")) from None
    except WrongValue as error:
        raise StorageError(damaged(path, str(error))) from None


def predicted(posterior: Any, X: Any, rows: Mapping[str, Any]) -> Any:
    """Predict rows by the posterior's own `predict`, as most models do."""
    return posterior.predict(X, rows=rows)


@in_double
def check_posterior(
    posterior: object,
    kind: type[P],
    inputs: int,
    tried: Callable[[Any, Any, Mapping[str, Any]], Any] = predicted,
) -> P:
    """The posterior, if it can predict, which is seen without computing.

    Args:
        posterior: of the model.
        kind: of posteriors.
        inputs: of the table.
        tried: what is done with the posterior at inputs and their side data.

    Raises:
        WrongValue: for another kind, numbers that are not finite or outside their domain, and
            arrays that do not go together.
    """
    if not isinstance(posterior, kind):
        raise WrongValue("its model is of another kind than it says")
    checked: Any = posterior
    if checked.n_inputs != inputs:
        raise WrongValue(f"its model has {checked.n_inputs} inputs, its table {inputs}")
    _check_numbers(posterior)
    X = jax.ShapeDtypeStruct((TRIED, inputs), np.float64)
    rows: dict[str, Any] = dict.fromkeys(getattr(posterior, "side", ()), np.ones(TRIED))
    try:
        eqx.filter_eval_shape(lambda model, at: tried(model, at, rows), posterior, X)
    except Exception as error:  # whatever arrays and settings that do not fit lead to
        said = (str(error).splitlines() or ["no reason given"])[0]
        raise WrongValue(f"its parts do not go together ({said[:100]})") from None
    return posterior


def _check_numbers(posterior: Any) -> None:
    leaves, domains = named(posterior), named(bijections(posterior))
    for name, value in leaves.items():
        array = np.asarray(value)
        if array.dtype.kind != "f":
            continue
        if not np.all(np.isfinite(array)):
            raise WrongValue(f"{name} is not finite")
        domain = domains.get(name)
        if not isinstance(domain, Positive | Interval) or not array.size:
            continue
        if np.min(array) < domain.lower or np.max(array) > domain.upper:
            raise WrongValue(f"{name} is outside its domain, {domain}")


def check_names(names: list[str], columns: tuple[Column, ...]) -> None:
    """Lets names pass that are those of columns.

    Raises:
        WrongValue: for others.
    """
    if names != [column.name for column in columns]:
        raise WrongValue("its columns are not those of its table")


def check_tallies(tallies: Tallies | None, columns: int) -> None:
    """Lets counts and moments pass that are of so many columns, and of some outputs.

    Raises:
        WrongValue: for others.
    """
    if tallies is None:
        return
    inputs, outputs = ({np.shape(each) for each in vars(tally).values()} for tally in tallies)
    if inputs != {(columns,)} or len(outputs) > 1:
        raise WrongValue("its tallies are of other columns")


def check_targets_of(posterior: Any, schema: Schema, record: TableFit) -> None:
    """Lets models pass that have the targets of their tables.

    Raises:
        WrongValue: for another number of outputs or classes, and for other names.
    """
    likelihood, targets = posterior.model.likelihood, schema.targets
    classes = targets[0].categories if targets else ()
    if number_of_classes(likelihood) != (len(classes) or 2):
        raise WrongValue("its model has another number of classes than its table")
    several = likelihood.latents > 1
    check_names(record["targets"], targets)
    check_names(record["inputs"], schema.inputs)
    if not targets or (record["classes"] or []) != list(classes):
        raise WrongValue("its classes are not those of its table")
    if (record["task"] == CLASSIFICATION) != bool(classes) or len(set(classes)) < len(classes):
        raise WrongValue("its task is not that of its table")
    single = posterior.single and not several
    if posterior.outputs != (likelihood.latents if several else len(targets)) or (
        single and len(targets) > 1
    ):
        raise WrongValue("its model has another number of outputs than its table")
    sides = {"noise_variance": schema.noise_column, "exposure": schema.exposure_column}
    if {name for name, column in sides.items() if column is not None} != set(posterior.side):
        raise WrongValue("its model has other side data than its table")
    if record["log_evidence"] is None and "mcmc" not in record:
        raise WrongValue("it has no log evidence, which only draws have not")
    _check_views(posterior)


def _check_views(posterior: Any) -> None:
    """Lets posteriors pass whose functions are those of their model."""

    def is_view(node: object) -> bool:
        parts = (getattr(node, name, None) for name in ("kernel", "mean", "inducing"))
        return all(part is not None for part in parts)

    model, process = posterior.model, getattr(posterior, "process", None)
    if process is None or getattr(model, "inducing", None) is None:
        return
    views = [v for v in jax.tree.leaves(process, is_leaf=is_view) if is_view(v)]
    latents = [(f.kernel, f.mean, f.inducing) for f in model.latents]
    known = [_shapes(parts) for parts in latents]
    if any(_shapes((v.kernel, v.mean.mean, v.inducing)) not in known for v in views):
        raise WrongValue("its functions are not those of its model")
    outputs = posterior.outputs if posterior.model.likelihood.latents == 1 else 1
    if any(view.mean.outputs != outputs for view in views):
        raise WrongValue("its functions have another number of outputs than its model")


def _shapes(tree: Any) -> tuple[Any, ...]:
    """Shapes and structure of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    return (*map(np.shape, leaves), structure)
