"""Fifty rows, two hundred columns, of which four matter: which ones, and how large they are."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 200))
truth = np.zeros(200)
truth[:4] = 1.0, -1.0, 0.7, 0.5
y = 2.0 + X @ truth + 0.4 * rng.standard_normal(60)

model = cavity.LinearRegressor(prior="spike_slab").fit(X, y)
for column in model.select(fdr=0.1):
    low, high = model.coef_interval_[column]
    sure = model.inclusion_probability_[column]
    print(f"column {column}: {low:5.2f} to {high:5.2f}, not zero with probability {sure:.2f}")

figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4), sharex=True)
above.vlines(np.arange(30), *model.coef_interval_[:30].T, color="#0072b2")
above.plot(truth[:30], "kx")
above.set_ylabel("coefficient (x: true)")
below.bar(np.arange(30), model.inclusion_probability_[:30])
below.set(ylabel="probability\nnot zero", xlabel="column (the first 30)")
plt.show()
