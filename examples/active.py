"""What to measure next: twelve measurements of 300, chosen by the model."""

import jax
import matplotlib.pyplot as plt
import numpy as np

import cavity

random = np.random.default_rng(0)
pool = np.sort(random.uniform(-3, 3, (300, 1)), axis=0)
truth = np.sin(2 * pool[:, 0]) * (pool[:, 0] > -1)
outputs = truth + 0.1 * random.normal(size=300)
have = [10, 150, 290]

figure, panels = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
with jax.enable_x64(True):
    model = cavity.GP(cavity.kernels.RBF(1.0, 0.7), cavity.likelihoods.Gaussian(0.01))
    for axes in panels:
        result = cavity.infer(model, pool[have], outputs[have])
        mean, var = map(np.asarray, result.posterior.marginals(pool))
        error = np.sqrt(np.mean((mean - truth) ** 2))
        print(f"{len(have):2d} measured: error {error:.3f}")
        left = np.setdiff1d(np.arange(300), have)
        chosen = cavity.suggest(result, pool[left], n=3, criterion="integrated")
        band = 1.96 * np.sqrt(var)
        axes.fill_between(pool[:, 0], mean - band, mean + band, alpha=0.25, lw=0)
        axes.plot(pool, truth, "k--", lw=1)
        axes.plot(pool[have, 0], outputs[have], "ko")
        axes.plot(pool[left][chosen.rows, 0], np.full(3, -3.0), "^", color="#d55e00")
        axes.set_title(f"{len(have)} measured: error {error:.2f}", fontsize=10)
        have += left[chosen.rows].tolist()
plt.show()
