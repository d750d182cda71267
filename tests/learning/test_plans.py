"""Plans: which stages follow which, and what is kept, with answers in the place of fits."""

import ast
import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import cavity
from cavity.inference.solvers.convergence import ConvergenceReport
from cavity.learning import plans
from cavity.learning.infer import NumericalError
from cavity.learning.initialisation.deep import HiddenStart
from cavity.learning.plans import deep, growth, latent, state_space
from cavity.learning.plans.images import compare_kernels
from cavity.learning.plans.latent import latent_plan
from cavity.learning.plans.linear import linear_plan
from cavity.learning.plans.network import network_plan
from cavity.learning.plans.powers import best_power
from cavity.learning.plans.state_space import state_space_plan
from cavity.learning.plans.trials import ALONG, TRIAL, best_of
from cavity.parameters import bijections
from tests.learning.staged import FAILED, MODEL, STOPPED, result, run_of, stopped

SPARSE = cavity.GP(
    cavity.kernels.RBF(1.0, [1.0]),
    cavity.likelihoods.Gaussian(0.1),
    cavity.inducing.Points(np.zeros((1, 1))),
)
OTHER = cavity.GP(cavity.kernels.RBF(2.0, [1.0]), cavity.likelihoods.Gaussian(0.1))


def test_plans_leave_to_the_run_what_is_the_runs():
    """They catch nothing, and functions of a run name no checkpoint."""
    for path in Path(plans.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not isinstance(node, ast.Try), path
            if isinstance(node, ast.FunctionDef) and "run" in [a.arg for a in node.args.args]:
                names = {ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Name)}
                assert not names & {"checkpoint", "KeyboardInterrupt", "NumericalError"}, path


# ------------------------------------------------------------------- the best of several


def test_the_best_trial_goes_on_and_failures_are_passed_over():
    run, table = run_of(
        {"start-1": FAILED, "start-2": result(5.0), "start-3": result(4.0), "best": result(1.0)}
    )
    found = best_of(run, [OTHER, OTHER, MODEL], budget=100)
    assert table.names == ["start-1", "start-2", "start-3", "best"]
    assert [each.options["max_iterations"] for each in table.asked] == [TRIAL] * 3 + [100]
    assert found.objective == 1.0
    assert found.trials == (5.0, 4.0)
    assert (found.history, found.n_evaluations) == ((4.0, 1.0), 15)


def test_each_start_has_its_own_sites_and_short_fits_are_of_the_first():
    first, second = ((None,),), ((None, None),)
    run, table = run_of({"start-1": FAILED, "start-2": FAILED, "": FAILED})
    for budget in (100, TRIAL):
        with pytest.raises(NumericalError, match="not finite"):
            best_of(run, [MODEL, OTHER], budget=budget, sites=(first, second))
    assert [each.options["sites"] for each in table.asked] == [first, second, first]
    assert [each.model is MODEL for each in table.asked] == [True, False, True]


def test_where_the_start_along_the_power_leads_another_is_learned_as_well():
    answers = {
        "start-1": result(9.0),
        "power-1": result(10.0, model=OTHER),
        "start-power-1": result(5.0),
        "best": result(4.0),
        "usual": result(3.0),
    }
    run, table = run_of(answers, power=0.0)
    assert best_of(run, [SPARSE], budget=100).objective == 3.0
    assert table.names == list(answers)
    asked = {each.name: each.options for each in table.asked}
    assert asked["power-1"]["power"] == 1.0
    assert asked["power-1"]["max_iterations"] == ALONG
    assert asked["start-power-1"]["power"] == 0.0
    run, table = run_of(answers | {"start-power-1": result(10.0)}, power=0.0)
    assert best_of(run, [SPARSE], budget=100).objective == 4.0
    assert "usual" not in table.names


def test_an_interrupt_at_power_1_where_nothing_else_could_be_learned_is_one_of_the_keyboard():
    run, _ = run_of({"start-1": FAILED, "power-1": stopped(-50.0)}, power=0.0)
    with pytest.raises(KeyboardInterrupt):
        best_of(run, [SPARSE], budget=100)


def test_an_interrupt_at_power_1_gives_the_best_at_the_power_asked_for():
    run, _ = run_of({"start-1": result(9.0), "power-1": stopped(-50.0)}, power=0.0)
    found = run.carry_out(lambda run: best_of(run, [SPARSE], budget=100))
    assert (found.objective, found.interrupted) == (9.0, True)


# ----------------------------------------------------------------------------- powers


