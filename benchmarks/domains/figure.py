"""Two pictures: what the evidence weighs (E28 to E30), and the needle beside a window (E19).

python -m benchmarks.domains.figure docs/guides

The first draws prior samples of three lengthscales with those that pass near the data, the
densities of forecasts one row at a time, and two kernels beyond the data. The second draws
`domains_scan.csv`.
"""

import argparse
from pathlib import Path
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.domains.scan import PAIR, SCAN
from cavity import drawing, kernels, likelihoods
from cavity.report.svg import picture

LENGTHSCALES = {0.3: "short", 1.5: "medium", 15.0: "long"}
SAMPLES, NEAR, NOISE = 1_000_000, 0.7, likelihoods.Gaussian(0.2)
COLOURS = (drawing.ACCENT, drawing.MODEL, drawing.INK)


def rows() -> tuple[np.ndarray, np.ndarray]:
    """The eleven rows of examples/evidence.py."""
    X = np.linspace(0.0, 10.0, 11)[:, None]
    return X, np.sin(X[:, 0]) + 0.2 * np.random.default_rng(1).standard_normal(11)


def near(X: np.ndarray, y: np.ndarray, kernel: Any, grid: np.ndarray) -> tuple[int, np.ndarray]:
    """How many prior samples pass near all rows; some of these on the grid."""
    everywhere = np.concatenate([X, grid])
    K = np.asarray(kernel.cross(everywhere, everywhere)) + 1e-8 * np.eye(len(everywhere))
    root = np.linalg.cholesky(K)
    random, kept = np.random.default_rng(0), []
    for _ in range(SAMPLES // 50_000):
        normal = random.standard_normal((50_000, len(X)))
        passed = np.max(np.abs(normal @ root[: len(X), : len(X)].T - y), axis=1) < NEAR
        kept.append(normal[passed])
    found = np.concatenate(kept)
    shown = found[:6]
    more = random.standard_normal((len(shown), len(grid)))
    return len(found), np.concatenate([shown, more], axis=1) @ root[len(X) :].T


def evidence(figure: Any) -> None:
    X, y = rows()
    grid = np.linspace(0.0, 10.0, 120)[:, None]
    axes = figure.subplots(2, 3)
    forecasts = axes[1, 0]
    for place, (lengthscale, name) in enumerate(LENGTHSCALES.items()):
        kernel = kernels.RBF(1.0, lengthscale)
        count, samples = near(X, y, kernel, grid)
        panel = axes[0, place]
        for sample in samples:
            panel.plot(grid, sample, color=COLOURS[place], linewidth=0.8, alpha=0.7)
        panel.plot(X, y, "o", color=drawing.INK, markersize=4)
        panel.set(title=f"lengthscale {lengthscale:g}: {count} of 1,000,000", ylim=(-2.5, 2.5))
        model = cavity.GP(kernel, NOISE)
        sums = [0.0, *(cavity.infer(model, X[:n], y[:n]).log_evidence for n in range(1, 12))]
        print(f"{name}: {count} samples pass, evidence {sums[-1]:.2f} nats")
        forecasts.plot(np.arange(1, 12), sums[1:], ".-", color=COLOURS[place], label=name)
    forecasts.set(xticks=range(1, 12, 2), xlabel="rows", ylabel="log evidence, nats")
    drawing.legend_above(forecasts)
    beyond = np.linspace(0.0, 20.0, 200)[:, None]
    both = (("RBF", kernels.RBF(1.0, 1.5)), ("periodic", kernels.Periodic(1.0, 1.0, 6.0)))
    for panel, (name, kernel) in zip(axes[1, 1:], both, strict=True):
        result = cavity.fit(cavity.GP(kernel, NOISE), X, y)
        mean, var = (np.asarray(x) for x in result.posterior.marginals(beyond))
        spread = 1.96 * np.sqrt(var)
        panel.fill_between(
            beyond[:, 0], mean - spread, mean + spread, color=drawing.MODEL, alpha=0.2
        )
        panel.plot(beyond, mean, color=drawing.MODEL)
        panel.plot(beyond, np.sin(beyond), "--", color=drawing.FAINT, linewidth=1)
        panel.plot(X, y, "o", color=drawing.INK, markersize=4)
        panel.set(title=f"{name}: {result.log_evidence:.1f} nats", ylim=(-2.5, 2.5))


def needle(figure: Any) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    found = SCAN.rows()
    for colour, jitter in zip(COLOURS, ("1e-14", "1e-06", "0.001"), strict=True):
        table = np.array(
            [
                [float(r[k]) for k in ("place", "beside", "bound")]
                for r in found
                if r["jitter"] == jitter
            ]
        )
        table = table[np.argsort(table[:, 0])]
        left.plot(table[:, 0], table[:, 2], color=colour, linewidth=1.2, label=f"jitter {jitter}")
        close = table[np.abs(table[:, 1]) < 0.0101]
        right.plot(1e3 * close[:, 1], close[:, 2], color=colour, linewidth=1.2)
    bounds = {row["model"]: float(row["bound"]) for row in PAIR.rows()}
    for axes in (left, right):
        axes.axhline(bounds["two"], color=drawing.FAINT, linewidth=0.8, linestyle=drawing.DASHES)
    left.set(xlabel="place of the third window", ylabel="bound, nats")
    right.set(xlabel="thousandths from the window that is there")
    drawing.legend_above(left)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    with jax.enable_x64(True):
        folder.joinpath("evidence.svg").write_text(picture(evidence, width=9.0, height=5.6))
        folder.joinpath("needle.svg").write_text(picture(needle, width=9.0, height=3.4))


if __name__ == "__main__":
    main()
