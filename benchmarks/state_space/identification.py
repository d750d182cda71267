"""Five published sets of system identification: the first half trains, the second is simulated.

In the public code of probabilistic recurrent state-space models (Doerr et al., 2018), whose errors
`PUBLISHED` has, data are standardised by the training half and errors are on the original scale.
Models have four states and twenty inducing points. Simulation of the second half starts from a
state that a network reads from its first sixteen outputs. Here it goes on from the end of the
first half, and no output of the second half is read.
"""

import gzip
from typing import NamedTuple

import numpy as np
from scipy import io

from benchmarks.data import FOLDER

# Root mean squared errors of free simulation.
PUBLISHED = {
    "actuator": 0.50,
    "ballbeam": 0.073,
    "drive": 0.49,
    "dryer": 0.14,
    "gas_furnace": 1.25,
}
# Names of input and output, or none where they are the first two columns; rows that train.
SETS = {
    "actuator": (("u", "p"), 512),
    "ballbeam": (None, 500),
    "drive": (("u1", "z1"), 250),
    "dryer": (None, 500),
    "gas_furnace": (None, 148),
}


class Identification(NamedTuple):
    """One set, standardised by its training half.

    Attributes:
        u: inputs in training, (T, 1).
        y: outputs in training, (T,).
        u_test: inputs of the second half.
        y_test: its outputs.
        unit: deviation of the training outputs on the original scale.
    """

    u: np.ndarray
    y: np.ndarray
    u_test: np.ndarray
    y_test: np.ndarray
    unit: float


def load(name: str) -> Identification:
    """One of the sets of `SETS`."""
    names, count = SETS[name]
    table = _table(name, names)
    centre, unit = table[:count].mean(axis=0), table[:count].std(axis=0)
    u, y = ((table - centre) / unit).T
    u = u[:, None]
    return Identification(u[:count], y[:count], u[count:], y[count:], float(unit[1]))


def _table(name: str, names: tuple[str, str] | None) -> np.ndarray:
    """Input and output, one row per time."""
    folder = FOLDER / "sysid_rgp"
    if names is not None:
        data = io.loadmat(folder / f"{name}.mat")
        return np.column_stack([np.asarray(data[column], float).ravel() for column in names])
    ending, header, mark = ("csv", 1, ",") if name == "gas_furnace" else ("dat", 0, None)
    with gzip.open(folder / f"{name}.{ending}.gz", "rt") as file:
        return np.loadtxt(file, delimiter=mark, skiprows=header)
