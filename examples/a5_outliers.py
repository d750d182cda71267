"""Robust regression: one function with outliers, under Gaussian, Laplace and Student-t noise."""

import numpy as np

import cavity

rng = np.random.default_rng(3)
X = rng.uniform(0, 10, (80, 1))
truth = np.sin(X[:, 0])
y = truth + 0.1 * rng.standard_normal(80)
y[rng.choice(80, 8, replace=False)] += 4 * rng.standard_normal(8)

for likelihood in ("gaussian", "laplace", "student_t"):
    model = cavity.GPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    error = np.sqrt(np.mean((model.predict_latent(X) - truth) ** 2))
    print(f"{likelihood:10} error {error:.3f}, log evidence {model.log_evidence_:8.2f} nats")
