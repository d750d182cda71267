"""Random fits of linear models with sparse priors: `python -m benchmarks.fuzz.linear`.

Priors, likelihoods, powers, groups, blocks, intercepts; more columns than rows and fewer; columns
that are constant, twice there, nearly twice there, 0/1 columns of a category, columns in units
1e12 apart; outputs of any unit, with outliers, all the same, classes that are separable; one row.
Most are inferred at the parameters given, some are fitted with three iterations; after 100 sweeps
every fallback has its turn. Evidence, coefficients, predictions and log densities must be finite,
but for means of counts, which may overflow; deviations must not be negative, and probabilities
between 0 and 1 and in agreement; errors are failures, except `NumericalError`, which names what
to do.

A line of the csv has the settings of some cases: how many fits, how many with an error that names
what to do, how many that said that they did not converge, how many failed. A run goes on from the
fits that the csv counts; delete it to start again. Failures are printed with their number, by
which `--only` repeats them.

python -m benchmarks.fuzz.linear [--fits 10000] [--seed 0] [--only NUMBER]
"""

import argparse
import dataclasses
import time
import traceback
import warnings
from typing import Any

import jax
import numpy as np

import cavity
from benchmarks.fuzz.tallies import Tallies
from benchmarks.results import Table
from cavity import likelihoods, weights

TABLE = Table("fuzz_linear.csv", ("seed", "prior", "likelihood", "blocks", "learn"))
COUNTS = ("fits", "refused", "unconverged", "failures")
# Cases in a row of the same structure, which share their programs.
SHARED = 100
# Few sweeps, so that fits which do not settle come to the fallbacks soon.
METHOD = cavity.PowerEP(max_sweeps=100)
SHAPES = ((1, 3), (6, 4), (12, 6), (8, 20), (30, 9))
PRIORS = ("Gaussian", "Laplace", "StudentT", "Horseshoe", "SpikeSlab")
LIKELIHOODS = ("Gaussian", "Bernoulli", "StudentT", "Poisson")
TABLES = ("plain", "plain", "constant", "twice", "near", "category", "units", "correlated")
OUTPUTS = ("plain", "plain", "outliers", "alike", "separable", "exact")


@dataclasses.dataclass(frozen=True)
class Case:
    """A linear model and data.

    Attributes:
        number: of the case.
        model: the model.
        X: inputs.
        y: outputs.
        kinds: what the columns and the outputs are.
        power: of the data.
        learn: whether parameters are learned.
    """

    number: int
    model: cavity.LinearModel
    X: np.ndarray
    y: np.ndarray
    kinds: tuple[str, str]
    power: float
    learn: bool

    @property
    def key(self) -> dict[str, Any]:
        """The settings that lines of the csv are of."""
        return {
            "prior": type(self.model.prior).__name__,
            "likelihood": type(self.model.likelihood).__name__,
            "blocks": self.model.blocks is not None,
            "learn": self.learn,
        }


