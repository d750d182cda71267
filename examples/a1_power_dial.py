"""The power, from variational inference to EP: its effect on the evidence and on predictions.

At fixed parameters the log evidence never decreases with the power, and that of the exact GP is
at least that of power 0.
"""

import jax
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, (80, 1)), axis=0)
y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(80)
Z = np.linspace(0, 6, 6)[:, None]

with jax.enable_x64(True):  # the library follows JAX's precision; estimators always use float64
    kernel, likelihood = kernels.RBF(1.0, 0.7), likelihoods.Gaussian(0.04)
    sparse = cavity.GP(kernel, likelihood, inducing.Points(Z))
    previous = -np.inf
    for power, name in ((0.0, "VFE"), (0.5, "Power EP"), (1.0, "FITC")):
        found = cavity.infer(sparse, X, y, power=power)
        noisy = found.posterior.predict(X).var.mean()
        print(
            f"power {power:3.1f} {name:9s} log evidence {found.log_evidence:8.3f}  var {noisy:.4f}"
        )
        assert found.log_evidence >= previous
        previous = found.log_evidence
    exact = cavity.infer(cavity.GP(kernel, likelihood), X, y)
    print(f"exact GP            log evidence {exact.log_evidence:8.3f}")
