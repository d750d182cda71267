"""The estimator: fit, predictions with uncertainty, and learned parameters."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import cavity

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = cavity.GPRegressor(n_inducing=50, power=0.5, random_state=0).fit(X_train, y_train)
mean, std = model.predict(X_test, return_std=True)

print(f"log evidence      {model.log_evidence_:.1f} nats ({model.message_})")
print(f"RMSE              {np.sqrt(np.mean((mean - y_test) ** 2)):.1f}")
print(f"mean log density  {model.log_predictive_density(X_test, y_test).mean():.2f} nats per row")
print(f"within 95 %       {np.mean(np.abs(y_test - mean) < 1.96 * std):.0%} of the test rows")

plt.figure(figsize=(5, 4))
plt.errorbar(mean, y_test, xerr=1.96 * std, fmt=".", color="#0072b2", ecolor="#0072b233")
plt.axline((150, 150), slope=1, color="grey", ls="--", lw=1)
plt.xlabel("predicted, with 95 % intervals")
plt.ylabel("measured")
plt.show()
