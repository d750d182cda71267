"""Selection of columns beside all models averaged: false ones, those found, intervals.

tables: random normal columns, coefficients of -1 or 1, and noise, in five sizes from strong to
weak signals. A row has how many columns a method selects at a rate of 0.1, how many of these are
zero or of the other sign, and how many coefficients lie in their 90 % intervals. Of ten columns
"enumerated" averages all 1,024 models over noise and scales in plain numpy, under the priors of
the default, and rows of that have the distances of their probabilities of inclusion from it.
wide: two thirds of the rows of a real table of classes, or of one made from a known model, and the
log density of the others, beside L1 logistic regression by cross-validation.
density: the same of outputs, beside the lasso.

python -m benchmarks.selection [--only tables,wide,density] [--seeds 40]
    [--methods default learned default-horseshoe]
"""

import argparse
import itertools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.io import loadmat
from scipy.special import betaln, logsumexp, ndtr
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import cavity
from benchmarks.data import FOLDER, uci
from benchmarks.results import Table
from cavity.learning.data.row_weights import WeightedTable
from cavity.learning.initialisation.linear import AskedLinear, output_spread, starting_linear
from cavity.learning.initialisation.linear_priors import linear_priors
from cavity.likelihoods import Gaussian

TABLES = Table("selection.csv", ("rows", "columns", "true", "noise", "seed", "method"))
WIDE = Table("selection_wide.csv", ("set", "seed", "method"))
DENSITY = Table("selection_density.csv", ("set", "seed", "method"))
# Rows, columns, those that are not zero, and the deviation of the noise.
SIZES = ((60, 10, 3, 1), (60, 10, 3, 3), (30, 10, 3, 2), (60, 120, 6, 1), (60, 120, 6, 4))
RATE = 0.1
# Ends of intervals this near to zero are in the spike.
SPIKE = 1e-4
PRIORS = ("spike_slab", "horseshoe", "laplace")


def problem(rows: int, columns: int, true: int, noise: float, seed: int) -> tuple[np.ndarray, ...]:
    """Inputs, outputs and coefficients."""
    random = np.random.default_rng([seed, rows, columns, true, int(noise)])
    X = random.standard_normal((rows, columns))
    w = np.zeros(columns)
    w[:true] = random.choice([-1.0, 1.0], true)
    return X, X @ w + noise * random.standard_normal(rows), w


def fitted(method: str, X: np.ndarray, y: np.ndarray) -> Any:
    """A fitted estimator: "default", "learned", or either with the name of a prior."""
    how, _, prior = method.partition("-")
    options: dict[str, Any] = {"prior": prior or "spike_slab"}
    if how == "learned":
        options["integrate"] = None
    kind = cavity.LinearClassifier if y.dtype.kind in "OUS" else cavity.LinearRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**options).fit(X, y)


class Averaged(NamedTuple):
    """What all models, averaged, say of each coefficient."""

    inclusion: np.ndarray
    certain: np.ndarray
    sign: np.ndarray
    share: float


