"""All benchmarks, one after another: `make bench`, or python benchmarks/run.py [name ...].

Long ones do not measure rows again that are there already; delete a csv to start it anew.
"""

import subprocess
import sys
from pathlib import Path

NAMES = (
    "startup",
    "objective",
    "peers",
    "memory",
    "anchors",
    "ep_cost",
    "banana",
    "neal",
    "recorded",
    "robust_ep",
    "ladder",
    "claims",
    "binary",
    "three_classes",
    "class_cost",
    "many_classes",
    "uci",
    "checkpoint_cost",
    "stream",
    "precision",
    "steps",
    "recorded_classes",
    "fuzz",
)


def main() -> None:
    chosen = sys.argv[1:] or NAMES
    unknown = set(chosen) - set(NAMES)
    if unknown:
        raise SystemExit(f"unknown benchmarks {sorted(unknown)}; there are {', '.join(NAMES)}")
    for name in chosen:
        print(f"== {name}", flush=True)
        root = Path(__file__).parents[1]
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True, cwd=root)


if __name__ == "__main__":
    main()