def draw(seed: int, number: int) -> Case:
    """The case of a number."""
    choices = np.random.default_rng([seed, number // SHARED])
    rng = np.random.default_rng([seed, number, 1])
    prior, name = str(choices.choice(PRIORS)), str(choices.choice(LIKELIHOODS))
    rows, columns = SHAPES[choices.integers(len(SHAPES))]
    learn, blocked = bool(choices.random() < 0.2), bool(choices.random() < 0.4)
    power = 1.0 if prior == "SpikeSlab" else float(choices.choice([0.5, 1.0]))
    blocks = None
    if blocked and prior != "Laplace":
        blocks = [range(i, min(i + 3, columns)) for i in range(0, columns - 1, 3)]
    kinds = str(rng.choice(TABLES)), str(rng.choice(OUTPUTS))
    x_unit, y_unit = 10.0 ** rng.uniform(-6.0, 6.0, 2)
    y_unit = y_unit if name in ("Gaussian", "StudentT") else 1.0
    X = _inputs(rng, kinds[0], rows, columns)
    w = np.where(rng.random(columns) < 0.3, rng.normal(size=columns), 0.0)
    noise = 10.0 ** rng.uniform(-4.0, 0.0)
    f = X @ w
    y = _outputs(rng, name, kinds[1], f / (np.std(f) or 1.0), noise)
    size = y_unit / x_unit
    model = cavity.LinearModel(
        _prior(rng, prior, size),
        _likelihood(name, noise, y_unit),
        intercept=(10.0 * y_unit) ** 2 if choices.random() < 0.7 else False,
        blocks=blocks,
    )
    return Case(number, model, x_unit * X, y_unit * y, kinds, power, learn)


def _prior(rng: np.random.Generator, name: str, size: float) -> Any:
    """A prior of weights of about this size."""
    size = size * 10.0 ** rng.uniform(-1.5, 0.5)
    share = float(10.0 ** rng.uniform(-2.0, -0.2))
    return {
        "Gaussian": lambda: weights.Gaussian(size**2),
        "Laplace": lambda: weights.Laplace(size),
        "StudentT": lambda: weights.StudentT(size, float(rng.uniform(1.0, 6.0))),
        "Horseshoe": lambda: weights.Horseshoe(size),
        "SpikeSlab": lambda: weights.SpikeSlab(share, size**2),
    }[name]()


def _likelihood(name: str, noise: float, unit: float) -> Any:
    return {
        "Gaussian": lambda: likelihoods.Gaussian(noise * unit**2),
        "Bernoulli": likelihoods.Bernoulli,
        "StudentT": lambda: likelihoods.StudentT(np.sqrt(noise) * unit, 4.0),
        "Poisson": likelihoods.Poisson,
    }[name]()


def _inputs(rng: np.random.Generator, kind: str, rows: int, columns: int) -> np.ndarray:
    """Columns in standard units."""
    X = rng.normal(size=(rows, columns))
    if kind == "constant":
        X[:, rng.integers(columns)] = rng.choice([0.0, 1.0, 1e6])
    if kind == "twice":
        X[:, -1] = X[:, 0]
    if kind == "near":
        X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-14.0, -3.0) * X[:, -1]
    if kind == "category":
        X[:, :3] = rng.integers(0, 3, rows)[:, None] == np.arange(3)
        X[:, :3] -= X[:, :3].mean(axis=0)
    if kind == "units":
        X = X * 10.0 ** rng.uniform(-6.0, 6.0, columns)
    if kind == "correlated":
        X = X + 10.0 * rng.normal(size=(rows, 1))
    return X


def _outputs(
    rng: np.random.Generator, name: str, kind: str, f: np.ndarray, noise: float
) -> np.ndarray:
    """Outputs about the values of a function."""
    f = f if kind in ("separable", "exact") else f + np.sqrt(noise) * rng.normal(size=len(f))
    if kind == "outliers":
        f = np.where(rng.random(len(f)) < 0.3, f * 10.0 ** rng.uniform(0.0, 6.0), f)
    if kind == "alike":
        f = np.full(len(f), f[0])
    if name == "Bernoulli":
        return (f > 0.0).astype(float)
    if name == "Poisson":
        return rng.poisson(np.exp(np.clip(f, -5.0, 8.0))).astype(float)
    return f


def outcome(case: Case) -> tuple[bool, bool, list[str]]:
    """Whether it raised NumericalError, whether it reported no convergence, and what is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options: dict[str, Any] = {"power": case.power, "method": METHOD}
            if case.learn:
                result = cavity.fit(case.model, case.X, case.y, max_iterations=3, **options)
            else:
                result = cavity.infer(case.model, case.X, case.y, **options)
            return False, not result.converged, wrong(case, result)
    except cavity.fitting.NumericalError as error:
        print(f"{case.number} {case.kinds}: refused: {error}", flush=True)
        return True, False, []
    except Exception as error:  # every other error is a finding
        traceback.print_exc()
        return False, False, [f"{type(error).__name__}: {error}"]


def wrong(case: Case, result: Any) -> list[str]:
    """What is wrong with a result."""
    told: Any = cavity.diagnostics.coefficients(result.posterior)
    found, predicted = result.posterior.marginals(case.X), result.posterior.predict(case.X)
    numbers = {
        "log_evidence": result.log_evidence,
        "mean": found.mean,
        "var": found.var,
        "predicted": predicted.mean,
        "log_density": predicted.log_density(case.y),
        "coefficients": told.mean,
        "deviations": told.deviation,
        "lower": told.lower,
        "upper": told.upper,
    }
    bad = [name for name, value in numbers.items() if not np.all(np.isfinite(value))]
    if not np.any(np.isnan(predicted.mean)) and isinstance(
        case.model.likelihood, likelihoods.Poisson
    ):
        bad = [name for name in bad if name != "predicted"]  # the mean of exp(f) may overflow
    if not np.all(np.asarray(found.var) >= 0.0) or not np.all(np.asarray(told.deviation) >= 0.0):
        bad.append("negative variance")
    shares = {"negative": told.negative, "positive": told.positive}
    shares |= {} if told.inclusion is None else {"inclusion": told.inclusion}
    bad += [name for name, x in shares.items() if not np.all((x >= 0.0) & (x <= 1.0))]
    if told.inclusion is not None:
        apart = np.abs(told.negative + told.positive - told.inclusion)
        bad += ["signs beside inclusion"] if not np.all(apart <= 1e-9) else []
    if not np.all(told.lower <= told.upper):
        bad.append("an interval the wrong way round")
    return bad


def run(seed: int, fits: int) -> int:
    """The fits that are not counted yet; how many of them are failures."""
    tallies, failed = Tallies(TABLE, COUNTS, seed), 0
    start = time.perf_counter()
    for number in range(tallies.begun, fits):
        case = draw(seed, number)
        refused, unconverged, failures = outcome(case)
        tallies.count(case.key, 1, refused, unconverged, len(failures))
        failed += len(failures)
        for failure in failures:
            print(f"{number} {case.kinds} {case.key}: {failure}", flush=True)
        if number % SHARED == SHARED - 1 or number == fits - 1:
            tallies.write()
            print(f"{number + 1} fits, {time.perf_counter() - start:.0f} s", flush=True)
            jax.clear_caches()
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if arguments.only is None:
        print(run(arguments.seed, arguments.fits), "failures")
        return
    case = draw(arguments.seed, arguments.only)
    print(case.model, case.X, case.y, case.kinds, case.power, sep="\n")
    print(outcome(case))


if __name__ == "__main__":
    main()
