"""What is shown of a fit, told to the logger, and left out of files."""

import logging
import warnings

import numpy as np
import pytest
from rich.console import Console
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import cavity
from cavity.estimators import shown
from cavity.learning.optimisers.lbfgs import Progress

X = np.linspace(0.0, 1.0, 8)[:, None]
Y = np.sin(6.0 * X[:, 0])


def fitted(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cavity.GPRegressor(max_iterations=3, **settings).fit(X, Y)


@pytest.fixture(scope="module")
def quiet():
    return fitted()


def test_progress_is_on_standard_error_and_changes_nothing(quiet, capsys):
    told = fitted(verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("GPRegressor: 3 iterations, ")
    assert err.endswith(" nats\n")
    assert told.log_evidence_ == quiet.log_evidence_
    assert fitted(verbose=False).log_evidence_ == quiet.log_evidence_
    assert capsys.readouterr() == ("", "")


def test_a_moving_line_in_a_terminal(capsys, monkeypatch):
    """Rich is told that standard error is a terminal."""
    monkeypatch.setattr(Console, "is_terminal", True)
    seen = []
    with shown._display("GPRegressor") as show:
        for iteration in (1, 2):
            step = Progress(iteration, iteration, -4.5, 0.1, 10)
            show(f"iteration {iteration}", step)
            seen.append(iteration)
    out, err = capsys.readouterr()
    assert out == ""
    assert "GPRegressor: iteration 2" in err


def test_lines_come_every_few_seconds_where_nothing_can_move(capsys, monkeypatch):
    monkeypatch.setattr(shown, "BETWEEN_LINES", 0.0)
    with shown._display("GPRegressor") as show:
        show("iteration 1 [0]", Progress(1, 1, -4.5, 0.1, 10))
    assert capsys.readouterr().err == "GPRegressor: iteration 1 [0]\n"


def test_the_callback_is_called_as_well(capsys):
    steps = []
    estimator = cavity.GPRegressor(max_iterations=3, verbose=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, Y, callback=steps.append)
    assert [step.iteration for step in steps] == [1, 2, 3]


def test_stages_are_told_apart():
    so_far = shown._SoFar("GPRegressor")
    texts = [so_far.after(Progress(i, i, -4.5, 0.1, 10)) for i in (1, 2, 1)]
    assert texts[1] == "iteration 2, objective -4.5 nats"
    assert texts[2] == "stage 2, iteration 1, objective -4.5 nats"
    assert "3 iterations in 2 stages" in so_far.summary
    assert "without iterations" in shown._SoFar("GPRegressor").summary


def test_the_logger_is_told(caplog):
    with caplog.at_level(logging.DEBUG, "cavity"), pytest.warns(ConvergenceWarning):
        cavity.GPRegressor(max_iterations=2).fit(X, Y)
    told = {(r.levelname, r.getMessage().partition(",")[0]) for r in caplog.records}
    assert ("DEBUG", "GPRegressor: iteration 1") in told
    assert ("INFO", "GPRegressor: 2 iterations") in told
    assert any(level == "WARNING" and text.startswith("not converged") for level, text in told)


def test_a_library_hears_nothing_without_handlers(capsys):
    """And can silence the logger."""
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("cavity").handlers)
    fitted()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verbose", [2, -1, "yes", None, 0.5])
def test_other_values_are_refused(verbose):
    with pytest.raises(ValueError, match="verbose is 1 to show progress, or 0 for nothing, given"):
        fitted(verbose=verbose)


def test_it_is_no_setting_of_files(tmp_path):
    estimator = fitted(verbose=1)
    assert clone(estimator).verbose == 1
    estimator.save(tmp_path / "m.cavity")
    assert "verbose" not in estimator.kept().settings
    assert cavity.load(tmp_path / "m.cavity").verbose == 0


def test_forecasters_are_watched_too(capsys, monkeypatch):
    class Stopped(Exception):
        pass

    def learned(forecaster, data, callback, checkpoint, *, seed):
        callback(Progress(1, 1, -4.5, 0.1, 10))
        raise Stopped

    monkeypatch.setattr("cavity.estimators.forecaster.learned", learned)
    monkeypatch.setattr(shown, "BETWEEN_LINES", 0.0)
    with pytest.raises(Stopped):
        cavity.GPForecaster(verbose=1).fit(np.sin(np.arange(9.0)))
    assert capsys.readouterr().err == "GPForecaster: iteration 1, objective -4.5 nats\n"


def test_every_estimator_takes_it():
    named = [getattr(cavity, name) for name in dir(cavity)]
    estimators = [one for one in named if hasattr(one, "get_params")]
    assert len(estimators) > 10
    for estimator in estimators:
        assert estimator().get_params()["verbose"] == 0
        assert "        verbose: 1 to show" in (estimator.__doc__ or "")
