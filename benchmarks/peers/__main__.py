"""`cavity` beside other libraries, in one run: python -m benchmarks.peers [--only ...] [--quick].

Their environments are made by `make bench-environments`. Rows that are there already are not
measured again; delete a csv to start it anew.
"""

import argparse
import os

from benchmarks.peers import fits, starts, turns
from benchmarks.peers.record import Record
from benchmarks.peers.turns import TASKS

PARTS = (*TASKS, "starts", "fits")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--quick", action="store_true", help="small sizes, nothing kept")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--iterations", type=int, default=100, help="of a fit")
    parser.add_argument("--seconds", type=float, default=600.0, help="of a fit, at the most")
    asked = parser.parse_args()

    def table(name: str, *keys: str) -> Record:
        return Record(name, keys, asked.threads, quick=asked.quick)

    parts = tuple(part for part in asked.only if part in TASKS)
    if parts:
        kept = table("peers.csv", "task", "N", "M", "library", "method")
        turns.main(kept, asked.repeats, quick=asked.quick, only=parts)
    if "starts" in asked.only:
        kept = table("peers_starts.csv", "what", "library", "N", "M")
        starts.main(kept, 1 if asked.quick else 5, quick=asked.quick)
    if "fits" in asked.only:
        kept = table("peers_fits.csv", "set", "M", "library")
        traces = table("peers_traces.csv", "set", "M", "library", "seconds")
        fits.main(kept, traces, asked.iterations, asked.seconds)


if __name__ == "__main__":
    main()
