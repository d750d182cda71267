"""Random updates of models that go on learning: `python -m benchmarks.fuzz.streams`.

Streams of ten batches each: none, one or few rows; rows that came before, all at one place, far
outside the range, in other units, with outliers, after a jump of the level; more inducing points
than rows. Units of inputs and outputs lie between 1e-6 and 1e6. After every update evidence,
posterior and predictions must be finite (but for mean counts above the largest double), variances
must not be negative, `lost` neither, and the rows are counted; errors are failures, except
`NumericalError`, which names what to do.

A line of the csv has the settings of some streams: how many updates, how many with an error that
names what to do, how many failed. A run goes on from the updates that the csv counts; delete it to
start again. Failures are printed with the number of their stream, by which `--only` repeats them.

python -m benchmarks.fuzz.streams [--updates 10000] [--seed 0] [--only NUMBER]
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
from cavity import kernels, likelihoods

TABLE = Table("fuzz_streams.csv", ("seed", "likelihood", "power", "inducing", "learn"))
COUNTS = ("updates", "refused", "failures")
# Updates of a stream; streams in a row of the same structure.
UPDATES, SHARED = 10, 25
ROWS, MOST = (0, 1, 5, 8), 8
# The logarithm of the largest double.
LARGEST = float(np.log(np.finfo(float).max))
LIKELIHOODS = ("Gaussian", "Bernoulli", "StudentT", "Poisson")
CHOICES = ("keep", "move", "grow")


@dataclasses.dataclass(frozen=True)
class Stream:
    """A model, batches of rows, and how they are learned from.

    Attributes:
        number: of the stream.
        model: the model.
        batches: inputs and outputs.
        kinds: what each batch is.
        options: of the updates.
        unit: the units of inputs and outputs.
    """

    number: int
    model: cavity.GP
    batches: list[tuple[np.ndarray, np.ndarray]]
    kinds: list[str]
    options: dict[str, Any]
    unit: tuple[float, float]

    @property
    def key(self) -> dict[str, Any]:
        """The settings that lines of the csv are of."""
        options = self.options
        name = type(self.model.likelihood).__name__
        shared = {"power": options["power"], "inducing": options["inducing"]}
        return {"likelihood": name, **shared, "learn": options["learn"]}


def draw(seed: int, number: int) -> Stream:
    """The stream of a number."""
    choices = np.random.default_rng([seed, number // SHARED])
    rng = np.random.default_rng([seed, number, 1])
    name, D = str(choices.choice(LIKELIHOODS)), int(choices.integers(1, 3))
    M, learn = int(choices.choice([1, 4, 9])), bool(choices.random() < 0.25)
    options = _options(choices, rng, learn=learn, plain=name == "Gaussian")
    x_unit, y_unit = 10.0 ** rng.uniform(-6.0, 6.0, 2)
    y_unit = y_unit if name in ("Gaussian", "StudentT") else 1.0
    length, variance = x_unit * 10.0 ** rng.uniform(-1.0, 1.0, D), 10.0 ** rng.uniform(-1.0, 1.0)
    kind = (kernels.RBF, kernels.Matern12, kernels.Matern52)[choices.integers(3)]
    noise = 10.0 ** rng.uniform(-4.0, 0.0)
    likelihood: Any = {
        "Gaussian": lambda: likelihoods.Gaussian(noise * y_unit**2),
        "Bernoulli": likelihoods.Bernoulli,
        "StudentT": lambda: likelihoods.StudentT(np.sqrt(noise) * y_unit, 4.0),
        "Poisson": likelihoods.Poisson,
    }[name]()
    Z = x_unit * rng.normal(size=(M, D))
    model = cavity.GP(kind(variance * y_unit**2, length), likelihood, cavity.inducing.Points(Z))
    batches, kinds, level = [], [], 0.0
    for place in range(UPDATES + 1):
        batch = str(rng.choice(BATCHES)) if place else "plain"
        rows = max(int(rng.choice(ROWS)), 0 if place else 1)
        level += 10.0 * rng.normal() if batch == "jump" else 0.0
        X = _inputs(rng, batch, rows, D, [X for X, _ in batches])
        f = np.sin(X.sum(axis=1)) + level + 0.1 * rng.normal(size=rows)
        y = _outputs(rng, name, f, batch)
        batches.append((x_unit * X, y_unit * y))
        kinds.append(batch)
    batches = [(X / x_unit * x_unit, y) for X, y in batches]
    return Stream(number, model, batches, kinds, options, (float(x_unit), float(y_unit)))


BATCHES = ("plain", "plain", "again", "one place", "far", "units", "outliers", "jump", "near")


def _options(
    choices: np.random.Generator, rng: np.random.Generator, *, learn: bool, plain: bool
) -> dict[str, Any]:
    """Settings of the updates."""
    once = not learn and bool(choices.random() < 0.15)
    power = 1.0 if once else float(choices.choice([0.0, 0.5, 1.0]))
    inducing = str(choices.choice(CHOICES))
    reuse = "likelihood"
    if inducing == "keep" and not once and choices.random() < 0.1:
        reuse = "posterior"
    return {
        "power": power,
        "past_power": float(choices.choice([0.0, 0.0, 0.5, 1.0])),
        "learn": learn,
        "inducing": inducing,
        "max_inducing": 12,
        "memory": 0 if once else int(choices.choice([0, 0, 3, 20])),
        "half_life": float(10.0 ** rng.uniform(-1.0, 3.0)) if choices.random() < 0.3 else None,
        "reuse": reuse,
        "one_pass": once,
        "max_iterations": 4,
    }


def _inputs(
    rng: np.random.Generator, batch: str, rows: int, D: int, before: list[np.ndarray]
) -> np.ndarray:
    """Inputs of a batch in standard units."""
    X = rng.normal(size=(rows, D))
    if batch == "one place":
        return np.repeat(X[:1], rows, axis=0)
    if batch == "far":
        return X + 10.0 ** rng.uniform(0.0, 6.0)
    if batch == "units":
        return X * 10.0 ** rng.uniform(-6.0, 6.0)
    if batch == "near":
        return X[:1] + 10.0 ** rng.uniform(-16.0, -3.0) * X if rows else X
    return X


def _outputs(rng: np.random.Generator, name: str, f: np.ndarray, batch: str) -> np.ndarray:
    """Outputs of a batch, about the values of a function."""
    if batch == "outliers":
        f = np.where(rng.random(len(f)) < 0.3, f * 10.0 ** rng.uniform(0.0, 6.0), f)
    if name == "Bernoulli":
        return (f > 0.0).astype(float)
    if name == "Poisson":
        return rng.poisson(np.exp(np.clip(f, -5.0, 8.0))).astype(float)
    return f


def run_stream(stream: Stream) -> tuple[int, int, list[str]]:
    """Updates that were done, those refused with an error that says what to do, and failures."""
    done, refused, failures, seen = 0, 0, [], 0
    result: Any = None
    for place, (X, y) in enumerate(stream.batches):
        at = f"{stream.number}, batch {place} ({stream.kinds[place]}, {len(X)} rows)"
        try:
            new = _next(stream, result, X, y)
        except cavity.fitting.NumericalError as error:
            refused += 1
            print(f"{at}: refused: {error}", flush=True)
            if result is None:
                break
            continue
        except Exception as error:  # every other error is a finding
            failures.append(f"{at}: {type(error).__name__}: {error}")
            traceback.print_exc()
            break
        seen += len(X)
        done += int(result is not None)
        failures += [] if result is None else [f"{at}: {w}" for w in wrong(stream, new, X, seen)]
        result = new
    return done, refused, failures


def _next(stream: Stream, result: Any, X: np.ndarray, y: np.ndarray) -> Any:
    """What a batch makes of a result; the first batch is inferred from."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*new output")
        if result is None:
            return cavity.infer(stream.model, X, y, power=stream.options["power"])
        return cavity.update(result, X, y, **stream.options)


