"""All deliberate faults."""

from benchmarks.mutations.active_faults import ACTIVE_FAULTS
from benchmarks.mutations.chain_faults import CHAIN_FAULTS
from benchmarks.mutations.data_faults import DATA_FAULTS
from benchmarks.mutations.deep_faults import DEEP_FAULTS
from benchmarks.mutations.diagnosis_faults import DIAGNOSIS_FAULTS
from benchmarks.mutations.factor_faults import FACTOR_FAULTS
from benchmarks.mutations.forecast_faults import FORECAST_FAULTS
from benchmarks.mutations.graph_faults import GRAPH_FAULTS
from benchmarks.mutations.inducing_faults import INDUCING_FAULTS
from benchmarks.mutations.kernel_faults import KERNEL_FAULTS
from benchmarks.mutations.latent_faults import LATENT_FAULTS
from benchmarks.mutations.learning_faults import LEARNING_FAULTS
from benchmarks.mutations.likelihood_faults import LIKELIHOOD_FAULTS
from benchmarks.mutations.moment_faults import MOMENT_FAULTS
from benchmarks.mutations.part_faults import PART_FAULTS
from benchmarks.mutations.record_faults import RECORD_FAULTS
from benchmarks.mutations.row_weight_faults import ROW_WEIGHT_FAULTS
from benchmarks.mutations.solver_faults import SOLVER_FAULTS
from benchmarks.mutations.streaming_faults import STREAMING_FAULTS
from benchmarks.mutations.weight_faults import WEIGHT_FAULTS

FAULTS = (
    *FACTOR_FAULTS,
    *GRAPH_FAULTS,
    *SOLVER_FAULTS,
    *LEARNING_FAULTS,
    *DEEP_FAULTS,
    *LATENT_FAULTS,
    *FORECAST_FAULTS,
    *CHAIN_FAULTS,
    *DATA_FAULTS,
    *INDUCING_FAULTS,
    *DIAGNOSIS_FAULTS,
    *ACTIVE_FAULTS,
    *STREAMING_FAULTS,
    *WEIGHT_FAULTS,
    *KERNEL_FAULTS,
    *LIKELIHOOD_FAULTS,
    *MOMENT_FAULTS,
    *RECORD_FAULTS,
    *ROW_WEIGHT_FAULTS,
    *PART_FAULTS,
)
