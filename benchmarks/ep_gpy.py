"""Full EP of a probit classifier by GPy, for `benchmarks.ep_cost`: run by an interpreter with GPy.

python benchmarks/ep_gpy.py problem.npz REPEATS
"""

import json
import statistics
import sys
import time

import GPy
import numpy as np
from GPy.inference.latent_function_inference import EP


def main() -> None:
    problem = np.load(sys.argv[1])
    X, labels = problem["X"], problem["labels"].reshape(-1, 1)
    kernel = GPy.kern.RBF(X.shape[1], variance=problem["variance"], lengthscale=1.0)
    method, sweeps = EP(), []
    stop = method._stop_criteria

    def plural(sites: object) -> bool:
        sweeps.append(1)
        return stop(sites)

    method._stop_criteria = plural
    times, log_evidence = [], 0.0
    model = GPy.core.GP(X, labels, kernel, GPy.likelihoods.Bernoulli(), inference_method=method)
    for _ in range(int(sys.argv[2])):
        method.reset()
        sweeps.clear()
        start = time.perf_counter()
        found = method.inference(model.kern, model.X, model.likelihood, model.Y)
        times.append(1e3 * (time.perf_counter() - start))
        log_evidence = float(np.squeeze(found[1]))
    found = {"ms": statistics.median(times), "log_evidence": log_evidence}
    print(json.dumps(found | {"sweeps": len(sweeps) + 1, "version": GPy.__version__}))


if __name__ == "__main__":
    main()