def wrong(stream: Stream, result: Any, X: np.ndarray, seen: int) -> list[str]:
    """What is wrong with a result."""
    rng, D = np.random.default_rng(0), stream.batches[0][0].shape[1]
    # as many rows every time, so that programs are shared
    test = np.concatenate([X, stream.unit[0] * rng.normal(size=(MOST + 4, D))])[: MOST + 4]
    found = result.posterior.marginals(test)
    predicted = result.posterior.predict(test)
    numbers = {
        "log_evidence": result.log_evidence,
        "lost": result.lost,
        "mean": found.mean,
        "var": found.var,
        "predicted": predicted.mean,
    }
    bad = [name for name, value in numbers.items() if not np.all(np.isfinite(value))]
    if "predicted" in bad and _beyond_numbers(stream, found, predicted):
        bad.remove("predicted")
    if not np.all(np.asarray(found.var) >= 0.0):
        bad.append("negative variance")
    if not result.lost >= 0.0:
        bad.append("negative loss")
    if result.rows_seen != seen:
        bad.append(f"{result.rows_seen} rows seen for {seen}")
    leaves = jax.tree.leaves((result.past, result.live.X, result.live.y))
    if not all(np.all(np.isfinite(x)) for x in leaves if hasattr(x, "dtype") and np.ndim(x)):
        bad.append("the past")
    return bad


def _beyond_numbers(stream: Stream, found: Any, predicted: Any) -> bool:
    """Whether means that are infinite are those of counts whose logarithm no number can hold."""
    if stream.key["likelihood"] != "Poisson":
        return False
    mean = np.asarray(predicted.mean)
    logarithm = np.asarray(found.mean) + 0.5 * np.asarray(found.var)
    return bool(np.all(np.isfinite(mean) | ((mean == np.inf) & (logarithm > LARGEST))))


def run(seed: int, updates: int) -> int:
    """The updates that are not counted yet; how many of them are failures."""
    tallies, failed = Tallies(TABLE, COUNTS, seed), 0
    start = time.perf_counter()
    for number in range(tallies.begun // UPDATES, updates // UPDATES):
        stream = draw(seed, number)
        _, refused, failures = run_stream(stream)
        tallies.count(stream.key, UPDATES, refused, len(failures))
        failed += len(failures)
        for failure in failures:
            print(f"{failure}; {stream.key}", flush=True)
        if number % SHARED == SHARED - 1:
            tallies.write()
            print(f"{number + 1} streams, {time.perf_counter() - start:.0f} s", flush=True)
            jax.clear_caches()
    tallies.write()
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if arguments.only is None:
        print(run(arguments.seed, arguments.updates), "failures")
        return
    stream = draw(arguments.seed, arguments.only)
    print(stream.model, stream.options, stream.unit, stream.kinds, sep="\n")
    print(*run_stream(stream), sep="\n")


if __name__ == "__main__":
    main()