def test_the_power_with_clearly_more_density_is_chosen():
    run, table = run_of(
        {
            "power-1": result(1.0, densities=(0.5,) * 2),
            "power-0.5": FAILED,
            "power-0": result(2.0, densities=(-0.5,) * 2),
            "power-0.5/start-1": FAILED,
            "power-0.5/start-2": FAILED,
            "power-0/start-1": result(3.0),
            "power-0/start-2": result(3.0),
            "power-0/best": result(2.0, densities=(-0.5,) * 2),
        }
    )
    counts = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), cavity.likelihoods.Poisson())
    found = best_power(run, [counts], budget=100)
    assert [trial.power for trial in found.trials] == [1.0, 0.0]
    assert found.power == 1.0
    assert found.result.objective == 1.0
    assert found.result.n_evaluations == 20
    assert table.names[0] == "power-1"
    assert [each.options["power"] for each in table.asked if each.name[:7] == "power-0"][-1] == 0.0


def test_an_interrupt_keeps_the_powers_so_far():
    counts = cavity.GP(cavity.kernels.RBF(1.0, [1.0]), cavity.likelihoods.Poisson())
    answers = {"power-1": result(1.0, densities=(0.5,) * 2), "power-0.5/start-1": STOPPED}
    run, _ = run_of(answers)
    found = run.carry_out(lambda run: best_power(run, [counts], budget=100))
    assert [trial.power for trial in found.trials] == [1.0]
    assert found.result.interrupted


# ----------------------------------------------------------------------------- points


def test_points_grow_while_they_bring_something(monkeypatch):
    """With verdicts in place of brackets: ten points, then twenty, which the cap ends."""
    X = np.random.default_rng(0).uniform(-3.0, 3.0, (60, 1))
    y = np.sin(X[:, 0])
    verdict = growth.Judgement(True, False, 0.01, None, "enough", np.array([60]))
    monkeypatch.setattr(growth, "judge", lambda run, model, step: verdict._replace(step=step))

    def fitted(count, density):
        points = cavity.inducing.Points(X[:count])
        model = cavity.GP(cavity.kernels.RBF(1.0, [0.4]), cavity.likelihoods.Gaussian(0.1), points)
        return result(-density, model=model, densities=(density,) * 60)

    start = fitted(5, 0.0).model
    answers: dict[str, Any] = {"points-5": fitted(5, 0.0), "points-10": fitted(10, 1.0)}
    answers |= {"points-20": fitted(20, 1.001)}
    how: dict[str, Any] = {"bijections": bijections(start), "budget": 10}
    for most, names in ((1_000, 3), (10, 2)):
        run, table = run_of(answers, X, y, power=1.0, seed=0)
        found = growth.grow(run, [start], most=most, **how)
        assert table.names == list(answers)[:names]
        assert found.model.inducing.size == (20 if names == 3 else 10)
        assert found.judgement.step is not None
    answers["points-10"] = STOPPED
    run, _ = run_of(answers, X, y, power=1.0, seed=0)
    found = run.carry_out(lambda run: growth.grow(run, [start], **how))
    assert found.result.interrupted
    assert found.judgement.step is None
    how |= {"most": 1_000, "choose_power": False}
    run, _ = run_of(answers, X, y, power=1.0, seed=0)
    whole = run.carry_out(lambda run: growth.with_enough_points(run, [start], **how))
    assert whole.result.interrupted
    assert (whole.judgement, whole.trials) == (found.judgement, None)


# ------------------------------------------------------------------------- deep models


@pytest.fixture
def hidden(monkeypatch):
    """A start of deep models of which nothing is computed."""
    layer = cavity.Layer(SPARSE.kernel, SPARSE.inducing)
    begun = cavity.DeepGP([layer], SPARSE.likelihood), ((jnp.zeros(1),),)
    monkeypatch.setattr(deep, "deepen", lambda *_: begun)
    monkeypatch.setattr(deep, "at_rest", lambda *_: begun)
    monkeypatch.setattr(deep, "noise_floor", lambda *_: None)
    return HiddenStart((), (np.zeros((2, 1)),))


def of_deep(answers, hidden, budget=100, start=SPARSE):
    method = cavity.TiedPowerEP(batch=2, max_sweeps=1000)
    posterior = SimpleNamespace(process=None)
    single = {"sparse/start-1": result(9.0), "sparse/best": result(2.0, posterior=posterior)}
    run, table = run_of(single | answers, power=1.0)
    settings: dict[str, Any] = {"method": method, "budget": budget}
    settings["starts"] = [start, start]
    single["sparse/start-2"] = result(9.0)
    table.answers |= single
    found = run.carry_out(lambda run: deep.deep_plan(run, hidden=hidden, **settings))
    return found, table


def test_a_deep_fit_above_its_sparse_gp_is_kept(hidden):
    steps = result(1.5, history=tuple(np.linspace(9.0, 1.5, 40)))
    found, table = of_deep({"deep": steps, "deep-end": result(1.0)}, hidden)
    assert table.names[-2:] == ["deep", "deep-end"]
    assert found.objective == 1.0
    assert found.message.startswith("40 steps of Adam, 1 of L-BFGS-B: the objective")
    assert len(found.history) == 41


