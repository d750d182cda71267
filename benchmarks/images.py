"""Sums over the patches of images: what they cost beside products and exponentials, and errors.

cost: one thread, 28 x 28 images, patches of 5 x 5, in turns: products and exponentials of M x P
matrices, cross-covariances and variances of images, and their derivatives; milliseconds an image.
shared: 28 x 28 images, patches of 5 x 5, one and ten functions of one kernel, and ten functions
that have equal kernels each, with projections of their own: seconds for the projections, for value
and slope of the energy with tied sites, and for ten sweeps, with projections held and anew.
rectangles: 1,200 images of a tall or a wide rectangle, 16 inducing patches of 3 x 3, tested on
50,000 others: the kernel is learned by regression on labels of -1 and 1, then rows have the
Bernoulli likelihood.

python -m benchmarks.images [--only cost shared rectangles] [--images 200] [--iterations 60]
                            [--kernels invariant weighted position rbf]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import cavity
from benchmarks.data import FOLDER
from benchmarks.objective import medians_ms
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods
from cavity.inference.energy import empty_sites, energy
from cavity.inference.solvers.parallel import sweep
from cavity.learning.blas_threads import one_blas_thread
from cavity.learning.data.arrays import prepare

COST = Table("image_cost.csv", ("images", "points"))
SHARED = Table("image_shared.csv", ("form", "functions", "images", "points"))
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


def shared(images: int, points: int) -> None:
    """Rows of the table of shared projections."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(images, 784))
    kernel = 1e-3 * kernels.SumOver(kernels.Patches(SHAPE, (5, 5)), kernels.RBF(1.0, 2.0))
    inside = inducing.InBase(inducing.Points(random.uniform(size=(points, 25))))
    tied, private = cavity.TiedPowerEP(), cavity.PowerEP(coupled=False)
    for form, count in (("one kernel", 1), ("one kernel", 10), ("equal kernels", 10)):
        likelihood = likelihoods.MultinomialProbit(count) if count > 1 else likelihoods.Bernoulli()
        own = (kernel,) * count if form == "equal kernels" else kernel
        model: Any = cavity.GP(own, likelihood, inside)
        data = prepare(X, random.integers(0, max(count, 2), images).astype(float), power=0.5)

        def graph(model: Any, method: Any = private, data: Any = data) -> Any:
            return data.problem(model, method.approximation, 1e-8).graph()

        @eqx.filter_jit
        def projections(model: Any, graph: Any = graph) -> Any:
            return graph(model).with_projections().only_factor().rows.projections

        @eqx.filter_jit
        def tied_step(model: Any, graph: Any = graph) -> Any:
            def value(model: Any) -> Any:
                return energy(graph(model, tied), empty_sites(graph(model, tied)))

            return eqx.filter_value_and_grad(value)(model)

        @eqx.filter_jit
        def sweeps(model: Any, *, held: bool, graph: Any = graph) -> Any:
            laid = graph(model)
            laid = laid.with_projections() if held else laid
            once = lambda i, sites: sweep(laid, sites, 0.5)[0]  # noqa: E731
            return jax.lax.fori_loop(0, 10, once, empty_sites(laid))

        calls: list[Callable[[], object]] = [
            lambda: projections(model),  # noqa: B023
            lambda: tied_step(model),  # noqa: B023
            lambda: sweeps(model, held=True),  # noqa: B023
            lambda: sweeps(model, held=False),  # noqa: B023
        ]
        with one_blas_thread():
            found = [t / 1000.0 for t in medians_ms(calls, 3)]
        names = ("projections", "tied_step", "held_sweeps", "sweeps")
        row: dict[str, Any] = {"form": form, "functions": count, "images": images}
        row |= {"points": points} | dict(zip(names, found, strict=True))
        print(row, flush=True)
        SHARED.add(row)


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
    Z = np.asarray(cavity.initialisation.select_inducing(base, patches, points))
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
    X, y, X_test, y_test = rectangles(50_000)
    begun = time.perf_counter()
    rows = (lambda X: X) if name in ("position", "rbf") else counted
    X = rows(X)
    if name == "rbf":
        start = cavity.GP(kernels.RBF(1.0, 5.0), likelihoods.Bernoulli())
        found = {"points": "full", "regression_evidence": ""}
    else:
        first = model_of(name, X[:, :784], points)
        learned: Any = cavity.fit(first, X, 2.0 * y - 1.0, power=power, max_iterations=iterations)
        start = cavity.GP(learned.model.kernel, likelihoods.Bernoulli(), learned.model.inducing)
        found = {"points": points, "regression_evidence": float(learned.log_evidence)}
    result = cavity.fit(start, X, y, power=power, max_iterations=iterations)
    seconds = time.perf_counter() - begun
    blocks = [rows(X_test[i : i + 2500]) for i in range(0, len(X_test), 2500)]
    p = np.concatenate([np.asarray(result.posterior.predict(b).mean).ravel() for b in blocks])
    wrong = (p > 0.5) != (y_test > 0.5)
    nlp = -np.log(np.where(y_test > 0.5, p, 1.0 - p))
    row = {
        "data": "rectangles",
        "kernel": name,
        "power": power,
        "points": found["points"],
        "tests": len(y_test),
        "error": float(np.mean(wrong)),
        "nlpp": float(np.mean(nlp)),
        "error_3000": float(np.mean(wrong[:3000])),
        "nlpp_3000": float(np.mean(nlp[:3000])),
        "log_evidence": float(result.log_evidence),
        "regression_evidence": found["regression_evidence"],
        "iterations": result.n_iterations,
        "converged": result.converged,
        "seconds": seconds,
    }
    print(row, flush=True)
    ERRORS.add(row)


def counted(X: np.ndarray) -> np.ndarray:
    """Images as counted rows: 35 of the 676 patches of a rectangle differ at the most."""
    return kernels.count_parts(kernels.Patches(SHAPE, (3, 3)), X, 35)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["cost", "shared", "rectangles"])
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--kernels", nargs="*", default=["invariant", "weighted", "rbf"])
    options = parser.parse_args()
    with jax.enable_x64(True):
        if "cost" in options.only:
            cost(options.images, 750)
        if "shared" in options.only:
            shared(options.images, 200)
        if "rectangles" in options.only:
            for name in options.kernels:
                errors(name, 0.5, 16, options.iterations)


if __name__ == "__main__":
    main()
