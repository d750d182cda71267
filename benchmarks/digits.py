"""Embeddings of handwritten digits: a map, and pixels predicted from others.

The digits of scikit-learn, 8 x 8 pixels. Of a map in two dimensions, the share of rows whose
nearest neighbour in it is the same digit (its row left out). Of missing data: 500 rows to learn
from and 300 new ones, with 30 % of the entries of all rows missing at random; the root mean
squared error of predicting those of the new rows, in units of a pixel's 16 levels, and the share
within 90 % intervals. Beside it are the columns' means, and probabilistic principal components
learned by expectation maximisation with the missing entries left out.

python -m benchmarks.digits [--seeds 3] [--figure docs/guides/digits.svg]
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import cavity
from benchmarks.results import Table

TABLE = Table("digits.csv", ("task", "method", "dims", "seed"))
TRAIN, TEST, SHARE = 500, 300, 0.3
DIMS = (2, 5, 10)
LEVELS = 16.0


def digits(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The pixels of 800 digits, and which digits they are."""
    Y, label = (np.asarray(part) for part in load_digits(return_X_y=True))
    chosen = np.random.default_rng(seed).permutation(len(Y))[: TRAIN + TEST]
    return Y[chosen], label[chosen]


def same_as_nearest(points: np.ndarray, label: np.ndarray) -> float:
    """The share of rows whose nearest neighbour has the same label."""
    distance = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    np.fill_diagonal(distance, np.inf)
    return float(np.mean(label[np.argmin(distance, axis=1)] == label))


def embedding(dims: int, seed: int) -> cavity.GPEmbedding:
    """An embedding in which pixels that vary more count more."""
    return cavity.GPEmbedding(n_components=dims, standardise=False, random_state=seed)


def principal_components(Y: np.ndarray, dims: int, steps: int = 100) -> Any:
    """Probabilistic principal components of rows with missing entries: mean, loadings, noise."""
    seen = ~np.isnan(Y)
    mean, noise = np.nanmean(Y, axis=0), float(np.nanvar(Y))
    away = np.where(seen, Y - mean, 0.0)
    W = np.linalg.svd(away, full_matrices=False)[2][:dims].T * np.sqrt(noise)
    for _ in range(steps):
        x, second = _posterior(away, seen, W, noise)
        left = np.einsum("np,nqr->pqr", seen, second) + 1e-6 * np.eye(dims)
        W = np.linalg.solve(left, np.einsum("np,nq->pq", away, x)[:, :, None])[:, :, 0]
        fit = away**2 - 2.0 * away * (x @ W.T) + np.einsum("pq,nqr,pr->np", W, second, W)
        noise = float(np.sum(fit[seen]) / seen.sum())
    return mean, W, noise


