"""Deliberate faults of weights: blocks of them, and tied ones of networks."""

from benchmarks.mutations.fault import Fault

BLOCKS = "weights/test_blocks.py::"
LINEAR = "models/test_linear_blocks.py::"
TIED = "models/test_network_tied.py::"
CAVITIES = "inference/test_weight_blocks.py::test_cavities_are_marginals_without_the_own_site"

WEIGHT_FAULTS = (
    Fault(
        "components of a block's mixture are not apart",
        "weights/blocks.py",
        "N = between + jnp.sum(",
        "N = 0.0 * between + jnp.sum(",
        (BLOCKS + "test_moments_are_derivatives_of_the_integral",),
    ),
    Fault(
        "the prior of a block has no volume",
        "weights/blocks.py",
        "volume = volume - jnp.sum(present * (LOG_2PI + jnp.log(s)), axis=-1)",
        "volume = volume - jnp.sum(present * LOG_2PI, axis=-1)",
        (BLOCKS + "test_power_means_are_integrals_over_the_shared_scale",),
    ),
    Fault(
        "empty places of a block have a prior",
        "weights/blocks.py",
        "t = there / s  # S B P W",
        "t = jnp.ones_like(there) / s",
        (BLOCKS + "test_moments_are_derivatives_of_the_integral",),
    ),
    Fault(
        "empty places of a block count among what the data know",
        "weights/blocks.py",
        "own = present * jnp.maximum(1.0 / s, lost)",
        "own = jnp.maximum(present / s, 1e-14)",
        (LINEAR + "test_units_of_unequal_blocks_change_nothing_but_units",),
    ),
    Fault(
        "the site of a block keeps the cavity's shift",
        "weights/blocks.py",
        "+ a * moved - lowest * g / D",
        "+ a * moved",
        (BLOCKS + "test_moments_are_derivatives_of_the_integral",),
    ),
    Fault(
        "the scale of a block's site forgets the mean of the belief",
        "inference/weights/block_sites.py",
        "return -0.5 * (volume + jnp.sum(pushed**2, axis=-1))",
        "return -0.5 * volume",
        (LINEAR + "test_categories_of_which_data_see_differences_alone",),
    ),
    Fault(
        "the cavity of a block forgets the shifts of other sites",
        "inference/weights/blocks.py",
        "A[leaves, stays], other, h[leaves] + p.reshape(-1)",
        "A[leaves, stays], other, h[leaves]",
        (CAVITIES,),
    ),
    Fault(
        "the cavity of a block holds the weights in no block",
        "inference/weights/blocks.py",
        "if others.shape[0]:",
        "if others.shape[0] > 10**6:",
        (CAVITIES,),
    ),
    Fault(
        "sites of blocks stay as they are where their cavity is improper",
        "inference/site_update.py",
        "moves = finite if site.moves_improper else fine",
        "moves = fine",
        (LINEAR + "test_a_block_that_no_row_sees",),
    ),
    Fault(
        "columns without a block have the parameters of the blocks",
        "inference/weights/blocks.py",
        "units[others] = len(blocks) + np.arange(",
        "units[others] = np.arange(",
        (LINEAR + "test_parameters_have_a_value_for_each_block",),
    ),
    Fault(
        "a block is zero as often as it has columns",
        "learning/diagnostics/probability_zero.py",
        "np.asarray(each.share)[chosen[first]]",
        "np.asarray(each.share)[chosen]",
        (LINEAR + "test_blocks_against_all_models",),
    ),
    Fault(
        "tied weights of a layer have no deviations of their prior",
        "inference/networks/tied_views.py",
        "root = belief.root * self.deviation",
        "root = belief.root",
        (TIED + "test_power_zero_ends_where_private_sites_do",),
    ),
    Fault(
        "starting deviations of tied weights count some of the rows alone",
        "models/network/graphs.py",
        "narrow = (1.0 + share * own**2 * seen) ** -0.5",
        "narrow = (1.0 + own**2 * seen) ** -0.5",
        (TIED + "test_batches_start_as_rows_in_memory_do",),
    ),
    Fault(
        "an integrated parameter of a network is held at its mean",
        "inference/networks/term.py",
        "*(z.var + z.residual for z in others)",
        "*(1e-9 * z.var for z in others)",
        (TIED + "test_integrated_noise_of_a_straight_unit_is_that_of_the_linear_model",),
    ),
)
