"""How many programs the first fit of a kind compiles, and how large they are.

Sizes are operations as JAX traces them, which hardly change between its releases.
"""

import numpy as np
import pytest

from cavity import GPClassifier, GPRegressor
from cavity.numerics.jit import PROGRAMS

R = np.random.default_rng(0)
X = R.standard_normal((120, 4))
F = np.sin(X[:, 0]) + 0.3 * X[:, 1]
NUMBERS, LABELS = F + 0.1 * R.standard_normal(120), F + 0.5 * R.standard_normal(120) > 0.0


def exact():
    GPRegressor(random_state=0).fit(X, NUMBERS).predict(X[:9], return_std=True)


def sparse():
    settings = {"n_inducing": 50, "random_state": 0}
    GPRegressor(**settings).fit(X, NUMBERS).predict(X[:9], return_std=True)


def classes():
    GPClassifier(random_state=0).fit(X, LABELS).predict_proba(X[:9])


# The fit and its predictions, the most programs, and their operations.
CASES = {"exact": (exact, 7, 1050), "sparse": (sparse, 9, 1110), "classes": (classes, 8, 4260)}


@pytest.mark.parametrize("name", CASES)
def test_first_fits_compile_few_programs_of_a_known_size(name):
    fit, most, operations = CASES[name]
    PROGRAMS.forget()
    fit()
    assert len(PROGRAMS.kept) <= most
    found = sum(program.size.operations for program in PROGRAMS.kept.values())
    assert 0.9 * operations < found < 1.1 * operations, found


def test_a_fit_of_similar_length_compiles_nothing():
    exact()
    before = set(PROGRAMS.kept)
    GPRegressor(random_state=0).fit(X[:101], NUMBERS[:101])
    assert set(PROGRAMS.kept) <= before


def test_predictions_of_all_small_sizes_share_programs():
    """Of the moments, the probabilities, the densities and the quantiles."""
    numbers, labels = GPRegressor(random_state=0).fit(X, NUMBERS), GPClassifier(random_state=0)
    labels.fit(X, LABELS)

    def predict(n):
        numbers.predict(X[:n], return_std=True)
        numbers.log_predictive_density(X[:n], NUMBERS[:n])
        numbers.predict_quantiles(X[:n], [0.05, 0.95])
        labels.predict_proba(X[:n])

    predict(9)
    before = set(PROGRAMS.kept)
    for n in (1, 2, 30, 63):
        predict(n)
    assert set(PROGRAMS.kept) <= before
