"""Inference at fixed parameters."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from cavity.inference.energy import Graph, Sites, beliefs, empty_sites, energy
from cavity.inference.methods import PowerEP
from cavity.inference.sweep import SweepRecord, parallel
from cavity.learning.data import Data, prepare
from cavity.models.base import AbstractModel
from cavity.models.posterior import AbstractPosterior, posterior_of
from cavity.numerics.linalg import MOST_JITTER, escalate
from cavity.numerics.powers import frozen
from cavity.numerics.summary import named
from cavity.numerics.types import Array, Scalar


class NumericalError(RuntimeError):
    """A computation that stayed undefined after every remedy; the message names a culprit."""


@dataclasses.dataclass(frozen=True)
class SiteReport:
    """How the sites came about.

    Attributes:
        sweeps: sweeps made (0 where every factor is exact).
        residual: largest change of a moment that a further sweep would make, in deviations.
        skipped: sites skipped in the last sweep.
        finished_by: the method that finished.
    """

    sweeps: int
    residual: float
    skipped: int
    finished_by: str


@dataclasses.dataclass(frozen=True)
class Inference:
    """The result of inference at fixed parameters.

    Attributes:
        posterior: the posterior process.
        log_evidence: approximate log marginal likelihood, nats, summed over the data.
        converged: whether the sites reached their tolerance.
        message: why it ended, in a sentence.
        jitter: share of the mean prior variance that was added to the covariance that had to be
            factorised; 0.0 for a full GP that needed none.
        sites: how the sites came about.
    """

    posterior: AbstractPosterior
    log_evidence: float
    converged: bool
    message: str
    jitter: float
    sites: SiteReport


@functools.cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  JAX's LAPACK; the controller sees only what is loaded
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()


class _OneThread:
    """The limit on BLAS threads: one for the whole process, so its users are counted."""

    def __init__(self) -> None:
        self.lock, self.users, self.restore = threading.Lock(), 0, _nothing

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                limiter = _aside(lambda: _controller().limit(limits=1, user_api="blas"))
                self.restore = limiter.restore_original_limits
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                _aside(self.restore)


def _nothing() -> None:
    """What there is to restore at first."""


def _aside(work: Callable[[], Any]) -> Any:
    """What a function gives in a thread of its own.

    The thread that sets a limit owns it while it lives, and nobody else can restore it.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


_ONE_THREAD = _OneThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """One BLAS thread inside: LAPACK's threads spin against JAX's and cost up to 700 times.

    Several threads may be inside at once: the first one in sets the limit, the last one out
    restores what was there.
    """
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()


def infer(
    model: AbstractModel,
    X: Any,
    y: Any,
    *,
    power: Any = 0.5,
    method: PowerEP = PowerEP(),
    jitter: float = 1e-8,
    blocks: Any = None,
    rows: Mapping[str, Any] | None = None,
    missing: str = "error",
) -> Inference:
    r"""Posterior and evidence of a model at its present parameters.

    With Gaussian noise the result is in closed form. At power 0 it is the variational bound
    (VFE), at 1 FITC (with `blocks`, PITC), in between Power EP; without inducing variables every
    power gives the exact GP.

    Args:
        model: the model; its parameters are used as they are.
        X: inputs, (N, D).
        y: outputs, (N,) or (N, P).
        power: a number in [0, 1], or one per row.
        method: how sites are found.
        jitter: share of the mean prior variance added to the diagonal of the covariance of
            the inducing variables; raised ten-fold at a time where a factorisation fails. A full
            GP starts without any.
        blocks: one integer label per row: rows of a block share a site (PITC at power 1).
        rows: side data per row, `{"noise_variance": (N,)}`: noise variances that are known and
            take the place of the likelihood's.
        missing: "error", or "skip" to leave out outputs that are NaN.

    Returns:
        The posterior process, the log evidence in nats, and how they came about.

    Raises:
        ValueError: for unusable data.
        TypeError: for data that are not numbers, or float64 data in 32-bit mode.
        NumericalError: where no jitter up to 1e-3 makes the covariance positive definite.

    References:
        Bui (2017), S21 to S27; Turner's slides, S7 and S10.
    """
    check_model(model, blocks, method)
    data = prepare(X, y, power=power, blocks=blocks, rows=rows, missing=missing)
    return infer_from(as_dtype(model, data), data, method, first_jitter(model, jitter))


def check_model(model: AbstractModel, blocks: Any, method: Any) -> None:
    """Refuses what is no method (TypeError), and combinations that make no sense (ValueError)."""
    if not isinstance(method, PowerEP):
        raise TypeError(f"method must be an object such as cavity.PowerEP(), given {method!r}")
    if blocks is not None and model.inducing is None:
        raise ValueError(
            "blocks change nothing in a full GP, which is exact; give the model inducing "
            "variables or leave blocks=None"
        )


