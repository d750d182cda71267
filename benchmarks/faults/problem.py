"""A small fit in parts, whose result is told by a digest of its bits.

python -m benchmarks.faults.problem SCHEDULER FOLDER   goes on from a checkpoint
"""

import argparse
import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator

import jax
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.engines import AbstractEngine, Dask
from cavity.fitting import Checkpoint, FitResult
from cavity.learning.optimisers.lbfgs import Progress

PARTS, ROWS, POINTS, ITERATIONS = 4, 200, 8, 8
# Seconds that opening a part takes, so that passes are long without much computing.
PAUSE = 0.1
# What the program of the fit says when it begins, and after every iteration.
BEGUN = "goes on"


@dataclasses.dataclass(frozen=True)
class Piece:
    """A part of the table: made up where it is worked on.

    Attributes:
        number: its place.
        labels: whether its outputs are labels.
        pause: seconds until it is there.
    """

    number: int
    labels: bool = False
    pause: float = PAUSE

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        time.sleep(self.pause)
        random = np.random.default_rng(self.number)
        X = random.uniform(0.0, 10.0, (ROWS, 2))
        y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * random.standard_normal(ROWS)
        yield X, (y > 1.5).astype(float) if self.labels else y


def fitted(
    engine: AbstractEngine | None,
    checkpoint: Checkpoint | None = None,
    *,
    labels: bool = False,
    pause: float = PAUSE,
    callback: Callable[[Progress], None] | None = None,
) -> FitResult:
    """The fit: Gaussian noise, or probit with sites on the disks of the workers."""
    random = np.random.default_rng(99)
    Z = inducing.Points(random.uniform(0.0, 10.0, (POINTS, 2)))
    likelihood = likelihoods.Bernoulli() if labels else likelihoods.Gaussian(0.1)
    kernel = kernels.RBF(1.0, np.ones(2))
    parts = cavity.Parts([Piece(number, labels, pause) for number in range(PARTS)])
    options = {"power": 0.5, "max_iterations": 1 if labels else ITERATIONS}
    with jax.enable_x64(True):
        model = cavity.GP(kernel, likelihood, Z)
        own = {"engine": engine, "checkpoint": checkpoint, "callback": callback}
        return cavity.fit(model, parts, **own, **options)


def bits(result: FitResult) -> str:
    """A digest of all bits of a result."""
    sha = hashlib.sha256()
    told = (result.posterior, result.log_evidence, list(result.history))
    for leaf in jax.tree.leaves(told):
        sha.update(np.asarray(leaf, float).tobytes())
    return sha.hexdigest()


def main() -> None:
    from distributed import Client

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheduler")
    parser.add_argument("folder")
    options = parser.parse_args()
    with Client(options.scheduler) as client:
        print(BEGUN, flush=True)
        kept = Checkpoint(options.folder, resume=True)
        result = fitted(Dask(client), kept, callback=lambda _: print(BEGUN, flush=True))
    print(bits(result), flush=True)


if __name__ == "__main__":
    main()
