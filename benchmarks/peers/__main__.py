"""`cavity` beside other libraries, in one run: python -m benchmarks.peers [--only ...] [--quick].

Their environments are made by `make bench-environments`. Rows that are there already are not
measured again; delete a csv to start it anew.
"""

import argparse
import os

from benchmarks.peers import deep, fits, gains, linear, networks, starts, streams, turns
from benchmarks.peers.record import Record
from benchmarks.peers.turns import STREAMING, TASKS

PARTS = (*TASKS, *STREAMING, "starts", "fits", "streaming", "linear", "networks", "active", "deep")


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

    columns = ("task", "N", "M", "library", "method")
    for name, tasks in (("peers.csv", TASKS), ("peers_streaming.csv", STREAMING)):
        parts = tuple(part for part in asked.only if part in tasks)
        if name == "peers_streaming.csv" and "streaming" in asked.only:
            parts = tuple(STREAMING)
        if parts:
            turns.main(table(name, *columns), asked.repeats, quick=asked.quick, only=parts)
    if "streaming" in asked.only:
        kept = table("peers_streams.csv", "case", "order", "seed", "M", "library", "power")
        streams.main(kept, 1 if asked.quick else 10)
    if "starts" in asked.only:
        kept = table("peers_starts.csv", "what", "library", "N", "M")
        starts.main(kept, 1 if asked.quick else 5, quick=asked.quick)
    if "fits" in asked.only:
        kept = table("peers_fits.csv", "set", "M", "library")
        traces = table("peers_traces.csv", "set", "M", "library", "seconds")
        fits.main(kept, traces, asked.iterations, asked.seconds)
    if "active" in asked.only:
        gains.main(table("peers_active.csv", "what", "library"))
    if "linear" in asked.only:
        kept = table("peers_linear.csv", "columns", "seed", "library", "method")
        linear.main(kept, 3)
    if "networks" in asked.only:
        networks.main(table("peers_networks.csv", "part", "rows", "units", "library"))
    if "deep" in asked.only:
        deep.main(table("peers_deep.csv", "threads", "library", "method"))


if __name__ == "__main__":
    main()
