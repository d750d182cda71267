"""Inducing points that move in a stream: a picture after each of four batches.

Rows arrive from the left to the right. `cavity.update` sees each batch once; what earlier rows
said is kept by the inducing points, which spread over the places of all rows so far.
Writes stream.svg, or the file that is given.
"""

import sys
import warnings

import jax
import numpy as np

import cavity

BATCHES, ROWS, POINTS = 4, 60, 20


def stream():
    """Batches of rows, each to the right of the ones before."""
    random = np.random.default_rng(0)
    for i in range(BATCHES):
        x = np.sort(random.uniform(2.5 * i, 2.5 * (i + 1), ROWS))
        yield x[:, None], np.sin(1.5 * x) + 0.3 * np.cos(3.0 * x) + 0.1 * random.normal(size=ROWS)


def results():
    """The model after each batch."""
    result = None
    for X, y in stream():
        if result is None:
            points = cavity.inducing.Points(np.linspace(X.min(), X.max(), POINTS)[:, None])
            model = cavity.GP(cavity.kernels.RBF(), cavity.likelihoods.Gaussian(0.1), points)
            result = cavity.fit(model, X, y)
        else:
            result = cavity.update(result, X, y)
        yield X, y, result


def draw(path):
    """A panel for each batch: its rows, those that are gone, the function, and the points."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    figure.set_canvas(FigureCanvasSVG(figure))
    panels = figure.subplots(BATCHES, 1, sharex=True, sharey=True)
    places = np.linspace(-0.3, 2.5 * BATCHES + 0.3, 200)[:, None]
    gone = []
    for number, (axes, (X, y, result)) in enumerate(zip(panels, results(), strict=True), 1):
        mean, var = map(np.asarray, result.posterior.marginals(places))
        width = 1.96 * np.sqrt(var)
        Z = np.asarray(result.model.inducing.Z)[:, 0]
        axes.fill_between(
            places[:, 0], mean - width, mean + width, color="#0072b2", alpha=0.2, lw=0
        )
        axes.plot(places, mean, color="#0072b2", lw=1.5)
        for old in gone:
            axes.plot(*old, ".", color="#8c959f", ms=2, alpha=0.6)
        axes.plot(X[:, 0], y, ".", color="#24292f", ms=4)
        axes.plot(Z, np.full(len(Z), -2.6), "^", color="#d55e00", ms=6)
        axes.set(ylim=(-3.0, 2.5), xlim=(places[0, 0], places[-1, 0]))
        axes.set_title(f"after batch {number}", loc="left", fontsize=10)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        gone.append((X[:, 0], y))
        print(
            f"batch {number}: {len(Z)} points from {Z.min():.2f} to {Z.max():.2f}, "
            f"log evidence of all rows {result.log_evidence:.1f} nats"
        )
    figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows at new places surprise the model, as they should
        draw(sys.argv[1] if len(sys.argv) > 1 else "stream.svg")
