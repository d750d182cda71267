"""All families, in the order in which they are named."""

from cavity.families.deep import DEEP
from cavity.families.embedding import EMBEDDING
from cavity.families.forecaster import FORECASTER
from cavity.families.gp import GP
from cavity.families.images import IMAGES
from cavity.families.linear import LINEAR
from cavity.families.network import NETWORK

FAMILIES = (GP, IMAGES, DEEP, LINEAR, NETWORK, EMBEDDING, FORECASTER)
