"""What examinations find out: FITC beside the variational bound, and random fits.

restarts: FITC on Snelson's rows from four times random points of the data, as in figures 3.6 and
3.7 of van der Wilk (2018): by how much it says too much, and how much of that the brackets show.
one_more: figure 3.2, changes of the objective where an eighth point is put anywhere.
clumps: figures 3.3 and 3.4, how many points are left distinct.
sizes: figure 3.5, objective, noise and errors against the number of points.
random: thirty fits of random data, kernels, sizes and powers: is the exact evidence inside?

python -m benchmarks.diagnosis [--only restarts one_more clumps sizes random]
"""

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.bracket import snelson
from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods

TABLE = Table("diagnosis.csv", ("case", "rows", "points", "power", "start"))
STARTS = 4
NUMBERS = (
    "log_evidence",
    "exact",
    "lower",
    "upper",
    "trace_upper",
    "overestimate",
    "noise",
    "residual_share",
    "distinct",
    "determined",
    "noise_alone",
    "rmse",
    "nlpd",
    "least_change",
    "largest_change",
    "inside",
)


def add(case: str, rows: int, points: int, power: float, start: int, **numbers: float) -> None:
    """A row of the table; what a case does not measure stays empty."""
    key = {"case": case, "rows": rows, "points": points, "power": power, "start": start}
    measured = {name: float(numbers.get(name, np.nan)) for name in NUMBERS}
    TABLE.add(key | measured)
    shown = {name: f"{value:.4g}" for name, value in measured.items() if value == value}
    print(key, shown, flush=True)


def sparse(
    X: np.ndarray, Z: np.ndarray, kernel: kernels.AbstractKernel | None = None
) -> cavity.GP:
    """A model to start from."""
    kernel = kernels.RBF(1.0, np.ones(X.shape[1])) if kernel is None else kernel
    return cavity.GP(kernel, likelihoods.Gaussian(0.1), inducing.Points(Z))


def fitted(start: cavity.GP, X: np.ndarray, y: np.ndarray, power: float) -> Any:
    """From this start alone."""
    return cavity.fit(start, X, y, power=power)


