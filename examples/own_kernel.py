"""A user-defined kernel by two methods; learning, sparse inference and predictions follow."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.parameters import positive


class Brownian(kernels.AbstractKernel):
    """Covariance of Brownian motion from 0, the smaller of two times."""

    variance: jax.Array = positive(output=2, input=-1)

    def cross(self, X, Z):
        return self.variance * jnp.minimum(X, Z.T)

    def diag(self, X):
        return self.variance * X[:, 0]


rng = np.random.default_rng(3)
t = np.linspace(0.01, 2.0, 200)[:, None]
y = np.cumsum(rng.standard_normal(200)) * np.sqrt(0.01) + 0.05 * rng.standard_normal(200)

with jax.enable_x64(True):
    model = cavity.GP(Brownian(1.0), likelihoods.Gaussian(0.01), inducing.Points(t[::8]))
    result = cavity.fit(model, t, y)
    print(result)
    later = np.linspace(0.01, 3.0, 120)[:, None]
    draws = result.posterior.sample(later, 5, key=jax.random.key(0))

plt.figure(figsize=(7, 3))
plt.plot(later, np.asarray(draws).T, color="#0072b2", lw=0.8, alpha=0.6)
plt.plot(t, y, "k.", ms=3)
plt.xlabel("time")
plt.show()
