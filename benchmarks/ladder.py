"""Where sweeps of Power EP fail: which rungs of the fallback ladder are needed?

The problems are those of `robust_ep` that parallel sweeps did not finish: Student-t regression
with outliers, where the posterior has many modes. A third or a sixth of them is laid out as full
GP, with two outputs, as sparse GP with few and with many inducing points, and at power 0, where
the fallback is a line search; and the hardest, those that nothing but a descent of the free energy
finished, as full GP. Each is solved by sweeps and Newton's method, without any rung of the ladder
(`left_out` is "all rungs"). Where that fails, it is solved by the first rung alone, and where that
fails too, by others alone ("all but ..."). What the whole ladder does (`left_out` is
"nothing"), and what it does with one rung left out, follows from these runs, because a rung begins
anew where the ones before it have failed: the first rung that converges finishes, and sweeps and
seconds add up. These rows say so in the column `derived`. Two remarks: the double loop alone began
where sweeps ended, and in the ladder where the continuation in the power ended; and where sweeps
and Newton's method or a rung converge, rungs behind it are not reached, so that leaving them out
changes nothing and has no row.

Converged means that at the sites that were found the moments of every tilted distribution, by
dense quadrature of this script's own, equal those of the posterior to 1e-6. A run is stopped after
`--seconds` of processor time, which is what the column `seconds` counts, compilation included.
Rows that are there already are not run again. Rungs that were deleted since keep their rows.

python -m benchmarks.ladder [--seconds 60] [--summary]
"""

import argparse
import csv
import dataclasses
import itertools
import signal
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

import cavity
from benchmarks import robust_ep
from benchmarks.results import FOLDER, Table
from cavity.inference.solvers.fixed_point import find_fixed_point
from cavity.inference.solvers.settings import RUNGS, FixedPointSolver
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare
from cavity.learning.infer import as_dtype

TABLE = Table("ladder.csv", ("seed", "power", "layout", "left_out"))
LAYOUTS = ("full", "two outputs", "sparse", "sparse, many points")
AT_POWERS = ("continuation in the power", "noise continuation", "moment descent", "double loop")
AT_ZERO = ("line search",)
MATCHED, JITTER, SPARSE_JITTER = 1e-6, 1e-6, 1e-8
NO_RUNG, WHOLE = "all rungs", "nothing"


class Case(NamedTuple):
    """A problem: data, parameters, and the layout of the model.

    Attributes:
        X: inputs, (N, 1).
        y: outputs, (N, P).
        parameters: lengthscale, scale and df.
        inducing: inducing inputs, (M, 1); None for the full GP.
    """

    X: np.ndarray
    y: np.ndarray
    parameters: dict[str, float]
    inducing: np.ndarray | None


def case(seed: int, layout: str) -> Case:
    """A problem of `robust_ep` in a layout."""
    X, y, parameters = robust_ep.problem(seed)
    outputs, inducing = y[:, None], None
    if layout == "two outputs":
        # the outputs in reverse are as contradictory, at other inputs
        outputs = np.stack([y, y[::-1]], axis=1)
    if layout.startswith("sparse"):
        share = 3 if layout == "sparse" else 1.5
        count = max(3, round(len(y) / share))
        # quantiles of the inputs: no two points coincide
        inducing = np.quantile(X, np.linspace(0.0, 1.0, count), axis=0)
    return Case(X, outputs, parameters, inducing)


def model_of(problem: Case) -> cavity.GP:
    """The model; the White kernel keeps the covariance of close rows regular."""
    lengthscale, scale, df = (problem.parameters[k] for k in ("lengthscale", "scale", "df"))
    likelihood = cavity.likelihoods.StudentT(scale, df)
    kernel = cavity.kernels.RBF(1.0, lengthscale)
    if problem.inducing is not None:
        return cavity.GP(kernel, likelihood, inducing=cavity.inducing.Points(problem.inducing))
    return cavity.GP(kernel + cavity.kernels.White(JITTER), likelihood)


# ---- the check, which shares nothing with the library


