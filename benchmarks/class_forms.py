"""Coupled and independent classes of sparse classifiers: processor time beside error and log loss.

Default settings on a tenth of the rows held out of segment (seven classes, 2,079 rows to learn
from), and on half the rows of a made table of the shape of satellite images (six classes, 2,000
rows, 36 columns). Seconds are of the processor, compilation included: give one set and one form
at a time, lest programs be shared.

python -m benchmarks.class_forms --set segment|images --form coupled|independent
"""

import argparse
import time
import warnings

import numpy as np

import cavity
from benchmarks.data import Split
from benchmarks.many_classes import load, scores
from benchmarks.results import Table

TABLE = Table("class_forms.csv", ("set", "form"))
FORMS = {
    "coupled": {"method": cavity.PowerEP(coupled=True)},
    "independent": {"method": cavity.PowerEP(coupled=False), "power": 1.0},
}


def images(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Five hidden numbers of six classes, seen through 36 columns with noise."""
    r = np.random.default_rng(1)
    y = r.integers(0, 6, rows)
    mixing, centres = r.normal(size=(36, 5)), 2.0 * r.normal(size=(6, 5))
    spread = (0.6 + 0.6 * r.random((6, 5)))[y]
    hidden = r.normal(size=(rows, 5)) * spread + centres[y]
    return hidden @ mixing.T + 0.7 * r.normal(size=(rows, 36)), y


def halves(name: str) -> Split:
    """Rows to learn from, and rows to predict."""
    X, y = images() if name == "images" else load(name)
    count = len(y) // 2 if name == "images" else 2079
    order = np.random.default_rng(0).permutation(len(y))
    first, others = order[:count], order[count:]
    return X[first], y[first], X[others], y[others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=["segment", "images"], required=True)
    parser.add_argument("--form", choices=[*FORMS], required=True)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    data = halves(asked.set)
    X, y, new, _ = data
    start = time.process_time()
    gp = cavity.GPClassifier(random_state=0, **FORMS[asked.form]).fit(X, y)
    seconds = time.process_time() - start
    row = {"set": asked.set, "form": asked.form} | scores(data, gp.predict_log_proba(new))
    ended = {"iterations": gp.n_iter_, "evaluations": gp.n_evaluations_}
    row |= {"processor_seconds": seconds, **ended, "converged": gp.converged_}
    print(row, flush=True)
    TABLE.add(row)


if __name__ == "__main__":
    main()
