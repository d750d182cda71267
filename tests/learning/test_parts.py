"""Tables in parts: the same as in memory, and the same bits on every engine."""

import itertools
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.data.survey import survey
from cavity.likelihoods.latent_values import initial_latents
from tests.learning.part_engines import N, Slice, TwoProcesses, table
from tests.tolerances import assert_close

X, Y = table()
EDGES = (0, 60, 60, 150, 151, N)  # unequal, one without rows and one of a row
CUTS = ((0, 60), (60, 200), (200, N))


def gp():
    return cavity.GP(
        kernels.RBF(1.0, [1.0, 1.5]), likelihoods.Gaussian(0.1), inducing.Points(X[::24])
    )


def parts(edges=EDGES, **options):
    pairs = itertools.pairwise(edges)
    return cavity.Parts([Slice(*pair) for pair in pairs], **({"size": 64} | options))


def fitted(data, *y, engine=None):
    options = {"power": 0.5, "missing": "skip", "max_iterations": 6}
    return cavity.fit(gp(), data, *y, engine=engine, **options)


@pytest.fixture(scope="module")
def in_parts():
    return fitted(parts())


def test_a_fit_is_that_of_the_rows_in_memory(in_parts):
    memory = fitted(X, Y)
    assert in_parts.n_evaluations == memory.n_evaluations
    assert_close(in_parts.log_evidence, memory.log_evidence, "factorised")
    for ours, theirs in zip(
        in_parts.posterior.marginals(X[:5]), memory.posterior.marginals(X[:5]), strict=True
    ):
        assert_close(ours, theirs, "fixed_point")


def test_one_part_has_the_bits_of_batches():
    one, batches = fitted(parts((0, N))), fitted(cavity.fitting.Batches(Slice(0, N), size=64))
    assert one.log_evidence == batches.log_evidence
    assert same_bits(one.posterior, batches.posterior)


