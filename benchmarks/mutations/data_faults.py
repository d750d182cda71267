"""Faults of diagnostics, data and the posterior."""

from benchmarks.mutations.fault import Fault

# The test of improved marginals.
IMPROVED = (
    "learning/test_marginal_corrections.py"
    "::test_jylanki_s53_marginals_are_closer_to_the_exact_ones"
)

TIERNEY_KADANE = (
    Fault(
        "the evidence of the last label is not in the normaliser",
        "learning/diagnostics/tierney_kadane.py",
        "np.logaddexp.reduce(log_evidence, axis=1",
        "np.logaddexp.reduce(log_evidence[:, :-1], axis=1",
        ("learning/test_tierney_kadane.py::test_probabilities_are_shares_of_two_evidences",),
    ),
    Fault(
        "the evidence of a label is at the mode of the data alone",
        "learning/diagnostics/tierney_kadane.py",
        "return -energy(graph, found), record.converged",
        "return -energy(graph, sites), record.converged",
        ("learning/test_tierney_kadane.py::test_probabilities_are_shares_of_two_evidences",),
    ),
    Fault(
        "the new row takes the place of the last one",
        "learning/diagnostics/tierney_kadane.py",
        "last = data.length - 1",
        "last = data.length - 2",
        ("learning/test_tierney_kadane.py::test_probabilities_are_shares_of_two_evidences",),
    ),
    Fault(
        "modes count as found at a residual of 0.01",
        "learning/diagnostics/tierney_kadane.py",
        "Limits(solver.tolerance, ",
        "Limits(1e-2, ",
        ("learning/test_tierney_kadane.py::test_probabilities_are_shares_of_two_evidences",),
    ),
    Fault(
        "modes need not have been found",
        "learning/diagnostics/tierney_kadane.py",
        "if not (report.converged and np.all(settled)",
        "if not (report.converged",
        ("learning/test_tierney_kadane.py::test_a_mode_that_is_not_found_is_an_error",),
    ),
)

MARGINALS = (
    Fault(
        "rows keep their variance given a value",
        "learning/diagnostics/marginal_corrections.py",
        "spread[:, 0] - cross**2 / var",
        "spread[:, 0] - 0.0 * cross",
        (f"{IMPROVED}[power EP]",),
    ),
    Fault(
        "rows keep their mean given a value",
        "learning/diagnostics/marginal_corrections.py",
        "z[:, 0] + cross * (value - mean) / var",
        "z[:, 0] + 0.0 * cross",
        (f"{IMPROVED}[power EP]",),
    ),
    Fault(
        "an improved density lacks the Gaussian",
        "learning/diagnostics/marginal_corrections.py",
        "-0.5 * (values - mean) ** 2 / var + jax.lax.map",
        "0.0 * values + jax.lax.map",
        (f"{IMPROVED}[power EP]",),
    ),
    Fault(
        "corrections of Laplace's sites have the power of the data",
        "learning/diagnostics/marginal_corrections.py",
        "if factor.evaluation_point is EvaluationPoint.CAVITY else 1.0",
        "if factor.evaluation_point is EvaluationPoint.CAVITY else 0.5",
        (f"{IMPROVED}[Laplace]",),
    ),
    Fault(
        "diagnostics have the presence of the first output",
        "learning/results/row_diagnostics.py",
        "np.asarray(self.data.rows.presence) > 0.0",
        "np.asarray(self.data.rows.presence)[:, :1] > 0.0",
        ("inference/test_leave_one_out.py::test_outputs_missing_in_different_places",),
    ),
)

DATA = (
    Fault(
        "outputs are missing where the first one is",
        "learning/data/arrays.py",
        "shared = bool(np.all(absent == absent[:, :1]))",
        "shared = True",
        ("inference/test_presence.py",),
    ),
    Fault(
        "padding is present",
        "learning/data/arrays.py",
        "fill(rows.presence, 0.0)",
        "fill(rows.presence, 1.0)",
        ("inference/test_presence.py",),
    ),
    Fault(
        "padding of blocks is present",
        "learning/data/arrays.py",
        "lay(rows.presence, 0.0)",
        "lay(rows.presence, 1.0)",
        ("equivalence/test_collapsed.py::test_bui_13_blocks_at_power_one_are_pitc",),
    ),
    Fault(
        "observed outputs are counted once per row",
        "learning/data/training_data.py",
        "float(np.sum(np.broadcast_to(presence, self.rows.y.shape)))",
        "float(np.sum(presence))",
        ("learning/test_data.py::test_observed_outputs_are_counted_one_by_one",),
    ),
    Fault(
        "a pass of minibatches skips a row after each",
        "learning/data/training_data.py",
        "order = order[size:]",
        "order = order[size + 1 :]",
        ("learning/test_data.py",),
    ),
    Fault(
        "minibatches draw padding",
        "learning/data/training_data.py",
        "n = int(self.length)",
        "n = self.rows.x.shape[0]",
        ("learning/test_data.py",),
    ),
)

POSTERIOR = (
    Fault(
        "samples have roots of covariances transposed",
        "models/posterior.py",
        '"bij,sbj->sbi"',
        '"bji,sbj->sbi"',
        ("models/test_posterior.py::test_samples_have_the_moments_of_the_joint",),
    ),
    Fault(
        "the last chunk of predictions keeps its padding",
        "models/posterior.py",
        "np.asarray(x)[:rows]",
        "np.asarray(x)",
        ("models/test_posterior.py::test_chunks_of_predictions_change_nothing",),
    ),
)

DATA_FAULTS = (*TIERNEY_KADANE, *MARGINALS, *DATA, *POSTERIOR)
