"""Networks by expectation propagation, on what they are for and on the usual tables.

smoke: 120 rows of five columns, a sine of the first and a line in the second, noise of deviation
0.1; four units; ten starts, of which each is learned from. RMSE to the function without noise;
0.08 at the most is wanted of nine in ten.
layers: the same with one layer of four units, with two above them, and with four, at power 0.5, 30
iterations; RMSE to the function and the log density of 1,000 outputs with noise.
friedman: 100 rows of Friedman's function of five columns, with 45 more that play no part, noise
of deviation 1; the log density of 500 test outputs beside that of a Gaussian process with a
neural-network kernel and learned lengthscales, and how many of the five most relevant columns are
among the true ones.
uci: splits of boston, concrete, energy, power, wine_red and yacht with ten units: log density and
RMSE of test rows, beside the log densities published for probabilistic backpropagation
(Hernandez-Lobato and Adams 2015, table 1), with 50 units.
gp: the same splits by the Gaussian process with a neural-network kernel and learned lengthscales,
full up to 1,000 rows, with 300 inducing points beyond.
minibatches: the same splits by the network with one site for all rows, 500 rows a minibatch.

python -m benchmarks.networks [--only smoke,layers,friedman,uci,gp,minibatches] [--seeds 10]
    [--splits 1] [--sets yacht,boston] [--powers 0.5,0.75,1] [--hidden 10]
"""

import argparse
import itertools
import time
import warnings
from typing import Any

import numpy as np

import cavity
from benchmarks.data import uci
from benchmarks.results import Table

SMOKE = Table("network_smoke.csv", ("power", "linear", "seed"))
LAYERS = Table("network_layers.csv", ("hidden", "seed"))
FRIEDMAN = Table("network_friedman.csv", ("seed", "method"))
UCI = Table("network_uci.csv", ("set", "split", "power"))
OTHERS = Table("network_uci_others.csv", ("set", "split", "method", "power", "hidden"))
# Rows of a full Gaussian process at the most.
LARGEST = 1000
# Published log densities of probabilistic backpropagation.
PUBLISHED = {
    "boston": -2.57,
    "concrete": -3.16,
    "energy": -2.04,
    "power": -2.84,
    "wine_red": -0.97,
    "yacht": -1.63,
}