def same_bits(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.slow
def test_two_processes_give_the_same_bits(in_parts):
    engine = TwoProcesses()
    try:
        elsewhere = fitted(parts(), engine=engine)
        again = cavity.infer(elsewhere.model, parts(), power=0.5, missing="skip", engine=engine)
    finally:
        engine.close()
    assert os.getpid() not in engine.numbers
    assert elsewhere.history == in_parts.history
    assert elsewhere.log_evidence == in_parts.log_evidence
    assert same_bits(elsewhere.posterior, in_parts.posterior)
    here = cavity.infer(elsewhere.model, parts(), power=0.5, missing="skip")
    assert again.log_evidence == here.log_evidence


def test_the_survey_is_that_of_the_whole():
    found = survey(parts(), likelihoods.Gaussian(), missing="skip")
    whole = survey(parts((0, N)), likelihoods.Gaussian(), missing="skip")
    assert (found.length, found.single) == (whole.length, whole.single) == (N, False)
    np.testing.assert_array_equal(found.observed, whole.observed)
    np.testing.assert_array_equal(found.layout.filler, whole.layout.filler)
    for ours, theirs in zip(found.counted, whole.counted, strict=True):
        assert_close(ours.mean, theirs.mean)
        assert_close(ours.squares, theirs.squares)
        np.testing.assert_array_equal(ours.count, theirs.count)
        np.testing.assert_array_equal(ours.largest, theirs.largest)
    assert found.n_blocks == 1 + 2 + 1 + 2


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_are_measured_together(weighted):
    """Though parts have other shares of the classes, or one alone."""
    y = (np.arange(N) > 170).astype(float)
    weights = 1.0 + np.arange(N) % 3 if weighted else np.ones(N)
    side = {"weight": weights} if weighted else {}
    latents = initial_latents(likelihoods.Bernoulli(), y, weight=weights)
    batches = [[(X[a:b], y[a:b], {n: v[a:b] for n, v in side.items()})] for a, b in CUTS]
    found = survey(cavity.Parts(batches), likelihoods.Bernoulli()).counted[1]
    mean = np.average(latents, weights=weights)
    assert_close(found.mean, [mean])
    assert_close(found.squares, [np.sum(weights * (latents - mean) ** 2)])
    assert_close(found.largest, [np.abs(latents).max()])


def test_tied_sites_take_parts():
    method = cavity.TiedPowerEP(max_sweeps=3)
    options = {"power": 0.5, "missing": "skip", "method": method}
    memory, stream = cavity.infer(gp(), X, Y, **options), cavity.infer(gp(), parts(), **options)
    assert_close(stream.log_evidence, memory.log_evidence, "fixed_point")


DEVICES = """
import jax; jax.config.update("jax_enable_x64", True)
from tests.learning.test_parts import fitted, parts
assert jax.device_count() == {count}
result = fitted(parts())
print(result.log_evidence.hex(), *(value.hex() for value in result.history))
"""


@pytest.mark.slow
def test_blocks_are_dealt_to_all_devices():
    """With the bits of one device."""
    said = []
    for count in (1, 3):
        flags = f"--xla_force_host_platform_device_count={count}"
        environment = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"}
        command = [sys.executable, "-c", DEVICES.format(count=count)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        said.append(done.stdout)
    assert said[0] == said[1]


def weighted(place, weight):
    """A batch of rows of one weight."""
    return X[place], Y[place], {"weight": np.full(len(X[place]), weight)}


def test_rows_of_weight_zero_are_no_rows():
    """Batches and parts of them alone, as if they were left out."""
    kept = [weighted(slice(0, 60), 2.0)], [weighted(slice(60, N), 1.0)]
    none = weighted(slice(0, 90), 0.0)
    whole = fitted(cavity.Parts(kept, size=64))
    more = fitted(cavity.Parts([[none, *kept[0]], [none], kept[1]], size=64))
    assert more.history == whole.history
    assert more.log_evidence == whole.log_evidence
    assert more.n_rows == whole.n_rows == N


class Shrinking:
    """Rows that are fewer in every pass."""

    def __init__(self):
        self.rows = 60

    def __iter__(self):
        self.rows -= 10
        yield X[: self.rows], Y[: self.rows]


class Changing:
    """Rows of which one number is another from the second pass on."""

    def __init__(self, change):
        self.change, self.passes = change, 0

    def __iter__(self):
        self.passes += 1
        both = [X[:60].copy(), Y[:60].copy()]
        if self.passes > 1:
            self.change(*both)
        yield tuple(both)


def swap(a):
    a[[7, 8]] = a[[8, 7]]


CHANGES = {
    "a bit": lambda X, Y: X.__setitem__((40, 0), np.nextafter(X[40, 0], 9.0)),
    "a sign": lambda X, Y: X.__setitem__((41, 1), -X[41, 1]),
    "an output": lambda X, Y: Y.__setitem__((41, 1), 0.0),
    "a gap": lambda X, Y: Y.__setitem__((59, 1), np.nan),
    "order": lambda X, Y: [swap(a) for a in (X, Y)],
    "columns": lambda X, Y: X.__setitem__(..., X[:, ::-1].copy()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_changes_is_named(change):
    changing = cavity.Parts([Slice(60, N), Changing(CHANGES[change])])
    with pytest.raises(ValueError, match="part 2: the batches gave other numbers than in the fir"):
        cavity.infer(gp(), changing, missing="skip")


class Rebatched:
    """The same rows in other batches in every pass."""

    passes = 0

    def __iter__(self):
        self.passes += 1
        for places in np.array_split(np.arange(60), self.passes):
            yield X[places], Y[places]


class Cut:
    """A file that ends too soon."""

    def __iter__(self):
        yield X[50:60], Y[50:60]
        raise ValueError("the file ends in a row group")


def test_the_same_rows_may_come_in_other_batches():
    rebatched = cavity.Parts([Slice(60, N), Rebatched()], size=64)
    plain = cavity.Parts([Slice(60, N), Slice(0, 60)], size=64)
    found, known = (cavity.infer(gp(), p, missing="skip") for p in (rebatched, plain))
    assert found.log_evidence == known.log_evidence


BAD = {
    "twice": (
        lambda: cavity.Parts([Slice(0, 50), Slice(50, N), Slice(0, 50)], names="abc"),
        "a and c have the same rows: each part counts, so give it once",
    ),
    "columns": (
        lambda: cavity.Parts([Slice(0, 50), [(X[50:, :1], Y[50:])]], names=["a.csv", "b.csv"]),
        "b.csv has other input columns than a.csv: 1, not 2",
    ),
    "values": (
        lambda: cavity.Parts([Slice(0, 50), [(X[50:60], Y[50:60]), (X[60:] * np.inf, Y[60:])]]),
        "part 2: batch 2, whose index 0 is row 10 of the part: X has",
    ),
    "changed": (
        lambda: cavity.Parts([Slice(60, N), Shrinking()]),
        "part 2: the batches gave 50 rows in the first pass and 40",
    ),
    "broken": (lambda: cavity.Parts([Slice(0, 50), Cut()]), "Raised while part 2 was read"),
    "empty": (lambda: cavity.Parts([[(X[:0], Y[:0])], []]), "the batches hold no rows"),
    "weightless": (lambda: cavity.Parts([[weighted(slice(0, 9), 0.0)]]), "none whose weight is"),
    "none": (lambda: cavity.Parts([]), "a table has one part at least"),
    "names": (lambda: cavity.Parts([Slice(0, 9)] * 2, names=["a", "a"]), "all different; given"),
    "size": (lambda: cavity.Parts([Slice(0, 9)], size=0), "size must be a whole number"),
}


@pytest.mark.parametrize("case", BAD)
def test_misuse_is_named(case):
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        fitted(make())


def test_engines_are_for_parts():
    with pytest.raises(ValueError, match=r"give the rows as cavity\.Parts"):
        fitted(X, Y, engine=cavity.engines.InProcess())
    with pytest.raises(TypeError, match="can be read only once"):
        cavity.Parts([iter([(X, Y)])])
