"""Peak resident memory and time of fitting and predicting a long parquet table, part by part.

Each in a process of its own, which starts before the table grows: memory should not grow with it.

python -m benchmarks.stream [--rows 500000 1000000 2000000 4000000] [--inputs 8] [--inducing 50]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.results import Table

TABLE = Table("stream.csv", ("what", "rows", "inputs", "M"))
PART = 250_000

CHILD = """
import json, resource, sys
from cavity.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps({"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""


def write(path: Path, rows: int, inputs: int) -> None:
    """A smooth function of standard normal inputs with noise, written part by part."""
    random = np.random.default_rng(0)
    weights = random.standard_normal(inputs)
    parts = []
    for start in range(0, rows, PART):
        X = random.standard_normal((min(PART, rows - start), inputs))
        y = np.sin(X @ weights) + 0.1 * random.standard_normal(len(X))
        columns = {f"x{i}": column for i, column in enumerate(X.T)}
        parts.append(path.with_suffix(f".{start}.parquet"))
        pl.DataFrame(columns | {"y": y}).write_parquet(parts[-1])
    pl.scan_parquet(parts).sink_parquet(path)
    for part in parts:
        part.unlink()


def command(*arguments: object) -> dict:
    """What a command says with --json, and the peak resident memory of its process."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, arguments), "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    said, peak = map(json.loads, done.stdout.splitlines()[-2:])
    return said | peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [500_000, 1_000_000, 2_000_000, 4_000_000]
    parser.add_argument("--rows", type=int, nargs="+", default=sizes)
    parser.add_argument("--inputs", type=int, default=8)
    parser.add_argument("--inducing", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, model, out = folder / "t.parquet", folder / "m.cavity", folder / "p.parquet"
        for rows in options.rows:
            write(table, rows, options.inputs)
            key = {"rows": rows, "inputs": options.inputs, "M": options.inducing}
            batches = ("--batch-rows", 50_000)
            fit = ("--target", "y", "--inducing", options.inducing, "--max-iterations")
            fitted = command("fit", table, "--out", model, *fit, options.iterations, *batches)
            used = command("predict", model, table, "--out", out, *batches)
            for what, found in (("fit", fitted), ("predict", used)):
                row = {"what": what} | key
                row |= {"evaluations": found.get("evaluations", "")}
                row |= {name: found[name] for name in ("seconds", "peak_mb")}
                print(row, flush=True)
                TABLE.add(row)


if __name__ == "__main__":
    main()
