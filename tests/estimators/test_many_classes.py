"""Classification of three classes and more, by the estimator and from the command line."""

import functools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, log_loss

import cavity
from cavity.estimators.decisions import align_costs
from tests.cli.conftest import here, run  # noqa: F401

pytestmark = [pytest.mark.x32, pytest.mark.filterwarnings("ignore:.*not converged")]

FAST = {"max_iterations": 0, "random_state": 0}  # the starting values are good enough here
NAMES = np.array(["ant", "bee", "cat"])


def three(rows=40, seed=0, names=NAMES):
    """Inputs (rows, 2) and labels in three regions, some of them wrong."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2.0, 2.0, (rows, 2))
    heights = np.stack([2.0 * X[:, 0], 2.0 * np.sin(2.0 * X[:, 1]), 0.5 - X[:, 0]], axis=1)
    return X, names[np.argmax(heights + 0.3 * random.standard_normal((rows, 3)), axis=1)]


X, Y = three()
NEW, TRUTH = three(25, seed=1)


@functools.cache
def fitted(**settings):
    return cavity.GPClassifier(**{**FAST, **settings}).fit(X, Y)


@pytest.mark.slow
def test_the_ways_to_predict_agree():
    model = fitted()
    np.testing.assert_array_equal(model.classes_, NAMES)
    assert type(model.likelihood_).__name__ == "MultinomialProbit"
    chance, log_chance = model.predict_proba(NEW), model.predict_log_proba(NEW)
    assert chance.shape == (25, 3)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.log(chance), log_chance, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.decision_function(NEW), log_chance)
    predicted = model.predict(NEW)
    np.testing.assert_array_equal(predicted, NAMES[np.argmax(chance, axis=1)])
    assert model.score(NEW, TRUTH) == accuracy_score(TRUTH, predicted) > 0.7
    density = model.log_predictive_density(NEW, TRUTH)
    index = np.searchsorted(NAMES, TRUTH)
    np.testing.assert_allclose(density, log_chance[np.arange(25), index])
    assert -density.mean() == pytest.approx(log_loss(TRUTH, chance), rel=1e-9)
    assert -density.mean() < 0.8 * np.log(3.0)
    mean, std = model.predict_latent(NEW, return_std=True)
    assert mean.shape == std.shape == (25, 3)
    assert np.mean(np.argmax(mean, axis=1) == np.argmax(chance, axis=1)) > 0.9


@pytest.mark.slow
def test_learning_is_worth_it():
    model = cavity.GPClassifier(max_iterations=8, random_state=0).fit(X, Y)
    assert model.log_evidence_ > fitted().log_evidence_ + 0.5
    assert model.score(NEW, TRUTH) > 0.7


LABELS = {
    "numbers": np.array([3, 7, 11]),
    "floats": np.array([-1.0, 0.0, 1.0]),
    "text out of order": np.array(["c", "a", "b"]),
}


@pytest.mark.parametrize("names", LABELS.values(), ids=LABELS)
def test_names_of_labels_change_nothing(names):
    """jylanki 47: but for the order of columns, which is that of the sorted labels."""
    labels = names[np.searchsorted(NAMES, Y)]
    model = cavity.GPClassifier(**FAST).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, np.sort(names))
    assert model.predict(NEW).dtype == names.dtype
    order = np.argsort(names)
    found = model.predict_proba(NEW)
    np.testing.assert_allclose(found, fitted().predict_proba(NEW)[:, order], atol=1e-7)


# ---------------------------------------------------------------------------------- costs


def test_costs():
    """A class that is never worth deciding for, and one that always is."""
    model = fitted()
    dear = np.ones((3, 3)) - np.eye(3)
    np.testing.assert_array_equal(model.predict(NEW, costs=dear), model.predict(NEW))
    dear[:, 1] = 10.0
    found = model.predict(NEW, costs=dear)
    assert "bee" in model.predict(NEW)
    assert "bee" not in found
    chance = model.predict_proba(NEW)
    np.testing.assert_array_equal(found, NAMES[np.argmin(chance @ dear, axis=1)])
    dear[:, 1] = -1.0
    assert set(model.predict(NEW, costs=dear)) == {"bee"}


@pytest.mark.parametrize(
    "costs", [np.zeros((2, 2)), np.zeros((3, 2)), np.zeros(3), np.full((3, 3), np.nan), 1.0]
)
def test_impossible_costs(costs):
    with pytest.raises(ValueError, match=r"costs must be finite numbers, \(3, 3\): a row for"):
        fitted().predict(NEW, costs=costs)


def frames(classes):
    """Costs, and frames of them in another order, by text, by position and of polars."""
    costs = np.array([[0.0, 9.0, 2.0], [1.0, 0.0, 5.0], [7.0, 3.0, 0.0]])
    rows, columns = [2, 0, 1], [1, 2, 0]
    frame = pd.DataFrame(costs, classes, classes)
    moved = frame.iloc[rows, columns]
    names = [str(c) for c in classes]
    text = pl.DataFrame({"true": names} | dict(zip(names, costs.T, strict=True)))
    return costs, {
        "in order": frame,
        "another order": moved,
        "columns alone": frame.iloc[:, columns],
        "text": moved.rename(columns=str),
        "unlabelled": pd.DataFrame(costs),
        "polars": text[rows].select("true", *(names[i] for i in columns)),
        "polars, unlabelled": pl.DataFrame(costs),
        "list": costs.tolist(),
    }


@pytest.mark.parametrize(
    "classes", [["ant", "bee", "cat"], [3, 7, 11], [0, 1, 2], [-1.0, 0.0, 1.0]]
)
@pytest.mark.parametrize("kind", frames(["a", "b", "c"])[1])
def test_costs_are_taken_by_their_labels(classes, kind):
    costs, given = frames(classes)
    np.testing.assert_array_equal(align_costs(given[kind], classes), costs)


def test_costs_in_another_order_decide_alike():
    model = fitted()
    costs, given = frames(NAMES.tolist())
    expected = model.predict(NEW, costs)
    moved = given["another order"]
    assert np.any(model.predict(NEW, moved.to_numpy()) != expected)
    np.testing.assert_array_equal(model.predict(NEW, moved), expected)


COSTS = np.ones((3, 3)) - np.eye(3)
MISLABELLED = {
    "a strange row": (pd.DataFrame(COSTS, ["ant", "bee", "dog"], NAMES), "rows .*'dog'"),
    "a strange column": (pd.DataFrame(COSTS, NAMES, ["ant", "dog", "bee"]), "columns .*'dog'"),
    "twice": (pd.DataFrame(COSTS, NAMES, ["ant", "ant", "bee"]), "columns .*'ant', 'ant', 'bee'"),
    "rows without labels": (pd.DataFrame(COSTS, columns=NAMES), "rows .*they are 0, 1, 2"),
    "a class too few": (
        pd.DataFrame(COSTS[:2], NAMES[:2], NAMES),
        "rows .*they are 'ant', 'bee'.",
    ),
    "polars without rows": (pl.DataFrame(COSTS, NAMES.tolist()), "rows .*they are 0.0, 1.0, 1.0"),
}


@pytest.mark.parametrize(("costs", "message"), MISLABELLED.values(), ids=MISLABELLED)
def test_costs_of_other_classes(costs, message):
    with pytest.raises(ValueError, match=message) as caught:
        fitted().predict(NEW, costs)
    assert "the classes, each of them once: 'ant', 'bee', 'cat'" in str(caught.value)


def test_a_frame_of_costs_that_are_no_numbers():
    costs = pd.DataFrame([["0", "much", "1"]] * 3, NAMES, NAMES)
    for given in (costs, pd.DataFrame(np.zeros((2, 2)))):
        with pytest.raises(ValueError, match="costs must be finite numbers"):
            fitted().predict(NEW, given)


# --------------------------------------------------------------- likelihoods and methods

WAYS = {
    "probit": ({"likelihood": "probit"}, "MultinomialProbit"),
    "softmax, Laplace": ({"likelihood": "softmax", "method": "laplace"}, "Softmax"),
    "softmax": ({"likelihood": "softmax", "power": 1.0}, "Softmax"),
    "logit": ({"likelihood": "logit", "method": "laplace"}, "Softmax"),
    "robust": ({"likelihood": "robust_max", "power": 1.0}, "RobustMax"),
    "object": ({"likelihood": cavity.likelihoods.MultinomialProbit(3)}, "MultinomialProbit"),
    "factorised": ({"method": cavity.PowerEP(coupled=False), "power": 1.0}, "MultinomialProbit"),
    "points": ({"n_inducing": 8}, "MultinomialProbit"),
    "all points": ({"n_inducing": 500}, "MultinomialProbit"),
    "variational": ({"n_inducing": 8, "power": 0.0}, "MultinomialProbit"),
}
LONG = {"softmax", "softmax, Laplace", "robust", "factorised", "all points", "variational"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "way", [pytest.param(w, marks=pytest.mark.slow) if w in LONG else w for w in WAYS]
)
def test_ways_to_learn(way):
    settings, kind = WAYS[way]
    model = cavity.GPClassifier(**FAST, **settings).fit(X, Y)
    assert type(model.likelihood_).__name__ == kind
    assert model.likelihood_.classes == 3
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0, rtol=1e-9)
    assert model.score(NEW, TRUTH) > 0.7
    agreement = np.mean(model.predict(NEW) == fitted().predict(NEW))
    assert agreement > 0.8
    assert np.isfinite(model.log_evidence_)
    if "n_inducing" in settings:
        assert model.inducing_.Z.shape == (min(settings["n_inducing"], len(X)), 2)
    else:
        assert model.inducing_ is None


@pytest.mark.slow
def test_points_at_all_rows_are_the_full_gp():
    full, sparse = fitted(), fitted(n_inducing=500)
    assert sparse.log_evidence_ == pytest.approx(full.log_evidence_, abs=1e-4)
    found = sparse.predict_proba(NEW)
    np.testing.assert_allclose(found, full.predict_proba(NEW), atol=1e-5)


@pytest.mark.slow
def test_tied_factors():
    method = cavity.TiedPowerEP(max_sweeps=60)
    settings = {"likelihood": "softmax", "n_inducing": 8, "max_iterations": 60}
    model = cavity.GPClassifier(method=method, random_state=0, **settings).fit(X, Y)
    assert model.score(NEW, TRUTH) > 0.6
    named = cavity.GPClassifier(method="tied", **{**settings, "max_iterations": 2})
    with pytest.warns(ConvergenceWarning):
        named.fit(X, Y)
    np.testing.assert_allclose(named.predict_proba(NEW).sum(axis=1), 1.0, rtol=1e-9)


REFUSED = {
    "regression": ({"likelihood": "gaussian"}, "'gaussian' is for regression"),
    "binary": ({"likelihood": cavity.likelihoods.Bernoulli()}, "has 2 classes, the labels have 3"),
    "four": ({"likelihood": cavity.likelihoods.Softmax(4)}, "has 4 classes, the labels have 3"),
    "laplace": ({"method": "laplace"}, r'has 3: use PowerEP\(\), or likelihood="softmax"$'),
    "mean field": (
        {"method": "mean_field", "likelihood": "robust_max"},
        'one of the likelihoods "multinomial_probit", "softmax"$',
    ),
    "sparse laplace": (
        {"method": "laplace", "likelihood": "softmax", "n_inducing": 8},
        "the method 'laplace' is for the full GP",
    ),
    "batches": ({"method": cavity.PowerEP(batch=5)}, "coupled classes move in parallel sweeps"),
    "name": (
        {"likelihood": "softmaxx"},
        "likelihood must be one of .*'softmax'.*given 'softmaxx'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_settings_that_are_refused(case):
    settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        cavity.GPClassifier(**settings, **FAST).fit(X, Y)


# -------------------------------------------------------------------------- hard tables


@pytest.mark.slow
def test_a_class_with_one_row():
    labels = np.where(np.arange(len(Y)) == 7, "dog", Y)
    model = cavity.GPClassifier(**FAST).fit(X, labels)
    assert list(model.classes_) == ["ant", "bee", "cat", "dog"]
    chance = model.predict_proba(np.vstack([X[7], NEW]))
    assert chance.shape == (26, 4)
    assert chance[0, 3] > np.median(chance[1:, 3]) > 0.0
    assert chance[1:, 3].mean() < 0.15


def test_a_class_unseen_in_the_test_table():
    model = fitted()
    kept = TRUTH != "cat"
    assert 0 < kept.sum() < 25
    expected = accuracy_score(TRUTH[kept], model.predict(NEW[kept]))
    assert model.score(NEW[kept], TRUTH[kept]) == expected
    assert model.predict_proba(NEW[kept]).shape == (kept.sum(), 3)
    with pytest.raises(
        ValueError, match=r"1 label that was not there .*'dog'.*classes are 'ant', 'bee', 'cat'"
    ):
        model.score(NEW, np.where(np.arange(25) == 3, "dog", TRUTH))


@pytest.mark.slow
def test_two_of_three_classes_are_binary():
    """Where one of three classes has no row there are two, as if there had never been three."""
    kept = Y != "cat"
    model = cavity.GPClassifier(**FAST).fit(X[kept], Y[kept])
    assert type(model.likelihood_).__name__ == "Bernoulli"
    assert list(model.classes_) == ["ant", "bee"]
    assert model.decision_function(NEW).shape == (25,)
    assert model.predict_proba(NEW).shape == (25, 2)


@pytest.mark.slow
def test_two_classes_with_a_function_each():
    """A likelihood of classes is taken at its word."""
    kept = Y != "cat"
    likelihood = cavity.likelihoods.MultinomialProbit(2)
    model = cavity.GPClassifier(likelihood=likelihood, **FAST).fit(X[kept], Y[kept])
    assert model.predict_latent(NEW).shape == (25, 2)
    assert model.decision_function(NEW).shape == (25,)
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X[kept], Y[kept]) > 0.8


@pytest.mark.slow
def test_thirty_classes():
    random = np.random.default_rng(3)
    inputs = random.uniform(0.0, 30.0, (60, 1))
    labels = np.floor(inputs[:, 0]).astype(int)
    labels[:30], inputs[:30, 0] = np.arange(30), np.arange(30) + 0.5
    model = cavity.GPClassifier(max_iterations=1, random_state=0).fit(inputs, labels)
    chance = model.predict_proba(inputs)
    assert chance.shape == (60, 30)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-9)
    assert np.all(np.isfinite(model.predict_log_proba([[1e4], [-1e4]])))


# --------------------------------------------------------------------- files and commands


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"n_inducing": 8}], ids=["full", "sparse"])
def test_pickling(settings):
    model = fitted(**settings)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(NEW), model.predict_proba(NEW))
    np.testing.assert_array_equal(copy.predict(NEW), model.predict(NEW))
    assert copy.predict_proba(NEW).dtype == np.float64


def write_tables():
    for name, (inputs, labels) in {"train": (X, Y), "test": (NEW, TRUTH)}.items():
        columns = {"wide": inputs[:, 0], "high": inputs[:, 1], "kind": labels}
        pl.DataFrame(columns).write_csv(f"{name}.csv")


@pytest.mark.parametrize(
    "options",
    [(), pytest.param(("--inducing", 8), marks=pytest.mark.slow)],
    ids=["full", "sparse"],
)
def test_commands(here, options):  # noqa: F811
    """Fitted, shown, used, judged and reported on, with the numbers of the estimator."""
    write_tables()
    common = ("--target", "kind", "--out", "m.cavity", "--max-iterations", 2, "--json")
    done = run("fit", "train.csv", *common, "--test", "test.csv", *options)
    assert done.code == 0, done.err
    assert done.json["task"] == "classification"
    assert done.json["classes"] == ["ant", "bee", "cat"]
    settings = {"n_inducing": options[1]} if options else {}
    model = cavity.GPClassifier(max_iterations=2, random_state=0, **settings).fit(X, Y)
    assert done.json["log_evidence"] == pytest.approx(model.log_evidence_, abs=1e-9)

    text = run("show", "m.cavity").out
    assert "classification of kind: ant, bee, cat" in text
    assert "mean.0.value[ant] " in text
    assert "mean.2.value[cat] " in text
    used = run("predict", "m.cavity", "test.csv", "--out", "p.csv", "--density", "--json")
    names = ["label", *(f"probability_{name}" for name in NAMES), "log_density"]
    assert used.json["columns"] == names
    written = pl.read_csv("p.csv")
    chance = written.select(names[1:4]).to_numpy()
    np.testing.assert_allclose(chance, model.predict_proba(NEW), rtol=1e-9)
    np.testing.assert_array_equal(written["label"].to_numpy(), NAMES[np.argmax(chance, axis=1)])

    judged = run("evaluate", "m.cavity", "test.csv", "--json")
    found = judged.json["metrics"]
    assert found == done.json["test"]
    assert found["error"] == pytest.approx(1.0 - model.score(NEW, TRUTH))
    assert found["nlpp"] == pytest.approx(log_loss(TRUTH, chance))

    shown = run("report", "m.cavity", "test.csv", "--out", "r.html")
    assert shown.code == 0, shown.err
    page = (here / "r.html").read_text()
    assert all(name in page for name in NAMES)
    assert '<code>mean.1.value</code></th><td class="name">bee</td>' in page
