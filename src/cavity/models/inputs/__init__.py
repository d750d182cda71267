"""Inputs that are uncertain: views of rows, and the encoder of new rows."""
