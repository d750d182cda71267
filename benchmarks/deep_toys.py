"""A step and a sum of sinusoids: what a hidden layer gains, and what the power does to noise.

The sets of Chamberlin (2016), chapter 3, and Bui (2017), experiment X9, by recipes of our own: 100
training inputs uniform in [0, 1], 321 test inputs evenly spread over it, Gaussian noise of
deviation 0.02 on the step sign(x - 1/2) / 2 and of 0.1 on sin(12 x) + sin(25 x) / 2. Twenty
inducing points per layer, one hidden function; five seeds. Deep models start as the sparse one
and from a prior that knows nothing of it; the end with the larger evidence counts. Noise has the
floor of `fit_deep`.

python -m benchmarks.deep_toys [--seeds 5] [--figure docs/guides/deep_toys.svg]
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from cavity.learning.initialisation.deep import deepen, hidden_start
from cavity.learning.plans.deep import noise_floor

TABLE = Table("deep_toys.csv", ("set", "model", "power", "seed"))
POWERS = (0.001, 0.5, 1.0)
SETS = {
    "step": (lambda x: 0.5 * np.sign(x - 0.5), 0.02),
    "sinusoids": (lambda x: np.sin(12.0 * x) + 0.5 * np.sin(25.0 * x), 0.1),
}
POINTS, ROWS, TEST = 20, 100, 321


def data(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows."""
    function, deviation = SETS[name]
    random = np.random.default_rng(seed)
    X, X_test = random.uniform(0.0, 1.0, ROWS), np.linspace(0.0, 1.0, TEST)
    y, y_test = (function(x) + deviation * random.standard_normal(x.shape) for x in (X, X_test))
    return X[:, None], y, X_test[:, None], y_test


def fitted(kind: str, X: np.ndarray, y: np.ndarray, power: float, seed: int) -> Any:
    """The sparse model, or the deep one that starts from it; on all rows, by L-BFGS-B."""
    Z = np.linspace(0.0, 1.0, POINTS)[:, None]
    kernels, points = cavity.kernels, cavity.inducing.Points(Z)
    noise = cavity.likelihoods.Gaussian(0.01)
    single: Any = cavity.fit(cavity.GP(kernels.RBF(0.5, 0.1), noise, points), X, y, power=power)
    if kind == "sparse":
        return single
    hidden = hidden_start(X, (1,), POINTS)
    model, sites = deepen(single.model, single.posterior.process, hidden)
    layers = [
        cavity.Layer(kernels.RBF(0.3 * X.var(), 0.3), points, mean=cavity.means.Identity()),
        cavity.Layer(kernels.RBF(0.5, 0.1), points),
    ]
    method = cavity.TiedPowerEP(propagation=cavity.fitting.Nodes(20))
    starts = ((model, sites), (cavity.DeepGP(layers, noise), None))
    ends = [
        cavity.fit(
            start,
            X,
            y,
            power=power,
            method=method,
            sites=own,
            bijections=noise_floor(start, single.model, power),
        )
        for start, own in starts
    ]
    return max(ends, key=lambda end: end.log_evidence)


def measure(name: str, model: str, power: float, seed: int) -> Any:
    """Fits one model and adds a row of results."""
    X, y, X_test, y_test = data(name, seed)
    result = fitted(model, X, y, power, seed)
    predicted = result.posterior.predict(X_test)
    TABLE.add(
        {"set": name, "model": model, "power": power, "seed": seed}
        | {"test_ll": float(np.mean(predicted.log_density(jax.numpy.asarray(y_test))))}
        | {"rmse": float(np.sqrt(np.mean((np.asarray(predicted.mean) - y_test) ** 2)))}
        | {"noise_deviation": float(np.sqrt(result.model.likelihood.variance))}
        | {"log_evidence": result.log_evidence, "iterations": result.n_iterations}
    )
    return result


def draw(path: Path) -> None:
    """Predictions of both models of the step at every power, with their inducing points."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(9.0, 4.6), sharex=True, sharey=True)
    X, y, X_test, _ = data("step", 0)
    for row, model in enumerate(("sparse", "deep")):
        for axis, power in zip(axes[row], POWERS, strict=True):
            result = fitted(model, X, y, power, 0)
            predicted = result.posterior.predict(X_test)
            low, high = predicted.quantile(0.05), predicted.quantile(0.95)
            axis.fill_between(X_test[:, 0], low, high, color="#9ecae1", lw=0)
            axis.plot(X_test, predicted.mean, color="#08519c", lw=1.2)
            axis.plot(X, y, ".", color="black", ms=3)
            first = result.model.layers[0] if model == "deep" else result.model
            Z = np.asarray(first.inducing.Z)
            axis.plot(Z, np.full(len(Z), -1.15), "|", color="#a63603", ms=7)
            deviation = float(np.sqrt(result.model.likelihood.variance))
            axis.set_title(f"{model}, power {power:g}: noise {deviation:.3f}", fontsize=9)
            axis.set_ylim(-1.25, 1.25)
    figure.tight_layout()
    figure.savefig(path)


def summary() -> str:
    """Means over the seeds."""
    rows = TABLE.rows()
    lines = [f"{'set':10s} {'model':7s} {'power':>6s} {'test LL':>8s} {'RMSE':>7s} {'noise':>7s}"]
    for name, model, power in sorted({(r["set"], r["model"], float(r["power"])) for r in rows}):
        chosen = [
            r for r in rows if (r["set"], r["model"], float(r["power"])) == (name, model, power)
        ]
        values = [
            np.mean([float(r[key]) for r in chosen])
            for key in ("test_ll", "rmse", "noise_deviation")
        ]
        cells = f"{values[0]:8.3f} {values[1]:7.4f} {values[2]:7.4f}"
        lines.append(f"{name:10s} {model:7s} {power:6g} {cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--figure")
    options = parser.parse_args()
    with jax.enable_x64(True):
        if options.figure:
            draw(Path(options.figure))
            return
        kinds = ("sparse", "deep")
        for case in itertools.product(range(options.seeds), SETS, kinds, POWERS):
            seed, name, model, power = case
            if not TABLE.has(set=name, model=model, power=power, seed=seed):
                measure(name, model, power, seed)
    print(summary())


if __name__ == "__main__":
    main()
