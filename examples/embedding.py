"""A map of thirteen measurements of wines, and cells that are missing, filled in."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

import cavity

data = load_wine()
rng = np.random.default_rng(0)
X = data.data.copy()
gone = rng.random(X.shape) < 0.05
X[gone] = np.nan

model = cavity.GPEmbedding(n_components=2, n_inducing=20, max_iterations=100, random_state=0)
places = model.fit_transform(X)
filled = model.impute(X)
spread = np.nanstd(X, axis=0)
error = np.sqrt(np.mean(((filled - data.data) / spread)[gone] ** 2))
plain = np.sqrt(np.mean(((np.nanmean(X, axis=0) - data.data) / spread)[gone] ** 2))
print(f"{gone.sum()} missing cells: error {error:.2f} spreads, by column means {plain:.2f}")

plt.figure(figsize=(5, 4))
for kind in range(3):
    plt.plot(*places[data.target == kind].T, "o", ms=4, label=data.target_names[kind])
plt.legend(title="grower")
plt.show()
