"""Estimators with the interface of scikit-learn."""
