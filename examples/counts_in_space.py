"""Counts at places on a map: a rate that varies in space, with exposures that differ."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

rng = np.random.default_rng(5)
places = rng.uniform(0, 10, (200, 2))
hours = rng.uniform(0.5, 3.0, 200)  # how long each place was watched


def rate(where):
    """Birds per hour: much at two lakes."""
    first = np.exp(-np.sum((where - [3.0, 3.0]) ** 2, axis=1) / 3.0)
    second = np.exp(-np.sum((where - [7.5, 7.0]) ** 2, axis=1) / 1.5)
    return 0.5 + 6.0 * first + 4.0 * second


birds = rng.poisson(hours * rate(places))
model = cavity.GPRegressor("matern52", likelihood="poisson", n_inducing=60, random_state=0)
model.fit(places, birds, exposure=hours)

side = np.linspace(0, 10, 40)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
found = model.predict(grid, exposure=np.ones(len(grid)))
print(f"log evidence {model.log_evidence_:.1f} nats ({model.message_})")
print(f"correlation of found and true rate {np.corrcoef(found, rate(grid))[0, 1]:.2f}")
low, high = model.predict_quantiles(np.array([[3.0, 3.0]]), [0.05, 0.95], exposure=[2.0])[0]
print(
    f"two hours at the first lake: {low:.0f} to {high:.0f} birds, mean "
    f"{2 * rate(np.array([[3.0, 3.0]]))[0]:.1f}"
)

figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True)
for axes, title, values in zip(panels, ("true", "found"), (rate(grid), found), strict=True):
    shown = axes.imshow(values.reshape(40, 40), extent=(0, 10, 0, 10), origin="lower", vmax=8)
    axes.set_title(f"{title} rate, birds per hour")
panels[1].plot(*places.T, "w.", ms=2)
figure.colorbar(shown, ax=panels)
plt.show()
