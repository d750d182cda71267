"""What variables of each kind can learn of a function, before any data (E18, figures 4.1 and 4.2).

One variable in the middle of an axis, under an RBF kernel of variance and lengthscale 1: the
variance of g, the part that it can learn, at its place and over the axis, and how far from its
place half of that is left.

python -m benchmarks.domains.parts
"""

from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.results import Table
from cavity import inducing, kernels, likelihoods

TABLE = Table("domains_parts.csv", ("kind", "width", "frequency"))
AXIS = np.linspace(-6.0, 6.0, 481)[:, None]
CENTRE = np.zeros((1, 1))


def variables() -> list[tuple[str, float, float, inducing.AbstractInducing]]:
    """Kind, width and frequency of each variable."""
    found: list[tuple[str, float, float, inducing.AbstractInducing]] = [
        ("point", 0.0, 0.0, inducing.Points(CENTRE))
    ]
    for width in (1e-3, 0.3, 1.0, 3.0):
        found.append(("window", width, 0.0, inducing.Windows(CENTRE, np.full((1, 1), width))))
    for width in (1.0, 3.0, 10.0):
        for frequency in (0.15, 0.3):  # cycles per lengthscale
            wave = np.full((1, 1), frequency)
            waves = inducing.Waves(CENTRE, np.full((1, 1), width), wave, np.zeros(1))
            found.append(("wave", width, frequency, waves))
    found.append(("slope", 0.0, 0.0, inducing.Slopes(CENTRE, 0)))
    for apart in (0.3, 1.0, 3.0):
        places = np.array([[-apart], [apart]])
        sums = inducing.Combinations(inducing.Points(places), np.ones((1, 2)))
        found.append(("sum of two", apart, 0.0, sums))
    return found


def measure(kind: str, width: float, frequency: float, u: Any) -> None:
    """One row of the table."""
    model = cavity.GP(kernels.RBF(1.0, [1.0]), likelihoods.Gaussian(0.1), u)
    result = cavity.infer(model, np.full((1, 1), 100.0), np.zeros(1), power=0.0, jitter=1e-12)
    g = np.asarray(cavity.diagnostics.function_parts(result.posterior, AXIS).prior_var)
    row = {
        "kind": kind,
        "width": width,
        "frequency": frequency,
        "at_its_place": float(g[len(g) // 2]),
        "largest": float(g.max()),
        "over_the_axis": float(np.trapezoid(g, AXIS[:, 0])),
        "reach": float(np.max(np.abs(AXIS[g >= 0.5 * g.max(), 0]))),
    }
    TABLE.add(row)
    print({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}, flush=True)


def main() -> None:
    with jax.enable_x64(True):
        for case in variables():
            measure(*case)


if __name__ == "__main__":
    main()
