"""Faults of chains: messages in time, sites on states, terms of transitions."""

from benchmarks.mutations.fault import Fault

MESSAGES = "inference/test_chain_messages.py::"
SITES = "models/test_state_sites.py::"
FUNCTIONS = "models/test_function_sites.py::"

CHAIN_FAULTS = (
    Fault(
        "backward messages do not pass on the spread of later states",
        "inference/variables/chain_messages.py",
        "cov = spread + gain @ cov @ gain.T",
        "cov = spread + 0.0 * gain @ cov @ gain.T",
        (MESSAGES + "test_marginals_log_partition_entropy_and_the_way_back",),
    ),
    Fault(
        "slopes of a chain leave out the product of neighbouring means",
        "inference/variables/chain_messages.py",
        "-(cross + _outer(jnp.roll(mean, 1, axis=0), mean)).at[0].set(0.0)",
        "-cross.at[0].set(0.0)",
        (MESSAGES + "test_slopes_of_the_log_partition_are_moments_and_finite_differences",),
    ),
    Fault(
        "transitions have no powers of two pi",
        "inference/variables/chain_messages.py",
        "0.5 * (jnp.sum(k**2) - jnp.sum(volumes) + T * size * LOG_2PI)",
        "0.5 * (jnp.sum(k**2) - jnp.sum(volumes))",
        (MESSAGES + "test_marginals_log_partition_entropy_and_the_way_back",),
    ),
    Fault(
        "sites say nothing to the state before",
        "models/state_space/site_views.py",
        "P[:, size:, size:] + earlier(P[:, :size, :size])",
        "P[:, size:, size:] + 0.0 * earlier(P[:, :size, :size])",
        (SITES + "test_one_sweep_at_power_zero_is_the_kalman_smoother",),
    ),
    Fault(
        "a transition leaves out what the state before says of the later one",
        "models/state_space/site_terms.py",
        "across @ root, spread)",
        "0.0 * across @ root, spread)",
        (SITES + "test_the_power_mean_of_a_transition_is_its_integral",),
    ),
    Fault(
        "the covariance of a difference adds the linear map (erratum E14)",
        "models/state_space/joint_propagation.py",
        "return _one_gaussian(mean, slopes - W, bent, rows)",
        "return _one_gaussian(mean, slopes + W, bent, rows)",
        (SITES + "test_the_power_mean_of_a_transition_is_its_integral",),
    ),
    Fault(
        "the determinant of a transition does not see the power",
        "models/state_space/site_terms.py",
        "return log_determinant_ratio(power, S) + quadratic",
        "return log_determinant_ratio(1.0, S) + quadratic",
        (SITES + "test_the_power_mean_of_a_transition_is_its_integral",),
    ),
    Fault(
        "missing outputs of functions count",
        "models/state_space/site_terms.py",
        "residual = present * residual",
        "residual = 1.0 * residual",
        (SITES + "test_the_power_mean_of_outputs_is_its_integral",),
    ),
    Fault(
        "cavities of functions have transposed roots",
        "models/state_space/site_terms.py",
        "own = tuple(Latent(mean, jnp.swapaxes(L, 1, 2), zero) for mean, L in functions)",
        "own = tuple(Latent(mean, L, zero) for mean, L in functions)",
        (
            FUNCTIONS
            + "test_power_zero_is_the_variational_bound_at_its_optimum_in_functions_and_states",
        ),
    ),
)
