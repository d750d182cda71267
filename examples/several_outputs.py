"""Several outputs with a shared kernel and missing values, and blocks of rows (PITC)."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(2)
X = rng.uniform(0, 5, (150, 1))
f = np.column_stack([np.sin(2 * X[:, 0]), 100.0 * np.cos(X[:, 0])])
Y = f + np.array([0.1, 10.0]) * rng.standard_normal(f.shape)
Y[X[:, 0] < 2, 1] = np.nan  # the second output was not measured at first

model = cavity.GPRegressor(
    "matern32", n_inducing=30, power=1.0, block_size=10, missing="skip", random_state=0
).fit(X, Y)
mean, std = model.predict(X[:5], return_std=True)
for row in range(5):
    print("  ".join(f"{m:8.2f} ± {s:5.2f}" for m, s in zip(mean[row], std[row], strict=True)))

grid = np.linspace(0, 5, 100)
mean, std = model.predict(grid[:, None], return_std=True)
figure, panels = plt.subplots(2, 1, figsize=(7, 4), sharex=True)
for output, axes in enumerate(panels):
    low, high = mean[:, output] - 1.96 * std[:, output], mean[:, output] + 1.96 * std[:, output]
    axes.fill_between(grid, low, high, alpha=0.25, lw=0)
    axes.plot(grid, mean[:, output])
    axes.plot(X[:, 0], Y[:, output], "k.", ms=3)
    axes.set_ylabel(f"output {output}")
plt.show()
