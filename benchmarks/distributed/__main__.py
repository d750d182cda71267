"""Fits over the parts of a table, in one process and in several.

--identities: what must be equal, each with its error and bound, or some of it (surveys, exact,
    sites, workers, resumed); the exit code is 1 if something is not.
--performance: seconds of passes with one process on one core, and with two Dask workers on a
    core each; to be measured on a machine without other load.
Otherwise accuracy: fits of two tables in 16 files by two Dask workers, beside those in memory.

python -m benchmarks.distributed [--identities [...] | --performance [--rows 2000000]]
"""

import argparse

import jax

from benchmarks.distributed import accuracy, bits, errors, in_memory, performance

IDENTITIES = {
    "surveys": in_memory.surveys,
    "exact": in_memory.exact_rows,
    "sites": in_memory.sites_of_rows,
    "workers": bits.on_workers,
    "resumed": bits.resumed,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--identities", nargs="*", choices=IDENTITIES, help="all by default")
    what.add_argument("--performance", action="store_true")
    parser.add_argument("--rows", type=int, default=2_000_000, help="for --performance")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if options.identities is not None:
        chosen = options.identities or IDENTITIES
        failed = sum(errors.record(IDENTITIES[name]()) for name in chosen)
        print(f"{failed} of the identities do not hold" if failed else "all identities hold")
        return int(failed > 0)
    if options.performance:
        performance.measure(options.rows)
        return 0
    accuracy.measure()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
