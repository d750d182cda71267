"""Estimators whose tables are worked on in parts, by engines that send these elsewhere."""

import inspect
import itertools
import pickle
import threading

import numpy as np
import pytest
from sklearn.base import clone

import cavity
from cavity.engines import AbstractEngine, EngineError, InProcess
from cavity.estimators import by_rows
from tests.estimators.problem import problem
from tests.learning.part_engines import TwoProcesses

pytestmark = pytest.mark.filterwarnings("ignore:not converged")
X, Y = problem(rows=90)
LABELS = np.where(Y > 0.0, "up", "down")
EDGES = (0, 30, 30, 71, 90)  # the second part is empty
SAMPLE = slice(0, 60)


class Piece:
    """Rows of the table from one to before another, outputs or labels."""

    def __init__(self, start, end, labels=False):
        self.rows, self.labels = slice(start, end), labels

    def __iter__(self):
        y = (LABELS == "up").astype(float) if self.labels else 1e3 * Y
        yield X[self.rows], y[self.rows]


class Travelling(AbstractEngine):
    """Sends everything by pickle, and works on the last part first; it cannot travel itself."""

    def __init__(self):
        self.names, self.lock = [], threading.Lock()

    def each(self, work, parts):
        for part in reversed(parts):
            self.names.append(part.name)
            there = pickle.loads(pickle.dumps((work, part)))
            yield part.index, pickle.loads(pickle.dumps(there[0](there[1])))


class Broken(AbstractEngine):
    def each(self, work, parts):
        raise EngineError("all workers are gone")


def pieces(*, labels=False):
    pairs = list(itertools.pairwise(EDGES))
    names = [f"{start}.csv" if start != end else "empty.csv" for start, end in pairs]
    return cavity.Parts([Piece(*pair, labels) for pair in pairs], names=names, size=32)


def regressor(engine=None, **settings):
    own = {"n_inducing": 7, "max_iterations": 2, "random_state": 0} | settings
    gp = cavity.GPRegressor(**own)
    return gp.fit(X[SAMPLE], 1e3 * Y[SAMPLE], batches=pieces(), engine=engine)


def classifier(engine=None):
    gp = cavity.GPClassifier(n_inducing=5, max_iterations=1, random_state=0)
    return gp.fit(X[SAMPLE], LABELS[SAMPLE], batches=pieces(labels=True), engine=engine)


@pytest.fixture(scope="module")
def fitted():
    return regressor()


@pytest.fixture(scope="module")
def labelled():
    return cavity.GPClassifier(n_inducing=5, max_iterations=0, random_state=0).fit(X, LABELS)


@pytest.fixture
def small(monkeypatch):
    """Parts of 40 rows, so that the last is a shorter one."""
    monkeypatch.setattr(by_rows, "ROWS", 40)


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def regressions(gp, engine=None):
    """Everything that a regressor says of each row."""
    return [
        *gp.predict(X, return_std=True, engine=engine),
        *gp.predict_latent(X, return_std=True, engine=engine),
        gp.predict(X, engine=engine),
        gp.predict_quantiles(X, [0.1, 0.9], engine=engine),
        gp.log_predictive_density(X, 1e3 * Y, engine=engine),
        gp.score(X, 1e3 * Y, engine=engine),
    ]


def classifications(gp, engine=None):
    """Everything that a classifier says of each row."""
    return [
        gp.predict(X, engine=engine),
        gp.predict(X, costs=[[0.0, 3.0], [1.0, 0.0]], engine=engine),
        gp.predict_proba(X, engine=engine),
        gp.predict_log_proba(X, engine=engine),
        gp.decision_function(X, engine=engine),
        gp.log_predictive_density(X, LABELS, engine=engine),
        gp.score(X, LABELS, engine=engine),
    ]


def test_a_fit_has_the_bits_of_this_process(fitted):
    engine = Travelling()
    elsewhere = regressor(engine)
    assert {"0.csv", "empty.csv", "30.csv", "71.csv"} == set(engine.names)
    assert elsewhere.log_evidence_ == fitted.log_evidence_
    assert elsewhere.n_rows_ == 90
    same(regressions(elsewhere), regressions(fitted))


