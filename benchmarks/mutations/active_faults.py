"""Faults of active learning: what a row would tell, sets of rows, and trajectories."""

from benchmarks.mutations.fault import Fault

SUGGEST = "learning/test_suggest.py::"
CONTROLS = "learning/test_suggest_controls.py::"
ACROSS = "models/test_covariance_across.py"
DENSE = SUGGEST + "test_information_is_the_difference_of_entropies_by_dense_sums"
SETS = SUGGEST + "test_sets_are_those_of_conditioning_on_one_row_after_another"
COMMAND = "cli/test_suggest.py::"
ACTIVE_FAULTS = (
    Fault(
        "information leaves out the entropy of y",
        "learning/active/row_values.py",
        "RowValues(weight * (expected - log_p),",
        "RowValues(weight * expected,",
        (DENSE,),
    ),
    Fault(
        "outputs of little weight do not count for information",
        "learning/active/row_values.py",
        "LEAST = 1e-20",
        "LEAST = 1e-3",
        (DENSE,),
    ),
    Fault(
        "a chosen row does not lower the others",
        "learning/active/greedy.py",
        "self.spread -= ",
        "self.spread -= 0.0 * ",
        (SETS,),
    ),
    Fault(
        "covariances of later rows are those before the first was chosen",
        "learning/active/greedy.py",
        "return self.before[:, :, rows][..., at] - np.einsum(",
        "return self.before[:, :, rows][..., at] - 0.0 * np.einsum(",
        (SETS,),
    ),
    Fault(
        "a row is chosen again",
        "learning/active/greedy.py",
        "bound[best] = -np.inf",
        "bound[best] = gain",
        (SUGGEST + "test_candidates_that_were_measured_tell_least",),
    ),
    Fault(
        "only the first candidates are looked at again",
        "learning/active/greedy.py",
        "if bound[at[0]] <= most:",
        "if start > 0:",
        (SUGGEST + "test_looking_at_few_candidates_again_gives_the_same_sets",),
    ),
    Fault(
        "integrated counts the sum over the reference, not the mean",
        "learning/active/greedy.py",
        "(len(cross) * cross.shape[2])",
        "len(cross)",
        (SUGGEST + "test_integrated_is_the_fall_of_the_mean_variance_of_botorch",),
    ),
    Fault(
        "covariances across tables leave out what inducing points do not know",
        "models/covariance_across.py",
        "- a.T @ b + own",
        "- a.T @ b",
        (ACROSS,),
    ),
    Fault(
        "entropies by neighbours leave out the neighbour's rank",
        "learning/active/sample_entropy.py",
        "float(digamma(count) - digamma(neighbours))",
        "float(digamma(count) - digamma(1))",
        (CONTROLS + "test_entropies_of_gaussian_samples_are_the_analytic_ones",),
    ),
    Fault(
        "trajectories go through functions that are drawn anew at every step",
        "learning/active/controls.py",
        'paths, "exact", key=key',
        'paths, "fresh", key=key',
        (CONTROLS + "test_functions_are_consistent_along_a_trajectory",),
    ),
    Fault(
        "the entropy of the noise is that of one step",
        "learning/active/controls.py",
        "given = 0.5 * steps * ",
        "given = 0.5 * ",
        (CONTROLS + "test_functions_are_consistent_along_a_trajectory",),
    ),
    Fault(
        "the numbers of suggested rows do not count rows left out",
        "cli/suggest.py",
        "numbers = encoded.numbers[found.rows]",
        "numbers = found.rows + 1",
        (COMMAND + "test_incomplete_rows_are_left_out_and_numbers_stay",),
    ),
    Fault(
        "variances of suggested rows are in the model's units",
        "cli/suggest.py",
        "else found.gains * unit",
        "else found.gains",
        (COMMAND + "test_gains_have_the_units_of_the_target",),
    ),
)