def test_a_deep_fit_below_its_sparse_gp_is_made_again_and_ends_at_its_start(hidden):
    answers = {
        "deep": result(5.0),
        "deep-end": FAILED,
        "deep-again": result(4.0, history=(9.0, 4.0)),
        "deep-again-end": FAILED,
        "deep-start": result(2.5, history=(1.0,) * 9),
    }
    found, table = of_deep(answers, hidden)
    assert table.names[-5:] == list(answers)
    rates = {each.name: each.options["method"].learning_rate for each in table.asked[-5:]}
    assert rates["deep-again"] == 0.25 * rates["deep"]
    assert not found.converged
    assert (found.objective, found.history) == (2.5, (9.0, 4.0))
    assert "this is its start" in found.message
    found, table = of_deep(answers | {"deep-again": result(1.0)}, hidden)
    assert (found.objective, table.names[-1]) == (1.0, "deep-again-end")


def test_a_sparse_gp_of_some_rows_is_compared_row_by_row(hidden, monkeypatch):
    """It has -2 nats for its one row, and the deep model -3.5 for both."""
    monkeypatch.setattr(deep, "SETTINGS", dataclasses.replace(deep.SETTINGS, rows=1))
    labels = cavity.GP(SPARSE.kernel, cavity.likelihoods.Bernoulli(), SPARSE.inducing)
    found, table = of_deep({"deep": result(9.0), "deep-end": result(3.5)}, hidden, start=labels)
    assert table.names[-2:] == ["deep", "deep-end"]
    assert found.objective == 3.5


def test_an_interrupted_sparse_gp_becomes_a_deep_model_all_the_same(hidden):
    posterior = SimpleNamespace(process=None)
    answers = {"sparse/start-1": stopped(7.0, posterior=posterior), "deep": result(6.0)}
    method = cavity.TiedPowerEP(batch=2)
    run, table = run_of(answers, power=1.0)
    how: dict[str, Any] = {"method": method, "budget": 100}
    found = run.carry_out(lambda run: deep.deep_plan(run, [SPARSE, SPARSE], hidden, **how))
    assert table.names == ["sparse/start-1", "deep"]
    assert table.asked[-1].options["max_iterations"] == 0
    assert (found.objective, found.interrupted) == (6.0, True)


# ------------------------------------------------------- latent inputs, states, networks


def test_latent_inputs_go_on_by_the_method_itself(monkeypatch):
    monkeypatch.setattr(latent, "_next_sites", lambda *_: (("sites",),))
    first, method = cavity.PowerEP(), cavity.TiedPowerEP(batch=2)
    Y = np.zeros((5, 2))
    for budget, names in ((100, ["start-1", "start-2", "best", "last"]), (0, ["", "last"])):
        answers = dict.fromkeys(names, result(1.0)) | {"last": result(0.5)}
        run, table = run_of(answers, None, Y)
        how: dict[str, Any] = {"method": method, "first": first, "some": Y[:3], "budget": budget}
        assert latent_plan(run, [MODEL, OTHER], **how).objective == 0.5
        assert table.names == names
        assert table.asked[-1].options["method"] is method
        assert table.asked[-1].options["sites"] == (("sites",),)
    run, table = run_of({"start-1": stopped(3.0), "last": result(2.0)}, None, Y)
    how = {"method": method, "first": first, "some": Y[:3], "budget": 100}
    found = run.carry_out(lambda run: latent_plan(run, [MODEL, OTHER], **how))
    assert found.interrupted
    assert table.asked[-1].options["max_iterations"] == 0
    run, table = run_of({"start-1": result(3.0), "start-2": result(3.0), "best": result(2.0)})
    alone: dict[str, Any] = {"method": first, "first": first, "some": run.y, "budget": 100}
    assert latent_plan(run, [MODEL, OTHER], **alone).objective == 2.0


def test_states_that_depend_on_functions_go_on_from_a_chain(monkeypatch):
    monkeypatch.setattr(state_space, "sites_after", lambda *_: (("sites",),))
    first = cavity.PowerEP()
    how: dict[str, Any] = {"max_iterations": 100, "n_restarts": 2, "seed": 3}
    for hidden, limit in (("conditional", TRIAL), (None, 0)):
        method = cavity.TiedPowerEP(hidden=hidden)
        trials = ["chain/start-1", "chain/start-2", "chain/best"] if limit else ["chain"]
        answers: dict[str, Any] = dict.fromkeys(trials, result(3.0, ends=(3.0, 30.0)))
        run, table = run_of(answers | {hidden or "tied": result(1.0)}, **how)
        controls = np.zeros((2, 0))
        found = state_space_plan(run, [MODEL, OTHER], None, method, first, controls)
        assert table.names == [*trials, hidden or "tied"]
        assert table.asked[0].options["max_iterations"] == limit
        assert table.asked[-1].options.get("n_restarts", 0) == (0 if limit else 2)
        assert ("apart" in found.message) == (hidden == "conditional")
        assert found.ends == ((3.0, 30.0) if hidden else ())


