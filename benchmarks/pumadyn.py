"""Table 3.1 of van der Wilk (2018), E14: five ways to learn 32 lengthscales with 40 points.

pumadyn32nm, 7,168 rows, an RBF kernel with a lengthscale per column, points that begin at random
rows. Beside the full GP on 2,048 of the rows: FITC; the bound of power 0; the same with kernel and
noise held until the points are learned; and the same from where FITC ended.

python -m benchmarks.pumadyn [--seeds 1]
"""

import argparse
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.auto import data
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods, parameters

TABLE = Table("pumadyn.csv", ("way", "seed"))
WAYS = ("full, 2,048 rows", "power 1", "power 0", "power 0, held at first", "power 0 from power 1")
SUBSET, POINTS = 2048, 40


def learned(way: str, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[Any, int]:
    """A fit in one of the ways, and the rows that it saw."""
    random = np.random.default_rng(seed)
    kernel, noise = kernels.RBF(1.0, np.full(X.shape[1], np.sqrt(32.0))), likelihoods.Gaussian(0.1)
    limits: dict[str, Any] = {"max_iterations": 300, "seed": seed}
    if way.startswith("full"):
        some = random.choice(len(X), SUBSET, replace=False)
        return cavity.fit(cavity.GP(kernel, noise), X[some], y[some], **limits), SUBSET
    Z = X[random.choice(len(X), POINTS, replace=False)]
    start: Any = cavity.GP(kernel, noise, inducing.Points(Z))
    if way == "power 1":
        return cavity.fit(start, X, y, power=1.0, **limits), len(y)
    schedule = ()
    if way == "power 0, held at first":
        maps: Any = parameters.bijections(start)
        fixed = jax.tree.map(lambda _: parameters.FIXED, (maps.kernel, maps.likelihood))
        schedule = (eqx.tree_at(lambda m: (m.kernel, m.likelihood), maps, fixed),)
    if way == "power 0 from power 1":
        start = learned("power 1", X, y, seed)[0].model
    return cavity.fit(start, X, y, power=0.0, schedule=schedule, **limits), len(y)


def measure(way: str, seed: int) -> None:
    """One row of the table, unless it is there."""
    if TABLE.has(way=way, seed=seed):
        return
    X, y, X_test, y_test = data("pumadyn32nm", 0)
    centre, spread = X.mean(axis=0), X.std(axis=0)
    X, X_test = (X - centre) / spread, (X_test - centre) / spread
    result, rows = learned(way, X, y, seed)
    out = result.posterior.predict(X_test)
    scales = np.sort(np.asarray(result.model.kernel.lengthscale))
    row = {
        "way": way,
        "seed": seed,
        "objective_per_row": -float(result.log_evidence) / rows,
        "noise": float(np.sqrt(result.model.likelihood.variance)),
        "rmse": float(np.sqrt(np.mean((np.asarray(out.mean) - y_test) ** 2))),
        "nlpd": -float(np.mean(out.log_density(jnp.asarray(y_test)))),
        # columns below the widest gap between lengthscales
        "relevant": int(np.argmax(scales[1:] / scales[:-1])) + 1,
        "smallest_lengthscale": float(scales[0]),
        "iterations": result.n_iterations,
        "converged": result.converged,
    }
    TABLE.add(row)
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    with jax.enable_x64(True):
        for seed in range(options.seeds):
            for way in WAYS:
                measure(way, seed)


if __name__ == "__main__":
    main()