def scores(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Log density and RMSE of test rows."""
    return {
        "log_density": float(np.mean(model.log_predictive_density(X, y))),
        "rmse": float(np.sqrt(np.mean((model.predict(X) - y) ** 2))),
    }


def smoke_table() -> tuple[np.ndarray, ...]:
    """Inputs and outputs of 120 rows; of 1,000 new ones inputs, functions and outputs."""
    random = np.random.default_rng(0)
    X = random.uniform(-2.0, 2.0, (120, 5))
    new = random.uniform(-2.0, 2.0, (1000, 5))
    f, f_new = (np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] for x in (X, new))
    y = f + 0.1 * random.standard_normal(120)
    return X, y, new, f_new, f_new + 0.1 * random.standard_normal(1000)


def layers(seeds: int) -> None:
    X, y, new, f_new, y_new = smoke_table()
    for seed in range(seeds):
        for hidden in (4, (4, 2), (4, 4)):
            key = {"hidden": " ".join(map(str, np.ravel(hidden))), "seed": seed}
            if LAYERS.has(**key):
                continue
            settings = {"power": 0.5, "n_restarts": 0, "max_iterations": 30}
            start = time.process_time()
            model = cavity.NetworkRegressor(hidden, **settings, random_state=seed).fit(X, y)
            found = {
                "rmse": float(np.sqrt(np.mean((model.predict(new) - f_new) ** 2))),
                "log_density": float(np.mean(model.log_predictive_density(new, y_new))),
                "residual": model.sites_.residual,
                "converged": model.converged_,
                "log_evidence": model.log_evidence_,
                "cpu_s": time.process_time() - start,
            }
            LAYERS.add(key | found)
            print(key, found, flush=True)


def smoke(seeds: int) -> None:
    X, y, new, f_new, _ = smoke_table()
    for power, linear in ((0.5, True), (1.0, False)):
        for seed in range(seeds):
            key = {"power": power, "linear": linear, "seed": seed}
            if SMOKE.has(**key):
                continue
            settings = {"hidden": 4, "power": power, "linear": linear, "n_restarts": 0}
            start = time.process_time()
            model = cavity.NetworkRegressor(**settings, random_state=seed).fit(X, y)
            found = {
                "rmse": float(np.sqrt(np.mean((model.predict(new) - f_new) ** 2))),
                "residual": model.sites_.residual,
                "converged": model.converged_,
                "log_evidence": model.log_evidence_,
                "relevant_first": sorted(np.argsort(-model.relevance_)[:2]) == [0, 1],
                "cpu_s": time.process_time() - start,
            }
            SMOKE.add(key | found)
            print(key, found, flush=True)


def friedman_table(seed: int) -> tuple[np.ndarray, ...]:
    """Inputs and outputs of 100 rows and of 500 test rows."""
    random = np.random.default_rng(seed)
    X = random.uniform(0.0, 1.0, (600, 50))
    f = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2
    y = f + 10.0 * X[:, 3] + 5.0 * X[:, 4] + random.standard_normal(600)
    return X[:100], y[:100], X[100:], y[100:]


def friedman(seeds: int) -> None:
    for seed in range(seeds):
        X, y, X_test, y_test = friedman_table(seed)
        for method, power in (("network", 0.5), ("network at power 1", 1.0), ("gp", 1.0)):
            key = {"seed": seed, "method": method}
            if FRIEDMAN.has(**key):
                continue
            start = time.process_time()
            network = method != "gp"
            if network:
                model = cavity.NetworkRegressor(10, linear=True, power=power, random_state=0)
            else:
                kernel = cavity.kernels.NeuralNetwork(1.0, np.ones(50), 1.0, np.full(50, 0.5))
                model = cavity.GPRegressor(kernel=kernel, power=power)
            model.fit(X, y)
            found = {
                **scores(model, X_test, y_test),
                "true_among_five": _true_among_five(model) if network else "",
                "converged": model.converged_,
                "cpu_s": time.process_time() - start,
            }
            FRIEDMAN.add(key | found)
            print(key, found, flush=True)


def _true_among_five(model: Any) -> int:
    return int(np.sum(np.argsort(-model.relevance_)[:5] < 5))


def tables(names: list[str], splits: int) -> None:
    for name in names:
        for split in range(splits):
            key = {"set": name, "split": split, "power": 0.5}
            if UCI.has(**key):
                continue
            X, y, X_test, y_test = uci(name, split)
            start = time.process_time()
            settings = {"hidden": 10, "linear": True, "power": 0.5, "n_restarts": 0}
            model = cavity.NetworkRegressor(**settings, random_state=0, max_iterations=30)
            model.fit(X, y)
            found = {
                **scores(model, X_test, y_test),
                "published": PUBLISHED[name],
                "converged": model.converged_,
                "residual": model.sites_.residual,
                "cpu_s": time.process_time() - start,
            }
            UCI.add(key | found)
            print(key, found, flush=True)


def others(names: list[str], splits: int, method: str, power: float, hidden: int) -> None:
    for split, name in itertools.product(range(splits), names):
        key = {"set": name, "split": split, "method": method, "power": power, "hidden": hidden}
        if OTHERS.has(**key):
            continue
        X, y, X_test, y_test = uci(name, split)
        start = time.process_time()
        model: Any
        if method == "gp":
            count = X.shape[1]
            kernel = cavity.kernels.NeuralNetwork(1.0, np.ones(count), 1.0, np.full(count, 0.5))
            points: Any = "auto" if len(X) <= LARGEST else 300
            centre, scale = X.mean(axis=0), X.std(axis=0) + 1e-12
            X, X_test = (X - centre) / scale, (X_test - centre) / scale
            model = cavity.GPRegressor(kernel=kernel, n_inducing=points, power=power)
        else:
            settings = {"hidden": hidden, "linear": True, "power": power, "batch": 500}
            model = cavity.NetworkRegressor(**settings, steps=5000, random_state=0)
        model.fit(X, y)
        found = {
            **scores(model, X_test, y_test),
            "converged": model.converged_,
            "cpu_s": time.process_time() - start,
        }
        OTHERS.add(key | found)
        print(key, found, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="smoke,friedman,uci")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--sets", default=",".join(PUBLISHED))
    parser.add_argument("--powers", default="0.5,0.75,1")
    parser.add_argument("--hidden", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = options.only.split(",")
    if "smoke" in cases:
        smoke(options.seeds)
    if "layers" in cases:
        layers(options.seeds)
    if "friedman" in cases:
        friedman(options.seeds)
    if "uci" in cases:
        tables(options.sets.split(","), options.splits)
    sets = options.sets.split(",")
    if "gp" in cases:
        others(sets, options.splits, "gp", 0.5, 0)
    if "minibatches" in cases:
        for power in map(float, options.powers.split(",")):
            others(sets, options.splits, "minibatches", power, options.hidden)


if __name__ == "__main__":
    main()
