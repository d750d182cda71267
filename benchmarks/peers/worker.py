"""The process in which one library works: requests come in and answers go out as lines of JSON.

python -m benchmarks.peers.worker LIBRARY, run by the interpreter of its environment.
"""

import importlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

# Where the version is another package's name.
PACKAGES = {"sklearn": "scikit-learn", "gpy": "GPy", "streaming": "gpflow"}


class Worker:
    """What has been built, by name, and what can be asked."""

    def __init__(self, library: str):
        start = time.perf_counter()
        self.module = importlib.import_module(f"benchmarks.peers.with_{library}")
        self.imported = time.perf_counter() - start
        self.built: dict[str, Callable[[], Any]] = {}
        self.problems: dict[str, dict[str, np.ndarray]] = {}
        self.version = version(PACKAGES.get(library, library))

    def hello(self) -> dict[str, Any]:
        """What the worker says first."""
        return {"version": self.version, "import_seconds": self.imported}

    def build(self, name: str, kind: str, path: str, **options: Any) -> dict[str, Any]:
        """Makes the function that `call` is to call."""
        problem = dict(np.load(path))
        start, cpu = time.perf_counter(), time.process_time()
        self.problems[name] = problem
        self.built[name] = getattr(self.module, kind)(problem, **options)
        return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}

    def call(self, name: str, times: int = 1) -> dict[str, Any]:
        """Calls it, with the time until its result is there, and that of the processor.

        Of several times, one straight after the other, the mean times and the last result.
        """
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(times):
            result = self.built[name]()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        seconds, cpu = seconds / times, cpu / times
        if isinstance(result, tuple):
            p = self.problems[name]
            result, _ = scores(result[0], result[1] + float(p["noise"]), p["y_test"])
        return {"seconds": seconds, "cpu": cpu, "value": float(result)}

    def drop(self, name: str) -> dict[str, Any]:
        """Forgets a function."""
        del self.built[name], self.problems[name]
        return {}

    def fit(self, path: str, iterations: int, seconds: float) -> dict[str, Any]:
        """Fits, and gives values against time, and scores on the test rows."""
        problem = dict(np.load(path))
        trace: list[tuple[float, float]] = []
        start = time.perf_counter()

        def record(value: float) -> bool:
            """Notes a value; whether the time is over."""
            trace.append((time.perf_counter() - start, float(value)))
            return trace[-1][0] > seconds

        mean, var = self.module.fit(problem, record, iterations)
        spent = trace[-1][0]
        density, rmse = scores(mean, var, problem["y_test"])
        return {"trace": trace, "seconds": spent, "density": density, "rmse": rmse}

    def stream(self, path: str) -> dict[str, Any]:
        """Learns batches one after the other, and gives scores on the test rows."""
        return self.module.stream(dict(np.load(path)))

    def linear(self, path: str, method: str) -> dict[str, Any]:
        """Learns a linear regression, and gives its coefficients and seconds."""
        return self.module.linear(dict(np.load(path)), method)

    def network(self, path: str) -> dict[str, Any]:
        """Learns a network, and gives scores of test rows and seconds."""
        return self.module.network(dict(np.load(path)))

    def sweeps(self, path: str) -> dict[str, Any]:
        """What a sweep of a network takes."""
        return self.module.sweeps(dict(np.load(path)))

    def resident(self, path: str) -> dict[str, Any]:
        """Fits a network by few steps, and gives the peak of the memory of the process."""
        return self.module.resident(dict(np.load(path))) | self.peak()

    def gains(self, path: str) -> dict[str, Any]:
        """What measuring each candidate is worth."""
        return self.module.gains(dict(np.load(path)))

    def peak(self) -> dict[str, Any]:
        """Peak resident memory in GB, and processor seconds so far."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {"peak_gb": usage.ru_maxrss / 1e6, "cpu": usage.ru_utime + usage.ru_stime}


def scores(mean: np.ndarray, var: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Mean log density of Gaussian predictions, and the root mean square error."""
    error = np.ravel(y) - np.ravel(mean)
    densities = -0.5 * (np.log(2.0 * np.pi * np.ravel(var)) + error**2 / np.ravel(var))
    return float(np.mean(densities)), float(np.sqrt(np.mean(error**2)))


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    worker = Worker(sys.argv[1])
    print(json.dumps(worker.hello()), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(worker, request.pop("do"))(**request)), file=answers)


if __name__ == "__main__":
    main()
