"""Writes the files that are missing, and what their estimators predict."""

import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from cavity.families.base import loaded
from tests.conformance.test_files import EXAMPLES, KEYS, key_of, predicted

HERE = Path(__file__).parent


def main() -> None:
    for family, task in KEYS:
        key = key_of((family, task))
        path = HERE / f"{'-'.join(key)}.cavity"
        if path.exists():
            continue
        settings, data = EXAMPLES[key]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator = loaded(family.estimators[task])(**settings).fit(*data)
        estimator.save(path)
        np.savetxt(path.with_suffix(".csv"), np.atleast_2d(predicted(estimator, data)), "%.17g")


if __name__ == "__main__":
    main()
