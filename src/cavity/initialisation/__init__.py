"""Starting points of fits: inducing points and their kinds, blocks of rows, network weights."""

from cavity.learning.initialisation.inducing_kinds import initial_inducing
from cavity.learning.initialisation.inducing_points import cluster_blocks, select_inducing
from cavity.learning.initialisation.network import network_at_mode
from cavity.models.network.start import NetworkStart

__all__ = [
    "NetworkStart",
    "cluster_blocks",
    "initial_inducing",
    "network_at_mode",
    "select_inducing",
]
