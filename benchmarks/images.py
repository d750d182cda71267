"""Sums over the patches of images: what they cost beside products and exponentials, and errors.

cost: one thread, 28 x 28 images, patches of 5 x 5, in turns: products and exponentials of M x P
matrices, cross-covariances and variances of images, and their derivatives; milliseconds an image.
rectangles: 1,200 images of a tall or a wide rectangle, 16 inducing patches of 3 x 3, tested on
3,000 others: the kernel is learned by regression on labels of -1 and 1, then rows have the
Bernoulli likelihood.

python -m benchmarks.images [--only cost rectangles] [--images 200] [--iterations 60]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.data import FOLDER
from benchmarks.objective import medians_ms
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.learning.infer import one_blas_thread

COST = Table("image_cost.csv", ("images", "points"))
ERRORS = Table("image_errors.csv", ("data", "kernel", "power", "points"))
SHAPE = (28, 28)


def cost(images: int, points: int) -> None:
    """A row of the table of costs."""
    random = np.random.default_rng(0)
    X, Z = (jnp.asarray(random.uniform(size=s)) for s in ((images, 784), (points, 25)))
    S = jnp.asarray(random.normal(size=(points, images)))
    parts = kernels.Patches(SHAPE, (5, 5))

    def kernel(p: Any) -> kernels.SumOver:
        return kernels.SumOver(parts, kernels.RBF(p[0], p[1]), p[2:])

    def cross(p: Any, Z: Any) -> Any:
        return inducing.covariance(
            kernel(p), inducing.InBase(inducing.Points(Z)), inducing.Points(X)
        )

    p = jnp.concatenate([jnp.array([1.0, 2.0]), jnp.ones(parts.size)])
    A, B = (jnp.asarray(random.normal(size=s)) for s in ((points, 27), (27, parts.size)))
    K = jnp.asarray(-random.uniform(size=(points, parts.size)))
    each = jnp.arange(1.0, images + 1.0) / images
    product = jax.jit(lambda A: jax.lax.map(lambda i: (A * i) @ B @ p[2:], each))
    exponential = jax.jit(lambda K: jax.lax.map(lambda i: jnp.exp(K * i) @ p[2:], each))
    forwards, variances = jax.jit(cross), jax.jit(lambda p: kernel(p).diag(X))
    backwards = jax.jit(jax.grad(lambda p, Z: jnp.sum(S * cross(p, Z)), (0, 1)))
    back = jax.jit(jax.grad(lambda p: jnp.sum(kernel(p).diag(X))))
    calls: list[Callable[[], object]] = [
        lambda: product(A),
        lambda: exponential(K),
        lambda: forwards(p, Z),
        lambda: backwards(p, Z),
        lambda: variances(p),
        lambda: back(p),
    ]
    with one_blas_thread():
        found = [t / images for t in medians_ms(calls, 9)]
    names = ("product", "exponential", "cross", "cross_gradient", "variance", "variance_gradient")
    row: dict[str, Any] = {"images": images, "points": points}
    row |= {f"{name}_ms": t for name, t in zip(names, found, strict=True)}
    row |= {"cross_over_floor": found[2] / (found[0] + found[1])}
    row |= {"gradient_over_cross": found[3] / found[2]}
    print(row, flush=True)
    COST.add(row)


def rectangles(count: int) -> tuple[np.ndarray, ...]:
    """Images and labels of 0 and 1: those to learn from, and the first of the others."""
    with np.load(FOLDER / "rectangles" / "rectangles.npz") as data:
        X, X_test = (np.unpackbits(data[f"X_{k}"], axis=1) for k in ("train", "test"))
        y, y_test = data["y_train"], data["y_test"]
    return X.astype(float), y.astype(float), X_test[:count].astype(float), y_test[:count]


def model_of(name: str, X: np.ndarray, points: int) -> cavity.GP:
    """The start of a kernel, with a likelihood for labels of -1 and 1."""
    plain = kernels.Patches(SHAPE, (3, 3))
    patches = kernels.distinct_parts(plain, X)
    base = kernels.RBF(1.0 / plain.size, 1.0)
    Z = np.asarray(cavity.select_inducing(base, patches, points))
    if name == "position":
        base = kernels.RBF(1.0 / plain.size, 1.0).on(*range(9))
        base = base * kernels.Matern32(1.0, 10.0).on(9, 10)
        places = np.random.default_rng(0).uniform(0.0, 25.0, (len(Z), 2))
        kernel = kernels.SumOver(kernels.Patches(SHAPE, (3, 3), positions=True), base)
        Z = np.concatenate([Z, places], axis=1)
    else:
        weights = np.ones(plain.size) if name == "weighted" else None
        kernel = kernels.SumOver(plain, base, weights)
    return cavity.GP(kernel, likelihoods.Gaussian(0.3), inducing.InBase(inducing.Points(Z)))


def errors(name: str, power: float, points: int, iterations: int) -> None:
    """A row of the table of errors, where it is not there."""
    if ERRORS.has(data="rectangles", kernel=name, power=power, points=points):
        return
    X, y, X_test, y_test = rectangles(3000)
    begun = time.perf_counter()
    first = model_of(name, X, points)
    if name != "position":
        every = kernels.count_parts(kernels.Patches(SHAPE, (3, 3)), np.concatenate([X, X_test]))
        X, X_test = every[: len(X)], every[len(X) :]
    learned: Any = cavity.fit(first, X, 2.0 * y - 1.0, power=power, max_iterations=iterations)
    start = cavity.GP(learned.model.kernel, likelihoods.Bernoulli(), learned.model.inducing)
    result = cavity.fit(start, X, y, power=power, max_iterations=iterations)
    seconds = time.perf_counter() - begun
    p = np.asarray(result.posterior.predict(X_test).mean).ravel()
    row = {
        "data": "rectangles",
        "kernel": name,
        "power": power,
        "points": points,
        "tests": len(y_test),
        "error": float(np.mean((p > 0.5) != (y_test > 0.5))),
        "nlpp": -float(np.mean(np.log(np.where(y_test > 0.5, p, 1.0 - p)))),
        "log_evidence": float(result.log_evidence),
        "regression_evidence": float(learned.log_evidence),
        "iterations": learned.n_iterations + result.n_iterations,
        "converged": result.converged,
        "seconds": seconds,
    }
    print(row, flush=True)
    ERRORS.add(row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["cost", "rectangles"])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=60)
    options = parser.parse_args()
    with jax.enable_x64(True):
        if "cost" in options.only:
            cost(options.images, 750)
        if "rectangles" in options.only:
            for name in ("invariant", "weighted", "position"):
                errors(name, 0.5, 16, options.iterations)


if __name__ == "__main__":
    main()
