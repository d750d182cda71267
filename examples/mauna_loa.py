"""Monthly CO2 as at Mauna Loa: a trend, a season whose shape may change, and a forecast.

The values are made here, with the trend, the season and the noise of the measured ones. With the
measured ones in a file, read them instead: two columns, the date in years and parts per million.
"""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(0)
year = 1990 + (np.arange(240) + 0.5) / 12
trend = 354 + 1.5 * (year - 1990) + 0.02 * (year - 1990) ** 2
season = 2.9 * np.sin(2 * np.pi * (year + 0.05)) - 0.8 * np.cos(4 * np.pi * year)
co2 = trend + season + 0.3 * rng.standard_normal(240)

past = year < 2005
model = cavity.GPRegressor(
    "rbf(lengthscale=30) + periodic(period=1) * rbf(lengthscale=50) + linear", random_state=0
).fit(year[past, None], co2[past])
mean, std = model.predict(year[:, None], return_std=True)

error = np.sqrt(np.mean((mean - co2)[~past] ** 2))
inside = np.mean(np.abs(mean - co2)[~past] < 1.645 * std[~past])
before = np.tile(co2[past][-12:], 5)  # the last year again, as a yardstick
print(model.kernel_)
print(
    f"five years ahead: error {error:.2f} ppm, the last year again "
    f"{np.sqrt(np.mean((before - co2[~past]) ** 2)):.2f} ppm"
)
print(f"{inside:.0%} within 90 % intervals")

plt.figure(figsize=(8, 3.2))
plt.fill_between(year, mean - 1.645 * std, mean + 1.645 * std, alpha=0.3, lw=0)
plt.plot(year, mean, lw=1)
plt.plot(year, co2, "k.", ms=2)
plt.axvline(2005, color="grey", ls="--")
plt.xlim(1998, 2010)
plt.ylim(360, 395)
plt.ylabel("CO2, ppm")
plt.show()
