"""Integration over parameters: where to evaluate them, and what follows."""
