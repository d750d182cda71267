"""What sites on hidden values do to the evidence and to test densities of a deep GP.

Two layers of two and one functions with 30 inducing points each, on the first 200 training rows
of a split of boston, with the noise variance of the hidden layer fixed at 0.1, and learned from
there: with sites from the same start, and from where learning without sites ends. Evidences are
by 200 points per row at the sites that were found with 8.

python -m benchmarks.hidden_sites
"""

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.data import uci
from benchmarks.results import Table
from cavity import fitting, inducing, kernels, likelihoods
from cavity.inference.variables.hidden_values import HiddenSites
from cavity.learning.initialisation.deep import hidden_start
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.metrics.regression import regression_metrics
from cavity.numerics.chunking import padded_size

TABLE = Table("hidden_sites.csv", ("noise", "power", "sites", "start"))
ROWS, POINTS, WIDTH, NOISE = 200, 30, 2, 0.1
FEW, MANY, ITERATIONS = 8, 200, 1500


def standardised() -> tuple[np.ndarray, ...]:
    """Training rows and test rows, in units of the training rows."""
    X, y, X_test, y_test = uci("boston", 0)
    X, y = X[:ROWS], y[:ROWS]
    spread = X.std(axis=0)
    spread[spread == 0.0] = 1.0
    inputs = ((rows - X.mean(axis=0)) / spread for rows in (X, X_test))
    outputs = ((values - y.mean()) / y.std() for values in (y, y_test))
    return (*inputs, *outputs)


def deep_model(X: np.ndarray, count: int = POINTS, noise: float = NOISE) -> cavity.DeepGP:
    """Two layers, the hidden one about the leading principal components."""
    start = hidden_start(X, [WIDTH])

    def points(inputs: np.ndarray) -> inducing.Points:
        Z = select_inducing(kernels.RBF(), inputs, count, choice="kmeans", seed=0)
        return inducing.Points(Z)

    columns = X.shape[1]
    hidden = kernels.RBF(0.1, np.full(columns, np.sqrt(columns)))
    layers = [
        cavity.Layer(hidden, points(X), WIDTH, start.maps[0], noise),
        cavity.Layer(kernels.RBF(1.0, np.ones(WIDTH)), points(start.inputs[-1])),
    ]
    return cavity.DeepGP(layers, likelihoods.Gaussian(0.1))


def method(points: int, *, sites: bool) -> cavity.TiedPowerEP:
    """Tied Power EP with points that every row keeps."""
    return cavity.TiedPowerEP(propagation=fitting.Nodes(points, kept=True), hidden_sites=sites)


def record(key: dict[str, Any], result: Any, model: cavity.DeepGP, data: tuple) -> None:
    """Adds a row of results."""
    X, X_test, y, y_test = data
    again = method(MANY, sites=key["sites"])
    options = {"power": key["power"], "method": again, "sites": result.found}
    evidence = cavity.fit(model, X, y, max_iterations=0, **options).log_evidence
    predictive = result.posterior.predict(X_test)
    mean, deviation = np.asarray(predictive.mean), np.sqrt(predictive.var)
    density = np.asarray(predictive.log_density(y_test))
    metrics = regression_metrics(y_test, mean, deviation, density, y.mean(), y.var())
    TABLE.add(
        key
        | {"log_evidence": evidence, "by_few_points": result.log_evidence}
        | {"test_log_density": -float(metrics["nlpd"]), "rmse": float(metrics["rmse"])}
        | {"hidden_noise": float(np.asarray(model.layers[0].noise_variance))}
        | {"converged": result.converged}
    )
    print(key, round(evidence, 2), round(-float(metrics["nlpd"]), 4))


def measure(power: float) -> None:
    """All fits at a power."""
    data = standardised()
    X, _, y, _ = data
    start = deep_model(X)
    for sites in (False, True):
        key = {"noise": "fixed", "power": power, "sites": sites, "start": "same"}
        result = cavity.infer(start, X, y, power=power, method=method(FEW, sites=sites))
        record(key, result, start, data)
    options: dict[str, Any] = {"power": power, "max_iterations": ITERATIONS}
    learned = {
        sites: cavity.fit(start, X, y, method=method(FEW, sites=sites), **options)
        for sites in (False, True)
    }
    for sites, result in learned.items():
        key = {"noise": "learned", "power": power, "sites": sites, "start": "same"}
        record(key, result, cast(cavity.DeepGP, result.model), data)
    (tied,) = learned[False].found
    zero = jnp.zeros((padded_size(ROWS), WIDTH))
    options |= {"sites": ((*tied, HiddenSites(zero, zero)),)}
    result = cavity.fit(learned[False].model, X, y, method=method(FEW, sites=True), **options)
    key = {"noise": "learned", "power": power, "sites": True, "start": "without sites"}
    record(key, result, cast(cavity.DeepGP, result.model), data)


def main() -> None:
    """Measures what is missing."""
    jax.config.update("jax_enable_x64", True)
    for power in (0.0, 0.5):
        if not TABLE.has(power=power, start="without sites"):
            measure(power)


if __name__ == "__main__":
    main()
