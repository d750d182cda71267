"""Records of fits of functions of rows: what model files and `cavity fit --json` say of them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from cavity.estimators.asked_constraints import by_name
from cavity.estimators.asked_types import KernelAsked
from cavity.estimators.layers import layers_of
from cavity.estimators.registry import (
    LIKELIHOODS,
    METHODS,
    name_for_classes,
    named_likelihood,
)
from cavity.families.base import Family
from cavity.families.images import patches_of
from cavity.kernels.text_form import Written, read
from cavity.kernels.text_writing import text
from cavity.learning.initialisation.asked_inducing import asked_inducing
from cavity.learning.initialisation.models import first_kernel
from cavity.models.base import AbstractModel
from cavity.models.integrated_parameters import ParameterMarginal, integrated_parameters
from cavity.models.mean_function import with_found_mean
from cavity.persistence.errors import StorageError
from cavity.tables.coefficients import model_coefficients, says_little, selected_columns
from cavity.tables.parameters import diagnostics, parameters
from cavity.tables.schema import Schema
from cavity.tables.table_model import TableModel

if TYPE_CHECKING:
    from cavity.estimators.base import AbstractEstimator, AbstractPredictor
    from cavity.estimators.classifier import GPClassifier
    from cavity.estimators.deep import DeepGPClassifier, DeepGPRegressor
    from cavity.estimators.images import ConvGPClassifier
    from cavity.estimators.linear import LinearClassifier, LinearRegressor
    from cavity.estimators.network import NetworkClassifier, NetworkRegressor
    from cavity.estimators.regressor import GPRegressor

    OfGP = GPRegressor | GPClassifier
    OfLayers = DeepGPRegressor | DeepGPClassifier
    OfWeights = LinearRegressor | LinearClassifier
    OfNetwork = NetworkRegressor | NetworkClassifier
else:
    AbstractEstimator = AbstractPredictor = Any
    OfGP = OfLayers = OfWeights = OfNetwork = GPClassifier = ConvGPClassifier = Any


def learning_record(estimator: AbstractEstimator) -> dict[str, Any]:
    """Entries of a record on how learning and inference ended, as JSON values."""
    return {
        "converged": bool(estimator.converged_),
        "message": estimator.message_,
        "log_evidence": estimator.log_evidence_,
        "iterations": int(estimator.n_iter_),
        "evaluations": int(estimator.n_evaluations_),
        "jitter": float(estimator.jitter_),
        "sites": dataclasses.asdict(estimator.sites_),
    }


def rows_record(
    estimator: AbstractPredictor, family: Family, task: str, schema: Schema
) -> dict[str, Any]:
    """Entries of the record of a fit of rows that all families have, as JSON values.

    Args:
        estimator: fitted.
        family: that it is of.
        task: "regression" or "classification".
        schema: what the columns are.

    Raises:
        StorageError: for a power for each row, which has no place in a file.
    """
    asked = estimator.get_params(deep=False)
    posterior, scale = estimator.posterior_, estimator.output_scale_
    points, power = points_in(estimator), asked["power"]
    if np.ndim(power):
        raise StorageError(
            "files and pages are of fits with one power, and this one had one for each row: fit "
            "with a number"
        )
    record: dict[str, Any] = {
        "model": None,
        "task": task,
        "likelihood": likelihood_word(asked["likelihood"], len(schema.targets[0].categories)),
        "kernel": family.name,
        "method": method_word(asked.get("method", "power_ep")),
        "power": power,
        "power_table": None,
        "bracket": None,
        "verdict": None,
        "n_inducing": points,
        "inducing_kind": None if points is None else asked_inducing(asked.get("inducing")).kind,
        "n_rows": int(estimator.n_rows_),
        "inputs": [column.name for column in schema.inputs],
        "targets": [column.name for column in schema.targets],
        "classes": list(schema.targets[0].categories) or None,
        **learning_record(estimator),
        "parameters": parameters(
            with_found_mean(posterior), scale, known_noise=posterior.known_noise
        ),
        "test": None,
    }
    record |= _noticed(estimator, schema)
    if estimator.chains_ is not None:
        record["mcmc"] = diagnostics(estimator.chains_, posterior.model, scale)
    if schema.dates:
        record["dates"] = {name: dates.since for name, dates in schema.dates.items()}
    return record


def points_in(estimator: AbstractEstimator) -> int | None:
    """The number of inducing points, of the first part where there are several; None for none."""
    inducing = vars(estimator).get("inducing_")
    first = inducing[0] if isinstance(inducing, tuple) else inducing
    return None if first is None else first.size


def _noticed(estimator: AbstractEstimator, schema: Schema) -> dict[str, Any]:
    """Parameters of which the data say too little, where there are some, as JSON values."""
    record: dict[str, Any] = {}
    if estimator.undetermined_:
        record["undetermined"] = list(estimator.undetermined_)
    if estimator.at_bounds_:
        record["at_bounds"] = [dataclasses.asdict(bound) for bound in estimator.at_bounds_]
    if estimator.unseen_periods_:
        record["unseen_periods"] = [
            dataclasses.asdict(unseen) | {"column": schema.features[unseen.column]}
            for unseen in estimator.unseen_periods_
        ]
    return record


# --------------------------------------------------------------------------------- in words


def method_word(method: object) -> str:
    """The name of a method, or of an object of one."""
    return _word(method, {build: name for name, build in METHODS.items()})


def _word(value: object, known: Mapping[Any, str]) -> str:
    """A name as it is, or that of the class of an object, which may have a known one."""
    return value if isinstance(value, str) else known.get(type(value), type(value).__name__)


def likelihood_word(likelihood: object, classes: int) -> str:
    """The name of a likelihood of so many classes, or of an object of one."""
    each = (name for name in LIKELIHOODS if name_for_classes(name, classes) == name)
    kinds = {type(named_likelihood(name, max(classes, 2))): name for name in each}
    word = _word(likelihood, kinds)
    return name_for_classes(word, classes) if word in LIKELIHOODS else word


def written_kernel(kernel: str, schema: Schema) -> Written:
    """The kernel of a text for the inputs of a table.

    Raises:
        ValueError: for a text that cannot be read.
    """
    encoder = schema.encoder
    features = encoder.features
    return read(encoder.with_features(kernel), len(features), features, encoder.groups)


def kernel_word(kernel: KernelAsked, schema: Schema) -> str:
    """A kernel by names of columns."""
    if isinstance(kernel, str):
        return text(written_kernel(kernel, schema).kernel, schema.features, values=False)
    return kernel_in_words(kernel, schema.features)


def kernel_in_words(kernel: KernelAsked, names: Sequence[str] | None = None) -> str:
    """A kernel as text, or the name of its class where it has none.

    Args:
        kernel: text, a kernel, or several.
        names: of the columns.
    """
    if isinstance(kernel, str):
        return kernel
    if isinstance(kernel, tuple):
        return ", ".join(kernel_in_words(each, names) for each in kernel)
    try:
        return text(kernel, names, values=False)
    except ValueError:
        return type(kernel).__name__


# ------------------------------------------------------------------ what a family has alone


def gp_record(estimator: OfGP, fitted: TableModel) -> dict[str, Any]:
    """Kernel, power and points as they were chosen, and the form of classes."""
    table, found = estimator.power_table_, estimator.bracket_
    asked = estimator.priors
    bounds = None
    if found is not None:
        bounds = {"lower": found.lower, "upper": found.upper}
        bounds |= {"per_row": found.per_row, "proved": found.proved}
    record: dict[str, Any] = {
        "kernel": kernel_word(estimator.kernel, fitted.schema),
        "priors": "weak" if by_name(asked) is not None else asked or "none",
        "power": float(estimator.power_),
        "power_table": None if table is None else [trial._asdict() for trial in table],
        "bracket": bounds,
        "verdict": estimator.verdict_ or None,
    }
    held = _held(estimator, fitted.schema)
    record |= constraints_record(estimator.fixed, estimator.bounds, asked, held)
    return record | (class_form(cast(GPClassifier, estimator)) if fitted.classes else {})


def constraints_record(
    fixed: object, bounds: object, priors: object = None, held: Sequence[str] = ()
) -> dict[str, dict[str, str]]:
    """Constraints of single parameters, in words by dotted name; nothing where there are none.

    Args:
        fixed: as the estimator has it.
        bounds: as the estimator has them.
        priors: as the estimator has them.
        held: names of parameters that the text of a kernel holds.
    """
    values, ends, known = (by_name(asked) or {} for asked in (fixed, bounds, priors))
    found = dict.fromkeys(held, "fixed")
    for name, value in values.items():
        found[name] = "fixed" if value is None else f"fixed at {_listed(value)}"
    for name, (low, high) in ends.items():
        words = [] if low is None else [f"above {low:g}"]
        found[name] = " and ".join(words if high is None else [*words, f"below {high:g}"])
    for name, prior in known.items():
        found[name] = "; ".join([*filter(None, [found.get(name)]), f"prior {prior}"])
    return {"constraints": found} if found else {}


def _held(estimator: OfGP, schema: Schema) -> list[str]:
    """Names of the parameters that the text of the kernel holds."""
    if not isinstance(estimator.kernel, str):
        return []
    first = first_kernel(estimator.kernel_)
    return [f"{first}{name}" for name in written_kernel(estimator.kernel, schema).fixed]


def _listed(value: object) -> str:
    return ", ".join(f"{each:g}" for each in np.ravel(np.asarray(value, float)))


def class_form(estimator: GPClassifier) -> dict[str, Any]:
    """Record of whether several classes by Power EP are coupled, and why learning ended.

    The sentence on the form that the fit chose is left out of the message: it is reported
    elsewhere.
    """
    reason = estimator.message_.removesuffix(f"; {estimator.choice_}")
    form: dict[str, Any] = {"message": reason}
    if method_word(estimator.method) == "power_ep" and estimator.likelihood_.couples:
        form["coupled"] = not estimator.choice_
    return form


def deep_record(estimator: OfLayers, fitted: TableModel) -> dict[str, Any]:
    """The kernel, and records of the layers."""
    return {
        "kernel": kernel_word(estimator.kernel, fitted.schema),
        "method": "tied",
        "layers": layer_records(fitted.posterior.model),
    }


def layer_records(model: AbstractModel) -> list[dict[str, Any]]:
    """Records of the layers of a deep model, as JSON values."""
    return [
        {
            "width": layer.width,
            "n_inducing": next(inducing.size for _, inducing, _ in layer.groups),
            "noise_variance": None
            if layer.noise_variance is None
            else float(np.asarray(layer.noise_variance)),
        }
        for layer in layers_of(model)
    ]


def linear_record(estimator: OfWeights, fitted: TableModel) -> dict[str, Any]:
    """The prior, the columns selected, and the parameters averaged over."""
    several = fitted.posterior.model.likelihood.latents > 1
    record: dict[str, Any] = {
        "prior": prior_word(estimator.prior),
        "selected": selected_columns(model_coefficients(fitted)),
    }
    little = says_little(fitted)
    if little is not None:
        record["selection_message"] = little
    found = integrated_parameters(fitted.posterior)
    if found:
        record["integrated"] = {name: _of_marginal(one) for name, one in found.items()}
    record |= constraints_record(estimator.fixed, estimator.bounds)
    return record | ({"coupled": False} if several else {})


def prior_word(prior: object) -> str:
    """The name of a prior of weights, or that of its class."""
    return _word(prior, {})


def _of_marginal(marginal: ParameterMarginal) -> dict[str, Any]:
    """Median and ends of the central interval as JSON values."""
    ends = {"lower": marginal.lower, "median": marginal.median, "upper": marginal.upper}
    return {name: np.asarray(value).tolist() for name, value in ends.items()}


def network_record(estimator: OfNetwork, fitted: TableModel) -> dict[str, Any]:
    """The prior, the units, and how strongly these follow each column."""
    hidden, batch = np.ravel(estimator.hidden).tolist(), estimator.batch
    relevance = map(float, estimator.relevance_)
    return {
        **({} if batch is None else {"method": "tied"}),
        "prior": prior_word(estimator.prior),
        "hidden": hidden if np.ndim(estimator.hidden) else hidden[0],
        "batch": batch,
        "steps": None if batch is None else estimator.steps,
        "relevance": dict(zip(fitted.schema.features, relevance, strict=True)),
    }


def images_record(estimator: ConvGPClassifier, fitted: TableModel) -> dict[str, Any]:
    """The kernel of a fitted model of images."""
    (shape, _), parts = patches_of(str(estimator.kernel)), estimator.parts_
    patch = times(shape)
    beside = f" + {estimator.plus_}" if estimator.plus_ else ""
    kind = _word(parts, {})
    return {"kernel": f"conv{patch} ({kind}){beside} of images {times(estimator.image_shape_)}"}


def times(shape: tuple[int, ...]) -> str:
    """A shape as it is typed, such as 28x28."""
    return "x".join(map(str, shape))
