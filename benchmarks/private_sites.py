"""Sites of every row on the inducing variables of a deep GP, beside one site that all rows share.

Two layers of two and one functions with 20 inducing points each, on the first 200 training rows of
a split of boston. At the parameters that tied sites learn at power 0, and learned from these at
power 0.5.

python -m benchmarks.private_sites
"""

import time
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.hidden_sites import deep_model, standardised
from benchmarks.results import Table
from cavity import fitting
from cavity.learning.metrics.regression import regression_metrics

TABLE = Table("private_sites.csv", ("parameters", "power", "sites"))
POINTS, NOISE, ITERATIONS, LEARNED = 20, 0.05, 200, 0.5
METHODS: dict[str, Any] = {
    "tied": cavity.TiedPowerEP(propagation=fitting.Nodes(32, shared=True)),
    "private": cavity.PowerEP(exact=False),
}


def record(key: dict[str, Any], result: Any, data: tuple, seconds: float) -> None:
    """Adds a row of results."""
    _, X_test, y, y_test = data
    predictive = result.posterior.predict(X_test)
    mean, deviation = np.asarray(predictive.mean), np.sqrt(predictive.var)
    density = np.asarray(predictive.log_density(y_test))
    metrics = regression_metrics(y_test, mean, deviation, density, y.mean(), y.var())
    TABLE.add(
        key
        | {"log_evidence": result.log_evidence, "nlpd": float(metrics["nlpd"])}
        | {"rmse": float(metrics["rmse"]), "cpu_s": seconds}
        | {"converged": result.converged, "sites_converged": result.sites.converged}
    )
    print(key, round(result.log_evidence, 2), round(float(metrics["nlpd"]), 4), f"{seconds:.0f} s")


def main() -> None:
    """Measures what is missing."""
    jax.config.update("jax_enable_x64", True)
    data = standardised()
    X, _, y, _ = data
    start = deep_model(X, POINTS, NOISE)
    learned = cavity.fit(start, X, y, power=0.0, method=METHODS["tied"], max_iterations=ITERATIONS)
    for power in (0.0, 0.5, 1.0):
        for name, method in METHODS.items():
            key: dict[str, Any] = {"parameters": "given", "power": power, "sites": name}
            if not TABLE.has(**key):
                before = time.process_time()
                result = cavity.infer(learned.model, X, y, power=power, method=method)
                record(key, result, data, time.process_time() - before)
    for name, method in METHODS.items():
        key = {"parameters": "learned", "power": LEARNED, "sites": name}
        if not TABLE.has(**key):
            before = time.process_time()
            options: dict[str, Any] = {"power": LEARNED, "max_iterations": ITERATIONS}
            found = cavity.fit(learned.model, X, y, method=method, **options)
            record(key, found, data, time.process_time() - before)


if __name__ == "__main__":
    main()
