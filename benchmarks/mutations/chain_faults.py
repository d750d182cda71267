"""Faults of chains: messages in time, sites on states, terms of transitions."""

from benchmarks.mutations.fault import Fault

MESSAGES = "inference/test_chain_messages.py::"
SITES = "models/test_state_sites.py::"
FUNCTIONS = "models/test_function_sites.py::"
TIED = "models/test_tied_states.py::"

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
        "models/deep/term.py",
        "own = [_belief(MeanRoot(mean, jnp.swapaxes(L, 1, 2))) for mean, L in functions]",
        "own = [_belief(MeanRoot(mean, L)) for mean, L in functions]",
        (
            FUNCTIONS
            + "test_power_zero_is_the_variational_bound_at_its_optimum_in_functions_and_states",
        ),
    ),
    Fault(
        "outputs have no share in the site of a state",
        "models/state_space/site_graph.py",
        "count = links.linked + earlier(links.linked) + observed",
        "count = links.linked + earlier(links.linked) + 0.0 * observed",
        (TIED + "test_energies_of_known_transitions_are_those_of_dense_algebra",),
    ),
    Fault(
        "a cavity of a first state takes out its prior",
        "inference/factors/tied_states.py",
        "+ share * V * precision",
        "+ 0.0 * share * V * precision",
        (TIED + "test_energies_of_known_transitions_are_those_of_dense_algebra",),
    ),
    Fault(
        "states without a prior have no powers of two pi (erratum E18)",
        "inference/factors/tied_states.py",
        "(1.0 - copies.first) * LOG_2PI",
        "0.0 * (1.0 - copies.first) * LOG_2PI",
        (TIED + "test_energies_of_known_transitions_are_those_of_dense_algebra",),
    ),
    Fault(
        "states that nothing touches stay where the search starts",
        "inference/factors/tied_states.py",
        "mean = jnp.where(alone, self.mean, store.mean)",
        "mean = store.mean",
        (TIED + "test_states_that_nothing_touches_are_at_their_prior",),
    ),
    Fault(
        "rows of a minibatch see the states of other rows",
        "models/state_space/site_views.py",
        "mean, cov = mean[rows.index], cov[rows.index]",
        "mean, cov = mean[: len(rows.index)], cov[: len(rows.index)]",
        (TIED + "test_minibatches_have_the_energy_of_all_rows_on_average",),
    ),
    Fault(
        "subsequences do not go around the end",
        "learning/data/training_data.py",
        "order = np.roll(np.arange(n), -random.integers(n))",
        "order = np.arange(n)",
        (TIED + "test_every_row_is_in_a_minibatch_as_often_as_any_other",),
    ),
    Fault(
        "affine outputs do not depend on each other",
        "models/state_space/site_terms.py",
        "apart = len(slopes) == 1 or is_exactly(power, 0.0)",
        "apart = True",
        (TIED + "test_the_power_mean_of_affine_outputs_is_its_integral",),
    ),
)
