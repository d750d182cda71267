"""Models that are drawn: fitted estimators, results and posteriors, in one form."""

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cavity.columns.encoder import Column
from cavity.estimators.base import AbstractPredictor
from cavity.estimators.kept import AbstractKept
from cavity.estimators.layers import layers_of, weight_priors
from cavity.kernels.sum_over import plain_columns
from cavity.learning.data.training_data import Data
from cavity.learning.results.result import Inference
from cavity.likelihoods.capabilities import number_of_classes
from cavity.likelihoods.support import Support
from cavity.models.latent.posterior import LatentPosterior
from cavity.models.network.network import Network
from cavity.models.posterior import AbstractPosterior
from cavity.models.state_space.posterior import StateSpacePosterior
from cavity.numerics.text import quoted
from cavity.numerics.tree import to_numpy
from cavity.plots.kinds import check_kind, family_of_word
from cavity.report.of_estimators import encoded_rows
from cavity.report.subject import Subject
from cavity.tables.rows_files import RowsFiles
from cavity.tables.schema import Encoded, Schema
from cavity.tables.table_model import TableModel


def checked(model: object, kind: str) -> str:
    """The word of the family of a model that has a kind of picture.

    Args:
        model: what was given.
        kind: of picture.

    Raises:
        TypeError: for what is no fitted model.
        NotFittedError: for an estimator before `fit`.
        ValueError: for a picture that the model has no meaning for.
    """
    word, called = _family_of(model)
    check_kind(kind, word, called)
    return word


@functools.singledispatch
def _family_of(model: object) -> tuple[str, str]:
    """The word of the family of a model, and what one of its models is called."""
    word = _word_of(posterior_of(model))
    return word, family_of_word(word).called


@_family_of.register(AbstractKept)
def _(model: AbstractKept) -> tuple[str, str]:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "posterior_")
    return model.family.word, f"a {type(model).__name__}"


@functools.singledispatch
def _word_of(posterior: AbstractPosterior) -> str:
    """The word of the family that models like that of a posterior are of."""
    model = posterior.model
    if weight_priors(model):
        return "network" if isinstance(model, Network) else "linear"
    return "deep" if layers_of(model) else "gp"


@_word_of.register(LatentPosterior)
def _(posterior: LatentPosterior) -> str:
    return "latent"


@_word_of.register(StateSpacePosterior)
def _(posterior: StateSpacePosterior) -> str:
    return "state-space"


@functools.singledispatch
def posterior_of(model: object) -> Any:
    """The posterior of a result, of itself or of a fitted estimator.

    Raises:
        TypeError: for anything else.
    """
    raise TypeError(
        "cavity.plots takes a fitted estimator such as GPRegressor, a result of cavity.fit or "
        f"cavity.infer, or a posterior; given {type(model).__name__}{_hint(model)}"
    )


@posterior_of.register(Inference)
def _(model: Inference) -> Any:
    return model.posterior


@posterior_of.register(AbstractPosterior)
@posterior_of.register(LatentPosterior)
@posterior_of.register(StateSpacePosterior)
def _(model: Any) -> Any:
    return model


@posterior_of.register(AbstractKept)
def _(model: Any) -> Any:
    return model.posterior_


def _hint(model: object) -> str:
    """Advice where something else is given."""
    names = {base.__name__ for base in type(model).__mro__}
    if names & {"str", "Path"}:
        return f": give cavity.load({str(model)!r})"
    if "AbstractModel" in names:
        return ", which is not fitted: give the result of cavity.fit(model, X, y)"
    if "Axes" in names:
        return "; pictures of arrays on axes are in cavity.drawing"
    if "Pipeline" in names:
        return ": give its last step, pipeline[-1], with pipeline[:-1].transform(X) as X"
    return ""


def subject_of(
    model: object,
    kind: str,
    X: object = None,
    y: object = None,
    *,
    needs: str = "",
    side: Mapping[str, object] | None = None,
) -> Subject:
    """A model of rows, and rows to draw it on.

    Args:
        model: a fitted estimator, a result, or a posterior.
        kind: of picture.
        X: inputs, (n, D), or a table as numbers; None for the rows that a result was inferred
            from.
        y: outputs or labels; None for none.
        needs: what the picture needs beside the model: "X", or "y" for both; empty for nothing.
        side: side data by name, (n,) each, or None where there are none.

    Returns:
        Both; without inputs the rows are none.

    Raises:
        TypeError: for what is no fitted model.
        ValueError: for pictures that the model does not have, unusable data, and where there are
            none and some are needed.
    """
    checked(model, kind)
    given: Any = {name: values for name, values in (side or {}).items() if values is not None}
    if isinstance(model, AbstractPredictor):
        fitted, outputs = RowsFiles().contents(model), None
        rows = np.zeros((0, len(fitted.schema.features)))
        if isinstance(X, Encoded):
            rows, outputs, given = X.X, X.y, X.side
        elif X is not None:
            of_rows: Any = model
            rows, outputs, given = of_rows.as_numbers(X, y, **given)
    else:
        fitted = table_model_of(posterior_of(model))
        rows, outputs, given = _rows_of_result(model, X, y, given)
    missing = {"X": X is None and not len(rows), "y": outputs is None}
    if missing.get(needs, False) or (needs == "y" and missing["X"]):
        what = "X and y, rows with their outputs" if needs == "y" else "X, rows"
        raise ValueError(
            f"cavity.plots.{kind} needs {what}: those of the fit, which an estimator does not "
            "hold, or others (on the command line name a table after the kind)"
        )
    return Subject(fitted, encoded_rows(fitted.schema.features, rows, outputs, given))


