"""What approximations make of the first 100 of Snelson's rows: E9 and E15 to E17 of chapter 3.

few: figure 3.1, eight points, found by restarts and then one at a time, beside the full GP.
proofs: figure 3.6, FITC of the best of four random starts beside upper bounds of the evidence at
its own points, and at points that make the bound as low as they can from the same start.
larger: figure 3.7, the upper bounds of these models with ever more points.
offsets: figure 3.8, all points moved along the axis together, at the parameters of the full GP.

python -m benchmarks.snelson [--only few proofs larger offsets]
"""

import argparse
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import cavity
from benchmarks.bracket import snelson
from benchmarks.diagnosis import all_of_snelson, fitted, sparse
from benchmarks.results import Table
from cavity import diagnostics, fitting, inducing, initialisation, kernels, likelihoods

FEW = Table("snelson_few.csv", ("power",))
PROOFS = Table("snelson_proofs.csv", ("M",))
LARGER = Table("snelson_larger.csv", ("M", "points"))
OFFSETS = Table("snelson_offsets.csv", ("offset",))
STARTS, SIZES = 4, (4, 6, 8, 10, 15, 25)


@functools.cache
def rows() -> tuple[np.ndarray, np.ndarray]:
    """The first 100 rows, outputs about their mean."""
    X, y = snelson()
    return X, y - y.mean()


@functools.cache
def full() -> Any:
    """The full GP, learned."""
    start = cavity.GP(kernels.RBF(1.0, np.ones(1)), likelihoods.Gaussian(0.1))
    return cavity.fit(start, *rows())


def exact(model: Any) -> float:
    """The exact log evidence at the parameters of a sparse model."""
    return float(cavity.infer(cavity.GP(model.kernel, model.likelihood), *rows()).log_evidence)


# ------------------------------------------------------------------------------- figure 3.1


def grown(power: float, points: int = 8) -> Any:
    """Half of the points by restarts; then each where it gains most, and all learned again."""
    X, y = rows()
    best = best_start(power, points // 2)[0]
    places = np.linspace(X.min(), X.max(), 100)[:, None]
    while len(best.model.inducing.Z) < points:
        Z = np.asarray(best.model.inducing.Z)
        values = [at(best.model, np.vstack([Z, place]), power) for place in places]
        Z = np.vstack([Z, places[np.argmax(values)]])
        learned = fitted(at_points(best.model, Z), X, y, power)
        best = learned
    return best


def at_points(model: Any, Z: np.ndarray) -> cavity.GP:
    return cavity.GP(model.kernel, model.likelihood, inducing.Points(Z))


def at(model: Any, Z: np.ndarray, power: float) -> float:
    """The log evidence of a model with other points, minus infinity where there is none."""
    try:
        return float(cavity.infer(at_points(model, Z), *rows(), power=power).log_evidence)
    except fitting.NumericalError:
        return -np.inf


def best_start(power: float, points: int) -> tuple[Any, np.ndarray]:
    """The fit of the largest log evidence from four random choices of the rows, and its start."""
    X, y = rows()
    found = []
    for start in range(STARTS):
        Z = X[np.random.default_rng(start).choice(len(X), points, replace=False)]
        found.append((fitted(sparse(X, Z), X, y, power), Z))
    return max(found, key=lambda pair: float(pair[0].log_evidence))


def few() -> None:
    """Both approximations with eight points, and the full GP, on the other 100 rows."""
    X, y = rows()
    others, outputs = all_of_snelson()
    # centred by the rows that are learned from
    others, outputs = others[100:], outputs[100:] - outputs[:100].mean()
    grid = np.linspace(X.min(), X.max(), 200)[:, None]
    reference = full().posterior.marginals(grid)
    for power in (0.0, 0.5, 1.0, "full"):
        if FEW.has(power=power):
            continue
        result = full() if isinstance(power, str) else grown(power)
        out, f = result.posterior.predict(others), result.posterior.marginals(grid)
        away = (np.asarray(f.mean) - reference.mean) / np.sqrt(np.asarray(reference.var))
        here = result.posterior.marginals(X)
        row = {
            "power": power,
            "objective": -float(result.log_evidence),
            "exact": -exact(result.model),
            "noise": float(np.sqrt(result.model.likelihood.variance)),
            "nlpd": -float(np.mean(out.log_density(jnp.asarray(outputs)))),
            "rmse": float(np.sqrt(np.mean((np.asarray(out.mean) - outputs) ** 2))),
            "residual": float(np.sqrt(np.mean((np.asarray(here.mean) - y) ** 2))),
            "mean_off": float(np.sqrt(np.mean(away**2))),
        }
        FEW.add(row)
        print(row, flush=True)


# ----------------------------------------------------------------- figures 3.6 and 3.7


@jax.jit
def trace_upper(Z: Any, X: Any, y: Any, variance: Any, scale: Any, noise: Any) -> Any:
    """Item 33: the determinant of Q + s, and the quadratic form of Q + s + tr(K - Q)."""

    def rbf(A: Any, B: Any) -> Any:
        return variance * jnp.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1) / scale**2)

    inside = rbf(Z, Z) + 1e-8 * variance * jnp.eye(len(Z))
    low = rbf(X, Z) @ jnp.linalg.solve(inside, rbf(Z, X))
    trace = jnp.maximum(len(X) * variance - jnp.trace(low), 0.0)
    volume = jnp.linalg.slogdet(2.0 * jnp.pi * (low + noise * jnp.eye(len(X))))[1]
    wide = low + (noise + trace) * jnp.eye(len(X))
    return -0.5 * volume - 0.5 * y @ jnp.linalg.solve(wide, y)


