"""A time series with a hidden state: forecasts with intervals, a control, missing rows."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

import cavity

rng = np.random.default_rng(3)
push = rng.uniform(-1, 1, (130, 1))
level, y = 0.0, np.empty(130)
for row in range(130):
    level = 0.9 * level + np.tanh(2 * push[row, 0]) + 0.05 * rng.standard_normal()
    y[row] = 20.0 + 3.0 * level + 0.3 * rng.standard_normal()
y[40:45] = np.nan  # the sensor was off; the state goes on

forecaster = cavity.GPForecaster(n_states=1, n_inducing=15, max_iterations=100, random_state=0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    forecaster.fit(y[:100], push[:100])
steps = np.arange(1, 31)
mean = forecaster.predict(steps, push[100:])
low, high = forecaster.predict_interval(steps, push[100:], coverage=0.9).T
for k in (0, 4, 14, 29):
    ends = f"{low[k]:6.2f} to {high[k]:6.2f}"
    print(f"{k + 1:2d} steps ahead {mean[k]:6.2f}  {ends}  was {y[100 + k]:6.2f}")
inside = np.mean((y[100:] > low) & (y[100:] < high))
print(f"{inside:.0%} of 30 within 90 % intervals")

plt.figure(figsize=(8, 3))
plt.plot(np.arange(60, 130), y[60:], "k.-", lw=0.5)
plt.fill_between(99 + steps, low, high, alpha=0.3, lw=0, label="90 % of forecasts")
plt.plot(99 + steps, mean, label="mean forecast")
plt.axvline(99.5, color="grey", ls="--")
plt.xlabel("time")
plt.legend()
plt.show()
