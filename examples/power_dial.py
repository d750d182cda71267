"""The power, from variational inference to EP: its effect on the evidence and on predictions.

At fixed parameters the log evidence never decreases with the power, and that of the exact GP is
at least that of power 0.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, (80, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(80)
Z, grid = np.linspace(0, 6, 6)[:, None], np.linspace(-0.5, 6.5, 120)[:, None]
figure, panels = plt.subplots(1, 4, figsize=(10, 2.8), sharex=True, sharey=True)


def draw(axes, title, found):
    mean, var = map(np.asarray, found.posterior.marginals(grid))
    band = 1.96 * np.sqrt(var)
    axes.fill_between(grid[:, 0], mean - band, mean + band, color="#0072b2", alpha=0.25, lw=0)
    axes.plot(grid, mean, color="#0072b2")
    axes.plot(X[:, 0], y, ".", color="black", ms=3)
    axes.set_title(title, fontsize=10)
    axes.set_ylim(-2.5, 2.5)


with jax.enable_x64(True):  # the library follows JAX's precision; estimators always use float64
    kernel, likelihood = kernels.RBF(1.0, 0.7), likelihoods.Gaussian(0.04)
    sparse = cavity.GP(kernel, likelihood, inducing.Points(Z))
    previous = -np.inf
    for axes, power, name in zip(panels, (0, 0.5, 1), ("VFE", "Power EP", "FITC"), strict=False):
        found = cavity.infer(sparse, X, y, power=power)
        noisy = found.posterior.predict(X).var.mean()
        evidence = found.log_evidence
        print(f"power {power:3.1f} {name:9s} log evidence {evidence:8.3f}  var {noisy:.4f}")
        assert evidence >= previous
        previous = evidence
        draw(axes, f"power {power} ({name}): {evidence:.1f} nats", found)
        axes.plot(Z[:, 0], np.full(6, -2.3), "^", color="#d55e00", ms=5)
    exact = cavity.infer(cavity.GP(kernel, likelihood), X, y)
    print(f"exact GP            log evidence {exact.log_evidence:8.3f}")
    draw(panels[3], f"exact: {exact.log_evidence:.1f} nats", exact)
plt.show()
