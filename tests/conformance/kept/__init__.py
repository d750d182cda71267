"""Model files that were written once, one of each family, and must load from now on.

`python -m tests.conformance.kept` writes those that are missing, and never one that is there.
"""
