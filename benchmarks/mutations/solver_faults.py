"""Faults of solvers: convergence, Newton's method, schedules, the implicit gradient."""

from benchmarks.mutations.fault import Fault

CONVERGENCE = (
    Fault(
        "parallel sweeps have converged at a residual of 0.01",
        "inference/solvers/parallel.py",
        "converged, last = self.settled(state), ",
        "converged, last = (state.residual < 1e-2) & (state.skipped == 0), ",
        ("inference/test_convergence.py::test_converged_is_at_a_fixed_point_and_nothing_less_is",),
    ),
    Fault(
        "parallel sweeps end at a residual of 0.01",
        "inference/solvers/parallel.py",
        "~self.settled(state) & ~stalled",
        "((state.residual >= 1e-2) | (state.skipped > 0)) & ~stalled",
        ("inference/test_convergence.py::test_converged_is_at_a_fixed_point_and_nothing_less_is",),
    ),
    Fault(
        "parallel sweeps have converged with sites skipped",
        "inference/solvers/parallel.py",
        "converged, last = self.settled(state), ",
        "converged, last = state.residual < self.limits.tolerance, ",
        ("inference/test_convergence.py::test_sites_that_were_skipped_are_at_no_fixed_point",),
    ),
    Fault(
        "sweeps with a line search have converged at a residual of 0.01",
        "inference/solvers/descent.py",
        "self.record(state, self.met(state))",
        "self.record(state, (state.residual < 1e-2) & (state.skipped == 0))",
        ("inference/test_convergence.py::test_converged_is_at_a_fixed_point_and_nothing_less_is",),
    ),
    Fault(
        "the residual of an improper belief is finite",
        "inference/solvers/parallel.py",
        "jnp.where(proper, 0.0, jnp.inf), jnp.zeros(())",
        "jnp.zeros(()), jnp.zeros(())",
        (
            "inference/test_convergence.py::test_an_improper_belief_is_infinitely_far_from_a_fixed_point",
        ),
    ),
    Fault(
        "the residual is that of the last factor",
        "inference/solvers/parallel.py",
        "residual = jnp.maximum(residual, update.residual)",
        "residual = jnp.maximum(0.0, update.residual)",
        ("inference/test_convergence.py::test_residuals_are_of_all_factors_and_chunks",),
    ),
    Fault(
        "sweeps that fail give their last sites",
        "inference/solvers/parallel.py",
        "state.start if last else state.best",
        "state.start",
        (
            "inference/test_convergence.py::test_sweeps_that_fail_give_the_nearest_sites_that_they_met",
        ),
    ),
    Fault(
        "a line search goes on where a value is not a number",
        "inference/solvers/descent.py",
        "~(self.value_of(self.graph, at(length)) <= ceiling)",
        "(self.value_of(self.graph, at(length)) > ceiling)",
        (
            "inference/test_convergence.py::test_a_line_search_does_not_go_where_a_value_is_no_number",
        ),
    ),
    Fault(
        "sweeps in batches have converged at a residual of 0.01",
        "inference/solvers/sequential.py",
        "self.record(state, self.met(state))",
        "self.record(state, (state.residual < 1e-2) & (state.skipped == 0))",
        ("inference/test_convergence.py::test_converged_is_at_a_fixed_point_and_nothing_less_is",),
    ),
    Fault(
        "Newton's method is at a fixed point at a gap of 0.01",
        "inference/solvers/steps.py",
        "float(solution.gap) < problem.attainable(solver.newton.tolerance)",
        "float(solution.gap) < 1e-2",
        (
            "inference/test_convergence.py::test_fixed_points_are_accepted_at_small_residuals_alone",
        ),
    ),
    Fault(
        "fixed points of fallbacks are accepted at a residual of 0.01",
        "inference/solvers/convergence.py",
        "return residual < accepted and skipped == 0",
        "return residual < 1e-2 and skipped == 0",
        (
            "inference/test_convergence.py::test_fixed_points_are_accepted_at_small_residuals_alone",
        ),
    ),
    Fault(
        "fixed points of fallbacks are accepted with sites skipped",
        "inference/solvers/convergence.py",
        "return residual < accepted and skipped == 0",
        "return residual < accepted",
        ("inference/test_convergence.py::test_sites_that_were_skipped_are_at_no_fixed_point",),
    ),
    Fault(
        "a leap uphill counts as a mode",
        "inference/solvers/steps.py",
        "record.converged & ~up",
        "record.converged",
        ("inference/test_mode.py",),
    ),
)

STEPS = (
    Fault(
        "a rank-one change of the mean forgets the mean",
        "inference/solvers/sequential.py",
        "((shift - precision * z) / safe)",
        "(shift / safe)",
        (
            "inference/test_sequential.py::test_jylanki_15_rank_one_updates_are_the_whole_computation",
        ),
    ),
    Fault(
        "a minibatch leaves the last rows of a table out",
        "inference/solvers/sequential.py",
        "steps = -(-count // batch)",
        "steps = count // batch",
        (
            "inference/test_convergence.py"
            "::test_converged_is_at_a_fixed_point_and_nothing_less_is[one batch]",
        ),
    ),
    Fault(
        "a gap is finite where beliefs are not proper",
        "inference/solvers/newton.py",
        "jnp.where(proper & finite, gap, jnp.inf)",
        "gap",
        (
            "inference/test_convergence.py::test_an_improper_belief_is_infinitely_far_from_a_fixed_point",
        ),
    ),
    Fault(
        "the error of absent rows does not move",
        "inference/solvers/newton.py",
        "jnp.where(presence > 0.0, new - old, -old)",
        "new - old",
        ("inference/test_four_points.py::test_damped_sweeps_alone_fail_there",),
    ),
    Fault(
        "Newton's method takes slopes in means for those in variances",
        "inference/solvers/newton.py",
        "_unit_moments(at.moments, mean=False)",
        "_unit_moments(at.moments, mean=True)",
        ("inference/test_four_points.py::test_damped_sweeps_alone_fail_there",),
    ),
    Fault(
        "the system of the implicit gradient has the other sign",
        "inference/implicit_gradient.py",
        "jax.tree.map(jnp.subtract, weights, back(weights)[0])",
        "jax.tree.map(jnp.add, weights, back(weights)[0])",
        ("inference/test_class_methods.py::test_jylanki_49_gradients[softmax]",),
    ),
    Fault(
        "Newton's steps to a mode have no second product",
        "inference/implicit_gradient.py",
        "jax.tree.map(jnp.add, uphill, back(uphill)[0])",
        "uphill",
        ("inference/test_methods.py::test_jylanki_18_gradients",),
    ),
)

SOLVER_FAULTS = (*CONVERGENCE, *STEPS)
