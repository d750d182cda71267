"""`cavity update`: a model that goes on learning from the rows of a table."""

import dataclasses
import hashlib
import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from cavity.cli.opened import opened
from cavity.cli.session import Outcome, Session, blaming
from cavity.cli.table_parts import report_warnings
from cavity.cli.text import describe_metrics
from cavity.estimators.kept import plain
from cavity.kernels.sum_over import plain_columns
from cavity.learning.double_precision import in_double
from cavity.learning.initialisation.default_priors import priors_of_stream
from cavity.learning.initialisation.models import Given
from cavity.learning.streaming.result import UpdateResult, kept_result, memory_of, with_memory
from cavity.learning.streaming.settings import UpdateSettings, check_remembers
from cavity.learning.streaming.update import update as go_on
from cavity.models.mean_function import with_found_mean
from cavity.numerics.text import plural
from cavity.numerics.tree import to_numpy
from cavity.persistence.atomic_file import held, regular_bytes
from cavity.persistence.errors import DataError
from cavity.persistence.model_file import check_output
from cavity.tables.files import read_table
from cavity.tables.parameters import parameters
from cavity.tables.schema import Encoded, encode
from cavity.tables.table_model import TableModel, check_targets

# Batches that a model file remembers, so that one that is given twice is skipped.
REMEMBERED = 1_000


@in_double
def update(
    session: Session,
    model: str,
    table: str,
    *,
    out: str,
    power: float | None = None,
    inducing: str = "move",
    half_life: float | None = None,
    memory: int = 0,
    learn: bool = True,
    batch_id: str | None = None,
    max_iterations: int = 1000,
    drop_missing: bool = False,
    weight_column: str | None = None,
) -> Outcome:
    """Learns from a table, and writes the model with what it knew before."""
    before = _stamp(model)
    fitted: TableModel = opened(model, "update").model
    check_output(out)
    _check_model(model, fitted)
    rows = read_table(table, may_be_empty=True)
    if not rows.height:
        encode(rows, fitted.schema, first=0)  # which wants the columns
        session.note(f"{table} has no rows: there is nothing to learn")
        return _unchanged(fitted, model, table, out, "nothing to learn")
    how: dict[str, Any] = {"drop_missing": drop_missing, "weight_column": weight_column}
    encoded = encode(rows, fitted.schema, **how)
    # rows that go on from those before are what an update is for
    report_warnings(session, table, dataclasses.replace(encoded.noticed, outside={}))
    check_targets(fitted.posterior.model.likelihood, fitted.targets, encoded)
    used = fitted.record["power"] if power is None else power
    with blaming("--power, --inducing or --half-life"):
        UpdateSettings(
            used, 0.0, learn, inducing, 1000, memory, half_life, "likelihood", False, 20
        )
    batch = _digest(encoded) if batch_id is None else batch_id
    known = list(fitted.record.get("batch_ids", []))
    if batch in known:
        session.note(f"{model} has learned from this batch already; nothing is done")
        return _unchanged(fitted, model, table, out, f"skipped: {batch}")
    options: dict[str, Any] = {"power": used, "inducing": inducing, "half_life": half_life}
    options |= {"memory": memory, "learn": learn, "max_iterations": max_iterations}
    scores = fitted.metrics(encoded)
    first = (_result(fitted), encoded.X, _outputs(fitted, encoded))
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", UserWarning)
        result = go_on(*first, rows=encoded.side_and_weight or None, **options)
    for warning in heard:
        session.warn(str(warning.message))
    fitted = dataclasses.replace(fitted, record=fitted.record | {"power": float(used)})
    updated = _updated(fitted, encoded, result, scores, [*known, batch][-REMEMBERED:])
    _write(updated, model, before, out)
    if not result.converged:
        remedy = " (--max-iterations)" if result.message.endswith("allow more") else ""
        session.warn(f"not converged: {result.message}{remedy}")
    text = _text(session, updated, result, f"{plural(len(encoded.X), 'row')} of {table}", out)
    return Outcome(_record(updated, model, table, out), text + describe_metrics(scores))


def _write(updated: TableModel, model: str, before: str, out: str) -> None:
    """Writes the model, unless the one that was read is another by now."""
    with held(Path(model)):
        if _stamp(model) != before:
            raise DataError(
                f"{model} has changed since it was read, by another update perhaps; nothing was "
                "written: run the same command again",
                kind="io",
            )
        updated.save(out)


def _text(session: Session, updated: TableModel, result: UpdateResult, rows: str, out: str) -> str:
    """Summary of an update: the rows learned, and the file written."""
    return (
        f"{rows} learned, {result.rows_seen} in all; model "
        f"written to {out} ({session.seconds:.1f} s)\nlog evidence of all rows "
        f"{updated.record['log_evidence']:.4f} nats, {result.lost:.4f} of the past lost\n\n"
        "how the rows were predicted before:\n"
    )


def _unchanged(fitted: TableModel, model: str, table: str, out: str, said: str) -> Outcome:
    """Result of an update without new rows; the model is written under its new name."""
    if os.path.realpath(out) != os.path.realpath(model):
        fitted.save(out)
    return Outcome(_record(fitted, model, table, out, skipped=True), said)


