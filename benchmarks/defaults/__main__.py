"""Test densities of default estimators on all tables, in this checkout beside another one.

Both checkouts fit the same rows of each split, in turn; what is compared is the mean log density
of a test row. Of long tables the first rows of each split are used: what default settings come to
differs most where rows are few. Rows that are there already are not measured again.

python -m benchmarks.defaults OTHER_CHECKOUT [--splits 5] [--rows 500] [--only WORD ...]
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import Split
from benchmarks.defaults.sets import tables
from benchmarks.paired.__main__ import commit
from benchmarks.peers.workers import ROOT, Worker, capped
from benchmarks.results import Table

TABLE = Table("defaults.csv", ("set", "split", "rows", "before"))
SCRIPT = Path(__file__).with_name("worker.py")
# No table may lose more nats a row, in the mean over splits; so many test rows at the most.
LOSS, TESTS = 0.005, 1_000


def started(checkout: Path) -> Worker:
    """A checkout's process."""
    caps = capped("cavity", 1) | {"PYTHONPATH": str(checkout / "src")}
    process = Worker(str(checkout), [sys.executable, "-P", str(SCRIPT)], caps, 1)
    if not Path(process.hello["source"]).is_relative_to(checkout):
        process.close()
        raise SystemExit(f"{checkout} would be measured with {process.hello['source']}")
    return process


def shortened(data: Split, rows: int) -> dict[str, Any]:
    """The rows that are used, without columns that do not vary and tests of unseen classes."""
    X, y, X_test, y_test = data
    X, y, X_test, y_test = X[:rows], y[:rows], X_test[:TESTS], y_test[:TESTS]
    kept = X.std(axis=0) > 0.0
    known = np.ones(len(y_test), bool) if y.dtype.kind == "f" else np.isin(y_test, y)
    return {"X": X[:, kept], "y": y, "X_test": X_test[known][:, kept], "y_test": y_test[known]}


def measure(pair: tuple[Worker, Worker], kind: str, data: Split, rows: int) -> dict[str, Any]:
    """Densities and processor seconds of both checkouts."""
    arrays = shortened(data, rows)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "split.npz")
        np.savez(path, **arrays)
        before, after = (process.ask("fit", kind=kind, arrays=path) for process in pair)
    found: dict[str, Any] = {"n": len(arrays["y"]), "columns": arrays["X"].shape[1]}
    for when, answer in (("before", before), ("after", after)):
        for name in ("density", "evidence", "seconds"):
            found[f"{name}_{when}"] = answer.get(name, float("nan"))
        found[f"failed_{when}"] = answer.get("failed", "")
    return found


def summary(key: str) -> str:
    """Mean gains of all tables, and which lose more than they may."""
    rows = [row for row in TABLE.rows() if row["before"] == key]
    lines, gains = [f"{'table':<24}{'kind':<12}{'n':>6}{'splits':>7}{'before':>10}{'gain':>9}"], []
    for name in dict.fromkeys(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name]
        each = [float(row["density_after"]) - float(row["density_before"]) for row in own]
        before, gain = (
            statistics.fmean(float(row["density_before"]) for row in own),
            statistics.fmean(each),
        )
        gains.append(gain)
        mark = "" if gain >= -LOSS else "  loses"
        lines.append(
            f"{name:<24}{own[0]['kind']:<12}{own[0]['n']:>6}{len(own):>7}{before:>10.4f}"
            f"{gain:>9.4f}{mark}"
        )
    lost = sum(not gain >= -LOSS for gain in gains)
    lines.append(f"{len(gains)} tables, {lost} lose more than {LOSS} nats a row")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("other", type=Path)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--only", nargs="*", default=[""])
    options = parser.parse_args()
    other = options.other.resolve()
    key = commit(other)
    wanted = [
        (split, name, kind, load)
        for split in range(options.splits)
        for name, (kind, load) in tables().items()
        if any(word in name for word in options.only)
        and not TABLE.has(set=name, split=split, rows=options.rows, before=key)
    ]
    pair = started(other), started(ROOT)
    for split, name, kind, load in wanted:
        found = measure(pair, kind, load(split), options.rows)
        place = {"set": name, "kind": kind, "split": split, "rows": options.rows, "before": key}
        TABLE.add(place | found)
        gain = found["density_after"] - found["density_before"]
        print(f"{name} {split}: {found['density_before']:.4f} {gain:+.4f}", flush=True)
    for process in pair:
        process.close()
    print(summary(key))


if __name__ == "__main__":
    main()