def examined(result: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """An examination in numbers, with the exact evidence of the full GP at the same parameters."""
    found: Any = cavity.examine(result)
    full = cavity.GP(result.model.kernel, result.model.likelihood)
    exact = cavity.infer(full, X, y).log_evidence
    return {
        "log_evidence": result.log_evidence,
        "exact": exact,
        "lower": found.bracket.lower,
        "upper": found.bracket.upper,
        "trace_upper": cavity.diagnostics.bracket(result, level="trace").upper,
        "overestimate": found.bracket.overestimate,
        "noise": np.sqrt(found.noise.variance),
        "residual_share": found.noise.share,
        "distinct": found.count.distinct,
        "determined": found.count.determined,
        "noise_alone": found.noise_alone,
        "inside": found.bracket.lower - 1e-6 <= exact <= found.bracket.upper + 1e-6,
    }


def restarts() -> None:
    """FITC on 100 rows from random points of the data."""
    X, y = snelson()
    y = y - y.mean()
    for points in (4, 6, 8, 10, 15, 25):
        for start in range(STARTS):
            if TABLE.has(case="restarts", rows=len(y), points=points, power=1.0, start=start):
                continue
            random = np.random.default_rng(start)
            Z = X[random.choice(len(X), points, replace=False)]
            result = fitted(sparse(X, Z), X, y, 1.0)
            try:
                numbers = examined(result, X, y)
            except cavity.fitting.NumericalError as error:
                print(points, start, error)
                numbers = {"log_evidence": result.log_evidence}
            add("restarts", len(y), points, 1.0, start, **numbers)


def all_of_snelson() -> tuple[np.ndarray, np.ndarray]:
    """All 200 rows."""
    names = ("train_inputs.txt.gz", "train_outputs.txt.gz")
    x, y = (np.loadtxt(FOLDER / "snelson1d" / name) for name in names)
    return x[:, None], y - y.mean()


def one_more() -> None:
    """An eighth point anywhere, nothing else moved: closed form at power 0, inference at 1."""
    X, y = all_of_snelson()
    places = np.linspace(X.min(), X.max(), 100)[:, None]
    for power in (0.0, 1.0):
        start = sparse(X, np.linspace(X.min(), X.max(), 7)[:, None])
        result = fitted(start, X, y, power)
        if power == 0.0:
            found: Any = cavity.examine(result, candidates=places)
            changes = found.gains.gain
        else:
            Z = np.asarray(result.model.inducing.Z)
            added = [
                cavity.infer(
                    cavity.GP(
                        result.model.kernel,
                        result.model.likelihood,
                        inducing.Points(np.concatenate([Z, place[None]])),
                    ),
                    X,
                    y,
                    power=power,
                ).log_evidence
                for place in places
            ]
            changes = np.array(added) - result.log_evidence
        ends = {"least_change": np.min(changes), "largest_change": np.max(changes)}
        add("one_more", len(y), 7, power, 0, **(examined(result, X, y) | ends))


def clumps() -> None:
    """Fifteen random points on 200 rows, and a point at each of 100 rows."""
    X, y = all_of_snelson()
    few = (X[:100], y[:100] - y[:100].mean())
    whole = cavity.GP(kernels.RBF(1.0, np.ones(1)), likelihoods.Gaussian(0.1))
    full: Any = cavity.fit(whole, *few)
    for power in (0.0, 1.0):
        Z = X[np.random.default_rng(0).choice(len(X), 15, replace=False)]
        result = fitted(sparse(X, Z), X, y, power)
        add("clumps", len(y), 15, power, 0, **examined(result, X, y))
        at_rows = cavity.GP(full.model.kernel, full.model.likelihood, inducing.Points(few[0]))
        before = cavity.infer(at_rows, *few, power=power).log_evidence
        result = fitted(at_rows, *few, power)
        numbers = examined(result, *few) | {"least_change": result.log_evidence - before}
        add("at_rows", 100, 100, power, 0, **numbers)


def draw_from_gp(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A draw of section 3.2.4: four inputs, lengthscale 1.5, noise variance 0.01."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, 4))
    squares = np.sum(X**2, axis=1)
    K = np.exp(-0.5 * (squares[:, None] + squares - 2.0 * X @ X.T) / 1.5**2)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(rows)) @ random.normal(size=rows)
    return X, f + 0.1 * random.normal(size=rows)


def sizes() -> None:
    """Objective, noise and errors against the number of points."""
    X, y = draw_from_gp(2048)
    train, test = (X[:1024], y[:1024]), (X[1024:], y[1024:])
    for points in (16, 32, 64, 128, 256):
        for power in (0.0, 1.0):
            if TABLE.has(case="sizes", rows=1024, points=points, power=power, start=0):
                continue
            Z = cavity.initialisation.select_inducing(kernels.RBF(1.0, 1.5), train[0], points)
            result = fitted(sparse(train[0], Z, kernels.RBF(1.0, 1.0)), *train, power)
            out = result.posterior.predict(test[0])
            errors = {
                "rmse": np.sqrt(np.mean((np.asarray(out.mean) - test[1]) ** 2)),
                "nlpd": -np.mean(np.asarray(out.log_density(jnp.asarray(test[1])))),
            }
            add("sizes", 1024, points, power, 0, **(examined(result, *train) | errors))


def random_fits(count: int = 30) -> None:
    """Is the exact evidence inside brackets of fits of all kinds?"""
    for start in range(count):
        random = np.random.default_rng(1000 + start)
        rows, columns = int(random.integers(20, 300)), int(random.integers(1, 5))
        points = int(random.integers(2, min(rows, 40)))
        power = float(random.choice([0.0, 0.5, 1.0]))
        if TABLE.has(case="random", rows=rows, points=points, power=power, start=start):
            continue
        X = random.uniform(-3.0, 3.0, (rows, columns))
        y = np.sin(random.uniform(0.5, 3.0) * X.sum(axis=1)) + 0.3 * random.normal(size=rows)
        family = (kernels.RBF, kernels.Matern32, kernels.Matern52)[start % 3]
        Z = X[random.choice(rows, points, replace=False)]
        model = sparse(X, Z, family(1.0, np.ones(columns)))
        try:
            numbers = examined(fitted(model, X, y, power), X, y)
        except cavity.fitting.NumericalError as error:
            print(start, error)
            continue
        add("random", rows, points, power, start, **numbers)


CASES = {
    "restarts": restarts,
    "one_more": one_more,
    "clumps": clumps,
    "random": random_fits,
    "sizes": sizes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    options = parser.parse_args()
    with jax.enable_x64(True):
        for name in options.only:
            CASES[name]()


if __name__ == "__main__":
    main()
