"""Fits that are stopped and go on end exactly as those that are not."""

import dataclasses
import itertools
import os

import equinox as eqx
import jax
import numpy as np
import pytest

import cavity
from cavity import fitting, inducing, kernels, likelihoods, weights
from cavity.learning.data.arrays import prepare
from cavity.learning.initialisation.state_space import StateSpaceStart
from cavity.learning.methods.mcmc import MCMC
from cavity.learning.methods.methods import PowerEP, TiedPowerEP
from cavity.learning.optimisers import lbfgs
from cavity.learning.plans.state_space import fit_state_space
from cavity.learning.plans.trials import fit_best
from cavity.learning.progress import checkpoint as checkpoints
from cavity.learning.search import restarts
from cavity.parameters import FIXED, bijections

RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(-2.0, 2.0, 20))[:, None]
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_normal(20)
LABELS = (Y > 0.0).astype(float)
POINTS = inducing.Points(X[::5])
# The third point is next to the second: no factorisation without jitter.
DOUBLED = inducing.Points(X[[0, 8, 8, 16]] + [[0.0], [0.0], [1e-9], [0.0]])

gaussian = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.5))
sparse = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Gaussian(0.5), DOUBLED)
linear = cavity.LinearModel(weights.Laplace(0.4), likelihoods.Gaussian(0.5))
probit = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Bernoulli())
sparse_probit = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Bernoulli(), POINTS)


class Death(BaseException):
    """What happens to a process at a moment that it does not choose."""


@dataclasses.dataclass
class Dying:
    """A checkpoint whose process dies after so many writes, in the middle of the next."""

    store: fitting.Checkpoint
    life: list

    def tick(self):
        self.life[0] -= 1
        return self.life[0] < 0

    def part(self, name):
        return Dying(self.store.part(name), self.life)

    def claim(self, problem):
        self.store.claim(problem)

    def load(self, name):
        return self.store.load(name)

    def save(self, name, tree):
        if self.tick():
            raise Death
        self.store.save(name, tree)

    def forget(self, name):
        if self.tick():
            raise Death
        self.store.forget(name)

    def journal(self, name):
        found = self.store.journal(name)
        write = found.write

        def cut(record):
            write(record)
            if self.tick():
                os.truncate(found.path, found.place - 3)
                raise Death

        found.write = cut
        return found


def lives(folder, fit, writes):
    """The fit of a process that dies after so many writes and is started again until it is done.

    Returns:
        The result, and how many times it died.
    """
    deaths = 0
    while deaths < 200:
        try:
            return fit(Dying(fitting.Checkpoint(folder, resume=True), [writes])), deaths
        except Death:
            deaths += 1
    raise AssertionError("no progress")


def assert_same(a, b):
    """Two results that are equal to the last bit."""
    for name in ("objective", "history", "n_iterations", "n_evaluations", "message", "jitter"):
        assert getattr(a, name) == getattr(b, name), name
    leaves = [jax.tree.leaves((r.model, r.posterior)) for r in (a, b)]
    for one, other in zip(*leaves, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def every(monkeypatch):
    """Sets after how many offers a state is kept."""

    def set_to(number):
        offers = itertools.count(1)

        def offer(self, state):
            if self.store is not None and next(offers) % number == 0:
                self.keep(state)

        monkeypatch.setattr(checkpoints.Search, "offer", offer)

    return set_to


def held(model):
    """The bijections with the kernel held."""
    return eqx.tree_at(
        lambda m: (m.kernel.variance, m.kernel.lengthscale), bijections(model), (FIXED, FIXED)
    )


CASES = {
    "exact": (gaussian, Y, {"max_iterations": 20}),
    "stages and restarts": (gaussian, Y, {"schedule": (held(gaussian),), "n_restarts": 2}),
    "raised jitter": (sparse, Y, {"jitter": 0.0, "max_iterations": 15}),
    "sites": (probit, LABELS, {"max_iterations": 8, "n_restarts": 1}),
    "Laplace": (probit, LABELS, {"max_iterations": 8, "method": cavity.Laplace()}),
    "tied": (sparse_probit, LABELS, {"max_iterations": 12, "method": TiedPowerEP()}),
}
LOOPS = {
    "interleaved": PowerEP(interleaved=25, batch=8),
    "tied minibatches": TiedPowerEP(max_sweeps=25, batch=8),
    "natural gradients": TiedPowerEP(max_sweeps=25, batch=8, natural=0.1),
}


def slowly(names, slow):
    """Parameters, of which some are for slow tests."""
    return [pytest.param(n, marks=[pytest.mark.slow] if n in slow else []) for n in names]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", slowly(CASES, {"sites", "Laplace"}))
def test_a_search_that_dies_and_goes_on(case, tmp_path, every):
    model, y, options = CASES[case]
    whole = cavity.fit(model, X, y, **options)
    if case == "raised jitter":
        assert whole.jitter > 0.0
    every(1)

    def fit(store):
        return cavity.fit(model, X, y, checkpoint=store, **options)

    found, deaths = lives(tmp_path, fit, 5)
    assert deaths > 2
    assert_same(found, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "y"), [(sparse, Y), (sparse_probit, LABELS)])
