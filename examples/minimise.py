"""The least of a noisy function: each row is measured where improvement is expected to be most."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity
from cavity import kernels, likelihoods

rng = np.random.default_rng(5)


def function(x):
    return (6.0 * x - 2.0) ** 2 * np.sin(12.0 * x - 4.0)


def measured(x):
    return function(x) + rng.standard_normal(x.shape)


places = np.linspace(0.0, 1.0, 401)
x = rng.uniform(0.0, 1.0, 5)
y = measured(x)
model = cavity.GP(kernels.RBF(30.0, 0.2), likelihoods.Gaussian(1.0))
with jax.enable_x64(True):
    for turn in range(6):
        result = cavity.fit(model, x[:, None], y)
        mean, _ = result.posterior.marginals(places[:, None])
        best = places[np.argmin(mean)]  # of the function that was learned: outputs are noisy
        print(f"{len(x):2d} rows: least at {best:.3f}, where it is {function(best):6.3f}")
        if turn < 5:
            chosen = cavity.suggest(result, places[:, None], n=3, criterion="improvement")
            new = places[chosen.rows]
            x, y = np.append(x, new), np.append(y, measured(new))

least = places[np.argmin(function(places))]
print(f"the least of {len(places)} places is at {least:.3f}, {function(least):6.3f}")

plt.figure(figsize=(5, 3.5))
plt.plot(places, function(places), color="grey", ls="--", label="the function")
plt.plot(places, mean, color="#0072b2", label="learned")
plt.scatter(x[:5], y[:5], 25.0, color="black", label="first rows")
plt.scatter(x[5:], y[5:], 25.0, color="#d55e00", label="chosen rows")
plt.xlabel("x")
plt.legend()
plt.show()