def far(objective: float, **known: Any) -> Any:
    """A result whose sites are far from settled."""
    report = ConvergenceReport(9, 5.0, 0, "sweeps", converged=False)
    return result(objective, converged=False, sites=report, message="far", **known)


NEAR = result(1.0, message="near")
CUT = "interrupted; this is the best so far; the posterior is that of power 0.5"
MOVED = "sites did not settle at power 1; the posterior is that of power 0.5"


@pytest.mark.parametrize(
    ("answers", "message", "interrupted"),
    [
        ({"own": NEAR}, "near", False),
        ({"own": far(2.0), "smaller": NEAR, "again": NEAR}, "near", False),
        ({"own": far(2.0), "smaller": far(3.0).stopped()}, CUT, True),
        ({"own": far(2.0), "smaller": far(3.0)}, "far", False),
        ({"own": far(2.0), "smaller": NEAR, "again": far(3.0)}, MOVED, False),
        ({"own": far(2.0), "smaller": NEAR, "again": far(3.0).stopped()}, CUT, True),
        ({"own": far(2.0), "smaller": FAILED}, "far", False),
        ({"own": far(2.0), "smaller": NEAR, "again": FAILED}, MOVED, False),
        ({"own": FAILED, "smaller": NEAR, "again": NEAR}, "near", False),
        ({"own": FAILED, "smaller": far(2.0)}, None, False),
    ],
)
def test_networks_go_on_from_a_smaller_power(answers, message, interrupted):
    run, table = run_of(answers, power=1.0)
    if message is None:
        with pytest.raises(NumericalError):
            network_plan(run, MODEL)
        return
    found = run.carry_out(lambda run: network_plan(run, MODEL))
    assert (found.message, found.interrupted) == (message, interrupted)
    assert found.n_evaluations == 5 * sum(not isinstance(a, Exception) for a in answers.values())
    assert table.names == list(answers)
    powers = {"own": 1.0, "smaller": 0.5, "again": 1.0}
    assert all(each.options["power"] == powers[each.name] for each in table.asked)


def test_linear_models_take_the_first_start_that_settles():
    """One that fails is passed over; where none settles, the first is averaged."""
    settles, moves = result(1.0, message="settles"), far(2.0)
    wavers = result(3.0, message="wavers")

    def averaged(found):
        return found.judged(f"averaged {found.message}", converged=found.message == "settles")

    def chosen(*answers: Any) -> Any:
        names = [f"start-{n}" for n in range(1, len(answers) + 1)]
        run, _ = run_of(dict(zip(names, answers, strict=True)))
        return run.carry_out(lambda run: linear_plan(run, [MODEL] * len(answers), averaged))

    assert chosen(FAILED, moves, wavers, settles, STOPPED).message == "averaged settles"
    assert chosen(moves, wavers, FAILED).message == "averaged wavers"
    assert chosen(FAILED, moves).message == "averaged far"
    assert chosen(moves, stopped(4.0), settles).objective == 4.0
    with pytest.raises(NumericalError, match="not finite"):
        chosen(FAILED, FAILED)


def test_averages_that_are_interrupted_leave_the_fit():
    def averaged(found):
        raise KeyboardInterrupt

    run, _ = run_of({"start-1": result(1.0)})
    found = run.carry_out(lambda run: linear_plan(run, [MODEL], averaged))
    assert (found.objective, found.interrupted) == (1.0, True)


def test_kernels_of_images_without_an_evidence_are_not_likely():
    answers = {"kernel-1": result(3.0), "kernel-2": result(1.0), "kernel-3": FAILED}
    start = (cavity.kernels.RBF(), cavity.inducing.Points(np.zeros((1, 1))))
    run, _ = run_of(answers, y=np.zeros((2, 1)))
    assert compare_kernels(run, [start] * 3, 5) == (1, [-3.0, -1.0, -np.inf])
    run, _ = run_of(answers | {"kernel-2": stopped(1.0)}, y=np.zeros((2, 1)))
    found = run.carry_out(lambda run: compare_kernels(run, [start] * 3, 5))
    assert found == (1, [-3.0, -1.0])
    run, _ = run_of({"kernel-1": FAILED}, y=np.zeros((2, 1)))
    with pytest.raises(NumericalError):
        compare_kernels(run, [start], 5)
