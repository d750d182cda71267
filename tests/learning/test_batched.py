"""Learning from batches: the same as from the rows in memory, without keeping them."""

import itertools

import equinox as eqx
import numpy as np
import pytest

import cavity
from cavity import fitting, inducing, kernels, likelihoods, means
from cavity.learning.data.arrays import prepare
from cavity.learning.data.scales import measure, scales_of, tally
from cavity.learning.data.survey import survey
from cavity.learning.infer import as_dtype
from cavity.learning.objectives.evidence import Objective
from tests.tolerances import assert_close

N, SIZE = 300, 64
RNG = np.random.default_rng(3)
X = RNG.uniform(0, 4, (N, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] - 1]) + 0.1 * RNG.standard_normal((N, 2))
HOLES = np.where(RNG.random((N, 2)) < 0.2, np.nan, Y)
HOLES[:5] = np.nan  # nothing observed in the whole first batch
NOISE = RNG.uniform(0.05, 0.2, N)
COUNTS = RNG.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
S = np.array([[0.5, 1.0], [3.0, 2.0], [9.0, 9.0]])


def gp(likelihood=None):
    return cavity.GP(
        kernels.RBF(1.0, [1.0, 1.5]),
        likelihoods.Gaussian(0.1) if likelihood is None else likelihood,
        inducing.Points(X[::30]),
        means.Constant(0.1),
    )


def pieces(*arrays, at=(5, 5, 6, 150, 290), side=None):
    """Batches of unequal sizes: five rows, none, one, many, and the rest."""
    edges = [0, *at, len(arrays[0])]
    found = []
    for i, j in itertools.pairwise(edges):
        rows = {} if side is None else {name: values[i:j] for name, values in side.items()}
        found.append((*(a[i:j] for a in arrays), rows))
    return found


def both(y, *, power=0.5, side=None, missing="error", batches=None, **options):
    """The objective of arrays and that of batches."""
    given = pieces(X, y, side=side) if batches is None else batches
    data = prepare(X, y, power=power, rows=side, missing=missing)
    batched = fitting.Batches(given, size=SIZE)
    stream = survey(batched, gp().likelihood, power=power, missing=missing)
    model = as_dtype(gp(), data)
    return Objective(model, data, **options), Objective(model, stream, **options)


CASES = {
    "two outputs": {"y": Y},
    "known noise": {"y": Y[:, 0], "side": {"noise_variance": NOISE}},
    "missing": {"y": HOLES, "missing": "skip"},
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("case", "power"),
    [
        ("two outputs", 0.0),
        ("two outputs", 0.5),
        ("two outputs", 1.0),
        ("known noise", 0.5),
        ("missing", 0.5),
    ],
)
def test_value_and_gradient_are_those_of_the_rows_in_memory(case, power):
    memory, stream = both(**CASES[case], power=power)
    x = np.linspace(-0.1, 0.1, memory.size)
    (value, slope), (other, its_slope) = memory(x), stream(x)
    assert_close(other, value, "factorised")
    assert_close(its_slope, slope, "factorised")
    assert_close(np.clip(stream.bounds, -99, 99), np.clip(memory.bounds, -99, 99))
    assert_close(stream.coordinates.scale, memory.coordinates.scale)


def test_the_order_of_batches_does_not_matter():
    given = pieces(X, Y)
    memory, stream = both(Y, batches=given[::-1])
    x = np.zeros(memory.size)
    assert_close(stream(x)[0], memory(x)[0], "factorised")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", ["known noise", "missing"])
def test_fit_is_that_of_the_rows_in_memory(case):
    options = {"power": 0.5, "max_iterations": 8}
    y, side = CASES[case]["y"], CASES[case].get("side")
    options["missing"] = CASES[case].get("missing", "error")
    memory = cavity.fit(gp(), X, y, rows=side, **options)
    batches = fitting.Batches(pieces(X, y, side=side), size=SIZE)
    stream = cavity.fit(gp(), batches, **options)
    assert_close(stream.log_evidence, memory.log_evidence, "factorised")
    assert stream.n_evaluations == memory.n_evaluations
    for a, b in zip(stream.posterior.marginals(S), memory.posterior.marginals(S), strict=True):
        assert_close(a, b, "fixed_point")
    assert stream.posterior.known_noise is (side is not None)
    again = cavity.infer(stream.model, batches, power=0.5, missing=options["missing"])
    assert_close(again.log_evidence, stream.log_evidence)
    with pytest.raises(ValueError, match="batches are not kept"):
        stream.leave_one_out()


