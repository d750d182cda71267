"""Several outputs with a shared kernel and missing values, and blocks of rows (PITC)."""

import numpy as np

import cavity

rng = np.random.default_rng(2)
X = rng.uniform(0, 5, (150, 2))
f = np.column_stack([np.sin(X[:, 0]), 100.0 * np.cos(X[:, 1])])
Y = f + np.array([0.1, 10.0]) * rng.standard_normal(f.shape)
Y[:30, 1] = np.nan  # the second output was not measured at first

model = cavity.GPRegressor(
    "matern32", n_inducing=30, power=1.0, block_size=10, missing="skip", random_state=0
).fit(X, Y)
mean, std = model.predict(X[:5], return_std=True)
for row in range(5):
    print("  ".join(f"{m:8.2f} ± {s:5.2f}" for m, s in zip(mean[row], std[row], strict=True)))
