"""Sites of rows by passes over the parts of a table: those of the rows in memory."""

import dataclasses

import numpy as np
import pytest

import cavity
from cavity import inducing, kernels, likelihoods
from cavity.learning.data.arrays import prepare
from cavity.learning.data.survey import survey
from cavity.learning.engines.base import InProcess
from cavity.learning.engines.kept import KeptBlocks, Lost, kept_folder
from cavity.learning.infer import as_dtype
from cavity.learning.objectives import settling
from cavity.learning.objectives.by_passes import PassObjective
from cavity.learning.objectives.evidence import Objective
from cavity.learning.objectives.passes import block_energy, block_messages, block_sweep
from tests.learning.part_engines import TwoProcesses
from tests.learning.pass_cases import CASES, LABELS, F, X, parts
from tests.tolerances import assert_close

QUICK = [("gaussian", 0.5), ("probit", 0.5), ("classes", 0.5)]
SLOW = [(name, power) for name in CASES for power in (0.0, 0.5, 1.0) if (name, power) not in QUICK]


@pytest.mark.parametrize(
    ("name", "power"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_evidence_and_posterior_are_those_in_memory(name, power):
    model, y = CASES[name].model, CASES[name].y
    options = {"power": power, "method": CASES[name].method()}
    memory, passes = (cavity.infer(model, *data, **options) for data in ((X, y), (parts(name),)))
    assert passes.converged
    assert passes.sites.residual < 1e-8
    assert_close(passes.log_evidence, memory.log_evidence, "factorised")
    for ours, theirs in zip(
        passes.posterior.marginals(X[:5]), memory.posterior.marginals(X[:5]), strict=True
    ):
        assert_close(ours, theirs, "fixed_point")


def test_sites_of_gaussian_noise_are_its_closed_form():
    model = CASES["gaussian"].model
    exact = cavity.infer(model, X, F, power=0.5)
    passes = cavity.infer(model, parts("gaussian"), power=0.5, method=CASES["gaussian"].method())
    assert_close(passes.log_evidence, exact.log_evidence, "factorised")
    assert passes.sites.sweeps == 2


def objective_of(name, power):
    model = CASES[name].model
    data = survey(parts(name), model.likelihood, power=power)
    model = as_dtype(model, data.exemplar)
    return PassObjective(model, data, method=CASES[name].method(), jitter=1e-8)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "power"), [("probit", 0.5), ("classes", 0.5), ("student", 1.0)])
def test_gradients_are_those_in_memory(monkeypatch, name, power):
    """And finite differences."""
    monkeypatch.setattr("cavity.learning.objectives.by_passes.TIGHTEST", 1e-11)
    passes = objective_of(name, power)
    passes.solver = dataclasses.replace(passes.solver, tolerance=1e-11)
    y = CASES[name].y
    data = prepare(X, y, power=power)
    memory = Objective(passes.start, data, method=CASES[name].method(), jitter=1e-8)
    x = 0.05 * np.sin(np.arange(passes.size))
    (value, slope), (other, its_slope) = memory(x), passes(x)
    assert_close(other, value, "factorised")
    assert_close(its_slope, slope, "fixed_point")
    direction, step = np.cos(np.arange(passes.size)), 1e-5
    ahead, behind = (passes(x + sign * step * direction)[0] for sign in (1.0, -1.0))
    assert its_slope @ direction == pytest.approx((ahead - behind) / (2.0 * step), rel=1e-6)


class Forgetful(InProcess):
    """Loses the sites of the second part in the fourth pass, and again later."""

    def __init__(self):
        self.passes = 0

    def each(self, work, parts):
        self.passes += 1
        if self.passes in (5, 9):
            for path in kept_folder().glob("*-2-*"):
                path.unlink()
        yield from super().each(work, parts)


def test_sites_that_are_lost_are_found_again_with_the_same_bits():
    model, options = CASES["probit"].model, {"power": 0.5}
    whole = cavity.infer(model, parts("probit"), **options)
    engine = Forgetful()
    again = cavity.infer(model, parts("probit"), engine=engine, **options)
    assert engine.passes > 12
    assert again.log_evidence == whole.log_evidence


class Told(InProcess):
    """Remembers what was done in each pass."""

    def __init__(self):
        self.programs = []

    def each(self, work, parts):
        self.programs.append(getattr(work, "program", None))
        yield from super().each(work, parts)