def enumerated(X: np.ndarray, y: np.ndarray, prior: "WeakPriors", points: int = 25) -> Averaged:
    """All subsets of the columns, averaged over noise and slab on a grid.

    Args:
        X: inputs.
        y: outputs.
        prior: of share, slab and noise.
        points: of each axis of the grid.
    """
    rows, columns = X.shape
    Z = (X - X.mean(0)) / X.std(0)
    v = y - y.mean()
    unit = np.var(y)
    noise = unit * np.exp(np.linspace(-5.0, 1.5, points))
    slab = unit * np.exp(np.linspace(-9.0, 4.0, points))
    beside = _log_density(prior.noise, noise)[:, None] + _log_density(prior.slab, slab)
    # the intercept has so wide a prior that a row's worth of outputs is spent on it
    zero = -0.5 * ((rows - 1) * np.log(2 * np.pi * noise) + v @ v / noise)
    cells: list[tuple[np.ndarray, np.ndarray]] = []
    found = []
    for size in range(columns + 1):
        a, b = prior.share.a + size, prior.share.b + columns - size
        of_size = betaln(a, b) - betaln(prior.share.a, prior.share.b)
        for subset in itertools.combinations(range(columns), size):
            S = Z[:, subset]
            values, vectors = np.linalg.eigh(S.T @ S)
            along = vectors.T @ (S.T @ v)
            wide = 1.0 + np.multiply.outer(1.0 / noise, np.multiply.outer(slab, values))
            gain = np.multiply.outer(1.0 / noise**2, np.multiply.outer(slab, along**2)) / wide
            log_mass = zero[:, None] + beside + of_size
            log_mass = log_mass + 0.5 * np.sum(gain - np.log(wide), axis=-1)
            found.append((subset, values, vectors, along, log_mass))
            cells.append((log_mass, of_size))
    total = logsumexp([logsumexp(log_mass) for log_mass, _ in cells])
    inclusion, positive, negative = np.zeros((3, columns))
    share = 0.0
    for subset, values, vectors, along, log_mass in found:
        weight = np.exp(log_mass - total)
        mass, size = weight.sum(), len(subset)
        share += mass * (prior.share.a + size) / (prior.share.a + prior.share.b + columns)
        if mass < 1e-7 or not size:
            continue
        precision = np.multiply.outer(1.0 / noise, np.ones((len(slab), size))) * values
        precision = precision + (1.0 / slab)[:, None]
        mean = (np.multiply.outer(1.0 / noise, np.ones((len(slab), size))) * along) / precision
        mean, var = mean @ vectors.T, (1.0 / precision) @ (vectors.T**2)
        above = np.tensordot(weight, ndtr(mean / np.sqrt(var)), axes=2)
        inclusion[list(subset)] += mass
        positive[list(subset)] += above
        negative[list(subset)] += mass - above
    return Averaged(
        inclusion,
        np.maximum(positive, negative),
        np.where(positive > negative, 1.0, -1.0),
        float(share),
    )


def _log_density(prior: Any, value: np.ndarray) -> np.ndarray:
    """Of the logarithm of a value, at evenly spaced logarithms."""
    return np.asarray(prior.log_prob_where_learned(value))


def chosen_of(certain: np.ndarray) -> np.ndarray:
    """The columns of the largest set in which errors are expected to be few."""
    order = np.argsort(-certain, kind="stable")
    within = np.flatnonzero(np.cumsum(1.0 - certain[order]) <= RATE * np.arange(1, len(order) + 1))
    return order[: within[-1] + 1] if len(within) else order[:0]


def tables(seeds: int, methods: list[str], sizes: tuple[tuple[int, ...], ...]) -> None:
    for seed, size in itertools.product(range(seeds), sizes):
        key: dict[str, Any] = dict(zip(("rows", "columns", "true", "noise"), size, strict=True))
        for method in methods:
            own = key | {"seed": seed, "method": method}
            if TABLES.has(**own) or (method == "enumerated" and size[1] > 10):
                continue
            rows, columns, true, noise = size
            X, y, w = problem(rows, columns, true, noise, seed)
            TABLES.add(own | measured(method, X, y, w))


