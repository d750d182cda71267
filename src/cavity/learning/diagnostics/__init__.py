"""Diagnostics of a fitted model: leave-one-out densities and corrections of the posterior."""
