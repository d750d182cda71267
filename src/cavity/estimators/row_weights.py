"""Weights of the rows of a fit, checked as scikit-learn asks."""

import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing, compute_sample_weight
from sklearn.utils.validation import _num_samples, check_consistent_length

from cavity.inference.graph.rows import WEIGHT


def with_weights(
    X: Any, y: Any, side: Mapping[str, Any]
) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """Inputs, outputs and side data of the rows whose weights are positive.

    Where all of these are 1 there is no weight among the side data returned.

    Args:
        X: inputs, as they were given.
        y: outputs or labels, as they were given.
        side: side data by name, (N,) each; weights of rows among them, or a number for all.

    Raises:
        ValueError: for weights that are negative or not finite, or all zero, and for another
            number of them than rows.
    """
    others = {name: values for name, values in side.items() if name != WEIGHT}
    if WEIGHT not in side:
        return X, y, others
    weights = checked_weights(side[WEIGHT], X)
    kept = np.flatnonzero(weights > 0.0)
    if len(kept) < len(weights):
        check_consistent_length(X, y, *others.values())
        X, y = _safe_indexing(X, kept), _safe_indexing(y, kept)
        others = {name: values[kept] for name, values in others.items()}
        weights = weights[kept]
    return X, y, others if np.all(weights == 1.0) else others | {WEIGHT: weights}


def checked_weights(weights: Any, X: Any) -> np.ndarray:
    """The weights of rows, (N,), as floats.

    Args:
        weights: one for each row, or a number for all.
        X: inputs, for their number.

    Raises:
        ValueError: for what are no numbers, not finite, negative or all zero, and for another
            number of them than rows.
    """
    try:
        found = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight must be numbers, one for each row, given {reprlib.repr(weights)}"
        ) from None
    count = _num_samples(X)
    found = np.full(count, float(found)) if found.ndim == 0 else found
    if found.shape != (count,):
        raise ValueError(
            f"sample_weight must have one value per row, ({count},), given shape {found.shape}"
        )
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be at least 0 and finite in every row; row {bad[0]} (counted "
            f"from 0) has {found[bad[0]]:g}"
        )
    if not np.any(found):
        raise ValueError("every weight is zero: at least one sample_weight must be positive")
    return found


def class_weights(class_weight: Any, y: Any, sample_weight: Any, X: Any) -> Any:
    """Weights of rows with labels: those of their class times their own; None for neither.

    Args:
        class_weight: weights by label, "balanced", or None.
        y: labels, (N,).
        sample_weight: weights of rows, or None.
        X: inputs.

    Raises:
        ValueError: for weights of what is no class, or that are negative.
    """
    if class_weight is None:
        return sample_weight
    if isinstance(class_weight, Mapping):
        _check_classes(class_weight, y)
    elif class_weight != "balanced":
        raise ValueError(
            'class_weight must be None, "balanced" or a dict of weights by label, given '
            f"{class_weight!r}"
        )
    own = np.asarray(compute_sample_weight(class_weight, y))
    return own if sample_weight is None else own * checked_weights(sample_weight, X)


def _check_classes(class_weight: Mapping[Any, Any], y: Any) -> None:
    labels = set(np.asarray(y).ravel().tolist())
    strange = [label for label in class_weight if label not in labels]
    if strange:
        raise ValueError(
            f"class_weight has a weight for {strange[0]!r}, which is no label of y; the labels "
            f"are {', '.join(map(repr, sorted(labels, key=str)[:10]))}"
        )
    bad = [label for label, w in class_weight.items() if not (np.isfinite(w) and w >= 0.0)]
    if bad:
        raise ValueError(
            f"class_weight must be at least 0 and finite; that of {bad[0]!r} is "
            f"{class_weight[bad[0]]!r}"
        )
