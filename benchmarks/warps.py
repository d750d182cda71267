"""Digits that are turned, with and without warps: are ranges learned, and do errors fall?

The first 2,000 MNIST digits of the training set and the first 2,000 of the test set, each turned
by an angle drawn evenly from -a to a degrees, for a of 0, 30 and 90. Models are Gaussian ones of
ten labels of -1 and 1, with inducing images chosen from the digits and held; the kernel, the range
of rotation, the noise and the means are learned by the energy. A row with twice the number of
warps shows whether there are enough. Then more inducing images are taken at what was learned, for
errors that depend less on their number; `--points 0` is the full model, without warps alone. Rows
that are there are not measured again.

python -m benchmarks.warps [--angles 0 30 90] [--counts 0 16] [--twice 90] [--points 200]
    [--more 1000] [--images 2000] [--tests 2000] [--iterations 25] [--power 0.5]
"""

import argparse
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import ndimage

import cavity
from benchmarks.image_sets import mnist
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods, means
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.validation import all_fixed
from cavity.learning.initialisation.images import typical_distance
from cavity.learning.plans.images import targets
from cavity.parameters import bijections

TURNED = Table("warps.csv", ("angle", "warps", "points", "images", "power"))
SHAPE = (28, 28)
# Degrees that the range of rotation and the noise variance begin with, for all sets alike.
BEGIN, BEGIN_NOISE = 15.0, 0.3
# Images whose variances give that of the kernel to begin with, and tests predicted at a time.
MEASURED, BLOCK = 50, 500


def turned(part: str, count: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Digits, each turned by up to an angle in degrees, and their labels."""
    X, y = (each[:count] for each in mnist(part))
    angles = np.random.default_rng(len(part)).uniform(-angle, angle, count)
    pairs = zip(X.reshape(-1, *SHAPE), angles, strict=True)
    images = [ndimage.rotate(x, a, reshape=False, order=1) if a else x for x, a in pairs]
    return np.stack(images).reshape(count, -1), y


def inside(count: int, X: np.ndarray, points: int) -> Any:
    """So many inducing images, of the base kernel where there are warps; None for a full model."""
    if not points:
        return None
    chosen = cavity.initialisation.select_inducing(kernels.RBF(), X, points, choice="kmeans")
    Z = inducing.Points(np.asarray(chosen))
    return inducing.InBase(Z) if count else Z


def model_of(count: int, X: np.ndarray, y: np.ndarray, points: int) -> Any:
    """A model to begin with: a kernel of images, or a sum over so many warps of it."""
    kernel: Any = kernels.RBF(1.0, typical_distance(X, np.random.default_rng(0)))
    if count:
        warps = kernels.Warps(SHAPE, rotation=BEGIN, count=count)
        total = jnp.mean(kernels.SumOver(warps, kernel).diag(jnp.asarray(X[:MEASURED])))
        kernel = kernels.SumOver(warps, kernels.RBF(1.0 / float(total), kernel.lengthscale))
    mean = means.Constant(np.mean(targets(y), axis=0))
    return cavity.GP(kernel, likelihoods.Gaussian(BEGIN_NOISE), inside(count, X, points), mean)


def error_of(posterior: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The share of images whose largest mean is that of another label."""
    blocks = [X[i : i + BLOCK] for i in range(0, len(X), BLOCK)]
    mean = np.concatenate([np.asarray(posterior.predict(b).mean) for b in blocks])
    return float(np.mean(np.argmax(mean, axis=1) != y))


def row_of(angle: float, count: int, options: argparse.Namespace) -> dict[str, Any]:
    """What was learned on digits turned by up to an angle, and the errors on others."""
    X, y = turned("train", options.images, angle)
    X_test, y_test = turned("t10k", options.tests, angle)
    begun = time.perf_counter()
    model = model_of(count, X, y, options.points)
    maps = bijections(model)
    if options.points:
        maps = eqx.tree_at(lambda m: m.inducing, maps, all_fixed(maps.inducing))
    result = cavity.fit(
        model,
        X,
        targets(y),
        power=options.power,
        bijections=maps,
        max_iterations=options.iterations,
        callback=lambda p: print(f"  {p.iteration} {p.objective:.1f}", flush=True),
    )
    seconds = time.perf_counter() - begun
    learned: Any = result.model
    row = {"angle": angle, "warps": count, "points": options.points, "images": options.images}
    row |= {"power": options.power, "tests": options.tests}
    row |= {"rotation": float(learned.kernel.parts.rotation) if count else ""}
    row |= {"error": error_of(result.posterior, X_test, y_test), "more": options.more}
    if options.points:
        # the same parameters with more inducing images
        more = inside(count, X, options.more)
        model = cavity.GP(learned.kernel, learned.likelihood, more, learned.mean)
        posterior = cavity.infer(model, X, targets(y), power=options.power).posterior
        row |= {"error_more": error_of(posterior, X_test, y_test)}
    else:
        row |= {"error_more": row["error"]}
    base = learned.kernel.base if count else learned.kernel
    row |= {"log_evidence": float(result.log_evidence), "lengthscale": float(base.lengthscale)}
    row |= {"noise": float(learned.likelihood.variance)}
    return row | {"iterations": result.n_iterations, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--angles", nargs="*", type=float, default=[0.0, 30.0, 90.0])
    parser.add_argument("--counts", nargs="*", type=int, default=[0, 16])
    parser.add_argument("--twice", nargs="*", type=float, default=[90.0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--more", type=int, default=1000)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--power", type=float, default=0.5)
    options = parser.parse_args()
    chosen = [(angle, count) for count in options.counts for angle in options.angles]
    chosen += [(angle, 2 * max(options.counts)) for angle in options.twice]
    with jax.enable_x64(True), one_blas_thread():
        for angle, count in chosen:
            key = {"angle": angle, "warps": count, "points": options.points}
            key |= {"images": options.images, "power": options.power}
            if not TURNED.has(**key):
                row = row_of(angle, count, options)
                print(row, flush=True)
                TURNED.add(row)


if __name__ == "__main__":
    main()