def test_more_jitter_where_a_factorisation_fails():
    model = eqx.tree_at(lambda m: m.inducing.Z, gp(), np.repeat(X[:1], 10, axis=0))
    batches = fitting.Batches(pieces(X, Y), size=SIZE)
    options = {"power": 0.0, "jitter": 0.0}
    stream, memory = cavity.infer(model, batches, **options), cavity.infer(model, X, Y, **options)
    assert stream.jitter == memory.jitter > 0.0
    assert_close(stream.log_evidence, memory.log_evidence, "factorised")


# ------------------------------------------------------------------------------ tied factors


def tied(batches_or_rows, method, power=0.5, likelihood=None):
    model = gp(likelihoods.Poisson() if likelihood is None else likelihood)
    if isinstance(batches_or_rows, fitting.Batches):
        data = survey(batches_or_rows, model.likelihood, power=power)
        return Objective(as_dtype(model, data.exemplar), data, method=method)
    data = prepare(*batches_or_rows, power=power)
    return Objective(as_dtype(model, data), data, method=method)


@pytest.mark.slow
@pytest.mark.parametrize("power", [0.0, 0.5])
def test_the_tied_energy_of_all_rows(power):
    method = cavity.TiedPowerEP()
    memory = tied((X, COUNTS), method, power)
    stream = tied(fitting.Batches(pieces(X, COUNTS), size=SIZE), method, power)
    x = memory.first + 0.01 * np.sin(np.arange(memory.size))
    (value, slope), (other, its_slope) = memory(x), stream(x)
    assert_close(other, value, "factorised")
    assert_close(its_slope, slope, "factorised")


@pytest.mark.slow
@pytest.mark.parametrize("natural", [None, 0.5])
def test_minibatches_of_a_stream(natural):
    method = cavity.TiedPowerEP(batch=40, max_sweeps=30, natural=natural)
    batches = fitting.Batches(pieces(X, COUNTS), size=SIZE, buffer=100)
    model, options = gp(likelihoods.Poisson()), {"method": method, "power": 0.0}
    result = cavity.fit(model, batches, **options)
    start = cavity.infer(model, X, COUNTS, power=0.0, method=cavity.TiedPowerEP(max_sweeps=20))
    assert result.n_iterations == 30
    assert np.isfinite(result.log_evidence)
    assert result.log_evidence > start.log_evidence - 40.0
    again = cavity.fit(model, batches, **options)
    assert again.log_evidence == result.log_evidence
    assert result.posterior.predict(S).mean.shape == (3,)


def test_every_pass_of_minibatches_has_every_row():
    numbered = np.column_stack([np.arange(N), np.zeros(N)]).astype(float)
    stream = survey(
        fitting.Batches(pieces(numbered, Y), size=SIZE, buffer=70), likelihoods.Gaussian()
    )
    drawn = stream.minibatches(50, np.random.default_rng(0))
    seen = [np.asarray(next(drawn).data.rows.x)[:, 0] for _ in range(12)]
    for one in (seen[:6], seen[6:]):
        assert sorted(np.concatenate(one)) == list(range(N))
    assert not np.array_equal(seen[0], seen[6])
    assert not np.array_equal(np.sort(seen[0]), seen[0])


# ------------------------------------------------------------------------------ first pass


def test_tallies_add_up():
    scales = measure(X, Y)
    parts = [tally(X[i:j]) for i, j in ((0, 1), (1, 100), (100, N))]
    x = parts[0] + parts[1] + parts[2]
    both = tally(Y[:7]) + tally(Y[7:])
    found = scales_of(x, both)
    assert_close(found.x_centre, scales.x_centre)
    assert_close(found.x_spread, scales.x_spread)
    assert_close(found.y_spread, scales.y_spread)