def table_model_of(posterior: Any) -> TableModel:
    """A posterior as what a table is told by, with columns x0, x1, ... and a target y."""
    posterior = to_numpy(posterior)
    likelihood = posterior.model.likelihood
    labels = likelihood.support is Support.LABELS
    count = 1 if labels or likelihood.latents > 1 else posterior.outputs
    columns = plain_columns(posterior.model) or posterior.n_inputs
    inputs = tuple(Column(f"x{i}", "numeric") for i in range(columns))
    names = [f"y{i}" for i in range(count)] if count > 1 else ["y"]
    classes = tuple(map(str, range(number_of_classes(likelihood)))) if labels else ()
    kind = "categorical" if classes else "numeric"
    targets = tuple(Column(name, kind, classes) for name in names)
    noise, exposure = (name if name in posterior.side else None for name in _SIDES)
    schema = Schema(inputs, targets, noise, exposure)
    return TableModel(posterior, schema, {}, np.ones(count), np.zeros(count), np.ones(count))


_SIDES = ("noise_variance", "exposure")


@functools.singledispatch
def data_of(model: object) -> Data | None:
    """The data that a result was inferred from; None of anything else."""
    return None


@data_of.register(Inference)
def _(model: Inference) -> Data | None:
    return model.data


def _rows_of_result(
    model: object, X: object, y: object, side: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray]]:
    """Rows as they were given, or those that a result was inferred from."""
    posterior = posterior_of(model)
    data = data_of(model)
    if X is None and data is not None:
        rows = data.rows
        flat = np.asarray(rows.x, float).reshape(-1, rows.x.shape[-1])
        outputs = np.asarray(rows.y, float).reshape(len(flat), -1)
        known = {k: np.asarray(v, float).reshape(-1) for k, v in rows.side.items()}
        kept = {name: values for name, values in known.items() if name in _SIDES}
        present = np.broadcast_to(np.asarray(rows.presence), rows.y.shape)
        whole = np.all(present.reshape(len(flat), -1) > 0.0, axis=1)
        return flat[whole], outputs[whole], {k: v[whole] for k, v in kept.items()}
    if X is None:
        return np.zeros((0, posterior.n_inputs)), None, {}
    rows = np.asarray(posterior.checked_inputs(np.asarray(X, float)), float)
    outputs = None if y is None else np.asarray(y, float).reshape(len(np.asarray(y)), -1)
    if outputs is not None and len(outputs) != len(rows):
        raise ValueError(f"y has {len(outputs)} rows, X has {len(rows)}")
    return rows, outputs, {name: np.asarray(values, float) for name, values in side.items()}


# --------------------------------------------------------------------------- what is drawn


def target_of(fitted: TableModel, target: object) -> int:
    """The place of a target, or of a class where there are several.

    Args:
        fitted: the model.
        target: its name, or its place; None where there is one.

    Raises:
        ValueError: for a name that is not there, and where one has to be chosen.
    """
    names = [*fitted.targets]
    if target is None and len(names) > 1:
        raise ValueError(
            f"the model has {len(names)} targets: choose one, such as target={names[0]!r}; there "
            f"are {_listed(names)}"
        )
    return 0 if target is None else place_among("target", target, names)


def place_among(what: str, name: object, names: Sequence[str]) -> int:
    """The place of a name, or a place as it is.

    Args:
        what: it is, for messages.
        name: the name, or a place from 0.
        names: those that there are.

    Raises:
        ValueError: for a name that is not there, with the closest that is.
    """
    if str(name) in names:
        return [*names].index(str(name))
    if isinstance(name, int | np.integer) and 0 <= name < len(names):
        return int(name)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {quoted(close[0])}?)" if close else ""
    raise ValueError(f"there is no {what} {str(name)!r}{hint}; there are {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    """Up to twenty names."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(map(str, names[:20])) + more


def listed(names: object) -> list[object]:
    """Names that were given, be it one or several."""
    if isinstance(names, Iterable) and not isinstance(names, str):
        return [*names]
    return [names]


def check_no_pixels(fitted: TableModel, kind: str) -> None:
    """Refuses pictures of single columns where these are pixels.

    Raises:
        ValueError: with the pictures of images.
    """
    if plain_columns(fitted.posterior.model) is not None:
        raise ValueError(
            f"cavity.plots.{kind} is of single columns, and the columns of this model are pixels, "
            "which say little one by one: cavity.plots.patches and calibration are for images"
        )
