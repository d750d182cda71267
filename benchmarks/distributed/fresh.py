"""A fit in a fresh process, which says the bits of its result; it may be stopped or go on.

python -m benchmarks.distributed.fresh CASE POWER ITERATIONS [--stop FOLDER | --resume FOLDER]
"""

import argparse
import contextlib
import hashlib
import os
import signal
from typing import Any

import jax
import numpy as np
from tests.learning.pass_cases import parts

import cavity
from benchmarks.distributed.bits import EDGES, RESUMED, STOPPED, case_of
from benchmarks.distributed.clusters import cluster
from cavity.engines import Dask


def end(progress: Any) -> None:
    """Ends this process in the middle of the fit."""
    if progress.iteration >= 2:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    parser.add_argument("power", type=float)
    parser.add_argument("iterations", type=int)
    parser.add_argument("--stop")
    parser.add_argument("--resume")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    case, folder = case_of(given.case), given.stop or given.resume
    with contextlib.ExitStack() as stack:
        options: dict[str, Any] = {"power": given.power, "method": case.method()}
        options["max_iterations"] = given.iterations
        if folder:
            options["checkpoint"] = cavity.fitting.Checkpoint(folder, resume=bool(given.resume))
            workers = STOPPED if given.stop else RESUMED
            options["engine"] = Dask(stack.enter_context(cluster(workers)))
        if given.stop:
            options["callback"] = end
        result: Any = cavity.fit(case.model, parts(given.case, EDGES), **options)
    leaves = map(np.asarray, jax.tree.leaves((result.posterior, result.model)))
    print(*(float(value).hex() for value in (result.log_evidence, *result.history)))
    print(*(hashlib.sha256(leaf.tobytes()).hexdigest() for leaf in leaves))


if __name__ == "__main__":
    main()
