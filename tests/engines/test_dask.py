"""The Dask engine on real worker processes: the bits of one process, whatever happens to them."""

import contextlib
import itertools
import os
import re
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.engines import Dask, EngineError, InProcess
from cavity.engines.cluster import Cluster
from cavity.engines.packed import packed, unpacked
from cavity.engines.workers import environment
from cavity.estimators import by_rows
from cavity.learning.engines.kept import Lost
from tests.engines.dask_parts import (
    Deadly,
    DeadlyLabels,
    Missing,
    OneOutput,
    Read,
    Uneven,
    folder,
    kept,
    process,
    rows,
    slowly,
)
from tests.learning.part_engines import N, Slice, table
from tests.learning.test_parts import BAD, EDGES, fitted, parts, same_bits

# Each is said by a process that Dask starts or ends, whatever its users do.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning:distributed"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning:asyncio"),
]
FOUR = (0, 60, 120, 180, N)
X, _ = table()


@pytest.fixture(scope="module")
def distributed():
    return pytest.importorskip("distributed", reason="the extra cavity[dask] is not installed")


@pytest.fixture(scope="module")
def cluster(distributed, tmp_path_factory):
    """Two worker processes, each with a folder of its own.

    One that is killed twice within 15 seconds would not be started again.
    """
    import dask

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    folder = str(tmp_path_factory.mktemp("workers"))
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        distributed.LocalCluster(n_workers=2, local_directory=folder, **options) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(distributed, cluster):
    with distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def engine(client):
    client.wait_for_workers(2, timeout=60)
    before = held(client)
    yield Dask(client)
    wait_until(lambda: held(client) <= before)


def held(client):
    """Tasks that the scheduler still knows."""
    return set(client.cluster.scheduler.tasks)


@contextlib.contextmanager
def without_workers(cluster):
    cluster.scale(0)
    wait_until(lambda: not cluster.scheduler.workers)
    yield


