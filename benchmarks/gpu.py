"""A GPU beside the processor of the same machine, for cavity and for GPyTorch.

Every library computes on either device in a process of its own, in double precision, on the
problems of `benchmarks.peers`: value and gradient of the sparse energy at powers 0 and 0.5 and of
the exact one, a step of stochastic learning with 256 rows, predictions of 100,000 rows,
classification by EP, and value and gradient of a convolutional model of ten classes on 1,000
images. Milliseconds are medians of calls after the first, whose time, with what is compiled, is
`first_ms`.

python -m benchmarks.gpu [--libraries cavity gpytorch] [--devices gpu cpu] [--seconds 3]
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.results import Table

GPU = Table("gpu.csv", ("library", "device", "task", "N", "M"))
# name, what builds it and its method, rows, inducing points
TASKS: tuple[tuple[str, str, str, int, int], ...] = (
    ("exact", "evaluation", "exact", 2_000, 0),
    ("exact", "evaluation", "exact", 10_000, 0),
    ("power 0", "evaluation", "vfe", 10_000, 500),
    ("power 0", "evaluation", "vfe", 100_000, 1_000),
    ("power 0.5", "evaluation", "power", 10_000, 500),
    ("power 0.5", "evaluation", "power", 100_000, 1_000),
    ("step", "step", "", 100_000, 500),
    ("prediction", "prediction", "vfe", 10_000, 500),
    ("classification", "classify", "sparse", 10_000, 500),
    ("images", "images", "", 1_000, 750),
)
ONLY_CAVITY = ("power 0.5", "classification", "images")
TESTS, STEPS, MOST = 100_000, 200, 15


def images(N: int, M: int) -> Callable[[], float]:
    """Value and gradient of the energy of regression on the labels of images."""
    from cavity import GP, inducing, kernels, likelihoods
    from cavity.learning.data.arrays import prepare
    from cavity.learning.infer import as_dtype
    from cavity.learning.objectives.evidence import Objective

    random = np.random.default_rng(0)
    X, Z = random.uniform(size=(N, 784)), random.uniform(size=(M, 25))
    Y = 2.0 * (random.integers(0, 10, N)[:, None] == np.arange(10)) - 1.0
    parts = kernels.Patches((28, 28), (5, 5))
    kernel = 1e-3 * kernels.SumOver(parts, kernels.RBF(1.0, 2.0), np.ones(parts.size))
    model = GP(kernel, likelihoods.Gaussian(0.3), inducing.InBase(inducing.Points(Z)))
    data = prepare(X, Y, power=0.5)
    objective = Objective(as_dtype(model, data), data)  # type: ignore[arg-type]
    start = np.zeros(objective.size)
    return lambda: -objective(start)[0]


def built(module: Any, kind: str, method: str, N: int, M: int) -> Callable[[], Any]:
    """The call to be timed."""
    from benchmarks.peers.problems import synthetic

    if kind == "images":
        return images(N, M)
    tests, steps = (TESTS if kind == "prediction" else 0), (STEPS if kind == "step" else 0)
    problem = synthetic(N, max(M, 1), tests=tests, steps=steps)
    problem = {name: np.asarray(value) for name, value in problem.items()}
    return getattr(module, kind)(problem, *([method] if method else []))


def measure(library: str, device: str, tasks: list[str], seconds: float) -> None:
    """Prints a line of json for each task."""
    if device == "gpu":
        _on_gpu(library)
    module = importlib.import_module(f"benchmarks.peers.with_{library}")
    for task, kind, method, N, M in TASKS:
        if task not in tasks or (library != "cavity" and task in ONLY_CAVITY):
            continue
        row: dict[str, Any] = {"library": library, "device": device, "task": task, "N": N, "M": M}
        try:
            row |= timed(built(module, kind, method, N, M), seconds)
        except Exception as error:
            row |= {"value": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(row), flush=True)


def timed(call: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """The first call, and the median of what fits into so many seconds."""
    begun = time.perf_counter()
    result = call()
    first = time.perf_counter() - begun
    times: list[float] = []
    while len(times) < MOST and (len(times) < 3 or sum(times) < seconds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    value = float(np.mean(result[0])) if isinstance(result, tuple) else float(result)
    found = {"ms": 1e3 * float(np.median(times)), "least_ms": 1e3 * min(times)}
    return found | {"first_ms": 1e3 * first, "calls": len(times), "value": value}


def _keep(call: list[str], environment: dict[str, str], machine: str) -> None:
    """Runs a process, and adds the rows that it prints."""
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout or ():
            row = json.loads(line)
            print(row, flush=True)
            GPU.add(row | {"machine": machine})


def _on_gpu(library: str) -> None:
    """Puts a library on the GPU, or ends the process where it sees none."""
    if library == "gpytorch":
        import torch

        seen = torch.cuda.is_available()
        torch.set_default_device("cuda" if seen else "cpu")
    else:
        import jax

        seen = jax.default_backend() != "cpu"
    if not seen:
        raise SystemExit(f"{library} sees no GPU here: give --devices cpu")


def names() -> dict[str, str]:
    """What GPU and processor are called."""
    found = ""
    if shutil.which("nvidia-smi"):
        ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        found = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.strip()
    return {"gpu": found or "gpu", "cpu": f"{os.cpu_count()} cores"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libraries", nargs="*", default=["cavity", "gpytorch"])
    parser.add_argument("--devices", nargs="*", default=["gpu", "cpu"])
    tasks = list(dict.fromkeys(task[0] for task in TASKS))
    parser.add_argument("--tasks", nargs="*", default=tasks)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--here", action="store_true", help="in this process, rows as json")
    options = parser.parse_args()
    if options.here:
        measure(options.libraries[0], options.devices[0], options.tasks, options.seconds)
        return
    for device in options.devices:
        for library in options.libraries:
            call = [sys.executable, "-m", "benchmarks.gpu", "--here", "--libraries", library]
            call += ["--devices", device, "--seconds", str(options.seconds)]
            call += ["--tasks", *options.tasks]
            threads = str(os.cpu_count())
            own = os.environ | {"OMP_NUM_THREADS": threads}
            own |= {"JAX_PLATFORMS": "cpu"} if device == "cpu" else {}
            _keep(call, own, names()[device])


if __name__ == "__main__":
    main()
