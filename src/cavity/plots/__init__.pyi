"""The pictures of models: each is imported when it is first used."""

from .component_display import ComponentDisplay as ComponentDisplay
from .component_display import components as components
from .embedding_display import EmbeddingDisplay as EmbeddingDisplay
from .embedding_display import embedding as embedding
from .evidence_display import EvidenceDisplay as EvidenceDisplay
from .evidence_display import evidence as evidence
from .forecast_display import ForecastDisplay as ForecastDisplay
from .forecast_display import forecast as forecast
from .function_display import FunctionDisplay as FunctionDisplay
from .function_display import function as function
from .inducing_display import InducingDisplay as InducingDisplay
from .inducing_display import inducing_points as inducing_points
from .patch_display import PatchDisplay as PatchDisplay
from .patch_display import patches as patches
from .quality_displays import CalibrationDisplay as CalibrationDisplay
from .quality_displays import PredictionDisplay as PredictionDisplay
from .quality_displays import ResidualDisplay as ResidualDisplay
from .quality_displays import calibration as calibration
from .quality_displays import predictions as predictions
from .quality_displays import residuals as residuals
from .relevance_display import RelevanceDisplay as RelevanceDisplay
from .relevance_display import relevance as relevance
from .slice_display import SliceDisplay as SliceDisplay
from .slice_display import partial_effects as partial_effects
from .slice_display import slices as slices
