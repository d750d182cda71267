"""Digits told apart by convolutional Gaussian processes, beside a kernel of whole images.

usps: 7,291 images of 16 x 16 pixels and 2,007 tests. mnist: 60,000 of 28 x 28 and 10,000 tests;
mnist_10k: the first 10,000 of them; mnist_01: those of zeros and ones. Patches are 5 x 5.

Kernel and inducing variables are learned by regression on the labels of some of the images, at
the power given, then all images have the likelihood of classes, as in `ConvGPClassifier`. Rows
that are there are not measured again; `--workers` measures several at a time.

python -m benchmarks.image_sets [--sets usps] [--kernels rbf invariant weighted position
    weighted+rbf position+rbf invariant+rbf] [--powers 0 0.5 1] [--points 500] [--learning 5000]
    [--iterations 50] [--scale 15] [--workers 1]
"""

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from benchmarks.data import FOLDER
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.estimators.predictions import class_log_probabilities
from cavity.learning.initialisation.images import Convolution, convolution_start, typical_distance
from cavity.learning.initialisation.inducing_points import select_inducing
from cavity.learning.methods.methods import PowerEP
from cavity.learning.plans.images import ImageSearch, fit_images

SETS = Table("image_sets.csv", ("set", "kernel", "power", "points", "learning"))
KERNELS = (
    "rbf",
    "invariant",
    "weighted",
    "position",
    "invariant+rbf",
    "weighted+rbf",
    "position+rbf",
)
# Images whose probabilities are computed at a time.
TESTS = 2000
Images = tuple[np.ndarray, np.ndarray]


def mnist(part: str) -> Images:
    """Pixels between 0 and 1, and digits, of the part "train" or "t10k"."""
    parts = []
    for kind, header in (("images-idx3", 16), ("labels-idx1", 8)):
        with gzip.open(FOLDER / "mnist" / f"{part}-{kind}-ubyte.gz") as file:
            parts.append(np.frombuffer(file.read(), np.uint8, offset=header))
    return parts[0].reshape(-1, 784) / 255.0, parts[1].astype(int)


def usps(part: str) -> Images:
    with np.load(FOLDER / "usps" / "usps.npz") as data:
        return data[f"X_{part}_milli"] / 1000.0, data[f"y_{part}"].astype(int)


def images_of(name: str) -> tuple[Images, Images, tuple[int, int]]:
    """Images to learn from and images to test, and their shape."""
    if name == "usps":
        return usps("train"), usps("test"), (16, 16)
    (X, y), (X_test, y_test) = mnist("train"), mnist("t10k")
    if name == "mnist_10k":
        X, y = X[:10_000], y[:10_000]
    if name == "mnist_01":
        X, y, X_test, y_test = X[y < 2], y[y < 2], X_test[y_test < 2], y_test[y_test < 2]
    return (X, y), (X_test, y_test), (28, 28)


def start_of(kernel: str, X: np.ndarray, shape: tuple[int, int], points: int) -> tuple[Any, Any]:
    """A kernel and inducing variables to begin with."""
    if kernel == "rbf":
        random = np.random.default_rng(0)
        some = X[random.permutation(len(X))[:5000]]
        base = kernels.RBF(1.0, typical_distance(some, random))
        return base, inducing.Points(np.asarray(select_inducing(base, some, points)))
    parts, _, plus = kernel.partition("+")
    patches = kernels.Patches(shape, (5, 5), positions=parts == "position")
    return convolution_start(Convolution(patches, parts == "weighted", plus or None, points), X, 0)


def row_of(options: argparse.Namespace) -> dict[str, Any]:
    """The errors of one kernel at one power, and what they took."""
    (X, y), (X_test, y_test), shape = images_of(options.sets[0])
    kernel, power = options.kernels[0], options.powers[0]
    classes = int(y.max()) + 1
    binary = classes == 2
    search = ImageSearch(
        method=PowerEP(coupled=False) if not binary else PowerEP(),
        power=power,
        class_power=power if binary else 1.0,
        images=options.learning,
        iterations=options.iterations,
        scale_iterations=options.scale,
        jitter=1e-8,
        seed=0,
    )
    likelihood = likelihoods.Bernoulli() if binary else likelihoods.MultinomialProbit(classes)
    begun = time.perf_counter()
    begin = start_of(kernel, X, shape, options.points)
    result, said = fit_images(begin, likelihood, X, y.astype(float), search)
    seconds = time.perf_counter() - begun
    posterior: Any = result.posterior
    tests = (X_test[i : i + TESTS] for i in range(0, len(X_test), TESTS))
    log_p = np.concatenate([class_log_probabilities(posterior, x, classes) for x in tests])
    row = {"set": options.sets[0], "kernel": kernel, "power": power, "points": options.points}
    row |= {"learning": options.learning, "images": len(X), "tests": len(y_test)}
    row |= {"error": float(np.mean(np.argmax(log_p, axis=1) != y_test))}
    row |= {"nlpp": float(-np.mean(log_p[np.arange(len(log_p)), y_test]))}
    row |= {"log_evidence": float(result.log_evidence), "converged": result.converged}
    row |= {"seconds": seconds, "tests_seconds": time.perf_counter() - begun - seconds}
    return row | {"device": jax.devices()[0].device_kind, "learned": said.replace(",", ";")}


def in_process(options: argparse.Namespace, chosen: tuple[float, str, str]) -> None:
    """Measures one row in a process of its own, and adds it."""
    power, name, kernel = chosen
    key = {"set": name, "kernel": kernel, "power": power, "points": options.points}
    if SETS.has(**key, learning=options.learning):
        return
    call = [sys.executable, "-m", "benchmarks.image_sets", "--one", "--sets", name]
    call += ["--kernels", kernel, "--powers", str(power), "--points", str(options.points)]
    call += ["--learning", str(options.learning), "--iterations", str(options.iterations)]
    call += ["--scale", str(options.scale)]
    found = subprocess.run(call, capture_output=True, text=True, check=False)
    if found.returncode:
        print(f"{name} {kernel} {power}: failed\n{found.stderr[-3000:]}", flush=True)
        return
    row = json.loads(found.stdout.strip().splitlines()[-1])
    print(row, flush=True)
    SETS.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*", default=["usps"])
    parser.add_argument("--kernels", nargs="*", default=KERNELS)
    parser.add_argument("--powers", nargs="*", type=float, default=[0.0, 0.5, 1.0])
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--learning", type=int, default=5000)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--scale", type=int, default=15)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--one", action="store_true", help="one row, in this process, as json")
    options = parser.parse_args()
    if options.one:
        with jax.enable_x64(True):
            print(json.dumps(row_of(options)))
        return
    chosen = itertools.product(options.powers, options.sets, options.kernels)
    with ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(lambda each: in_process(options, each), chosen))


if __name__ == "__main__":
    main()