def _posterior(
    away: np.ndarray, seen: np.ndarray, W: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """First and second moments of the components of rows."""
    inner = np.einsum("np,pq,pr->nqr", seen, W, W) / noise + np.eye(W.shape[1])
    cov = np.linalg.inv(inner)
    x = np.einsum("nqr,nr->nq", cov, (away * seen) @ W / noise)
    return x, cov + x[:, :, None] * x[:, None, :]


def imputation(seed: int) -> None:
    """Missing pixels of new rows, by each method."""
    Y, _ = digits(seed)
    missing = np.random.default_rng(seed).random(Y.shape) < SHARE
    rows = np.where(missing, np.nan, Y)
    train, test, truth = rows[:TRAIN], rows[TRAIN:], Y[TRAIN:]
    hidden = missing[TRAIN:]
    plain = np.broadcast_to(np.nanmean(train, axis=0), truth.shape)
    _add("imputation", "means", 0, seed, plain, truth, hidden, None)
    for dims in DIMS:
        mean, W, noise = principal_components(train, dims)
        seen = ~np.isnan(test)
        x, second = _posterior(np.where(seen, test - mean, 0.0), seen, W, noise)
        spread = second - x[:, :, None] * x[:, None, :]
        std = np.sqrt(np.einsum("pq,nqr,pr->np", W, spread, W) + noise)
        _add("imputation", "PCA", dims, seed, mean + x @ W.T, truth, hidden, std)
        began = time.perf_counter()
        fitted = embedding(dims, seed).fit(train)
        seconds = time.perf_counter() - began
        out, std = fitted.impute(test, return_std=True)
        _add("imputation", "GPEmbedding", dims, seed, out, truth, hidden, std, seconds)


def _add(
    task: str,
    method: str,
    dims: int,
    seed: int,
    out: np.ndarray,
    truth: np.ndarray,
    hidden: np.ndarray,
    std: np.ndarray | None,
    seconds: float | None = None,
) -> None:
    wrong = (out - truth)[hidden]
    inside = None if std is None else float(np.mean(np.abs(wrong) < 1.6448536 * std[hidden]))
    keys = {"task": task, "method": method, "dims": dims, "seed": seed}
    rmse = float(np.sqrt(np.mean(wrong**2))) / LEVELS
    TABLE.add(keys | {"value": rmse, "inside_90": inside, "seconds": seconds})


def maps(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The map by principal components, that of the embedding, and the digits."""
    Y, label = digits(seed)
    Y, label = Y[:TRAIN], label[:TRAIN]
    began = time.perf_counter()
    fitted = embedding(2, seed).fit(Y)
    seconds = time.perf_counter() - began
    both = {"PCA": PCA(2).fit_transform(Y), "GPEmbedding": fitted.embedding_}
    for method, points in both.items():
        keys = {"task": "map", "method": method, "dims": 2, "seed": seed}
        share = same_as_nearest(points, label)
        TABLE.add(
            keys
            | {
                "value": share,
                "inside_90": None,
                "seconds": seconds if method != "PCA" else None,
            }
        )
    return both["PCA"], both["GPEmbedding"], label


def draw(path: Path) -> None:
    """Both maps side by side, each row as its digit."""
    from cavity.drawing import COLOURS
    from cavity.report.svg import picture

    *points, label = maps(0)

    def panels(figure: Any) -> None:
        for axes, where, title in zip(
            figure.subplots(1, 2), points, ("principal components", "GPEmbedding"), strict=True
        ):
            for digit in range(10):
                for x, y in where[label == digit]:
                    axes.text(x, y, str(digit), color=COLOURS[digit], size=6.0, ha="center")
            axes.set(xlim=_range(where[:, 0]), ylim=_range(where[:, 1]))
            share = 100.0 * same_as_nearest(where, label)
            axes.set(title=f"{title}: {share:.0f} % beside the same digit", xticks=[], yticks=[])

    path.write_text(picture(panels, width=9.0, height=4.6))


def _range(values: np.ndarray) -> tuple[float, float]:
    room = 0.05 * np.ptp(values)
    return float(values.min() - room), float(values.max() + room)


def summary() -> str:
    """Means over the seeds."""
    rows, lines = TABLE.rows(), []
    for task, method, dims in sorted({(r["task"], r["method"], int(r["dims"])) for r in rows}):
        chosen = [
            r for r in rows if (r["task"], r["method"], int(r["dims"])) == (task, method, dims)
        ]
        value = np.mean([float(r["value"]) for r in chosen])
        inside = [float(r["inside_90"]) for r in chosen if r["inside_90"]]
        shown = f"{np.mean(inside):.3f}" if inside else ""
        lines.append(f"{task:11s} {method:12s} {dims:3d} {value:7.4f} {shown}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure")
    options = parser.parse_args()
    if options.figure:
        draw(Path(options.figure))
        return
    for seed in range(options.seeds):
        if not TABLE.has(task="map", method="PCA", dims=2, seed=seed):
            maps(seed)
        if not TABLE.has(task="imputation", method="GPEmbedding", dims=DIMS[-1], seed=seed):
            imputation(seed)
    print(summary())


if __name__ == "__main__":
    main()