def test_a_search_in_rescaled_coordinates_that_dies_and_goes_on(
    model, y, tmp_path, every, monkeypatch
):
    def fit(store):
        return cavity.fit(model, X, y, max_iterations=10, checkpoint=store)

    plain = fit(None)
    monkeypatch.setattr(restarts, "TOLERANT", 10)
    monkeypatch.setattr(lbfgs, "RESCALED", 4)
    whole = fit(None)
    assert whole.history[:4] == plain.history[:4]
    assert whole.history[5] != plain.history[5]
    every(2)
    found, deaths = lives(tmp_path, fit, 5)
    assert deaths > 2
    assert_same(found, whole)


@pytest.mark.slow
@pytest.mark.parametrize("loop", slowly(LOOPS, {"interleaved", "natural gradients"}))
def test_a_loop_that_dies_and_goes_on(loop, tmp_path, every):
    options = {"method": LOOPS[loop], "power": 0.0 if loop == "natural gradients" else 0.5}
    whole = cavity.fit(sparse_probit, X, LABELS, **options)
    every(2)

    def fit(store):
        return cavity.fit(sparse_probit, X, LABELS, checkpoint=store, **options)

    found, deaths = lives(tmp_path, fit, 2)
    assert deaths > 3
    assert_same(found, whole)


@pytest.mark.slow
def test_subsequences_of_a_state_space_model_that_die_and_go_on(tmp_path, every):
    method = TiedPowerEP(propagation=fitting.Moments(), max_sweeps=15, batch=5)
    asked = StateSpaceStart(1, 4, "identity")
    options = {"series": np.repeat([0, 1], 10), "method": method}
    whole = fit_state_space(asked, Y[:, None], **options)
    every(2)

    def fit(store):
        return fit_state_space(asked, Y[:, None], checkpoint=store, **options)

    found, deaths = lives(tmp_path, fit, 2)
    assert deaths > 3
    assert_same(found, whole)


STREAMS = {
    "two passes": (sparse, Y, {"max_iterations": 8, "power": 0.5}),
    "minibatches": (sparse_probit, LABELS, {"method": TiedPowerEP(max_sweeps=12, batch=8)}),
}


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS)
def test_batches_that_die_and_go_on(stream, tmp_path, every):
    """Minibatches of a stream are drawn again up to where the fit was."""
    model, y, options = STREAMS[stream]
    half = len(X) // 2
    batches = fitting.Batches([(X[:half], y[:half]), (X[half:], y[half:])])
    whole = cavity.fit(model, batches, **options)
    every(2)

    def fit(store):
        return cavity.fit(model, batches, checkpoint=store, **options)

    found, deaths = lives(tmp_path, fit, 2)
    assert deaths > 2
    assert_same(found, whole)


@pytest.mark.slow
def test_death_at_every_write(tmp_path, every):
    """No write of a fit with sites, stages and a restart is one that must not be cut."""
    options = {"max_iterations": 3, "n_restarts": 1, "schedule": (held(probit),)}
    whole = cavity.fit(probit, X, LABELS, **options)
    every(2)
    for writes in itertools.count():
        folder = tmp_path / str(writes)

        def fit(store):
            return cavity.fit(probit, X, LABELS, checkpoint=store, **options)

        try:
            fit(Dying(fitting.Checkpoint(folder), [writes]))
            break
        except Death:
            assert_same(fit(fitting.Checkpoint(folder, resume=True)), whole)
    assert writes > 20


def test_what_is_known_is_not_evaluated_again(tmp_path, monkeypatch):
    from cavity.learning.objectives.evidence import Objective

    calls = []
    evaluate = Objective.__call__
    plural = lambda self, x: (calls.append(x), evaluate(self, x))[1]  # noqa: E731
    monkeypatch.setattr(Objective, "__call__", plural)
    with pytest.raises(Death):
        cavity.fit(gaussian, X, Y, checkpoint=Dying(fitting.Checkpoint(tmp_path), [10]))
    assert len(calls) == 11  # the record of the last was cut
    kept = {"checkpoint": fitting.Checkpoint(tmp_path, resume=True)}
    result = cavity.fit(gaussian, X, Y, **kept)
    assert len(calls) == 1 + result.n_evaluations
    again = cavity.fit(gaussian, X, Y, **kept)
    assert len(calls) == 1 + result.n_evaluations
    assert_same(again, result)


