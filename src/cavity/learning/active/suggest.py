"""Active learning: which rows to measure next, chosen one after the other."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.learning.active.greedy import chosen_rows, gains_alone
from cavity.learning.active.improvement import (
    check_sought,
    improving_rows,
    measured_rows,
    unmeasured,
)
from cavity.learning.active.pool import Pool
from cavity.learning.blas_threads import with_one_blas_thread
from cavity.learning.results.result import Inference
from cavity.models.posterior import Posterior
from cavity.numerics.text import plural

CRITERIA = ("information", "variance", "integrated", "improvement")
# Criteria that a reference is for, and the one that has a goal.
WITH_REFERENCE, WITH_GOAL = ("integrated", "improvement"), "improvement"
# Values of latent functions whose joint covariance is held, of candidates and of the reference.
JOINT = 1024
# The share of the reference by which many candidates are screened: one of so many rows.
SCREENING = 4


@dataclasses.dataclass(frozen=True)
class Suggestions:
    """Rows to measure next, in the order chosen.

    Attributes:
        rows: numbers of the chosen rows among the candidates, counted from 0.
        gains: what each adds to those before it: nats of information, variance in squared units
            of f, or the log of the expected improvement, whose exponential is in units of f.
        criterion: by which they were chosen.
        message: what was left out or replaced, in sentences; empty where nothing was.
    """

    rows: np.ndarray
    gains: np.ndarray
    criterion: str
    message: str = ""


@with_one_blas_thread
def suggest(
    posterior: Any,
    candidates: ArrayLike,
    n: Any = 10,
    criterion: str = "information",
    reference: ArrayLike | None = None,
    rows: Mapping[str, ArrayLike] | None = None,
    goal: str | None = None,
) -> Suggestions:
    r"""Active learning: the candidate rows that are most worth measuring, chosen greedily.

    After each choice the row enters by the site that it is expected to have, which lowers the
    joint covariance of the others: from $\mathbf C$ to $\mathbf C - \mathbf c J \mathbf c^\top$,
    with J the Fisher information of the row's output about the mean of f. Means stay. With
    Gaussian noise that is exact, for other outputs it is the expected covariance.

    With "improvement" the function is minimised or maximised: the gain is the log of
    $\mathbb E \max(b - f, 0)$, or of $\mathbb E \max(f - b, 0)$. Outputs are noisy, so b is no
    output but the best value of f at the rows that were measured, or chosen before; the average
    is over draws of f at these rows too.

    Args:
        posterior: of a `GP`; or the result that it is of.
        candidates: inputs of the rows that could be measured, (n, D).
        n: how many to choose.
        criterion: "information", the mutual information of y and f at the row; "variance", the
            variance of f there; "integrated", by how much the row lowers the mean variance of f
            over the reference; "improvement", by how much f is expected to be better there than
            the best so far. Variances are means over outputs; of several latent functions of
            one output they are of the first, of classes means over all. Improvement is of one
            output, of its first latent function, not of classes.
        reference: inputs where f matters, for "integrated", the candidates where it is None; for
            "improvement" the rows that were measured. Where it is None these are the rows of the
            result, or of a posterior of a full GP.
        rows: side data of the candidates, as in `posterior.predict`.
        goal: "minimise" or "maximise", for "improvement"; None is "minimise".

    Returns:
        The chosen rows and their gains. Equal candidates are chosen once, and by "improvement"
        none that was measured.

    Raises:
        ValueError: for inputs that do not suit the model, n below 1, an unknown criterion or
            goal, and, with "improvement", for classes, several outputs, and a sparse posterior
            without its result or a reference.
        TypeError: for a posterior without a joint Gaussian distribution of f.

    Example:
        >>> import numpy as np, cavity
        >>> from cavity import kernels, likelihoods
        >>> X = np.array([[0.0], [1.0]], np.float32)
        >>> model = cavity.GP(kernels.RBF(), likelihoods.Gaussian(0.1))
        >>> result = cavity.infer(model, X, np.sin(X[:, 0]))
        >>> cavity.suggest(result, np.array([[0.1], [3.0], [0.9]], np.float32), n=1).rows.tolist()
        [1]

    References:
        Bui (2017), S52; Houlsby et al. (2011); Cohn et al. (1996); Letham et
        al. (2019); Ament et al. (2023).
    """
    data = None
    if isinstance(posterior, Inference):
        posterior, data = posterior.posterior, posterior.data
    check_joint(posterior)
    if criterion not in CRITERIA:
        raise ValueError(f"criterion is one of {', '.join(CRITERIA)}, given {criterion!r}")
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ValueError(f"n is how many rows to choose, a whole number from 1 on, given {n!r}")
    _check_options(posterior, criterion, reference, goal)
    X, side = posterior.checked(candidates, rows)
    if "slope_of" in side:
        raise ValueError("values of the function are suggested, not slopes: leave slope_of out")
    places = None if reference is None else np.asarray(posterior.checked_inputs(reference))
    if criterion == WITH_GOAL and places is None:
        places = measured_rows(posterior, data)
    pool = Pool(posterior, np.asarray(X), side, criterion)
    return _choose(pool, int(n), places, goal)


def _check_options(
    posterior: Posterior, criterion: str, reference: ArrayLike | None, goal: str | None
) -> None:
    if reference is not None and criterion not in WITH_REFERENCE:
        those = " and ".join(map(repr, WITH_REFERENCE))
        raise ValueError(f"a reference is for {those}, not for {criterion!r}: leave it out")
    if criterion == WITH_GOAL:
        check_sought(posterior, goal)
    elif goal is not None:
        raise ValueError(f"a goal is for {WITH_GOAL!r}, not for {criterion!r}: leave it out")


@functools.singledispatch
def check_joint(posterior: object) -> None:
    """Raises TypeError unless f has a joint Gaussian distribution that rows can lower."""
    raise TypeError(
        "rows are suggested by the joint Gaussian posterior of a cavity.GP, given "
        f"{type(posterior).__name__}: infer or fit a GP to the same data (not by MCMC, and "
        "without hidden layers or latent inputs) and give its posterior, which an estimator "
        "has as posterior_"
    )


@check_joint.register
def _(posterior: Posterior) -> None:
    """A GP has a joint distribution."""


def _choose(pool: Pool, n: int, places: np.ndarray | None, goal: str | None) -> Suggestions:
    index, said = pool.distinct(), []
    if pool.criterion == WITH_GOAL and places is not None:
        count = len(index)
        index = unmeasured(pool, index, places)
        if len(index) < count:
            measured = plural(count - len(index), "candidate")
            said.append(f"{measured} that had been measured cannot improve: left out.")
    if n > len(index):
        said.append(f"There are {plural(len(index), 'distinct candidate')}: all are returned.")
    n, limit = min(n, len(index)), max(JOINT // pool.latents, 16)
    if pool.criterion == WITH_GOAL and places is not None:
        chosen, gains = improving_rows(pool, index, places, n, goal, limit)
        return Suggestions(index[chosen], gains, pool.criterion, " ".join(said))
    if pool.criterion == "integrated":
        places = pool.X if places is None else places
        if len(places) > limit:
            said.append(f"{limit} of {len(places)} rows stand for the reference.")
            places = _thinned(places, limit)
    else:
        places = pool.X[:0]
    keep = max(limit, n)
    if len(index) > keep:
        said.append(
            f"The {keep} of {len(index)} candidates with the largest gains alone were compared."
        )
        gains = gains_alone(pool, index, _thinned(places, limit // SCREENING), limit)
        index = np.sort(index[np.argsort(-gains, kind="stable")[:keep]])
    chosen, gains = chosen_rows(pool, index, places, n)
    return Suggestions(index[chosen], gains, pool.criterion, " ".join(said))


def _thinned(places: np.ndarray, most: int) -> np.ndarray:
    """Some of the rows, evenly spaced, where there are more."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(int)]
