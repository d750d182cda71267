"""`cavity fit`: from a table to a model file."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity.cli.asked import ask, check_resume
from cavity.cli.engine_options import engine_of
from cavity.cli.fitting import AbstractFitting
from cavity.cli.progress import interruptible, progress
from cavity.cli.request import Request
from cavity.cli.session import INTERRUPTED, Outcome, Session, patient_interrupts
from cavity.families.base import Family, loaded
from cavity.learning.failures import EngineError
from cavity.learning.infer import NumericalError
from cavity.learning.optimisers.lbfgs import GracefulStop, Progress
from cavity.persistence import model_file as storage
from cavity.persistence.checkpoint import Checkpoint
from cavity.report.convergence import unconverged

# What Ctrl-C keeps: of a fit, and of one by draws.
BEST = "the best model so far"
DRAWS = "the draws so far, if they are enough for a model"


def run_fit(session: Session, request: Request, families: Sequence[Family]) -> Outcome:
    """Fits a model to a table and writes it.

    Args:
        session: for warnings and notes.
        request: the options.
        families: those there are.
    """
    asked = ask(request, families)
    fitting: AbstractFitting = loaded(asked.family.fitting)(session, asked)
    fitting.check()
    check_resume(request)
    storage.check_output(request.out)
    kept = None
    if request.checkpoint is not None:
        kept = Checkpoint(request.checkpoint, resume=request.resume)
        kept.open()
    with engine_of(session, request.processes, request.scheduler) as fitting.engine:
        reached = True
        try:
            return _carried_out(session, fitting, kept)
        except EngineError:
            reached = False
            raise
        finally:
            if reached:
                fitting.end()


def _carried_out(session: Session, fitting: AbstractFitting, kept: Checkpoint | None) -> Outcome:
    """Reads the tables, fits, and writes the model."""
    request = fitting.request
    fitting.read()
    estimator = fitting.estimator()
    interrupted = learned(fitting, estimator, kept)
    check_finite(estimator)
    saved = fitting.saved(estimator)
    saved.save(request.out)
    tested = fitting.tested(saved)
    if tested is not None:
        saved = tested
        saved.save(request.out)
    if interrupted:
        held = "the draws" if fitting.samples else "the best model"
        session.note(f"interrupted; {request.out} holds {held} so far")
        if kept is not None:
            session.note("the same command with --resume goes on from here")
    elif not saved.record["converged"]:
        session.warn(_not_converged(saved.record))
    written = f"model written to {request.out} ({session.seconds:.1f} s)"
    text = f"{loaded(fitting.asked.family.in_words)(saved)}\n\n{written}"
    return Outcome(saved.record, text, INTERRUPTED if interrupted else 0)


def _not_converged(record: dict[str, Any]) -> str:
    """Message about a fit that did not converge, and its consequences for predictions."""
    problem = unconverged(record)
    assert problem is not None
    return f"not converged: {record['message']}. {problem.meaning}"


def learned(fitting: AbstractFitting, estimator: Any, kept: Checkpoint | None) -> bool:
    """Fits an estimator with progress on the screen; whether it was interrupted.

    Args:
        fitting: has the data.
        estimator: what is fitted.
        kept: the folder in which the fit keeps what it has done, where there is one.
    """
    (data, further), passes = fitting.data(), fitting.passes
    line = progress(evidence=not fitting.samples, passes=passes)
    with patient_interrupts(DRAWS if fitting.samples else BEST) as interrupted, line as show:
        begun: list[int] = []  # before the first iteration there is no model to keep
        ended: list[int] = []  # a pass ends once; those that the model needs then do not

        def callback(step: Progress) -> None:
            begun.append(step.iteration)
            show(step)
            if interrupted():
                ended.append(step.iteration)
                raise GracefulStop

        if passes is not None:
            passes.watch = interruptible(
                passes.watch, lambda: bool(begun) and not ended and interrupted(), ended
            )
        if kept is not None:
            further = further | {"checkpoint": kept}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is said in our own way
            estimator.fit(*data, callback=callback, **further)
        return interrupted() or bool(estimator.interrupted_)


def check_finite(estimator: Any) -> None:
    """Refuses a fit with values that are not finite."""
    found = (estimator.posterior_, estimator.log_evidence_)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
    floats = [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]
    if not all(np.all(np.isfinite(leaf)) for leaf in floats):
        raise NumericalError(
            "the fitted model has values that are not finite, so nothing was written; check the "
            "scale of the columns, or try another kernel"
        )
