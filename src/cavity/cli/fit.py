"""`cavity fit`: from a table to a model file."""

import dataclasses
import re
import warnings
from typing import Any

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity.cli.asked_family import asked_family
from cavity.cli.chosen import check_enough, check_power
from cavity.cli.deep import deep_estimator
from cavity.cli.fitted import fitted_model
from cavity.cli.images import check_images, images_estimator, kernel_in_words
from cavity.cli.linear import check_linear, linear_estimator
from cavity.cli.network import check_network, network_estimator
from cavity.cli.progress import interruptible, progress
from cavity.cli.request import Request
from cavity.cli.session import (
    INTERRUPTED,
    Outcome,
    Session,
    blaming,
    patient_interrupts,
    usage,
)
from cavity.cli.task import check_inducing_kind, check_likelihood, check_method, default_likelihood
from cavity.cli.text import describe_fit
from cavity.cli.training_tables import Tables, check_in_batches, in_batches, read
from cavity.estimators.base import AbstractEstimator
from cavity.estimators.class_form import with_affordable_form
from cavity.estimators.classifier import GPClassifier
from cavity.estimators.deep import DeepGPClassifier, DeepGPRegressor
from cavity.estimators.images import ConvGPClassifier
from cavity.estimators.registry import (
    CLASSIFICATION,
    LIKELIHOODS,
    MEANS,
    METHODS,
    REGRESSION,
    TASKS,
    Method,
    build_method,
    named_likelihood,
    one_of,
)
from cavity.estimators.regressor import GPRegressor
from cavity.estimators.settings import (
    AUTO_INDUCING,
    FULL_ROWS,
    Settings,
    automatic_inducing,
    check_full_rows,
)
from cavity.families.deep import DEEP
from cavity.families.images import IMAGES
from cavity.families.linear import LINEAR
from cavity.families.network import NETWORK
from cavity.families.table import FAMILIES
from cavity.inducing.base import Points
from cavity.kernels.patch_text import CONV
from cavity.kernels.stationary import RBF
from cavity.kernels.text_form import parse, text
from cavity.learning.cost import estimate_cost
from cavity.learning.double_precision import in_double
from cavity.learning.infer import NumericalError
from cavity.learning.mcmc.kernels import blackjax
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import TiedPowerEP
from cavity.learning.optimisers.lbfgs import GracefulStop, Progress
from cavity.likelihoods.gaussian import Gaussian
from cavity.models.gp import GP
from cavity.persistence import model_file as storage
from cavity.persistence.checkpoint import Checkpoint
from cavity.report.convergence import unconverged
from cavity.tables.table_model import TableModel

ESTIMATORS: dict[str, type[GPRegressor] | type[GPClassifier]] = {
    REGRESSION: GPRegressor,
    CLASSIFICATION: GPClassifier,
}
# Checks that need more than the options themselves.
OWN_CHECKS = {
    LINEAR.name: check_linear,
    NETWORK.name: check_network,
    IMAGES.chosen_by: check_images,
}
MINIBATCH = 1_000  # rows of a minibatch of a long table
# What Ctrl-C keeps of a fit by draws.
DRAWS_SO_FAR = "the draws so far, if they are enough for a model"
WORTH_SAYING = 10.0  # seconds of an estimate from which on it is printed


# ------------------------------------------------------------------- the command line


def check(request: Request) -> None:
    """A usage error for whatever is wrong before any file is opened."""
    if request.task is not None:
        with blaming("--task"):
            one_of("the task", request.task, TASKS)
    if request.likelihood is not None:
        with blaming("--likelihood"):
            one_of("the likelihood", request.likelihood, LIKELIHOODS)
    with blaming("--method"):
        one_of("the method", request.method, METHODS)
    family = asked_family(request, FAMILIES)
    own = OWN_CHECKS.get(family.chosen_by or family.name)
    if own is not None:
        own(request)
    with blaming("--mean"):
        one_of("the mean", request.mean, MEANS)
    if request.method == "mcmc":
        _check_draws(request)
    elif request.draws is not None:
        raise usage("--draws", "draws are made with --method mcmc only")
    if request.method == "tied" and request.inducing == "full":
        raise usage("--inducing", "'tied' needs inducing points: a number, or auto")
    check_power(request)
    inducing_points(request.inducing)
    check_inducing_kind(request)
    check_enough(request)
    if request.image_shape is None:
        check_kernel(request.kernel)
    sides = (request.noise_column, request.exposure_column)
    check_likelihood(request.task, request.likelihood, request.targets or (), *sides)
    asked = request.likelihood or (default_likelihood(request.task) if request.task else None)
    if asked is not None:
        check_method(request.method, asked)
    if request.batch_rows is not None:
        check_in_batches(request.method, request.inducing)
    if request.resume and request.checkpoint is None:
        raise usage("--resume", "it needs --checkpoint DIR, the folder to go on from")


