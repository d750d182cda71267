"""Faults of tables in parts: the order of sums, surveys, sweeps by passes, and sites of rows."""

from benchmarks.mutations.fault import Fault

TREE = "numerics/test_tree_sum.py::"
PARTS = "learning/test_parts.py::"
PASSES = "learning/test_passes.py::"
PRIVATE = "models/test_private_sites.py::"

PART_FAULTS = (
    Fault(
        "a sum along the tree takes terms as they come",
        "numerics/tree_sum.py",
        "value = self.add(value, known) if index < other else self.add(known, value)",
        "value = self.add(known, value)",
        (TREE + "test_the_order_is_that_of_the_tree",),
    ),
    Fault(
        "a term that comes twice counts twice",
        "numerics/tree_sum.py",
        "if index in self.arrived:",
        "if index < 0:",
        (TREE + "test_a_term_that_comes_twice_counts_once",),
    ),
    Fault(
        "the last block of a part is left out",
        "learning/data/block_sum.py",
        "        while waiting:\n            yield to_numpy(waiting.popleft())",
        "        while len(waiting) > 1:\n            yield to_numpy(waiting.popleft())",
        (PARTS + "test_a_fit_is_that_of_the_rows_in_memory",),
    ),
    Fault(
        "the survey forgets what later parts have seen",
        "learning/data/survey.py",
        "observed=self.observed + later.observed,",
        "observed=self.observed,",
        (PARTS + "test_the_survey_is_that_of_the_whole",),
    ),
    Fault(
        "missing values of later parts stand for the first observed ones",
        "learning/data/survey.py",
        "np.where(np.isnan(self.filler), later.filler, self.filler)",
        "np.where(np.isnan(later.filler), self.filler, later.filler)",
        (PARTS + "test_the_survey_is_that_of_the_whole",),
    ),
    Fault(
        "a pass forgets what the rows' own terms add to the gradient",
        "learning/objectives/passes.py",
        "return value, back((slope, jnp.ones_like(value)))[0]",
        "return value, back((slope, jnp.zeros_like(value)))[0]",
        (PASSES + "test_gradients_are_those_in_memory",),
    ),
    Fault(
        "sweeps by passes move sites from beliefs of their own block",
        "learning/objectives/passes.py",
        "result = sweep_under(graph, beliefs_under(graph, total), sites, 1.0)",
        "own = _messages_of(graph, sites)\n"
        "    result = sweep_under(graph, beliefs_under(graph, own), sites, 1.0)",
        (PASSES + "test_evidence_and_posterior_are_those_in_memory",),
    ),
    Fault(
        "sites of a block are read from the first",
        "learning/engines/kept.py",
        "start = number * like.nbytes",
        "start = 0 * like.nbytes",
        (PASSES + "test_evidence_and_posterior_are_those_in_memory",),
    ),
    Fault(
        "sites that were begun count as kept",
        "learning/engines/kept.py",
        'return self.path.with_suffix(".begun").open("wb")',
        'return self.path.open("wb")',
        (PASSES + "test_what_is_not_kept_whole_is_lost",),
    ),
    Fault(
        "messages around a mean have its deviation in the place of its precision",
        "models/deep/function_edges.py",
        "return Messages(precision * mean[:, None],",
        "return Messages(deviation * mean[:, None],",
        (PRIVATE + "test_power_zero_is_the_bound_of_tied_sites",),
    ),
)
