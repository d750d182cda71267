"""A likelihood of your own: measurements that cannot be below a detection limit.

It needs its log density, which JAX must be able to differentiate twice; all else follows.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.scipy.special import log_ndtr

import cavity
from cavity.parameters import positive

LIMIT = -0.3


class Censored(cavity.likelihoods.AbstractQuadratureLikelihood):
    """Normal outputs, of which those below the limit are recorded as the limit."""

    scale: jax.Array = positive(output=1)
    support = cavity.likelihoods.Support.REAL
    log_concave = True

    def log_prob(self, f, y, **side):
        z = (y - f) / self.scale
        seen = -0.5 * z**2 - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.where(y > LIMIT, seen, log_ndtr(z))

    def initial_latents(self, y, **side):
        return y


rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 80))
y = np.maximum(np.sin(x) + 0.2 * rng.standard_normal(80), LIMIT)
grid = np.linspace(0, 10, 150)

figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
pairs = (("Gaussian noise", "gaussian"), ("censored", Censored(0.3)))
for axes, (name, likelihood) in zip(panels, pairs, strict=True):
    model = cavity.GPRegressor(likelihood=likelihood, random_state=0).fit(x[:, None], y)
    mean, std = model.predict_latent(grid[:, None], return_std=True)
    error = np.sqrt(np.mean((mean - np.sin(grid)) ** 2))
    print(f"{name:14s} error {error:.3f}")
    axes.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, alpha=0.3, lw=0)
    axes.plot(grid, mean)
    axes.plot(grid, np.sin(grid), "k--", lw=1)
    axes.plot(x, y, "k.", ms=3)
    axes.set_title(f"{name}: error {error:.2f}", fontsize=10)
print("noise", np.round(float(model.likelihood_.scale), 2))
plt.show()