def lowest_upper(model: Any, start: np.ndarray) -> np.ndarray:
    """Points that make the trace bound low, by L-BFGS from a start."""
    X, y = rows()
    given = (X, y, model.kernel.variance, model.kernel.lengthscale, model.likelihood.variance)
    slope = jax.jit(jax.value_and_grad(lambda z: trace_upper(z[:, None], *given)))

    def objective(z: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(jnp.asarray(z))
        if not np.isfinite(value):
            return 1e10, np.zeros_like(z)
        return float(value), np.asarray(gradient, float)

    return minimize(objective, start.ravel(), jac=True, method="L-BFGS-B").x[:, None]


@functools.cache
def best_fitc(points: int) -> tuple[Any, np.ndarray]:
    return best_start(1.0, points)


def uppers(model: Any, Z: np.ndarray) -> tuple[float, float]:
    """Upper bounds at some points: by products, and by the trace."""
    case = at_points(model, Z)
    levels = ("products", "trace")
    found = [diagnostics.bracket(case, *rows(), power=0.0, level=level).upper for level in levels]
    return found[0], found[1]


def proofs() -> None:
    """FITC, its over-estimate, and what upper bounds with as many points show of it."""
    _, y = rows()
    alone = -0.5 * len(y) * (np.log(2.0 * np.pi * np.var(y)) + 1.0)
    for M in SIZES:
        if PROOFS.has(M=M):
            continue
        result, start = best_fitc(M)
        own = uppers(result.model, np.asarray(result.model.inducing.Z))
        lowered = uppers(result.model, lowest_upper(result.model, start))
        row = {
            "M": M,
            "fitc": float(result.log_evidence),
            "exact": exact(result.model),
            "full": float(full().log_evidence),
            "noise_alone": alone,
            "noise": float(np.sqrt(result.model.likelihood.variance)),
            "own_products": own[0],
            "own_trace": own[1],
            "lowered_products": lowered[0],
            "lowered_trace": lowered[1],
        }
        PROOFS.add(row)
        print(row, flush=True)


def larger() -> None:
    """Upper bounds of each FITC model with ever more points, chosen greedily at its kernel."""
    X, _ = rows()
    for M in SIZES:
        for points in (4, 6, 8, 10, 15, 25, 40, 60, 100):
            if LARGER.has(M=M, points=points):
                continue
            model = best_fitc(M)[0].model
            Z = initialisation.select_inducing(model.kernel, X, points)
            row = {"M": M, "points": points, "fitc": float(best_fitc(M)[0].log_evidence)}
            row |= {"exact": exact(model)}
            try:
                row |= dict(zip(("products", "trace"), uppers(model, Z), strict=True))
            except fitting.NumericalError as error:
                print(M, points, error)
                row |= {"products": float("nan"), "trace": float("nan")}
            LARGER.add(row)
            print(row, flush=True)


# ------------------------------------------------------------------------------- figure 3.8


def offsets() -> None:
    """Eight points at equal distances, moved together by up to their distance."""
    X, _ = rows()
    known = full().model
    Z = np.linspace(X.min(), X.max(), 8)[:, None]
    for share in np.linspace(-0.5, 0.5, 41):
        offset = float(share * (Z[1, 0] - Z[0, 0]))
        if OFFSETS.has(offset=offset):
            continue
        row = {"offset": offset, "exact": exact(known)}
        for name, power in (("bound", 0.0), ("half", 0.5), ("fitc", 1.0)):
            row[name] = at(known, Z + offset, power)
        OFFSETS.add(row)
    found = {
        k: np.array([float(r[k]) for r in OFFSETS.rows()]) for k in ("bound", "fitc", "exact")
    }
    for name, values in found.items():
        print(name, values.min(), values.max(), flush=True)


CASES = {"few": few, "proofs": proofs, "larger": larger, "offsets": offsets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    with jax.enable_x64(True):
        for name in options.only:
            CASES[name]()


if __name__ == "__main__":
    main()