def _check_draws(request: Request) -> None:
    """A usage error for draws of what they are not for, or without their package."""
    if request.inducing not in ("auto", "full"):
        raise usage("--inducing", "'mcmc' is for the full GP: leave --inducing out")
    if len(request.targets or ()) > 1:
        raise usage("--target", "'mcmc' takes one target; fit each one alone")
    with blaming("--method"):
        blackjax()


def inducing_points(given: str) -> int | str | None:
    """Value of --inducing, as the estimator takes it."""
    if given in ("auto", "enough", "full"):
        return None if given == "full" else given
    if not re.fullmatch(r"\d{1,9}", given) or int(given) < 1:
        text = f"'{given}' is not auto, enough, full or a whole number from 1 on"
        raise usage("--inducing", text)
    return int(given)


def check_kernel(given: str) -> None:
    """Reads the kernel as if every column that it names were there."""
    if re.search(rf"\b{CONV}", re.sub(r"\[[^\[\]]*\]", "", given)):
        raise usage(
            "--kernel",
            "sums over patches are for the classes of images here: give --image-shape, such as "
            "28x28, and --kernel conv5, conv3x7 or conv5 + rbf; for other targets use "
            "cavity.GPRegressor in Python",
        )
    inside = ",".join(re.findall(r"\[([^\[\]]*)\]", given))
    columns = {column.strip() for column in inside.split(",")} - {""}
    numbered = [int(column) for column in columns if column.isdecimal()]
    count = min(max(numbered, default=0) + 1, 10_000)
    names = [*map(str, range(count)), *sorted(columns - set(map(str, range(count))))]
    with blaming("--kernel"):
        parse(given, len(names), names)


# ---------------------------------------------------------------------------- the work


def fit_table(session: Session, request: Request) -> Outcome:
    """Fits a model to a table and writes it."""
    check(request)
    if request.image_shape is not None:
        request = dataclasses.replace(request, task=CLASSIFICATION)
    storage.check_output(request.out)
    kept = None
    if request.checkpoint is not None:
        kept = Checkpoint(request.checkpoint, resume=request.resume)
        kept.open()
    tables = read(session, request)
    if tables.batches is not None:
        request = in_batches(session, request, tables)
    fitted, interrupted = fit_model(session, request, tables, kept)
    fitted.save(request.out)
    if tables.test is not None:
        tested = fitted.record | {"test": fitted.metrics(tables.test)}
        fitted = dataclasses.replace(fitted, record=tested)
        fitted.save(request.out)
    if interrupted:
        held = "the draws" if request.method == "mcmc" else "the best model"
        session.note(f"interrupted; {request.out} holds {held} so far")
        if kept is not None:
            session.note("the same command with --resume goes on from here")
    elif not fitted.record["converged"]:
        session.warn(_not_converged(fitted.record))
    written = f"model written to {request.out} ({session.seconds:.1f} s)"
    text = f"{describe_fit(fitted)}\n\n{written}"
    return Outcome(fitted.record, text, INTERRUPTED if interrupted else 0)


def _not_converged(record: dict[str, Any]) -> str:
    """Message about a fit that did not converge, and its consequences for predictions."""
    problem = unconverged(record)
    assert problem is not None
    return f"not converged: {record['message']}. {problem.meaning}"


def fit_model(
    session: Session, request: Request, tables: Tables, kept: Checkpoint | None = None
) -> tuple[TableModel, bool]:
    """The fitted model, and whether it was interrupted."""
    if request.model == LINEAR.name:
        estimator, kernel = linear_estimator(request, tables), LINEAR.name
    elif request.model == NETWORK.name:
        estimator, kernel = network_estimator(request, tables), NETWORK.name
    elif request.image_shape is not None:
        estimator, kernel = images_estimator(request, tables), ""
    else:
        estimator, kernel = _of_functions(session, request, tables)
    stopped = _learned(estimator, request, tables, kept)
    check_finite(estimator)
    if isinstance(estimator, ConvGPClassifier):
        kernel = kernel_in_words(request, estimator)
    written = dataclasses.replace(request, kernel=kernel)
    return fitted_model(estimator, written, tables), stopped


def _of_functions(session: Session, request: Request, tables: Tables) -> tuple[Any, str]:
    """Estimator of Gaussian processes to fit, and its kernel by names of columns."""
    features = tables.schema.features
    encoder = tables.schema.encoder
    kernel = parse(encoder.with_features(request.kernel), len(features), features, encoder.groups)
    wanted = inducing_points(request.inducing)
    estimate(session, request, tables, wanted)
    if request.model != DEEP.name:
        note_class_form(session, request, tables, wanted)
    # by number, because the estimator sees no names
    return _estimator(request, tables, text(kernel), wanted), text(kernel, features)


