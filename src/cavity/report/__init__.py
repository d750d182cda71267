"""The report of a fitted model as one HTML page."""
