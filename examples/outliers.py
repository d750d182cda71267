"""Robust regression: one function with outliers, under Gaussian, Laplace and Student-t noise."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(3)
X = rng.uniform(0, 10, (80, 1))
truth = np.sin(X[:, 0])
y = truth + 0.1 * rng.standard_normal(80)
y[rng.choice(80, 8, replace=False)] += 4 * rng.standard_normal(8)

grid = np.linspace(0, 10, 150)
figure, panels = plt.subplots(1, 3, figsize=(10, 3), sharey=True)
for axes, likelihood in zip(panels, ("gaussian", "laplace", "student_t"), strict=True):
    model = cavity.GPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    error = np.sqrt(np.mean((model.predict_latent(X) - truth) ** 2))
    print(f"{likelihood:10} error {error:.3f}, log evidence {model.log_evidence_:8.2f} nats")
    mean, std = model.predict_latent(grid[:, None], return_std=True)
    axes.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, alpha=0.3, lw=0)
    axes.plot(grid, mean)
    axes.plot(grid, np.sin(grid), "k--", lw=1)
    axes.plot(X[:, 0], y, "k.", ms=4)
    axes.set_title(f"{likelihood}: error {error:.2f}", fontsize=10)
    axes.set_ylim(-5, 5)
plt.show()
