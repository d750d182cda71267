"""What the evidence weighs: prior samples near the data, and forecasts one row at a time."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import kernels, likelihoods

rng = np.random.default_rng(1)
X = np.linspace(0.0, 10.0, 11)[:, None]
y = np.sin(X[:, 0]) + 0.2 * rng.standard_normal(11)
noise = likelihoods.Gaussian(0.2)
near = 0.7  # a sample passes where no row is further away
figure, panels = plt.subplots(1, 2, figsize=(9, 3))

print("lengthscale  samples that pass  evidence, nats  of the last five rows, each")
with jax.enable_x64(True):
    for lengthscale in (0.3, 1.5, 15.0):
        kernel, rows = kernels.RBF(1.0, lengthscale), jax.numpy.asarray(X)
        model = cavity.GP(kernel, noise)
        K = np.asarray(kernel.cross(rows, rows)) + 1e-9 * np.eye(11)
        samples = rng.standard_normal((200_000, 11)) @ np.linalg.cholesky(K).T
        passed = np.sum(np.max(np.abs(samples - y), axis=1) < near)
        # the evidence is a product of forecasts, each of one row from those before it
        sums = [cavity.infer(model, X[:n], y[:n]).log_evidence for n in range(6, 12)]
        last = " ".join(f"{d:6.2f}" for d in np.diff(sums))
        print(f"{lengthscale:11g}  {passed:17d}  {sums[-1]:14.2f}  {last}")
        panels[0].plot(range(6, 12), sums, "o-", label=f"lengthscale {lengthscale:g}")

    # two kernels that explain the rows as well, and differ where there are none
    grid = np.linspace(0, 21, 150)[:, None]
    for kernel in (kernels.RBF(1.0, 1.5), kernels.Periodic(1.0, 1.0, 6.0)):
        result = cavity.fit(cavity.GP(kernel, noise), X, y)
        mean, var = result.posterior.marginals(X + 10.5)
        error = np.sqrt(np.mean((np.asarray(mean) - np.sin(X[:, 0] + 10.5)) ** 2))
        name = type(kernel).__name__
        print(f"{name:8s} evidence {result.log_evidence:6.2f}, error beyond the data {error:.2f}")
        panels[1].plot(grid, result.posterior.marginals(grid)[0], label=name)
panels[0].set(xlabel="rows so far", ylabel="log evidence, nats")
panels[1].plot(X[:, 0], y, "k.", label="rows")
for axes in panels:
    axes.legend(fontsize=8)
plt.show()
