"""The same fit on every device that JAX has: nothing changes in the code on a GPU.

With JAX's build for a GPU (`pip install "jax[cuda13]"`) work goes there by itself. Without one
this prints a line for the processor alone.
"""

import time

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, (5000, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(5000)
kinds = {device.platform: device for device in [*jax.devices("cpu"), *jax.devices()]}
grid = np.linspace(0, 10, 100)[:, None]
plt.figure(figsize=(7, 3))

with jax.enable_x64(True):
    model = cavity.GP(
        kernels.RBF(), likelihoods.Gaussian(0.1), inducing.Points(np.linspace(0, 10, 20)[:, None])
    )
    for name, device in kinds.items():
        with jax.default_device(device):
            cavity.infer(model, X, y)  # the first call compiles
            start = time.perf_counter()
            result = cavity.infer(model, X, y)
            seconds = time.perf_counter() - start
            print(f"on the {name}: log evidence {result.log_evidence:.3f} nats")
            assert seconds < 60
            mean, var = map(np.asarray, result.posterior.marginals(grid))
            plt.plot(grid, mean, label=name)
plt.plot(X[::50, 0], y[::50], "k.", ms=3)
plt.legend()
plt.show()
