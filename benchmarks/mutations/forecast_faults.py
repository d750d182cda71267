"""Faults of forecasts: states that go on, paths, filters."""

from benchmarks.mutations.fault import Fault

FORECASTS = "models/test_state_forecasts.py::"
POSTERIOR = "models/test_state_forecast_posterior.py::"

FORECAST_FAULTS = (
    Fault(
        "means of functions do not depend on each other",
        "models/state_space/propagation.py",
        "cov = _with_variances(cov, between)",
        "cov = _diagonal(between)",
        (FORECASTS + "test_one_step_by_moments_has_the_moments_of_all_outcomes",),
    ),
    Fault(
        "linear functions are independent of the others",
        "models/state_space/propagation.py",
        "both = 0.5 * jnp.swapaxes(slopes, 1, 2) + process.slopes_under(inputs)",
        "both = 0.5 * jnp.swapaxes(slopes, 1, 2)",
        (FORECASTS + "test_one_step_by_moments_has_the_moments_of_all_outcomes",),
    ),
    Fault(
        "tangents leave out the variance of the functions",
        "models/state_space/propagation.py",
        "return StateBelief(mean, _with_variances(cov, between) + _diagonal(within))",
        "return StateBelief(mean, _with_variances(cov, between) + 0.0 * _diagonal(within))",
        (FORECASTS + "test_one_step_linearised_is_that_of_finite_differences",),
    ),
    Fault(
        "paths start at the mean of the last state",
        "models/state_space/paths.py",
        'jnp.einsum("sde,nse->nsd", semidefinite_root(start.cov), z)',
        '0.0 * jnp.einsum("sde,nse->nsd", semidefinite_root(start.cov), z)',
        (FORECASTS + "test_paths_of_linear_systems_have_the_moments_of_kalman",),
    ),
    Fault(
        "exact paths forget their earlier values",
        "models/state_space/paths.py",
        "present = jnp.arange(len(earlier.inputs)) < step",
        "present = jnp.arange(len(earlier.inputs)) < 0 * step",
        (FORECASTS + "test_exact_paths_are_those_of_whole_functions",),
    ),
    Fault(
        "inducing variables are drawn at their mean",
        "models/state_space/paths.py",
        'belief.mean + jnp.einsum("gkm,ngrk->ngrm", belief.root, z)',
        'belief.mean + 0.0 * jnp.einsum("gkm,ngrk->ngrm", belief.root, z)',
        (FORECASTS + "test_exact_paths_are_those_of_whole_functions",),
    ),
    Fault(
        "particles that explain the outputs do not go on",
        "models/state_space/paths.py",
        "chosen = _resampled(logs, chosen_key)",
        "chosen = jnp.arange(count)",
        (FORECASTS + "test_filters_give_the_density_under_whole_functions",),
    ),
    Fault(
        "particles leave their functions behind",
        "models/state_space/paths.py",
        "following = jax.tree.map(lambda a: a[chosen] if a.ndim else a, particles)",
        "following = Particles(particles.states[chosen], particles.drawn)",
        (FORECASTS + "test_filters_give_the_density_under_whole_functions",),
    ),
    Fault(
        "missing outputs count in joint densities",
        "models/state_space/forecast.py",
        "return jnp.sum(jnp.where(observed, density, 0.0), axis=1)",
        "return jnp.sum(density, axis=1)",
        (FORECASTS + "test_paths_know_that_steps_go_together",),
    ),
    Fault(
        "forecasts go on from the first series alone",
        "models/state_space/posterior.py",
        "last = np.flatnonzero((labels >= 0.0) & (labels != following))",
        "last = np.flatnonzero((labels >= 0.0) & (labels != following))[[0, 0]]",
        (POSTERIOR + "test_forecasts_go_on_from_the_last_state_of_each_series",),
    ),
    Fault(
        "outputs that a search starts from cross series",
        "models/state_space/start.py",
        "has_before, has_after = before >= begins, after <= ends",
        "has_before, has_after = before >= 0, after < count",
        (
            "learning/test_state_space.py::"
            "test_outputs_that_a_search_starts_from_do_not_cross_series",
        ),
    ),
    Fault(
        "growth leaves out what kernels add far away",
        "estimators/time_map.py",
        "slopes + value.T / away",
        "slopes + 0.0 * value.T / away",
        ("estimators/test_forecaster.py::test_growth_counts_what_a_linear_kernel_adds",),
    ),
    Fault(
        "rows within the fit that others follow are taken for its end",
        "tables/known_rows.py",
        "enough = to_the_end or (telling and count == len(table))",
        "enough = to_the_end or telling",
        ("tables/test_known_rows.py::test_other_rows_are_not_known",),
    ),
    Fault(
        "controls are taken in their order whatever their times",
        "estimators/times.py",
        "if given is None or before is None or not count or numbered_from_zero(given):",
        "if given is not None or before is None:",
        ("estimators/test_forecast_times.py::test_controls_are_those_of_the_times_that_follow",),
    ),
)