@pytest.mark.slow
def test_parts_are_the_table_that_they_hold(fitted):
    """To what the order of sums makes of it; of batches in one part too."""
    whole = cavity.GPRegressor(n_inducing=7, max_iterations=2, random_state=0)
    whole.fit(X[SAMPLE], 1e3 * Y[SAMPLE], batches=[(X, 1e3 * Y)])
    assert whole.log_evidence_ == pytest.approx(fitted.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(whole.predict(X), fitted.predict(X), rtol=1e-6)


def test_predictions_of_rows_in_parts(fitted, small, monkeypatch):
    engine = Travelling()
    found = regressions(fitted, engine)
    assert engine.names[:3] == ["rows 81 to 90", "rows 41 to 80", "rows 1 to 40"]
    same(found, regressions(fitted))
    same(found, regressions(fitted, InProcess()))
    monkeypatch.setattr(by_rows, "ROWS", 1000)
    for ours, theirs in zip(found, regressions(fitted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.slow
def test_classes_of_rows_in_parts(labelled, small, monkeypatch):
    found = classifications(labelled, Travelling())
    assert set(found[0]) == {"up", "down"}
    same(found, classifications(labelled))
    monkeypatch.setattr(by_rows, "ROWS", 1000)
    same(found[:2], classifications(labelled)[:2])
    for ours, theirs in zip(found[2:], classifications(labelled)[2:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_side_data_go_with_their_rows(small, monkeypatch):
    noise = np.linspace(0.01, 2.0, 90)
    gp = cavity.GPRegressor(n_inducing=7, max_iterations=0, random_state=0, standardise=False)
    gp.fit(X, np.column_stack([Y, Y**2]), noise_variance=noise)
    said = {"noise_variance": noise, "engine": Travelling()}
    _, std = gp.predict(X, return_std=True, **said)
    density = gp.log_predictive_density(X, np.column_stack([Y, Y**2]), **said)
    monkeypatch.setattr(by_rows, "ROWS", 1000)
    function = gp.predict_latent(X, return_std=True)[1]
    np.testing.assert_allclose(std**2, function**2 + noise[:, None], rtol=1e-12)
    whole = gp.log_predictive_density(X, np.column_stack([Y, Y**2]), noise_variance=noise)
    np.testing.assert_allclose(density, whole, rtol=1e-12)
    with pytest.raises(ValueError, match="noise_variance"):
        gp.predict(X, return_std=True, noise_variance=noise[:50], engine=Travelling())


def test_engines_stay_out_of_estimators(fitted):
    """Scikit-learn copies settings, and files hold what was fitted."""
    elsewhere = regressor(Travelling(), max_iterations=0)
    assert "engine" not in inspect.signature(cavity.GPRegressor).parameters
    assert clone(elsewhere).get_params() == elsewhere.get_params()
    twin = pickle.loads(pickle.dumps(elsewhere))
    same(regressions(twin), regressions(elsewhere))


def test_an_engine_without_parts_is_refused():
    gps = (cavity.GPRegressor(n_inducing=5), Y), (cavity.GPClassifier(n_inducing=5), LABELS)
    for gp, y in gps:
        with pytest.raises(ValueError, match=r"rows in memory.*batches=cavity\.Parts"):
            gp.fit(X, y, engine=Travelling())


def test_covariances_of_an_engine_are_refused(fitted):
    for predict in (fitted.predict, fitted.predict_latent):
        with pytest.raises(ValueError, match="return_cov is of all pairs of rows"):
            predict(X, return_cov=True, engine=Travelling())


def test_what_an_engine_says_comes_through(fitted):
    for work in (lambda e: regressor(e), lambda e: fitted.predict(X, engine=e)):
        with pytest.raises(EngineError, match="all workers are gone"):
            work(Broken())


def test_what_is_wrong_in_a_part_is_said_with_its_name():
    names = ["good.csv", "bad.csv"]
    table = cavity.Parts([Piece(0, 30), [(X, Y.astype(str))]], names=names)
    gp = cavity.GPRegressor(n_inducing=5, random_state=0)
    with pytest.raises(TypeError, match=r"bad\.csv: batch 1.*y must hold"):
        gp.fit(X, Y, batches=table, engine=Travelling())
    with pytest.raises(TypeError, match="can be read only once"):
        gp.fit(X, Y, batches=iter([(X, Y)]))


@pytest.mark.slow
def test_two_processes_give_the_same_bits(fitted, labelled, small):
    engine = TwoProcesses()
    try:
        elsewhere, classes = regressor(engine), classifier(engine)
        found = regressions(fitted, engine), classifications(labelled, engine)
        table = cavity.Parts([Piece(0, 30), [(X, Y.astype(str))]], names=["a", "b"])
        with pytest.raises(TypeError, match=r"b: batch 1.*y must hold"):
            cavity.GPRegressor(n_inducing=5).fit(X, Y, batches=table, engine=engine)
    finally:
        engine.close()
    assert len(engine.numbers) == 2
    assert elsewhere.log_evidence_ == fitted.log_evidence_
    assert classes.log_evidence_ == classifier().log_evidence_
    assert list(classes.classes_) == ["down", "up"]
    same(found[0], regressions(fitted))
    same(found[1], classifications(labelled))
