"""Starting points of fits: inducing points and their kinds, blocks of rows, network weights."""

from cavity.learning.initialisation.asked_inducing import Inducing
from cavity.learning.initialisation.inducing_kinds import initial_inducing
from cavity.learning.initialisation.inducing_points import cluster_blocks, select_inducing
from cavity.learning.initialisation.network import network_at_mode
from cavity.models.network.start import NetworkStart

__all__ = [
    "Inducing",
    "NetworkStart",
    "cluster_blocks",
    "initial_inducing",
    "network_at_mode",
    "select_inducing",
]


def __dir__() -> list[str]:
    return __all__
