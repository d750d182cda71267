"""Runs: stages are counted, joined, kept in their places, and left where they are interrupted."""

import numpy as np
import pytest

from cavity.learning.optimisers.lbfgs import INTERRUPTED
from cavity.learning.run.stages import Interrupted
from tests.learning.staged import FAILED, MODEL, STOPPED, result, run_of, stopped


def test_a_stage_counts_joins_and_leaves_where_it_is_interrupted():
    run, table = run_of({"one": result(3.0), "two": [result(1.0), STOPPED, stopped(2.0)]}, seed=7)
    first = run.stage("one", MODEL, budget=4)
    second = run.stage("two", MODEL, after=first, sites=((None,),), seed=8)
    assert (second.n_evaluations, second.history, second.n_iterations) == (10, (3.0, 1.0), 2)
    given = [each.options for each in table.asked]
    assert [each.get("max_iterations") for each in given] == [4, None]
    assert [each["seed"] for each in given] == [7, 8]
    assert given[1]["sites"] == ((None,),)
    with pytest.raises(Interrupted) as left:
        run.stage("two", MODEL, beside=[second, first])
    assert left.value.best.objective == 1.0
    assert left.value.best.interrupted
    with pytest.raises(Interrupted) as left:
        run.stage("two", MODEL, after=first, ended=lambda best: ("ended", best.objective))
    assert left.value.best == ("ended", 2.0)


def test_an_interrupt_before_there_is_anything_is_one_of_the_keyboard():
    run, _ = run_of({"one": STOPPED})
    with pytest.raises(KeyboardInterrupt):
        run.stage("one", MODEL)


def test_what_fails_after_an_interrupt_is_no_failure_of_the_stage():
    """A result that cannot be made leaves the interrupt, and the plan does not go on."""

    def fails(best):
        raise FAILED

    run, table = run_of({"one": stopped(1.0), "two": result(1.0)})
    with pytest.raises(KeyboardInterrupt):
        run.try_stage("one", MODEL, ended=fails)
    with pytest.raises(KeyboardInterrupt):
        run.try_follow("", lambda part: part.stage("one", MODEL), ended=fails)
    assert table.names == ["one", "one"]


def test_a_stage_that_is_interrupted_keeps_what_it_said():
    found = stopped(1.0).saying("a noise at its bound")
    assert found.stopped().message == found.message
    assert result(1.0, message="settled").stopped().message == INTERRUPTED
    assert found.stopped("as it was").message == "as it was"


def test_parts_count_for_the_whole_and_keep_to_their_own_place():
    run, table = run_of({"one": result(), "inner/one": result(), "inner": result(2.0)})
    run.stage("one", MODEL)
    found = run.follow("inner", lambda part: part.best([part.stage("one", MODEL)]))
    assert found.n_evaluations == 10
    assert (
        run.follow("inner", lambda part: part.stage("", MODEL)).objective == 2.0
    )  # its own place
    assert table.names == ["one", "inner/one", "inner"]


def test_rows_go_with_what_belongs_to_them():
    run, _ = run_of(
        {}, np.arange(4.0)[:, None], np.arange(4.0), power=np.arange(4), rows={"s": np.arange(4)}
    )
    some = run.subset(np.array([1, 3]))
    assert some.X.ravel().tolist() == some.y.tolist() == [1.0, 3.0]
    assert some.options["power"].tolist() == some.options["rows"]["s"].tolist() == [1, 3]