def first_jitter(model: AbstractModel, jitter: float) -> float:
    """The jitter to begin with: none for a full GP.

    Raises:
        ValueError: for a jitter outside [0, 1e-3].
    """
    if not 0.0 <= jitter <= MOST_JITTER:
        raise ValueError(f"jitter must lie in [0, {MOST_JITTER:g}], given {jitter}")
    return 0.0 if model.inducing is None else jitter


def as_dtype(model: AbstractModel, data: Data) -> AbstractModel:
    """The model with its parameters as JAX arrays of the data's precision."""
    dtype = data.rows.x.dtype

    def cast(leaf: Any) -> Any:
        floating = eqx.is_inexact_array(leaf) or isinstance(leaf, float | np.floating)
        return jnp.asarray(leaf, dtype) if floating else leaf

    return jax.tree.map(cast, model)


def infer_from(
    model: AbstractModel, data: Data, method: PowerEP, jitter: float, sites: Sites | None = None
) -> Inference:
    """`infer` on prepared data, from the given sites (None: from zero)."""
    level: float | None = jitter
    with one_blas_thread():
        while level is not None:
            used = jnp.asarray(level, data.rows.x.dtype)
            posterior, value, record = _run(model, data, method, used, sites)
            if np.isfinite(value):
                return _report(posterior, value, record, level)
            level = escalate(level)
    raise NumericalError(culprit(model, data))


def _report(
    posterior: AbstractPosterior, value: Array, record: SweepRecord | None, jitter: float
) -> Inference:
    if record is None:
        sites = SiteReport(0, 0.0, 0, "exact")
        return Inference(posterior, -float(value), True, "closed form", jitter, sites)
    count, skipped = int(record.sweeps), round(float(record.skipped))
    sites = SiteReport(count, float(record.residual), skipped, "parallel sweeps")
    converged = bool(record.converged)
    message = f"sites converged after {count} sweeps"
    if not converged:
        message = (
            f"sites did not converge: {count} sweeps left a residual of {sites.residual:.2g} "
            f"deviations and {skipped} sites skipped"
        )
    return Inference(posterior, -float(value), converged, message, jitter, sites)


@eqx.filter_jit
def _run(
    model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar, sites: Sites | None
) -> tuple[AbstractPosterior, Scalar, SweepRecord | None]:
    graph = lay_out(model, data, method, jitter)
    found, record = settle(graph, data, method, sites)
    (belief,) = beliefs(graph, found)
    factor = graph.factors[0]
    edge = factor.edge if record is None else factor.edges[0]  # type: ignore[union-attr]
    posterior = posterior_of(model, edge.view, belief, data.rows, single=data.single)  # type: ignore[arg-type]
    return posterior, energy(graph, found), record


def lay_out(model: AbstractModel, data: Data, method: PowerEP, jitter: Scalar) -> Graph:
    """The model's graph on prepared data."""
    return model.graph(data.rows, power=data.power, method=method, jitter=jitter, chunk=data.chunk)


def settle(
    graph: Graph, data: Data, method: PowerEP, sites: Sites | None
) -> tuple[Sites, SweepRecord | None]:
    """The sites at their fixed point, constant under differentiation; no record if all exact."""
    start = empty_sites(graph) if sites is None else sites
    if all(store is None for store in start):
        return start, None
    still = frozen(graph)
    step = method.step
    if step is None:
        step = 1.0 if isinstance(data.power, float) and data.power == 0.0 else data.power
        step = 1.0 if data.rows.power is not None else step
    found, record = parallel(
        still, start, step=step, tolerance=method.tolerance, max_sweeps=method.max_sweeps
    )
    return frozen(found), record


def culprit(model: AbstractModel, data: Data) -> str:
    """A sentence on why the covariance cannot be factorised, and what to do."""
    bad = [
        name
        for name, value in named(model).items()
        if eqx.is_inexact_array(value) and not np.all(np.isfinite(np.asarray(value)))
    ]
    if bad:
        return f"the parameter {bad[0]} is not finite; start from finite values"
    huge = max(float(np.max(np.abs(np.asarray(a)))) for a in (data.rows.x, data.rows.y))
    if huge > 1e100:
        return (
            f"the data reach {huge:.1e}, too large to square; change their units (for example, "
            "divide by their standard deviation)"
        )
    zero = [
        name
        for name, value in named(model).items()
        if not np.all(np.asarray(value) != 0.0)
        and name.rsplit(".", 1)[-1] in ("variance", "lengthscale", "period", "factor")
    ]
    if zero:
        return f"the parameter {zero[0]} is zero; variances and lengthscales must be positive"
    return (
        "the covariance matrix is not positive definite even with a jitter of "
        f"{MOST_JITTER:g} of its mean variance. Likely culprits: a kernel that is not positive "
        "semi-definite, or parameters far outside the scale of the data (print the model)"
    )