def test_what_a_survey_says():
    stream = survey(fitting.Batches(pieces(X, HOLES)), likelihoods.Gaussian(), missing="skip")
    observed = ~np.isnan(HOLES)
    assert stream.length == observed.any(axis=1).sum()
    assert_close(stream.observed, observed.sum(axis=0))
    assert stream.n_observed == observed.sum()
    assert not stream.single


# ---------------------------------------------------------------------------------- misuse


def spoiled(number, change):
    given = pieces(X, Y[:, 0], at=(100, 200))
    given[number] = change(*given[number][:2])
    return given


def nan_at_seven(x, y):
    x = x.copy()
    x[7, 1] = np.nan
    return x, y


class Shrinking:
    """Rows that are fewer in every pass."""

    def __init__(self):
        self.rows = N + 50

    def __iter__(self):
        self.rows -= 50
        yield X[: self.rows], Y[: self.rows, 0]


BAD = {
    "generator": (lambda: (b for b in pieces(X, Y)), TypeError, "only once.*Batches"),
    "no pairs": (lambda: [1.0], TypeError, "batch 1: a batch is a pair"),
    "a number": (lambda: 3, TypeError, "an iterable of pairs"),
    "an array": (lambda: X, TypeError, "y is missing"),
    "empty": (list, ValueError, "hold no rows"),
    "empty batches": (lambda: [(X[:0], Y[:0])], ValueError, "hold no rows"),
    "NaN": (
        lambda: spoiled(2, nan_at_seven),
        ValueError,
        r"batch 3, whose index 0 is row 200 of all: X has 1 entry .* at index \[7, 1\]",
    ),
    "columns": (
        lambda: spoiled(1, lambda x, y: (x[:, :1], y)),
        ValueError,
        "batch 2.*other input columns.*1, not 2",
    ),
    "outputs": (lambda: spoiled(1, lambda x, y: (x, Y[:100])), ValueError, "output columns"),
    "lengths": (lambda: spoiled(1, lambda x, y: (x, y[:9])), ValueError, "match row by row"),
    "text": (lambda: spoiled(1, lambda x, y: (x, y.astype(str))), TypeError, "batch 2.*numbers"),
    "other rows": (Shrinking, ValueError, "300 rows in the first pass and 250"),
}


@pytest.mark.parametrize("case", BAD)
def test_misuse(case):
    make, error, message = BAD[case]
    with pytest.raises(error, match=message):
        cavity.fit(gp(), make(), max_iterations=1)


def test_a_generator_function_that_gives_one_iterator_is_noticed():
    once = iter(pieces(X, Y))
    with pytest.raises(ValueError, match="300 rows in the first pass and 0"):
        cavity.fit(gp(), fitting.Batches(lambda: once), max_iterations=1)


def test_what_needs_all_rows_says_so():
    batches = fitting.Batches(pieces(X, COUNTS))
    full = cavity.GP(kernels.RBF(), likelihoods.Gaussian())
    with pytest.raises(ValueError, match="full GP compares every row"):
        cavity.fit(full, batches)
    with pytest.raises(ValueError, match=r"Laplace\(\).*keeps a site.*TiedPowerEP\(batch"):
        cavity.fit(gp(likelihoods.Poisson()), batches, method=cavity.Laplace())
    with pytest.raises(ValueError, match="neither blocks nor a power per row"):
        cavity.fit(gp(), batches, blocks=np.zeros(N, int))
    with pytest.raises(ValueError, match="come with their batch"):
        cavity.fit(gp(), batches, rows={"noise_variance": NOISE})
    with pytest.raises(TypeError, match="leave y out"):
        cavity.fit(gp(), batches, COUNTS)
    with pytest.raises(ValueError, match=r"batch 1.*Poisson likelihood does not take"):
        cavity.fit(
            gp(likelihoods.Poisson()),
            [(X, Y[:, 0])],
            method=cavity.TiedPowerEP(batch=10),
        )
    with pytest.raises(ValueError, match="size must be a whole number"):
        fitting.Batches([], size=0)
