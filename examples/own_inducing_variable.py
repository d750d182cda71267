"""A user-defined inducing variable: local averages of the function instead of its values."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.parameters import real


class Averages(inducing.AbstractInducing):
    """Means of the function over five points around each centre."""

    centres: jax.Array = real(input=1, location=True)

    def __call__(self, g):
        offsets = jnp.linspace(-0.3, 0.3, 5)[:, None]
        return jnp.mean(jax.vmap(lambda d: jax.vmap(g)(self.centres + d))(offsets), axis=0)

    @property
    def size(self):
        return self.centres.shape[0]


rng = np.random.default_rng(4)
X = rng.uniform(0, 10, (200, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(200)
grid = np.linspace(-1, 11, 120)[:, None]
figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)

with jax.enable_x64(True):
    centres = np.linspace(0, 10, 12)[:, None]
    for axes, variables in zip(panels, (Averages(centres), inducing.Points(centres)), strict=True):
        model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.05), variables)
        result = cavity.fit(model, X, y, power=0.0)
        name = type(variables).__name__
        print(f"{name:9s} bound {result.log_evidence:.2f} nats")
        mean, var = map(np.asarray, result.posterior.marginals(grid))
        band = 1.96 * np.sqrt(var)
        axes.fill_between(grid[:, 0], mean - band, mean + band, alpha=0.3, lw=0)
        axes.plot(X[:, 0], y, "k.", ms=2)
        axes.set_title(f"{name}: {result.log_evidence:.1f} nats", fontsize=10)
plt.show()
