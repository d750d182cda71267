"""A parameter that is fixed, one within bounds, and one with a prior."""

import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity.parameters import priors

rng = np.random.default_rng(1)
X = rng.uniform(-3, 3, (25, 1))
y = np.sinc(X[:, 0]) + 0.2 * rng.standard_normal(25)

free = cavity.GPRegressor("matern52", random_state=0).fit(X, y)
held = cavity.GPRegressor(
    "matern52",
    fixed={"likelihood.variance": 0.04},
    bounds={"kernel.lengthscale": (0.3, 3.0)},
    priors={"kernel.variance": priors.LogNormal(1.0, 0.5)},
    random_state=0,
).fit(X, y)
grid = np.linspace(-4, 4, 150)[:, None]
figure, panels = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
for axes, name, model in zip(panels, ("all learned", "some held"), (free, held), strict=True):
    noise, kernel = float(model.likelihood_.variance), model.kernel_
    lengthscale = float(np.squeeze(kernel.lengthscale))
    print(f"{name:12s} noise {noise:.3f}, lengthscale {lengthscale:.2f}, ", end="")
    print(f"variance {float(kernel.variance):.2f}, evidence {model.log_evidence_:.2f} nats")
    mean, std = model.predict_latent(grid, return_std=True)
    axes.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.25, lw=0)
    axes.plot(grid, mean)
    axes.plot(X[:, 0], y, "k.")
    axes.plot(grid, np.sinc(grid), "k--", lw=1)
    axes.set_title(name)
assert held.likelihood_.variance == 0.04
plt.show()
