"""Digits on two channels whose label is shape xor colour: which kernels of channels tell them?

1,000 images, of 28 x 28 pixels and two channels, of one of two MNIST digits on one of the
channels, at random; 1,000 tests. The label is 1 where the first digit is on the second channel or
the second digit on the first. Patches are 5 x 5, every second pixel, without weights.

joint: patches of both channels. multi: a sum over patches, and inducing patches, for each channel.
pooled: patches of either channel, of one function. Each has `--points` inducing patches in all.
Rows that are there are not measured again.

python -m benchmarks.colours [--kernels joint multi pooled] [--digits 0 1] [--points 100]
    [--images 1000] [--iterations 30] [--power 0.5]
"""

import argparse
import time
from typing import Any

import jax
import numpy as np

from benchmarks.image_sets import mnist
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.initialisation.images import Convolution, convolution_start
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.images import ImageSearch, fit_images

COLOURS = Table("colours.csv", ("digits", "kernel", "points", "images", "power"))
SHAPE = (28, 28, 2)
KERNELS = ("joint", "multi", "pooled")
TESTS = 1000


def coloured(part: str, digits: list[int], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of pixels with two channels, and labels of 0 and 1."""
    X, y = mnist(part)
    chosen = np.flatnonzero(np.isin(y, digits))[:count]
    second = y[chosen] == digits[1]
    colour = np.random.default_rng(len(part)).integers(0, 2, len(chosen))
    images = np.zeros((len(chosen), 784, 2))
    images[np.arange(len(chosen)), :, colour] = X[chosen]
    return images.reshape(len(chosen), -1), (second ^ (colour == 1)).astype(float)


def start_of(kernel: str, X: np.ndarray, points: int) -> tuple[Any, Any]:
    """A kernel and inducing patches to begin with."""

    def one(channels: Any, count: int) -> tuple[Any, Any]:
        patches = kernels.Patches(SHAPE, (5, 5), 2, channels=channels)
        return convolution_start(Convolution(patches, False, None, count), X, 0)

    if kernel != "multi":
        return one(kernel, points)
    (first, a), (second, b) = (one(channel, points // 2) for channel in (0, 1))
    return first + second, inducing.OfParts((a, b))


def row_of(kernel: str, options: argparse.Namespace) -> dict[str, Any]:
    """The errors of one kernel, and what they took."""
    X, y = coloured("train", options.digits, options.images)
    X_test, y_test = coloured("t10k", options.digits, TESTS)
    search = ImageSearch(
        method=PowerEP(),
        power=options.power,
        class_power=options.power,
        images=options.images,
        iterations=options.iterations,
        scale_iterations=10,
        jitter=1e-8,
        seed=0,
    )
    begun = time.perf_counter()
    start = start_of(kernel, X, options.points)
    result, said = fit_images(start, likelihoods.Bernoulli(), X, y, search)
    seconds = time.perf_counter() - begun
    p = np.asarray(result.posterior.predict(X_test).mean).ravel()
    row = {"digits": " ".join(map(str, options.digits)), "kernel": kernel}
    row |= {"points": options.points, "images": len(X), "power": options.power}
    row |= {"tests": len(y_test), "error": float(np.mean((p > 0.5) != (y_test > 0.5)))}
    row |= {"nlpp": float(-np.mean(np.log(np.where(y_test > 0.5, p, 1.0 - p))))}
    row |= {"log_evidence": float(result.log_evidence), "converged": result.converged}
    return row | {"seconds": seconds, "learned": said.replace(",", ";")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="*", default=KERNELS)
    parser.add_argument("--digits", nargs=2, type=int, default=[0, 1])
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--power", type=float, default=0.5)
    options = parser.parse_args()
    with jax.enable_x64(True), one_blas_thread():
        for kernel in options.kernels:
            key = {"digits": " ".join(map(str, options.digits)), "kernel": kernel}
            key |= {"points": options.points, "images": options.images, "power": options.power}
            if not COLOURS.has(**key):
                row = row_of(kernel, options)
                print(row, flush=True)
                COLOURS.add(row)


if __name__ == "__main__":
    main()