def _check_model(path: str, fitted: TableModel) -> None:
    """Refuses models that cannot be updated without their earlier rows.

    Raises:
        DataError: saying what to do instead.
    """
    if plain_columns(fitted.posterior.model) is not None:
        raise DataError(
            f"{path} is a model of images, which is not updated: fit it again with the old images "
            "and the new"
        )
    try:
        check_remembers(fitted.posterior)
    except TypeError as error:
        if "prior" in fitted.record:
            raise DataError(
                f"{path} is a model of weights, which is not updated: fit it again with the old "
                "rows and the new"
            ) from None
        if fitted.record["n_inducing"] is None:
            raise DataError(
                f"{path} is a full GP, which grows with its rows: fit it again with --inducing N "
                "to go on from there"
            ) from None
        raise DataError(f"{path} cannot be updated: {error}") from None


def _result(fitted: TableModel) -> Any:
    """The model's posterior and evidence, in its own units."""
    record = fitted.record
    if record.get("constraints"):
        raise DataError(
            f"the model holds {', '.join(record['constraints'])}, and an update learns all "
            "parameters: fit it again with the old rows and the new"
        )
    rows = int(record.get("rows_seen", record["n_rows"]))
    value = record["log_evidence"] + float(_counted(fitted) @ np.log(fitted.output_scale))
    known = {"jitter": record["jitter"], "tallies": fitted.tallies}
    if record.get("priors") == "weak":
        known["priors"] = partial(priors_of_stream, Given())
    kept = kept_result(fitted.posterior, value, rows=rows, **known)
    return with_memory(kept, fitted.memory)


def _counted(fitted: TableModel) -> np.ndarray:
    """Outputs of the rows so far, (P,), each as often as its weight says."""
    record, count = fitted.record, len(fitted.y_mean)
    if fitted.kept is None:
        return np.full(count, float(record.get("rows_seen", record["n_rows"])))
    return np.broadcast_to(np.asarray(fitted.kept.fitted["n_observed_"], float), (count,))


def _outputs(fitted: TableModel, encoded: Encoded) -> np.ndarray:
    """Outputs in the units of the model."""
    assert encoded.y is not None
    y = encoded.y / fitted.output_scale
    return y[:, 0] if fitted.posterior.single else y


def _updated(
    fitted: TableModel,
    encoded: Encoded,
    result: UpdateResult,
    scores: dict[str, Any],
    batches: list[str],
) -> TableModel:
    posterior, scale = to_numpy(result.posterior), fitted.output_scale
    assert encoded.y is not None
    heavy = np.ones(len(encoded.X)) if encoded.weight is None else encoded.weight
    new, old = float(np.sum(heavy)), _counted(fitted)
    value = result.log_evidence - float((old + new) @ np.log(scale))
    mean = (old * fitted.y_mean + heavy @ encoded.y) / (old + new)
    square = old * (fitted.y_var + fitted.y_mean**2) + heavy @ encoded.y**2
    record = fitted.record | {
        "log_evidence": value,
        "rows_seen": result.rows_seen,
        "lost": result.lost,
        "before": scores,
        "batch_ids": batches,
        "converged": bool(result.converged),
        "message": result.message,
        "jitter": float(result.jitter),
        "n_inducing": cast(Any, posterior).model.inducing.size,
        "iterations": int(result.n_iterations),
        "evaluations": int(result.n_evaluations),
        "sites": dataclasses.asdict(result.sites),
        "parameters": parameters(
            with_found_mean(posterior), scale, known_noise=posterior.known_noise
        ),
        "bracket": None,
        "verdict": None,
        "test": None,
    }
    var = np.maximum(square / (old + new) - mean**2, 0.0)
    known: dict[str, Any] = {"y_mean": mean, "y_var": var, "memory": memory_of(result)}
    known["tallies"] = result.tallies
    if fitted.schema.ranges:  # files of before have none, and would know this batch alone
        known["schema"] = fitted.schema.with_rows(encoded.X)
    if fitted.kept is not None:
        known["kept"] = fitted.kept.but(
            log_evidence_=value,
            converged_=record["converged"],
            message_=record["message"],
            n_iter_=record["iterations"],
            history_=(),
            n_evaluations_=record["evaluations"],
            jitter_=record["jitter"],
            sites_=plain(result.sites),
            interrupted_=False,
            n_rows_=result.rows_seen,
            n_observed_=old + new,
            bracket_=None,
            verdict_="",
            choice_="",
        )
    return dataclasses.replace(fitted, posterior=posterior, record=record, **known)


def _record(
    fitted: TableModel, model: str, table: str, out: str, *, skipped: bool = False
) -> dict[str, Any]:
    """Record for `cavity update --json`."""
    names = ("log_evidence", "rows_seen", "lost", "before", "converged", "message", "n_inducing")
    told = {name: fitted.record.get(name) for name in names}
    return {"model": model, "table": table, "out": out, "skipped": skipped} | told


def _digest(encoded: Encoded) -> str:
    """Digest that identifies a batch."""
    found = hashlib.blake2b(digest_size=16)
    for array in (encoded.X, encoded.y, *encoded.side_and_weight.values()):
        found.update(np.ascontiguousarray(array, float).tobytes())
    return found.hexdigest()


def _stamp(path: str) -> str:
    """Digest of the contents of a file."""
    try:
        return hashlib.blake2b(regular_bytes(Path(path)), digest_size=16).hexdigest()
    except OSError:  # it is said where the file is read
        return ""
