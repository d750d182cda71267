"""Time of choosing 10 of 10,000 candidates, beside that of predicting them all.

200 inducing points, 4 inputs, 2,000 rows; the least of five runs, after compilation.

python -m benchmarks.active_cost
"""

import time
from collections.abc import Callable

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.learning.active.suggest import CRITERIA

TABLE = Table("active_cost.csv", ("likelihood", "criterion"))
ROWS, CANDIDATES, CHOSEN, INDUCING, RUNS = 2_000, 10_000, 10, 200, 5


def least(work: Callable[[], object]) -> float:
    """Seconds of the quickest run."""
    work()
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    random = np.random.default_rng(0)
    X, pool = (random.uniform(-3.0, 3.0, (n, 4)) for n in (ROWS, CANDIDATES))
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    kernel = cavity.kernels.RBF(1.5, np.full(4, 2.0))
    noise = random.standard_normal(ROWS)
    cases = {
        "gaussian": (cavity.likelihoods.Gaussian(0.1), f + 0.3 * noise),
        "probit": (cavity.likelihoods.Bernoulli(), (f + noise > 0.0).astype(float)),
    }
    with jax.enable_x64(True):
        Z = cavity.initialisation.select_inducing(kernel, X, INDUCING)
        for name, (likelihood, y) in cases.items():
            model = cavity.GP(kernel, likelihood, cavity.inducing.Points(Z))
            result = cavity.infer(model, X, y)

            def predict(posterior=result.posterior) -> object:
                return np.asarray(posterior.predict(pool).mean)

            for criterion in CRITERIA:

                def choose(result=result, criterion=criterion) -> object:
                    return cavity.suggest(result, pool, CHOSEN, criterion)

                once, chosen = least(predict), least(choose)
                row = {"likelihood": name, "criterion": criterion, "prediction": once}
                row |= {"suggest": chosen, "ratio": chosen / once}
                TABLE.add(row)
                print(row, flush=True)


if __name__ == "__main__":
    main()