def rbf(A: np.ndarray, B: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.exp(-0.5 * (A - B.T) ** 2 / lengthscale**2)


def projections(problem: Case) -> tuple[np.ndarray, np.ndarray]:
    """Loadings A and residual variances of f = A w + noise, with w standard normal."""
    lengthscale = problem.parameters["lengthscale"]
    if problem.inducing is None:
        K = rbf(problem.X, problem.X, lengthscale) + JITTER * np.eye(len(problem.X))
        return np.linalg.cholesky(K), np.zeros(len(problem.X))
    Kuu = rbf(problem.inducing, problem.inducing, lengthscale)
    L = np.linalg.cholesky(Kuu + SPARSE_JITTER * np.eye(len(Kuu)))
    A = np.linalg.solve(L, rbf(problem.inducing, problem.X, lengthscale)).T
    return A, np.maximum(1.0 - np.sum(A**2, axis=1), 0.0)


def mismatch(problem: Case, shift: np.ndarray, precision: np.ndarray, power: float) -> float:
    """The largest difference of moments over all rows and outputs, for given sites."""
    A, residual = projections(problem)
    outputs = zip(problem.y.T, shift.T, precision.T, strict=True)
    check = variational_gap if power == 0.0 else moment_gap
    return max(check(A, residual, *output, problem.parameters, power) for output in outputs)


def posterior(A: np.ndarray, shift: np.ndarray, precision: np.ndarray) -> tuple | None:
    """Means and variances of A w; None where there is no proper posterior."""
    P = np.eye(A.shape[1]) + A.T @ (precision[:, None] * A)
    if not np.all(np.isfinite(P)) or np.linalg.eigvalsh(P).min() <= 0.0:
        return None
    solved = np.linalg.solve(P, A.T)
    return solved.T @ (A.T @ shift), np.sum(A * solved.T, axis=1)


def moment_gap(A, residual, y, shift, precision, parameters: dict, power: float) -> float:
    """The mismatch of tilted distributions and posterior, at positive powers."""
    moments = posterior(A, shift, precision)
    if moments is None:
        return np.inf
    m, v = moments
    remaining = 1.0 - power * precision * v
    if np.any(remaining <= 0.0):
        return np.inf
    worst = 0.0
    cavities = ((m - power * v * shift) / remaining, v / remaining)
    for cm, cv, r, each, mean, var in zip(*cavities, residual, y, m, v, strict=True):
        scale, df = parameters["scale"], parameters["df"]
        f_mean, f_var = robust_ep.tilted(cm, cv + r, each, scale, df, power)
        # from moments of f to those of the projection, which has the share cv / (cv + r) of it
        gain = cv / (cv + r)
        t_mean, t_var = cm + gain * (f_mean - cm), cv - gain * cv + gain**2 * f_var
        worst = max(worst, abs(t_mean - mean) / np.sqrt(var), abs(t_var - var) / var)
    return worst


def variational_gap(A, residual, y, shift, precision, parameters: dict, power: float) -> float:
    """How far sites are from the slopes of the expected log density, in deviations."""
    moments = posterior(A, shift, precision)
    if moments is None:
        return np.inf
    m, v = moments
    s2, df = parameters["df"] * parameters["scale"] ** 2, parameters["df"]
    worst = 0.0
    for n, each in enumerate(y):
        deviation = np.sqrt(v[n] + residual[n])
        edges = np.concatenate(
            [m[n] + deviation * robust_ep.EVEN, each + parameters["scale"] * robust_ep.LADDER]
        )
        edges = np.unique(edges[np.abs(edges - m[n]) <= 12.0 * deviation])
        half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
        f = (middle + half * robust_ep.POINTS).ravel()
        weights = (half * robust_ep.WEIGHTS).ravel() * np.exp(-0.5 * ((f - m[n]) / deviation) ** 2)
        weights /= weights.sum()
        d = f - each
        slope = weights @ (-(df + 1.0) * d / (s2 + d**2))
        curvature = weights @ (-(df + 1.0) * (s2 - d**2) / (s2 + d**2) ** 2)
        by_mean = abs(slope - (shift[n] - precision[n] * m[n])) * np.sqrt(v[n])
        worst = max(worst, by_mean, abs(curvature + precision[n]) * v[n])
    return worst


# ---- runs


class TimeIsUp(Exception):
    """A run went on for too long."""


def _stop(*_: object) -> None:
    raise TimeIsUp


def run(seed: int, power: float, layout: str, rungs: tuple[str, ...], seconds: int) -> dict:
    """One run of the solver with some of the rungs; raises no error."""
    problem = case(seed, layout)
    model = model_of(problem)
    data = prepare(problem.X, problem.y, power=power)
    method = cavity.PowerEP()
    chosen = ("Newton's method", *rungs)
    solver: FixedPointSolver = dataclasses.replace(method.solver, rungs=chosen)
    jitter = 0.0 if problem.inducing is None else SPARSE_JITTER
    laid = data.problem(as_dtype(model, data), method.approximation, jitter)
    start = time.process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    gap, says, name, sweeps = np.inf, False, "stopped", 0
    try:
        with one_blas_thread():
            sites, report = find_fixed_point(laid, solver)
        says, name, sweeps = report.converged, report.finished_by, report.sweeps
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        ((store,),) = sites
        count = len(problem.y)
        gap = mismatch(
            problem, np.asarray(store.shift)[:count], np.asarray(store.precision)[:count], power
        )
    except TimeIsUp:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    took = time.process_time() - start
    return {
        "says_converged": says,
        "mismatch": float(gap),
        "converged": bool(gap < MATCHED),
        "finished_by": name,
        "sweeps": sweeps,
        "seconds": took,
    }


def identity(seed: int, power: float, layout: str) -> dict:
    problem = case(seed, layout)
    points = 0 if problem.inducing is None else len(problem.inducing)
    return {
        "problem": "Student-t regression",
        "seed": seed,
        "power": power,
        "layout": layout,
        "n": len(problem.y),
        "inducing": points,
    }


def measure(seed: int, power: float, layout: str, left_out: str, rungs: tuple, limit: int) -> dict:
    """A measured row, run if it is not there."""
    key = {"seed": str(seed), "power": f"{power:g}", "layout": layout, "left_out": left_out}
    for row in TABLE.rows():
        if all(row[name] == value for name, value in key.items()):
            return row
    result = run(seed, power, layout, rungs, limit)
    row = identity(seed, power, layout) | {"left_out": left_out, "derived": False} | result
    TABLE.add(row)
    print(*(row[name] for name in ("seed", "power", "layout", "left_out")), end=": ")
    print(*(row[name] for name in ("converged", "finished_by", "seconds")), flush=True)
    return {name: str(value) for name, value in row.items()}


def alone(each: tuple[int, float, str], rung: str, limit: int) -> dict[str, str]:
    """A row of sweeps, Newton's method and one rung."""
    return measure(*each, f"all but {rung}", (rung,), limit)


def derive(each: tuple[int, float, str], results: dict[str, dict[str, str]]) -> None:
    """Rows of the whole ladder, and with each rung left out, as far as they follow from runs."""
    base, rungs = results[NO_RUNG], ladder_at(each[1])
    for left_out in (WHOLE, *rungs):
        last, seconds, sweeps = base, float(base["seconds"]), int(base["sweeps"])
        for rung in rungs:
            if rung == left_out:
                continue
            last = results.get(rung)
            if last is None:
                break
            # every run alone made the sweeps of the base once more
            seconds += max(0.0, float(last["seconds"]) - float(base["seconds"]))
            sweeps += max(0, int(last["sweeps"]) - int(base["sweeps"]))
            if last["converged"] == "True":
                break
        if last is None:
            continue
        names = ("says_converged", "mismatch", "converged", "finished_by")
        found = {name: last[name] for name in names} | {"sweeps": sweeps, "seconds": seconds}
        TABLE.add(identity(*each) | {"left_out": left_out, "derived": True} | found)


def ladder_at(power: float) -> tuple[str, ...]:
    """The rungs for a power, in their order."""
    return AT_ZERO if power == 0.0 else AT_POWERS


def hard_problems() -> tuple[list[tuple[int, float]], list[int]]:
    """Problems of `robust_ep` that parallel sweeps did not finish: the hardest, and a third.

    The hardest are those at which a descent of the free energy was the one that finished.
    """
    with (FOLDER / "robust_ep.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["finished_by"] != "parallel sweeps"]
    hardest = [row for row in rows if row["finished_by"] == "moment descent"]
    third = sorted({int(row["seed"]) for row in rows})[::3]
    return [(int(row["seed"]), float(row["power"])) for row in hardest], third


def cases() -> Iterator[list[tuple[int, float, str]]]:
    """Groups of problems, one for each setting."""
    hardest, third = hard_problems()
    sixth = third[::2]
    yield [(seed, 1.0, "sparse") for seed in third]
    yield [(seed, 0.0, "full") for seed in third]
    yield [(seed, power, "full") for seed, power in hardest]
    yield [(seed, 1.0, "full") for seed in sixth if (seed, 1.0) not in hardest]
    yield [(seed, 1.0, "sparse, many points") for seed in sixth]
    yield [(seed, 0.0, "sparse") for seed in sixth]
    yield [(seed, 1.0, "two outputs") for seed in sixth[::2]]


def summary() -> None:
    """The table of docs/benchmarks/robust.md: who finishes, and what is lost without each rung."""
    rows = TABLE.rows()
    rungs = (*AT_ZERO, *AT_POWERS)
    print("| setting | problems | sweeps | Newton's method |", " | ".join(rungs), "|")
    print("|" + "---|" * (len(rungs) + 4))
    for layout, zero in itertools.product(LAYOUTS, (False, True)):
        mine = [r for r in rows if r["layout"] == layout and (float(r["power"]) == 0.0) is zero]
        base = Counter(finisher(r) for r in mine if r["left_out"] == NO_RUNG)
        if not base:
            continue
        cells = [f"{layout}, power {'0' if zero else '> 0'}", sum(base.values())]
        cells += [base["parallel sweeps"], base["Newton's method"]]
        for rung in rungs:
            alone = [r for r in mine if r["left_out"] == f"all but {rung}"]
            good = sum(r["converged"] == "True" for r in alone)
            cells.append(f"{good} of {len(alone)}" if alone else "")
        print("|", " | ".join(map(str, cells)), "|")
    for left_out in (WHOLE, *rungs):
        mine = [r for r in rows if r["left_out"] == left_out]
        failed = [f"{r['layout']} {r['seed']}" for r in mine if r["converged"] != "True"]
        print(f"{left_out} left out: {len(failed)} of {len(mine)} fail: {', '.join(failed)}")


def finisher(row: dict[str, str]) -> str:
    """What finished a run; nothing where it did not converge."""
    return row["finished_by"] if row["converged"] == "True" else "nothing"


Results = dict[tuple[int, float, str], dict[str, dict[str, str]]]


def failing(group: list[tuple[int, float, str]], limit: int) -> Results:
    """Problems of a group on which sweeps and Newton's method fail, with the rungs they need.

    The double loop, which takes longest, is only tried where no other rung converges, but for the
    sparse GP with few points, where it always is.
    """
    results: Results = {}
    for each in group:
        base = measure(*each, NO_RUNG, (), limit)
        if base["converged"] == "True":
            continue
        first, *others = ladder_at(each[1])
        rows = results[each] = {NO_RUNG: base, first: alone(each, first, limit)}
        for rung in others if rows[first]["converged"] != "True" else ():
            finished = any(row["converged"] == "True" for row in rows.values())
            if rung in RUNGS and (rung != "double loop" or not finished or each[2] == "sparse"):
                rows[rung] = alone(each, rung, limit)
        derive(each, rows)
    return results


def without_the_first(results: Results, limit: int) -> None:
    """Rungs that are only reached where the first, which converges, is left out."""
    for each, rows in results.items():
        first, *others = ladder_at(each[1])
        if rows[first]["converged"] != "True":
            continue
        for rung in (rung for rung in others if rung in RUNGS):
            rows[rung] = alone(each, rung, limit)
            if rows[rung]["converged"] == "True":
                break
        derive(each, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--summary", action="store_true")
    asked = parser.parse_args()
    if not asked.summary:
        with jax.enable_x64(True), warnings.catch_warnings(action="ignore"):
            every = [failing(group, asked.seconds) for group in cases()]
            for results in every:
                without_the_first(results, asked.seconds)
    summary()


if __name__ == "__main__":
    main()
