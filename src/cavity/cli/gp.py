"""`cavity fit` for Gaussian processes, and for layers of them."""

from typing import Any

import jax

from cavity.cli.long_tables import in_batches
from cavity.cli.rows import E, FitRows
from cavity.cli.session import blaming, usage
from cavity.columns.kernel_columns import with_numbers
from cavity.estimators.class_form import with_affordable_form
from cavity.estimators.classifier import GPClassifier
from cavity.estimators.deep import DeepGPClassifier, DeepGPRegressor
from cavity.estimators.registry import CLASSIFICATION, Method, build_method, named_likelihood
from cavity.estimators.regressor import GPRegressor
from cavity.estimators.settings import (
    AUTO_INDUCING,
    FULL_ROWS,
    Settings,
    automatic_inducing,
    check_full_rows,
)
from cavity.inducing.base import Points
from cavity.kernels.patch_text import CONV
from cavity.kernels.stationary import RBF
from cavity.kernels.text_form import read
from cavity.kernels.text_syntax import Mentioned
from cavity.learning.cost import estimate_cost
from cavity.learning.double_precision import in_double
from cavity.learning.initialisation.asked_inducing import Inducing
from cavity.learning.mcmc.kernels import blackjax
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import TiedPowerEP
from cavity.likelihoods.gaussian import Gaussian
from cavity.models.gp import GP
from cavity.parameters.priors_text import prior_of
from cavity.tables.records import written_kernel

MINIBATCH = 1_000  # rows of a minibatch of a long table
WORTH_SAYING = 10.0  # seconds of an estimate from which on it is printed


class FitKernels(FitRows[E]):
    """A model with a kernel of the columns."""

    def check(self) -> None:
        """Raises a usage error for a kernel that cannot be read, and as for all rows."""
        check_kernel(self.asked["kernel"])
        super().check()

    def settings(self) -> dict[str, Any]:
        """The kernel by numbers of columns, because the estimator sees no names."""
        given, schema = self.asked["kernel"], self.tables.schema
        written_kernel(given, schema)
        places = {name: [number] for number, name in enumerate(schema.features)}
        return {"kernel": with_numbers(schema.encoder.with_features(given), places)}


class FitGP(FitKernels[GPRegressor | GPClassifier]):
    """A Gaussian process of one layer."""

    @property
    def samples(self) -> bool:
        """True for draws."""
        return self.asked["method"] == "mcmc"

    def check(self) -> None:
        """Raises a usage error for draws without their package, and as for all kernels."""
        if self.asked["method"] == "mcmc":
            with blaming("--method"):
                blackjax()
        super().check()

    def read(self) -> None:
        """Opens the tables, and says what a long fit will take."""
        super().read()
        if self.tables.long is not None:
            self.asked = in_batches(self.session, self.asked, self.tables.likelihood)

    def estimator(self) -> GPRegressor | GPClassifier:
        """The estimator, after a word on how long it will take."""
        self.settings()  # which refuses a kernel of columns that are not there
        self._estimate()
        self._note_class_form()
        return super().estimator()

    def settings(self) -> dict[str, Any]:
        """Kernel, method, priors and inducing variables as the estimator takes them."""
        settings = super().settings() | {"method": self._method()}
        with blaming("--prior"):
            priors = {name: prior_of(text) for name, text in (self.asked["prior"] or {}).items()}
        settings |= {"priors": priors} if priors else {}
        kind = self.asked["inducing_kind"]
        return settings if kind == "points" else settings | {"inducing": Inducing(kind=kind)}

    def _method(self) -> str | Method:
        method, seed, draws = self.asked["method"], self.request.seed, self.asked["draws"]
        if method == "tied" and self.tables.long is not None:
            return TiedPowerEP(batch=MINIBATCH, seed=seed)
        if method != "mcmc":
            return method
        return MCMC(draws=draws, warmup=max(draws // 2, 1), keep=min(200, 4 * draws), seed=seed)

    def _note_class_form(self) -> None:
        """Says on standard error where classes are independent as coupled ones take long."""
        tables = self.tables
        if tables.task != CLASSIFICATION or tables.long is not None:
            return
        settings = Settings(
            likelihood=tables.likelihood,
            method=self.asked["method"],
            power=self.asked["power"],
            n_inducing=self.asked["n_inducing"],
            max_iterations=self.asked["max_iterations"],
            task=tables.task,
            classes=len(tables.schema.targets[0].categories),
        )
        choice = with_affordable_form(settings, *tables.train.X.shape)[1]
        if choice:
            self.session.note(choice)

    @in_double
    def _estimate(self) -> None:
        """Says on standard error what a long fit will take; refuses what would take too long."""
        tables, session, points = self.tables, self.session, self.asked["n_inducing"]
        rows, inputs = tables.rows, tables.train.X.shape[1]
        method = build_method(self.asked["method"])
        if points == "enough":
            points = "auto"
            if rows > FULL_ROWS:
                session.note("points are added until they are enough, which may take minutes")
        if points == "auto" and tables.long is not None:
            points = AUTO_INDUCING
        elif points == "auto":
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
            session.note(
                f"this fit may take {cost}; Ctrl-C stops it and keeps the best model so far"
            )


class FitDeep(FitKernels[DeepGPRegressor | DeepGPClassifier]):
    """Layers of Gaussian processes."""

    def estimator(self) -> DeepGPRegressor | DeepGPClassifier:
        """The estimator, after a word on how long it will take."""
        self.session.note(
            "a deep model takes minutes; Ctrl-C stops learning and keeps the best model so far"
        )
        return super().estimator()


def check_kernel(given: str) -> None:
    """Reads the kernel as if every column that it names were there."""
    with blaming("--kernel"):
        words, mentioned = Mentioned(given).words, {*Mentioned(given).columns}
    if any(word.startswith(CONV) for word in words):
        raise usage(
            "--kernel",
            "sums over patches are for the classes of images here: give --image-shape, such as "
            "28x28, and --kernel conv5, conv3x7 or conv5 + rbf; for other targets use "
            "cavity.GPRegressor in Python",
        )
    numbered = [int(column) for column in mentioned if column.isdecimal() and len(column) < 6]
    count = min(max(numbered, default=0) + 1, 10_000)
    names = [*map(str, range(count)), *sorted(mentioned - set(map(str, range(count))))]
    with blaming("--kernel"):
        read(given, len(names), names)
