"""Faults during fits on a Dask cluster of this computer, each a number of times.

    workers     a random worker is killed (SIGKILL) during fits, and another one started
    client      the process of the fit is killed, and the fit resumed from its checkpoint
    scheduler   the scheduler is killed, and the fit resumed on another
    stopped     a worker stands still (SIGSTOP) for a while
    disk        a worker may write no files (RLIMIT_FSIZE), as with a full disk
    gone        all workers are killed, and the fit resumed with others
    parts       files that are missing, given twice, changed, cut off, of other columns, or empty

Every result must have the bits of a fit in one process without faults. Counted are tries, those
that ended as they should, those with the same bits, and parts that were done again.

python -m benchmarks.faults [--kind workers ...] [--tries N] [--seed 0]
"""

import argparse
import logging
import os
import tempfile
import time

from benchmarks.faults import kinds, parts
from benchmarks.results import Table

TABLE = Table("faults.csv", ("kind",))
COUNTED = ("tries", "ended", "same_bits", "retries")
# Tries of each kind where no number is given.
KINDS = {
    "workers": (kinds.workers, 100),
    "client": (kinds.client, 50),
    "scheduler": (kinds.scheduler, 5),
    "stopped": (kinds.stopped, 3),
    "disk": (kinds.disk, 3),
    "gone": (kinds.gone, 5),
    "parts": (parts.outcomes, 1),
}


def measure(kind: str, options: kinds.Options) -> bool:
    """Makes all tries of a kind, and writes what came of them so far after each."""
    start, rows = time.monotonic(), {}
    for outcome in KINDS[kind][0](options):
        name = f"{kind}: {outcome.of}" if outcome.of else kind
        before = rows.get(name, dict.fromkeys(COUNTED, 0))
        found = dict(zip(COUNTED, (1, outcome.ended, outcome.same, outcome.retries), strict=True))
        row = {"kind": name} | {each: before[each] + found[each] for each in COUNTED}
        row |= {"seconds": time.monotonic() - start, "told": outcome.told}
        rows[name] = row
        TABLE.add(row)
        print(row, flush=True)
    return all(row["tries"] == row["ended"] == row["same_bits"] for row in rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--tries", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stopped", type=float, default=60.0, help="seconds")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds")
    given = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as programs:
        # compiled once, and not in every process that is started
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", programs)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        good = []
        for kind in given.kind:
            tries = KINDS[kind][1] if given.tries is None else given.tries
            good.append(
                measure(kind, kinds.Options(tries, given.seed, given.stopped, given.patience))
            )
    raise SystemExit(not all(good))


if __name__ == "__main__":
    main()
