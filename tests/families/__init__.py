"""Tests of the table of families."""
