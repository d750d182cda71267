"""A fitted model saved to a file and loaded again: in Python and on the command line."""

import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

import cavity

rng = np.random.default_rng(0)
table = pl.DataFrame({"hour": np.linspace(0, 24, 60)})
y = 15 + 5 * np.sin(2 * np.pi * table["hour"].to_numpy() / 24) + rng.standard_normal(60)

model = cavity.GPRegressor(random_state=0).fit(table, y)
model.save("temperature.cavity")
same = cavity.load("temperature.cavity")
new = pl.DataFrame({"hour": [6.0, 12.0, 18.0]})
assert np.array_equal(model.predict(new), same.predict(new))
print("a file of", "less than 100 kB:", Path("temperature.cavity").stat().st_size < 100_000)

new.write_csv("new.csv")  # the command line reads the same file
command = [sys.executable, "-m", "cavity", "predict", "temperature.cavity", "new.csv"]
subprocess.run([*command, "--out", "predictions.csv"], check=True, capture_output=True)
print(pl.read_csv("predictions.csv").with_columns(pl.all().round(2)))

grid = pl.DataFrame({"hour": np.linspace(0, 24, 100)})
mean, std = same.predict(grid, return_std=True)
plt.figure(figsize=(7, 3))
plt.fill_between(grid["hour"], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3, lw=0)
plt.plot(grid["hour"], mean, label="loaded model")
plt.plot(table["hour"], y, "k.", label="rows of the fit")
plt.legend()
plt.show()
