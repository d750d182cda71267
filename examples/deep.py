"""A step: one Gaussian process beside a deep one of two layers."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (150, 1))
truth = np.where(X[:, 0] < 0.5, -1.0, 1.0)
y = truth + 0.1 * rng.standard_normal(150)

grid = np.linspace(0, 1, 200)[:, None]
step = np.where(grid[:, 0] < 0.5, -1.0, 1.0)
figure, panels = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
shallow = cavity.GPRegressor(random_state=0)
deep = cavity.DeepGPRegressor(n_layers=2, n_inducing=20, steps=1000, random_state=0)
for axes, name, model in zip(panels, ("one layer", "two layers"), (shallow, deep), strict=True):
    model.fit(X, y)
    mean, std = model.predict(grid, return_std=True)
    low, high = model.predict_quantiles(grid, [0.05, 0.95]).T
    error = np.sqrt(np.mean((mean - step) ** 2))
    print(f"{name:10s} error {error:.2f}")
    axes.fill_between(grid[:, 0], low, high, alpha=0.3, lw=0)
    axes.plot(grid, mean)
    axes.plot(X[:, 0], y, "k.", ms=3)
    axes.set_title(f"{name}: error {error:.2f}", fontsize=10)
gain = deep.log_evidence_ - shallow.log_evidence_  # it depends a little on the machine
print("two layers gain more than 50 nats of log evidence:", gain > 50)
plt.show()
