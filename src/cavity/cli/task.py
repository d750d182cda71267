"""Task of `cavity fit`: regression or classification, with which likelihood."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cavity.cli.session import usage
from cavity.columns.encoder import Column
from cavity.estimators.registry import (
    CLASSIFICATION,
    LIKELIHOODS,
    REGRESSION,
    build_method,
    likelihood_names,
    named_likelihood,
    suited,
)
from cavity.persistence.errors import DataError
from cavity.tables.roles import with_classes
from cavity.tables.schema import Encoded, Schema, encode

# Classes that a message names one by one.
NAMED = 10
# Every class has a function of its own.
MOST_CLASSES = 100


def default_likelihood(task: str) -> str:
    """The likelihood of a task where none is asked for."""
    return likelihood_names(task)[0]


def _readers(side: str) -> str:
    """The names of the likelihoods that read some side data, for a message."""
    return ", ".join(sorted(n for n in LIKELIHOODS if side in named_likelihood(n).side))


def check_likelihood(
    task: str | None,
    likelihood: str | None,
    targets: Sequence[str],
    noise_column: str | None,
    exposure_column: str | None,
) -> None:
    """A usage error for options that do not go together, whatever the table holds."""
    named = likelihood or default_likelihood(task or REGRESSION)
    if task and LIKELIHOODS[named].task != task:
        known = ", ".join(sorted(likelihood_names(task)))
        raise usage("--likelihood", f"'{named}' is not for {task}, which has: {known}")
    asked = likelihood is not None or task is not None
    if asked and len(targets) > 1:
        if LIKELIHOODS[named].task == CLASSIFICATION:
            raise usage("--target", "a classification has one target; fit each one alone")
        if named_likelihood(named).latents > 1:
            raise usage("--target", f"'{named}' takes one target; fit each one alone")
    reads = named_likelihood(named).side
    if noise_column is not None and "noise_variance" not in reads:
        known = _readers("noise_variance")
        raise usage("--noise-column", f"known noise variances go with: {known}; not with {named}")
    if noise_column is not None and len(targets) > 1:
        raise usage("--noise-column", "known noise goes with one target; fit each target alone")
    if exposure_column is not None and "exposure" not in reads:
        known = _readers("exposure")
        raise usage("--exposure-column", f"exposures are for counts ({known}), not {named}")


def check_method(method: str, likelihood: str, classes: int = 2) -> None:
    """A usage error for a method that does not suit a likelihood of so many classes."""
    known = suited(build_method(method), LIKELIHOODS[likelihood].task, classes)
    if likelihood in known:
        return
    of = f" of {classes} classes" if classes > 2 else ""
    remedy = f"give --likelihood {known[0]}" if len(known) == 1 else "give one with --likelihood"
    raise usage(
        "--method",
        f"'{method}' does not suit the likelihood '{likelihood}'{of}, only: {', '.join(known)}; "
        f"{remedy}, or leave --method out",
    )


def decide(schema: Schema, task: str | None, likelihood: str | None) -> tuple[str, str]:
    """The task and the likelihood.

    What was asked for; otherwise classification for a target of text or of true and false.

    Raises:
        DataError: for a target that does not suit them.
    """
    asking: Column | None = next((c for c in schema.targets if c.kind != "numeric"), None)
    wanted = task or (likelihood and LIKELIHOODS[likelihood].task)
    if task is None and asking is not None:
        _check_asked_for(asking, wanted, likelihood)
    found = wanted or ("regression" if asking is None else "classification")
    text: Column | None = next((c for c in schema.targets if c.kind == "categorical"), None)
    if found == "regression" and text is not None:
        raise DataError(
            f"the target '{text.name}' holds text (such as '{text.categories[0]}'), and "
            "regression needs numbers; leave --task out for classification, or choose a column "
            "of numbers"
        )
    names = ", ".join(column.name for column in schema.targets)
    if found == "classification" and len(schema.targets) > 1:
        raise DataError(f"a classification has one target, given {names}; fit each one alone")
    if found == "classification" and (schema.noise_column or schema.exposure_column):
        raise DataError(
            f"noise variances and exposures are for regression, and the target '{names}' asks "
            "for classification; leave the option out, or give --task regression"
        )
    return found, likelihood or default_likelihood(found)


def _check_asked_for(target: Column, wanted: str | None, likelihood: str | None) -> None:
    """Refuses a likelihood of numbers for a target that asks for classification."""
    if wanted != "regression":
        return
    if target.kind == "categorical":
        holds, remedy = f"text (such as '{target.categories[0]}')", "leave --likelihood out"
    else:
        holds = "true and false"
        remedy = "leave --likelihood out, or give --task regression to model them as 1 and 0"
    raise DataError(
        f"the target '{target.name}' holds {holds}, which asks for classification, and "
        f"'{likelihood}' is a likelihood for regression; {remedy}"
    )


def encode_classes(
    table: Any, schema: Schema, *, drop_missing: bool, weight_column: str | None = None
) -> tuple[Schema, Encoded]:
    """The table as numbers, its target the place of a class; classes are those of rows kept.

    Raises:
        DataError: for a single class.
    """
    schema = with_classes(schema, table)
    encoded = encode(table, schema, drop_missing=drop_missing, weight_column=weight_column)
    assert encoded.y is not None
    classes = schema.targets[0].categories
    seen, places = np.unique(encoded.y, return_inverse=True)
    present = tuple(classes[int(i)] for i in seen)  # others may have gone with their rows
    encoded = dataclasses.replace(encoded, y=places.reshape(-1, 1).astype(float))
    schema = schema.with_target_categories(present)
    check_classes(schema, len(places))
    return schema, encoded


def check_classes(schema: Schema, rows: int) -> None:
    """Refuses a target of one class, and one of too many for so many rows."""
    name, present = schema.targets[0].name, schema.targets[0].categories
    shown = ", ".join(present[:NAMED]) + (", ..." if len(present) > NAMED else "")
    if len(present) == 1:
        raise DataError(
            f"the target '{name}' holds one class only, {shown}; classification needs rows of two "
            "classes"
        )
    numeric = schema.targets[0].kind == "numeric"
    if len(present) > MOST_CLASSES or (numeric and 2 * len(present) > rows):
        remedy = ", or leave --task out for regression" if numeric else ""
        raise DataError(
            f"the target '{name}' has {len(present)} classes ({shown}) in {rows} rows, too "
            f"many to tell apart; merge some of them{remedy}"
        )
