"""Inducing points that move in a stream: a picture after each of four batches.

Rows arrive from the left to the right. `cavity.update` sees each batch once; what earlier rows
said is kept by the inducing points, which spread over the places of all rows so far.
"""

import warnings

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity

BATCHES, ROWS, POINTS = 4, 60, 20


def stream():
    """Batches of rows, each to the right of the ones before."""
    random = np.random.default_rng(0)
    for i in range(BATCHES):
        x = np.sort(random.uniform(2.5 * i, 2.5 * (i + 1), ROWS))
        yield x[:, None], np.sin(1.5 * x) + 0.3 * np.cos(3.0 * x) + 0.1 * random.normal(size=ROWS)


def learn(result, X, y):
    """The model after one more batch."""
    if result is not None:
        return cavity.update(result, X, y)
    points = cavity.inducing.Points(np.linspace(X.min(), X.max(), POINTS)[:, None])
    return cavity.fit(
        cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian(0.1), points), X, y
    )


figure, panels = plt.subplots(BATCHES, 1, figsize=(8, 6.4), sharex=True, sharey=True)
grid = np.linspace(-0.3, 2.5 * BATCHES + 0.3, 90)[:, None]
result, gone = None, []
with jax.enable_x64(True), warnings.catch_warnings():
    warnings.simplefilter("ignore")  # rows at new places surprise the model, as they should
    for number, (axes, (X, y)) in enumerate(zip(panels, stream(), strict=True), 1):
        result = learn(result, X, y)
        mean, var = map(np.asarray, result.posterior.marginals(grid))
        width, Z = 1.96 * np.sqrt(var), np.asarray(result.model.inducing.Z)[:, 0]
        axes.fill_between(grid[:, 0], mean - width, mean + width, alpha=0.2, lw=0)
        axes.plot(grid, mean)
        for old in gone:
            axes.plot(old[0][::2], old[1][::2], ".", color="#8c959f", ms=2)
        axes.plot(X[:, 0], y, "k.", ms=4)
        axes.plot(Z, np.full(len(Z), -2.6), "^", color="#d55e00")
        axes.set(ylim=(-3.0, 2.5), xlim=(-0.3, 10.3))
        axes.set_title(f"after batch {number}", loc="left", fontsize=10)
        gone.append((X[:, 0], y))
        print(
            f"batch {number}: {len(Z)} points from {Z.min():.2f} to {Z.max():.2f}, "
            f"log evidence of all rows {result.log_evidence:.1f} nats"
        )
plt.show()
