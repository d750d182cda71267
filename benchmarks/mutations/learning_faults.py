"""Faults of learning: how sites are found meanwhile, and how a search ends."""

from benchmarks.mutations.fault import Fault

WARM_START = "learning/test_warm_start.py::"
LEARNING_FAULTS = (
    Fault(
        "sites while learning do not heed the last fall",
        "learning/objectives/evidence.py",
        "max(self.fall, self.accuracy)",
        "self.accuracy",
        (WARM_START + "test_sites_are_as_accurate_as_the_last_fall_asks_for",),
    ),
    Fault(
        "the accuracy of sites is that of one of them",
        "learning/objectives/evidence.py",
        "self._affordable_change() / count)",
        "self._affordable_change())",
        (WARM_START + "test_sites_are_as_accurate_as_the_last_fall_asks_for",),
    ),
    Fault(
        "sites that creep may be as far off as those that do not",
        "learning/objectives/evidence.py",
        "self._affordable_change() / CREEP",
        "self._affordable_change()",
        (WARM_START + "test_sites_are_as_accurate_as_the_last_fall_asks_for",),
    ),
    Fault(
        "changes of all sites together excuse one that is large",
        "inference/solvers/parallel.py",
        "(state.change < limits.enough) & (residual < self.settings.nearby)",
        "state.change < limits.enough",
        (WARM_START + "test_sweeps_end_where_all_changes_together_are_small",),
    ),
    Fault(
        "sites are loose for energies that are not stationary in them",
        "learning/objectives/evidence.py",
        "if not self.stationary:",
        "if False:",
        (WARM_START + "test_other_sites_have_one_tolerance",),
    ),
    Fault(
        "sites are extrapolated backwards",
        "learning/objectives/warm_start.py",
        "sum(w * (np.asarray(b) - old)",
        "sum(w * (old - np.asarray(b))",
        (WARM_START + "test_sites_that_are_linear_in_the_point_are_met",),
    ),
    Fault(
        "a restored search forgets its last fall",
        "learning/objectives/evidence.py",
        'for name in ("best", "fall")',
        'for name in ("best", "best")',
        (WARM_START + "test_a_restored_objective_goes_on_exactly",),
    ),
    Fault(
        "tied sites count as learned without iterations",
        "learning/run/fit.py",
        "minimum if run.max_iterations else None",
        "minimum",
        ("inference/test_tied.py::test_without_iterations_parameters_stay_and_sites_are_found",),
    ),
    Fault(
        "tied sites are finished however their search ended",
        "learning/infer.py",
        '"learning", minimum.converged)',
        '"learning", True)',
        ("inference/test_tied.py::test_a_search_that_is_cut_short_leaves_sites_unfinished",),
    ),
    Fault(
        "Adam makes its steps where no iterations are asked for",
        "learning/search/tied.py",
        " or max_iterations == 0:",
        ":",
        ("inference/test_tied.py::test_without_iterations_parameters_stay_and_sites_are_found",),
    ),
    Fault(
        "what is left to gain forgets the units of the round",
        "learning/optimisers/lbfgs.py",
        "slope = self.scale * _within(x, slope, self.bounds) / self.unit",
        "slope = self.scale * _within(x, slope, self.bounds)",
        ("learning/test_lbfgs.py",),
    ),
    Fault(
        "slopes of a round are not in its coordinates",
        "learning/optimisers/lbfgs.py",
        "self.scale * gradient / self.unit",
        "gradient / self.unit",
        ("learning/test_lbfgs.py",),
    ),
    Fault(
        "a search ends with its first round",
        "learning/optimisers/lbfgs.py",
        "if status.status != 1 or spent:",
        "if True:",
        ("learning/test_lbfgs.py",),
    ),
)
