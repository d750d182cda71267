"""Random models, judged by oracles that share nothing with the library.

Kernels and formulas, means, likelihoods, methods, powers (one for each row too), full and sparse
models, blocks, missing outputs, known noise, 1 to 9 rows, some of them twice or nearly so, units
between 1e-12 and 1e12. Values and gradients of models with Gaussian noise are judged by dense
algebra in extended precision, sites by moments from quadrature, their gradients by differences of
energies whose sites converge anew.

A line of the csv has a kind of case and a check: how many cases, the largest error, how many
failed, and how many say nothing, because inference did not converge (and said so) or because the
differences are themselves uncertain. A run goes on from the cases that the csv counts; delete it
to start again. Failures are printed with their numbers, by which `--only` repeats them.

python -m benchmarks.fuzz [--cases 1000] [--seed 0] [--kinds full,sparse] [--only NUMBER]
"""

import argparse
import collections
import time

import jax
import numpy as np

from benchmarks.fuzz import cases, checks
from benchmarks.results import Table

TABLE = Table("fuzz.csv", ("seed", "kinds", "kind", "check"))
COUNTS = ("cases", "failures", "undecided")


class Tally:
    """The figures of a run so far, by kind of case and check."""

    def __init__(self, seed: int, kinds: tuple[str, ...]):
        self.key = {"seed": seed, "kinds": " ".join(kinds)}
        self.rows: dict[tuple[str, str], dict[str, float]] = {}
        for row in TABLE.rows():
            if all(row[name] == str(value) for name, value in self.key.items()):
                figures = {name: int(row[name]) for name in COUNTS}
                largest = {"largest_error": float(row["largest_error"])}
                self.rows[row["kind"], row["check"]] = {**figures, **largest}

    @property
    def done(self) -> int:
        """The cases that are counted."""
        return int(
            sum(row["cases"] for (_, check), row in self.rows.items() if check == "exception")
        )

    def add(self, kind: str, finding: checks.Finding) -> None:
        """Counts a finding."""
        zero = {**dict.fromkeys(COUNTS, 0), "largest_error": 0.0}
        row = self.rows.setdefault((kind, finding.check), zero)
        row["cases"] += 1
        row["failures"] += int(finding.failed)
        row["undecided"] += int(bool(finding.outcome))
        if not finding.outcome:
            row["largest_error"] = max(row["largest_error"], finding.error)

    def save(self) -> None:
        """Writes all figures."""
        for (kind, check), row in sorted(self.rows.items()):
            figures = {name: int(row[name]) for name in COUNTS}
            largest = {"largest_error": float(row["largest_error"])}
            TABLE.add({**self.key, "kind": kind, "check": check, **figures, **largest})


def run(seed: int, count: int, kinds: tuple[str, ...]) -> int:
    """The cases that are not counted yet; how many findings of them are failures."""
    tally, failures, start = Tally(seed, kinds), 0, time.perf_counter()
    for number in range(tally.done, count):
        case = cases.draw(seed, number, kinds)
        for finding in checks.findings(case):
            tally.add(case.kind, finding)
            if finding.failed:
                failures += 1
                error = f"{finding.check} {finding.error:.1e}"
                print(f"{number}: {case}: {error} {finding.note}", flush=True)
        if number % cases.SHARED == cases.SHARED - 1:
            tally.save()
            # programs of other structures are not needed again
            jax.clear_caches()
    tally.save()
    print(f"{tally.done} cases, {failures} new failures, {time.perf_counter() - start:.0f} s")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(cases.KINDS))
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    kinds = tuple(arguments.kinds.split(","))
    if arguments.only is None:
        run(arguments.seed, arguments.cases, kinds)
        return
    case = cases.draw(arguments.seed, arguments.only, kinds)
    print(case, case.power, case.unit, case.model, sep="\n")
    for name, group in collections.OrderedDict(X=case.X, y=case.y).items():
        print(name, np.array2string(group, precision=17))
    print(*checks.findings(case), sep="\n")


if __name__ == "__main__":
    main()