def wait_until(true, seconds=20.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def sliced(edges, special):
    """Parts between edges, of which some are special."""
    sources = [Slice(*pair) for pair in itertools.pairwise(edges)]
    return cavity.Parts([special.get(i, source) for i, source in enumerate(sources)], size=64)


def test_a_fit_has_the_bits_of_one_process(engine, monkeypatch):
    monkeypatch.setattr("cavity.engines.dask.LATE", 600.0)  # programs are compiled meanwhile
    here, there = fitted(parts()), fitted(parts(), engine=engine)
    assert there.history == here.history
    assert there.log_evidence == here.log_evidence
    assert same_bits(there.posterior, here.posterior)
    assert (engine.processes, engine.parts, engine.retries) == (2, len(EDGES) - 1, 0)
    options = {"power": 0.5, "missing": "skip"}
    ours = cavity.infer(here.model, parts(), engine=engine, **options)
    theirs = cavity.infer(here.model, parts(), **options)
    assert ours.log_evidence == theirs.log_evidence
    assert same_bits(ours.posterior, theirs.posterior)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:not converged")
def test_estimators_have_the_bits_of_one_process(engine, monkeypatch):
    monkeypatch.setattr(by_rows, "ROWS", 100)
    sources = [OneOutput(*pair) for pair in itertools.pairwise(FOUR)]
    gp = cavity.GPRegressor(n_inducing=6, max_iterations=2, random_state=0)
    sample = X[:60], table()[1][:60, 0]
    here = clone(gp).fit(*sample, batches=cavity.Parts(sources))
    there = gp.fit(*sample, batches=cavity.Parts(sources), engine=engine)
    assert there.log_evidence_ == here.log_evidence_
    assert engine.parts == 4
    found = there.predict(X, return_std=True, engine=engine)
    assert engine.parts == 3
    for ours, theirs in zip(found, here.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("at", [(), (4, 9)])
def test_sites_of_rows_have_the_bits_of_one_process(engine, tmp_path, at):
    """With probit, also where they are lost with a worker."""
    model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Bernoulli(), inducing.Points(X[::40]))

    def labels(name, at):
        pairs = enumerate(itertools.pairwise(FOUR))
        deadly = [DeadlyLabels(*pair, tmp_path / f"{name}{i}", at * (i == 2)) for i, pair in pairs]
        return cavity.Parts(deadly, size=64)

    here = cavity.infer(model, labels("here", ()), power=0.5)
    there = cavity.infer(model, labels("there", at), power=0.5, engine=engine)
    assert here.converged
    assert there.log_evidence == here.log_evidence
    assert engine.retries >= len(at) / 2


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit(engine, tmp_path):
    killed = fitted(sliced(FOUR, {2: Deadly(120, 180, tmp_path / "count", {3, 6})}), engine=engine)
    whole = fitted(sliced(FOUR, {}))
    assert killed.history == whole.history
    assert same_bits(killed.posterior, whole.posterior)
    assert engine.retries >= 2
    assert engine.processes > 2


@pytest.mark.slow
def test_a_part_that_kills_is_named(engine, cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    deadly = sliced(FOUR, {1: Deadly(60, 120, tmp_path / "count", range(99))})
    told = r"part 2 failed 2 times; the last time worker processes ended .* tcp://.* out of memory"
    with pytest.raises(EngineError, match=told):
        fitted(deadly, engine=Dask(engine.cluster.client, attempts=2))


@pytest.mark.slow
def test_errors_of_the_work_arrive_whole(engine):
    make, _ = BAD["values"]
    with pytest.raises(ValueError) as here:
        fitted(make())
    with pytest.raises(ValueError) as there:
        fitted(make(), engine=engine)
    assert (str(there.value), there.type) == (str(here.value), here.type)
    assert "Raised by the worker tcp://" in "".join(there.value.__notes__)


@pytest.mark.slow
def test_a_part_that_cannot_be_read_is_tried_elsewhere(engine):
    told = r"part 3 failed 3 times; the last time on the worker tcp://.*: .*nowhere.parquet"
    with pytest.raises(EngineError, match=told) as caught:
        fitted(sliced(FOUR, {2: Missing()}), engine=engine)
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    assert engine.retries == 3


@pytest.mark.slow
def test_workers_that_do_not_suit_are_refused(distributed):
    options = {"processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, **options) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(EngineError, match=r"the worker inproc://.* has 2 threads.*--nthreads 1"),
    ):
        fitted(parts(), engine=Dask(client))


def test_versions_must_be_the_same():
    here = environment()
    assert here.difference(here) == ""
    other = here._replace(jax="0.1")
    assert other.difference(here) == f"has jax 0.1, and the process of the fit {here.jax}"
    plain = here._replace(flags="")
    assert plain.difference(here._replace(flags="--a")).startswith("has XLA_FLAGS unset, and")


@pytest.mark.slow
def test_a_cluster_without_workers_is_named(distributed):
    options = {"processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=1, **options) as cluster,
        distributed.Client(cluster) as client,
        without_workers(cluster),
        pytest.raises(EngineError, match=r"has had no worker for 0\.2 seconds"),
    ):
        fitted(parts(), engine=Dask(client, patience=0.2))
    with pytest.raises(EngineError, match="its client was closed"):
        Dask(client).sum(process, SOME, np.add)


@pytest.mark.slow
def test_parts_stay_where_they_were(engine):
    """And large ones are sent once, pickled here and read there."""
    stealing = engine.cluster.client.cluster.scheduler.extensions["stealing"]
    engine.cluster.client.sync(stealing.stop)  # by which idle workers get parts of others
    first, second = ({i: int(p[0]) for i, p in engine.each(process, SOME)} for _ in range(2))
    engine.cluster.client.sync(stealing.start)
    assert first == second
    assert len(set(first.values())) == 2
    X = np.zeros((30_000, 1))
    large = cavity.Parts([[(X, X)], [(X[1:], X[1:])]]).parts
    assert [engine.sum(rows, large, np.add) for _ in range(2)] == [59_999] * 2
    sent = [engine.cluster.parts[index][1] for index in (0, 1)]
    assert [type(kept).__name__ for kept in sent] == ["Future"] * 2
    engine.cluster.parts.clear()


@pytest.mark.slow
def test_parts_with_sites_are_not_done_by_workers_without_them(engine):
    """One worker is idle soon, and would get parts of the other's."""
    eight = cavity.Parts([[] for _ in range(8)]).parts
    engine.sum(kept, eight, np.add)
    assert engine.sum(Read(0.6), eight, np.add) == [sum(range(8))]


@pytest.mark.slow
def test_a_slow_worker_loses_no_sites(engine, tmp_path):
    """The other does more of the first sweep, and of all that follow."""
    model = cavity.GP(kernels.RBF(1.0, 1.0), likelihoods.Bernoulli(), inducing.Points(X[::40]))
    edges = itertools.pairwise(range(0, N + 1, 20))
    table = cavity.Parts([Uneven(*pair, str(tmp_path / "first")) for pair in edges], size=64)
    (tmp_path / "first").write_text("nobody")
    here = cavity.infer(model, table, power=0.5)
    (tmp_path / "first").unlink()
    there = cavity.infer(model, table, power=0.5, engine=engine)
    assert there.log_evidence == here.log_evidence
    assert there.sites == here.sites
    assert engine.retries == 0


@pytest.mark.slow
@pytest.mark.parametrize(("late", "lost"), [(1.5, False), (0.1, True)])
def test_a_late_worker_with_sites_is_waited_for_once(engine, monkeypatch, late, lost):
    monkeypatch.setattr("cavity.engines.dask.LATE", late)
    monkeypatch.setattr("cavity.engines.dask.LOOK", 0.1)
    two = cavity.Parts([[], []]).parts
    engine.sum(kept, two, np.add)
    with pytest.raises(Lost) if lost else contextlib.nullcontext():
        assert engine.sum(Read(2.0), two, np.add) == [1.0]
    assert engine.retries >= 1


def test_a_worker_that_was_late_rests_for_a_while(monkeypatch):
    """Unless it has the sites of its parts, or all were late."""
    cluster, workers = Cluster(None), ("a", "b")
    cluster.places = dict.fromkeys(range(3), "a") | {3: "b"}
    cluster.late["a"] = time.monotonic()
    preferred = partial(cluster.preferred, SOME, workers)
    assert set(preferred(at_home=False).values()) == {"b"}
    assert preferred(at_home=True) == cluster.places
    assert cluster.awake(("a",)) == ("a",)
    monkeypatch.setattr("cavity.engines.cluster.REST", 0.0)
    assert sorted(preferred(at_home=False).values()) == ["a", "a", "b", "b"]


@pytest.mark.slow
def test_nothing_is_left_of_a_worker_that_is_killed(engine, cluster):
    (first,) = cavity.Parts([[]]).parts
    with pytest.warns(UserWarning, match="2 worker processes share 1 part, so that 1 of them"):
        place, worker = engine.sum(folder, [first], np.add)
    assert engine.sum(folder, [first], np.add)[0] == place  # said once
    assert Path(place).is_dir()
    assert Path(place).is_relative_to(cluster.workers[0].local_directory)
    os.kill(int(worker), signal.SIGKILL)
    wait_until(lambda: not Path(place).exists())


SOME = cavity.Parts([Slice(*pair) for pair in itertools.pairwise(FOUR)]).parts


@pytest.mark.slow
def test_results_that_do_not_come_together_come_one_by_one(engine, monkeypatch):
    def late(self, futures, seconds):
        raise TimeoutError

    monkeypatch.setattr(Cluster, "gathered", late)
    assert sorted(i for i, _ in engine.each(process, SOME)) == [0, 1, 2, 3]


def test_what_large_arrays_hold_travels_beside_the_pickle(distributed):
    """And comes back as it was, in the precision of the one who reads it."""
    large, small = ({"a": np.arange(size), "b": ""} for size in (4e4, 4e1))
    for tree, beside in ((large, 1), (small, 0)):
        sent = packed(tree)
        assert len(sent.contents) == beside
        assert sent.size == pytest.approx(tree["a"].nbytes, abs=1000)
        found = unpacked(sent)
        np.testing.assert_array_equal(found["a"], tree["a"])
        assert found["b"] == ""
    assert np.shares_memory(packed(large).contents[0], large["a"])


@pytest.mark.slow
def test_what_is_left_of_a_pass_is_cancelled(engine):
    before = held(engine.cluster.client)
    results = engine.each(slowly, SOME)
    next(results)
    results.close()
    wait_until(lambda: held(engine.cluster.client) <= before)
    assert sorted(i for i, _ in engine.each(process, SOME)) == [0, 1, 2, 3]


@pytest.mark.slow
def test_nothing_is_left_running(distributed):
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=1, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        worker = int(Dask(client).sum(process, SOME[:1], np.add)[0])
        assert worker != os.getpid()
        assert Path(f"/proc/{worker}").exists()
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


def test_misuse_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ImportError, match=re.escape('pip install "cavity[dask]"')):
        Dask(None)


def test_arguments_are_checked(distributed):
    with pytest.raises(TypeError, match="given InProcess"):
        Dask(InProcess())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "told"),
    [({"patience": 0.0}, "positive number of seconds"), ({"attempts": 0}, "of at least 1")],
)
def test_options_are_checked(client, option, told):
    with pytest.raises(ValueError, match=told):
        Dask(client, **option)