def _learned(estimator: Any, request: Request, tables: Tables, kept: Checkpoint | None) -> bool:
    """Fits an estimator; whether it was interrupted."""
    train, spool = tables.train, tables.spool
    assert train.y is not None
    y = train.y[:, 0] if train.y.shape[1] == 1 else train.y
    side = train.side if spool is None else train.side | {"batches": tables.batches}
    line = progress(evidence=request.method != "mcmc", spool=spool)
    keeping = DRAWS_SO_FAR if request.method == "mcmc" else "the best model so far"
    with patient_interrupts(keeping) as interrupted, line as show, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is said in our own way

        begun: list[int] = []  # before the first iteration there is no model to keep
        ended: list[int] = []  # a pass ends once; those that the model needs then do not

        def callback(step: Progress) -> None:
            begun.append(step.iteration)
            show(step)
            if interrupted():
                ended.append(step.iteration)
                raise GracefulStop

        if spool is not None:
            spool.watch = interruptible(
                spool.watch, lambda: bool(begun) and not ended and interrupted(), ended
            )
        if kept is not None:
            side = side | {"checkpoint": kept}
        estimator.fit(tables.inputs, y, callback=callback, **side)
        return interrupted() or estimator.interrupted_


def _estimator(
    request: Request, tables: Tables, kernel: str, wanted: int | str | None
) -> GPRegressor | GPClassifier | DeepGPRegressor | DeepGPClassifier:
    """Estimator to fit."""
    if request.model == DEEP.name:
        return deep_estimator(request, tables, kernel, wanted)
    return ESTIMATORS[tables.task](
        kernel=kernel,
        likelihood=tables.likelihood,
        method=_method(request, minibatches=tables.spool is not None),
        power=request.used_power,
        mean=request.mean,
        priors=request.priors,
        n_restarts=request.restarts,
        max_iterations=request.max_iterations,
        random_state=request.seed,
        n_inducing=wanted,
        inducing_kind=request.inducing_kind,
    )


def _method(request: Request, *, minibatches: bool) -> str | Method:
    """The method as the estimator takes it."""
    if request.method == "tied" and minibatches:
        return TiedPowerEP(batch=MINIBATCH, seed=request.seed)
    if request.method != "mcmc":
        return request.method
    draws = 1000 if request.draws is None else request.draws
    warmup, keep = max(draws // 2, 1), min(200, 4 * draws)
    return MCMC(draws=draws, warmup=warmup, keep=keep, seed=request.seed)


def check_finite(estimator: AbstractEstimator) -> None:
    """Refuses a fit with values that are not finite."""
    found = (estimator.posterior_, estimator.log_evidence_)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
    floats = [leaf for leaf in leaves if np.issubdtype(leaf.dtype, np.floating)]
    if not all(np.all(np.isfinite(leaf)) for leaf in floats):
        raise NumericalError(
            "the fitted model has values that are not finite, so nothing was written; check the "
            "scale of the columns, or try another kernel"
        )


# ------------------------------------------------------------------------ while it works


def note_class_form(
    session: Session, request: Request, tables: Tables, wanted: int | str | None
) -> None:
    """Says on standard error where classes are independent because coupled ones take long."""
    if tables.task != CLASSIFICATION or tables.batches is not None:
        return
    classes = len(tables.schema.targets[0].categories)
    settings = Settings(
        likelihood=tables.likelihood,
        method=request.method,
        power=request.used_power,
        n_inducing=wanted,
        max_iterations=request.max_iterations,
        task=tables.task,
        classes=classes,
    )
    choice = with_affordable_form(settings, *tables.train.X.shape)[1]
    if choice:
        session.note(choice)


@in_double
def estimate(session: Session, request: Request, tables: Tables, wanted: int | str | None) -> None:
    """Says on standard error what a long fit will take; refuses what would take too long."""
    rows, inputs = tables.rows, tables.train.X.shape[1]
    if request.model == DEEP.name:
        session.note(
            "a deep model takes minutes; Ctrl-C stops learning and keeps the best model so far"
        )
        return
    method = build_method(request.method)
    points = wanted
    if wanted == "enough":
        wanted = points = "auto"
        if rows > FULL_ROWS:
            session.note("points are added until they are enough, which may take minutes")
    if wanted == "auto" and tables.batches is not None:
        points = AUTO_INDUCING
    elif wanted == "auto":
        classes = len(tables.schema.targets[0].categories)
        points = automatic_inducing(method, named_likelihood(tables.likelihood, classes), rows)
    if points is None:
        check_full_rows(rows)
    if method.samples:
        session.note(
            "draws take minutes; Ctrl-C stops them and keeps what there is, if it is enough"
        )
        return
    start = jax.numpy.zeros((min(int(points or 0), rows), inputs))
    inducing = None if points is None else Points(start)
    cost = estimate_cost(GP(RBF(), Gaussian(), inducing), rows, inputs)
    if cost.seconds > WORTH_SAYING:
        session.note(f"this fit may take {cost}; Ctrl-C stops it and keeps the best model so far")