def measured(method: str, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    """The numbers of one table."""
    names = ("share", "inside", "inside_true", "away", "farthest", "converged")
    found: dict[str, Any] = dict.fromkeys(names, "")
    start, small = time.perf_counter(), len(w) <= 10 and method.split("-")[0] == "default"
    if method == "enumerated":
        exact = enumerated(X, y, weak_priors(X, y))
        chosen, sign = chosen_of(exact.certain), exact.sign
        found["share"] = exact.share
    else:
        model = fitted(method, X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen, sign = model.select(RATE), np.sign(model.coef_)
        low, high = model.coef_interval_.T
        inside = (low - SPIKE <= w) & (w <= high + SPIKE)
        found |= {"inside": int(inside.sum()), "inside_true": int(inside[w != 0.0].sum())}
        found |= {"share": float(np.mean(getattr(model.prior_, "share", np.nan)))}
        found["converged"] = bool(model.converged_)
    seconds = time.perf_counter() - start
    if small and model.inclusion_probability_ is not None:
        exact = enumerated(X, y, weak_priors(X, y))
        away = np.abs(model.inclusion_probability_ - exact.inclusion)
        found |= {"away": float(away.mean()), "farthest": float(away.max())}
    wrong = sign[chosen] != np.sign(w[chosen])
    counts = {"selected": len(chosen), "wrong": int(wrong.sum())}
    return counts | found | {"seconds": seconds}


class WeakPriors(NamedTuple):
    """Priors of share, slab and noise."""

    share: Any
    slab: Any
    noise: Any


def weak_priors(X: np.ndarray, y: np.ndarray) -> WeakPriors:
    """Those of the default."""
    noise, Y = Gaussian(), y[:, None]
    table = WeightedTable(X, Y)
    model = starting_linear(AskedLinear("spike_slab", noise), table)[0]
    spread = output_spread(noise, table)
    found: Any = linear_priors(model, spread, named_prior=True, named_likelihood=True)
    return WeakPriors(found.prior.share, found.prior.slab, found.likelihood.variance)


def describe_tables() -> None:
    rows = TABLES.rows()
    print("rows columns true noise | method, tables: false of selected, found of true, intervals")
    for size in SIZES:
        own = [
            r
            for r in rows
            if tuple(int(r[k]) for k in ("rows", "columns", "true", "noise")) == size
        ]
        for method in dict.fromkeys(r["method"] for r in own):
            print(*size, "|", _described([r for r in own if r["method"] == method], method, size))


def _described(rows: list[dict[str, str]], method: str, size: tuple[int, ...]) -> str:
    selected, wrong = (np.array([int(r[k]) for r in rows]) for k in ("selected", "wrong"))
    count, total = len(rows), max(int(selected.sum()), 1)
    share = wrong.sum() / total
    # the ratio's deviation, from table to table
    error = np.sqrt(np.sum((wrong - share * selected) ** 2)) / total
    text = f"{method}, {count}: {share:.3f} ± {1.96 * error:.3f}, "
    text += f"{(selected - wrong).sum() / (count * size[2]):.3f}"
    if rows[0]["inside"]:
        text += f", inside {np.mean([int(r['inside']) for r in rows]) / size[1]:.3f}"
        text += f" (true {np.mean([int(r['inside_true']) for r in rows]) / size[2]:.3f})"
        text += f", share above 0.9: {sum(float(r['share']) > 0.9 for r in rows)}"
        text += f", settled {sum(r['converged'] == 'True' for r in rows)}"
    if rows[0]["away"]:
        away = [float(r["away"]) for r in rows]
        text += f", inclusion away {np.mean(away):.3f}, at most "
        text += f"{max(float(r['farthest']) for r in rows):.2f}"
    return f"{text}, {np.median([float(r['seconds']) for r in rows]):.2f} s"


# ---- density of new rows


def made(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels from a known model: 120 rows, 2,000 columns, eight of which matter."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((120, 2000))
    f = 2.0 * X[:, :8] @ random.choice([-1.0, 1.0], 8)
    return X, np.where(f + random.logistic(size=120) > 0.0, "yes", "no")


def classes_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and labels of a table of many columns."""
    if name.startswith("made"):
        return made(int(name[4:]))
    (file,) = (FOLDER / name).glob("*.mat")
    data = loadmat(file)
    X, y = np.asarray(data["X"], float), data["Y"].ravel()
    if len(y) > 400:
        kept = np.random.default_rng(seed).permutation(len(y))[:400]
        X, y = X[kept], y[kept]
    return X, np.array([f"class {label:g}" for label in y.astype(float)], dtype=object)


def wide(seeds: int, methods: list[str], names: list[str]) -> None:
    for seed, name, method in itertools.product(range(seeds), names, (*methods, "l1")):
        key = {"set": name, "seed": seed, "method": method}
        if method == "enumerated" or WIDE.has(**key):
            continue
        X, y = classes_of(name, seed)
        order = np.random.default_rng(seed).permutation(len(y))
        cut = 2 * len(y) // 3
        rows, new = order[:cut], order[cut:]
        start = time.perf_counter()
        if method == "l1":
            search = LogisticRegressionCV(
                Cs=20, penalty="l1", solver="liblinear", scoring="neg_log_loss", cv=5
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model: Any = make_pipeline(StandardScaler(), search).fit(X[rows], y[rows])
        else:
            model = fitted(method, X[rows], y[rows])
        seconds = time.perf_counter() - start
        p = model.predict_proba(X[new])
        own = p[np.arange(len(new)), np.searchsorted(model.classes_, y[new])]
        density = float(np.mean(np.log(np.maximum(own, 1e-12))))
        more = {"density": density, "seconds": seconds}
        more |= {"converged": getattr(model, "converged_", True)}
        WIDE.add(key | more)
        print(key, more, flush=True)


def outputs_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs, with all products of two columns."""
    both: Any = load_diabetes(return_X_y=True) if name == "diabetes" else uci(name, 0)
    X, y = both[:2]
    return PolynomialFeatures(2, include_bias=False).fit_transform(X), y


def density(seeds: int, methods: list[str], names: list[str]) -> None:
    for seed, name, method in itertools.product(range(seeds), names, (*methods, "lasso")):
        key = {"set": name, "seed": seed, "method": method}
        if method == "enumerated" or DENSITY.has(**key):
            continue
        X, y = outputs_of(name)
        order = np.random.default_rng(seed).permutation(len(y))
        rows, new = order[: min(200, 2 * len(y) // 3)], order[2 * len(y) // 3 :]
        start = time.perf_counter()
        if method == "lasso":
            search = LassoCV(cv=5, max_iter=20_000)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model: Any = make_pipeline(StandardScaler(), search).fit(X[rows], y[rows])
            spent = max(len(rows) - np.count_nonzero(search.coef_) - 1, 1)
            var = np.sum((y[rows] - model.predict(X[rows])) ** 2) / spent
            away = y[new] - model.predict(X[new])
            each = -0.5 * (np.log(2 * np.pi * var) + away**2 / var)
        else:
            model = fitted(method, X[rows], y[rows])
            each = model.log_predictive_density(X[new], y[new])
        more = {"density": float(np.mean(each)), "seconds": time.perf_counter() - start}
        DENSITY.add(key | more | {"converged": getattr(model, "converged_", True)})
        print(key, more, flush=True)


def describe_density(table: Table) -> None:
    rows = table.rows()
    for name, method in dict.fromkeys((r["set"], r["method"]) for r in rows):
        own = [r for r in rows if (r["set"], r["method"]) == (name, method)]
        values, seconds = (np.array([float(r[k]) for r in own]) for k in ("density", "seconds"))
        settled = sum(r["converged"] == "True" for r in own)
        print(
            f"{name:<18}{method:<20}{len(own):>3} {values.mean():>9.4f} a row"
            f"{seconds.max():>8.1f} s at most, {settled} settled"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="tables,wide,density")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--methods", nargs="*", default=["learned", "default", "enumerated"])
    parser.add_argument("--sizes", type=int, nargs="*", default=range(len(SIZES)))
    parser.add_argument("--sets", nargs="*", default=[])
    options = parser.parse_args()
    only = options.only.split(",")
    if "tables" in only:
        tables(options.seeds, options.methods, tuple(SIZES[i] for i in options.sizes))
        describe_tables()
    if "wide" in only:
        real = ["wide_colon", "wide_prostate_ge", "wide_madelon"]
        names = options.sets or [*real, *(f"made{i}" for i in range(4))]
        wide(options.seeds, options.methods, names)
        describe_density(WIDE)
    if "density" in only:
        names = options.sets or ["diabetes", "concrete", "energy"]
        density(options.seeds, options.methods, names)
        describe_density(DENSITY)


if __name__ == "__main__":
    main()
