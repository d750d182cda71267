"""Moments of the tilted distributions of probit sites, beside as many log densities as nodes.

Cavities of one width at random means. At power 1 they have a closed form; at others nodes do it,
72 of them, 144 or some 320, by how wide the cavities are.

python -m benchmarks.moments [--values 16000 ...]
"""

import argparse
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.results import Table
from benchmarks.timing import median
from cavity.likelihoods import Bernoulli
from cavity.numerics.quadrature import EVEN_RULE

TABLE = Table("moments.csv", ("values", "power", "deviation"))
POWERS, WIDTHS = (1.0, 0.5, 0.0), (1.0, 5.0, 30.0)


def run(values: int, power: float, deviation: float) -> dict[str, float]:
    """Times of the moments, and of one log density for each of the fewest nodes."""
    random = np.random.default_rng(0)
    mean = jnp.asarray(3.0 * random.standard_normal(values))
    y = jnp.asarray(random.integers(2, size=values), mean.dtype)
    var = jnp.full_like(mean, deviation**2)
    likelihood = Bernoulli()
    nodes = jnp.asarray(3.0 * random.standard_normal((EVEN_RULE.counts[0], values)))
    moments = jax.jit(lambda m, v: likelihood.tilted(m, v, y, power))
    densities = jax.jit(lambda f: likelihood.log_prob(f, y))
    return {
        "moments_ms": 1e3 * median(lambda: moments(mean, var)),
        "densities_ms": 1e3 * median(lambda: densities(nodes)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", nargs="*", type=int, default=[1000, 4000, 16000])
    with jax.enable_x64(True):
        for case in itertools.product(parser.parse_args().values, POWERS, WIDTHS):
            found = dict(zip(TABLE.keys, case, strict=True)) | run(*case)
            TABLE.add(found)
            print(found, flush=True)


if __name__ == "__main__":
    main()