def test_sites_of_none_need_no_pass():
    engine = Told()
    found = cavity.infer(CASES["probit"].model, parts("probit"), power=0.5, engine=engine)
    assert engine.programs.count(block_sweep) == found.sites.sweeps
    assert block_messages not in engine.programs


def test_what_is_not_kept_whole_is_lost():
    kept, like = KeptBlocks("fit", 0, "name"), np.zeros(3)
    with pytest.raises(Lost):
        kept.read(0, like)
    with kept.begin() as file:
        file.write(np.arange(6.0).tobytes())
    with pytest.raises(Lost):
        kept.read(0, like)
    kept.end()
    np.testing.assert_array_equal(kept.read(1, like), [3.0, 4.0, 5.0])
    with pytest.raises(Lost):
        kept.read(2, like)
    kept.forget()
    with pytest.raises(Lost):
        kept.read(0, like)


class Watched(InProcess):
    """Looks how many files there are."""

    def __init__(self, files):
        self.files, self.most = files, 0

    def each(self, work, parts):
        self.most = max(self.most, len(self.files()))
        yield from super().each(work, parts)


def test_few_files_are_kept_and_none_is_left():
    def files():
        return set(kept_folder().iterdir())

    before = files()
    engine = Watched(files)
    cavity.fit(CASES["probit"].model, parts("probit"), engine=engine, max_iterations=1)
    assert files() == before
    assert 0 < engine.most <= len(before) + 3 * 3


@pytest.mark.slow
def test_a_fit_is_about_that_in_memory_and_the_same_on_two_processes():
    model, options = CASES["probit"].model, {"power": 0.5, "max_iterations": 6}
    memory = cavity.fit(model, X, LABELS, **options)
    here = cavity.fit(model, parts("probit"), **options)
    assert here.log_evidence == pytest.approx(memory.log_evidence, abs=0.05)
    assert here.history[-1] < here.history[0]
    engine = TwoProcesses()
    try:
        elsewhere = cavity.fit(model, parts("probit"), engine=engine, **options)
    finally:
        engine.close()
    assert elsewhere.history == here.history
    assert elsewhere.log_evidence == here.log_evidence


def test_more_jitter_where_a_factorisation_fails():
    model = cavity.GP(
        kernels.RBF(1.0, [1.0, 1.5]), likelihoods.Bernoulli(), inducing.Points(X[:1].repeat(5, 0))
    )
    options = {"power": 0.5, "jitter": 0.0, "max_iterations": 1}
    passes = cavity.fit(model, parts("probit"), **options)
    assert passes.jitter == cavity.fit(model, X, LABELS, **options).jitter > 0.0


class LosesAtLast(InProcess):
    """Loses all sites before the rows' part of the evidence is summed, once."""

    lost = False

    def each(self, work, parts):
        if not self.lost and getattr(work, "program", None) is block_energy:
            self.lost = True
            for path in kept_folder().iterdir():
                path.unlink()
        yield from super().each(work, parts)


def test_sites_that_are_lost_at_last_are_found_again():
    model, options = CASES["probit"].model, {"power": 0.5}
    engine = LosesAtLast()
    again = cavity.infer(model, parts("probit"), engine=engine, **options)
    assert engine.lost
    assert again.log_evidence == cavity.infer(model, parts("probit"), **options).log_evidence


def test_what_does_not_settle_says_so(monkeypatch):
    monkeypatch.setattr(settling, "MOST", 2)
    result = cavity.infer(CASES["probit"].model, parts("probit"), power=0.5)
    assert not result.converged
    assert result.sites.residual > 1e-6
    assert "sites did not converge" in result.message


REFUSED = {
    "mode": (cavity.Laplace(), "Laplace.. with these settings keeps"),
    "rows in turn": (cavity.PowerEP(batch=1), "must be in memory"),
    "steps": (cavity.PowerEP(interleaved=9), "must be in memory"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_rows_in_memory_is_refused(case):
    method, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        cavity.fit(CASES["probit"].model, parts("probit"), method=method)


def test_sites_on_whole_functions_are_refused():
    layer = cavity.Layer(kernels.RBF(), inducing.Points(X[::60]))
    model = cavity.DeepGP([layer], likelihoods.Bernoulli())
    with pytest.raises(ValueError, match="of a kind that needs the rows in memory"):
        cavity.infer(model, parts("probit"), method=cavity.PowerEP(exact=False))