@pytest.mark.slow
def test_sites_that_lag_behind_the_record(tmp_path, every):
    """The record is used as far as the sites go, and the rest is evaluated again."""
    options = {"max_iterations": 8}
    whole = cavity.fit(probit, X, LABELS, **options)
    every(4)
    for writes in (3, 9):
        store = Dying(fitting.Checkpoint(tmp_path, resume=True), [writes])
        with pytest.raises(Death):
            cavity.fit(probit, X, LABELS, checkpoint=store, **options)
    found = cavity.fit(
        *(probit, X, LABELS), checkpoint=fitting.Checkpoint(tmp_path, resume=True), **options
    )
    assert_same(found, whole)


def test_a_search_that_goes_another_way_is_computed(tmp_path):
    """As on a machine that rounds differently: what is recorded of other points is not used."""
    with pytest.raises(Death):
        cavity.fit(gaussian, X, Y, checkpoint=Dying(fitting.Checkpoint(tmp_path), [10]))
    journal = fitting.Checkpoint(tmp_path, resume=True).journal("001-journal")
    records = [np.frombuffer(journal.read()) for _ in range(10)]
    assert journal.read() is None
    journal.place = 0
    moved = records[5].copy()
    moved[2:] += 0.1
    for record in [*records[:5], moved, *records[6:]]:
        journal.write(record.tobytes())
    journal.close()
    found = cavity.fit(gaussian, X, Y, checkpoint=fitting.Checkpoint(tmp_path, resume=True))
    assert_same(found, cavity.fit(gaussian, X, Y))


def test_trials_of_several_starts(tmp_path, every):
    noisy = eqx.tree_at(lambda m: m.likelihood.variance, gaussian, 5.0)
    starts = [noisy, gaussian]
    whole = fit_best(starts, X, Y)
    every(1)
    found, deaths = lives(tmp_path, lambda store: fit_best(starts, X, Y, checkpoint=store), 7)
    assert deaths > 3
    assert_same(found, whole)


@pytest.mark.parametrize("where", ["callback", "function"])
def test_an_interrupt_leaves_what_can_go_on(where, tmp_path, monkeypatch):
    from cavity.learning.objectives.evidence import Objective

    evaluate, calls = Objective.__call__, []

    def stop(_):
        calls.append(None)
        if len(calls) == 5:
            raise KeyboardInterrupt

    def stopped(self, x):
        stop(x)
        return evaluate(self, x)

    if where == "function":
        monkeypatch.setattr(Objective, "__call__", stopped)
    options = {"callback": stop} if where == "callback" else {}
    kept = fitting.Checkpoint(tmp_path)
    first = cavity.fit(gaussian, X, Y, checkpoint=kept, **options)
    assert first.interrupted
    assert np.isfinite(first.log_evidence)
    monkeypatch.setattr(Objective, "__call__", evaluate)
    found = cavity.fit(gaussian, X, Y, checkpoint=fitting.Checkpoint(tmp_path, resume=True))
    assert_same(found, cavity.fit(gaussian, X, Y))


@pytest.mark.slow
@pytest.mark.parametrize("model", [gaussian, linear], ids=["gp", "linear"])
def test_chains_that_die_and_go_on(tmp_path, model):
    options = {"method": MCMC(draws=20, warmup=20, chains=2, keep=10), "power": 1.0}
    whole = cavity.fit(model, X, Y, **options)

    def fit(store):
        return cavity.fit(model, X, Y, checkpoint=store, **options)

    found, deaths = lives(tmp_path, fit, 3)
    assert deaths > 3
    for name, values in whole.chains.parameters.items():
        np.testing.assert_array_equal(found.chains.parameters[name], values)
    assert found.n_evaluations == whole.n_evaluations
    for one, other in zip(*map(jax.tree.leaves, (found.posterior, whole.posterior)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_states_take_a_small_share_of_the_time(tmp_path, monkeypatch):
    """Rarely, and more rarely where writing is slow."""
    now, written = [0.0], []
    monkeypatch.setattr(checkpoints.time, "perf_counter", lambda: now[0])

    def save(self, name, tree):
        now[0] += 0.5
        written.append(now[0])

    monkeypatch.setattr(fitting.Checkpoint, "save", save)
    search = checkpoints.Search(fitting.Checkpoint(tmp_path), "001")
    while now[0] < 500.0:
        now[0] += 0.1
        search.offer(dict)
    assert written[0] < 2.0
    assert 0.5 * len(written) <= 1.01 * checkpoints.SHARE * 500.0 + 0.5
    assert len(written) > 5


def test_what_is_no_checkpoint_is_refused():
    words = r"must be a cavity\.fitting\.Checkpoint, .* given 'folder'"
    with pytest.raises(TypeError, match=words):
        checkpoints.open_for("folder", gaussian, prepare(X, Y), PowerEP(), {})
