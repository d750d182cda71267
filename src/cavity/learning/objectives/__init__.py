"""Objectives of learning."""
