"""The process in which one checkout fits tables: requests and answers are lines of JSON.

python -P benchmarks/defaults/worker.py, with `src` of a checkout on PYTHONPATH. It imports nothing
beside it, so that any checkout can be given this script.
"""

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import cavity


def density(kind: str, X: Any, y: Any, X_test: Any, y_test: Any) -> tuple[float, Any]:
    """The log density (nats a row) of test rows under the default model, and the model."""
    if kind == "classes":
        model: Any = cavity.GPClassifier(random_state=0).fit(X, y)
        rows, column = np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)
        return float(np.mean(np.log(model.predict_proba(X_test)[rows, column]))), model
    likelihood = {"counts": "poisson", "regression": "gaussian"}[kind]
    model = cavity.GPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    return float(np.mean(model.log_predictive_density(X_test, y_test))), model


def fitted(kind: str, arrays: str) -> dict[str, Any]:
    """A row of results, of the arrays of a file."""
    with np.load(arrays) as file:
        data = [file[name] for name in ("X", "y", "X_test", "y_test")]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, model = density(kind, *data)
    seconds = time.process_time() - start
    return {"density": found, "evidence": float(model.log_evidence_), "seconds": seconds}


def main() -> None:
    """Answers until there are no more requests."""
    source = str(Path(cavity.__file__).resolve())
    print(json.dumps({"version": cavity.__version__, "source": source}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = fitted(asked["kind"], asked["arrays"])
        except Exception as error:  # one table that fails is a row that says so
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
